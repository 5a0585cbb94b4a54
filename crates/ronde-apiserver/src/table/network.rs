//! Rows of services, endpoints, network policies and ingresses.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use super::{
    age::UNKNOWN,
    column::{AGE, Column, NAME, text_column, wide_column},
    field::{NONE, Shortened, UNSET, age, cells, int, joined, list, name, text, text_or},
    labels,
};

pub(super) static SERVICE: [Column; 7] = [
    NAME,
    text_column("Type", "How the service is reached: ClusterIP, NodePort, LoadBalancer or ExternalName."),
    text_column("Cluster-IP", "The address inside the cluster; None if the service has only its endpoints."),
    text_column("External-IP", "The addresses from outside the cluster."),
    text_column("Port(s)", "The ports of the service, with the ports on the nodes."),
    AGE,
    wide_column("Selector", "The labels of the pods behind the service."),
];

pub(super) fn service(service: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &service["spec"];
    cells![
        name(service),
        text(&spec["type"]),
        cluster_ip(spec),
        external_ip(service),
        service_ports(&spec["ports"]),
        age(service, now),
        labels::labels(&spec["selector"]),
    ]
}

fn cluster_ip(spec: &Value) -> &str {
    match list(&spec["clusterIPs"]).first() {
        Some(first) => text(first),
        None => text_or(&spec["clusterIP"], NONE),
    }
}

fn external_ip(service: &Value) -> String {
    let spec = &service["spec"];
    let external = list(&spec["externalIPs"]).iter().map(text);
    let (addresses, absent) = match text(&spec["type"]) {
        "ClusterIP" | "NodePort" => (joined(external, ","), NONE),
        "LoadBalancer" => (joined(ingress_points(&service["status"]).into_iter().chain(external), ","), "<pending>"),
        "ExternalName" => (text(&spec["externalName"]).to_owned(), ""),
        _ => (String::new(), UNKNOWN),
    };
    if addresses.is_empty() { absent.to_owned() } else { addresses }
}

/// The addresses, or else names, of a load balancer, each once.
fn ingress_points(status: &Value) -> BTreeSet<&str> {
    let points = list(&status["loadBalancer"]["ingress"]).iter();
    points.map(|point| text_or(&point["ip"], text(&point["hostname"]))).filter(|point| !point.is_empty()).collect()
}

fn service_ports(ports: &Value) -> String {
    let port = |port: &Value| match (int(&port["port"]), int(&port["nodePort"]), text(&port["protocol"])) {
        (number, node_port, protocol) if node_port > 0 => format!("{number}:{node_port}/{protocol}"),
        (number, _, protocol) => format!("{number}/{protocol}"),
    };
    let ports: Vec<String> = list(ports).iter().map(port).collect();
    if ports.is_empty() { NONE.to_owned() } else { ports.join(",") }
}

pub(super) static ENDPOINTS: [Column; 3] =
    [NAME, text_column("Endpoints", "The addresses and ports behind a service."), AGE];

pub(super) fn endpoints(endpoints: &Value, now: Timestamp) -> Vec<Value> {
    let subsets = list(&endpoints["subsets"]);
    let mut shown = Shortened::new();
    for subset in subsets {
        let addresses = || list(&subset["addresses"]).iter().map(|address| text(&address["ip"]));
        let ports = list(&subset["ports"]);
        for port in ports {
            for ip in addresses() {
                shown.push(|| host_port(ip, int(&port["port"])));
            }
        }
        // A headless service may have no ports at all.
        for ip in addresses().filter(|_| ports.is_empty()) {
            shown.push(|| ip.to_owned());
        }
    }
    let cell = if subsets.is_empty() { NONE.to_owned() } else { shown.finish() };
    cells![name(endpoints), cell, age(endpoints, now)]
}

fn host_port(ip: &str, port: i64) -> String {
    if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
}

pub(super) static ENDPOINT_SLICE: [Column; 5] = [
    NAME,
    text_column("AddressType", "IPv4, IPv6 or FQDN."),
    text_column("Ports", "The ports of every endpoint in the slice."),
    text_column("Endpoints", "The addresses of the endpoints."),
    AGE,
];

pub(super) fn endpoint_slice(slice: &Value, now: Timestamp) -> Vec<Value> {
    let (mut ports, mut addresses) = (Shortened::new(), Shortened::new());
    for port in list(&slice["ports"]) {
        ports.push(|| match port["port"].as_i64() {
            Some(number) => number.to_string(),
            None => port["name"].as_str().unwrap_or("*").to_owned(),
        });
    }
    for address in list(&slice["endpoints"]).iter().flat_map(|endpoint| list(&endpoint["addresses"])) {
        addresses.push(|| text(address).to_owned());
    }
    let or_unset = |cell: String| if cell.is_empty() { UNSET.to_owned() } else { cell };
    cells![
        name(slice),
        text(&slice["addressType"]),
        or_unset(ports.finish()),
        or_unset(addresses.finish()),
        age(slice, now),
    ]
}

pub(super) static NETWORK_POLICY: [Column; 3] =
    [NAME, text_column("Pod-Selector", "The pods that the policy is about."), AGE];

pub(super) fn network_policy(policy: &Value, now: Timestamp) -> Vec<Value> {
    cells![name(policy), labels::selector_or_none(&policy["spec"]["podSelector"]), age(policy, now)]
}

pub(super) static INGRESS: [Column; 6] = [
    NAME,
    text_column("Class", "The ingress class that handles the ingress."),
    text_column("Hosts", "The host names of the rules."),
    text_column("Address", "The addresses of the load balancer."),
    text_column("Ports", "80, and 443 with TLS."),
    AGE,
];

pub(super) fn ingress(ingress: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &ingress["spec"];
    cells![
        name(ingress),
        spec["ingressClassName"].as_str().unwrap_or(NONE),
        hosts(list(&spec["rules"])),
        joined(ingress_points(&ingress["status"]), ","),
        if list(&spec["tls"]).is_empty() { "80" } else { "80, 443" },
        age(ingress, now),
    ]
}

/// Three hosts at most. What is left over is counted in rules, with or without a host, as the real server does.
fn hosts(rules: &[Value]) -> String {
    const SHOWN_MAX: usize = 3;
    let mut shown: Vec<&str> = Vec::with_capacity(SHOWN_MAX);
    for rule in rules {
        if shown.len() == SHOWN_MAX {
            return format!("{} + {} more...", shown.join(","), rules.len() - SHOWN_MAX);
        }
        shown.extend(Some(text(&rule["host"])).filter(|host| !host.is_empty()));
    }
    if shown.is_empty() { "*".to_owned() } else { shown.join(",") }
}

pub(super) static INGRESS_CLASS: [Column; 4] = [
    NAME,
    text_column("Controller", "The controller of ingresses of this class."),
    text_column("Parameters", "The object with further settings."),
    AGE,
];

pub(super) fn ingress_class(class: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &class["spec"];
    cells![name(class), text(&spec["controller"]), parameters(&spec["parameters"]), age(class, now)]
}

fn parameters(parameters: &Value) -> String {
    let (kind, name) = (text(&parameters["kind"]), text(&parameters["name"]));
    match parameters["apiGroup"].as_str() {
        _ if parameters.is_null() => NONE.to_owned(),
        Some(group) => format!("{kind}.{group}/{name}"),
        None => format!("{kind}/{name}"),
    }
}
