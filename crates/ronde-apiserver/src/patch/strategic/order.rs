//! The order of merged lists, and `$setElementOrder`, with which a patch asks for one.
//!
//! What the patch names comes in the patch's order, the rest in the live order, and the two are interleaved by the
//! live order as far as that is possible.

use std::{borrow::Borrow, collections::HashMap, hash::Hash};

use serde_json::{Map, Value, json};

use crate::schema::Node;

use super::{
    Fault, PATCH, SET_ORDER,
    list::{self, element_kind},
    list_member, without_directives,
};

/// Merges the lists that have a `$setElementOrder`; returns their names.
pub(super) fn merge_ordered<'p>(
    fields: &mut Map<String, Value>,
    patch: &'p Map<String, Value>,
    schema: Node<'_>,
) -> Result<Vec<&'p str>, Fault> {
    let mut names = Vec::new();
    for (directive, wanted) in patch.iter().filter(|(key, _)| key.starts_with(SET_ORDER)) {
        let Value::Array(wanted) = wanted else { return Err(Fault::not_a_list(wanted)) };
        let name = directive[SET_ORDER.len()..].strip_prefix('/').ok_or(Fault::SET_ORDER)?;
        let (live, change) = (list_in(fields, name)?, list_in(patch, name)?);
        let list = list_member(schema, name)?;
        let key = list.patch.merge_key.as_deref();
        check(change.unwrap_or_default(), wanted, key)?;
        let Some(merged) = merged(live, change, list)? else { continue };
        let live = live.unwrap_or_default();
        element_kind(live, change.unwrap_or_default())?;
        let arranged = arrange(merged, wanted, &positions(live, key)?, key)?;
        fields.insert(name.to_owned(), Value::Array(arranged));
        names.push(name);
    }
    Ok(names)
}

fn merged(live: Option<&[Value]>, change: Option<&[Value]>, list: Node<'_>) -> Result<Option<Vec<Value>>, Fault> {
    match (live, change) {
        (None, None) => Ok(None),
        (Some(live), None) => Ok(Some(live.to_vec())),
        (None, Some(change)) => Ok(Some(change.iter().filter_map(without_directives).collect())),
        (Some(live), Some(change)) => list::merge(live.to_vec(), change, list, false).map(Some),
    }
}

fn list_in<'f>(fields: &'f Map<String, Value>, name: &str) -> Result<Option<&'f [Value]>, Fault> {
    match fields.get(name) {
        None => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items)),
        Some(other) => Err(Fault::not_a_list(other)),
    }
}

/// Checks that the items of the patch are all in the wanted order, and follow it.
fn check(change: &[Value], wanted: &[Value], key: Option<&str>) -> Result<(), Fault> {
    if change.is_empty() || wanted.is_empty() {
        return Ok(());
    }
    let mut items = Vec::with_capacity(change.len());
    for item in change {
        match (key, item) {
            (Some(_), Value::Object(fields)) if fields.get(PATCH).and_then(Value::as_str) == Some("delete") => {}
            (None, _) | (Some(_), Value::Object(_)) => items.push(item),
            (Some(_), other) => return Err(Fault::not_an_object(other)),
        }
    }
    let (mut at, mut place) = (0, 0);
    while at < items.len() && place < wanted.len() {
        if items[at].get(PATCH).is_some() {
            at += 1;
            continue;
        }
        if identity(items[at], key)? == identity(&wanted[place], key)? {
            at += 1;
        }
        place += 1;
    }
    if at < items.len() {
        let (change, wanted) = (json!(change), json!(wanted));
        return Err(Fault::Other(format!("the order of {change} does not match $setElementOrder {wanted}")));
    }
    Ok(())
}

/// Where each item stands in a list, by merge key (or by itself, for scalars).
pub(super) fn positions(items: &[Value], key: Option<&str>) -> Result<HashMap<Value, usize>, Fault> {
    let mut positions = HashMap::with_capacity(items.len());
    for (place, item) in items.iter().enumerate() {
        let identity = identity(item, key)?;
        if !positions.contains_key(identity) {
            positions.insert(identity.clone(), place);
        }
    }
    Ok(positions)
}

/// Brings a merged list into order: `wanted` is the patch's, `live` what stood where before.
pub(super) fn arrange(
    merged: Vec<Value>,
    wanted: &[Value],
    live: &HashMap<Value, usize>,
    key: Option<&str>,
) -> Result<Vec<Value>, Fault> {
    let mut by_patch = HashMap::with_capacity(wanted.len());
    for (place, item) in wanted.iter().enumerate() {
        if key.is_some() && !item.is_object() {
            return Err(Fault::Other(format!("value for key {place} is not a map")));
        }
        by_patch.entry(identity(item, key)?).or_insert(place);
    }
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for item in merged {
        let identity = identity(&item, key)?;
        let before = find(live, identity);
        match find(&by_patch, identity) {
            Some(place) => ours.push(Placed { place, before, item }),
            None => theirs.push(Placed { place: before.unwrap_or(usize::MAX), before, item }),
        }
    }
    ours.sort_by_key(|placed| placed.place);
    theirs.sort_by_key(|placed| placed.place);
    Ok(interleave(theirs, ours))
}

/// An item with its place among its like, and where it was in the live list.
struct Placed {
    place: usize,
    before: Option<usize>,
    item: Value,
}

/// Puts each of `theirs` before the first of `ours` that it preceded in the live list.
fn interleave(theirs: Vec<Placed>, ours: Vec<Placed>) -> Vec<Value> {
    let mut all = Vec::with_capacity(theirs.len() + ours.len());
    let (mut theirs, mut ours) = (theirs.into_iter().peekable(), ours.into_iter().peekable());
    while let (Some(left), Some(right)) = (theirs.peek(), ours.peek()) {
        let first = matches!((left.before, right.before), (Some(left), Some(right)) if left < right);
        let next = if first { theirs.next() } else { ours.next() };
        all.extend(next.map(|placed| placed.item));
    }
    all.extend(ours.chain(theirs).map(|placed| placed.item));
    all
}

fn find<K: Borrow<Value> + Eq + Hash>(positions: &HashMap<K, usize>, identity: &Value) -> Option<usize> {
    positions.get(identity).copied()
}

/// What an item is recognised by.
fn identity<'v>(item: &'v Value, key: Option<&str>) -> Result<&'v Value, Fault> {
    match (item, key) {
        (Value::Object(fields), _) => {
            let key = key.unwrap_or_default();
            fields.get(key).ok_or_else(|| Fault::no_merge_key(fields, key))
        }
        (_, None) => Ok(item),
        (_, Some(_)) => Err(Fault::not_an_object(item)),
    }
}
