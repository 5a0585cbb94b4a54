//! Namespaces, nodes and leases.

use serde_json::{Value, json};

use super::{
    Rules,
    addresses::{cidr, is_v6},
    errors::Errors,
    meta,
    path::Path,
    read::{default, entries, items, keep_field, object, text},
    resources, scheduling,
};
use crate::{
    error::FieldError,
    names::{is_dns1123_label, is_dns1123_subdomain, is_qualified_name},
};

/// What is particular about namespaces.
pub const NAMESPACE: Rules = Rules {
    namespaced: false,
    default: default_namespace,
    prepare_create: |namespace, _| prepare_namespace(namespace),
    prepare_update: |new, old| {
        keep_field(new, old, "status");
        keep_field(new, old, "spec");
    },
    validate: |new, old, errors| {
        meta::created(new, false, is_dns1123_label, errors);
        meta::standard_finalizers(new, errors);
        let path = Path::new("spec.finalizers");
        for finalizer in items(&new["spec"]["finalizers"]).iter().map(text) {
            namespace_finalizer(finalizer, &path, errors);
        }
        if let Some(old) = old {
            meta::updated(new, old, errors);
            meta::standard_finalizers(new, errors);
        }
    },
    validate_status: namespace_status,
    ..Rules::WITH_STATUS
};

/// What is particular about nodes.
pub const NODE: Rules = Rules {
    namespaced: false,
    default: default_node,
    prepare_create: |node, _| drop_node_config(node),
    validate: validate_node,
    validate_status: node_changes,
    ..Rules::WITH_STATUS
};

/// What is particular about leases.
pub const LEASE: Rules = Rules {
    create_on_update: true,
    unconditional_update: false,
    default: |lease| {
        if let Some(spec) = lease.get_mut("spec").and_then(Value::as_object_mut) {
            spec.remove("strategy");
            spec.remove("preferredHolder");
        }
    },
    validate: validate_lease,
    ..Rules::PLAIN
};

const POD_CIDRS: &str = "node updates may not change podCIDR except from \"\" to valid";

fn default_namespace(namespace: &mut Value) {
    let name = namespace["metadata"]["name"].clone();
    let Some(namespace) = namespace.as_object_mut() else { return };
    if !text(&name).is_empty()
        && let Some(labels) = object(namespace, "metadata").and_then(|meta| object(meta, "labels"))
    {
        labels.insert("kubernetes.io/metadata.name".to_owned(), name);
    }
    if let Some(status) = object(namespace, "status") {
        default(status, "phase", "Active");
    }
}

fn prepare_namespace(namespace: &mut Value) {
    let Some(namespace) = namespace.as_object_mut() else { return };
    namespace.insert("status".to_owned(), json!({"phase": "Active"}));
    let finalizers = object(namespace, "spec").map(|spec| spec.entry("finalizers").or_insert_with(|| json!([])));
    if let Some(list) = finalizers.and_then(Value::as_array_mut)
        && !list.iter().any(|finalizer| text(finalizer) == "kubernetes")
    {
        list.push("kubernetes".into());
    }
}

fn namespace_finalizer(finalizer: &str, path: &Path<'_>, errors: &mut Errors) {
    errors.names(path, finalizer, is_qualified_name(finalizer));
    meta::standard_finalizer(finalizer, path, errors);
}

fn namespace_status(new: &Value, old: &Value, errors: &mut Errors) {
    meta::updated(new, old, errors);
    meta::standard_finalizers(new, errors);
    let phase = text(&new["status"]["phase"]);
    let path = Path::new("status.Phase");
    let is_ending = !new["metadata"]["deletionTimestamp"].is_null();
    if !is_ending && phase != "Active" {
        errors.invalid(&path, phase, "may only be 'Active' if `deletionTimestamp` is empty");
    } else if is_ending && phase != "Terminating" {
        errors.invalid(&path, phase, "may only be 'Terminating' if `deletionTimestamp` is not empty");
    }
}

/// Checks a change of the finalizers of a namespace.
pub fn validate_finalize(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Errors::new();
    super::common_update(&NAMESPACE, new, old, &mut errors);
    meta::updated(new, old, &mut errors);
    meta::standard_finalizers(new, &mut errors);
    let path = Path::new("spec.finalizers");
    for (index, finalizer) in items(&new["spec"]["finalizers"]).iter().map(text).enumerate() {
        namespace_finalizer(finalizer, &path.index(index), &mut errors);
    }
    errors.into_vec()
}

fn default_node(node: &mut Value) {
    if let Some(spec) = node.get_mut("spec").and_then(Value::as_object_mut) {
        sync_pod_cidrs(spec);
    }
    let Some(status) = node.get_mut("status").and_then(Value::as_object_mut) else { return };
    status.get_mut("capacity").map(resources::round_up);
    if let Some(capacity) = status.get("capacity").cloned() {
        status.entry("allocatable").or_insert(capacity);
    }
    status.get_mut("allocatable").map(resources::round_up);
}

/// The single network and the first of the list are the same; a client that sets one need not know the other.
fn sync_pod_cidrs(spec: &mut serde_json::Map<String, Value>) {
    let single = spec.get("podCIDR").map(text).unwrap_or_default().to_owned();
    let first = spec.get("podCIDRs").map(items).and_then(<[Value]>::first).cloned();
    match first {
        Some(first) if single.is_empty() => _ = spec.insert("podCIDR".to_owned(), first),
        Some(first) if text(&first) == single => {}
        _ if !single.is_empty() => _ = spec.insert("podCIDRs".to_owned(), json!([single])),
        _ => {}
    }
}

fn drop_node_config(node: &mut Value) {
    for (part, field) in [("spec", "configSource"), ("status", "config")] {
        node.get_mut(part).and_then(Value::as_object_mut).map(|part| part.remove(field));
    }
}

fn validate_node(node: &Value, old: Option<&Value>, errors: &mut Errors) {
    meta::created(node, false, is_dns1123_subdomain, errors);
    meta::standard_finalizers(node, errors);
    let path = Path::new("metadata");
    scheduling::taints(&node["spec"]["taints"], &path.child("taints"), errors);
    node_resources(node, errors);
    let at = Path::new("spec.podCIDRs");
    let list: Vec<&str> = items(&node["spec"]["podCIDRs"]).iter().map(text).collect();
    for (index, network) in list.iter().enumerate() {
        cidr(network, &at.index(index), errors);
    }
    let is_v6_network = |network: &str| is_v6(network.split('/').next().unwrap_or_default());
    if list.len() > 1 && (list.len() > 2 || is_v6_network(list[0]) == is_v6_network(list[1])) {
        let detail = "may specify no more than one CIDR for each IP family";
        errors.invalid(&at, node["spec"]["podCIDRs"].clone(), detail);
    }
    if let Some(old) = old {
        node_changes(node, old, errors);
    }
}

fn node_resources(node: &Value, errors: &mut Errors) {
    let path = Path::new("status");
    for list in ["capacity", "allocatable"] {
        let at = path.child(list);
        for (name, amount) in entries(&node["status"][list]) {
            resources::amount(name, amount, &at.child(name), errors);
        }
    }
}

fn node_changes(new: &Value, old: &Value, errors: &mut Errors) {
    meta::updated(new, old, errors);
    meta::standard_finalizers(new, errors);
    node_resources(new, errors);
    let addresses = items(&new["status"]["addresses"]);
    let at = Path::new("status.addresses");
    for (index, address) in addresses.iter().enumerate() {
        if addresses.iter().take(index).any(|other| other == address) {
            errors.duplicate(&at.index(index), address.clone());
        }
    }
    let (spec, before) = (&new["spec"], &old["spec"]);
    if !items(&before["podCIDRs"]).is_empty() && spec["podCIDRs"] != before["podCIDRs"] {
        errors.forbidden(&Path::new("spec.podCIDRs"), POD_CIDRS);
    }
    let provider = text(&before["providerID"]);
    if !provider.is_empty() && provider != text(&spec["providerID"]) {
        let detail = "node updates may not change providerID except from \"\" to valid";
        errors.forbidden(&Path::new("spec.providerID"), detail);
    }
    scheduling::taints(&spec["taints"], &Path::new("metadata.taints"), errors);
    if text(&spec["externalID"]) != text(&before["externalID"]) {
        errors.forbidden(&Path::new("spec.externalID"), "may not be updated");
    }
}

fn validate_lease(lease: &Value, old: Option<&Value>, errors: &mut Errors) {
    match old {
        None => meta::created(lease, true, is_dns1123_subdomain, errors),
        Some(old) => meta::updated(lease, old, errors),
    }
    let (spec, path) = (&lease["spec"], Path::new("spec"));
    if let Some(seconds) = spec["leaseDurationSeconds"].as_i64().filter(|seconds| *seconds <= 0) {
        errors.invalid(&path.child("leaseDurationSeconds"), seconds, "must be greater than 0");
    }
    errors.nonnegative_optional(&path.child("leaseTransitions"), &spec["leaseTransitions"]);
}
