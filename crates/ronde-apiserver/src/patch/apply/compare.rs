//! Compares two objects and lists the fields of one: the sets that ownership is computed from.
//!
//! [`compare`] runs on every write, so it makes text only for what differs. [`leaves`] is what an applied configuration
//! claims. Both only read.

use std::{collections::BTreeMap, sync::LazyLock};

use serde_json::{Map, Value};

use super::{
    element,
    fieldset::{Branch, FieldSet},
    place::{Place, Shape},
};

/// The fields in which two objects differ. No field is in two of the sets.
#[derive(Debug, Default)]
pub struct Diff {
    pub removed: FieldSet,
    pub modified: FieldSet,
    pub added: FieldSet,
}

impl Diff {
    pub fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.modified.is_empty() && self.added.is_empty()
    }

    pub fn sets_mut(&mut self) -> [&mut FieldSet; 3] {
        [&mut self.removed, &mut self.modified, &mut self.added]
    }
}

/// Returns what `new` has changed against `old`.
pub fn compare(old: &Value, new: &Value, place: Place<'_>) -> Diff {
    let mut change = Change::default();
    change.between(old, new, place);
    Diff {
        removed: FieldSet::from_root(change.removed),
        modified: FieldSet::from_root(change.modified),
        added: FieldSet::from_root(change.added),
    }
}

/// Returns the fields that a configuration claims: its leaves, its list items, and the entries of its maps.
pub fn leaves(config: &Value, place: Place<'_>) -> FieldSet {
    FieldSet::from_root(claimed(config, place))
}

/// Whether two values are equal; `1` and `1.0` are.
pub fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => x == y || x.as_f64() == y.as_f64(),
        (Value::Array(x), Value::Array(y)) => x.len() == y.len() && x.iter().zip(y).all(|(x, y)| same(x, y)),
        (Value::Object(x), Value::Object(y)) => {
            x.len() == y.len() && x.iter().all(|(name, x)| y.get(name).is_some_and(|y| same(x, y)))
        }
        _ => a == b,
    }
}

/// What differs at and below one place.
#[derive(Default)]
struct Change {
    removed: Branch,
    modified: Branch,
    added: Branch,
}

impl Change {
    fn between(&mut self, old: &Value, new: &Value, place: Place<'_>) {
        // Null takes the shape of its counterpart.
        let (old_shape, new_shape) =
            (place.shape(if old.is_null() { new } else { old }), place.shape(if new.is_null() { old } else { new }));
        if old_shape != new_shape {
            self.between_shapes((old, old_shape), (new, new_shape), place);
        } else if old_shape == Shape::Leaf || (is_hollow(old) && is_hollow(new)) {
            self.modified.member = !same(old, new);
        } else if old_shape == Shape::Map {
            self.between_maps(fields(old), fields(new), place);
        } else {
            self.between_lists(items(old), items(new), place);
        }
    }

    /// An open place changed from a map to a leaf or back: the leaf is modified, the parts of the map come or go.
    fn between_shapes(
        &mut self,
        (old, old_shape): (&Value, Shape),
        (new, new_shape): (&Value, Shape),
        place: Place<'_>,
    ) {
        self.modified.member = [(old, old_shape), (new, new_shape)]
            .into_iter()
            .any(|(value, shape)| shape == Shape::Leaf || is_hollow(value));
        self.removed.below = present(old, old_shape, place).below;
        self.added.below = present(new, new_shape, place).below;
    }

    fn between_maps(&mut self, old: &Map<String, Value>, new: &Map<String, Value>, place: Place<'_>) {
        for (name, old_value) in old {
            match new.get(name) {
                // Most of an object is untouched; equality needs no look at the schema.
                Some(new_value) if old_value == new_value => {}
                Some(new_value) => {
                    let mut change = Change::default();
                    change.between(old_value, new_value, place.field_or_free(name));
                    self.insert(|| element::field(name), change);
                }
                None => self.removed.insert(element::field(name), all(old_value, place.field_or_free(name))),
            }
        }
        for (name, new_value) in new.iter().filter(|(name, _)| !old.contains_key(*name)) {
            self.added.insert(element::field(name), all(new_value, place.field_or_free(name)));
        }
    }

    fn between_lists(&mut self, old: &[Value], new: &[Value], place: Place<'_>) {
        let mut new = by_element(new, place);
        for (element, old) in by_element(old, place) {
            let mut change = Change::default();
            let new = new.remove(&element).unwrap_or_default();
            change.between_items(&old, &new, place.items());
            self.insert(|| element, change);
        }
        for (element, items) in new {
            self.added.insert(element, all_items(&items, place.items()));
        }
    }

    /// Compares the items with one element: usually one on each side. Duplicates are one leaf.
    fn between_items(&mut self, old: &[&Value], new: &[&Value], place: Place<'_>) {
        match (old, new) {
            ([old], [new]) => self.between(old, new, place),
            ([_, _, ..], [_, _, ..]) => {
                self.modified.member = old.len() != new.len() || old.iter().zip(new).any(|(old, new)| !same(old, new));
            }
            _ => {
                self.removed = all_items(old, place);
                self.added = all_items(new, place);
            }
        }
    }

    fn insert(&mut self, element: impl FnOnce() -> String, change: Change) {
        let pairs = [
            (&mut self.removed, change.removed),
            (&mut self.modified, change.modified),
            (&mut self.added, change.added),
        ];
        let changed: Vec<(&mut Branch, Branch)> = pairs.into_iter().filter(|(_, branch)| !branch.is_empty()).collect();
        if changed.is_empty() {
            return;
        }
        let element = element();
        for (set, branch) in changed {
            set.insert(element.clone(), branch);
        }
    }
}

/// Everything at and below a value that is there on one side only.
fn all(value: &Value, place: Place<'_>) -> Branch {
    let mut branch = present(value, place.shape(value), place);
    branch.member = true;
    branch
}

/// Everything below a value.
fn present(value: &Value, shape: Shape, place: Place<'_>) -> Branch {
    let mut branch = Branch::default();
    match shape {
        Shape::Leaf => {}
        Shape::Map => {
            for (name, value) in fields(value) {
                branch.insert(element::field(name), all(value, place.field_or_free(name)));
            }
        }
        Shape::List => {
            for (element, items) in by_element(items(value), place) {
                branch.insert(element, all_items(&items, place.items()));
            }
        }
    }
    branch
}

fn all_items(items: &[&Value], place: Place<'_>) -> Branch {
    match items {
        [] => Branch::default(),
        [item] => all(item, place),
        _ => Branch::leaf(),
    }
}

fn claimed(value: &Value, place: Place<'_>) -> Branch {
    let mut branch = Branch::default();
    match place.shape(value) {
        Shape::Leaf => branch.member = true,
        Shape::Map => {
            for (name, value) in fields(value) {
                let mut child = claimed(value, place.field_or_free(name));
                let is_empty_map = value.as_object().is_some_and(Map::is_empty);
                child.member |= value.is_null() || is_empty_map || !place.declares(name);
                branch.insert(element::field(name), child);
            }
        }
        Shape::List => {
            for (element, items) in by_element(items(value), place) {
                let mut child = if let [item] = items[..] { claimed(item, place.items()) } else { Branch::default() };
                child.member = true;
                branch.insert(element, child);
            }
        }
    }
    branch
}

/// Groups items by what tells them apart. Items that nothing tells apart belong to nobody.
fn by_element<'v>(items: &'v [Value], place: Place<'_>) -> BTreeMap<String, Vec<&'v Value>> {
    let mut groups: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for item in items {
        if let Ok(element) = place.element(item) {
            groups.entry(element).or_default().push(item);
        }
    }
    groups
}

fn is_hollow(value: &Value) -> bool {
    fields(value).is_empty() && items(value).is_empty()
}

fn fields(value: &Value) -> &Map<String, Value> {
    static NONE: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
    value.as_object().unwrap_or(&NONE)
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
