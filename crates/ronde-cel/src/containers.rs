//! Lists and maps while a rule runs: those of the object with their schema, and those that rules make.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    sync::Arc,
};

use serde_json::Value;

use super::{
    convert::to_val,
    equality::{Identity, equal, identity, keys_of, weight},
    escape::{escape, unescape},
    meter::Meter,
    value::{Eval, Key, Val, no_such_overload},
};
use crate::schema::{Additional, ListType, Node};

/// A list of the object, or one that the rule made.
#[derive(Debug, Clone)]
pub(super) enum List<'a> {
    Data { items: &'a [Value], node: Node<'a> },
    Made { items: Rc<Vec<Val<'a>>>, kind: &'a ListType },
}

/// A map or object of the object, or a map that the rule made.
#[derive(Debug, Clone)]
pub(super) enum Map<'a> {
    Data { entries: &'a serde_json::Map<String, Value>, node: Node<'a> },
    Made(Rc<BTreeMap<Key, Val<'a>>>),
}

impl<'a> List<'a> {
    pub fn len(&self) -> usize {
        match self {
            Self::Data { items, .. } => items.len(),
            Self::Made { items, .. } => items.len(),
        }
    }

    pub fn get(&self, at: usize) -> Option<Eval<Val<'a>>> {
        match self {
            Self::Data { items, node } => items.get(at).map(|item| to_val(item, node.items())),
            Self::Made { items, .. } => items.get(at).cloned().map(Ok),
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = Eval<Val<'a>>> + '_ {
        (0..self.len()).filter_map(|at| self.get(at))
    }

    fn kind(&self) -> &'a ListType {
        match self {
            Self::Data { node, .. } => &node.data().list,
            Self::Made { kind, .. } => kind,
        }
    }

    pub fn contains(&self, meter: &mut Meter, value: &Val<'a>) -> Eval<bool> {
        for item in self.iter() {
            if equal(meter, &item?, value)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// `self + other`: sets unite, keyed lists merge by key, others append.
    pub fn concat(&self, meter: &mut Meter, other: &Self) -> Eval<Self> {
        meter.work(self.len() + other.len())?;
        let kind = self.kind();
        let mut items: Vec<Val<'a>> = self.iter().collect::<Eval<_>>()?;
        match kind {
            ListType::Atomic => items.extend(other.iter().collect::<Eval<Vec<_>>>()?),
            ListType::Set => {
                let mut seen: BTreeSet<Identity> =
                    items.iter().map(|item| identity(meter, item)).collect::<Eval<_>>()?;
                for item in other.iter() {
                    let item = item?;
                    if seen.insert(identity(meter, &item)?) {
                        items.push(item);
                    }
                }
            }
            ListType::Map(keys) => {
                let mut places = BTreeMap::new();
                for (at, item) in items.iter().enumerate() {
                    places.insert(keys_of(meter, item, keys)?, at);
                }
                for item in other.iter() {
                    let item = item?;
                    match places.get(&keys_of(meter, &item, keys)?) {
                        Some(&at) => items[at] = item,
                        None => items.push(item),
                    }
                }
            }
        }
        Ok(Self::Made { items: Rc::new(items), kind })
    }

    pub fn equals(&self, meter: &mut Meter, other: &Self) -> Eval<bool> {
        if self.len() != other.len() {
            return Ok(false);
        }
        match self.kind() {
            ListType::Atomic => {
                for (left, right) in self.iter().zip(other.iter()) {
                    if !equal(meter, &left?, &right?)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            ListType::Set => {
                let mut mine: BTreeSet<Identity> = BTreeSet::new();
                for item in self.iter() {
                    mine.insert(identity(meter, &item?)?);
                }
                for item in other.iter() {
                    if !mine.contains(&identity(meter, &item?)?) {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            ListType::Map(keys) => {
                let mut mine = BTreeMap::new();
                for item in self.iter() {
                    let item = item?;
                    mine.insert(keys_of(meter, &item, keys)?, item);
                }
                for item in other.iter() {
                    let item = item?;
                    match mine.get(&keys_of(meter, &item, keys)?) {
                        Some(counterpart) if equal(meter, counterpart, &item)? => {}
                        _ => return Ok(false),
                    }
                }
                Ok(true)
            }
        }
    }
}

impl<'a> Map<'a> {
    pub fn len(&self) -> usize {
        match self {
            Self::Data { entries, .. } => entries.len(),
            Self::Made(entries) => entries.len(),
        }
    }

    /// Whether this is an object with named fields rather than a map.
    fn is_object(node: Node<'_>) -> bool {
        !node.data().properties.is_empty() || node.data().embedded_resource
    }

    fn schema_of(node: Node<'a>, key: &str) -> Option<Node<'a>> {
        match (node.data().properties.get(key), node.data().additional) {
            (Some(&id), _) | (None, Additional::Values(id)) => Some(node.at(id)),
            _ => None,
        }
    }

    /// The value under a key that a rule names. Fields of objects have escaped names, and null counts as absent.
    pub fn find(&self, key: &Key) -> Eval<Option<Val<'a>>> {
        match self {
            Self::Made(entries) => Ok(entries.get(key).cloned()),
            Self::Data { entries, node } => {
                let Key::String(name) = key else { return no_such_overload() };
                let name = if Self::is_object(*node) { unescape(name) } else { Some(Cow::Borrowed(&**name)) };
                let Some(name) = name else { return Ok(None) };
                Self::find_named(entries, *node, &name)
            }
        }
    }

    fn find_named(entries: &'a serde_json::Map<String, Value>, node: Node<'a>, name: &str) -> Eval<Option<Val<'a>>> {
        match (entries.get(name), Self::schema_of(node, name)) {
            (Some(Value::Null), _) if Self::is_object(node) => Ok(None),
            (Some(value), Some(schema)) => to_val(value, Some(schema)).map(Some),
            _ => Ok(None),
        }
    }

    /// The keys as rules see them, one at a time: a loop may end long before the last.
    pub fn keys(&self) -> Box<dyn Iterator<Item = Key> + '_> {
        match self {
            Self::Made(entries) => Box::new(entries.keys().cloned()),
            Self::Data { entries, node } => {
                let is_object = Self::is_object(*node);
                let known = entries.keys().filter(|key| Self::schema_of(*node, key).is_some());
                Box::new(known.map(move |key| {
                    let escaped = if is_object { escape(key) } else { None };
                    Key::String(Arc::from(escaped.as_deref().unwrap_or(key)))
                }))
            }
        }
    }

    pub fn equals(&self, meter: &mut Meter, other: &Self) -> Eval<bool> {
        if self.len() != other.len() {
            return Ok(false);
        }
        match self {
            Self::Made(entries) => {
                for (key, value) in &**entries {
                    match other.find(key)? {
                        Some(counterpart) if equal(meter, value, &counterpart)? => {}
                        _ => return Ok(false),
                    }
                }
            }
            Self::Data { entries, node } => {
                for (name, value) in *entries {
                    if !Self::field_equals(meter, other, (entries, *node), (name, value))? {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }

    fn field_equals(
        meter: &mut Meter,
        other: &Self,
        (entries, node): (&'a serde_json::Map<String, Value>, Node<'a>),
        (name, value): (&str, &Value),
    ) -> Eval<bool> {
        let counterpart = match other {
            Self::Data { entries, node } => {
                if Self::schema_of(*node, name).is_none() {
                    // Fields the schema does not know are compared as they are, if both have them.
                    let Some(other) = entries.get(name) else { return Ok(true) };
                    meter.work(weight(value))?;
                    return Ok(other == value);
                }
                Self::find_named(entries, *node, name)?
            }
            Self::Made(made) => made.get(&Key::String(Arc::from(name))).cloned(),
        };
        match (Self::find_named(entries, node, name)?, counterpart) {
            (None, None) => Ok(true),
            (Some(mine), Some(theirs)) => equal(meter, &mine, &theirs),
            _ => Ok(false),
        }
    }
}
