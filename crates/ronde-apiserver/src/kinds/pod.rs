//! Pods: what is particular about creating, changing, binding and deleting them.
//!
//! The rules for their specs are in [`super::podspec`] and below it, eviction is in [`super::eviction`], what admission
//! adds is in [`super::pod_admission`].

use serde_json::{Map, Value, json};

use super::{
    Generation, Rules,
    errors::Errors,
    meta,
    path::Path,
    pod_defaults,
    pod_resources::qos_class,
    pod_status,
    pod_update::validate_update,
    podspec::{self, Host},
    read::{items, items_mut, keep_field, number, object, objects_mut, text},
};
use crate::{
    error::{ApiError, FieldError, Subject},
    names::is_dns1123_subdomain,
};

/// What is particular about pods.
pub const RULES: Rules = Rules {
    default,
    prepare_create,
    prepare_update,
    prepare_status,
    validate,
    validate_status: pod_status::validate,
    generation: Generation::OnChange(|new, old| new["spec"] != old["spec"]),
    ..Rules::WITH_STATUS
};

const TERMINATION_GRACE_MIN: i64 = 1;

fn default(pod: &mut Value) {
    if let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) {
        pod_defaults::pod_spec(spec);
        pod_defaults::pod(spec);
        drop_disabled(spec);
    }
}

/// Removes fields of features that are off by default.
pub fn drop_disabled(spec: &mut Map<String, Value>) {
    spec.remove("hostnameOverride");
    drop_image_volumes(spec);
    for volume in objects_mut(spec, "volumes") {
        if let Some(projected) = volume.get_mut("projected").and_then(Value::as_object_mut) {
            objects_mut(projected, "sources").for_each(|source| {
                source.remove("clusterTrustBundle");
                source.remove("podCertificate");
            });
        }
    }
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in objects_mut(spec, list) {
            container.remove("restartPolicyRules");
            let is_sidecar = list == "initContainers" && container.get("restartPolicy").map(text) == Some("Always");
            if !is_sidecar {
                container.remove("restartPolicy");
            }
            objects_mut(container, "env").for_each(|env| {
                env.get_mut("valueFrom").and_then(Value::as_object_mut).map(|source| source.remove("fileKeyRef"));
            });
            let lifecycle = container.get_mut("lifecycle").and_then(Value::as_object_mut);
            if lifecycle.is_some_and(|lifecycle| lifecycle.remove("stopSignal").is_some() && lifecycle.is_empty()) {
                container.remove("lifecycle");
            }
        }
    }
}

fn drop_image_volumes(spec: &mut Map<String, Value>) {
    let volumes = spec.get("volumes").map(items).unwrap_or_default().iter();
    let images: Vec<Value> = volumes.filter(|volume| !volume["image"].is_null()).map(|v| v["name"].clone()).collect();
    if images.is_empty() {
        return;
    }
    remove_named(spec, "volumes", &images);
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        objects_mut(spec, list).for_each(|container| remove_named(container, "volumeMounts", &images));
    }
}

/// Removes the items with these names, and the list with its last item.
fn remove_named(parent: &mut Map<String, Value>, list: &str, names: &[Value]) {
    if let Some(Value::Array(items)) = parent.get_mut(list) {
        items.retain(|item| !names.contains(&item["name"]));
        if items.is_empty() {
            parent.remove(list);
        }
    }
}

fn prepare_create(pod: &mut Value, now: &str) {
    let qos = qos_class(pod);
    let mut status = json!({"phase": "Pending", "qosClass": qos});
    if !items(&pod["spec"]["schedulingGates"]).is_empty() {
        status["conditions"] = json!([{
            "type": "PodScheduled", "status": "False", "lastProbeTime": null, "lastTransitionTime": now,
            "reason": "SchedulingGated", "message": "Scheduling is blocked due to non-empty scheduling gates",
        }]);
    }
    if let Some(pod) = pod.as_object_mut() {
        pod.insert("status".to_owned(), status);
    }
    merge_label_keys(pod);
}

/// Turns keys whose values come from the pod's own labels into expressions of the selectors beside them.
fn merge_label_keys(pod: &mut Value) {
    let labels = pod["metadata"]["labels"].clone();
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return };
    for constraint in items_mut(spec, "topologySpreadConstraints") {
        merge_keys_of(constraint, &labels);
    }
    let Some(affinity) = spec.get_mut("affinity").and_then(Value::as_object_mut) else { return };
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(terms) = affinity.get_mut(kind).and_then(Value::as_object_mut) else { continue };
        for term in objects_mut(terms, "preferredDuringSchedulingIgnoredDuringExecution") {
            if let Some(term) = term.get_mut("podAffinityTerm") {
                merge_keys_of(term, &labels);
            }
        }
        for term in items_mut(terms, "requiredDuringSchedulingIgnoredDuringExecution") {
            merge_keys_of(term, &labels);
        }
    }
}

fn merge_keys_of(term: &mut Value, labels: &Value) {
    let expressions: Vec<Value> = [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")]
        .iter()
        .flat_map(|(field, operator)| items(&term[*field]).iter().map(move |key| (text(key), operator)))
        .filter_map(|(key, operator)| Some(json!({"key": key, "operator": operator, "values": [labels.get(key)?]})))
        .collect();
    let Some(selector) = term.get_mut("labelSelector").and_then(Value::as_object_mut) else { return };
    if !expressions.is_empty()
        && let Some(list) = selector.entry("matchExpressions").or_insert_with(|| json!([])).as_array_mut()
    {
        list.extend(expressions);
    }
}

fn prepare_update(new: &mut Value, old: &Value) {
    keep_field(new, old, "status");
}

fn prepare_status(new: &mut Value, old: &Value, _now: &str) {
    keep_field(new, old, "spec");
    if let Some(meta) = meta::meta_mut(new) {
        let owners = &old["metadata"]["ownerReferences"];
        if owners.is_null() {
            meta.remove("ownerReferences");
        } else {
            meta.insert("ownerReferences".to_owned(), owners.clone());
        }
    }
    let Some(status) = new.as_object_mut().and_then(|new| object(new, "status")) else { return };
    if status.get("qosClass").map(text).unwrap_or_default().is_empty()
        && let Some(qos) = old["status"].get("qosClass")
    {
        status.insert("qosClass".to_owned(), qos.clone());
    }
    keep_observed_generations(status, &old["status"]);
}

/// A writer that does not know of observed generations does not take them away.
fn keep_observed_generations(new: &mut Map<String, Value>, old: &Value) {
    fn keep(new: &mut Map<String, Value>, old: &Value) {
        if let Some(generation) = old.get("observedGeneration")
            && new.get("observedGeneration").map(number).unwrap_or_default() == 0
        {
            new.insert("observedGeneration".to_owned(), generation.clone());
        }
    }
    keep(new, old);
    for condition in objects_mut(new, "conditions") {
        let same = items(&old["conditions"]).iter().find(|other| other.get("type") == condition.get("type"));
        if let Some(same) = same {
            keep(condition, same);
        }
    }
}

fn validate(pod: &Value, old: Option<&Value>, errors: &mut Errors) {
    if let Some(old) = old {
        validate_update(pod, old, errors);
        return;
    }
    metadata_and_spec(pod, errors);
    let (spec, path) = (&pod["spec"], Path::new("spec"));
    if !items(&spec["ephemeralContainers"]).is_empty() {
        errors.forbidden(&path.child("ephemeralContainers"), "cannot be set on create");
    }
    if !text(&spec["nodeName"]).is_empty() && !items(&spec["schedulingGates"]).is_empty() {
        errors.forbidden(&path.child("nodeName"), "cannot be set until all schedulingGates have been cleared");
    }
}

/// Checks a pod by itself, whether new or changed.
pub fn metadata_and_spec(pod: &Value, errors: &mut Errors) {
    let (metadata, spec) = (&pod["metadata"], &pod["spec"]);
    let (meta_path, path) = (Path::new("metadata"), Path::new("spec"));
    meta::created(pod, true, is_dns1123_subdomain, errors);
    meta::standard_finalizers(pod, errors);
    podspec::annotations(&metadata["annotations"], spec, &meta_path.child("annotations"), errors);
    podspec::pod_spec(spec, Host::Pod(text(&metadata["name"])), &path, errors);
    if text(&spec["serviceAccountName"]).is_empty() {
        no_tokens(spec, &path.child("volumes"), errors);
    }
    podspec::images(spec, &path, errors);
}

fn no_tokens(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    for (index, volume) in items(&spec["volumes"]).iter().enumerate() {
        let at = path.index(index);
        let projected = at.child("projected");
        let sources = projected.child("sources");
        for (index, source) in items(&volume["projected"]["sources"]).iter().enumerate() {
            if !source["serviceAccountToken"].is_null() {
                let at = sources.index(index);
                let detail = "must not be specified when serviceAccountName is not set";
                errors.forbidden(&at.child("serviceAccountToken"), detail);
            }
        }
    }
}

/// Returns how many seconds a pod has to end: as asked for, else as it says itself, none when it does not run.
pub fn deletion_grace(pod: &Value, asked: Option<i64>) -> i64 {
    let is_ended = matches!(text(&pod["status"]["phase"]), "Failed" | "Succeeded");
    if text(&pod["spec"]["nodeName"]).is_empty() || is_ended {
        return 0;
    }
    let seconds = asked.unwrap_or_else(|| number(&pod["spec"]["terminationGracePeriodSeconds"]));
    if seconds < 0 { TERMINATION_GRACE_MIN } else { seconds }
}

/// Puts a pod onto the node that a `Binding` names.
///
/// # Errors
/// When the binding is malformed, or the pod is bound, ending or not to be scheduled yet.
pub fn bind(pod: &mut Value, binding: &Value, now: &str) -> Result<(), ApiError> {
    validate_binding(binding)?;
    let name = text(&pod["metadata"]["name"]).to_owned();
    let node = text(&pod["spec"]["nodeName"]);
    let problem = if !pod["metadata"]["deletionTimestamp"].is_null() {
        Some(format!("pod {name} is being deleted, cannot be assigned to a host"))
    } else if !node.is_empty() {
        Some(format!("pod {name} is already assigned to node \"{node}\""))
    } else if !items(&pod["spec"]["schedulingGates"]).is_empty() {
        Some(format!("pod {name} has non-empty .spec.schedulingGates"))
    } else {
        None
    };
    if let Some(problem) = problem {
        return Err(ApiError::conflict(Subject { group: "", what: "pods/binding", name: &name }, problem));
    }
    let Some(object_map) = pod.as_object_mut() else { return Ok(()) };
    if let Some(spec) = object(object_map, "spec") {
        spec.insert("nodeName".to_owned(), binding["target"]["name"].clone());
    }
    if let Some(added) = binding["metadata"]["annotations"].as_object()
        && let Some(annotations) = object(object_map, "metadata").and_then(|meta| object(meta, "annotations"))
    {
        annotations.extend(added.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
    set_condition(pod, &json!({"type": "PodScheduled", "status": "True"}), now);
    Ok(())
}

fn validate_binding(binding: &Value) -> Result<(), ApiError> {
    let target = &binding["target"];
    let mut texts = Vec::new();
    if !matches!(text(&target["kind"]), "" | "Node") {
        let error = FieldError::not_supported("target.kind", target["kind"].clone(), &["Node", "<empty>"]);
        texts.push(error.to_string());
    }
    if text(&target["name"]).is_empty() {
        texts.push(FieldError::required("target.name", "").to_string());
    }
    let message = match texts.as_slice() {
        [] => return Ok(()),
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    };
    // The real server forgets to make an invalid object of it.
    Err(ApiError::new(500, "", message))
}

/// Sets a condition of a pod; its time changes only with its status.
pub fn set_condition(pod: &mut Value, condition: &Value, now: &str) {
    let Some(status) = pod.as_object_mut().and_then(|pod| object(pod, "status")) else { return };
    let Some(list) = status.entry("conditions").or_insert_with(|| json!([])).as_array_mut() else { return };
    let before = list.iter_mut().find(|other| other["type"] == condition["type"]);
    let mut new = condition.clone();
    let unchanged = before.as_ref().filter(|before| before["status"] == condition["status"]);
    new["lastTransitionTime"] = unchanged.map_or_else(|| now.into(), |before| before["lastTransitionTime"].clone());
    new["lastProbeTime"] = Value::Null;
    match before {
        Some(before) => *before = new,
        None => list.push(new),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{bind, deletion_grace};

    const NOW: &str = "2026-01-02T03:04:05Z";

    fn binding(target: &Value) -> Value {
        json!({"metadata": {"name": "p", "annotations": {"a": "b"}}, "target": target})
    }

    #[test]
    fn a_binding_puts_a_pod_on_a_node_once() {
        let mut pod = json!({"metadata": {"name": "p"}, "spec": {}, "status": {"phase": "Pending"}});
        bind(&mut pod, &binding(&json!({"kind": "Node", "name": "n"})), NOW).expect("bound");
        let condition = json!({
            "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": NOW,
        });
        assert_eq!(pod["spec"]["nodeName"], "n");
        assert_eq!(pod["metadata"]["annotations"], json!({"a": "b"}));
        assert_eq!(pod["status"]["conditions"], json!([condition]));
        let error = bind(&mut pod, &binding(&json!({"name": "m"})), NOW).expect_err("bound already");
        let expected = "Operation cannot be fulfilled on pods/binding \"p\": pod p is already assigned to node \"n\"";
        assert_eq!((error.code, error.message.as_str()), (409, expected));
    }

    #[test]
    fn a_binding_to_nothing_is_refused() {
        let mut pod = json!({"metadata": {"name": "p"}, "spec": {}});
        let error = bind(&mut pod, &binding(&json!({"kind": "Foo"})), NOW).expect_err("no target");
        let expected = "[target.kind: Unsupported value: \"Foo\": supported values: \"Node\", \"<empty>\", \
                        target.name: Required value]";
        assert_eq!((error.code, error.message.as_str()), (500, expected));
        pod["spec"]["schedulingGates"] = json!([{"name": "a/b"}]);
        let error = bind(&mut pod, &binding(&json!({"name": "n"})), NOW).expect_err("gated");
        assert!(error.message.ends_with("pod p has non-empty .spec.schedulingGates"), "{}", error.message);
    }

    #[test]
    fn a_pod_has_time_to_end_only_when_it_runs() {
        let pod = |node: &str, phase: &str| json!({"spec": {"nodeName": node, "terminationGracePeriodSeconds": 30}, "status": {"phase": phase}});
        assert_eq!(deletion_grace(&pod("n", "Running"), None), 30);
        assert_eq!(deletion_grace(&pod("n", "Running"), Some(5)), 5);
        assert_eq!(deletion_grace(&pod("n", "Running"), Some(-5)), 1);
        assert_eq!(deletion_grace(&pod("", "Pending"), Some(5)), 0);
        assert_eq!(deletion_grace(&pod("n", "Succeeded"), None), 0);
    }
}
