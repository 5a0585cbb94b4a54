//! Reviews: questions about users, their tokens and their rights. Nothing of them is stored.

use serde_json::{Value, json};

use crate::{
    api::Api,
    auth::{ISSUER, User},
    discovery::ResourceInfo,
    error::{ApiError, FieldError, Subject},
    rbac::{Attributes, Requested, ResourceAttributes},
    target::Target,
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
static TABLE: [(&str, &str, &str, bool, Review); 6] = [
    ("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview", false, Review::SelfSubject),
    ("authentication.k8s.io", "tokenreviews", "TokenReview", false, Review::Token),
    ("authorization.k8s.io", "localsubjectaccessreviews", "LocalSubjectAccessReview", true, Review::LocalAccess),
    ("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview", false, Review::SelfAccess),
    ("authorization.k8s.io", "selfsubjectrulesreviews", "SelfSubjectRulesReview", false, Review::SelfRules),
    ("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview", false, Review::Access),
];

impl Review {
    fn row(self) -> &'static (&'static str, &'static str, &'static str, bool, Self) {
        TABLE.iter().find(|row| row.4 == self).expect("every review is in the table")
    }

    /// The kind of the object that asks this.
    pub fn kind(self) -> &'static str {
        self.row().2
    }
}

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
/// If it asks nothing.
pub fn answer(api: &Api, review: Review, target: &Target, user: &User, mut value: Value) -> Result<Value, ApiError> {
    let (group, kind) = (review.row().0, review.row().2);
    value["apiVersion"] = format!("{group}/v1").into();
    value["kind"] = kind.into();
    if !value["metadata"].is_object() {
        value["metadata"] = json!({});
    }
    check(review, target, &value["spec"])
        .map_err(|fault| ApiError::invalid(Subject { group, what: "", name: "" }, &[fault]))?;
    value["status"] = match review {
        Review::SelfSubject => {
            value["metadata"]["creationTimestamp"] = api.clock_and_ids().now_text().into();
            json!({"userInfo": user.info()})
        }
        Review::Token => token_status(api, &value["spec"]),
        Review::SelfAccess => access_status(api, user, &value["spec"]),
        Review::Access | Review::LocalAccess => access_status(api, &subject(&value["spec"]), &value["spec"]),
        Review::SelfRules => rules_status(api, user, text(&value["spec"]["namespace"]))?,
    };
    Ok(value)
}

fn check(review: Review, target: &Target, spec: &Value) -> Result<(), FieldError> {
    match review {
        Review::SelfSubject | Review::Token | Review::SelfRules => Ok(()),
        Review::SelfAccess => check_attributes(spec),
        Review::Access => check_attributes(spec).and_then(|()| check_subject(spec)),
        Review::LocalAccess => {
            check_attributes(spec)?;
            check_subject(spec)?;
            check_namespace(target, spec)
        }
    }
}

/// A question about access is about a resource or a path, not both, not neither.
fn check_attributes(spec: &Value) -> Result<(), FieldError> {
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

fn check_subject(spec: &Value) -> Result<(), FieldError> {
    if !text(&spec["user"]).is_empty() || texts(&spec["groups"]).next().is_some() {
        return Ok(());
    }
    Err(FieldError::invalid("spec.user", "".into(), "at least one of user or group must be specified"))
}

fn check_namespace(target: &Target, spec: &Value) -> Result<(), FieldError> {
    let (path, named) = ("spec.resourceAttributes.namespace", text(&spec["resourceAttributes"]["namespace"]));
    if named == target.namespace {
        return Ok(());
    }
    Err(FieldError::invalid(path, named.into(), "must match metadata.namespace"))
}

/// Whom a question about somebody else is about.
fn subject(spec: &Value) -> User {
    User::named(text(&spec["user"]), &texts(&spec["groups"]).collect::<Vec<_>>())
}

fn access_status(api: &Api, user: &User, spec: &Value) -> Value {
    let verdict = api.decide(user, &attributes(spec));
    let mut status = json!({"allowed": verdict.allowed});
    if !verdict.reason.is_empty() {
        status["reason"] = verdict.reason.into();
    }
    status
}

fn attributes(spec: &Value) -> Attributes<'_> {
    let resource = &spec["resourceAttributes"];
    if resource.is_null() {
        let path = &spec["nonResourceAttributes"];
        return Attributes { verb: text(&path["verb"]), requested: Requested::Path(text(&path["path"])) };
    }
    let of = ResourceAttributes {
        group: text(&resource["group"]),
        resource: text(&resource["resource"]),
        subresource: text(&resource["subresource"]),
        namespace: text(&resource["namespace"]),
        name: text(&resource["name"]),
    };
    Attributes { verb: text(&resource["verb"]), requested: Requested::Resource(of) }
}

fn rules_status(api: &Api, user: &User, namespace: &str) -> Result<Value, ApiError> {
    if namespace.is_empty() {
        return Err(ApiError::bad_request("no namespace on request"));
    }
    let rules = api.ask_policy(|policy| policy.rules_for(user, namespace));
    let (paths, resources): (Vec<_>, Vec<_>) = rules.into_iter().partition(|rule| !rule.non_resource_urls.is_empty());
    Ok(json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false}))
}

fn token_status(api: &Api, spec: &Value) -> Value {
    let mut wanted: Vec<&str> = texts(&spec["audiences"]).collect();
    if wanted.is_empty() {
        wanted.push(ISSUER);
    }
    let holder = |audience: &&str| api.user_for(text(&spec["token"]), audience);
    let good: Vec<&str> = wanted.iter().copied().filter(|audience| holder(audience).is_some()).collect();
    match good.first().and_then(holder) {
        Some(user) => json!({"authenticated": true, "user": user.info(), "audiences": good}),
        None => json!({"user": {}, "error": "[invalid bearer token]"}),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn texts(value: &Value) -> impl Iterator<Item = &str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str)
}
