//! JSON patch (RFC 6902) and JSON merge patch (RFC 7386), as the real server understands them.
//!
//! Its JSON patch is laxer than the RFC, and clients rely on that: `replace` may create a field, indices may count from
//! the end, `copy` of a missing field makes a null. A patch works on a copy, so one that fails changes nothing.

use std::{io, sync::LazyLock};

use serde_json::{Map, Value};

use crate::{
    decode::{DEPTH_MAX, Decoded, described, entity_too_large, parse_json},
    error::ApiError,
    schema::{Additional, Id, Node, NodeData, Set, Type},
};

/// The real server's limit on the operations of a patch.
const OPERATIONS_MAX: usize = 10_000;

/// The real server's limit on what the `copy` operations of a patch may add up to.
const COPIED_BYTES_MAX: usize = 3 * 1024 * 1024;

/// A list of operations, applied in order.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPatch(Vec<Map<String, Value>>);

/// An operation that cannot be applied; the real server does not say why.
pub(super) struct Unprocessable;

impl JsonPatch {
    /// Reads a patch; with `checked`, the fields of operations must have the right types and others are noted.
    ///
    /// # Errors
    /// If it is malformed or has too many operations.
    pub fn parse(body: &[u8], checked: bool) -> Result<(Self, Vec<String>), ApiError> {
        let schema = checked.then(operations_schema);
        let Decoded { value, problems } = parse_json(body, schema).map_err(|text| undecodable(&text, checked))?;
        let items = match value {
            Value::Null => Vec::new(),
            Value::Array(items) => items,
            other => return Err(wrong_type("a list of operations", &other, checked)),
        };
        let mut operations = Vec::with_capacity(items.len());
        for item in items {
            match item {
                Value::Null => operations.push(Map::new()),
                Value::Object(operation) => operations.push(operation),
                other => return Err(wrong_type("an operation", &other, checked)),
            }
        }
        if checked {
            operations.iter().try_for_each(check_types)?;
        }
        if operations.len() > OPERATIONS_MAX {
            let count = operations.len();
            let why = format!("The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {count}");
            return Err(entity_too_large(why));
        }
        let problems = problems.into_iter().map(|problem| format!("json patch {problem}")).collect();
        Ok((Self(operations), problems))
    }

    /// Applies all operations to a copy of `live`.
    pub(super) fn apply(&self, live: &Value) -> Result<Value, Unprocessable> {
        let mut document = live.clone();
        let mut copied = 0;
        for operation in &self.0 {
            apply(&mut document, operation, &mut copied)?;
        }
        Ok(document)
    }
}

/// Merges a merge patch into a copy of `live`.
pub(super) fn merge(live: &Value, patch: &Map<String, Value>) -> Value {
    let mut document = live.clone();
    if let Value::Object(fields) = &mut document {
        merge_into(fields, patch);
    }
    document
}

/// The error for a body that is not JSON.
pub(super) fn undecodable(text: &str, checked: bool) -> ApiError {
    let prefix = if checked { "error decoding patch: " } else { "" };
    ApiError::bad_request(format!("{prefix}{text}"))
}

fn merge_into(fields: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (name, change) in patch {
        if change.is_null() {
            fields.remove(name);
            continue;
        }
        match (fields.get_mut(name), change) {
            (Some(Value::Object(below)), Value::Object(change)) => merge_into(below, change),
            // The real server keeps nulls here, where the RFC has none to remove.
            (Some(below @ Value::Object(_)), _) => *below = change.clone(),
            _ => {
                let mut value = change.clone();
                drop_nulls(&mut value);
                fields.insert(name.clone(), value);
            }
        }
    }
}

/// Removes null fields at any depth; nulls in lists stay.
pub(super) fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => fields.retain(|_, child| {
            drop_nulls(child);
            !child.is_null()
        }),
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

fn apply(document: &mut Value, operation: &Map<String, Value>, copied: &mut usize) -> Result<(), Unprocessable> {
    let text = |field: &str| operation.get(field).and_then(Value::as_str).ok_or(Unprocessable);
    let value = || operation.get("value").cloned().unwrap_or_default();
    let path = text("path");
    match text("op")? {
        "add" => add(document, path?, value()),
        "remove" => remove(document, path?).map(drop),
        "replace" => replace(document, path?, value()),
        "move" => {
            let moved = remove(document, text("from")?)?;
            add(document, path?, moved)
        }
        "copy" => {
            let copy = get(document, text("from")?)?.cloned().unwrap_or_default();
            *copied += size(&copy);
            if *copied > COPIED_BYTES_MAX {
                return Err(Unprocessable);
            }
            add(document, path?, copy)
        }
        "test" => test(document, path?, operation.get("value")),
        _ => Err(Unprocessable),
    }
}

fn add(document: &mut Value, path: &str, value: Value) -> Result<(), Unprocessable> {
    check_depth(path, &value)?;
    let (container, key) = container_mut(document, path)?;
    match container {
        Value::Object(fields) => {
            fields.insert(key, value);
        }
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => {
            let index = index(&key, items.len() + 1)?;
            items.insert(index, value);
        }
        _ => return Err(Unprocessable),
    }
    Ok(())
}

fn remove(document: &mut Value, path: &str) -> Result<Value, Unprocessable> {
    let (container, key) = container_mut(document, path)?;
    match container {
        Value::Object(fields) => fields.remove(&key).ok_or(Unprocessable),
        Value::Array(items) => {
            let index = index(&key, items.len())?;
            Ok(items.remove(index))
        }
        _ => Err(Unprocessable),
    }
}

fn replace(document: &mut Value, path: &str, value: Value) -> Result<(), Unprocessable> {
    if path.is_empty() {
        // Anything but a list or an object is passed over in silence, as in the real server.
        if value.is_object() || value.is_array() {
            *document = value;
        }
        return Ok(());
    }
    check_depth(path, &value)?;
    let (container, key) = container_mut(document, path)?;
    match container {
        Value::Object(fields) => {
            fields.insert(key, value);
        }
        Value::Array(items) => {
            let index = index(&key, items.len())?;
            items[index] = value;
        }
        _ => return Err(Unprocessable),
    }
    Ok(())
}

fn test(document: &Value, path: &str, expected: Option<&Value>) -> Result<(), Unprocessable> {
    let found = if path.is_empty() { Some(document) } else { get(document, path)? };
    let expected = expected.ok_or(Unprocessable)?;
    if found.unwrap_or(&Value::Null) == expected { Ok(()) } else { Err(Unprocessable) }
}

/// Finds a value; a field that is not there is none, an index that is not there an error.
fn get<'d>(document: &'d Value, path: &str) -> Result<Option<&'d Value>, Unprocessable> {
    let (parents, key) = segments(path)?;
    let mut container = document;
    for name in parents {
        container = child(container, &name)?.ok_or(Unprocessable)?;
    }
    child(container, &key)
}

fn child<'d>(container: &'d Value, key: &str) -> Result<Option<&'d Value>, Unprocessable> {
    match container {
        Value::Object(fields) => Ok(fields.get(key)),
        Value::Array(items) => Ok(items.get(index(key, items.len())?)),
        _ => Err(Unprocessable),
    }
}

/// Finds the list or object that holds what a path names, and the key in it.
fn container_mut<'d>(document: &'d mut Value, path: &str) -> Result<(&'d mut Value, String), Unprocessable> {
    let (parents, key) = segments(path)?;
    let mut container = document;
    for name in parents {
        let found = match container {
            Value::Object(fields) => fields.get_mut(&name),
            Value::Array(items) => {
                let index = index(&name, items.len())?;
                items.get_mut(index)
            }
            _ => None,
        };
        container = found.ok_or(Unprocessable)?;
    }
    Ok((container, key))
}

/// Splits a path into the names on the way and the last one. What precedes the first slash is ignored.
fn segments(path: &str) -> Result<(Vec<String>, String), Unprocessable> {
    let unescape = |segment: &str| segment.replace("~1", "/").replace("~0", "~");
    let mut names: Vec<String> = path.split('/').skip(1).map(unescape).collect();
    let key = names.pop().ok_or(Unprocessable)?;
    Ok((names, key))
}

/// Reads an index; negative ones count from the end.
fn index(text: &str, length: usize) -> Result<usize, Unprocessable> {
    let index: i64 = text.parse().map_err(|_| Unprocessable)?;
    let length = i64::try_from(length).map_err(|_| Unprocessable)?;
    let index = if index < 0 { index + length } else { index };
    usize::try_from(index).ok().filter(|_| index < length).ok_or(Unprocessable)
}

/// Refuses what would nest deeper than any body could: many operations could build a tower otherwise.
fn check_depth(path: &str, value: &Value) -> Result<(), Unprocessable> {
    fn depth(value: &Value) -> usize {
        match value {
            Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
            Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
            _ => 0,
        }
    }
    let above = path.bytes().filter(|byte| *byte == b'/').count();
    if above + depth(value) >= DEPTH_MAX { Err(Unprocessable) } else { Ok(()) }
}

/// How long a value is as JSON.
fn size(value: &Value) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // Writing into a counter cannot fail.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

fn wrong_type(expected: &str, found: &Value, checked: bool) -> ApiError {
    undecodable(&format!("expected {expected}, got {}", described(found)), checked)
}

fn check_types(operation: &Map<String, Value>) -> Result<(), ApiError> {
    for field in ["op", "path", "from"] {
        match operation.get(field) {
            None | Some(Value::Null | Value::String(_)) => {}
            Some(other) => {
                let why = format!("`{field}` of an operation: expected a string, got {}", described(other));
                return Err(undecodable(&why, true));
            }
        }
    }
    Ok(())
}

/// The fields of operations, so that the decoder notes all others.
fn operations_schema() -> Node<'static> {
    static SCHEMA: LazyLock<(Set, Id)> = LazyLock::new(|| {
        let mut set = Set::new();
        let text = set.add(NodeData { kind: Type::String, ..NodeData::default() });
        let any = set.add(NodeData::default());
        let fields = [("op", text), ("path", text), ("from", text), ("value", any)];
        let operation = set.add(NodeData {
            kind: Type::Object,
            properties: fields.into_iter().map(|(name, id)| (name.to_owned(), id)).collect(),
            additional: Additional::None,
            ..NodeData::default()
        });
        let list = set.add(NodeData { kind: Type::Array, items: Some(operation), ..NodeData::default() });
        (set, list)
    });
    let (set, list) = &*SCHEMA;
    set.node(*list)
}
