//! Network policies, ingresses and ingress classes.

use serde_json::Value;

use super::{
    Generation, Rules,
    addresses::{cidr, ip, is_strictly_inside},
    errors::Errors,
    meta,
    path::Path,
    read::{default_optional, items, number, objects_mut, text},
    selector,
    service_rules::balancer_host,
};
use crate::names::{
    is_dns1035_label, is_dns1123_label, is_dns1123_subdomain, is_domain_prefixed_path, is_path_segment_name,
    is_valid_port_name, is_valid_port_num, is_wildcard_dns1123_subdomain, parse_cidr, parse_ip,
};

/// What is particular about network policies.
pub const NETWORK_POLICY: Rules = Rules {
    generation: Generation::OnChange(|new, old| new["spec"] != old["spec"]),
    default: default_policy,
    validate: validate_policy,
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
    validate: validate_ingress,
    validate_status: |new, old, errors| {
        meta::updated(new, old, errors);
        meta::standard_finalizers(new, errors);
        let path = Path::new("status.loadBalancer.ingress");
        for (index, point) in items(&new["status"]["loadBalancer"]["ingress"]).iter().enumerate() {
            let at = path.index(index);
            let address = text(&point["ip"]);
            if !address.is_empty() {
                ip(address, &at.child("ip"), errors);
            }
            balancer_host(text(&point["hostname"]), &at.child("hostname"), errors);
        }
    },
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
    validate: validate_class,
    ..Rules::PLAIN
};

const SPEC: Path<'static> = Path::new("spec");
const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
const CONTROLLER_MAX: usize = 250;

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

fn validate_policy(policy: &Value, old: Option<&Value>, errors: &mut Errors) {
    meta::created(policy, true, is_dns1123_subdomain, errors);
    meta::standard_finalizers(policy, errors);
    policy_spec(&policy["spec"], errors);
    if let Some(old) = old {
        meta::updated(policy, old, errors);
        meta::standard_finalizers(policy, errors);
        policy_spec(&policy["spec"], errors);
    }
}

fn policy_spec(spec: &Value, errors: &mut Errors) {
    selector::validate(&spec["podSelector"], &SPEC.child("podSelector"), errors);
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        let list = SPEC.child(direction);
        for (index, rule) in items(&spec[direction]).iter().enumerate() {
            let at = list.index(index);
            let ports = at.child("ports");
            for (index, port) in items(&rule["ports"]).iter().enumerate() {
                policy_port(port, &ports.index(index), errors);
            }
            let list = at.child(peers);
            for (index, peer) in items(&rule[peers]).iter().enumerate() {
                policy_peer(peer, &list.index(index), errors);
            }
        }
    }
    let (types, at) = (items(&spec["policyTypes"]), SPEC.child("policyTypes"));
    if types.len() > 2 {
        errors.invalid(&at, spec["policyTypes"].clone(), "may not specify more than two policyTypes");
        return;
    }
    for (index, kind) in types.iter().map(text).enumerate() {
        if !matches!(kind, "Ingress" | "Egress") {
            errors.not_supported(&at.index(index), kind, &["Ingress", "Egress"]);
        }
    }
}

fn policy_port(port: &Value, path: &Path<'_>, errors: &mut Errors) {
    errors.one_of_optional(&path.child("protocol"), &port["protocol"], &["TCP", "UDP", "SCTP"]);
    let (end, end_path) = (port["endPort"].as_i64(), path.child("endPort"));
    match (&port["port"], end) {
        (Value::Null, Some(end)) => errors.invalid(&end_path, end, "may not be specified when `port` is not specified"),
        (Value::Null, None) => {}
        (Value::String(name), end) => {
            if let Some(end) = end {
                errors.invalid(&end_path, end, "may not be specified when `port` is non-numeric");
            }
            errors.names(&path.child("port"), name, is_valid_port_name(name));
        }
        (first, end) => {
            let first = number(first);
            errors.numbers(&path.child("port"), first, is_valid_port_num(first));
            if let Some(end) = end {
                if end < first {
                    errors.invalid(&end_path, first, "must be greater than or equal to `port`");
                }
                errors.numbers(&end_path, end, is_valid_port_num(end));
            }
        }
    }
}

fn policy_peer(peer: &Value, path: &Path<'_>, errors: &mut Errors) {
    let mut kinds = 0;
    for field in ["podSelector", "namespaceSelector"] {
        if !peer[field].is_null() {
            kinds += 1;
            selector::validate(&peer[field], &path.child(field), errors);
        }
    }
    let block = &peer["ipBlock"];
    if !block.is_null() {
        kinds += 1;
        ip_block(block, &path.child("ipBlock"), errors);
    }
    if kinds == 0 {
        errors.required(path, "must specify a peer");
    } else if kinds > 1 && !block.is_null() {
        errors.forbidden(path, "may not specify both ipBlock and another peer");
    }
}

fn ip_block(block: &Value, path: &Path<'_>, errors: &mut Errors) {
    let network = text(&block["cidr"]);
    if network.is_empty() {
        errors.required(&path.child("cidr"), "");
        return;
    }
    cidr(network, &path.child("cidr"), errors);
    if parse_cidr(network).is_none() {
        return;
    }
    let list = path.child("except");
    for (index, except) in items(&block["except"]).iter().map(text).enumerate() {
        cidr(except, &list.index(index), errors);
        if parse_cidr(except).is_some() && !is_strictly_inside(except, network) {
            errors.invalid(&list.index(index), except, "must be a strict subset of `cidr`");
        }
    }
}

fn validate_ingress(ingress: &Value, old: Option<&Value>, errors: &mut Errors) {
    if let Some(old) = old {
        meta::updated(ingress, old, errors);
        meta::standard_finalizers(ingress, errors);
    }
    meta::created(ingress, true, is_dns1123_subdomain, errors);
    meta::standard_finalizers(ingress, errors);
    ingress_spec(&ingress["spec"], errors);
    let annotation = ingress["metadata"]["annotations"].get(CLASS_ANNOTATION).map(text);
    let class = ingress["spec"]["ingressClassName"].as_str();
    if let (None, Some(annotation), Some(class)) = (old, annotation, class)
        && annotation != class
    {
        let path = Path::new("annotations");
        let detail = "must match `ingressClassName` when both are specified";
        errors.invalid(&path.child(CLASS_ANNOTATION), annotation, detail);
    }
}

fn ingress_spec(spec: &Value, errors: &mut Errors) {
    let rules = items(&spec["rules"]);
    if rules.is_empty() && spec["defaultBackend"].is_null() {
        let detail = "either `defaultBackend` or `rules` must be specified";
        errors.invalid(&SPEC, Value::Null, detail);
    }
    if !spec["defaultBackend"].is_null() {
        backend(&spec["defaultBackend"], &SPEC.child("defaultBackend"), errors);
    }
    let list = SPEC.child("rules");
    for (index, rule) in rules.iter().enumerate() {
        ingress_rule(rule, &list.index(index), errors);
    }
    tls(&spec["tls"], &SPEC.child("tls"), errors);
    if let Some(class) = spec["ingressClassName"].as_str() {
        errors.names(&SPEC.child("ingressClassName"), class, is_dns1123_subdomain(class));
    }
}

fn host_name(host: &str) -> Vec<String> {
    if host.contains('*') { is_wildcard_dns1123_subdomain(host) } else { is_dns1123_subdomain(host) }
}

fn ingress_rule(rule: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (host, at) = (text(&rule["host"]), path.child("host"));
    if !host.is_empty() {
        if parse_ip(host).is_some() {
            errors.invalid(&at, host, "must be a DNS name, not an IP address");
        }
        errors.names(&at, host, host_name(host));
    }
    if rule["http"].is_null() {
        return;
    }
    let http = path.child("http");
    let (paths, list) = (items(&rule["http"]["paths"]), http.child("paths"));
    if paths.is_empty() {
        errors.required(&list, "");
    }
    for (index, path) in paths.iter().enumerate() {
        ingress_path(path, &list.index(index), errors);
    }
}

fn ingress_path(path_value: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (target, at) = (text(&path_value["path"]), path.child("path"));
    match path_value["pathType"].as_str() {
        None => {
            errors.required(&path.child("pathType"), "pathType must be specified");
            return;
        }
        Some("Exact" | "Prefix") => {
            if !target.starts_with('/') {
                errors.invalid(&at, target, "must be an absolute path");
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"].iter().filter(|part| target.contains(**part)) {
                errors.invalid(&at, target, format!("must not contain '{part}'"));
            }
            for end in ["/..", "/."].iter().filter(|end| target.ends_with(**end)) {
                errors.invalid(&at, target, format!("cannot end with '{end}'"));
            }
        }
        Some("ImplementationSpecific") if !target.is_empty() && !target.starts_with('/') => {
            errors.invalid(&at, target, "must be an absolute path");
        }
        Some("ImplementationSpecific") => {}
        Some(kind) => {
            errors.not_supported(&path.child("pathType"), kind, &["Exact", "ImplementationSpecific", "Prefix"]);
        }
    }
    backend(&path_value["backend"], &path.child("backend"), errors);
}

fn backend(backend: &Value, path: &Path<'_>, errors: &mut Errors) {
    match (backend["resource"].is_null(), backend["service"].is_null()) {
        (false, false) => errors.invalid(path, "", "cannot set both resource and service backends"),
        (false, true) => object_reference(&backend["resource"], &path.child("resource"), errors),
        (true, false) => service_backend(&backend["service"], path, errors),
        (true, true) => errors.invalid(path, "", "resource or service backend is required"),
    }
}

fn service_backend(service: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (at, name) = (path.child("service"), text(&service["name"]));
    if name.is_empty() {
        errors.required(&at.child("name"), "");
    } else {
        errors.names(&at.child("name"), name, is_dns1035_label(name));
    }
    let port = at.child("port");
    match (text(&service["port"]["name"]), number(&service["port"]["number"])) {
        ("", 0) => errors.required(path, "port name or number is required"),
        ("", number) => errors.numbers(&port.child("number"), number, is_valid_port_num(number)),
        (name, 0) => errors.names(&port.child("name"), name, is_valid_port_name(name)),
        _ => errors.invalid(path, "", "cannot set both port name & port number"),
    }
}

fn object_reference(reference: &Value, path: &Path<'_>, errors: &mut Errors) {
    if let Some(group) = reference["apiGroup"].as_str() {
        errors.names(&path.child("apiGroup"), group, is_dns1123_subdomain(group));
    }
    for field in ["kind", "name"] {
        let value = text(&reference[field]);
        if value.is_empty() {
            errors.required(&path.child(field), "");
        } else {
            errors.names(&path.child(field), value, is_path_segment_name(value));
        }
    }
}

fn tls(list: &Value, path: &Path<'_>, errors: &mut Errors) {
    for (index, tls) in items(list).iter().enumerate() {
        let at = path.index(index);
        let hosts = at.child("hosts");
        for (index, host) in items(&tls["hosts"]).iter().map(text).enumerate() {
            errors.names(&hosts.index(index), host, host_name(host));
        }
        let secret = text(&tls["secretName"]);
        if !secret.is_empty() {
            errors.names(&at.child("secretName"), secret, is_dns1123_subdomain(secret));
        }
    }
}

fn validate_class(class: &Value, old: Option<&Value>, errors: &mut Errors) {
    let spec = &class["spec"];
    let (controller, at) = (text(&spec["controller"]), SPEC.child("controller"));
    if let Some(old) = old {
        meta::updated(class, old, errors);
        meta::standard_finalizers(class, errors);
        if controller != text(&old["spec"]["controller"]) {
            errors.invalid(&at, controller, super::errors::IMMUTABLE);
        }
    }
    meta::created(class, false, is_dns1123_subdomain, errors);
    meta::standard_finalizers(class, errors);
    if controller.len() > CONTROLLER_MAX {
        errors.too_long(&at, CONTROLLER_MAX);
    }
    if controller.is_empty() {
        errors.required(&at, "");
    } else {
        for (part, message) in is_domain_prefixed_path(controller) {
            errors.invalid(&at, part, message);
        }
    }
    class_parameters(&spec["parameters"], &SPEC.child("parameters"), errors);
}

fn class_parameters(parameters: &Value, path: &Path<'_>, errors: &mut Errors) {
    if parameters.is_null() {
        return;
    }
    object_reference(parameters, path, errors);
    let at = path.child("namespace");
    match (text(&parameters["scope"]), parameters["namespace"].as_str()) {
        ("Namespace", None) => errors.required(&at, "`parameters.scope` is set to 'Namespace'"),
        ("Namespace", Some(namespace)) => errors.names(&at, namespace, is_dns1123_label(namespace)),
        ("Cluster", Some(_)) => errors.forbidden(&at, "`parameters.scope` is set to 'Cluster'"),
        ("Cluster", None) => {}
        (scope, _) => errors.not_supported(&path.child("scope"), scope, &["Cluster", "Namespace"]),
    }
}
