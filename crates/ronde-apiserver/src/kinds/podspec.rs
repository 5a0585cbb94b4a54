//! The rules for a whole pod spec, in a pod or in the template of a workload.
//!
//! The parts are in files of their own: volumes, containers, scheduling, security. This one has the order in which the
//! real server checks them and what is left over.

use serde_json::{Value, json};

use super::{
    addresses::ip,
    containers::{self, Pod},
    errors::Errors,
    meta,
    path::Path,
    pod_resources::total,
    read::{entries, is_true, items, number, text},
    resources, scheduling, security, volumes,
};
use crate::{
    names::{
        is_dns1123_label, is_dns1123_subdomain, is_dns1123_subdomain_with_underscore, is_in_range, is_qualified_name,
    },
    quantity::Quantity,
};

const NAMESERVERS_MAX: usize = 3;
const SEARCHES_MAX: usize = 32;
const SEARCH_CHARS_MAX: usize = 2048;

/// Where a pod spec stands.
#[derive(Debug, Clone, Copy)]
pub enum Host<'a> {
    /// In the pod of this name.
    Pod(&'a str),
    Template,
}

/// Checks a pod spec.
pub fn pod_spec(spec: &Value, host: Host<'_>, path: &Path<'_>, errors: &mut Errors) {
    let pod_name = match host {
        Host::Pod(name) => name,
        Host::Template => "",
    };
    if spec["terminationGracePeriodSeconds"].is_null() {
        errors.required(&path.child("terminationGracePeriodSeconds"), "");
    }
    let volumes = volumes::volumes(&spec["volumes"], pod_name, &path.child("volumes"), errors);
    let claims = resource_claims(&spec["resourceClaims"], &path.child("resourceClaims"), errors);
    containers::containers(&Pod { spec, volumes, claims }, path, errors);
    pod_resources(spec, path, errors);
    host_ports(spec, host, path, errors);
    errors.one_of(&path.child("restartPolicy"), text(&spec["restartPolicy"]), &["Always", "OnFailure", "Never"]);
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    errors.one_of(&path.child("dnsPolicy"), text(&spec["dnsPolicy"]), &policies);
    meta::labels(&spec["nodeSelector"], &path.child("nodeSelector"), errors);
    security::pod(spec, &path.child("securityContext"), errors);
    scheduling::affinity(&spec["affinity"], &path.child("affinity"), errors);
    dns(spec, &path.child("dnsConfig"), errors);
    readiness_gates(&spec["readinessGates"], &path.child("readinessGates"), errors);
    scheduling::gates(&spec["schedulingGates"], &path.child("schedulingGates"), errors);
    let spread = &spec["topologySpreadConstraints"];
    scheduling::topology_spread(spread, &path.child("topologySpreadConstraints"), errors);
    security::host_users(spec, path, errors);
    names(spec, path, errors);
}

/// Checks a pod template: its metadata and its spec.
pub fn template(template: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (metadata, spec) = (&template["metadata"], &template["spec"]);
    meta::labels(&metadata["labels"], &path.child("labels"), errors);
    let at = path.child("annotations");
    meta::annotations(&metadata["annotations"], &at, errors);
    annotations(&metadata["annotations"], spec, &at, errors);
    pod_spec(spec, Host::Template, &path.child("spec"), errors);
    if !items(&spec["ephemeralContainers"]).is_empty() {
        let at = path.child("spec.ephemeralContainers");
        errors.forbidden(&at, "ephemeral containers not allowed in pod template");
    }
}

/// Checks the annotations that mean something for pods.
pub fn annotations(annotations: &Value, spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    const MIRROR: &str = "kubernetes.io/config.mirror";
    const COST: &str = "controller.kubernetes.io/pod-deletion-cost";
    if let Some(value) = annotations.get(MIRROR)
        && text(&spec["nodeName"]).is_empty()
    {
        errors.invalid(&path.key(MIRROR), value.clone(), "must set spec.nodeName if mirror pod annotation is set");
    }
    if let Some(cost) = annotations.get(COST).and_then(Value::as_str) {
        // A leading plus or zero has no canonical form, so the real server refuses it.
        let is_canonical = cost.parse::<i32>().is_ok_and(|number| number.to_string() == cost);
        if !is_canonical {
            errors.invalid(&path.key(COST), cost, "must be a 32bit integer");
        }
    }
}

/// Checks the names and numbers at the end of a spec.
fn names(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    for field in ["serviceAccountName", "nodeName"] {
        let name = text(&spec[field]);
        if !name.is_empty() {
            errors.names(&path.child(field), name, is_dns1123_subdomain(name));
        }
    }
    if let Some(seconds) = spec["activeDeadlineSeconds"].as_i64() {
        let messages = is_in_range(seconds, 1, i64::from(i32::MAX));
        errors.numbers(&path.child("activeDeadlineSeconds"), seconds, messages);
    }
    for field in ["hostname", "subdomain"] {
        let name = text(&spec[field]);
        if !name.is_empty() {
            errors.names(&path.child(field), name, is_dns1123_label(name));
        }
    }
    scheduling::tolerations(&spec["tolerations"], &path.child("tolerations"), errors);
    host_aliases(&spec["hostAliases"], &path.child("hostAliases"), errors);
    let class = text(&spec["priorityClassName"]);
    if !class.is_empty() {
        errors.names(&path.child("priorityClassName"), class, is_dns1123_subdomain(class));
    }
    if let Some(class) = spec["runtimeClassName"].as_str() {
        errors.names(&path.child("runtimeClassName"), class, is_dns1123_subdomain(class));
    }
    preemption_policy(&spec["preemptionPolicy"], &path.child("preemptionPolicy"), errors);
    if !spec["overhead"].is_null() {
        let overhead = json!({"limits": spec["overhead"]});
        resources::requirements(&overhead, resources::container_resource_name, &[], &path.child("overhead"), errors);
    }
    security::os(spec, path, errors);
}

/// Checks whether a pod may push others away, also in priority classes.
pub fn preemption_policy(policy: &Value, path: &Path<'_>, errors: &mut Errors) {
    if let Some(policy) = policy.as_str() {
        errors.one_of(path, policy, &["PreemptLowerPriority", "Never"]);
    }
}

fn resource_claims<'a>(list: &'a Value, path: &Path<'_>, errors: &mut Errors) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for (index, claim) in items(list).iter().enumerate() {
        let at = path.index(index);
        let name = text(&claim["name"]);
        if name.is_empty() {
            errors.required(&at.child("name"), "");
        } else if names.contains(&name) {
            errors.duplicate(&at.child("name"), name);
        } else {
            errors.names(&at.child("name"), name, is_dns1123_label(name));
            names.push(name);
        }
        let sources = ["resourceClaimName", "resourceClaimTemplateName"];
        let detail = match sources.iter().filter(|field| !claim[**field].is_null()).count() {
            0 => "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            1 => "",
            _ => "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
        };
        if !detail.is_empty() {
            errors.invalid(&at, claim.clone(), detail);
        }
        for (field, value) in sources.iter().filter_map(|field| Some((*field, claim[*field].as_str()?))) {
            errors.names(&at.child(field), value, is_dns1123_subdomain(value));
        }
    }
    names
}

fn pod_resources(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let requirements = &spec["resources"];
    if requirements.is_null() {
        return;
    }
    let at = path.child("resources");
    if !requirements["claims"].is_null() {
        errors.forbidden(&at.child("claims"), "claims may not be set for Resources at pod-level");
    }
    resources::requirements(requirements, resources::pod_resource_name, &[], &at, errors);
    let Some(object) = spec.as_object() else { return };
    let requests = at.child("requests");
    for (name, sum) in total(object, "requests") {
        let amount = text(&requirements["requests"][name]);
        if Quantity::parse(amount).is_ok_and(|amount| sum > amount) {
            let detail = format!("must be greater than or equal to aggregate container requests of {sum}");
            errors.invalid(&requests.key(name), amount, detail);
        }
    }
    let containers = at.child("containers");
    for (index, container) in items(&spec["containers"]).iter().enumerate() {
        for (name, limit) in entries(&container["resources"]["limits"]) {
            let most = text(&requirements["limits"][name]);
            let (Ok(limit_amount), Ok(most_amount)) = (Quantity::parse(text(limit)), Quantity::parse(most)) else {
                continue;
            };
            if limit_amount > most_amount {
                let detail = format!("must be less than or equal to pod limits of {most}");
                errors.invalid(&containers.index(index).key(name).child("limits"), limit.clone(), detail);
            }
        }
    }
}

fn host_ports(spec: &Value, host: Host<'_>, path: &Path<'_>, errors: &mut Errors) {
    if !is_true(&spec["hostNetwork"]) {
        return;
    }
    let list = path.child("containers");
    for (index, container) in items(&spec["containers"]).iter().enumerate() {
        let at = list.index(index);
        let ports = at.child("ports");
        for (index, port) in items(&container["ports"]).iter().enumerate() {
            let (outside, inside) = (number(&port["hostPort"]), number(&port["containerPort"]));
            let is_checked = matches!(host, Host::Pod(_)) || outside != 0;
            if is_checked && outside != inside {
                let detail = "must match `containerPort` when `hostNetwork` is true";
                errors.invalid(&ports.index(index).child("hostPort"), outside, detail);
            }
        }
    }
}

fn dns(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let config = &spec["dnsConfig"];
    let servers = items(&config["nameservers"]);
    if text(&spec["dnsPolicy"]) == "None" {
        if config.is_null() {
            errors.required(path, "must provide `dnsConfig` when `dnsPolicy` is None");
            return;
        }
        if servers.is_empty() {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            errors.required(&path.child("nameservers"), detail);
            return;
        }
    }
    let at = path.child("nameservers");
    if servers.len() > NAMESERVERS_MAX {
        let detail = format!("must not have more than {NAMESERVERS_MAX} nameservers");
        errors.invalid(&at, config["nameservers"].clone(), detail);
    }
    for (index, server) in servers.iter().map(text).enumerate() {
        ip(server, &at.index(index), errors);
    }
    searches(&config["searches"], &path.child("searches"), errors);
    let options = path.child("options");
    for (index, option) in items(&config["options"]).iter().enumerate() {
        if text(&option["name"]).is_empty() {
            errors.required(&options.index(index), "must not be empty");
        }
    }
}

fn searches(list: &Value, path: &Path<'_>, errors: &mut Errors) {
    let searches: Vec<&str> = items(list).iter().map(text).collect();
    if searches.len() > SEARCHES_MAX {
        let detail = format!("must not have more than {SEARCHES_MAX} search paths");
        errors.invalid(path, list.clone(), detail);
    }
    if searches.join(" ").len() > SEARCH_CHARS_MAX {
        let detail =
            format!("must not have more than {SEARCH_CHARS_MAX} characters (including spaces) in the search list");
        errors.invalid(path, list.clone(), detail);
    }
    for (index, search) in searches.into_iter().enumerate().filter(|(_, search)| *search != ".") {
        let search = search.strip_suffix('.').unwrap_or(search);
        errors.names(&path.index(index), search, is_dns1123_subdomain_with_underscore(search));
    }
}

fn readiness_gates(list: &Value, path: &Path<'_>, errors: &mut Errors) {
    for (index, gate) in items(list).iter().enumerate() {
        let condition = text(&gate["conditionType"]);
        errors.names(&path.index(index).child("conditionType"), condition, is_qualified_name(condition));
    }
}

fn host_aliases(list: &Value, path: &Path<'_>, errors: &mut Errors) {
    for (index, alias) in items(list).iter().enumerate() {
        let at = path.index(index);
        ip(text(&alias["ip"]), &at.child("ip"), errors);
        let names = at.child("hostnames");
        for (index, name) in items(&alias["hostnames"]).iter().map(text).enumerate() {
            errors.names(&names.index(index), name, is_dns1123_subdomain(name));
        }
    }
}

/// Checks what only pods check in their containers, not templates.
pub fn images(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    for list in ["containers", "initContainers"] {
        let at = path.child(list);
        for (index, container) in items(&spec[list]).iter().enumerate() {
            containers::image_without_spaces(container, &at.index(index), errors);
        }
    }
}
