//! What all workers of this machine share: who it is, what it allows, and the way to the API and to the network.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use fs_err as fs;
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use ronde_runtime::{podstatus::node_of, runner::Clock};
use tokio::sync::watch;

use crate::{
    disk::room::Shortage,
    gpus::Ledger,
    images::Images,
    machine::probe::Isolation,
    net::{Network, NodeNetwork},
    sandbox::{
        cgroup::Hierarchy,
        layers::{self, Entry, Layer},
    },
    supervisor::folder::PodFolder,
};

/// The domain of the cluster's names.
pub const CLUSTER_DOMAIN: &str = "cluster.local";

/// The machine as a place for pods.
pub struct Node {
    pub client: kube::Client,
    pub clock: Clock,
    /// Tells instances on one machine apart.
    pub instance: String,
    /// Where everything of the node is: `<data>/node`.
    pub folder: PathBuf,
    /// The `ronde` binary, which has the supervisor in it.
    pub program: PathBuf,
    /// The names of the nodes that this machine plays.
    pub names: BTreeSet<String>,
    pub isolation: Isolation,
    /// None if pods use the machine's network.
    pub network: Option<Network>,
    /// Where limits are enforced, if they are.
    pub hierarchy: Option<Hierarchy>,
    /// What stands in for an image's environment.
    pub machine_env: Vec<(String, String)>,
    /// The images of this machine, and what their names mean.
    pub images: Arc<Images>,
    /// Folders that pods mount, read-only, by the CSI driver that they name for it.
    pub shared: BTreeMap<String, PathBuf>,
    /// Folders of the machine that no pod sees: ours.
    pub hidden: Vec<String>,
    /// The address of the machine, which is the first of them.
    pub host_ip: Ipv4Addr,
    pub gpus: Vec<String>,
    /// How many processes and threads each pod may have.
    pub pod_processes: u64,
    /// Which GPUs are whose. Owned by the workers, each for its own pod.
    pub gpus_taken: Mutex<Ledger>,
    /// What the disk has too little of. Written by the watch over it.
    pub pressure: watch::Sender<Option<Shortage>>,
}

impl Node {
    pub fn pods(&self) -> PathBuf {
        self.folder.join("pods")
    }

    pub fn pod_folder(&self, uid: &str) -> PodFolder {
        PodFolder(self.pods().join(uid))
    }

    /// The pods that have a folder.
    pub fn uids_on_disk(&self) -> Vec<String> {
        uids_on_disk(&self.pods())
    }

    /// Returns the address of a pod's node.
    pub fn host_ip_of(&self, pod: &Pod) -> IpAddr {
        self.further_network_of(pod).map_or(self.host_ip, |node| node.address).into()
    }

    /// Returns the network of a pod's node, if that is not the machine's.
    pub fn further_network_of(&self, pod: &Pod) -> Option<&NodeNetwork> {
        self.network.as_ref()?.node(node_of(pod))
    }

    /// Decides what of the machine's files a container sees, as they are now.
    pub fn layers(&self) -> Vec<Layer> {
        let Isolation::Namespaces { files, .. } = self.isolation else { return Vec::new() };
        let mounts = layers::mount_points(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default());
        layers::plan(&mounts, files, &list)
    }
}

/// Lists the pods that have a folder in this one.
pub fn uids_on_disk(pods: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(pods) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
}

fn list(folder: &str) -> BTreeMap<String, Entry> {
    let Ok(entries) = fs::read_dir(folder) else { return BTreeMap::new() };
    let describe = |entry: fs::DirEntry| {
        let meta = entry.path().symlink_metadata().ok()?;
        let described = if meta.is_dir() {
            Entry::Folder { mode: meta.mode() & 0o7777 }
        } else if meta.is_symlink() {
            Entry::Link { to: fs::read_link(entry.path()).ok()?.to_string_lossy().into_owned() }
        } else {
            Entry::File
        };
        Some((entry.file_name().into_string().ok()?, described))
    };
    entries.filter_map(|entry| describe(entry.ok()?)).collect()
}
