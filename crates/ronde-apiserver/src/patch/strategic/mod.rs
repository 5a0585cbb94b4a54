//! Strategic merge patch: merge patch that knows the kind, so that lists of named things are merged by name.
//!
//! Built-in kinds only; the schema's [`crate::schema::PatchHints`] say which lists merge and by which key. Patches may
//! carry directives, the fields that start with `$`: `$patch` replaces or deletes, `$retainKeys` clears the rest of an
//! object, `$deleteFromPrimitiveList/x` removes from a list of texts, `$setElementOrder/x` orders one. kubectl edit,
//! apply and patch write them.
//!
//! The rules, quirks included, are those of the real server. A patch works on a copy of the object.

mod fault;
mod list;
mod order;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::{
    error::ApiError,
    schema::{Additional, Node},
};

use fault::Fault;

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

/// Merges `patch` into a copy of `live`.
///
/// # Errors
/// If directives are misused, or what is to be merged is not mergeable.
pub fn merge(live: &Value, patch: &Map<String, Value>, schema: Node<'_>) -> Result<Value, ApiError> {
    let mut result = live.clone();
    let Value::Object(fields) = &mut result else {
        return Err(ApiError::internal("an object in the store is not a JSON object"));
    };
    merge_object(fields, patch, schema)?;
    Ok(result)
}

fn merge_object(fields: &mut Map<String, Value>, patch: &Map<String, Value>, schema: Node<'_>) -> Result<(), Fault> {
    if let Some(directive) = patch.get(PATCH) {
        *fields = replacement(directive, patch)?;
        return Ok(());
    }
    retain_keys(fields, patch)?;
    let ordered = order::merge_ordered(fields, patch, schema)?;
    for (key, change) in patch {
        if key == RETAIN_KEYS || key.starts_with(SET_ORDER) || ordered.contains(&key.as_str()) {
            continue;
        }
        let (name, deletes) = match key.strip_prefix(DELETE_FROM_LIST) {
            Some(rest) => (rest.strip_prefix('/').ok_or(Fault::PRIMITIVE_LIST)?, true),
            None => (key.as_str(), false),
        };
        if change.is_null() {
            fields.remove(name);
        } else {
            merge_field(fields, (name, change), deletes, schema)?;
        }
    }
    Ok(())
}

/// Merges one field; with `deletes`, the change lists what is to go.
fn merge_field(
    fields: &mut Map<String, Value>,
    (name, change): (&str, &Value),
    deletes: bool,
    schema: Node<'_>,
) -> Result<(), Fault> {
    match (fields.get_mut(name), change) {
        (Some(Value::Object(below)), Value::Object(change)) => {
            let schema = member(schema, name)?;
            if schema.patch.replace {
                change.clone_into(below);
                return Ok(());
            }
            merge_object(below, change, schema)
        }
        (Some(Value::Array(items)), Value::Array(change)) => {
            let schema = list_member(schema, name)?;
            let live = std::mem::take(items);
            *items = list::merge(live, change, schema, deletes)?;
            Ok(())
        }
        _ if deletes => Ok(()),
        _ => {
            match without_directives(change) {
                Some(value) => fields.insert(name.to_owned(), value),
                None => fields.remove(name),
            };
            Ok(())
        }
    }
}

/// What stands for an object whose patch has a `$patch` directive.
fn replacement(directive: &Value, patch: &Map<String, Value>) -> Result<Map<String, Value>, Fault> {
    match directive.as_str() {
        Some("replace") => {
            let mut fields = patch.clone();
            fields.remove(PATCH);
            Ok(fields)
        }
        Some("delete") => Ok(Map::new()),
        _ => Err(Fault::unknown_directive(directive, patch)),
    }
}

/// Clears what `$retainKeys` does not name; the patch itself may only have what it names.
fn retain_keys(fields: &mut Map<String, Value>, patch: &Map<String, Value>) -> Result<(), Fault> {
    let Some(directive) = patch.get(RETAIN_KEYS) else { return Ok(()) };
    let Value::Array(kept) = directive else { return Err(Fault::RETAIN_KEYS) };
    let kept: BTreeSet<&str> = kept.iter().filter_map(Value::as_str).collect();
    let is_named = |(key, change): (&String, &Value)| {
        change.is_null()
            || key == RETAIN_KEYS
            || key.starts_with(DELETE_FROM_LIST)
            || key.starts_with(SET_ORDER)
            || kept.contains(key.as_str())
    };
    if !patch.iter().all(is_named) {
        return Err(Fault::RETAIN_KEYS);
    }
    fields.retain(|key, _| kept.contains(key.as_str()));
    Ok(())
}

/// A value as it is set where nothing was: without nulls, and without objects that are only directives.
fn without_directives(value: &Value) -> Option<Value> {
    match value {
        Value::Object(fields) if fields.contains_key(PATCH) => None,
        Value::Object(fields) => {
            let set = fields.iter().filter(|(_, value)| !value.is_null());
            let fields = set.filter_map(|(name, value)| Some((name.clone(), without_directives(value)?)));
            Some(Value::Object(fields.collect()))
        }
        Value::Array(items) => Some(Value::Array(items.iter().filter_map(without_directives).collect())),
        scalar => Some(scalar.clone()),
    }
}

/// The schema of a field that is about to be merged. Maps have no named fields that could be.
fn member<'s>(schema: Node<'s>, name: &str) -> Result<Node<'s>, Fault> {
    if schema.properties.is_empty() && matches!(schema.additional, Additional::Values(_)) {
        let why = "merging an object in json but data type is not struct, instead is: map";
        return Err(Fault::Other(why.to_owned()));
    }
    match schema.data().properties.get(name) {
        Some(id) => Ok(schema.at(*id)),
        None => Err(Fault::Other(format!("unable to find api field for the json field \"{name}\""))),
    }
}

/// The schema of a list that is about to be merged.
fn list_member<'s>(schema: Node<'s>, name: &str) -> Result<Node<'s>, Fault> {
    let list = member(schema, name)?;
    if list.items().is_none() {
        return Err(Fault::Other("expected slice or array type, but got: struct".to_owned()));
    }
    Ok(list)
}
