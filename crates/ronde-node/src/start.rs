//! How a machine becomes a node: found out ([`Prepared`]) before the API is open, started once it is.

use std::{
    collections::BTreeMap,
    io,
    net::{Ipv4Addr, SocketAddr},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::Arc,
};

use k8s_openapi::{
    api::core::v1::{Service, ServicePort, ServiceSpec},
    apimachinery::pkg::{apis::meta::v1::ObjectMeta, util::intstr::IntOrString},
};
use kube::{Api, Client, api::PostParams};
use parking_lot::Mutex;
use ronde_apiserver::ServiceNetwork;
use ronde_images::{registry::RegistryError, unpack::Rights};
use ronde_runtime::runner::Clock;
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    agent::{Agent, NodeAgent},
    images::{Images, ImagesOptions, policy::Wanted},
    kubelet_api::KubeletApi,
    machine::{
        facts::Facts,
        files::MachineFiles,
        probe::{self, Isolation, Missing, Tried, Wish},
        rootless::Home,
    },
    net::{FurtherNode, NetError, Network, NetworkOptions, NetworkPlace, SubnetLock, Subnets},
    node::{CLUSTER_DOMAIN, Node, uids_on_disk},
    objects::{self, Division},
    sandbox::cgroup::Hierarchy,
    supervisor::{client, folder::PodFolder},
    worker::{
        exec,
        sandbox::{self, Made},
    },
};

/// Where control groups are.
pub const CGROUPS: &str = "/sys/fs/cgroup";

/// Each takes a thread and some milliseconds of the start; who wants more nodes wants to see them scheduled.
const NODE_NETWORKS_MAX: usize = 31;

/// A rank has a few hundred threads, and a pod some ranks.
const POD_PROCESSES_MAX: u64 = 16_384;

/// What a node is made from.
pub struct Options {
    /// The data directory; ours is the folder `node` in it.
    pub data_dir: PathBuf,
    /// The `ronde` binary.
    pub program: PathBuf,
    pub wish: Wish,
    pub division: Division,
    /// How many processes and threads a pod may have, if it is not the default.
    pub pod_processes: Option<u64>,
    /// The namespaces of an ordinary user; nothing for root.
    pub home: Option<Home>,
    /// What stands in for an image's environment.
    pub machine_env: Vec<(String, String)>,
    /// What image names mean.
    pub images: Wanted,
    /// Folders with the settings of registries.
    pub registries: Vec<PathBuf>,
    /// The home directory of the user, whose Docker credentials are used.
    pub user_home: Option<PathBuf>,
    /// Folders that pods mount, read-only, by the CSI driver that they name for it.
    pub shared: BTreeMap<String, PathBuf>,
}

/// Why there is no node.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot find out what this machine supports")]
    Probe { source: io::Error },
    #[error("this machine does not allow full isolation: {}", .missing.iter().map(|one| one.what.clone()).collect::<Vec<_>>().join("; "))]
    Isolation { missing: Vec<Missing> },
    #[error("cannot set up the pod network")]
    Network { source: NetError },
    #[error("cannot use the settings of registries")]
    Registries { source: Box<RegistryError> },
    #[error("cannot register the node with the API server")]
    Announce { source: Box<kube::Error> },
}

/// A machine that was found fit, before anything runs on it.
pub struct Prepared {
    options: Options,
    isolation: Isolation,
    subnets: Option<Subnets>,
    missing: Vec<Missing>,
    instance: String,
    /// Until the subnets are seen to be in use, nobody else chooses.
    subnet_lock: Option<SubnetLock>,
}

/// A node at work.
pub struct Started {
    pub names: Vec<String>,
    pub isolation: Isolation,
    /// What is not as it should be, for the user to read.
    pub missing: Vec<Missing>,
    pub kubelet_api: Arc<KubeletApi>,
    pub node: Arc<Node>,
    pub agent: NodeAgent,
}

impl Prepared {
    /// Finds out what the machine allows.
    ///
    /// # Errors
    /// If that cannot be found out, or is less than was asked for.
    pub async fn new(mut options: Options) -> Result<Self, StartError> {
        let folder = options.data_dir.join("node");
        let tried = match options.wish {
            Wish::None => Tried::default(),
            _ => try_out(&options.program, &folder).await.map_err(|source| StartError::Probe { source })?,
        };
        // As images are marked when they are unpacked.
        let is_root = Rights::of_caller().is_of_machine();
        let (isolation, mut missing) =
            probe::choose(options.wish, &tried, is_root).map_err(|missing| StartError::Isolation { missing })?;
        if let Some(home) = &mut options.home {
            missing.append(&mut home.missing);
        }
        let instance = instance(&options.data_dir);
        let (subnets, subnet_lock) = match isolation {
            Isolation::None => (None, None),
            Isolation::Namespaces { .. } => {
                let place = place(&options).map_err(|source| StartError::Probe { source })?;
                let subnet_lock = match place {
                    NetworkPlace::Host => SubnetLock::acquire().await.map_err(|source| StartError::Probe { source })?,
                    NetworkPlace::Own(_) => None,
                };
                let chosen = Subnets::ensure(&instance, &folder, &place).await;
                (Some(chosen.map_err(|source| StartError::Network { source })?), subnet_lock)
            }
        };
        Ok(Self { options, isolation, subnets, missing, instance, subnet_lock })
    }

    /// The addresses that services get; nothing if they lead nowhere.
    pub fn service_network(&self) -> Option<ServiceNetwork> {
        self.subnets.map(|subnets| ServiceNetwork::new(subnets.services.network(), subnets.services.prefix_len()))
    }

    /// Makes the network and announces the nodes. Pods start with the runner that gets the agent.
    ///
    /// # Errors
    /// If the network cannot be made, or the API refuses the nodes.
    pub async fn start(
        self,
        client: Client,
        api_server: SocketAddr,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) -> Result<Started, StartError> {
        let Self { options, isolation, subnets, mut missing, instance, subnet_lock } = self;
        let folder = options.data_dir.join("node");
        let facts = Facts::read(&folder);
        let names = objects::names(&facts, options.division.nodes);
        // 1. The network, if pods have one.
        let network = match subnets {
            None => None,
            Some(_) => {
                let (network, lacks) =
                    open_network(&options, &instance, api_server, further_nodes(&folder, &names)).await?;
                missing.extend(lacks);
                Some(network)
            }
        };
        drop(subnet_lock);
        // 2. Limits, if they can be enforced.
        let hierarchy = Hierarchy::probe(Path::new(CGROUPS), &instance);
        missing.extend(missing_limits(&hierarchy));
        let host_ip = network.as_ref().map_or(Ipv4Addr::LOCALHOST, Network::host_ip);
        let clock = Clock::real();
        // 3. The objects that say so.
        let now = clock.now();
        let hidden = vec![options.data_dir.to_string_lossy().into_owned()];
        let files = MachineFiles::new(isolation, &hidden, &options.machine_env, options.images);
        let files = files.map_err(|source| StartError::Probe { source })?;
        let address = |name: &String| network.as_ref()?.node(name).map(|node| node.address);
        let node = |name: &String| {
            let address = address(name).unwrap_or(host_ip).to_string();
            objects::build(name, &facts, &options.division, &address, now)
        };
        let nodes = names.iter().map(|name| objects::with_files(node(name), &files));
        let announce = objects::announce(&client, nodes.collect()).await;
        announce.map_err(|source| StartError::Announce { source: Box::new(source) })?;
        if let Some(subnets) = subnets {
            announce_api(&client, subnets.api(), api_server.port())
                .await
                .map_err(|source| StartError::Announce { source: Box::new(source) })?;
        }
        let pressure = watch::Sender::new(None);
        let images = open_images(&options, isolation, &clock, (tasks, stop))?;
        tasks.spawn(objects::images::keep(client.clone(), names.clone(), images.store.clone(), stop.clone()));
        let kept = objects::keep(client.clone(), names.clone(), clock.clone(), pressure.subscribe(), stop.clone());
        tasks.spawn(kept);
        // 4. The agent, with the pods that have been running all along.
        let node = Arc::new(Node {
            client,
            clock,
            instance,
            folder,
            program: options.program,
            names: names.iter().cloned().collect(),
            isolation,
            network,
            hierarchy: hierarchy.ok(),
            machine_env: options.machine_env,
            images,
            shared: options.shared,
            hidden,
            host_ip,
            pod_processes: options.pod_processes.unwrap_or_else(|| pod_processes(facts.processes_max)),
            gpus: facts.gpus,
            gpus_taken: Mutex::default(),
            pressure,
        });
        claim_addresses(&node);
        claim_gpus(&node);
        let agent = NodeAgent(Arc::new(Agent::new(node.clone(), tasks.clone(), stop.clone())));
        let kubelet_api = Arc::new(KubeletApi::new(node.clone(), stop.clone()));
        Ok(Started { names, isolation, missing, kubelet_api, node, agent })
    }
}

fn open_images(
    options: &Options,
    isolation: Isolation,
    clock: &Clock,
    (tasks, stop): (&TaskTracker, &CancellationToken),
) -> Result<Arc<Images>, StartError> {
    let images = ImagesOptions {
        store: ronde_images::Store::new(options.data_dir.join("images")),
        node: options.data_dir.join("node"),
        wanted: options.images,
        isolation,
        registries: options.registries.clone(),
        user_home: options.user_home.clone(),
    };
    let images = Images::new(images, clock.clone(), tasks, stop);
    images.map(Arc::new).map_err(|source| StartError::Registries { source: Box::new(source) })
}

/// What follows from the control groups that there are.
fn missing_limits<E: std::fmt::Display>(hierarchy: &Result<Hierarchy, E>) -> Vec<Missing> {
    let none = hierarchy
        .as_ref()
        .err()
        .map(|why| Missing::new(format!("no control groups: {why}"), "limits of memory and CPU are not enforced"));
    let processes = (!hierarchy.as_ref().is_ok_and(Hierarchy::limits_processes)).then(|| {
        Missing::new(
            "no control group for the number of processes",
            "a pod that starts processes without end takes the machine down",
        )
    });
    none.into_iter().chain(processes).collect()
}

/// Decides how many processes and threads a pod may have: enough for any training, and a few such pods leave the machine
/// enough to be helped.
fn pod_processes(processes_max: u64) -> u64 {
    (processes_max / 4).min(POD_PROCESSES_MAX)
}

/// Runs the probe in a process of its own: it forks.
async fn try_out(program: &Path, folder: &Path) -> io::Result<Tried> {
    let output = tokio::process::Command::new(program)
        .arg("try-isolation")
        .arg(folder.join("probe"))
        .env_clear()
        .output()
        .await?;
    if !output.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    serde_json::from_slice(&output.stdout).map_err(io::Error::other)
}

/// Where the bridge is.
pub fn place(options: &Options) -> io::Result<NetworkPlace> {
    match &options.home {
        None => Ok(NetworkPlace::Host),
        Some(home) => Ok(NetworkPlace::Own(home.network.try_clone()?)),
    }
}

async fn open_network(
    options: &Options,
    instance: &str,
    api_server: SocketAddr,
    nodes: Vec<FurtherNode>,
) -> Result<(Network, Vec<Missing>), StartError> {
    let opened = Network::open(NetworkOptions {
        instance: instance.to_owned(),
        state_dir: options.data_dir.join("node"),
        place: place(options).map_err(|source| StartError::Probe { source })?,
        api_server,
        cluster_domain: CLUSTER_DOMAIN.to_owned(),
        resolv_conf: PathBuf::from("/etc/resolv.conf"),
        nodes,
    });
    let (network, missing) = opened.await.map_err(|source| StartError::Network { source })?;
    Ok((network, missing.into_iter().map(|one| Missing::new(one.what, one.consequence)).collect()))
}

/// Lists the nodes that get a network of their own, with the networks that pods have been using all along.
fn further_nodes(folder: &Path, names: &[String]) -> Vec<FurtherNode> {
    let mut used = BTreeMap::new();
    for uid in uids_on_disk(&folder.join("pods")) {
        let pod = PodFolder(folder.join("pods").join(uid));
        if let Ok(Some(Made { node: Some(node), .. })) = sandbox::read(&pod)
            && let Ok(Some(supervisor)) = client::living(&pod)
            && let Ok(netns) = fs_err::File::open(format!("/proc/{supervisor}/ns/net"))
        {
            used.insert(node, OwnedFd::from(netns.into_file()));
        }
    }
    let further = names.iter().skip(1).take(NODE_NETWORKS_MAX);
    further.map(|name| FurtherNode { name: name.clone(), netns: used.remove(name) }).collect()
}

/// Pods that have been running all along keep their addresses; this comes before any new pod gets one.
fn claim_addresses(node: &Node) {
    let Some(network) = &node.network else { return };
    for uid in node.uids_on_disk() {
        if let Ok(Some(made)) = sandbox::read(&node.pod_folder(&uid))
            && let Some(ip) = made.ip
            && !network.claim(&uid, ip)
        {
            tracing::warn!(uid, %ip, "two pods have the same address");
        }
    }
}

/// They keep their GPUs too.
fn claim_gpus(node: &Node) {
    for uid in node.uids_on_disk() {
        for (container, held) in exec::gpus_of(&node.pod_folder(&uid)) {
            node.gpus_taken.lock().restore((uid.clone(), container), held);
        }
    }
}

/// The service by which pods reach the API.
async fn announce_api(client: &Client, address: Ipv4Addr, port: u16) -> Result<(), kube::Error> {
    let services: Api<Service> = Api::namespaced(client.clone(), "default");
    let labels = [("component", "apiserver"), ("provider", "kubernetes")];
    let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let service = Service {
        metadata: ObjectMeta { name: Some("kubernetes".to_owned()), labels: Some(labels), ..ObjectMeta::default() },
        spec: Some(ServiceSpec {
            cluster_ip: Some(address.to_string()),
            ports: Some(vec![ServicePort {
                name: Some("https".to_owned()),
                port: 443,
                protocol: Some("TCP".to_owned()),
                target_port: Some(IntOrString::Int(i32::from(port))),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        status: None,
    };
    match services.create(&PostParams::default(), &service).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        other => other.map(drop),
    }
}

/// Tells instances on one machine apart, by their data directories (FNV-1a).
pub fn instance(data_dir: &Path) -> String {
    let path = data_dir.to_string_lossy();
    let hash = path.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("{hash:08x}")
}
