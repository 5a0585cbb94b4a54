//! What can be wrong with a strategic merge patch, and the real server's codes for it.

use serde_json::{Map, Value, json};

use crate::{decode::described, error::ApiError, patch::rejected};

/// A patch that cannot be merged.
#[derive(Debug)]
pub(super) enum Fault {
    /// Misused directives: 400.
    BadDirective(&'static str),
    /// A list of lists: 422 without a reason.
    ListOfLists,
    /// The real server calls all else its own error: 500.
    Other(String),
}

impl Fault {
    pub(super) const PRIMITIVE_LIST: Self = Self::BadDirective("invalid patch format of primitive list");
    pub(super) const RETAIN_KEYS: Self = Self::BadDirective("invalid patch format of retainKeys");
    pub(super) const SET_ORDER: Self = Self::BadDirective("invalid patch format of setElementOrder list");

    pub(super) fn not_a_list(found: &Value) -> Self {
        Self::Other(format!("expected a list, got {}", described(found)))
    }

    pub(super) fn not_an_object(found: &Value) -> Self {
        Self::Other(format!("expected an object, got {}", described(found)))
    }

    pub(super) fn no_merge_key(item: &Map<String, Value>, key: &str) -> Self {
        Self::Other(format!("{} has no `{key}`, by which the list is merged", json!(item)))
    }

    pub(super) fn unknown_directive(directive: &Value, patch: &Map<String, Value>) -> Self {
        Self::Other(format!("unknown directive `$patch: {directive}` in {}", json!(patch)))
    }

    pub(super) fn mixed_types(live: &[Value], change: &[Value]) -> Self {
        Self::Other(format!("list elements are not all of one type: {} and {}", json!(live), json!(change)))
    }
}

impl From<Fault> for ApiError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::BadDirective(why) => Self::bad_request(why),
            Fault::ListOfLists => rejected(),
            Fault::Other(why) => Self::new(500, "", why),
        }
    }
}
