//! Endpoints and endpoint slices.

use serde_json::Value;

use super::{
    Generation, Rules,
    addresses::{endpoint_ip, ip, is_v4, is_v6},
    containers::PROTOCOLS,
    errors::Errors,
    meta,
    path::Path,
    read::{default, default_optional, items, number, objects_mut, text},
};
use crate::names::{
    is_dns1123_label, is_dns1123_subdomain, is_qualified_name, is_valid_label_value, is_valid_port_num, parse_ip,
};

/// What is particular about endpoints.
pub const ENDPOINTS: Rules =
    Rules { create_on_update: true, default: default_endpoints, validate: validate_endpoints, ..Rules::PLAIN };

/// What is particular about endpoint slices.
pub const ENDPOINT_SLICE: Rules = Rules {
    generation: Generation::OnChange(|new, old| {
        let fields = ["addressType", "endpoints", "ports"];
        fields.iter().any(|field| new[*field] != old[*field]) || new["metadata"]["labels"] != old["metadata"]["labels"]
    }),
    default: default_slice,
    prepare_create: |slice, _| drop_topology(slice),
    prepare_update: |new, old| {
        if new["endpoints"] != old["endpoints"] {
            drop_topology(new);
        }
    },
    validate: validate_slice,
    ..Rules::PLAIN
};

const ADDRESSES_MAX: usize = 100;
const PORTS_MAX: usize = 20_000;
const ENDPOINTS_MAX: usize = 1000;
const HINTS_MAX: usize = 8;
const TOPOLOGY_MAX: usize = 16;

fn default_endpoints(endpoints: &mut Value) {
    let Some(endpoints) = endpoints.as_object_mut() else { return };
    for subset in objects_mut(endpoints, "subsets") {
        objects_mut(subset, "ports").for_each(|port| default(port, "protocol", "TCP"));
    }
}

fn default_slice(slice: &mut Value) {
    let Some(slice) = slice.as_object_mut() else { return };
    for port in objects_mut(slice, "ports") {
        default_optional(port, "name", "");
        default_optional(port, "protocol", "TCP");
    }
}

fn drop_topology(slice: &mut Value) {
    let Some(slice) = slice.as_object_mut() else { return };
    objects_mut(slice, "endpoints").for_each(|endpoint| _ = endpoint.remove("deprecatedTopology"));
}

fn validate_endpoints(endpoints: &Value, old: Option<&Value>, errors: &mut Errors) {
    if let Some(old) = old {
        meta::updated(endpoints, old, errors);
        meta::standard_finalizers(endpoints, errors);
    }
    meta::created(endpoints, true, is_dns1123_subdomain, errors);
    meta::standard_finalizers(endpoints, errors);
    if old.is_some_and(|old| old["subsets"] == endpoints["subsets"]) {
        return;
    }
    let path = Path::new("subsets");
    for (index, subset) in items(&endpoints["subsets"]).iter().enumerate() {
        subset_rules(subset, &path.index(index), errors);
    }
}

fn subset_rules(subset: &Value, path: &Path<'_>, errors: &mut Errors) {
    let lists = ["addresses", "notReadyAddresses"];
    if lists.iter().all(|list| items(&subset[*list]).is_empty()) {
        errors.required(path, "must specify `addresses` or `notReadyAddresses`");
    }
    for list in lists {
        let at = path.child(list);
        for (index, address) in items(&subset[list]).iter().enumerate() {
            endpoint_address(address, &at.index(index), errors);
        }
    }
    let (ports, at) = (items(&subset["ports"]), path.child("ports"));
    for (index, port) in ports.iter().enumerate() {
        endpoint_port(port, ports.len() > 1, &at.index(index), errors);
    }
}

fn endpoint_address(address: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (at, host) = (path.child("ip"), text(&address["hostname"]));
    ip(text(&address["ip"]), &at, errors);
    if !host.is_empty() {
        errors.names(&path.child("hostname"), host, is_dns1123_label(host));
    }
    if let Some(node) = address["nodeName"].as_str() {
        errors.names(&path.child("nodeName"), node, is_dns1123_subdomain(node));
    }
    endpoint_ip(text(&address["ip"]), &at, errors);
}

fn endpoint_port(port: &Value, needs_name: bool, path: &Path<'_>, errors: &mut Errors) {
    let (name, port_number) = (text(&port["name"]), number(&port["port"]));
    if !name.is_empty() {
        errors.names(&path.child("name"), name, is_dns1123_label(name));
    } else if needs_name {
        errors.required(&path.child("name"), "");
    }
    errors.numbers(&path.child("port"), port_number, is_valid_port_num(port_number));
    errors.one_of(&path.child("protocol"), text(&port["protocol"]), &PROTOCOLS);
    if let Some(protocol) = port["appProtocol"].as_str() {
        errors.names(&path.child("appProtocol"), protocol, is_qualified_name(protocol));
    }
}

fn validate_slice(slice: &Value, old: Option<&Value>, errors: &mut Errors) {
    meta::created(slice, true, is_dns1123_subdomain, errors);
    meta::standard_finalizers(slice, errors);
    let kind = text(&slice["addressType"]);
    errors.one_of(&Path::new("addressType"), kind, &["FQDN", "IPv4", "IPv6"]);
    slice_ports(items(&slice["ports"]), &Path::new("ports"), errors);
    if old.is_none_or(|old| old["endpoints"] != slice["endpoints"]) {
        slice_endpoints(items(&slice["endpoints"]), kind, &Path::new("endpoints"), errors);
    }
    if let Some(old) = old {
        errors.immutable(&Path::new("addressType"), &slice["addressType"], &old["addressType"]);
    }
}

fn slice_ports(ports: &[Value], path: &Path<'_>, errors: &mut Errors) {
    if ports.len() > PORTS_MAX {
        errors.too_many(path, ports.len(), PORTS_MAX);
        return;
    }
    let mut names: Vec<&str> = Vec::new();
    for (index, port) in ports.iter().enumerate() {
        let (at, name) = (path.index(index), text(&port["name"]));
        if !name.is_empty() {
            errors.names(&at.child("name"), name, is_dns1123_label(name));
        }
        if names.contains(&name) {
            errors.duplicate(&at.child("name"), name);
        }
        names.push(name);
        errors.one_of_optional(&at.child("protocol"), &port["protocol"], &PROTOCOLS);
        if let Some(protocol) = port["appProtocol"].as_str() {
            errors.names(&at.child("appProtocol"), protocol, is_qualified_name(protocol));
        }
    }
}

fn slice_endpoints(endpoints: &[Value], kind: &str, path: &Path<'_>, errors: &mut Errors) {
    if endpoints.len() > ENDPOINTS_MAX {
        errors.too_many(path, endpoints.len(), ENDPOINTS_MAX);
        return;
    }
    for (index, endpoint) in endpoints.iter().enumerate() {
        let at = path.index(index);
        slice_addresses(items(&endpoint["addresses"]), kind, &at.child("addresses"), errors);
        if let Some(node) = endpoint["nodeName"].as_str() {
            errors.names(&at.child("nodeName"), node, is_dns1123_subdomain(node));
        }
        let topology = at.child("deprecatedTopology");
        let labels = endpoint["deprecatedTopology"].as_object().map_or(0, serde_json::Map::len);
        if labels > TOPOLOGY_MAX {
            errors.too_many(&topology, labels, TOPOLOGY_MAX);
        }
        meta::labels(&endpoint["deprecatedTopology"], &topology, errors);
        if let Some(host) = endpoint["hostname"].as_str() {
            errors.names(&at.child("hostname"), host, is_dns1123_label(host));
        }
        let hints = at.child("hints");
        for (field, rule) in [("forZones", is_valid_label_value as fn(&str) -> _), ("forNodes", is_dns1123_subdomain)] {
            hint_names(items(&endpoint["hints"][field]), rule, &hints.child(field), errors);
        }
    }
}

fn slice_addresses(addresses: &[Value], kind: &str, path: &Path<'_>, errors: &mut Errors) {
    if addresses.is_empty() {
        errors.required(path, "must contain at least 1 address");
    } else if addresses.len() > ADDRESSES_MAX {
        errors.too_many(path, addresses.len(), ADDRESSES_MAX);
    }
    for (index, address) in addresses.iter().map(text).enumerate() {
        let at = path.index(index);
        match kind {
            "IPv4" | "IPv6" => slice_ip(address, kind, &at, path, errors),
            "FQDN" => domain_name(address, &at, errors),
            _ => {}
        }
    }
}

fn slice_ip(address: &str, kind: &str, path: &Path<'_>, list: &Path<'_>, errors: &mut Errors) {
    let before = errors.len();
    ip(address, path, errors);
    if kind == "IPv6"
        && let Some(parsed) = parse_ip(address)
        && parsed.to_string() != address
    {
        errors.invalid(path, address, format!("must be in canonical form (\"{parsed}\")"));
    }
    if errors.len() > before {
        return;
    }
    let fits = if kind == "IPv4" { is_v4(address) } else { is_v6(address) };
    if !fits {
        errors.invalid(list, address, format!("must be an {kind} address"));
    }
    endpoint_ip(address, path, errors);
}

fn domain_name(name: &str, path: &Path<'_>, errors: &mut Errors) {
    if name.is_empty() {
        errors.required(path, "");
        return;
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let messages = is_dns1123_subdomain(name);
    if !messages.is_empty() {
        errors.invalid(path, name, messages.join(","));
    } else if !name.contains('.') {
        errors.invalid(path, name, "should be a domain with at least two segments separated by dots");
    } else if let Some((label, messages)) =
        name.split('.').map(|label| (label, is_dns1123_label(label))).find(|(_, messages)| !messages.is_empty())
    {
        errors.invalid(path, label, messages.join(","));
    }
}

fn hint_names(hints: &[Value], rule: meta::NameRule, path: &Path<'_>, errors: &mut Errors) {
    if hints.len() > HINTS_MAX {
        errors.too_many(path, hints.len(), HINTS_MAX);
        return;
    }
    let mut seen: Vec<&str> = Vec::new();
    for (index, name) in hints.iter().map(|hint| text(&hint["name"])).enumerate() {
        let (entry, is_known) = (path.index(index), seen.contains(&name));
        if is_known {
            errors.duplicate(&entry.child("name"), name);
        }
        seen.push(name);
        errors.names(&entry.child("name"), name, rule(name));
    }
}
