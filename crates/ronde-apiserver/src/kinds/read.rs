//! Reading and filling objects that are `serde_json` values of known shape.
//!
//! A missing field, `null` and a field of an unexpected type all read as "not there": the decoder has checked the types
//! before, and nothing here may panic on what a client sent.

use serde_json::{Map, Value};

/// Returns the text of a field, empty when there is none.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns the number of a field, zero when there is none.
pub fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

/// Tells whether a flag is there and set.
pub fn is_true(value: &Value) -> bool {
    value.as_bool().unwrap_or_default()
}

/// Returns the items of a list, none when it is not there.
pub fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns the entries of a map in the order of their keys.
pub fn entries(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flatten().map(|(key, value)| (key.as_str(), value))
}

/// Names the fields in which two objects differ, as in `image, ports`.
pub fn changed_fields(old: &Value, new: &Value) -> String {
    let is_new = |(key, _): &(&str, &Value)| old.get(*key).is_none();
    let keys = entries(old).chain(entries(new).filter(is_new)).map(|(key, _)| key);
    let changed: Vec<&str> = keys.filter(|key| old.get(*key) != new.get(*key)).collect();
    changed.join(", ")
}

/// Tells whether a list or map has nothing in it, or is not there.
pub fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => true,
    }
}

/// Returns the object at `key` to write to, creating it when it is not there.
pub fn object<'a>(parent: &'a mut Map<String, Value>, key: &str) -> Option<&'a mut Map<String, Value>> {
    let value = parent.entry(key).or_insert(Value::Null);
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut()
}

/// Returns the items at `key` to write to, none when the list is not there.
pub fn items_mut<'a>(parent: &'a mut Map<String, Value>, key: &str) -> &'a mut [Value] {
    parent.get_mut(key).and_then(Value::as_array_mut).map(Vec::as_mut_slice).unwrap_or_default()
}

/// Returns the objects in the list at `key` to write to.
pub fn objects_mut<'a>(
    parent: &'a mut Map<String, Value>,
    key: &str,
) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    items_mut(parent, key).iter_mut().filter_map(Value::as_object_mut)
}

/// Sets the field unless it has a value; the zero of its type counts as none.
pub fn default(object: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    let unset = match object.get(key) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Number(number)) => number.as_i64() == Some(0),
        Some(_) => false,
    };
    if unset {
        object.insert(key.to_owned(), value.into());
    }
}

/// Sets the field unless it is there, even with the zero of its type.
pub fn default_optional(object: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    if object.get(key).is_none_or(Value::is_null) {
        object.insert(key.to_owned(), value.into());
    }
}

/// Makes `key` of `new` what it is in `old`, also when it is not there.
pub fn keep_field(new: &mut Value, old: &Value, key: &str) {
    let Some(new) = new.as_object_mut() else { return };
    match old.get(key) {
        Some(value) => _ = new.insert(key.to_owned(), value.clone()),
        None => _ = new.remove(key),
    }
}
