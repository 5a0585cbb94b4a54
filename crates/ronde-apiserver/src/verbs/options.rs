//! How a read or a write is asked for, parsed and checked. `http/query.rs` reads these from the query of a request.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use crate::{
    decode::FieldValidation,
    error::ApiError,
    store::{NamespacedName, Revision},
};

/// How a list or watch is asked for.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ListOptions {
    pub label_selector: String,
    pub field_selector: String,
    pub watch: bool,
    pub limit: usize,
    pub resume: Option<Continue>,
    pub version: VersionRule,
    pub bookmarks: bool,
    pub send_initial_events: Option<bool>,
    pub timeout_seconds: Option<u64>,
}

/// What `resourceVersion` and `resourceVersionMatch` ask for.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum VersionRule {
    /// Nothing given, or `0`: whatever is at hand. Here that is always the newest.
    #[default]
    Any,
    NotOlderThan(Revision),
    Exact(Revision),
}

/// Where a paged list goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Continue {
    /// None: at the newest revision, because the first one is no longer kept.
    pub at: Option<Revision>,
    pub after: NamespacedName,
}

/// How a write is asked for.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct WriteOptions {
    pub dry_run: bool,
    pub field_manager: String,
    pub field_validation: FieldValidation,
    pub force: bool,
}

const CONTINUE_FORMAT: &str = "meta.k8s.io/v1";

impl Continue {
    pub fn encode(&self) -> String {
        let start = json!([&*self.after.namespace, &*self.after.name]);
        URL_SAFE_NO_PAD.encode(json!({"v": CONTINUE_FORMAT, "rv": self.at, "start": start}).to_string())
    }

    /// # Errors
    /// If the token is not one of ours.
    pub fn decode(token: &str) -> Result<Self, ApiError> {
        let read = || -> Option<Self> {
            let value: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
            let start = |index: usize| value["start"][index].as_str();
            (value["v"] == CONTINUE_FORMAT).then_some(())?;
            Some(Self { at: value["rv"].as_u64(), after: NamespacedName::new(start(0)?, start(1)?) })
        };
        read().ok_or_else(|| ApiError::bad_request("continue key is not valid"))
    }
}
