//! Services: defaults, what changes with their type, and what they need from the allocator of addresses and ports.
//!
//! The caller owns the allocator: between preparing and validating it asks [`needs_cluster_ip`], [`fill_node_ports`]
//! and [`needs_health_check_port`]. The rules are in [`super::service_rules`].

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{
    Generation, Rules,
    read::{default, default_optional, is_empty, items, keep_field, object, objects_mut, text},
    service_rules,
};

/// What is particular about services.
pub const RULES: Rules = Rules {
    default: defaults,
    prepare_create: |service, _| {
        reset_status(service);
        sync_cluster_ips(service);
        prepare_families(service);
    },
    prepare_update,
    validate: service_rules::validate,
    validate_status: service_rules::validate_status,
    generation: Generation::None,
    create_on_update: true,
    ..Rules::WITH_STATUS
};

const AFFINITY_SECONDS: i64 = 10_800;

fn defaults(service: &mut Value) {
    let Some(spec) = service.get_mut("spec").and_then(Value::as_object_mut) else { return };
    default(spec, "type", "ClusterIP");
    session_affinity(spec);
    objects_mut(spec, "ports").for_each(|port| {
        default(port, "protocol", "TCP");
        let number = port.get("port").cloned().unwrap_or_default();
        default(port, "targetPort", number);
    });
    if is_external(spec) {
        default(spec, "externalTrafficPolicy", "Cluster");
    }
    let kind = spec.get("type").map(text).unwrap_or_default().to_owned();
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer" | "ClusterIP") {
        default_optional(spec, "internalTrafficPolicy", "Cluster");
    } else if kind == "ExternalName" {
        spec.remove("internalTrafficPolicy");
    }
    if kind == "LoadBalancer" {
        default_optional(spec, "allocateLoadBalancerNodePorts", true);
        default_ip_modes(service);
    }
}

fn session_affinity(spec: &mut Map<String, Value>) {
    default(spec, "sessionAffinity", "None");
    match spec.get("sessionAffinity").map(text).unwrap_or_default() {
        "None" => _ = spec.remove("sessionAffinityConfig"),
        "ClientIP" => {
            let seconds = spec.get("sessionAffinityConfig").map(|config| &config["clientIP"]["timeoutSeconds"]);
            if seconds.is_none_or(Value::is_null) {
                let config = json!({"clientIP": {"timeoutSeconds": AFFINITY_SECONDS}});
                spec.insert("sessionAffinityConfig".to_owned(), config);
            }
        }
        _ => {}
    }
}

fn default_ip_modes(service: &mut Value) {
    let balancer = service.get_mut("status").and_then(|status| status.get_mut("loadBalancer"));
    let Some(balancer) = balancer.and_then(Value::as_object_mut) else { return };
    for ingress in objects_mut(balancer, "ingress").filter(|ingress| ingress.contains_key("ip")) {
        default_optional(ingress, "ipMode", "VIP");
    }
}

fn is_external(spec: &Map<String, Value>) -> bool {
    match spec.get("type").map(text).unwrap_or_default() {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => spec.get("externalIPs").is_some_and(|ips| !is_empty(ips)),
        _ => false,
    }
}

/// Tells whether a service can be reached from outside.
pub fn is_externally_accessible(service: &Value) -> bool {
    service["spec"].as_object().is_some_and(is_external)
}

/// Tells whether a balancer asks each node whether it has endpoints.
pub fn needs_health_check(service: &Value) -> bool {
    let spec = &service["spec"];
    text(&spec["type"]) == "LoadBalancer" && text(&spec["externalTrafficPolicy"]) == "Local"
}

/// Tells whether a service has no address of its own on purpose.
pub fn is_headless(service: &Value) -> bool {
    matches!(items(&service["spec"]["clusterIPs"]), [only] if text(only) == "None")
}

fn has_cluster_ip(service: &Value) -> bool {
    text(&service["spec"]["type"]) != "ExternalName"
}

fn has_node_ports(service: &Value) -> bool {
    matches!(text(&service["spec"]["type"]), "NodePort" | "LoadBalancer")
}

/// Tells whether the caller has to choose an address for the service, of version 4.
pub fn needs_cluster_ip(service: &Value) -> bool {
    let spec = &service["spec"];
    let is_v4 = items(&spec["ipFamilies"]).first().is_none_or(|family| text(family) == "IPv4");
    has_cluster_ip(service) && is_v4 && is_empty(&spec["clusterIP"]) && is_empty(&spec["clusterIPs"])
}

/// Sets the address that the caller chose.
pub fn set_cluster_ip(service: &mut Value, address: &str) {
    if let Some(spec) = service.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("clusterIP".to_owned(), address.into());
        spec.insert("clusterIPs".to_owned(), json!([address]));
    }
}

/// Sets the node ports that are missing; `choose` gives a free one. Ports of one number share it for all protocols.
pub fn fill_node_ports(service: &mut Value, mut choose: impl FnMut() -> i64) {
    if !has_node_ports(service) || service["spec"]["allocateLoadBalancerNodePorts"] == false {
        return;
    }
    let Some(spec) = service.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let ports = spec.get("ports").map(items).unwrap_or_default().iter();
    let mut known: BTreeMap<i64, i64> =
        ports.filter_map(|port| Some((port["port"].as_i64()?, port["nodePort"].as_i64()?))).collect();
    for port in objects_mut(spec, "ports").filter(|port| !port.contains_key("nodePort")) {
        let number = port.get("port").and_then(Value::as_i64).unwrap_or_default();
        let chosen = *known.entry(number).or_insert_with(&mut choose);
        port.insert("nodePort".to_owned(), chosen.into());
    }
}

/// Tells whether the caller has to choose a port for health checks.
pub fn needs_health_check_port(service: &Value) -> bool {
    needs_health_check(service) && service["spec"]["healthCheckNodePort"].as_i64().unwrap_or_default() == 0
}

/// Sets the families of addresses on a machine that has version 4 only.
fn prepare_families(service: &mut Value) {
    if !has_cluster_ip(service) {
        return;
    }
    let is_free = is_headless(service) && is_empty(&service["spec"]["selector"]);
    let Some(spec) = service.get_mut("spec").and_then(Value::as_object_mut) else { return };
    default_optional(spec, "ipFamilyPolicy", if is_free { "RequireDualStack" } else { "SingleStack" });
    let is_single = spec.get("ipFamilyPolicy").map(text) == Some("SingleStack");
    let families = spec.entry("ipFamilies").or_insert(Value::Null);
    if items(families).is_empty() {
        *families = json!(["IPv4"]);
    }
    if is_free && !is_single && items(families).len() == 1 {
        let other = if text(&families[0]) == "IPv4" { "IPv6" } else { "IPv4" };
        if let Some(families) = families.as_array_mut() {
            families.push(other.into());
        }
    }
}

fn reset_status(service: &mut Value) {
    if let Some(service) = service.as_object_mut() {
        service.insert("status".to_owned(), json!({"loadBalancer": {}}));
    }
}

/// Makes the list of addresses agree with the single one that older clients write.
fn sync_cluster_ips(service: &mut Value) {
    let Some(spec) = service.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let single = spec.get("clusterIP").map(text).unwrap_or_default().to_owned();
    let is_listed = spec.get("clusterIPs").is_some_and(|ips| !is_empty(ips));
    if !single.is_empty() && !is_listed {
        spec.insert("clusterIPs".to_owned(), json!([single]));
    }
}

fn prepare_update(new: &mut Value, old: &Value) {
    keep_field(new, old, "status");
    keep_allocated(new, old);
    sync_changed_cluster_ips(new, old);
    if has_cluster_ip(old) && has_cluster_ip(new) && new["spec"]["ipFamilyPolicy"].is_null() {
        keep(new, old, "ipFamilyPolicy");
    }
    release_second(new, old);
    let count = |service: &Value| items(&service["spec"]["ipFamilies"]).len();
    // Who takes a family away without saying so is told, not given it back.
    if count(new) == 0 || count(new) >= count(old) {
        prepare_families(new);
    }
    drop_fields_of_old_type(new, old);
}

/// A client that does not say which address and ports were chosen keeps them.
fn keep_allocated(new: &mut Value, old: &Value) {
    if has_cluster_ip(old) && has_cluster_ip(new) {
        for field in ["clusterIP", "clusterIPs"] {
            if is_empty(&new["spec"][field]) {
                keep(new, old, field);
            }
        }
    }
    if has_node_ports(old) && has_node_ports(new) {
        keep_node_ports(new, old);
    }
    if needs_health_check(old) && needs_health_check(new) && new["spec"]["healthCheckNodePort"].is_null() {
        keep(new, old, "healthCheckNodePort");
    }
}

/// Who asks for a single family and changes nothing else gives the second up.
fn release_second(new: &mut Value, old: &Value) {
    let Some(spec) = new.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if spec.get("ipFamilyPolicy").map(text) != Some("SingleStack") {
        return;
    }
    for field in ["clusterIPs", "ipFamilies"] {
        let is_same = spec.get(field) == old["spec"].get(field);
        if let Some(list) = spec.get_mut(field).and_then(Value::as_array_mut).filter(|_| is_same) {
            list.truncate(1);
        }
    }
}

fn keep(new: &mut Value, old: &Value, field: &str) {
    if let Some(spec) = new.get_mut("spec")
        && old["spec"].get(field).is_some()
    {
        keep_field(spec, &old["spec"], field);
    }
}

/// Ports are the same when they have the same name, whatever else changed.
fn keep_node_ports(new: &mut Value, old: &Value) {
    let before = items(&old["spec"]["ports"]);
    let Some(spec) = new.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let used: Vec<i64> = node_ports(spec.get("ports").unwrap_or(&Value::Null)).collect();
    for port in objects_mut(spec, "ports").filter(|port| !port.contains_key("nodePort")) {
        let same = before.iter().rfind(|before| before.get("name") == port.get("name"));
        if let Some(number) = same.and_then(|before| before["nodePort"].as_i64())
            && !used.contains(&number)
        {
            port.insert("nodePort".to_owned(), number.into());
        }
    }
}

fn node_ports(ports: &Value) -> impl Iterator<Item = i64> {
    items(ports).iter().filter_map(|port| port["nodePort"].as_i64())
}

/// Follows an old client that changes only the single address.
fn sync_changed_cluster_ips(new: &mut Value, old: &Value) {
    let is_same = |field: &str| new["spec"][field] == old["spec"][field];
    let follows = !is_same("clusterIP") && is_same("clusterIPs");
    let Some(spec) = new.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let single = spec.get("clusterIP").map(text).unwrap_or_default().to_owned();
    if follows && single.is_empty() {
        spec.remove("clusterIPs");
    } else if follows {
        spec.insert("clusterIPs".to_owned(), json!([single]));
    }
}

/// What only the old type has goes away with it, unless the client changed it.
fn drop_fields_of_old_type(new: &mut Value, old: &Value) {
    let gone = |has: fn(&Value) -> bool| has(old) && !has(new);
    let mut dropped: Vec<&str> = Vec::new();
    if gone(has_cluster_ip) {
        dropped.extend(["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"]);
    }
    if gone(needs_health_check) {
        dropped.push("healthCheckNodePort");
    }
    if gone(|service| text(&service["spec"]["type"]) == "LoadBalancer") {
        dropped.extend(["allocateLoadBalancerNodePorts", "loadBalancerClass"]);
    }
    if gone(is_externally_accessible) {
        dropped.push("externalTrafficPolicy");
    }
    let drops_ports = gone(has_node_ports) && has_no_new_node_ports(new, old);
    let is_balanced = text(&new["spec"]["type"]) == "LoadBalancer";
    let Some(service) = new.as_object_mut() else { return };
    if let Some(spec) = object(service, "spec") {
        for field in dropped {
            if spec.get(field) == old["spec"].get(field) {
                spec.remove(field);
            }
        }
        if drops_ports {
            objects_mut(spec, "ports").for_each(|port| _ = port.remove("nodePort"));
        }
    }
    if !is_balanced && let Some(status) = object(service, "status") {
        status.insert("loadBalancer".to_owned(), json!({}));
    }
}

fn has_no_new_node_ports(new: &Value, old: &Value) -> bool {
    let before: Vec<i64> = node_ports(&old["spec"]["ports"]).collect();
    node_ports(&new["spec"]["ports"]).all(|port| before.contains(&port))
}
