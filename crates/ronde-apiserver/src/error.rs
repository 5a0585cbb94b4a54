//! Errors as Kubernetes clients see them: a `Status` with the code, reason and words of the real API server.
//!
//! Every handler ends in an object or an [`ApiError`]. Field errors ([`FieldError`]) are collected, never
//! returned one by one, so that a user sees all mistakes of a manifest at once.

use std::fmt::{self, Write as _};

use serde_json::{Value, json};

/// How many mistakes of one object are told. A body of the largest size has room for a hundred thousand.
const FIELD_ERRORS_MAX: usize = 1000;

/// A failed request: what becomes the `Status` object in the answer.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiError {
    pub code: u16,
    pub reason: &'static str,
    pub message: String,
    /// The `details` of the `Status`: name, group, kind, causes, `retryAfterSeconds`.
    pub details: Option<Box<Value>>,
    /// A token to go on with, when a paged list cannot be continued as it was.
    pub resume: Option<String>,
    /// What the server itself has to know about the error; clients do not see it.
    pub cause: Option<Cause>,
}

/// Why a request failed, for callers that go on differently after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// Another write came first.
    Race,
    /// The object is not one of its kind, because of this.
    NotOfKind(String),
    /// The body is no document of any kind.
    Malformed,
}

/// One mistake in an object, with the path of the field it is in.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    pub kind: FieldErrorKind,
    /// As in `spec.containers[0].image` or `metadata.labels[app.kubernetes.io/name]`.
    pub path: String,
    pub value: Value,
    pub detail: String,
    /// The value stands in the message as it is: text without quotes, null not at all.
    pub verbatim: bool,
}

/// What is wrong with a field. The names are the reasons in `details.causes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldErrorKind {
    Required,
    Invalid,
    NotSupported,
    Duplicate,
    Forbidden,
    NotFound,
    TooLong,
    TooMany,
    TypeInvalid,
    Internal,
}

/// The group and resource (or kind) an error is about, as in `jobs.batch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subject<'a> {
    pub group: &'a str,
    /// The plural resource or the kind, as the real server uses one or the other.
    pub what: &'a str,
    pub name: &'a str,
}

impl ApiError {
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None, resume: None, cause: None }
    }

    pub fn with_details(mut self, details: Value) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub fn not_found(s: Subject<'_>) -> Self {
        let message = format!("{} \"{}\" not found", s.qualified(), s.name);
        Self::new(404, "NotFound", message).with_details(s.details())
    }

    pub fn already_exists(s: Subject<'_>) -> Self {
        let message = format!("{} \"{}\" already exists", s.qualified(), s.name);
        Self::new(409, "AlreadyExists", message).with_details(s.details())
    }

    pub fn conflict(s: Subject<'_>, why: impl fmt::Display) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{}\": {why}", s.qualified(), s.name);
        Self::new(409, "Conflict", message).with_details(s.details())
    }

    pub fn forbidden(s: Subject<'_>, why: impl fmt::Display) -> Self {
        let message = if s.name.is_empty() {
            format!("{} is forbidden: {why}", s.qualified())
        } else {
            format!("{} \"{}\" is forbidden: {why}", s.qualified(), s.name)
        };
        Self::new(403, "Forbidden", message).with_details(s.details())
    }

    /// An object that does not pass validation. `s.what` is the kind here.
    pub fn invalid(s: Subject<'_>, errors: &[FieldError]) -> Self {
        let told = &errors[..errors.len().min(FIELD_ERRORS_MAX)];
        let mut message = format!("{} \"{}\" is invalid: {}", s.qualified(), s.name, aggregate(told));
        if told.len() < errors.len() {
            message.push_str(&format!(" and {} more", errors.len() - told.len()));
        }
        let causes: Vec<Value> = told.iter().map(FieldError::cause).collect();
        let mut details = s.details();
        details["causes"] = Value::Array(causes);
        Self::new(422, "Invalid", message).with_details(details)
    }

    pub fn method_not_supported(s: Subject<'_>, verb: &str) -> Self {
        let message = format!("{verb} is not supported on resources of kind \"{}\"", s.qualified());
        Self::new(405, "MethodNotAllowed", message).with_details(s.details())
    }

    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        let list = accepted.join(", ");
        Self::new(
            415,
            "UnsupportedMediaType",
            format!("the body of the request was in an unknown format - accepted media types include: {list}"),
        )
    }

    /// A watch or continuation whose version is no longer kept.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    pub fn internal(what: impl fmt::Display) -> Self {
        Self::new(500, "InternalError", format!("Internal error occurred: {what}"))
            .with_details(json!({"causes": [{"message": what.to_string()}]}))
    }

    /// Nothing is served at this path, though the API group exists.
    pub fn no_such_resource() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource").with_details(json!({}))
    }

    /// The path exists but does not have this method.
    pub fn no_such_method() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(405, "MethodNotAllowed", message).with_details(json!({}))
    }

    /// A body, or what a patch makes of an object, that is not an object of its kind.
    pub fn not_of_kind(found: &str, version: &str, kind: &str, why: impl Into<String>) -> Self {
        let why = why.into();
        let message = format!("{found} in version \"{version}\" cannot be handled as a {kind}: {why}");
        Self { cause: Some(Cause::NotOfKind(why)), ..Self::bad_request(message) }
    }

    /// Whether another write came first, so that the same request may be tried on the newer object.
    pub fn is_race(&self) -> bool {
        self.cause == Some(Cause::Race)
    }

    /// The `Status` object for this error.
    pub fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        if let Some(details) = &self.details {
            status["details"] = (**details).clone();
        }
        if let Some(token) = &self.resume {
            status["metadata"]["continue"] = token.as_str().into();
        }
        if self.reason.is_empty() {
            status.as_object_mut().map(|o| o.remove("reason"));
        }
        status
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ApiError {}

impl Subject<'_> {
    /// `jobs.batch`, or `pods` for the core group.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() { self.what.to_owned() } else { format!("{}.{}", self.what, self.group) }
    }

    fn details(&self) -> Value {
        let mut details = json!({});
        for (key, text) in [("name", self.name), ("group", self.group), ("kind", self.what)] {
            if !text.is_empty() {
                details[key] = text.into();
            }
        }
        details
    }
}

impl FieldError {
    pub fn new(kind: FieldErrorKind, path: impl Into<String>, value: Value, detail: impl Into<String>) -> Self {
        Self { kind, path: path.into(), value, detail: detail.into(), verbatim: false }
    }

    pub fn required(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Required, path, Value::Null, detail)
    }

    pub fn invalid(path: impl Into<String>, value: Value, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Invalid, path, value, detail)
    }

    pub fn forbidden(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Forbidden, path, Value::Null, detail)
    }

    pub fn duplicate(path: impl Into<String>, value: Value) -> Self {
        Self::new(FieldErrorKind::Duplicate, path, value, "")
    }

    /// `supported` is listed in the message as the real server does.
    pub fn not_supported(path: impl Into<String>, value: Value, supported: &[&str]) -> Self {
        let quoted: Vec<String> = supported.iter().map(|s| format!("\"{s}\"")).collect();
        let detail = if quoted.is_empty() { String::new() } else { format!("supported values: {}", quoted.join(", ")) };
        Self::new(FieldErrorKind::NotSupported, path, value, detail)
    }

    /// `items_max` is the number of items allowed in the list at `path`, which has `items`.
    pub fn too_many(path: impl Into<String>, items: usize, items_max: usize) -> Self {
        let noun = if items_max == 1 { "item" } else { "items" };
        let detail = format!("must have at most {items_max} {noun}");
        Self::new(FieldErrorKind::TooMany, path, items.into(), detail)
    }

    /// `bytes_max` is the length allowed for the text at `path`.
    pub fn too_long(path: impl Into<String>, bytes_max: usize) -> Self {
        let noun = if bytes_max == 1 { "byte" } else { "bytes" };
        let detail = format!("may not be more than {bytes_max} {noun}");
        Self::new(FieldErrorKind::TooLong, path, Value::Null, detail)
    }

    /// Makes the value stand in the message as it is: text without quotes, null not at all.
    pub fn verbatim(mut self) -> Self {
        self.verbatim = true;
        self
    }

    /// The error without its path, as in `details.causes[].message`.
    pub fn body(&self) -> String {
        use FieldErrorKind as K;
        let mut text = self.kind.words().to_owned();
        if !matches!(self.kind, K::Required | K::Forbidden | K::TooLong | K::Internal) {
            match (&self.value, self.verbatim) {
                (Value::Null, true) => {}
                (Value::String(value), true) => _ = write!(text, ": {value}"),
                (value, _) => _ = write!(text, ": {}", shown(value)),
            }
        }
        if !self.detail.is_empty() {
            let _ = write!(text, ": {}", self.detail);
        }
        text
    }

    fn cause(&self) -> Value {
        json!({"reason": self.kind.reason(), "message": self.body(), "field": self.path})
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.body())
    }
}

impl FieldErrorKind {
    fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Forbidden => "FieldValueForbidden",
            Self::NotFound => "FieldValueNotFound",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::Internal => "InternalError",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::NotSupported => "Unsupported value",
            Self::Duplicate => "Duplicate value",
            Self::Forbidden => "Forbidden",
            Self::NotFound => "Not found",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::Internal => "Internal error",
        }
    }
}

/// A value as it stands in an error message: strings quoted, numbers bare, the rest as JSON.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        other => other.to_string(),
    }
}

fn aggregate(errors: &[FieldError]) -> String {
    let mut texts: Vec<String> = Vec::with_capacity(errors.len());
    for error in errors {
        let text = error.to_string();
        // One rule may be checked by two paths; the real server says it once here and twice in the causes.
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    match texts.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

/// Returns the field and the kind of a mistake from its text: what is compared with recordings of the real server.
#[cfg(test)]
pub fn field_and_kind(text: &str) -> &str {
    use FieldErrorKind as K;
    let kinds = [K::Required, K::Invalid, K::NotSupported, K::Duplicate, K::Forbidden, K::NotFound, K::TooLong]
        .into_iter()
        .chain([K::TooMany, K::TypeInvalid, K::Internal]);
    let ends = kinds.filter_map(|kind| Some(text.find(&format!(": {}", kind.words()))? + 2 + kind.words().len()));
    ends.min().map_or(text, |end| &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_and_kind_are_found_in_a_text() {
        let error = FieldError::invalid("spec.a[b: c]", 1.into(), "no: Forbidden");
        assert_eq!(field_and_kind(&error.to_string()), "spec.a[b: c]: Invalid value");
    }

    #[test]
    fn an_answer_tells_a_bounded_number_of_mistakes() {
        let subject = Subject { group: "", what: "Pod", name: "a" };
        let errors: Vec<_> = (0..FIELD_ERRORS_MAX + 2).map(|n| FieldError::required(format!("f{n}"), "")).collect();
        let whole = ApiError::invalid(subject, &errors[..FIELD_ERRORS_MAX]);
        assert!(whole.message.ends_with(", f999: Required value]"), "{}", whole.message);
        let cut = ApiError::invalid(subject, &errors);
        assert_eq!(cut.message, whole.message + " and 2 more");
        assert_eq!(cut.details.expect("causes")["causes"].as_array().map(Vec::len), Some(FIELD_ERRORS_MAX));
    }
}
