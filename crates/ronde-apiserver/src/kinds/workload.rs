//! Deployments, replica sets and controller revisions. Stateful sets are in [`super::stateful_set`].

use serde_json::{Map, Value, json};

use super::{
    Generation, Rules,
    errors::Errors,
    meta,
    path::Path,
    pod, pod_defaults, podspec,
    read::{default, default_optional, number, object, text},
    selector,
};
use crate::names::{is_dns1123_subdomain, is_valid_percent};

/// What is particular about deployments.
pub const DEPLOYMENT: Rules = Rules {
    generation: Generation::OnChange(|new, old| {
        new["spec"] != old["spec"] || new["metadata"]["annotations"] != old["metadata"]["annotations"]
    }),
    default: default_deployment,
    prepare_create: reset_status,
    prepare_status: |new, old, _| {
        super::read::keep_field(new, old, "spec");
        if let Some(meta) = new.get_mut("metadata") {
            super::read::keep_field(meta, &old["metadata"], "labels");
        }
    },
    validate: validate_deployment,
    validate_status: |new, old, errors| {
        meta::updated(new, old, errors);
        meta::standard_finalizers(new, errors);
        let all = &[
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
        ];
        let parts = &["updatedReplicas", "readyReplicas", "availableReplicas"];
        status_counts(&new["status"], Counts { all, parts, ready: "readyReplicas" }, errors);
        collision_count(new, old, errors);
    },
    ..Rules::WITH_STATUS
};

/// What is particular about replica sets.
pub const REPLICA_SET: Rules = Rules {
    generation: Generation::OnChange(|new, old| new["spec"] != old["spec"]),
    default: default_replica_set,
    prepare_create: |set, _| {
        if let Some(set) = set.as_object_mut() {
            set.insert("status".to_owned(), json!({"replicas": 0}));
        }
    },
    validate: validate_replica_set,
    validate_status: |new, old, errors| {
        meta::updated(new, old, errors);
        meta::standard_finalizers(new, errors);
        let all = &["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration"];
        let parts = &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
        status_counts(&new["status"], Counts { all, parts, ready: "readyReplicas" }, errors);
    },
    ..Rules::WITH_STATUS
};

/// What is particular about controller revisions.
pub const CONTROLLER_REVISION: Rules = Rules { validate: validate_revision, ..Rules::PLAIN };

const SPEC: Path<'static> = Path::new("spec");

/// Clears the status of an object.
pub fn reset_status(object: &mut Value, _now: &str) {
    if let Some(object) = object.as_object_mut() {
        object.insert("status".to_owned(), json!({}));
    }
}

fn default_deployment(deployment: &mut Value) {
    let Some(spec) = deployment.get_mut("spec").and_then(Value::as_object_mut) else { return };
    default_optional(spec, "replicas", 1);
    default_optional(spec, "revisionHistoryLimit", 10);
    default_optional(spec, "progressDeadlineSeconds", 600);
    default_template(spec);
    let Some(strategy) = object(spec, "strategy") else { return };
    default(strategy, "type", "RollingUpdate");
    if strategy.get("type").map(text) == Some("RollingUpdate")
        && let Some(rolling) = object(strategy, "rollingUpdate")
    {
        default_optional(rolling, "maxUnavailable", "25%");
        default_optional(rolling, "maxSurge", "25%");
    }
}

fn default_replica_set(set: &mut Value) {
    if let Some(spec) = set.get_mut("spec").and_then(Value::as_object_mut) {
        default_optional(spec, "replicas", 1);
        default_template(spec);
    }
}

/// Sets the defaults of the pod template in the spec of a workload.
pub fn default_template(spec: &mut Map<String, Value>) {
    if let Some(pod_spec) = object(spec, "template").and_then(|template| object(template, "spec")) {
        pod_defaults::pod_spec(pod_spec);
        pod::drop_disabled(pod_spec);
    }
}

fn validate_deployment(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    match old {
        None => meta::created(new, true, is_dns1123_subdomain, errors),
        Some(old) => meta::updated(new, old, errors),
    }
    meta::standard_finalizers(new, errors);
    let spec = &new["spec"];
    errors.nonnegative(&SPEC.child("replicas"), number(&spec["replicas"]));
    selector_and_template(spec, "deployment", errors);
    strategy(&spec["strategy"], &SPEC.child("strategy"), errors);
    let ready = number(&spec["minReadySeconds"]);
    errors.nonnegative(&SPEC.child("minReadySeconds"), ready);
    errors.nonnegative_optional(&SPEC.child("revisionHistoryLimit"), &spec["revisionHistoryLimit"]);
    let at = SPEC.child("progressDeadlineSeconds");
    errors.nonnegative_optional(&at, &spec["progressDeadlineSeconds"]);
    if let Some(seconds) = spec["progressDeadlineSeconds"].as_i64()
        && seconds <= ready
    {
        errors.invalid(&at, seconds, "must be greater than minReadySeconds");
    }
    if let Some(old) = old {
        immutable_selector(new, old, errors);
    }
}

fn validate_replica_set(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    match old {
        None => meta::created(new, true, is_dns1123_subdomain, errors),
        Some(old) => meta::updated(new, old, errors),
    }
    meta::standard_finalizers(new, errors);
    let spec = &new["spec"];
    errors.nonnegative(&SPEC.child("replicas"), number(&spec["replicas"]));
    errors.nonnegative(&SPEC.child("minReadySeconds"), number(&spec["minReadySeconds"]));
    selector_and_template(spec, "deployment", errors);
    if let Some(old) = old {
        immutable_selector(new, old, errors);
    }
}

/// Checks that a workload selects the pods it makes.
fn selector_and_template(spec: &Value, kind: &str, errors: &mut Errors) {
    let at = SPEC.child("template");
    if required_selector(&spec["selector"], kind, errors) {
        selects_template(spec, &at, errors);
        podspec::template(&spec["template"], &at, errors);
        let pod_spec = &spec["template"]["spec"];
        only_always(pod_spec, errors);
        if !pod_spec["activeDeadlineSeconds"].is_null() {
            let detail = "activeDeadlineSeconds in ReplicaSet is not Supported";
            errors.forbidden(&at.child("spec").child("activeDeadlineSeconds"), detail);
        }
    } else {
        errors.invalid(&SPEC.child("selector"), spec["selector"].clone(), "invalid label selector");
    }
}

/// Checks the selector of a workload and tells whether it can be evaluated.
pub fn required_selector(selector: &Value, kind: &str, errors: &mut Errors) -> bool {
    let path = SPEC.child("selector");
    if selector.is_null() {
        errors.required(&path, "");
        return true;
    }
    let before = errors.len();
    selector::validate(selector, &path, errors);
    let is_valid = errors.len() == before;
    if selector::is_empty(selector) {
        let detail = format!("empty selector is invalid for {kind}");
        errors.invalid(&path, selector.clone(), detail);
    }
    is_valid
}

/// Checks that the selector matches the labels of the template.
pub fn selects_template(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (selector, labels) = (&spec["selector"], &spec["template"]["metadata"]["labels"]);
    let is_empty = !selector.is_null() && selector::is_empty(selector);
    if !is_empty && !selector::matches(selector, labels) {
        let detail = "`selector` does not match template `labels`";
        errors.invalid(&path.child("metadata").child("labels"), labels.clone(), detail);
    }
}

/// Checks that pods of a workload which never ends never end.
pub fn only_always(pod_spec: &Value, errors: &mut Errors) {
    let policy = text(&pod_spec["restartPolicy"]);
    if policy != "Always" {
        errors.not_supported(&Path::new("spec.template.spec.restartPolicy"), policy, &["Always"]);
    }
}

fn immutable_selector(new: &Value, old: &Value, errors: &mut Errors) {
    let (new, old) = (&new["spec"]["selector"], &old["spec"]["selector"]);
    if new != old {
        errors.invalid(&SPEC.child("selector"), new.clone(), super::errors::IMMUTABLE);
    }
}

fn strategy(strategy: &Value, path: &Path<'_>, errors: &mut Errors) {
    let rolling = &strategy["rollingUpdate"];
    let at = path.child("rollingUpdate");
    match text(&strategy["type"]) {
        "Recreate" if !rolling.is_null() => {
            errors.forbidden(&at, "may not be specified when strategy `type` is 'Recreate'");
        }
        "Recreate" => {}
        "RollingUpdate" => rolling_update(rolling, &at, errors),
        _ => {
            errors.not_supported(path, strategy.clone(), &["Recreate", "RollingUpdate"]);
        }
    }
}

fn rolling_update(rolling: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (unavailable, surge) = (&rolling["maxUnavailable"], &rolling["maxSurge"]);
    let at = path.child("maxUnavailable");
    int_or_percent(unavailable, &at, errors);
    int_or_percent(surge, &path.child("maxSurge"), errors);
    if amount(unavailable) == 0 && amount(surge) == 0 {
        errors.invalid(&at, unavailable.clone(), "may not be 0 when `maxSurge` is 0");
    }
    at_most_all(unavailable, &at, errors);
}

/// Checks a number or a percentage.
pub fn int_or_percent(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    match value.as_str() {
        Some(percent) => errors.names(path, percent, is_valid_percent(percent)),
        None => errors.nonnegative(path, number(value)),
    }
}

/// Checks that a percentage is not more than everything.
pub fn at_most_all(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    if percent(value).is_some_and(|percent| percent > 100) {
        errors.invalid(path, value.clone(), "must not be greater than 100%");
    }
}

fn percent(value: &Value) -> Option<i64> {
    value.as_str().filter(|text| is_valid_percent(text).is_empty())?.strip_suffix('%')?.parse().ok()
}

/// Returns the number of a number or percentage; text that is neither counts as zero unless it is a number itself.
pub fn amount(value: &Value) -> i64 {
    percent(value).or_else(|| value.as_str()?.parse().ok()).unwrap_or_else(|| number(value))
}

/// Which counts of pods a status has.
pub struct Counts<'a> {
    /// Those that may not be negative.
    pub all: &'a [&'a str],
    /// Those that may not be more than the replicas.
    pub parts: &'a [&'a str],
    /// How messages call the pods that are ready.
    pub ready: &'a str,
}

/// Checks counts of pods.
pub fn status_counts(status: &Value, Counts { all, parts, ready }: Counts<'_>, errors: &mut Errors) {
    let path = Path::new("status");
    for field in all.iter().chain(&["terminatingReplicas", "collisionCount"]) {
        errors.nonnegative_optional(&path.child(field), &status[*field]);
    }
    let replicas = number(&status["replicas"]);
    for field in parts {
        let count = number(&status[*field]);
        if count > replicas {
            errors.invalid(&path.child(field), count, "cannot be greater than status.replicas");
        }
    }
    let available = number(&status["availableReplicas"]);
    if available > number(&status["readyReplicas"]) {
        errors.invalid(&path.child("availableReplicas"), available, format!("cannot be greater than {ready}"));
    }
}

/// Checks that a counter of collisions does not go back.
pub fn collision_count(new: &Value, old: &Value, errors: &mut Errors) {
    let count = |object: &Value| object["status"]["collisionCount"].as_i64();
    let is_less = match (count(new), count(old)) {
        (None, Some(_)) => true,
        (Some(new), Some(old)) => new < old,
        _ => false,
    };
    if is_less {
        let value = count(new).unwrap_or_default();
        errors.invalid(&Path::new("status.collisionCount"), value, "cannot be decremented");
    }
}

fn validate_revision(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    if let Some(old) = old {
        meta::updated(new, old, errors);
        meta::standard_finalizers(new, errors);
    }
    meta::created(new, true, is_dns1123_subdomain, errors);
    meta::standard_finalizers(new, errors);
    errors.nonnegative(&Path::new("revision"), number(&new["revision"]));
    let (data, path) = (&new["data"], Path::new("data"));
    match old {
        Some(old) => errors.immutable(&path, data, &old["data"]),
        None if data.is_null() => errors.required(&path, "data is mandatory"),
        None if !data.is_object() => errors.required(&path, "data must be a valid JSON object"),
        None => {}
    }
}
