//! Reviews: questions about users and tokens. Nothing of them is stored.
//!
//! There is no RBAC on one machine, so every access is allowed; the answers say so in the words of the API.

use bytes::Bytes;
use serde_json::{Value, json};

use super::body::decode_as;
use crate::{
    api::Api,
    auth::User,
    discovery::ResourceInfo,
    error::{ApiError, FieldError, Subject},
    http::target::Target,
};

/// A kind of question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Review {
    SelfSubject,
    Token,
    SelfAccess,
    SelfRules,
    Access,
    LocalAccess,
}

/// (group, plural, kind, namespaced, review).
const TABLE: [(&str, &str, &str, bool, Review); 6] = [
    ("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview", false, Review::SelfSubject),
    ("authentication.k8s.io", "tokenreviews", "TokenReview", false, Review::Token),
    ("authorization.k8s.io", "localsubjectaccessreviews", "LocalSubjectAccessReview", true, Review::LocalAccess),
    ("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview", false, Review::SelfAccess),
    ("authorization.k8s.io", "selfsubjectrulesreviews", "SelfSubjectRulesReview", false, Review::SelfRules),
    ("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview", false, Review::Access),
];

pub fn has_group(group: &str) -> bool {
    TABLE.iter().any(|row| row.0 == group)
}

/// Returns the review that a path names.
pub fn find(target: &Target) -> Option<Review> {
    let row = TABLE.iter().find(|row| row.0 == target.group && row.1 == target.plural && target.version == "v1")?;
    (row.3 != target.namespace.is_empty()).then_some(row.4)
}

/// Returns what is never stored, as discovery lists it: the reviews, and the older form of bindings.
pub fn infos() -> Vec<ResourceInfo> {
    let info = |(group, plural, kind, namespaced, _): &(&str, &str, &str, bool, Review)| ResourceInfo {
        group: (*group).to_owned(),
        version: "v1".to_owned(),
        kind: (*kind).to_owned(),
        plural: (*plural).to_owned(),
        singular: kind.to_lowercase(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: *namespaced,
        verbs: vec!["create"],
        subresources: Vec::new(),
    };
    let binding = ("", "bindings", "Binding", true, Review::Access);
    TABLE.iter().chain([&binding]).map(info).collect()
}

/// Answers a review.
///
/// # Errors
/// If the body cannot be read, or asks nothing.
pub fn answer(api: &Api, review: Review, user: &User, content_type: &str, body: &Bytes) -> Result<Value, ApiError> {
    let (group, _, kind, _, _) = TABLE.iter().find(|row| row.4 == review).expect("every review is in the table");
    let mut value = decode_as(content_type, body, kind)?.value;
    value["apiVersion"] = format!("{group}/v1").into();
    value["kind"] = (*kind).into();
    if !value["metadata"].is_object() {
        value["metadata"] = json!({});
    }
    check(review, &value["spec"])
        .map_err(|fault| ApiError::invalid(Subject { group, what: "", name: "" }, &[fault]))?;
    value["status"] = match review {
        Review::SelfSubject => {
            value["metadata"]["creationTimestamp"] = api.world().now_text().into();
            json!({"userInfo": user.info()})
        }
        Review::Token => token_status(api, &value["spec"]),
        Review::SelfAccess | Review::Access | Review::LocalAccess => json!({"allowed": true}),
        Review::SelfRules => json!({
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": false,
        }),
    };
    Ok(value)
}

/// A question about access is about a resource or a path, not both, not neither.
fn check(review: Review, spec: &Value) -> Result<(), FieldError> {
    if !matches!(review, Review::SelfAccess | Review::Access | Review::LocalAccess) {
        return Ok(());
    }
    match (&spec["resourceAttributes"], &spec["nonResourceAttributes"]) {
        (Value::Null, Value::Null) => Err(FieldError::invalid(
            "spec.resourceAttributes",
            Value::Null,
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        )),
        (Value::Null, _) | (_, Value::Null) => Ok(()),
        (_, path) => Err(FieldError::invalid(
            "spec.nonResourceAttributes",
            path.clone(),
            "cannot be specified in combination with resourceAttributes",
        )),
    }
}

fn token_status(api: &Api, spec: &Value) -> Value {
    match api.user_of(spec["token"].as_str().unwrap_or_default()) {
        Some(user) => json!({"authenticated": true, "user": user.info(), "audiences": [crate::auth::ISSUER]}),
        None => json!({"user": {}, "error": "[invalid bearer token]"}),
    }
}
