//! What admission adds to a new pod: tolerations, priority, the service account and its token.
//!
//! The caller looks up the priority class and decides whether a token is mounted; nothing is looked up here.

use serde_json::{Map, Value, json};

use super::read::{default, items, object, objects_mut, text};
use crate::error::{ApiError, Subject};

const TOKEN_VOLUME: &str = "kube-api-access-";
const TOKEN_FOLDER: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// An hour, and seven seconds by which the real server tells such tokens from those that were asked for.
const TOKEN_SECONDS: i64 = 3607;
const GONE_NODE_SECONDS: i64 = 300;

/// The priority that a pod gets from its priority class, or from the default one.
#[derive(Debug, Clone, Copy)]
pub struct Priority<'a> {
    /// The name of the default class when the pod names none.
    pub class: &'a str,
    pub value: i64,
    pub preemption_policy: &'a str,
}

/// The priority of pods when there are no classes.
pub const NO_PRIORITY: Priority<'static> = Priority { class: "", value: 0, preemption_policy: "PreemptLowerPriority" };

/// Lets a new pod wait for lost nodes and gives it its priority.
///
/// # Errors
/// When the pod says another priority than its class.
pub fn admit_pod(pod: &mut Value, priority: Priority<'_>) -> Result<(), ApiError> {
    set_priority(pod, priority)?;
    if let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) {
        tolerate_lost_nodes(spec);
    }
    Ok(())
}

/// Returns the error for a priority class that does not exist.
pub fn no_priority_class(pod_name: &str, class: &str) -> ApiError {
    let subject = Subject { group: "", what: "pods", name: pod_name };
    ApiError::forbidden(subject, format_args!("no PriorityClass with name {class} was found"))
}

/// Returns the error for a service account that does not exist.
pub fn no_service_account(pod: &Value, account: &str) -> ApiError {
    let (namespace, name) = (text(&pod["metadata"]["namespace"]), text(&pod["metadata"]["name"]));
    let subject = Subject { group: "", what: "pods", name };
    let why =
        format_args!("error looking up service account {namespace}/{account}: serviceaccount \"{account}\" not found");
    ApiError::forbidden(subject, why)
}

fn set_priority(pod: &mut Value, priority: Priority<'_>) -> Result<(), ApiError> {
    let name = text(&pod["metadata"]["name"]).to_owned();
    let subject = Subject { group: "", what: "pods", name: &name };
    let computed = "must not be provided in pod spec; priority admission controller computed";
    let spec = &pod["spec"];
    if let Some(given) = spec["priority"].as_i64().filter(|given| *given != priority.value) {
        let why = format!(
            "the integer value of priority ({given}) {computed} {} from the given PriorityClass name",
            priority.value
        );
        return Err(ApiError::forbidden(subject, why));
    }
    if let Some(given) = spec["preemptionPolicy"].as_str().filter(|given| *given != priority.preemption_policy) {
        let why = format!(
            "the string value of PreemptionPolicy ({given}) {computed} {} from the given PriorityClass name",
            priority.preemption_policy
        );
        return Err(ApiError::forbidden(subject, why));
    }
    if let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) {
        if !priority.class.is_empty() {
            default(spec, "priorityClassName", priority.class);
        }
        spec.insert("priority".to_owned(), priority.value.into());
        spec.insert("preemptionPolicy".to_owned(), priority.preemption_policy.into());
    }
    Ok(())
}

fn tolerate_lost_nodes(spec: &mut Map<String, Value>) {
    let Some(list) = spec.entry("tolerations").or_insert_with(|| json!([])).as_array_mut() else { return };
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let is_tolerated = |toleration: &Value| {
            matches!(text(&toleration["effect"]), "" | "NoExecute")
                && (text(&toleration["key"]).is_empty() || text(&toleration["key"]) == key)
        };
        if !list.iter().any(is_tolerated) {
            list.push(json!({
                "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": GONE_NODE_SECONDS,
            }));
        }
    }
}

/// Runs a pod as `default` when it names no account, and mounts a token for its account unless it refuses.
///
/// `suffix` ends the name of the volume; `account` is the service account when the caller has it.
pub fn admit_service_account(pod: &mut Value, suffix: &str, account: &Value) {
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return };
    default(spec, "serviceAccountName", "default");
    if let Some(name) = spec.get("serviceAccountName").cloned() {
        spec.insert("serviceAccount".to_owned(), name);
    }
    let own = spec.get("automountServiceAccountToken").and_then(Value::as_bool);
    if own.or_else(|| account["automountServiceAccountToken"].as_bool()).unwrap_or(true) {
        mount_token(spec, suffix);
    }
    let secrets = &account["imagePullSecrets"];
    if spec.get("imagePullSecrets").is_none() && !items(secrets).is_empty() {
        spec.insert("imagePullSecrets".to_owned(), secrets.clone());
    }
}

fn mount_token(spec: &mut Map<String, Value>, suffix: &str) {
    let existing = spec
        .get("volumes")
        .map(items)
        .unwrap_or_default()
        .iter()
        .map(|volume| text(&volume["name"]))
        .find(|name| name.starts_with(TOKEN_VOLUME))
        .map(str::to_owned);
    let name = existing.clone().unwrap_or_else(|| format!("{TOKEN_VOLUME}{suffix}"));
    let mut is_needed = false;
    for list in ["initContainers", "containers"] {
        for container in objects_mut(spec, list) {
            let mounts = container.entry("volumeMounts").or_insert_with(|| json!([]));
            if let Some(mounts) = mounts.as_array_mut()
                && !mounts.iter().any(|mount| text(&mount["mountPath"]) == TOKEN_FOLDER)
            {
                mounts.push(json!({"name": name, "readOnly": true, "mountPath": TOKEN_FOLDER}));
                is_needed = true;
            }
        }
    }
    if is_needed
        && existing.is_none()
        && let Some(volumes) = spec.entry("volumes").or_insert_with(|| json!([])).as_array_mut()
    {
        volumes.push(json!({"name": name, "projected": token_sources()}));
    }
}

fn token_sources() -> Value {
    let namespace = json!({"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}});
    json!({
        "defaultMode": 0o644,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [namespace]}},
        ],
    })
}

/// Keeps what admission gave to a pod when a client that does not know it writes the pod again.
pub fn admit_pod_update(new: &mut Value, old: &Value) {
    let Some(spec) = new.as_object_mut().and_then(|new| object(new, "spec")) else { return };
    for field in ["priority", "preemptionPolicy"] {
        if spec.get(field).is_none_or(Value::is_null)
            && let Some(value) = old["spec"].get(field)
        {
            spec.insert(field.to_owned(), value.clone());
        }
    }
    tolerate_lost_nodes(spec);
}
