//! Objects of built-in kinds as the real server's typed decoding and encoding leave them.
//!
//! [`decode`] runs on every object that comes in, before defaulting: it checks types, takes out unknown fields and
//! empty values that count as absent, and writes times, quantities and bytes in their canonical form, in one pass.
//! [`complete`] runs before defaulting: it adds the fields that are always there (`status: {}`). [`fill`] runs before an
//! object is stored: it does the same and takes out what is empty and not written.
//! Duplicate fields are found by the parser, custom resources are checked elsewhere.

mod bytes;
mod scalars;
mod time;

use serde_json::{Map, Value};

use super::{Additional, Empty, Format, Node, Type};
use crate::{decode::described, error::ApiError};

/// How many unknown fields are reported, as in the real server.
const UNKNOWN_MAX: usize = 100;

/// Why an object is not of its kind, as in `spec.replicas: expected int32, got string "two"`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undecodable(pub String);

impl Undecodable {
    /// The answer to a request whose body does not fit its kind.
    pub fn bad_request(&self, version: &str, kind: &str) -> ApiError {
        cannot_be_handled(version, kind, &self.0)
    }
}

/// The answer under `fieldValidation=Strict` to unknown (or duplicate) fields.
pub fn strict_error(version: &str, kind: &str, fields: &[String]) -> ApiError {
    cannot_be_handled(version, kind, &format!("strict decoding error: {}", fields.join(", ")))
}

fn cannot_be_handled(version: &str, kind: &str, why: &str) -> ApiError {
    ApiError::not_of_kind(kind, version, kind, why)
}

/// Does what [`decode`] does, with the error as the answer to a create or update.
///
/// # Errors
/// As [`decode`].
pub fn conform(object: &mut Value, node: Node<'_>, kind: &str, version: &str) -> Result<Vec<String>, ApiError> {
    decode(object, node).map_err(|undecodable| undecodable.bad_request(version, kind))
}

/// Checks an object against its kind and cleans it, in place.
///
/// Returns what to say about unknown fields (`unknown field "spec.foo"`), which are gone afterwards.
///
/// # Errors
/// Fails if a value has the wrong type or form; the object is then half cleaned and must not be used.
pub fn decode(object: &mut Value, node: Node<'_>) -> Result<Vec<String>, Undecodable> {
    let mut decoder = Decoder::default();
    decoder.value(object, node, &Path::Root);
    match decoder.fatal.or(decoder.error) {
        Some(text) => Err(Undecodable(text)),
        None => Ok(decoder.unknown),
    }
}

/// Adds the fields that are always there, in place.
pub fn complete(value: &mut Value, node: Node<'_>) {
    extend(value, node, false);
}

/// Adds the fields that are always written and takes out empty values that never are, in place.
pub fn fill(value: &mut Value, node: Node<'_>) {
    extend(value, node, true);
}

fn extend(value: &mut Value, node: Node<'_>, drops_empty: bool) {
    match value {
        Value::Object(object) if node.properties.is_empty() => {
            if let Additional::Values(id) = node.additional {
                for value in object.values_mut() {
                    extend(value, node.at(id), drops_empty);
                }
            }
        }
        Value::Object(object) => extend_fields(object, node, drops_empty),
        Value::Array(list) => {
            if let Some(items) = node.items().filter(|items| items.kind == Type::Object) {
                for value in list {
                    extend(value, items, drops_empty);
                }
            }
        }
        _ => {}
    }
}

fn extend_fields(object: &mut Map<String, Value>, node: Node<'_>, drops_empty: bool) {
    let mut has_absent = false;
    for (name, value) in object.iter_mut() {
        let Some(field) = node.properties.get(name).map(|id| node.at(*id)) else { continue };
        match field.empty {
            Empty::Dropped if drops_empty && is_empty(value) => *value = Value::Null,
            Empty::Written if drops_empty && is_empty_collection(value, field) => *value = Value::Null,
            _ => extend(value, field, drops_empty),
        }
        has_absent |= value.is_null();
    }
    if has_absent {
        object.retain(|_, value| !value.is_null());
    }
    for name in &node.data().always {
        if let (Some(field), false) = (node.field(name), object.contains_key(name)) {
            object.insert(name.clone(), if field.empty == Empty::Null { Value::Null } else { zero(field) });
        }
    }
}

/// What an absent value of this type is written as.
fn zero(node: Node<'_>) -> Value {
    match (node.kind, node.format) {
        (Type::Object, _) if !node.properties.is_empty() => {
            let mut object = Map::new();
            extend_fields(&mut object, node, false);
            Value::Object(object)
        }
        (Type::Object | Type::Array | Type::Any, _) | (Type::String, Some(Format::Time | Format::MicroTime)) => {
            Value::Null
        }
        (Type::String, _) => Value::from(""),
        (Type::IntOrString, Some(Format::Quantity)) => Value::from("0"),
        (Type::Integer | Type::Number | Type::IntOrString, _) => Value::from(0),
        (Type::Boolean, _) => Value::from(false),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(object) => object.is_empty(),
    }
}

/// Whether this is an empty list or map, which the real server stores as none.
fn is_empty_collection(value: &Value, node: Node<'_>) -> bool {
    matches!(node.kind, Type::Array | Type::Object) && node.properties.is_empty() && is_empty(value)
}

/// Where in an object the decoder is. Lives on the stack; made into text only for errors.
enum Path<'a> {
    Root,
    /// A field of an object, or a key of a map.
    Field(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl Path<'_> {
    /// `spec.containers[0].env[1]`.
    fn exact(&self) -> String {
        match self {
            Self::Root => String::new(),
            Self::Field(parent, name) => joined(parent.exact(), name),
            Self::Index(parent, at) => format!("{}[{at}]", parent.exact()),
        }
    }
}

fn joined(path: String, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { path + "." + name }
}

#[derive(Default)]
struct Decoder {
    unknown: Vec<String>,
    /// Set below types that decode themselves, where the real server does not look for unknown fields.
    ignores_unknown: bool,
    /// The first value of a wrong type.
    error: Option<String>,
    /// An error of a type that decodes itself: ends the decoding and wins over `error`.
    fatal: Option<String>,
}

impl Decoder {
    fn value(&mut self, value: &mut Value, node: Node<'_>, path: &Path<'_>) {
        match (node.kind, &mut *value) {
            _ if self.fatal.is_some() => {}
            (Type::Any, value) => self.any(value, node, path),
            (Type::Object, Value::Object(object)) if !node.properties.is_empty() => self.fields(object, node, path),
            (Type::Object, Value::Object(object)) => self.map(object, node, path),
            (Type::Array, Value::Array(list)) => self.list(list, node, path),
            (Type::Object | Type::Array, value) => self.mistyped(value, node, path),
            _ => self.scalar(value, node, path),
        }
    }

    fn fields(&mut self, object: &mut Map<String, Value>, node: Node<'_>, path: &Path<'_>) {
        object.retain(|name, value| {
            let Some(id) = node.properties.get(name) else {
                self.unknown(name, path);
                return false;
            };
            let field = node.at(*id);
            if value.is_null() {
                return false;
            }
            self.value(value, field, &Path::Field(path, name));
            field.empty != Empty::Dropped || !is_empty(value)
        });
    }

    fn map(&mut self, object: &mut Map<String, Value>, node: Node<'_>, path: &Path<'_>) {
        let Additional::Values(id) = node.additional else { return };
        let values = node.at(id);
        for (key, value) in object {
            self.element(value, values, &Path::Field(path, key));
        }
    }

    fn list(&mut self, list: &mut [Value], node: Node<'_>, path: &Path<'_>) {
        let Some(items) = node.items() else { return };
        for (at, value) in list.iter_mut().enumerate() {
            self.element(value, items, &Path::Index(path, at));
        }
    }

    /// A value in a list or map: `null` stands for the zero value there.
    fn element(&mut self, value: &mut Value, node: Node<'_>, path: &Path<'_>) {
        if value.is_null() {
            *value = zero(node);
        } else {
            self.value(value, node, path);
        }
    }

    /// Anything is taken; schemas within are still cleaned (`JSONSchemaPropsOrArray` and the like).
    fn any(&mut self, value: &mut Value, node: Node<'_>, path: &Path<'_>) {
        let Some(schema) = node.items() else { return };
        let ignored = std::mem::replace(&mut self.ignores_unknown, true);
        match value {
            Value::Object(_) => self.value(value, schema, path),
            Value::Array(list) => list.iter_mut().filter(|v| v.is_object()).for_each(|v| self.value(v, schema, path)),
            _ => {}
        }
        self.ignores_unknown = ignored;
        // The real server decodes such values apart: their errors end the decoding.
        self.fatal = self.fatal.take().or_else(|| self.error.clone());
    }

    fn scalar(&mut self, value: &mut Value, node: Node<'_>, path: &Path<'_>) {
        match scalars::normalise(value, node.kind, node.format) {
            Ok(()) => {}
            Err(scalars::Wrong::Type) => self.mistyped(value, node, path),
            Err(scalars::Wrong::Number(ty)) => {
                self.error.get_or_insert_with(|| mismatch(path, ty, value));
            }
            Err(scalars::Wrong::Form(text)) => {
                self.error.get_or_insert_with(|| format!("{}: {text}", path.exact()));
            }
            Err(scalars::Wrong::FatalForm(text)) => self.fatal = Some(format!("{}: {text}", path.exact())),
            Err(scalars::Wrong::FatalType(ty)) => self.fatal = Some(mismatch(path, ty, value)),
        }
    }

    fn mistyped(&mut self, value: &Value, node: Node<'_>, path: &Path<'_>) {
        if self.error.is_none() {
            self.error = Some(mismatch(path, type_name(node), value));
        }
    }

    fn unknown(&mut self, name: &str, path: &Path<'_>) {
        if !self.ignores_unknown && self.unknown.len() < UNKNOWN_MAX {
            self.unknown.push(format!("unknown field {:?}", joined(path.exact(), name)));
        }
    }
}

fn mismatch(path: &Path<'_>, wanted: &str, found: &Value) -> String {
    let at = path.exact();
    let colon = if at.is_empty() { "" } else { ": " };
    format!("{at}{colon}expected {wanted}, got {}", described(found))
}

/// What a field takes, for an error message.
fn type_name(node: Node<'_>) -> &'static str {
    match (node.kind, node.format) {
        (Type::Array, _) => "a list",
        (Type::Object, _) => "an object",
        (_, Some(Format::Byte)) => "a string in base64",
        (_, Some(Format::Int32)) => "int32",
        (_, Some(Format::Int64)) => "int64",
        (Type::Number, _) => "a number",
        (Type::Boolean, _) => "a boolean",
        _ => "a string",
    }
}

#[cfg(test)]
mod tests;
