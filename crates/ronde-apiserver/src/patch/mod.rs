//! Patches: read from a request body, and applied to an object without changing it.
//!
//! Called by the patch verb. JSON patch, merge patch and strategic merge patch are pure functions of object and patch;
//! server-side apply lives in [`apply`]. The result is not checked here: unknown fields, types and validation come
//! afterwards, as for any other write.

pub mod apply;
mod json;
pub mod strategic;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use crate::{
    decode::{self, Decoded, described, media_type, parse_json, parse_yaml},
    error::{ApiError, FieldError, Subject},
    schema::Node,
};

pub use crate::decode::FieldValidation;
pub use json::JsonPatch;

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// A patch of one of the four kinds.
#[derive(Debug, Clone, PartialEq)]
pub enum Patch {
    Json(JsonPatch),
    Merge(Map<String, Value>),
    Strategic(Map<String, Value>),
    /// Also an empty object, where the body was empty.
    Apply(Value),
}

/// A patch and what strict field validation has to say about its text.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    pub patch: Patch,
    /// Duplicate fields (and unknown fields of JSON patch operations), each as a message.
    pub problems: Vec<String>,
}

impl Patch {
    /// Reads a patch. `validation` decides how strictly.
    ///
    /// # Errors
    /// If the media type is not one of a patch, or the body is malformed or too large.
    pub fn parse(content_type: &str, body: &[u8], validation: FieldValidation) -> Result<Parsed, ApiError> {
        if body.len() > decode::BODY_BYTES_MAX {
            return Err(decode::too_large());
        }
        let checked = validation != FieldValidation::Ignore;
        match media_type(content_type).as_str() {
            JSON => {
                let (patch, problems) = JsonPatch::parse(body, checked)?;
                Ok(Parsed { patch: Self::Json(patch), problems })
            }
            MERGE => parse_merge(body, checked),
            STRATEGIC => parse_strategic(body),
            APPLY => parse_apply(body),
            _ => {
                let error = ApiError::new(415, "UnsupportedMediaType", "415: Unsupported Media Type");
                Err(error.with_details(Value::Object(Map::new())))
            }
        }
    }

    /// The answer under strict validation to problems of the patch's text and, after them, of its result.
    pub fn strict_error(&self, result: &Value, problems: &[String]) -> ApiError {
        let problems = problems.join(", ");
        match self {
            Self::Apply(_) => ApiError::bad_request(format!("error strict decoding YAML: {problems}")),
            _ => self.invalid_result(result, &format!("strict decoding error: {problems}")),
        }
    }

    /// The answer to the result of a patch that is not an object of its kind.
    ///
    /// It shows the result, except of strategic merge patches, where it shows the patch.
    pub fn invalid_result(&self, result: &Value, why: &str) -> ApiError {
        let shown = match self {
            Self::Strategic(patch) => Value::Object(patch.clone()).to_string(),
            _ => result.to_string(),
        };
        invalid(shown, why)
    }
}

/// Applies a patch to `live` and returns the result.
///
/// # Errors
/// If the patch does not fit. An apply patch is not for this function and gives an internal error.
pub fn apply_patch(patch: &Patch, live: &Value, schema: Node<'_>) -> Result<Value, ApiError> {
    match patch {
        Patch::Json(patch) => patch.apply(live).map_err(|json::Unprocessable| rejected()),
        Patch::Merge(patch) => Ok(json::merge(live, patch)),
        Patch::Strategic(patch) => strategic::merge(live, patch, schema),
        Patch::Apply(_) => Err(ApiError::internal("apply patches are applied by server-side apply")),
    }
}

/// The real server's answer to patches that cannot be applied, whatever the reason.
fn rejected() -> ApiError {
    ApiError::new(422, "Invalid", "the server rejected our request due to an error in our request")
        .with_details(Value::Object(Map::new()))
}

fn invalid(shown: String, why: &str) -> ApiError {
    let error = FieldError::invalid("patch", Value::String(shown), why);
    ApiError::invalid(Subject { group: "", what: "", name: "" }, &[error])
}

fn parse_merge(body: &[u8], checked: bool) -> Result<Parsed, ApiError> {
    let bad = || ApiError::bad_request("Invalid JSON Patch");
    let Decoded { value, problems } =
        parse_json(body, None).map_err(|text| if checked { json::undecodable(&text, true) } else { bad() })?;
    match value {
        Value::Object(patch) => Ok(Parsed { patch: Patch::Merge(patch), problems }),
        Value::Null => Err(bad()),
        other if checked => Err(json::undecodable(&not_a_map(&other), true)),
        Value::Array(mut items) => {
            items.iter_mut().for_each(json::drop_nulls);
            Err(invalid(Value::Array(items).to_string(), "expected an object, got a list"))
        }
        _ => Err(bad()),
    }
}

fn parse_strategic(body: &[u8]) -> Result<Parsed, ApiError> {
    let Decoded { value, problems } = parse_json(body, None).map_err(ApiError::bad_request)?;
    match value {
        Value::Object(patch) => Ok(Parsed { patch: Patch::Strategic(patch), problems }),
        Value::Null => Ok(Parsed { patch: Patch::Strategic(Map::new()), problems }),
        other => Err(ApiError::bad_request(not_a_map(&other))),
    }
}

fn parse_apply(body: &[u8]) -> Result<Parsed, ApiError> {
    let bad = |text: &str| ApiError::bad_request(format!("error decoding YAML: {text}"));
    let Decoded { value, problems } = parse_yaml(body).map_err(|text| bad(&text))?;
    let value = match value {
        Value::Null => Value::Object(Map::new()),
        Value::Object(_) => value,
        other => return Err(bad(&not_a_map(&other))),
    };
    Ok(Parsed { patch: Patch::Apply(value), problems })
}

fn not_a_map(value: &Value) -> String {
    format!("expected an object, got {}", described(value))
}
