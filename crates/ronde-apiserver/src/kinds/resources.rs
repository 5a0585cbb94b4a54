//! Names and amounts of resources: which exist, which may be requested where, which amounts make sense.
//!
//! Used by the rules for containers, pods, quotas, nodes and claims.

use serde_json::Value;

use super::{
    errors::Errors,
    path::Path,
    read::{entries, items, text},
};
use crate::{
    names::{is_dns1123_label, is_qualified_name},
    quantity::Quantity,
};

const MILLI_NANO: i128 = 1_000_000;
const CONTAINER: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
const COUNTED: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];
const AMOUNTS: [&str; 10] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
];

/// A rule for the names of resources in some place.
pub type ResourceNameRule = fn(&str, &Path<'_>, &mut Errors);

/// Tells whether a resource is memory in large pages.
pub fn is_hugepages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Tells whether a resource is one of Kubernetes itself.
pub fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Tells whether requests of a resource may be less than its limit.
pub fn is_overcommit_allowed(name: &str) -> bool {
    is_native(name) && !is_hugepages(name)
}

/// Tells whether quotas know a resource without a prefix.
fn is_standard_quota(name: &str) -> bool {
    AMOUNTS.contains(&name) || COUNTED.contains(&name) || is_hugepages(name) || name.starts_with("requests.hugepages-")
}

fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with("requests.") && is_qualified_name(&format!("requests.{name}")).is_empty()
}

/// Rounds amounts up to thousandths, the finest that is kept.
pub fn round_up(list: &mut Value) {
    for amount in list.as_object_mut().into_iter().flat_map(serde_json::Map::values_mut) {
        let Ok(quantity) = Quantity::parse(text(amount)) else { continue };
        if quantity.nano() % MILLI_NANO != 0 {
            let rounded = Quantity::from_nano(quantity.milli().saturating_mul(MILLI_NANO), quantity.style());
            *amount = rounded.to_string().into();
        }
    }
}

/// Checks a name wherever resources may be named.
pub fn resource_name(name: &str, path: &Path<'_>, errors: &mut Errors) {
    let messages = is_qualified_name(name);
    let is_known = name.contains('/') || is_standard_quota(name) || name == "storage";
    if messages.is_empty() && !is_known {
        errors.invalid(path, name, "must be a standard resource type or fully qualified");
    }
    errors.names(path, name, messages);
}

/// Checks a name in the resources of a container.
pub fn container_resource_name(name: &str, path: &Path<'_>, errors: &mut Errors) {
    resource_name(name, path, errors);
    if !name.contains('/') {
        if !CONTAINER.contains(&name) && !is_hugepages(name) {
            errors.invalid(path, name, "must be a standard resource for containers");
        }
    } else if !is_native(name) && !is_extended(name) {
        errors.invalid(path, name, "doesn't follow extended resource name standard");
    }
}

/// Checks a name in the resources of a pod as a whole.
pub fn pod_resource_name(name: &str, path: &Path<'_>, errors: &mut Errors) {
    let before = errors.len();
    resource_name(name, path, errors);
    if errors.len() == before && !super::pod_resources::is_pod_level(name) {
        errors.not_supported(path, name, &["cpu", "hugepages-", "memory"]);
    }
}

/// Checks that an amount is not negative, and whole where parts make no sense.
pub fn amount(name: &str, amount: &Value, path: &Path<'_>, errors: &mut Errors) {
    let Ok(quantity) = Quantity::parse(text(amount)) else { return };
    if quantity < Quantity::ZERO {
        errors.invalid(path, amount.clone(), "must be greater than or equal to 0");
    }
    if (COUNTED.contains(&name) || is_extended(name)) && quantity.milli() % 1000 != 0 {
        errors.invalid(path, amount.clone(), "must be an integer");
    }
}

/// Checks limits, requests and claims of a container or of a pod as a whole.
pub fn requirements(value: &Value, name_rule: ResourceNameRule, claims: &[&str], path: &Path<'_>, errors: &mut Errors) {
    let (limits, requests) = (&value["limits"], &value["requests"]);
    let limits_path = path.child("limits");
    for (name, limit) in entries(limits) {
        let at = limits_path.key(name);
        name_rule(name, &at, errors);
        amount(name, limit, &at, errors);
        hugepages(name, limit, &at, errors);
    }
    for (name, requested) in entries(requests) {
        request(name, requested, limits, (path, name_rule), errors);
    }
    let names = || entries(limits).chain(entries(requests)).map(|(name, _)| name);
    if names().any(is_hugepages) && !names().any(|name| matches!(name, "cpu" | "memory")) {
        errors.forbidden(path, "HugePages require cpu or memory");
    }
    claim_names(&value["claims"], claims, &path.child("claims"), errors);
}

fn request(
    name: &str,
    requested: &Value,
    limits: &Value,
    (path, name_rule): (&Path<'_>, ResourceNameRule),
    errors: &mut Errors,
) {
    let requests_path = path.child("requests");
    let at = requests_path.key(name);
    name_rule(name, &at, errors);
    amount(name, requested, &at, errors);
    match limits.get(name) {
        Some(limit) => {
            let (Ok(asked), Ok(most)) = (Quantity::parse(text(requested)), Quantity::parse(text(limit))) else {
                return;
            };
            if asked != most && !is_overcommit_allowed(name) {
                let detail = format!("must be equal to {name} limit of {}", text(limit));
                errors.invalid(&requests_path, requested.clone(), detail);
            } else if asked > most {
                let detail = format!("must be less than or equal to {name} limit of {}", text(limit));
                errors.invalid(&requests_path, requested.clone(), detail);
            }
        }
        None if !is_overcommit_allowed(name) => {
            errors.required(&path.child("limits"), "Limit must be set for non overcommitable resources");
        }
        None => {}
    }
    hugepages(name, requested, &at, errors);
}

fn hugepages(name: &str, amount: &Value, path: &Path<'_>, errors: &mut Errors) {
    let Some(size) = name.strip_prefix("hugepages-") else { return };
    let (page, asked) = (Quantity::parse(size), Quantity::parse(text(amount)));
    let fits = match (page, asked) {
        (Ok(page), Ok(asked)) => page > Quantity::ZERO && page.milli() % 1000 == 0 && asked.value() % page.value() == 0,
        _ => false,
    };
    if !fits {
        let detail = format!("{} is not positive integer multiple of {name}", text(amount));
        errors.invalid(path, amount.clone(), detail);
    }
}

fn claim_names(list: &Value, known: &[&str], path: &Path<'_>, errors: &mut Errors) {
    let mut seen: Vec<String> = Vec::new();
    for (index, claim) in items(list).iter().enumerate() {
        let at = path.index(index);
        let (name, request) = (text(&claim["name"]), text(&claim["request"]));
        if name.is_empty() {
            errors.required(&at, "");
            continue;
        }
        let key = if request.is_empty() { name.to_owned() } else { format!("{name}/{request}") };
        let overlaps = |other: &String| {
            other == name || *other == key || (request.is_empty() && other.starts_with(&format!("{name}/")))
        };
        if seen.iter().any(overlaps) {
            errors.duplicate(&at, if seen.iter().any(|other| other == name) { name } else { key.as_str() });
        } else if !request.is_empty() {
            errors.names(&at.child("request"), request, is_dns1123_label(request));
        }
        seen.push(key);
        if !known.contains(&name) {
            let list = if known.is_empty() { " which is empty".to_owned() } else { format!(": {}", known.join(", ")) };
            errors.not_found(&at, name, format!("must be one of the names in pod.spec.resourceClaims{list}"));
        }
    }
}
