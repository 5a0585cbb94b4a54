//! The row of a node: readiness, roles, addresses and what runs on it.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use super::{
    age::UNKNOWN,
    column::{AGE, Column, NAME, text_column, wide_column},
    field::{NONE, age, cells, entries, flag, joined, list, name, text, text_or},
};

/// A label like `node-role.kubernetes.io/control-plane`, whatever its value.
const ROLE_PREFIX: &str = "node-role.kubernetes.io/";
/// The older label, with the role as its value.
const ROLE: &str = "kubernetes.io/role";

pub(super) static NODE: [Column; 10] = [
    NAME,
    text_column("Status", "Whether the node is ready, and whether it takes new pods."),
    text_column("Roles", "The roles in the labels of the node."),
    AGE,
    text_column("Version", "The version of the kubelet."),
    wide_column("Internal-IP", "The address inside the cluster."),
    wide_column("External-IP", "The address from outside the cluster."),
    wide_column("OS-Image", "The operating system."),
    wide_column("Kernel-Version", "The kernel."),
    wide_column("Container-Runtime", "The container runtime and its version."),
];

pub(super) fn cells(node: &Value, now: Timestamp) -> Vec<Value> {
    let info = &node["status"]["nodeInfo"];
    cells![
        name(node),
        status_word(node),
        roles(node),
        age(node, now),
        text(&info["kubeletVersion"]),
        address(node, "InternalIP"),
        address(node, "ExternalIP"),
        text_or(&info["osImage"], UNKNOWN),
        text_or(&info["kernelVersion"], UNKNOWN),
        text_or(&info["containerRuntimeVersion"], UNKNOWN),
    ]
}

fn status_word(node: &Value) -> String {
    let ready = list(&node["status"]["conditions"]).iter().rfind(|condition| condition["type"] == "Ready");
    let word = match ready {
        Some(condition) if condition["status"] == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let suffix = if flag(&node["spec"]["unschedulable"]) { ",SchedulingDisabled" } else { "" };
    format!("{word}{suffix}")
}

fn roles(node: &Value) -> String {
    let roles: BTreeSet<&str> = entries(&node["metadata"]["labels"])
        .filter_map(|(key, value)| match key.strip_prefix(ROLE_PREFIX) {
            None if key == ROLE => Some(text(value)),
            role => role,
        })
        .filter(|role| !role.is_empty())
        .collect();
    if roles.is_empty() { NONE.to_owned() } else { joined(roles, ",") }
}

fn address<'a>(node: &'a Value, address_type: &str) -> &'a str {
    let address = list(&node["status"]["addresses"]).iter().find(|address| address["type"] == address_type);
    address.map_or(NONE, |address| text(&address["address"]))
}
