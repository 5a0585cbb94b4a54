//! The rules for services.

use serde_json::Value;

use super::{
    addresses::{cidr, endpoint_ip, ip_unless_known, is_v6},
    containers::PROTOCOLS,
    errors::Errors,
    meta,
    path::Path,
    probes,
    read::{is_empty, items, number, text},
    service::{is_externally_accessible, is_headless, needs_health_check},
};
use crate::names::{
    is_dns1035_label, is_dns1123_label, is_dns1123_subdomain, is_qualified_name, is_valid_port_num, parse_ip,
};

const SPEC: Path<'static> = Path::new("spec");
const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];
const FAMILY_POLICIES: [&str; 3] = ["PreferDualStack", "RequireDualStack", "SingleStack"];
const AFFINITY_SECONDS_MAX: i64 = 86_400;
const ONLY_BALANCER: &str = "may only be used when `type` is 'LoadBalancer'";
const ONCE: &str = "may not change once set";
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";

/// Checks a service; what allocation refuses comes first and alone, because the real server allocates before it checks.
pub fn validate(service: &Value, old: Option<&Value>, errors: &mut Errors) {
    let before = errors.len();
    families_exist(service, old, errors);
    if errors.len() == before {
        node_ports_free(service, errors);
    }
    if errors.len() > before {
        return;
    }
    match old {
        None => {
            meta::created(service, true, is_dns1035_label, errors);
            meta::standard_finalizers(service, errors);
        }
        Some(old) => {
            meta::updated(service, old, errors);
            meta::standard_finalizers(service, errors);
            changed_cluster_ips(service, old, errors);
            changed_families(service, old, errors);
            changed_balancer_class(service, old, errors);
            changed_health_check(service, old, errors);
        }
    }
    spec(service, old, errors);
}

/// Checks what a load balancer reports.
pub fn validate_status(service: &Value, old: &Value, errors: &mut Errors) {
    meta::updated(service, old, errors);
    meta::standard_finalizers(service, errors);
    let path = Path::new("status.loadBalancer.ingress");
    let list = items(&service["status"]["loadBalancer"]["ingress"]);
    if text(&service["spec"]["type"]) != "LoadBalancer" && !list.is_empty() {
        errors.forbidden(&path, "may only be used when `spec.type` is 'LoadBalancer'");
        return;
    }
    for (index, ingress) in list.iter().enumerate() {
        let at = path.index(index);
        let (address, host) = (text(&ingress["ip"]), text(&ingress["hostname"]));
        if !address.is_empty() {
            super::addresses::ip(address, &at.child("ip"), errors);
        }
        match ingress["ipMode"].as_str() {
            None if !address.is_empty() => errors.required(&at.child("ipMode"), "must be specified when `ip` is set"),
            Some(_) if address.is_empty() => {
                errors.forbidden(&at.child("ipMode"), "may not be specified when `ip` is not set");
            }
            _ => errors.one_of_optional(&at.child("ipMode"), &ingress["ipMode"], &["Proxy", "VIP"]),
        }
        balancer_host(host, &at.child("hostname"), errors);
    }
}

/// Checks the name at which a load balancer is reached.
pub fn balancer_host(host: &str, path: &Path<'_>, errors: &mut Errors) {
    if host.is_empty() {
        return;
    }
    errors.names(path, host, is_dns1123_subdomain(host));
    if parse_ip(host).is_some() {
        errors.invalid(path, host, "must be a DNS name, not an IP address");
    }
}

/// There is one family of addresses on this machine.
fn families_exist(service: &Value, old: Option<&Value>, errors: &mut Errors) {
    let spec = &service["spec"];
    if text(&spec["type"]) == "ExternalName" {
        return;
    }
    let before = errors.len();
    cluster_ips(service, old, errors);
    if errors.len() > before {
        return;
    }
    let policy = SPEC.child("ipFamilyPolicy");
    let is_single = text(&spec["ipFamilyPolicy"]) == "SingleStack";
    for (field, noun) in [("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")] {
        let (now, before) = (items(&spec[field]).len(), old.map_or(0, |old| items(&old["spec"][field]).len()));
        if !is_single && now > 0 && now < before {
            let detail = format!("must be 'SingleStack' to release the secondary {noun}");
            errors.invalid(&policy, spec["ipFamilyPolicy"].clone(), detail);
        }
    }
    for (field, noun) in [("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")] {
        if is_single && items(&spec[field]).len() == 2 {
            let detail = format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {noun} are specified");
            errors.invalid(&policy, "SingleStack", detail);
        }
    }
    let at = SPEC.child("clusterIPs");
    for (index, _) in items(&spec["clusterIPs"]).iter().map(text).enumerate().filter(|(_, ip)| is_v6(ip)) {
        if items(&spec["ipFamilies"]).get(index).is_none_or(|family| text(family) == "IPv4") {
            errors.invalid(&at.index(index), spec["clusterIPs"].clone(), "IPv6 is not configured on this cluster");
        }
    }
    if errors.len() > before || (is_headless(service) && is_empty(&spec["selector"])) {
        return;
    }
    if text(&spec["ipFamilyPolicy"]) == "RequireDualStack" {
        errors.invalid(&policy, "RequireDualStack", "this cluster is not configured for dual-stack services");
    }
    let at = SPEC.child("ipFamilies");
    for (index, family) in items(&spec["ipFamilies"]).iter().map(text).enumerate() {
        if family != "IPv4" {
            errors.invalid(&at.index(index), family, "not configured on this cluster");
        }
    }
}

/// Ports of one number may share a node port, others may not.
fn node_ports_free(service: &Value, errors: &mut Errors) {
    let list = SPEC.child("ports");
    let ports = items(&service["spec"]["ports"]);
    if !matches!(text(&service["spec"]["type"]), "NodePort" | "LoadBalancer") {
        return;
    }
    for (index, port) in ports.iter().enumerate().filter(|(_, port)| number(&port["nodePort"]) != 0) {
        let clashes = |other: &Value| other["nodePort"] == port["nodePort"] && other["port"] != port["port"];
        if ports.iter().take(index).any(clashes) {
            let at = list.index(index);
            errors.invalid(&at.child("nodePort"), number(&port["nodePort"]), "provided port is already allocated");
            return;
        }
    }
}

fn spec(service: &Value, old: Option<&Value>, errors: &mut Errors) {
    let spec = &service["spec"];
    let (kind, ports, headless) = (text(&spec["type"]), items(&spec["ports"]), is_headless(service));
    if ports.is_empty() && !headless && kind != "ExternalName" {
        errors.required(&SPEC.child("ports"), "");
    }
    if headless && matches!(kind, "LoadBalancer" | "NodePort") {
        let detail = format!("may not be set to 'None' for {kind} services");
        errors.invalid(&SPEC.child("clusterIPs").index(0), "None", detail);
    }
    if kind == "ExternalName" {
        external_name(spec, errors);
    }
    service_ports(ports, errors);
    meta::labels(&spec["selector"], &SPEC.child("selector"), errors);
    affinity(spec, errors);
    if kind != "ExternalName" {
        cluster_ips(service, old, errors);
    }
    external_ips(spec, old, errors);
    errors.one_of(&SPEC.child("type"), kind, &TYPES);
    port_conflicts(kind, ports, errors);
    balancer(service, errors);
    traffic(service, errors);
}

fn external_name(spec: &Value, errors: &mut Errors) {
    for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if !is_empty(&spec[field]) {
            errors.forbidden(&SPEC.child(field), "may not be set for ExternalName services");
        }
    }
    let name = text(&spec["externalName"]);
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.is_empty() {
        errors.required(&SPEC.child("externalName"), "");
    } else {
        errors.names(&SPEC.child("externalName"), name, is_dns1123_subdomain(name));
    }
}

fn service_ports(ports: &[Value], errors: &mut Errors) {
    let list = SPEC.child("ports");
    let mut names: Vec<&str> = Vec::new();
    for (index, port) in ports.iter().enumerate() {
        let at = list.index(index);
        let (name, port_number) = (text(&port["name"]), number(&port["port"]));
        if !name.is_empty() {
            errors.names(&at.child("name"), name, is_dns1123_label(name));
            if names.contains(&name) {
                errors.duplicate(&at.child("name"), name);
            }
            names.push(name);
        } else if ports.len() > 1 {
            errors.required(&at.child("name"), "");
        }
        errors.numbers(&at.child("port"), port_number, is_valid_port_num(port_number));
        errors.one_of(&at.child("protocol"), text(&port["protocol"]), &PROTOCOLS);
        probes::port(&port["targetPort"], &at.child("targetPort"), errors);
        if let Some(protocol) = port["appProtocol"].as_str() {
            errors.names(&at.child("appProtocol"), protocol, is_qualified_name(protocol));
        }
    }
}

fn affinity(spec: &Value, errors: &mut Errors) {
    let affinity = text(&spec["sessionAffinity"]);
    errors.one_of(&SPEC.child("sessionAffinity"), affinity, &["ClientIP", "None"]);
    let config = &spec["sessionAffinityConfig"];
    let at = SPEC.child("sessionAffinityConfig");
    if affinity == "ClientIP" {
        let seconds = number(&config["clientIP"]["timeoutSeconds"]);
        if !(1..=AFFINITY_SECONDS_MAX).contains(&seconds) {
            let detail = format!("must be greater than 0 and less than {AFFINITY_SECONDS_MAX}");
            errors.invalid(&at.child("clientIP").child("timeoutSeconds"), seconds, detail);
        }
    } else if affinity == "None" && !config.is_null() {
        errors.forbidden(&at, "must not be set when session affinity is None");
    }
}

fn cluster_ips(service: &Value, old: Option<&Value>, errors: &mut Errors) {
    let spec = &service["spec"];
    let (single, list, at) = (text(&spec["clusterIP"]), items(&spec["clusterIPs"]), SPEC.child("clusterIPs"));
    let shown_list = || spec["clusterIPs"].clone();
    match (single.is_empty(), list.first().map(text)) {
        (false, None) => errors.required(&at, ""),
        (false, Some(first)) if first != single => {
            errors.invalid(&at, shown_list(), "first value must match `clusterIP`");
        }
        (true, Some(_)) => errors.invalid(&at, shown_list(), "must be empty when `clusterIP` is not specified"),
        _ => {}
    }
    families(spec, errors);
    let before = errors.len();
    let known: Vec<&str> =
        old.map(|old| items(&old["spec"]["clusterIPs"]).iter().map(text).collect()).unwrap_or_default();
    for (index, address) in list.iter().map(text).enumerate() {
        if index == 0 && address == "None" {
            if list.len() > 1 {
                errors.invalid(&at, shown_list(), "'None' must be the first and only value");
            }
        } else {
            ip_unless_known(address, &known, &at.index(index), errors);
        }
    }
    let has_invalid = errors.len() > before;
    if list.len() > 2 {
        errors.invalid(&at, shown_list(), "may only hold up to 2 values");
    }
    if has_invalid {
        return;
    }
    if list.len() > 1 && (list.len() > 2 || is_v6(text(&list[0])) == is_v6(text(&list[1]))) {
        errors.invalid(&at, shown_list(), "may specify no more than one IP for each IP family");
    }
    if !is_headless(service) {
        for (index, (address, family)) in
            list.iter().map(text).zip(items(&spec["ipFamilies"]).iter().map(text)).enumerate()
        {
            let fits = is_v6(address) == (family == "IPv6");
            if !fits && FAMILIES.contains(&family) {
                let detail = format!("expected an {family} value as indicated by `ipFamilies[{index}]`");
                errors.invalid(&at.index(index), address, detail);
            }
        }
    }
}

fn families(spec: &Value, errors: &mut Errors) {
    let at = SPEC.child("ipFamilies");
    let list = items(&spec["ipFamilies"]);
    for (index, family) in list.iter().map(text).enumerate() {
        if !FAMILIES.contains(&family) {
            errors.not_supported(&at.index(index), family, &FAMILIES);
        }
        if list.iter().take(index).any(|other| text(other) == family) {
            errors.duplicate(&at.index(index), family);
        }
    }
    errors.one_of_optional(&SPEC.child("ipFamilyPolicy"), &spec["ipFamilyPolicy"], &FAMILY_POLICIES);
}

fn external_ips(spec: &Value, old: Option<&Value>, errors: &mut Errors) {
    let at = SPEC.child("externalIPs");
    let known: Vec<&str> =
        old.map(|old| items(&old["spec"]["externalIPs"]).iter().map(text).collect()).unwrap_or_default();
    for (index, address) in items(&spec["externalIPs"]).iter().map(text).enumerate() {
        let before = errors.len();
        ip_unless_known(address, &known, &at.index(index), errors);
        if errors.len() == before {
            endpoint_ip(address, &at.index(index), errors);
        }
    }
}

fn port_conflicts(kind: &str, ports: &[Value], errors: &mut Errors) {
    let list = SPEC.child("ports");
    let node_port = |port: &Value| number(&port["nodePort"]);
    for (index, _) in ports.iter().enumerate().filter(|(_, port)| kind == "ClusterIP" && node_port(port) != 0) {
        errors.forbidden(&list.index(index).child("nodePort"), "may not be used when `type` is 'ClusterIP'");
    }
    let has_before = |index: usize, field: &str| {
        let same =
            |other: &&Value| other["protocol"] == ports[index]["protocol"] && other[field] == ports[index][field];
        ports.iter().take(index).any(|other| same(&other))
    };
    for (index, port) in ports.iter().enumerate().filter(|(_, port)| node_port(port) != 0) {
        if has_before(index, "nodePort") {
            errors.duplicate(&list.index(index).child("nodePort"), node_port(port));
        }
    }
    for (index, port) in ports.iter().enumerate() {
        if has_before(index, "port") {
            let key = serde_json::json!({"protocol": port["protocol"], "port": port["port"]});
            errors.duplicate(&list.index(index), key);
        }
    }
}

fn balancer(service: &Value, errors: &mut Errors) {
    let spec = &service["spec"];
    let is_balanced = text(&spec["type"]) == "LoadBalancer";
    let ranges = items(&spec["loadBalancerSourceRanges"]);
    let annotation = service["metadata"]["annotations"].get(SOURCE_RANGES).map(text);
    if !ranges.is_empty() {
        let at = SPEC.child("LoadBalancerSourceRanges");
        if !is_balanced {
            errors.forbidden(&at, ONLY_BALANCER);
        }
        for (index, range) in ranges.iter().map(|range| text(range).trim()).enumerate() {
            cidr(range, &at.index(index), errors);
        }
    } else if let Some(ranges) = annotation {
        let path = Path::new("metadata.annotations");
        if !is_balanced {
            errors.forbidden(&path.key(SOURCE_RANGES), ONLY_BALANCER);
        }
        for range in ranges.split(',').map(str::trim).filter(|_| !ranges.trim().is_empty()) {
            cidr(range, &path.key(SOURCE_RANGES), errors);
        }
    }
    if !spec["allocateLoadBalancerNodePorts"].is_null() && !is_balanced {
        errors.forbidden(&SPEC.child("allocateLoadBalancerNodePorts"), ONLY_BALANCER);
    }
    balancer_class(spec, errors);
}

fn balancer_class(spec: &Value, errors: &mut Errors) {
    let at = SPEC.child("loadBalancerClass");
    match spec["loadBalancerClass"].as_str() {
        Some(class) if text(&spec["type"]) == "LoadBalancer" => errors.names(&at, class, is_qualified_name(class)),
        Some(_) => errors.forbidden(&at, ONLY_BALANCER),
        None => {}
    }
}

fn traffic(service: &Value, errors: &mut Errors) {
    let spec = &service["spec"];
    let (external, at) = (text(&spec["externalTrafficPolicy"]), SPEC.child("externalTrafficPolicy"));
    if is_externally_accessible(service) {
        errors.one_of(&at, external, &["Cluster", "Local"]);
    } else if !external.is_empty() {
        errors.invalid(&at, external, "may only be set for externally-accessible services");
    }
    let (port, at) = (number(&spec["healthCheckNodePort"]), SPEC.child("healthCheckNodePort"));
    if !needs_health_check(service) {
        if port != 0 {
            let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            errors.invalid(&at, port, detail);
        }
    } else if port == 0 {
        errors.required(&at, "");
    } else {
        errors.numbers(&at, port, is_valid_port_num(port));
    }
    let internal = SPEC.child("internalTrafficPolicy");
    if spec["internalTrafficPolicy"].is_null()
        && matches!(text(&spec["type"]), "ClusterIP" | "NodePort" | "LoadBalancer")
    {
        errors.required(&internal, "");
    }
    errors.one_of_optional(&internal, &spec["internalTrafficPolicy"], &["Cluster", "Local"]);
    let distributions = ["PreferClose", "PreferSameZone", "PreferSameNode"];
    errors.one_of_optional(&SPEC.child("trafficDistribution"), &spec["trafficDistribution"], &distributions);
}

fn is_named(service: &Value) -> bool {
    text(&service["spec"]["type"]) == "ExternalName"
}

fn changed_cluster_ips(new: &Value, old: &Value, errors: &mut Errors) {
    if is_named(new) || is_named(old) || (is_headless(new) && is_headless(old)) {
        return;
    }
    let at = SPEC.child("clusterIPs");
    let shown_list = || new["spec"]["clusterIPs"].clone();
    let policy = text(&new["spec"]["ipFamilyPolicy"]);
    let (new, old) = (items(&new["spec"]["clusterIPs"]), items(&old["spec"]["clusterIPs"]));
    if new.len() == old.len() {
        for (index, _) in old.iter().zip(new).enumerate().filter(|(_, (old, new))| old != new) {
            errors.invalid(&at.index(index), shown_list(), ONCE);
        }
        return;
    }
    if new.is_empty() {
        errors.invalid(&at.index(0), shown_list(), "primary clusterIP can not be unset");
    }
    if !new.is_empty() && !old.is_empty() && new[0] != old[0] {
        errors.invalid(&at.index(0), shown_list(), ONCE);
    }
    if new.len() == 1 && old.len() > 1 && policy != "SingleStack" {
        let detail = "must be set to 'SingleStack' when releasing the secondary clusterIP";
        errors.invalid(&SPEC.child("ipFamilyPolicy"), policy, detail);
    }
}

fn changed_families(new: &Value, old: &Value, errors: &mut Errors) {
    if is_named(new) || is_named(old) || is_headless(new) || is_headless(old) {
        return;
    }
    let (new, old) = (&new["spec"]["ipFamilies"], &old["spec"]["ipFamilies"]);
    let is_changed = items(new).iter().zip(items(old)).any(|(new, old)| new != old);
    if is_changed {
        errors.invalid(&SPEC.child("ipFamilies").index(0), new.clone(), ONCE);
    }
}

fn changed_balancer_class(new: &Value, old: &Value, errors: &mut Errors) {
    let is_balanced = |service: &Value| text(&service["spec"]["type"]) == "LoadBalancer";
    let (class, before) = (&new["spec"]["loadBalancerClass"], &old["spec"]["loadBalancerClass"]);
    if is_balanced(new) && is_balanced(old) && class != before {
        errors.invalid(&SPEC.child("loadBalancerClass"), class.clone(), ONCE);
    }
    balancer_class(&new["spec"], errors);
}

fn changed_health_check(new: &Value, old: &Value, errors: &mut Errors) {
    let field = "healthCheckNodePort";
    if needs_health_check(new) && needs_health_check(old) && new["spec"][field] != old["spec"][field] {
        errors.forbidden(&SPEC.child(field), super::errors::IMMUTABLE);
    }
}
