//! Network policies, ingresses and ingress classes: kept and shown, acted on by nobody here.

use serde_json::Value;

use super::{
    Generation, Rules,
    errors::Errors,
    meta,
    read::{default_optional, items, objects_mut},
};
use crate::names::is_dns1123_subdomain;

/// What is particular about network policies.
pub const NETWORK_POLICY: Rules = Rules {
    generation: Generation::OnChange(|new, old| new["spec"] != old["spec"]),
    default: default_policy,
    validate: metadata_only,
    ..Rules::PLAIN
};

/// What is particular about ingresses.
pub const INGRESS: Rules = Rules {
    generation: Generation::OnChange(|new, old| new["spec"] != old["spec"]),
    prepare_create: |ingress, _| {
        if let Some(ingress) = ingress.as_object_mut() {
            ingress.insert("status".to_owned(), serde_json::json!({"loadBalancer": {}}));
        }
    },
    validate: metadata_only,
    ..Rules::WITH_STATUS
};

/// What is particular about ingress classes.
pub const INGRESS_CLASS: Rules = Rules {
    namespaced: false,
    generation: Generation::OnChange(|new, old| new["spec"] != old["spec"]),
    default: |class| {
        let parameters = class.get_mut("spec").and_then(|spec| spec.get_mut("parameters"));
        if let Some(parameters) = parameters.and_then(Value::as_object_mut) {
            default_optional(parameters, "scope", "Cluster");
        }
    },
    validate: |class, old, errors| {
        match old {
            None => meta::created(class, false, is_dns1123_subdomain, errors),
            Some(old) => meta::updated(class, old, errors),
        }
        meta::standard_finalizers(class, errors);
    },
    ..Rules::PLAIN
};

fn default_policy(policy: &mut Value) {
    let has_egress = !items(&policy["spec"]["egress"]).is_empty();
    let Some(spec) = policy.get_mut("spec").and_then(Value::as_object_mut) else { return };
    for direction in ["ingress", "egress"] {
        for rule in objects_mut(spec, direction) {
            objects_mut(rule, "ports").for_each(|port| default_optional(port, "protocol", "TCP"));
        }
    }
    let types = if has_egress { serde_json::json!(["Ingress", "Egress"]) } else { serde_json::json!(["Ingress"]) };
    default_optional(spec, "policyTypes", types);
}

/// Checks what all objects have. These kinds only pass through: nothing here acts on them, and their schema has been
/// checked already.
pub fn metadata_only(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    match old {
        None => meta::created(object, true, is_dns1123_subdomain, errors),
        Some(old) => meta::updated(object, old, errors),
    }
    meta::standard_finalizers(object, errors);
}
