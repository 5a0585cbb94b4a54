//! Request bodies: bytes in, a JSON value out, with what strict field validation has to say about them.
//!
//! Called by the verbs for objects and by [`crate::patch`] for patches. One pass builds the value, finds duplicate
//! fields and, given a schema, leaves out fields that the kind does not have. Size, depth and YAML aliases are
//! bounded, so that everything behind this module may recurse freely. Types of fields are not checked here.

mod clean;
mod json;
mod protobuf;
mod strict;
mod yaml;

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::{
    error::{ApiError, Cause},
    schema::Node,
};

use self::protobuf::Envelope;
pub use self::{json::parse as parse_json, protobuf::parse as parse_protobuf, yaml::parse as parse_yaml};

/// The longest body that is read. The caller stops reading there and answers with [`too_large`].
pub const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;

/// How deep lists and objects may nest. Real objects stay under 40; every recursion over a value relies on this.
///
/// What is stored is read again by `serde_json`, to 127 levels. The owners of fields nest five deeper than the fields.
pub const DEPTH_MAX: usize = 120;

/// The media types of bodies that are objects, as errors list them.
const MEDIA_TYPES: [&str; 3] = ["application/json", "application/yaml", PROTOBUF];
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The longest text that an error message shows in whole.
const SHOWN_BYTES_MAX: usize = 64;

/// How much of a body that cannot be understood is shown in the error.
const SUMMARY_BYTES: usize = 30;

/// A body that could be read.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    pub value: Value,
    /// Duplicate and (given a schema) unknown fields, each as a message, in the order of the document.
    pub problems: Vec<String>,
}

/// What to do with fields that the schema does not know.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

/// Reads an object of kind `kind` (which only serves the error messages).
///
/// With a schema, fields that it does not have are noted and left out of JSON; in YAML they stay, because the real
/// server looks for them in another step. An empty document is an empty object, as in the real server: what is
/// missing in it is for validation to say.
///
/// # Errors
/// If the body is too long, of another media type, malformed, or not an object.
pub fn decode(content_type: &str, body: &[u8], kind: &str, schema: Option<Node<'_>>) -> Result<Decoded, ApiError> {
    let unrecognized = |text: &str| {
        let summary = summary(body);
        ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {text} ({summary})"
        ))
    };
    let malformed = |text: &str| ApiError { cause: Some(Cause::Malformed), ..unrecognized(text) };
    if body.len() > BODY_BYTES_MAX {
        return Err(too_large());
    }
    let parsed = match media_type(content_type).as_str() {
        "" | "application/json" => Ok(parse_json(body, schema).map_err(|text| malformed(&text))?),
        "application/yaml" => parse_yaml(body),
        PROTOBUF => {
            let envelope = Envelope::open(body).map_err(|text| unrecognized(&text))?;
            return decode_envelope(&envelope, kind);
        }
        _ => return Err(ApiError::unsupported_media_type(&MEDIA_TYPES)),
    };
    let mut decoded = parsed.map_err(|text| unrecognized(&text))?;
    if decoded.value.is_null() {
        decoded.value = Value::Object(Map::new());
    }
    check_root(&decoded.value).map_err(|text| malformed(&text))?;
    Ok(decoded)
}

/// Reads what is in an envelope. It names its kind, so that errors can, too; the kind of the path is `kind`.
fn decode_envelope(envelope: &Envelope<'_>, kind: &str) -> Result<Decoded, ApiError> {
    let value = envelope.decode().map_err(|text| {
        let version = envelope.api_version.rsplit('/').next().unwrap_or_default();
        ApiError::not_of_kind(envelope.kind, version, kind, text)
    })?;
    Ok(Decoded { value, problems: Vec::new() })
}

/// Returns a `Content-Type` without its parameters.
pub fn media_type(content_type: &str) -> String {
    content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// The answer to a body that is longer than [`BODY_BYTES_MAX`].
pub fn too_large() -> ApiError {
    entity_too_large(format!("limit is {BODY_BYTES_MAX}"))
}

pub(crate) fn entity_too_large(why: impl std::fmt::Display) -> ApiError {
    ApiError::new(413, "RequestEntityTooLarge", format!("Request entity too large: {why}"))
}

/// What a value is, for an error message: its type and, where it is short, itself.
pub(crate) fn described(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => format!("boolean {value}"),
        Value::Number(value) => format!("number {value}"),
        Value::String(value) if value.len() <= SHOWN_BYTES_MAX => format!("string {value:?}"),
        Value::String(_) => "a string".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

/// Checks what is looked at first: an object whose `apiVersion` and `kind` are texts.
fn check_root(value: &Value) -> Result<(), String> {
    let Value::Object(root) = value else {
        return Err(format!("expected an object, got {}", described(value)));
    };
    for field in ["apiVersion", "kind"] {
        match root.get(field) {
            None | Some(Value::Null | Value::String(_)) => {}
            Some(other) => return Err(format!("{field}: expected a string, got {}", described(other))),
        }
    }
    Ok(())
}

/// The start of a body for an error message: as text if it looks like JSON, else in hexadecimal.
pub fn summary(body: &[u8]) -> String {
    let start = &body[..body.len().min(SUMMARY_BYTES)];
    let more = if body.len() > SUMMARY_BYTES { " ..." } else { "" };
    match start.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(start)),
        Some(_) => {
            let mut hex = String::new();
            for byte in start {
                let _ = write!(hex, "{byte:02x}");
            }
            hex + more
        }
    }
}

#[cfg(test)]
mod tests;
