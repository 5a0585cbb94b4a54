//! Merging lists: of objects by their merge key, of scalars as sets; others are replaced.
//!
//! All lookups go through hash maps, so that a long list and a long patch cost no more than their lengths.

use std::{
    collections::{HashMap, HashSet},
    mem,
};

use serde_json::{Map, Value};

use crate::schema::Node;

use super::{Fault, PATCH, merge_object, order};

/// Merges a list of scalars or objects; with `deletes`, the change lists scalars that are to go.
pub(super) fn merge(live: Vec<Value>, change: &[Value], list: Node<'_>, deletes: bool) -> Result<Vec<Value>, Fault> {
    if !list.patch.merge && !deletes {
        return Ok(change.to_vec());
    }
    if live.is_empty() && change.is_empty() {
        return Ok(live);
    }
    match (element_kind(&live, change)?, list.patch.merge_key.as_deref()) {
        (Kind::Object, None) => Err(Fault::Other("cannot merge lists without merge key for struct".to_owned())),
        (Kind::Object, Some(key)) => merge_objects(live, change, key, list),
        (Kind::Scalar, _) if deletes => Ok(without(live, change)),
        (Kind::Scalar, key) => merge_scalars(live, change, key),
    }
}

/// What a list consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Scalar,
    Object,
}

/// Finds out what two lists consist of; all their elements must be of one type.
pub(super) fn element_kind(live: &[Value], change: &[Value]) -> Result<Kind, Fault> {
    let mut all = live.iter().chain(change);
    let kind = match all.next() {
        None => return Err(Fault::Other("no elements in any of the given slices".to_owned())),
        Some(Value::Null) => return Err(Fault::mixed_types(live, change)),
        Some(Value::Array(_)) => return Err(Fault::ListOfLists),
        Some(first) => first,
    };
    let is_same = |item: &Value| mem::discriminant(item) == mem::discriminant(kind) && item.is_f64() == kind.is_f64();
    if !all.all(is_same) {
        return Err(Fault::mixed_types(live, change));
    }
    Ok(if kind.is_object() { Kind::Object } else { Kind::Scalar })
}

fn without(mut live: Vec<Value>, change: &[Value]) -> Vec<Value> {
    let gone: HashSet<&Value> = change.iter().collect();
    live.retain(|item| !gone.contains(item));
    live
}

fn merge_scalars(live: Vec<Value>, change: &[Value], key: Option<&str>) -> Result<Vec<Value>, Fault> {
    let order = order::positions(&live, key)?;
    let mut seen = HashSet::new();
    let mut merged = live;
    merged.extend_from_slice(change);
    merged.retain(|item| seen.insert(item.clone()));
    order::arrange(merged, change, &order, key)
}

fn merge_objects(live: Vec<Value>, change: &[Value], key: &str, list: Node<'_>) -> Result<Vec<Value>, Fault> {
    let Special { deleted, replaces, rest } = special(change, key)?;
    if replaces {
        let items: Vec<Value> = rest.into_iter().map(|item| Value::Object(item.clone())).collect();
        let order = order::positions(&items, Some(key))?;
        return order::arrange(items, &[], &order, Some(key));
    }
    let mut merged = live;
    if !deleted.is_empty() {
        merged.retain(|item| item.get(key).is_none_or(|value| !deleted.contains(value)));
    }
    let order = order::positions(&merged, Some(key))?;
    let schema = list.items().ok_or_else(|| Fault::Other("the items of a list have no schema".to_owned()))?;
    let mut places: HashMap<Value, usize> = order.clone();
    for &item in &rest {
        let value = item.get(key).ok_or_else(|| Fault::no_merge_key(item, key))?;
        if let Some(Value::Object(fields)) = places.get(value).and_then(|place| merged.get_mut(*place)) {
            merge_object(fields, item, schema)?;
        } else {
            places.insert(value.clone(), merged.len());
            merged.push(Value::Object(item.clone()));
        }
    }
    let wanted: Vec<Value> = rest.into_iter().map(|item| Value::Object(only(item, key))).collect();
    order::arrange(merged, &wanted, &order, Some(key))
}

/// The directives in a list and what is left without them.
struct Special<'p> {
    /// The merge keys of `$patch: delete`.
    deleted: HashSet<&'p Value>,
    /// Whether there is a `$patch: replace`.
    replaces: bool,
    rest: Vec<&'p Map<String, Value>>,
}

fn special<'p>(change: &'p [Value], key: &str) -> Result<Special<'p>, Fault> {
    let mut special = Special { deleted: HashSet::new(), replaces: false, rest: Vec::new() };
    for item in change {
        let item = item.as_object().ok_or_else(|| Fault::not_an_object(item))?;
        match item.get(PATCH) {
            None => special.rest.push(item),
            Some(directive) => match directive.as_str() {
                Some("delete") => {
                    special.deleted.insert(item.get(key).ok_or_else(|| Fault::no_merge_key(item, key))?);
                }
                Some("replace") => special.replaces = true,
                Some("merge") => {
                    return Err(Fault::Other("merging lists cannot yet be specified in the patch".to_owned()));
                }
                _ => return Err(Fault::unknown_directive(directive, item)),
            },
        }
    }
    Ok(special)
}

fn only(item: &Map<String, Value>, key: &str) -> Map<String, Value> {
    item.get(key).map(|value| (key.to_owned(), value.clone())).into_iter().collect()
}
