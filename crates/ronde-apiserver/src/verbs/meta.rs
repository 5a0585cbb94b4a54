//! Small readers and writers of `metadata`, for code that handles objects of any kind.

use serde_json::{Map, Value, json};

/// The finalizer of an object that waits for the deletion of its dependents.
pub const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an object that waits until its dependents no longer refer to it.
pub const ORPHAN: &str = "orphan";

pub fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

pub fn is_deleting(object: &Value) -> bool {
    !text(object, "deletionTimestamp").is_empty()
}

pub fn generation(object: &Value) -> i64 {
    object["metadata"]["generation"].as_i64().unwrap_or_default()
}

/// Returns the generation after this one. Clients set it themselves in kinds that do not count.
pub fn next_generation(object: &Value) -> i64 {
    generation(object).saturating_add(1)
}

pub fn finalizers(object: &Value) -> Vec<&str> {
    object["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

pub fn set_finalizers(object: &mut Value, finalizers: &[&str]) {
    if finalizers.is_empty() { remove(object, "finalizers") } else { set(object, "finalizers", json!(finalizers)) }
}

/// Returns `metadata`, made if it is not there.
pub fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    if !object["metadata"].is_object() {
        object["metadata"] = Value::Object(Map::new());
    }
    object["metadata"].as_object_mut().expect("it was just made one")
}

pub fn set(object: &mut Value, field: &str, value: impl Into<Value>) {
    metadata_mut(object).insert(field.to_owned(), value.into());
}

pub fn remove(object: &mut Value, field: &str) {
    metadata_mut(object).remove(field);
}

/// Makes a field of `metadata` what it is in `from`, also if it is not there.
pub fn keep_field(object: &mut Value, from: &Value, field: &str) {
    match from["metadata"].get(field) {
        Some(value) => set(object, field, value.clone()),
        None => remove(object, field),
    }
}
