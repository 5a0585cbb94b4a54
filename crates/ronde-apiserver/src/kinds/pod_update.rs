//! What may change in a pod that exists: nearly nothing of its spec.

use serde_json::{Map, Value};

use super::{
    errors::Errors,
    meta,
    path::Path,
    pod::metadata_and_spec,
    podspec,
    read::{changed_fields, entries, items, keep_field, text},
    scheduling,
};
use crate::names::is_in_range;

const MAY_CHANGE: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
     `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
     `spec.tolerations` (only additions to existing tolerations),\
     `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const MIRROR: &str = "kubernetes.io/config.mirror";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// Checks a change of a pod.
pub fn validate_update(new: &Value, old: &Value, errors: &mut Errors) {
    meta::updated(new, old, errors);
    meta::standard_finalizers(new, errors);
    metadata_and_spec(new, errors);
    annotation_changes(new, old, errors);
    let path = Path::new("spec");
    let (new, old) = (&new["spec"], &old["spec"]);
    for list in ["containers", "initContainers"] {
        if !same_containers(items(&new[list]), items(&old[list]), &path.child(list), errors) {
            return;
        }
    }
    if !deadline(new, old, &path.child("activeDeadlineSeconds"), errors) {
        return;
    }
    only_added_tolerations(new, old, &path.child("tolerations"), errors);
    only_removed_gates(new, old, &path.child("schedulingGates"), errors);
    if new == old {
        return;
    }
    let rest = without_allowed_changes(new, old, &path, errors);
    if rest != *old {
        errors.forbidden(&path, format!("{MAY_CHANGE} (changed: {})", changed_fields(old, &rest)));
    }
}

/// Checks annotations that are fixed once a pod exists.
pub fn annotation_changes(new: &Value, old: &Value, errors: &mut Errors) {
    let metadata = Path::new("metadata");
    let path = metadata.child("annotations");
    let (spec, new, old) = (&new["spec"], &new["metadata"]["annotations"], &old["metadata"]["annotations"]);
    for (key, _) in entries(old).filter(|(key, value)| new.get(*key) != Some(value)) {
        if key.starts_with(APP_ARMOR) {
            errors.forbidden(&path.key(key), "may not remove or update AppArmor annotations");
        }
        if key == MIRROR {
            errors.forbidden(&path.key(key), "may not remove or update mirror pod annotation");
        }
    }
    for (key, _) in entries(new).filter(|(key, _)| old.get(*key).is_none()) {
        if key.starts_with(APP_ARMOR) {
            errors.forbidden(&path.key(key), "may not add AppArmor annotations");
        }
        if key == MIRROR {
            errors.forbidden(&path.key(key), "may not add mirror pod annotation");
        }
    }
    podspec::annotations(new, spec, &path, errors);
}

/// Tells whether the lists can be compared one by one.
fn same_containers(new: &[Value], old: &[Value], path: &Path<'_>, errors: &mut Errors) -> bool {
    if new.len() != old.len() {
        errors.forbidden(path, "pod updates may not add or remove containers");
        return false;
    }
    for (index, container) in new.iter().enumerate() {
        let image = text(&container["image"]);
        if image.is_empty() {
            errors.required(&path.index(index).child("image"), "");
        }
        if image.trim() != image {
            let detail = "must not have leading or trailing whitespace";
            errors.invalid(&path.index(index).child("image"), image, detail);
        }
    }
    true
}

/// Tells whether to go on: a deadline may be set or come nearer.
fn deadline(new: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) -> bool {
    let field = "activeDeadlineSeconds";
    match (new[field].as_i64(), old[field].as_i64()) {
        (Some(seconds), before) => {
            let messages = is_in_range(seconds, 0, i64::from(i32::MAX));
            let is_later = messages.is_empty() && before.is_some_and(|before| before < seconds);
            if is_later {
                errors.invalid(path, seconds, "must be less than or equal to previous value");
            }
            let goes_on = messages.is_empty() && !is_later;
            errors.numbers(path, seconds, messages);
            goes_on
        }
        (None, Some(_)) => {
            errors.invalid(path, Value::Null, "must not update from a positive integer to nil value");
            true
        }
        (None, None) => true,
    }
}

fn only_added_tolerations(new: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    fn without_seconds(toleration: &Value) -> Map<String, Value> {
        let mut toleration = toleration.as_object().cloned().unwrap_or_default();
        toleration.remove("tolerationSeconds");
        toleration
    }
    let kept: Vec<_> = items(&new["tolerations"]).iter().map(without_seconds).collect();
    if items(&old["tolerations"]).iter().any(|toleration| !kept.contains(&without_seconds(toleration))) {
        errors.forbidden(path, "existing toleration can not be modified except its tolerationSeconds");
        return;
    }
    scheduling::tolerations(&new["tolerations"], path, errors);
}

fn only_removed_gates(new: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    let before: Vec<&str> = items(&old["schedulingGates"]).iter().map(|gate| text(&gate["name"])).collect();
    for (index, gate) in items(&new["schedulingGates"]).iter().map(|gate| text(&gate["name"])).enumerate() {
        if !before.contains(&gate) {
            let detail = format!("only deletion is allowed, but found new scheduling gate '{gate}'");
            errors.forbidden(&path.index(index).child("name"), detail);
        }
    }
}

/// Returns the new spec with everything undone that may change.
fn without_allowed_changes(new: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) -> Value {
    let mut rest = new.clone();
    for list in ["containers", "initContainers"] {
        let containers = rest.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for (container, before) in containers.zip(items(&old[list])) {
            keep_field(container, before, "image");
        }
    }
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        keep_field(&mut rest, old, field);
    }
    let was_negative = old["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0);
    if was_negative && rest["terminationGracePeriodSeconds"] == 1 {
        keep_field(&mut rest, old, "terminationGracePeriodSeconds");
    }
    if !items(&old["schedulingGates"]).is_empty() {
        gated_changes(&mut rest, old, path, errors);
    }
    rest
}

/// A pod that is not to be scheduled yet may still be told more about where to run.
fn gated_changes(rest: &mut Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (selector, before) = (&rest["nodeSelector"], &old["nodeSelector"]);
    if entries(before).any(|(key, value)| selector.get(key) != Some(value)) {
        let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        errors.invalid(&path.child("nodeSelector"), selector.clone(), detail);
    }
    keep_field(rest, old, "nodeSelector");
    let (affinity, before) = (&rest["affinity"]["nodeAffinity"], &old["affinity"]["nodeAffinity"]);
    if affinity == before {
        return;
    }
    let at = path.child("affinity");
    only_added_node_terms(affinity, before, &at.child("nodeAffinity"), errors);
    undo_node_affinity(rest, old);
}

fn undo_node_affinity(rest: &mut Value, old: &Value) {
    let had_only_nodes = old["affinity"].is_null();
    let Some(spec) = rest.as_object_mut() else { return };
    let Some(affinity) = super::read::object(spec, "affinity") else { return };
    match old["affinity"].get("nodeAffinity") {
        Some(before) => _ = affinity.insert("nodeAffinity".to_owned(), before.clone()),
        None => _ = affinity.remove("nodeAffinity"),
    }
    if had_only_nodes && affinity.is_empty() {
        spec.remove("affinity");
    }
}

fn only_added_node_terms(new: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (new, old) = (items(&new[REQUIRED]["nodeSelectorTerms"]), items(&old[REQUIRED]["nodeSelectorTerms"]));
    let required = path.child(REQUIRED);
    let at = required.child("nodeSelectorTerms");
    if !old.is_empty() && old.len() != new.len() {
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        let list = if new.is_empty() { Value::Null } else { new.to_vec().into() };
        errors.invalid(&at, list.clone(), detail);
        return;
    }
    for (index, (term, before)) in new.iter().zip(old).enumerate() {
        if !has_only_additions(term, before) {
            let detail = "only additions are allowed (no mutations or deletions)";
            errors.invalid(&at.index(index), term.clone(), detail);
        }
    }
}

fn has_only_additions(new: &Value, old: &Value) -> bool {
    let lists = ["matchExpressions", "matchFields"];
    let was_empty = lists.iter().all(|list| items(&old[*list]).is_empty());
    if was_empty {
        return lists.iter().all(|list| items(&new[*list]).is_empty());
    }
    lists.iter().all(|list| items(&new[*list]).starts_with(items(&old[*list])))
}
