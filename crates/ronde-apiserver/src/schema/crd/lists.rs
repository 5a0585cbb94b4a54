//! Sets must not hold an item twice, keyed lists not a key twice.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::{
    error::FieldError,
    schema::{ListType, Node},
};

/// Returns what breaks the list types in an object.
pub(super) fn check(object: &Value, root: Node<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Value::Object(fields) = object {
        check_fields(fields, root, "", &mut errors);
    }
    errors
}

fn check_fields(fields: &Map<String, Value>, node: Node<'_>, path: &str, errors: &mut Vec<FieldError>) {
    for (name, value) in fields {
        let is_property = node.data().properties.contains_key(name);
        let Some(schema) = node.field(name) else { continue };
        let path = match (path, is_property) {
            ("", _) => name.clone(),
            (path, true) => format!("{path}.{name}"),
            (path, false) => format!("{path}[{name}]"),
        };
        check_value(value, schema, &path, errors);
    }
}

fn check_value(value: &Value, node: Node<'_>, path: &str, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(fields) => check_fields(fields, node, path, errors),
        Value::Array(items) => {
            match &node.data().list {
                ListType::Atomic => {}
                ListType::Set => {
                    let repeated = repeated(items.iter().map(Value::to_string));
                    errors.extend(
                        repeated
                            .into_iter()
                            .map(|at| FieldError::duplicate(format!("{path}[{at}]"), items[at].clone())),
                    );
                }
                ListType::Map(keys) => check_keys(items, keys, path, errors),
            }
            if let Some(inner) = node.items() {
                for (at, item) in items.iter().enumerate() {
                    check_value(item, inner, &format!("{path}[{at}]"), errors);
                }
            }
        }
        _ => {}
    }
}

fn check_keys(items: &[Value], keys: &[String], path: &str, errors: &mut Vec<FieldError>) {
    if let Some((at, item)) = items.iter().enumerate().find(|(_, item)| !item.is_object() && !item.is_null()) {
        let detail = "must be an object for an array of list-type map";
        errors.push(FieldError::invalid(format!("{path}[{at}]"), item.clone(), detail));
        return;
    }
    let key_of = |item: &Value| -> Map<String, Value> {
        keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone()))).collect()
    };
    let all: Vec<Value> = items.iter().map(|item| Value::Object(key_of(item))).collect();
    for at in repeated(all.iter().map(Value::to_string)) {
        errors.push(FieldError::duplicate(format!("{path}[{at}]"), all[at].clone()));
    }
}

/// The places where something appears for the second time; further times are not counted.
fn repeated(items: impl Iterator<Item = String>) -> Vec<usize> {
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    let mut repeated = Vec::new();
    for (at, item) in items.enumerate() {
        let times = seen.entry(item).or_default();
        *times += 1;
        if *times == 2 {
            repeated.push(at);
        }
    }
    repeated
}
