//! Request bodies: bytes to an object of the kind that the path names.

use bytes::Bytes;
use serde_json::Value;

use super::{Call, meta};
use crate::{
    decode,
    error::{ApiError, FieldError, Subject},
};

/// A decoded body.
pub struct Body {
    pub value: Value,
    /// Fields that stood twice or that the kind does not have, as `duplicate field "spec.replicas"`.
    pub problems: Vec<String>,
}

impl Call {
    /// Decodes the object in a body and checks that it is of the right kind.
    ///
    /// # Errors
    /// If the body is malformed, or of another kind or version.
    pub fn decode(&self, content_type: &str, body: &Bytes) -> Result<Body, ApiError> {
        let schema = (!self.resource.is_custom()).then(|| self.resource.schema());
        let decoded = decode::decode(content_type, body, &self.resource.info.kind, schema)?;
        if self.resource.is_custom() && decoded.value["kind"].as_str().is_none_or(str::is_empty) {
            let text = String::from_utf8_lossy(body);
            let kind = &self.resource.info.kind;
            let why = format!("Object 'Kind' is missing in '{text}'");
            let shown = decode::summary(body);
            return Err(ApiError::bad_request(format!(
                "the object provided is unrecognized (must be of type {kind}): {why} ({shown})"
            )));
        }
        self.check_type(&decoded.value)?;
        Ok(Body { value: decoded.value, problems: decoded.problems })
    }

    /// # Errors
    /// If `apiVersion` or `kind` stand in the object and are not those of the path.
    pub fn check_type(&self, value: &Value) -> Result<(), ApiError> {
        let info = &self.resource.info;
        let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
        let (version, kind) = (text("apiVersion"), text("kind"));
        let is_version = version == info.api_version() || (version.is_empty() && !self.resource.is_custom());
        let is_kind = kind.is_empty() || kind == info.kind;
        if is_version && is_kind {
            return Ok(());
        }
        if self.resource.is_custom() {
            return Err(self.wrong_custom_type(value, &version, &kind));
        }
        let version = if version.is_empty() { info.api_version() } else { version };
        let kind = if kind.is_empty() { info.kind.clone() } else { kind };
        Err(self.wrong_type(&version, &kind))
    }

    /// Another version cannot be read as this one; another kind can, and is then a fault of the object.
    fn wrong_custom_type(&self, value: &Value, api_version: &str, kind: &str) -> ApiError {
        let info = &self.resource.info;
        let expected = info.api_version();
        if api_version != expected {
            return ApiError::bad_request(format!(
                "the API version in the data ({api_version}) does not match the expected API version ({expected})"
            ));
        }
        let fault = FieldError::invalid("kind", kind.into(), format!("must be {}", info.kind));
        ApiError::invalid(Subject { group: &info.group, what: kind, name: meta::text(value, "name") }, &[fault])
    }

    /// Another kind, or another version of it.
    fn wrong_type(&self, api_version: &str, kind: &str) -> ApiError {
        let info = &self.resource.info;
        let version = api_version.rsplit('/').next().unwrap_or_default();
        let why = format!("expected {} of {}, got {kind} of {api_version}", info.kind, info.api_version());
        ApiError::not_of_kind(kind, version, &info.kind, why)
    }
}

/// Decodes a body that is not of the kind of the path, such as `DeleteOptions`.
///
/// # Errors
/// If it is malformed.
pub fn decode_as(content_type: &str, body: &Bytes, kind: &str) -> Result<Body, ApiError> {
    let decoded = decode::decode(content_type, body, kind, None)?;
    Ok(Body { value: decoded.value, problems: decoded.problems })
}
