//! Merges an applied configuration into an object, and takes fields out of one.
//!
//! Both work on owned values, so that what is untouched is moved, not copied. What may be taken out is decided by the
//! caller (`prune.rs`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value};

use super::{
    element,
    fieldset::{self, Tree},
    place::{Place, Shape},
};

/// Returns `live` with all that `applied` says. Nothing is removed.
pub fn merge(live: Value, applied: &Value, place: Place<'_>) -> Value {
    let shape = place.shape(if applied.is_null() { &live } else { applied });
    match (shape, live, applied) {
        (Shape::Map, Value::Object(live), Value::Object(applied)) => Value::Object(merge_fields(live, applied, place)),
        // Null adds nothing to a map or list that has parts; it replaces everything else.
        (Shape::Map, Value::Object(live), Value::Null) if !live.is_empty() => Value::Object(live),
        (Shape::List, Value::Array(live), Value::Null) if !live.is_empty() => Value::Array(live),
        (Shape::List, Value::Array(live), Value::Array(applied)) => Value::Array(merge_items(live, applied, place)),
        _ => applied.clone(),
    }
}

/// Returns `object` without the fields in `gone`. Maps and lists that lose their last part become null.
pub fn remove(object: Value, gone: &Tree, place: Place<'_>) -> Value {
    match (place.shape(&object), object) {
        (Shape::Map, Value::Object(fields)) => remove_fields(fields, gone, place),
        (Shape::List, Value::Array(items)) => remove_items(items, gone, place),
        (Shape::Leaf, Value::Object(_) | Value::Array(_)) => Value::Null,
        (_, scalar) => scalar,
    }
}

fn merge_fields(mut live: Map<String, Value>, applied: &Map<String, Value>, place: Place<'_>) -> Map<String, Value> {
    for (name, value) in applied {
        match live.get_mut(name) {
            Some(slot) => *slot = merge(slot.take(), value, place.field_or_free(name)),
            None => {
                live.insert(name.clone(), value.clone());
            }
        }
    }
    live
}

/// Merges two sets, or two lists with keys.
///
/// Items of both come in the applied order; live items that are not applied stay between their neighbours.
fn merge_items(live: Vec<Value>, applied: &[Value], place: Place<'_>) -> Vec<Value> {
    let applied: Vec<(String, &Value)> =
        applied.iter().map(|item| (place.element(item).unwrap_or_default(), item)).collect();
    let mut live = LiveItems::new(live, place);
    let wanted: BTreeSet<&str> = applied.iter().map(|(element, _)| element.as_str()).collect();
    let mut shared: VecDeque<&str> = applied
        .iter()
        .map(|(element, _)| element.as_str())
        .filter(|element| live.index.contains_key(*element))
        .collect();
    let mut merged = BTreeSet::new();
    let mut out = Vec::with_capacity(live.elements.len().max(applied.len()));
    let mut rest = applied.as_slice();
    loop {
        match live.head() {
            Some(head) if !wanted.contains(head) => {
                out.extend(live.take_head());
                continue;
            }
            Some(head) if rest.first().is_some_and(|(next, _)| next == head) => live.skip_head(),
            Some(head) if rest.is_empty() || shared.front().is_some_and(|next| *next != head) => {
                live.skip_head();
                continue;
            }
            Some(head) if merged.contains(head) => live.skip_head(),
            _ => {}
        }
        let Some(((element, item), after)) = rest.split_first() else { break };
        rest = after;
        out.push(match live.take(element) {
            Some(old) => merge(old, item, place.items()),
            None => (*item).clone(),
        });
        shared.pop_front_if(|next| *next == element);
        merged.insert(element.as_str());
    }
    out
}

/// The live items, taken by element or in order.
struct LiveItems {
    elements: Vec<String>,
    items: Vec<Option<Value>>,
    next: usize,
    /// Where the item with an element is; none if there are several, which are not merged with anything.
    index: BTreeMap<String, Option<usize>>,
}

impl LiveItems {
    fn new(live: Vec<Value>, place: Place<'_>) -> Self {
        let elements: Vec<String> = live.iter().map(|item| place.element(item).unwrap_or_default()).collect();
        let mut index = BTreeMap::new();
        for (i, element) in elements.iter().enumerate() {
            index.entry(element.clone()).and_modify(|at| *at = None).or_insert(Some(i));
        }
        Self { elements, items: live.into_iter().map(Some).collect(), next: 0, index }
    }

    fn head(&self) -> Option<&str> {
        self.elements.get(self.next).map(String::as_str)
    }

    fn skip_head(&mut self) {
        self.next += 1;
    }

    fn take_head(&mut self) -> Option<Value> {
        let item = self.items.get_mut(self.next).and_then(Option::take);
        self.next += 1;
        item
    }

    fn take(&mut self, element: &str) -> Option<Value> {
        let at = self.index.get(element).copied().flatten()?;
        self.items.get_mut(at).and_then(Option::take)
    }
}

fn remove_fields(mut fields: Map<String, Value>, gone: &Tree, place: Place<'_>) -> Value {
    for (element, node) in fieldset::children(gone) {
        let Some(name) = element::field_name(element) else { continue };
        if fieldset::is_member(node) {
            fields.remove(name);
        } else if let Some(slot) = fields.get_mut(name) {
            *slot = remove(slot.take(), node, place.field_or_free(name));
        }
    }
    if fields.is_empty() { Value::Null } else { Value::Object(fields) }
}

fn remove_items(items: Vec<Value>, gone: &Tree, place: Place<'_>) -> Value {
    let keep = |item: Value| {
        let node = place.element(&item).ok().and_then(|element| fieldset::child(gone, &element));
        match node {
            None => Some(item),
            Some(node) if fieldset::is_member(node) => None,
            Some(node) => Some(remove(item, node, place.items())),
        }
    };
    let kept: Vec<Value> = items.into_iter().filter_map(keep).collect();
    if kept.is_empty() { Value::Null } else { Value::Array(kept) }
}
