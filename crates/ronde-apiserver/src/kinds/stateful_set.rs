//! Stateful sets.

use std::{borrow::Cow, collections::BTreeSet};

use serde_json::{Value, json};

use super::{
    Generation, Rules, claim,
    errors::Errors,
    meta,
    path::Path,
    pod_defaults, podspec,
    read::{default, default_optional, entries, items, number, object, objects_mut, text},
    workload::{
        Counts, collision_count, default_template, only_always, required_selector, selects_template, status_counts,
    },
};
use crate::names::is_dns1123_label;

/// What is particular about stateful sets.
pub const RULES: Rules = Rules {
    generation: Generation::OnChange(|new, old| new["spec"] != old["spec"]),
    default: defaults,
    prepare_create: |set, _| {
        if let Some(set) = set.as_object_mut() {
            set.insert("status".to_owned(), json!({"replicas": 0, "availableReplicas": 0}));
        }
    },
    validate,
    validate_status: |new, old, errors| {
        let all = &[
            "replicas",
            "readyReplicas",
            "currentReplicas",
            "updatedReplicas",
            "availableReplicas",
            "observedGeneration",
        ];
        let parts = &["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
        status_counts(&new["status"], Counts { all, parts, ready: "status.readyReplicas" }, errors);
        meta::updated(new, old, errors);
        meta::standard_finalizers(new, errors);
        collision_count(new, old, errors);
    },
    ..Rules::WITH_STATUS
};

const SPEC: Path<'static> = Path::new("spec");
/// What may change in the spec of a set that exists.
const MUTABLE: [&str; 7] = [
    "replicas",
    "template",
    "updateStrategy",
    "minReadySeconds",
    "ordinals",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
];
const FORBIDDEN_CHANGE: &str = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
     'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are \
     forbidden";

fn defaults(set: &mut Value) {
    let Some(spec) = set.get_mut("spec").and_then(Value::as_object_mut) else { return };
    default(spec, "podManagementPolicy", "OrderedReady");
    default_optional(spec, "replicas", 1);
    default_optional(spec, "revisionHistoryLimit", 10);
    default_template(spec);
    if let Some(policy) = object(spec, "persistentVolumeClaimRetentionPolicy") {
        default(policy, "whenDeleted", "Retain");
        default(policy, "whenScaled", "Retain");
    }
    if let Some(strategy) = object(spec, "updateStrategy") {
        if strategy.get("type").is_none_or(|kind| text(kind).is_empty()) {
            strategy.insert("type".to_owned(), "RollingUpdate".into());
            default_optional(strategy, "rollingUpdate", json!({}));
        }
        let is_rolling = strategy.get("type").map(text) == Some("RollingUpdate");
        if let Some(rolling) = strategy.get_mut("rollingUpdate").and_then(Value::as_object_mut) {
            rolling.remove("maxUnavailable");
            if is_rolling {
                default_optional(rolling, "partition", 0);
            }
        }
    }
    for claim in objects_mut(spec, "volumeClaimTemplates") {
        claim.insert("kind".to_owned(), "PersistentVolumeClaim".into());
        claim.insert("apiVersion".to_owned(), "v1".into());
        object(claim, "spec").map(pod_defaults::claim_spec);
        if let Some(status) = object(claim, "status") {
            default(status, "phase", "Pending");
        }
    }
}

fn validate(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    match old {
        None => meta::created(new, true, is_dns1123_label, errors),
        Some(old) => meta::updated(new, old, errors),
    }
    meta::standard_finalizers(new, errors);
    spec(&new["spec"], old.is_none(), errors);
    if let Some(old) = old
        && has_forbidden_change(&new["spec"], &old["spec"])
    {
        errors.forbidden(&SPEC, FORBIDDEN_CHANGE);
    }
}

fn has_forbidden_change(new: &Value, old: &Value) -> bool {
    let fixed = |spec| entries(spec).filter(|(field, _)| !MUTABLE.contains(field));
    !fixed(new).eq(fixed(old))
}

fn spec(spec: &Value, is_new: bool, errors: &mut Errors) {
    management_policy(text(&spec["podManagementPolicy"]), errors);
    update_strategy(&spec["updateStrategy"], &SPEC.child("updateStrategy"), errors);
    let retention = SPEC.child("persistentVolumeClaimRetentionPolicy");
    for field in ["whenDeleted", "whenScaled"] {
        let policy = &spec["persistentVolumeClaimRetentionPolicy"][field];
        errors.one_of_optional(&retention.child(field), policy, &["Retain", "Delete"]);
    }
    if is_new {
        let list = SPEC.child("volumeClaimTemplates");
        for (index, claim) in items(&spec["volumeClaimTemplates"]).iter().enumerate() {
            claim::claim_spec(&claim["spec"], &list.index(index).child("spec"), errors);
        }
    }
    errors.nonnegative(&SPEC.child("replicas"), number(&spec["replicas"]));
    errors.nonnegative(&SPEC.child("minReadySeconds"), number(&spec["minReadySeconds"]));
    errors.nonnegative(&SPEC.child("ordinals.start"), number(&spec["ordinals"]["start"]));
    let service = text(&spec["serviceName"]);
    if is_new && !service.is_empty() {
        errors.names(&SPEC.child("serviceName"), service, is_dns1123_label(service));
    }
    if required_selector(&spec["selector"], "statefulset", errors) {
        template(spec, errors);
    } else {
        errors.invalid(&SPEC.child("selector"), spec["selector"].clone(), "");
    }
    let pod_spec = &spec["template"]["spec"];
    only_always(pod_spec, errors);
    if !pod_spec["activeDeadlineSeconds"].is_null() {
        let detail = "activeDeadlineSeconds in StatefulSet is not Supported";
        errors.forbidden(&SPEC.child("template.spec.activeDeadlineSeconds"), detail);
    }
}

fn management_policy(policy: &str, errors: &mut Errors) {
    match policy {
        "" => errors.required(&SPEC.child("podManagementPolicy"), ""),
        "OrderedReady" | "Parallel" => {}
        _ => errors.invalid(&SPEC.child("podManagementPolicy"), policy, "must be 'OrderedReady' or 'Parallel'"),
    }
}

fn update_strategy(strategy: &Value, path: &Path<'_>, errors: &mut Errors) {
    let rolling = &strategy["rollingUpdate"];
    let at = path.child("rollingUpdate");
    match text(&strategy["type"]) {
        "" => errors.required(path, ""),
        "OnDelete" if !rolling.is_null() => {
            errors.invalid(&at, rolling.clone(), "only allowed for updateStrategy 'RollingUpdate'");
        }
        "OnDelete" => {}
        "RollingUpdate" => errors.nonnegative(&at.child("partition"), number(&rolling["partition"])),
        _ => {
            errors.invalid(path, strategy.clone(), "must be 'RollingUpdate' or 'OnDelete'");
        }
    }
}

/// Checks the template with the volumes and names that each pod of the set will have.
fn template(spec: &Value, errors: &mut Errors) {
    let path = SPEC.child("template");
    let template = completed_template(spec);
    selects_template(spec, &path, errors);
    podspec::template(&template, &path, errors);
    let metadata = &template["metadata"];
    meta::labels(&metadata["labels"], &path.child("labels"), errors);
    let at = path.child("annotations");
    meta::annotations(&metadata["annotations"], &at, errors);
    podspec::annotations(&metadata["annotations"], &template["spec"], &at, errors);
}

fn completed_template(spec: &Value) -> Cow<'_, Value> {
    let pod_spec = &spec["template"]["spec"];
    let is_complete = items(&spec["volumeClaimTemplates"]).is_empty()
        && pod_spec["subdomain"].is_null()
        && pod_spec["hostname"].is_null();
    if is_complete {
        return Cow::Borrowed(&spec["template"]);
    }
    let mut template = spec["template"].clone();
    if let Some(pod_spec) = template.get_mut("spec").and_then(Value::as_object_mut) {
        pod_spec.remove("subdomain");
        pod_spec.remove("hostname");
        add_claims(pod_spec, &spec["volumeClaimTemplates"]);
    }
    Cow::Owned(template)
}

fn add_claims(pod_spec: &mut serde_json::Map<String, Value>, claims: &Value) {
    let names: BTreeSet<&str> = items(claims).iter().map(|claim| text(&claim["metadata"]["name"])).collect();
    if names.is_empty() {
        return;
    }
    let mut volumes: Vec<Value> =
        names.iter().map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}})).collect();
    let own = pod_spec.get("volumes").map(items).unwrap_or_default().iter();
    volumes.extend(own.filter(|volume| !names.contains(text(&volume["name"]))).cloned());
    pod_spec.insert("volumes".to_owned(), volumes.into());
}
