//! From a view of the cluster to the addresses that must be reached, and what is behind each. Pure.

use std::{
    collections::BTreeMap,
    fmt,
    net::{Ipv4Addr, SocketAddr, SocketAddrV4},
    time::Duration,
};

use k8s_openapi::api::core::v1::{Pod, ServicePort, ServiceSpec};

use crate::net::{
    subnets::Subnets,
    view::{ClusterView, Exposed, Reachable},
};

/// What clients of the API use inside a cluster.
const API_PORT: u16 = 443;
/// Three hours, Kubernetes' own default.
const AFFINITY_DEFAULT: Duration = Duration::from_secs(10_800);

/// All addresses that must be reached.
pub type ProxyPlan = BTreeMap<Front, Target>;

/// Which of the namespaces an address is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Realm {
    Services,
    /// All nodes.
    Nodes,
    /// One of them; the first is the machine itself.
    Node(usize),
}

/// Which number a node has, for those that have a network of their own.
pub type NodeNumbers = BTreeMap<String, usize>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    Tcp,
    Udp,
}

/// An address that clients use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Front {
    pub realm: Realm,
    pub protocol: Protocol,
    pub address: Ipv4Addr,
    pub port: u16,
}

/// One of the places that clients of a front are sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Backend {
    /// Reached from where the services are.
    Pod(SocketAddrV4),
    /// Reached from where the daemon is.
    Daemon(SocketAddr),
}

/// What is behind a front; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub backends: Vec<Backend>,
    /// For how long a client is sent to the same backend; none if it does not matter.
    pub affinity: Option<Duration>,
}

/// Plans the fronts of services, of pods' host ports, and of the API server.
pub fn plan(view: &ClusterView, subnets: &Subnets, api_server: SocketAddr, nodes: &NodeNumbers) -> ProxyPlan {
    let mut plan = ProxyPlan::new();
    view.each_exposed(|service| add_service(&mut plan, service, subnets));
    let number = |pod: &Pod| pod.spec.as_ref()?.node_name.as_ref().and_then(|name| nodes.get(name)).copied();
    for pod in &view.pods {
        add_host_ports(&mut plan, pod, Realm::Node(number(pod).unwrap_or(0)));
    }
    // The machine has the ports of all its nodes, as far as its own leave them.
    for pod in &view.pods {
        add_host_ports(&mut plan, pod, Realm::Node(0));
    }
    let api = Front { realm: Realm::Services, protocol: Protocol::Tcp, address: subnets.api(), port: API_PORT };
    plan.insert(api, Target { backends: vec![Backend::Daemon(api_server)], affinity: None });
    plan
}

fn add_service(plan: &mut ProxyPlan, service: &Exposed<'_>, subnets: &Subnets) {
    let Some(address) = service.cluster_ip() else { return };
    // The API server and the name server answer there by themselves.
    if !subnets.services.contains(&address) || [subnets.api(), subnets.dns()].contains(&address) {
        return;
    }
    let affinity = affinity(service.spec);
    for port in service.spec.ports.iter().flatten() {
        let (Some(protocol), backends) = (protocol(port.protocol.as_deref()), backends(service, port)) else {
            continue;
        };
        if backends.is_empty() {
            continue;
        }
        let fronts = [
            (Realm::Services, address, number(Some(port.port))),
            (Realm::Nodes, Ipv4Addr::UNSPECIFIED, number(port.node_port)),
        ];
        for (realm, address, port) in fronts {
            let Some(port) = port else { continue };
            plan.insert(Front { realm, protocol, address, port }, Target { backends: backends.clone(), affinity });
        }
    }
}

/// Lists the endpoints' addresses for one port of a service: the ready ones, else those that stop but still serve.
fn backends(service: &Exposed<'_>, port: &ServicePort) -> Vec<Backend> {
    let address = |reachable: Reachable<'_>| {
        let is_same = |name: Option<&str>, protocol: Option<&str>| {
            name.unwrap_or_default() == port.name.as_deref().unwrap_or_default()
                && protocol.unwrap_or("TCP") == port.protocol.as_deref().unwrap_or("TCP")
        };
        let found = reachable.ports.iter().find(|found| is_same(found.name.as_deref(), found.protocol.as_deref()))?;
        Some(Backend::Pod(SocketAddrV4::new(reachable.address, number(found.port)?)))
    };
    let mut found: Vec<Backend> = service.ready().filter_map(address).collect();
    if found.is_empty() {
        found = service.closing().filter_map(address).collect();
    }
    found.sort_unstable();
    found.dedup();
    found
}

fn add_host_ports(plan: &mut ProxyPlan, pod: &Pod, realm: Realm) {
    let (Some(spec), Some(status)) = (&pod.spec, &pod.status) else { return };
    let is_over = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
    let address = status.pod_ip.as_deref().and_then(|address| address.parse::<Ipv4Addr>().ok());
    let Some(pod_ip) = address.filter(|_| spec.host_network != Some(true) && !is_over) else { return };
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    for port in containers.flat_map(|container| container.ports.iter().flatten()) {
        let numbers = (number(port.host_port), number(Some(port.container_port)), protocol(port.protocol.as_deref()));
        let (Some(host_port), Some(container_port), Some(protocol)) = numbers else { continue };
        let address = port.host_ip.as_deref().and_then(|address| address.parse().ok()).unwrap_or(Ipv4Addr::UNSPECIFIED);
        let backends = vec![Backend::Pod(SocketAddrV4::new(pod_ip, container_port))];
        let front = Front { realm, protocol, address, port: host_port };
        plan.entry(front).or_insert(Target { backends, affinity: None });
    }
}

fn affinity(spec: &ServiceSpec) -> Option<Duration> {
    if spec.session_affinity.as_deref() != Some("ClientIP") {
        return None;
    }
    let config = spec.session_affinity_config.as_ref().and_then(|config| config.client_ip.as_ref());
    let seconds = config.and_then(|config| u64::try_from(config.timeout_seconds?).ok());
    Some(seconds.map_or(AFFINITY_DEFAULT, Duration::from_secs))
}

fn protocol(name: Option<&str>) -> Option<Protocol> {
    match name.unwrap_or("TCP") {
        "TCP" => Some(Protocol::Tcp),
        "UDP" => Some(Protocol::Udp),
        _ => None,
    }
}

fn number(port: Option<i32>) -> Option<u16> {
    u16::try_from(port?).ok().filter(|port| *port != 0)
}

impl fmt::Display for Front {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = if self.protocol == Protocol::Tcp { "tcp" } else { "udp" };
        write!(formatter, "{}:{}/{protocol}", self.address, self.port)
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(address) => write!(formatter, "{address}"),
            Self::Daemon(address) => write!(formatter, "daemon {address}"),
        }
    }
}
