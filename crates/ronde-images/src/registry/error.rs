//! Why a registry did not give what it was asked for, in its own words where it gives a reason.
//!
//! The texts go into events and onto terminals as they are, so each says everything in one line. No text ever has a
//! secret: a URL is shown as its host only.

use std::{error::Error as StdError, path::PathBuf};

use http::StatusCode;
use serde::Deserialize;

use crate::{digest, manifest};

/// As long as reasons may be: registries write a sentence, proxies in front of them whole pages.
const REASON_LENGTH_MAX: usize = 300;

/// What can go wrong with a registry.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    #[error("cannot reach `{host}`: {cause}")]
    Unreachable { host: String, cause: String },
    #[error("no TLS connection to `{host}`: {cause}")]
    Tls { host: String, cause: String },
    #[error("the connection to `{host}` broke: {cause}")]
    Broken { host: String, cause: String },
    #[error("not found")]
    NotFound,
    #[error("{reason}")]
    Denied { reason: String },
    #[error("{}", status_text(*.status, .reason))]
    Status { status: StatusCode, reason: String },
    #[error("`{host}` sent {what} of more than {max} bytes")]
    TooLarge { host: String, what: &'static str, max: u64 },
    #[error("`{host}` does not follow the registry protocol: {what}")]
    Protocol { host: String, what: String },
    #[error("will not send credentials to `{host}` without TLS")]
    Exposed { host: String },
    #[error(transparent)]
    Digest(#[from] digest::Error),
    #[error(transparent)]
    Document(#[from] manifest::Error),
    #[error("cannot read `{}`: {cause}", .path.display())]
    File { path: PathBuf, cause: String },
    #[error("credential helper `{program}` failed: {cause}")]
    Helper { program: String, cause: String },
    #[error("invalid registry credentials: {0}")]
    Credentials(String),
    #[error("no host is configured that answers for `{0}`")]
    NoHost(String),
    #[error("the download was stopped")]
    Stopped,
}

impl RegistryError {
    /// Tells whether the registry could not be asked at all: no network, no such host, refused, no answer in time.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }

    /// Tells whether the registry has no such image for us. Registries hide what is private behind the same answer.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::NotFound | Self::Denied { .. })
    }

    /// Tells whether content is not what its digest says.
    pub fn is_wrong_content(&self) -> bool {
        matches!(self, Self::Digest(_))
    }

    /// Makes the error of an answer that is no success.
    pub(super) fn of_answer(status: StatusCode, body: &[u8]) -> Self {
        let reason = reason_of(body);
        match status {
            StatusCode::NOT_FOUND => Self::NotFound,
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                Self::Denied { reason: reason.unwrap_or_else(|| status_text(status, "")) }
            }
            _ => Self::Status { status, reason: reason.unwrap_or_default() },
        }
    }
}

fn status_text(status: StatusCode, reason: &str) -> String {
    let words = status.canonical_reason().unwrap_or_default().to_lowercase();
    let text = format!("{} {words}", status.as_u16());
    let is_new = !reason.is_empty() && !reason.to_lowercase().ends_with(&words);
    if is_new { format!("{}: {reason}", text.trim_end()) } else { text.trim_end().to_owned() }
}

/// The body of a failure, as the distribution specification has it.
#[derive(Deserialize)]
struct Failures {
    errors: Vec<FailureEntry>,
}

#[derive(Deserialize)]
struct FailureEntry {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

/// Token servers of OAuth 2 say it like this, and some others with `details` or `message`.
#[derive(Deserialize)]
struct OtherFailure {
    #[serde(default, alias = "details", alias = "message")]
    error_description: String,
}

fn reason_of(body: &[u8]) -> Option<String> {
    if let Ok(Failures { errors }) = serde_json::from_slice(body) {
        return errors.first().map(|entry| one_line(&entry.text())).filter(|text| !text.is_empty());
    }
    let other: OtherFailure = serde_json::from_slice(body).ok()?;
    Some(one_line(&other.error_description)).filter(|text| !text.is_empty())
}

impl FailureEntry {
    fn text(&self) -> String {
        let code = self.code.to_lowercase().replace('_', " ");
        match (code.as_str(), self.message.as_str()) {
            (code, "") => code.to_owned(),
            ("" | "unknown", message) => message.to_owned(),
            (code, message) if message.to_lowercase().starts_with(code) => message.to_owned(),
            (code, message) => format!("{code}: {message}"),
        }
    }
}

pub(super) fn protocol(host: &str, what: &str) -> RegistryError {
    RegistryError::Protocol { host: host.to_owned(), what: what.to_owned() }
}

/// Makes a text from outside fit for one line of a terminal.
pub(super) fn one_line(text: &str) -> String {
    let clean: String = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    let clean = clean.trim();
    match clean.char_indices().nth(REASON_LENGTH_MAX) {
        Some((end, _)) => format!("{}…", &clean[..end]),
        None => clean.to_owned(),
    }
}

/// Returns the innermost cause, which is the one that people understand: `connection refused`.
pub(super) fn root_cause(error: &(dyn StdError + 'static)) -> String {
    let mut inner = error;
    while let Some(next) = inner.source() {
        inner = next;
    }
    let text = one_line(&inner.to_string());
    // The system's number is of no use beside its words.
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(status: u16, body: &str, text: &str) {
        let status = StatusCode::from_u16(status).unwrap();
        assert_eq!(RegistryError::of_answer(status, body.as_bytes()).to_string(), text, "{status} {body}");
    }

    #[test]
    fn a_registry_is_quoted() {
        check(404, r#"{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}"#, "not found");
        check(
            403,
            r#"{"errors":[{"code":"DENIED","message":"requested access to the resource is denied"}]}"#,
            "denied: requested access to the resource is denied",
        );
        check(
            401,
            r#"{"errors":[{"code":"UNAUTHORIZED","message":"authentication required","detail":[{}]}]}"#,
            "unauthorized: authentication required",
        );
        check(401, r#"{"details":"incorrect username or password"}"#, "incorrect username or password");
        check(
            429,
            r#"{"errors":[{"code":"TOOMANYREQUESTS","message":"You have reached your pull rate limit."}]}"#,
            "429 too many requests: toomanyrequests: You have reached your pull rate limit.",
        );
    }

    #[test]
    fn an_answer_without_a_reason_is_told_by_its_status() {
        check(429, "", "429 too many requests");
        check(429, "Too Many Requests\n", "429 too many requests");
        check(503, "<html>down</html>", "503 service unavailable");
        check(403, "", "403 forbidden");
        check(599, "{}", "599");
        check(401, r#"{"errors":[]}"#, "401 unauthorized");
    }

    #[test]
    fn a_reason_is_one_line_and_bounded() {
        let long = format!(r#"{{"errors":[{{"code":"X","message":"a\u001b[31m\nb{}"}}]}}"#, "ä".repeat(1000));
        let text = RegistryError::of_answer(StatusCode::FORBIDDEN, long.as_bytes()).to_string();
        assert!(text.starts_with("x: a [31m bää") && text.chars().count() == REASON_LENGTH_MAX + 1, "{text}");
    }

    #[test]
    fn what_is_missing_and_what_is_out_of_reach_are_told_apart() {
        let denied = RegistryError::Denied { reason: String::new() };
        let unreachable = RegistryError::Unreachable { host: "h".into(), cause: "connection refused".into() };
        let busy = RegistryError::Status { status: StatusCode::TOO_MANY_REQUESTS, reason: String::new() };
        let told = [RegistryError::NotFound, denied, unreachable, busy].map(|e| (e.is_missing(), e.is_unreachable()));
        assert_eq!(told, [(true, false), (true, false), (false, true), (false, false)]);
    }
}
