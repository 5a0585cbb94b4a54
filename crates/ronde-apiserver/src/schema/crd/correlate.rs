//! Pairs a value with what it was before an update, along the schema.
//!
//! Two uses: mistakes in parts that did not change are forgiven (ratcheting), and rules may compare with the value
//! before. Fields pair by name, items of keyed lists by their keys; other lists do not pair.

use std::{cell::OnceCell, collections::BTreeMap};

use serde_json::Value;

use crate::schema::{Additional, ListType, Node};

/// A value, its counterpart before the update, and their schema.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair<'a> {
    pub new: &'a Value,
    pub old: &'a Value,
    node: Node<'a>,
    /// The whole resource: its metadata always differs, so it never counts as unchanged.
    is_root: bool,
}

impl<'a> Pair<'a> {
    pub fn root(new: &'a Value, old: &'a Value, node: Node<'a>) -> Self {
        Self { new, old, node, is_root: true }
    }

    pub fn part(new: &'a Value, old: &'a Value, node: Node<'a>) -> Self {
        Self { new, old, node, is_root: false }
    }

    /// The pair of a field; none if it is new, or if the schema does not know it.
    pub fn key(self, name: &str) -> Option<Self> {
        let (new, old) = (self.new.as_object()?.get(name)?, self.old.as_object()?.get(name)?);
        let data = self.node.data();
        let node = match (data.properties.get(name), data.additional) {
            (Some(&id), _) | (None, Additional::Values(id)) => self.node.at(id),
            _ => return None,
        };
        if node.data().checks.as_ref().is_some_and(|checks| checks.schemaless) {
            return None;
        }
        Some(Self::part(new, old, node))
    }

    /// The pairs of the items of a keyed list, by place; none for items that are new.
    pub fn items(self) -> impl Iterator<Item = Option<Self>> {
        let old = self.old.as_array().map(|old| OldItems::new(old, &self.node.data().list));
        let new = self.new.as_array().map(Vec::as_slice).unwrap_or_default();
        new.iter().map(move |new| Some(Self::part(new, old.as_ref()?.counterpart(new)?, self.node.items()?)))
    }

    /// Whether nothing changed here.
    pub fn is_unchanged(self) -> bool {
        if self.is_root {
            return false;
        }
        match (self.new, self.old) {
            (Value::Object(new), Value::Object(old)) => {
                // The metadata of an embedded resource has no schema of its own.
                let opaque = self.node.embedded_resource && new.contains_key("metadata");
                !opaque
                    && new.len() == old.len()
                    && new.keys().all(|name| self.key(name).is_some_and(Self::is_unchanged))
            }
            (Value::Array(new), Value::Array(old)) => {
                if !matches!(self.node.data().list, ListType::Map(_)) {
                    return new == old;
                }
                new.len() == old.len() && self.items().all(|item| item.is_some_and(Self::is_unchanged))
            }
            (new, old) => new == old,
        }
    }
}

/// A pair whose sameness is found out once, however many of its parts ask.
#[derive(Debug)]
pub(super) struct Remembered<'a> {
    pair: Pair<'a>,
    is_unchanged: OnceCell<bool>,
}

impl<'a> Remembered<'a> {
    pub fn new(pair: Pair<'a>) -> Self {
        Self { pair, is_unchanged: OnceCell::new() }
    }

    pub fn is_unchanged(&self) -> bool {
        *self.is_unchanged.get_or_init(|| self.pair.is_unchanged())
    }
}

/// The items of a keyed list before the update, by their keys; the first of several with the same. Empty for other
/// lists, whose items do not pair.
pub(super) struct OldItems<'a> {
    keys: &'a [String],
    items: BTreeMap<Vec<String>, &'a Value>,
}

impl<'a> OldItems<'a> {
    pub fn new(old: &'a [Value], list: &'a ListType) -> Self {
        let keys = if let ListType::Map(keys) = list { keys.as_slice() } else { &[] };
        let mut items = BTreeMap::new();
        for item in old {
            if let Some(values) = keys_of(item, keys) {
                items.entry(values).or_insert(item);
            }
        }
        Self { keys, items }
    }

    /// The item before the update that has the same keys.
    pub fn counterpart(&self, item: &Value) -> Option<&'a Value> {
        self.items.get(&keys_of(item, self.keys)?).copied()
    }
}

/// The values of the key fields, if all are there and none is a list or object.
fn keys_of(item: &Value, keys: &[String]) -> Option<Vec<String>> {
    let fields = item.as_object().filter(|_| !keys.is_empty())?;
    let value = |key: &String| fields.get(key).filter(|v| !(v.is_object() || v.is_array() || v.is_null()));
    keys.iter().map(|key| value(key).map(Value::to_string)).collect()
}
