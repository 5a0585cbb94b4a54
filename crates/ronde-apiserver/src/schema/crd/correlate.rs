//! Pairs a value with what it was before an update, along the schema.
//!
//! Two uses: mistakes in parts that did not change are forgiven (ratcheting), and rules may compare with the value
//! before. Fields pair by name, items of keyed lists by their keys; other lists do not pair.

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

    /// The pair of an item of a keyed list.
    pub fn index(self, at: usize) -> Option<Self> {
        let new = self.new.as_array()?.get(at)?;
        let old = counterpart(new, self.old.as_array()?, &self.node.data().list)?;
        Some(Self::part(new, old, self.node.items()?))
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
                new.len() == old.len() && (0..new.len()).all(|at| self.index(at).is_some_and(Self::is_unchanged))
            }
            (new, old) => new == old,
        }
    }
}

/// The item of the old list that has the same keys.
pub(super) fn counterpart<'a>(item: &Value, old: &'a [Value], list: &ListType) -> Option<&'a Value> {
    let ListType::Map(keys) = list else { return None };
    let wanted = keys_of(item, keys)?;
    old.iter().find(|candidate| keys_of(candidate, keys).as_ref() == Some(&wanted))
}

/// The values of the key fields, if all are there and none is a list or object.
fn keys_of<'v>(item: &'v Value, keys: &[String]) -> Option<Vec<&'v Value>> {
    let fields = item.as_object().filter(|_| !keys.is_empty())?;
    let value = |key: &String| fields.get(key).filter(|v| !(v.is_object() || v.is_array() || v.is_null()));
    keys.iter().map(value).collect()
}
