//! How much of what a pod asks for, and a node has. Pure.
//!
//! Processor time is counted in thousandths, everything else in whole units.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Container, Node, Pod},
    apimachinery::pkg::api::resource::Quantity as Text,
};
use ronde_apiserver::quantity::Quantity;

/// Amounts by the name of the resource.
pub type Amounts = BTreeMap<String, i128>;

/// The resource of which every pod takes one.
pub const PODS: &str = "pods";

/// An address, a protocol and a port of the node itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPort {
    address: String,
    protocol: String,
    port: i32,
}

impl HostPort {
    /// Tells whether two pods cannot have both on one node.
    pub fn clashes_with(&self, other: &Self) -> bool {
        let is_any = |address: &str| matches!(address, "" | "0.0.0.0" | "::");
        let same_address = self.address == other.address || is_any(&self.address) || is_any(&other.address);
        self.port == other.port && self.protocol == other.protocol && same_address
    }
}

/// Returns what a pod asks for at its most demanding moment.
pub fn requests(pod: &Pod) -> Amounts {
    let Some(spec) = &pod.spec else { return Amounts::new() };
    let mut running = Amounts::new();
    for container in &spec.containers {
        add(&mut running, &container_requests(container));
    }
    // Sidecars run beside everything that is started after them.
    let (mut sidecars, mut starting) = (Amounts::new(), Amounts::new());
    for container in spec.init_containers.iter().flatten() {
        let mut moment = container_requests(container);
        if is_sidecar(container) {
            add(&mut sidecars, &moment);
            moment.clone_from(&sidecars);
        } else {
            add(&mut moment, &sidecars);
        }
        raise(&mut starting, &moment);
    }
    add(&mut running, &sidecars);
    raise(&mut running, &starting);
    let whole = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    running.extend(amounts(whole));
    add(&mut running, &amounts(spec.overhead.as_ref()));
    add(&mut running, &Amounts::from([(PODS.to_owned(), 1)]));
    running
}

/// Returns what pods may have of a node.
pub fn allocatable(node: &Node) -> Amounts {
    amounts(node.status.as_ref().and_then(|status| status.allocatable.as_ref()))
}

/// Returns the ports of the node that a pod takes.
pub fn host_ports(pod: &Pod) -> Vec<HostPort> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let sidecars = spec.init_containers.iter().flatten().filter(|container| is_sidecar(container));
    let ports = spec.containers.iter().chain(sidecars).flat_map(|container| container.ports.iter().flatten());
    let taken = ports.filter_map(|port| {
        Some(HostPort {
            address: port.host_ip.clone().unwrap_or_default(),
            protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
            port: port.host_port.filter(|number| *number > 0)?,
        })
    });
    taken.collect()
}

/// Adds amounts to others.
pub fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let entry = sum.entry(name.clone()).or_default();
        *entry = entry.saturating_add(*amount);
    }
}

fn raise(most: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let entry = most.entry(name.clone()).or_default();
        *entry = (*entry).max(*amount);
    }
}

fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

fn container_requests(container: &Container) -> Amounts {
    amounts(container.resources.as_ref().and_then(|resources| resources.requests.as_ref()))
}

fn amounts(texts: Option<&BTreeMap<String, Text>>) -> Amounts {
    let known = texts.into_iter().flatten().filter_map(|(name, text)| {
        let quantity = Quantity::parse(&text.0).ok()?;
        let amount = if name == "cpu" { quantity.milli() } else { quantity.value() };
        Some((name.clone(), amount))
    });
    known.collect()
}
