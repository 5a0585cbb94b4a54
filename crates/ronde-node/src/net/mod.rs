//! The network of the node: a bridge, an address for every pod, names, and services.
//!
//! [`Network`] is what the node's workers use: it wires a pod's namespace to the bridge, and follows the cluster's
//! services with a name server and proxies. Pods' links live in the kernel and outlast the daemon; names and services
//! are the daemon's work, in a namespace of their own (so that no port of the machine is in their way), and end with
//! it. [`remove_all`] takes everything away. No module here watches the API: the caller hands over a [`ClusterView`].

mod alias;
mod dns;
mod firewall;
mod forwarding;
mod host_network;
mod leases;
mod links;
pub mod names;
mod netns;
mod pod_files;
mod proxy;
mod resolver;
mod state;
mod subnet_lock;
mod subnets;
mod view;

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    io,
    net::{Ipv4Addr, SocketAddr},
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    sync::Arc,
};

use ipnet::Ipv4Net;
use parking_lot::Mutex;
use tokio::{net::TcpStream, sync::watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{
    alias::Alias,
    dns::{NameServer, Upstream, Zone},
    leases::Leases,
    links::{Bridge, Inside, Port},
    names::BRIDGE_PREFIX,
    proxy::{NodeNumbers, ProxyPlan, Realms},
    state::State,
};
pub use self::{
    netns::{Netns, NetworkPlace},
    pod_files::{FqdnTooLong, NameService, hostname, hosts, resolv_conf},
    resolver::Resolver,
    subnet_lock::SubnetLock,
    subnets::Subnets,
    view::ClusterView,
};

const DNS_PORT: u16 = 53;
/// Where no default route says otherwise.
const MTU_DEFAULT: u32 = 1500;

/// How a network is to be.
pub struct NetworkOptions {
    /// Tells instances on one machine apart.
    pub instance: String,
    /// Where the choice of subnets is kept.
    pub state_dir: PathBuf,
    pub place: NetworkPlace,
    /// The API server, as the daemon reaches it.
    pub api_server: SocketAddr,
    /// The domain of the cluster's names, `cluster.local`.
    pub cluster_domain: String,
    /// The list of the machine's name servers, `/etc/resolv.conf`.
    pub resolv_conf: PathBuf,
    /// The nodes that have a network of their own.
    pub nodes: Vec<FurtherNode>,
}

/// A node beside the first: it has a network of its own, so that it has ports of its own, as a machine would.
pub struct FurtherNode {
    pub name: String,
    /// The network that it has already, if pods that use it have been running all along.
    pub netns: Option<OwnedFd>,
}

/// The network of such a node. It lives as long as the daemon, or as pods that use it.
#[derive(Debug)]
pub struct NodeNetwork {
    pub netns: OwnedFd,
    pub address: Ipv4Addr,
}

/// Something that the machine lacks, and what follows from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    pub what: String,
    pub consequence: String,
}

/// Why the network is not as it should be.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    #[error("cannot use a network namespace")]
    Namespace(#[source] io::Error),
    #[error("cannot {what}")]
    Netlink { what: String, source: io::Error },
    #[error("cannot serve names on {address}")]
    NameServer { address: Ipv4Addr, source: io::Error },
    #[error("cannot save the state of the network")]
    State(#[source] io::Error),
    #[error("`{path}` is damaged")]
    Damaged { path: PathBuf, source: serde_json::Error },
    #[error("`{path}` has version {version}, which this ronde does not know")]
    Version { path: PathBuf, version: u32 },
    #[error("every private subnet is in use on this machine")]
    NoSubnet,
    #[error("all addresses of {subnet} are in use")]
    NoAddress { subnet: Ipv4Net },
}

/// The network of one instance.
pub struct Network {
    subnets: Subnets,
    host_ip: Ipv4Addr,
    has_outside: bool,
    cluster_domain: String,
    api_server: SocketAddr,
    /// Where the bridge is.
    machine: Netns,
    netlink: rtnetlink::Handle,
    bridge: Bridge,
    leases: Mutex<Leases>,
    nodes: BTreeMap<String, NodeNetwork>,
    node_numbers: NodeNumbers,
    zones: watch::Sender<Arc<Zone>>,
    plans: watch::Sender<ProxyPlan>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Network {
    /// Makes the network, or takes over what an earlier daemon left, and starts serving names and services.
    ///
    /// # Errors
    /// If the kernel refuses a part that pods cannot do without; lesser things are returned as missing.
    pub async fn open(options: NetworkOptions) -> Result<(Self, Vec<Missing>), NetError> {
        // 1. the machine: what is there, and what was chosen before
        let subnets = Subnets::ensure(&options.instance, &options.state_dir, &options.place).await?;
        let machine = options.place.netns().await.map_err(NetError::Namespace)?;
        let netlink = machine.netlink().await.map_err(NetError::Namespace)?;
        let uplink = host_network::uplink(&netlink).await?;

        // 2. the bridge, and the pods that are on it already
        let name = names::bridge(&options.instance);
        let address = with_prefix(subnets.gateway(), subnets.pods);
        let mtu = uplink.and_then(|uplink| uplink.mtu).unwrap_or(MTU_DEFAULT);
        let bridge = links::ensure_bridge(&netlink, &name, address, mtu).await?;
        let mut leases = Leases::new(subnets.pods);
        for (port, address) in links::ports(&netlink, bridge.index).await? {
            if let Some(address) = address {
                leases.claim(&port, address);
            }
        }

        // 3. the world
        let is_host = matches!(options.place, NetworkPlace::Host);
        let has_outside = uplink.is_some();
        let missing = if is_host || has_outside {
            open_outside(&machine, &options, &subnets, has_outside).await?
        } else {
            vec![no_outside("an ordinary user's pods have no link to the machine's network (package `slirp4netns`)")]
        };

        links::set_alias(&netlink, bridge.index, &alias(&options)?.to_string()).await?;

        // 4. services and names
        let services = wire_services(&netlink, &bridge, &options.instance, &subnets).await?;
        let (zones, zone) =
            watch::channel(Arc::new(Zone::build(&ClusterView::default(), &options.cluster_domain, &subnets)));
        let (plans, plan) = watch::channel(ProxyPlan::new());
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let upstream = Upstream::new(options.resolv_conf, subnets.dns());
        serve_names(NameServer { zone, upstream }, &services, subnets.dns(), (&tasks, &stop)).await?;
        let first = if is_host { vec![Netns::here()] } else { vec![Netns::here(), machine.clone()] };
        let host_ip = uplink.and_then(|uplink| uplink.address).filter(|_| is_host).unwrap_or(subnets.gateway());
        let mut network = Self {
            subnets,
            host_ip,
            has_outside,
            cluster_domain: options.cluster_domain,
            api_server: options.api_server,
            machine,
            netlink,
            bridge,
            leases: Mutex::new(leases),
            nodes: BTreeMap::new(),
            node_numbers: NodeNumbers::new(),
            zones,
            plans,
            tasks: tasks.clone(),
            stop: stop.clone(),
        };
        let mut nodes = vec![first];
        for node in options.nodes {
            network.node_numbers.insert(node.name.clone(), nodes.len());
            nodes.push(vec![network.open_node(&options.instance, node).await?]);
        }
        let run = proxy::run(Realms { services, nodes }, plan, tasks, stop);
        network.tasks.spawn(run);
        network.update(&ClusterView::default());
        Ok((network, missing))
    }

    /// Gives a node a network of its own on the bridge, or takes over the one that its pods use.
    async fn open_node(&mut self, instance: &str, node: FurtherNode) -> Result<Netns, NetError> {
        let netns = match node.netns {
            Some(netns) => netns,
            None => Netns::create().await.map_err(NetError::Namespace)?.1,
        };
        let copy = netns.try_clone().map_err(NetError::Namespace)?;
        let address = self.attach(&format!("{instance}/{}", node.name), copy, None).await?;
        let inside = Netns::enter(netns.as_fd()).await.map_err(NetError::Namespace)?;
        self.nodes.insert(node.name, NodeNetwork { netns, address });
        Ok(inside)
    }

    /// Returns the network of a node; none if that is the machine's.
    pub fn node(&self, name: &str) -> Option<&NodeNetwork> {
        self.nodes.get(name)
    }

    /// Gives a pod's namespace its link and address; may be repeated. `wanted` is the address it had before, if any.
    ///
    /// # Errors
    /// If there is no address left, or the kernel refuses.
    pub async fn attach(&self, pod_uid: &str, netns: OwnedFd, wanted: Option<Ipv4Addr>) -> Result<Ipv4Addr, NetError> {
        let name = names::pod_port(pod_uid);
        let address =
            self.leases.lock().assign(&name, wanted).ok_or(NetError::NoAddress { subnet: self.subnets.pods })?;
        // On failure the address stays the pod's: its link may be there. Detaching gives both back.
        self.wire(&Port { name: &name, netns: netns.as_fd(), address }).await?;
        Ok(address)
    }

    async fn wire(&self, port: &Port<'_>) -> Result<(), NetError> {
        let pod = Netns::enter(port.netns).await.map_err(NetError::Namespace)?;
        let netlink = pod.netlink().await.map_err(NetError::Namespace)?;
        let is_new = links::add_port(&self.netlink, &self.bridge, port).await?;
        if !is_new && links::find(&netlink, names::POD_LINK).await?.is_none() {
            // A link of that name leads to a namespace that the pod had before.
            links::remove(&self.netlink, port.name).await?;
            links::add_port(&self.netlink, &self.bridge, port).await?;
        }
        let inside = Inside {
            address: with_prefix(port.address, self.subnets.pods),
            gateway: self.subnets.gateway(),
            route: Some((self.subnets.services, self.subnets.service_hop())),
        };
        links::set_up_inside(&netlink, &inside).await
    }

    /// Takes a pod's link and address away; nothing if it has none.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub async fn detach(&self, pod_uid: &str) -> Result<(), NetError> {
        let name = names::pod_port(pod_uid);
        links::remove(&self.netlink, &name).await?;
        self.leases.lock().release(&name);
        Ok(())
    }

    /// Keeps an address for a pod that was found running; tells whether nobody else has it.
    pub fn claim(&self, pod_uid: &str, address: Ipv4Addr) -> bool {
        self.leases.lock().claim(&names::pod_port(pod_uid), address)
    }

    /// Follows the cluster: names at once, proxies as soon as their sockets are made.
    pub fn update(&self, view: &ClusterView) {
        self.zones.send_replace(Arc::new(Zone::build(view, &self.cluster_domain, &self.subnets)));
        let new = proxy::plan(view, &self.subnets, self.api_server, &self.node_numbers);
        self.plans.send_if_modified(|plan| {
            let is_other = *plan != new;
            *plan = new;
            is_other
        });
    }

    /// Connects to an address as seen from a pod's namespace; without one, from where the bridge is.
    ///
    /// # Errors
    /// If it cannot be reached; there is no time limit beyond the kernel's.
    pub async fn connect(&self, netns: Option<BorrowedFd<'_>>, address: SocketAddr) -> io::Result<TcpStream> {
        match netns {
            Some(netns) => Netns::enter(netns).await?.connect_tcp(address).await,
            None => self.machine.connect_tcp(address).await,
        }
    }

    pub fn subnets(&self) -> Subnets {
        self.subnets
    }

    pub fn dns_address(&self) -> Ipv4Addr {
        self.subnets.dns()
    }

    /// Returns what a pod's `/etc/resolv.conf` is made from.
    pub fn names<'a>(&'a self, machine: &'a Resolver, node: &str) -> NameService<'a> {
        NameService {
            dns: self.dns_address(),
            cluster_domain: &self.cluster_domain,
            machine,
            has_outside: self.has_outside,
            is_of_further_node: self.node(node).is_some(),
        }
    }

    /// Returns the machine's address as pods reach it.
    pub fn host_ip(&self) -> Ipv4Addr {
        self.host_ip
    }

    /// Tells whether pods can reach addresses beyond this machine.
    pub fn has_outside(&self) -> bool {
        self.has_outside
    }

    /// Stops serving names and services, and ends connections through them. Pods keep their links.
    pub async fn close(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Takes away everything that a network of this instance made, on behalf of a daemon that is gone. The subnets stay
/// chosen: services in the store keep their addresses.
///
/// # Errors
/// If the kernel refuses.
pub async fn remove_all(instance: &str, state_dir: &Path, place: &NetworkPlace) -> Result<(), NetError> {
    remove_bridge(&names::bridge(instance), place).await?;
    // What the bridge has said is done by now; one that never was said nothing.
    match State::read(state_dir)? {
        Some(mut state) if state.forwarding_enabled => {
            forwarding::put_back(&place.netns().await.map_err(NetError::Namespace)?).await?;
            state.forwarding_enabled = false;
            state.write(state_dir)
        }
        _ => Ok(()),
    }
}

/// The same for an instance whose data directory is gone, by the name of its bridge.
///
/// # Errors
/// If the kernel refuses.
pub async fn remove_bridge(bridge: &str, place: &NetworkPlace) -> Result<(), NetError> {
    let machine = place.netns().await.map_err(NetError::Namespace)?;
    let netlink = machine.netlink().await.map_err(NetError::Namespace)?;
    let found = links::find_all(&netlink, bridge).await?;
    let alias = found.into_iter().find(|link| link.name == bridge).and_then(|link| link.alias);
    if let Some(index) = links::find(&netlink, bridge).await? {
        for (port, _) in links::ports(&netlink, index).await? {
            links::remove(&netlink, &port).await?;
        }
        links::remove(&netlink, bridge).await?;
    }
    firewall::remove(&machine, &names::table_of(bridge)).await;
    match alias.as_deref().map(Alias::parse) {
        Some(Alias { forwarding_enabled: true, .. }) => forwarding::put_back(&machine).await,
        _ => Ok(()),
    }
}

/// The network of an instance, as the kernel knows it.
#[derive(Debug, PartialEq, Eq)]
pub struct Trace {
    pub bridge: String,
    pub data_dir: Option<PathBuf>,
    /// Whether a pod or a daemon is attached to it, perhaps one that we do not see.
    pub is_used: bool,
}

/// Finds the networks of all instances, by the names of bridges and firewall tables.
///
/// # Errors
/// If the kernel does not say.
pub async fn traces(place: &NetworkPlace) -> Result<Vec<Trace>, NetError> {
    let machine = place.netns().await.map_err(NetError::Namespace)?;
    let netlink = machine.netlink().await.map_err(NetError::Namespace)?;
    let links = links::find_all(&netlink, BRIDGE_PREFIX).await?.into_iter();
    let mut traces: Vec<Trace> = links
        .map(|link| Trace {
            bridge: link.name,
            data_dir: link.alias.as_deref().map(Alias::parse).and_then(|alias| alias.data_dir),
            is_used: link.has_ports,
        })
        .collect();
    for table in firewall::tables(&machine).await {
        let Some(hash) = table.strip_prefix(&names::table_of(BRIDGE_PREFIX)) else { continue };
        let bridge = format!("{BRIDGE_PREFIX}{hash}");
        if traces.iter().all(|trace| trace.bridge != bridge) {
            traces.push(Trace { bridge, data_dir: None, is_used: false });
        }
    }
    Ok(traces)
}

/// Lets packets of pods out, under the machine's address; says what is in the way.
async fn open_outside(
    machine: &Netns,
    options: &NetworkOptions,
    subnets: &Subnets,
    has_outside: bool,
) -> Result<Vec<Missing>, NetError> {
    let (bridge, table) = (names::bridge(&options.instance), names::table(&options.instance));
    let mut state = State::read(&options.state_dir)?.unwrap_or_else(|| State::new(*subnets));
    let forwarding = forwarding::ensure(machine, &mut state, &options.state_dir).await?;
    let masquerade = firewall::ensure_masquerade(machine, &table, &bridge, subnets.pods).await;
    let dropped = firewall::probe_forwarding(machine, &bridge).await;
    let offline = (!has_outside).then(|| no_outside("this machine has no default route"));
    Ok([forwarding, masquerade, dropped, offline].into_iter().flatten().collect())
}

/// What the bridge says of its instance.
fn alias(options: &NetworkOptions) -> Result<Alias, NetError> {
    let state = State::read(&options.state_dir)?;
    Ok(Alias {
        data_dir: options.state_dir.parent().map(Path::to_owned),
        forwarding_enabled: state.is_some_and(|state| state.forwarding_enabled),
    })
}

fn no_outside(what: &str) -> Missing {
    Missing { what: what.to_owned(), consequence: "pods cannot reach addresses outside this machine".to_owned() }
}

/// Makes the namespace of the services' addresses, and the ways to it. It lives as long as the daemon.
async fn wire_services(
    netlink: &rtnetlink::Handle,
    bridge: &Bridge,
    instance: &str,
    subnets: &Subnets,
) -> Result<Netns, NetError> {
    let (services, file) = Netns::create().await.map_err(NetError::Namespace)?;
    let inner = services.netlink().await.map_err(NetError::Namespace)?;
    let name = names::service_port(instance);
    // The one of a daemon that was killed may still be about to vanish.
    links::remove(netlink, &name).await?;
    let address = subnets.service_hop();
    links::add_port(netlink, bridge, &Port { name: &name, netns: file.as_fd(), address }).await?;
    let inside = Inside { address: with_prefix(address, subnets.pods), gateway: subnets.gateway(), route: None };
    links::set_up_inside(&inner, &inside).await?;
    links::ensure_own(&inner, subnets.services).await?;
    links::ensure_route(netlink, subnets.services, address).await?;
    Ok(services)
}

async fn serve_names(
    server: NameServer,
    services: &Netns,
    address: Ipv4Addr,
    running: (&TaskTracker, &CancellationToken),
) -> Result<(), NetError> {
    let (tasks, stop) = running;
    let failed = |source| NetError::NameServer { address, source };
    let at = SocketAddr::from((address, DNS_PORT));
    let (socket, listener) =
        (services.bind_udp(at).await.map_err(failed)?, services.listen_tcp(at).await.map_err(failed)?);
    tasks.spawn(stop.clone().run_until_cancelled_owned(server.clone().serve_datagrams(socket)));
    tasks.spawn(stop.clone().run_until_cancelled_owned(server.serve_streams(listener)));
    Ok(())
}

fn with_prefix(address: Ipv4Addr, subnet: Ipv4Net) -> Ipv4Net {
    Ipv4Net::new(address, subnet.prefix_len()).expect("the length comes from a subnet")
}
