//! The Node objects that this machine plays: capacity, conditions, addresses, and the lease that says it lives.
//!
//! [`build`] is pure. [`keep`] renews the lease, and says that a node is ready that was thought to be lost; it changes
//! nothing that others own: labels and taints that somebody added stay, and a node that was deleted comes back only with
//! the next `ronde up`.

pub mod images;

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        coordination::v1::{Lease, LeaseSpec},
        core::v1::{Node, NodeAddress, NodeCondition, NodeDaemonEndpoints, NodeStatus, NodeSystemInfo},
    },
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference, Time},
    },
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use ronde_runtime::{causes::Causes, nodes::is_ready, runner::Clock};
use ronde_text::quantity;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    disk::room::Shortage,
    machine::{
        facts::Facts,
        files::{ANNOTATION, MachineFiles},
    },
};

/// As a kubelet's defaults: renewed every ten seconds, lost after forty.
const LEASE_SECONDS: i32 = 40;
const RENEW: Duration = Duration::from_secs(10);
const LEASES: &str = "kube-node-lease";
/// A machine's processes are cheap; the kubelet's default is 110.
const PODS_MAX: u32 = 250;
const GPU: &str = "nvidia.com/gpu";

/// How the machine is divided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Division {
    pub nodes: u32,
    /// Of each node; nothing means an equal share of the machine.
    pub cpu_milli: Option<u64>,
    pub memory_bytes: Option<u64>,
    pub gpus: Option<u64>,
}

/// Returns the names of the nodes: the machine's own, numbered if there are several.
pub fn names(facts: &Facts, nodes: u32) -> Vec<String> {
    let base = clean(&facts.hostname);
    match nodes {
        0 | 1 => vec![base],
        _ => (0..nodes).map(|number| format!("{base}-{number}")).collect(),
    }
}

/// Host names may have capitals and underscores; names of objects may not.
fn clean(hostname: &str) -> String {
    let letters = hostname
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() || letter == '.' { letter.to_ascii_lowercase() } else { '-' });
    let name: String = letters.take(50).collect();
    let name = name.trim_matches(['-', '.']).to_owned();
    if name.is_empty() { "node".to_owned() } else { name }
}

/// Builds a Node.
pub fn build(name: &str, facts: &Facts, division: &Division, host_ip: &str, now: Timestamp) -> Node {
    let labels = [
        ("kubernetes.io/hostname", name),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", facts.architecture),
        ("beta.kubernetes.io/os", "linux"),
        ("beta.kubernetes.io/arch", facts.architecture),
    ];
    let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Node {
        metadata: ObjectMeta { name: Some(name.to_owned()), labels: Some(labels), ..ObjectMeta::default() },
        spec: None,
        status: Some(status(name, facts, division, host_ip, now)),
    }
}

fn status(name: &str, facts: &Facts, division: &Division, host_ip: &str, now: Timestamp) -> NodeStatus {
    let resources = resources(facts, division);
    NodeStatus {
        addresses: Some(vec![address("InternalIP", host_ip), address("Hostname", name)]),
        capacity: Some(resources.clone()),
        allocatable: Some(resources),
        conditions: Some(conditions(now, false)),
        daemon_endpoints: Some(NodeDaemonEndpoints::default()),
        node_info: Some(NodeSystemInfo {
            architecture: facts.architecture.to_owned(),
            boot_id: facts.boot_id.clone(),
            container_runtime_version: format!("ronde://{}", env!("CARGO_PKG_VERSION")),
            kernel_version: facts.kernel.clone(),
            kube_proxy_version: String::new(),
            kubelet_version: "v1.34.0".to_owned(),
            machine_id: facts.machine_id.clone(),
            operating_system: "linux".to_owned(),
            os_image: facts.os_image.clone(),
            ..NodeSystemInfo::default()
        }),
        ..NodeStatus::default()
    }
}

fn address(kind: &str, address: &str) -> NodeAddress {
    NodeAddress { type_: kind.to_owned(), address: address.to_owned() }
}

fn resources(facts: &Facts, division: &Division) -> BTreeMap<String, Quantity> {
    let nodes = u64::from(division.nodes.max(1));
    let cpu = division.cpu_milli.unwrap_or(facts.cpu_milli / nodes);
    // What somebody has asked for is written as it was; the machine's own in the unit of kubelets.
    let memory = match division.memory_bytes.and_then(|bytes| i64::try_from(bytes).ok()) {
        Some(asked) => quantity::bytes(asked),
        None => format!("{}Ki", facts.memory_bytes / nodes / 1024),
    };
    let storage = facts.storage_bytes / nodes;
    let gpus = division.gpus.unwrap_or(facts.gpus.len() as u64 / nodes);
    let cpu = if cpu.is_multiple_of(1000) { (cpu / 1000).to_string() } else { format!("{cpu}m") };
    let mut resources = BTreeMap::from([
        ("cpu".to_owned(), Quantity(cpu)),
        ("memory".to_owned(), Quantity(memory)),
        ("ephemeral-storage".to_owned(), Quantity(format!("{}Ki", storage / 1024))),
        ("pods".to_owned(), Quantity(PODS_MAX.to_string())),
    ]);
    if gpus > 0 {
        resources.insert(GPU.to_owned(), Quantity(gpus.to_string()));
    }
    resources
}

fn conditions(now: Timestamp, has_disk_pressure: bool) -> Vec<NodeCondition> {
    let condition = |kind: &str, status: &str, reason: &str, message: &str| NodeCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_heartbeat_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
    };
    vec![
        condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        if has_disk_pressure {
            condition("DiskPressure", "True", "KubeletHasDiskPressure", "kubelet has disk pressure")
        } else {
            condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure")
        },
        condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ]
}

/// Adds what pods see of this machine's files.
pub fn with_files(mut node: Node, files: &MachineFiles) -> Node {
    let text = serde_json::to_string(files).expect("lists of words can be written as JSON");
    node.metadata.annotations.get_or_insert_default().insert(ANNOTATION.to_owned(), text);
    node
}

/// Announces the nodes: creates the objects, or brings their status up to date. Returns the names.
///
/// # Errors
/// If the API refuses.
pub async fn announce(client: &Client, nodes: Vec<Node>) -> Result<(), kube::Error> {
    let api: Api<Node> = Api::all(client.clone());
    for node in nodes {
        let name = node.metadata.name.clone().unwrap_or_default();
        match api.create(&PostParams::default(), &node).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(error),
        }
        let ObjectMeta { labels, annotations, .. } = node.metadata;
        let notes = Patch::Merge(serde_json::json!({"metadata": {"labels": labels, "annotations": annotations}}));
        api.patch(&name, &PatchParams::default(), &notes).await?;
        let status = Patch::Strategic(serde_json::json!({"status": node.status}));
        api.patch_status(&name, &PatchParams::default(), &status).await?;
    }
    Ok(())
}

/// Renews the leases, and with them the word that the nodes are ready and how their disk is, until `stop`.
pub async fn keep(
    client: Client,
    names: Vec<String>,
    clock: Clock,
    mut pressure: watch::Receiver<Option<Shortage>>,
    stop: CancellationToken,
) {
    let mut pace = tokio::time::interval(RENEW);
    while !stop.is_cancelled() {
        let has_disk_pressure = pressure.borrow_and_update().is_some();
        for name in &names {
            if let Err(error) = renew(&client, name, has_disk_pressure, clock.now()).await {
                tracing::debug!(error = %Causes(&error), node = name, "cannot renew the lease of a node");
            }
        }
        tokio::select! {
            () = stop.cancelled() => {}
            _ = pace.tick() => {}
            Ok(_) = pressure.wait_for(|shortage| shortage.is_some() != has_disk_pressure) => {}
        }
    }
}

async fn renew(client: &Client, name: &str, has_disk_pressure: bool, now: Timestamp) -> Result<(), kube::Error> {
    let nodes: Api<Node> = Api::all(client.clone());
    let Some(node) = nodes.get_opt(name).await? else { return Ok(()) };
    renew_lease(client, name, &node, now).await?;
    let told = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let told_pressure = told.into_iter().any(|one| one.type_ == "DiskPressure" && one.status == "True");
    if is_ready(&node) && told_pressure == has_disk_pressure {
        return Ok(());
    }
    // One that was silent for so long that it counts as lost is ready again by its own word only.
    let all = conditions(now, has_disk_pressure);
    let changed: Vec<_> = all.into_iter().filter(|one| !is_ready(&node) || one.type_ == "DiskPressure").collect();
    let status = Patch::Strategic(serde_json::json!({"status": {"conditions": changed}}));
    nodes.patch_status(name, &PatchParams::default(), &status).await.map(drop)
}

async fn renew_lease(client: &Client, name: &str, node: &Node, now: Timestamp) -> Result<(), kube::Error> {
    let spec = LeaseSpec {
        holder_identity: Some(name.to_owned()),
        lease_duration_seconds: Some(LEASE_SECONDS),
        renew_time: Some(MicroTime(now)),
        ..LeaseSpec::default()
    };
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: name.to_owned(),
        uid: node.metadata.uid.clone().unwrap_or_default(),
        ..OwnerReference::default()
    };
    let leases: Api<Lease> = Api::namespaced(client.clone(), LEASES);
    let patch = Patch::Merge(serde_json::json!({"spec": spec}));
    match leases.patch(name, &PatchParams::default(), &patch).await {
        Err(kube::Error::Api(status)) if status.code == 404 => {
            let metadata = ObjectMeta {
                name: Some(name.to_owned()),
                owner_references: Some(vec![owner]),
                ..ObjectMeta::default()
            };
            leases.create(&PostParams::default(), &Lease { metadata, spec: Some(spec) }).await.map(drop)
        }
        other => other.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::{Division, build, names};
    use crate::machine::facts::Facts;

    fn facts() -> Facts {
        Facts {
            cpu_milli: 8000,
            memory_bytes: 16 << 30,
            storage_bytes: 3 << 40,
            processes_max: 32_768,
            gpus: vec!["/dev/nvidia0".to_owned(), "/dev/nvidia1".to_owned()],
            hostname: "My_Host".to_owned(),
            kernel: "6.1".to_owned(),
            os_image: "Debian".to_owned(),
            architecture: "amd64",
            machine_id: String::new(),
            boot_id: String::new(),
        }
    }

    fn check(what: &str, division: &Division, expected: &[(&str, &str)]) {
        let node = build("n", &facts(), division, "10.0.0.1", jiff::Timestamp::UNIX_EPOCH);
        let allocatable = node.status.unwrap().allocatable.unwrap();
        let found: Vec<(&str, &str)> =
            allocatable.iter().map(|(name, value)| (name.as_str(), value.0.as_str())).collect();
        assert_eq!(found, expected, "{what}");
    }

    #[test]
    fn a_machine_is_divided_among_its_nodes() {
        let whole = Division { nodes: 1, cpu_milli: None, memory_bytes: None, gpus: None };
        check(
            "one node is the machine",
            &whole,
            &[
                ("cpu", "8"),
                ("ephemeral-storage", "3221225472Ki"),
                ("memory", "16777216Ki"),
                (super::GPU, "2"),
                ("pods", "250"),
            ],
        );
        let three = Division { nodes: 3, gpus: Some(0), ..whole.clone() };
        let share = [("cpu", "2666m"), ("ephemeral-storage", "1073741824Ki"), ("memory", "5592405Ki"), ("pods", "250")];
        check("three share it", &three, &share);
        let told = Division { nodes: 2, cpu_milli: Some(64_000), memory_bytes: Some(1 << 30), gpus: Some(8) };
        check(
            "more than there is may be declared",
            &told,
            &[
                ("cpu", "64"),
                ("ephemeral-storage", "1610612736Ki"),
                ("memory", "1Gi"),
                (super::GPU, "8"),
                ("pods", "250"),
            ],
        );
    }

    #[test]
    fn memory_is_written_as_it_was_asked_for() {
        let told = Division { nodes: 1, cpu_milli: None, memory_bytes: Some(100_000_000_000), gpus: None };
        let node = build("n", &facts(), &told, "10.0.0.1", jiff::Timestamp::UNIX_EPOCH);
        assert_eq!(node.status.unwrap().capacity.unwrap()["memory"].0, "100G");
    }

    #[test]
    fn nodes_are_named_after_the_machine() {
        assert_eq!(names(&facts(), 1), ["my-host"]);
        assert_eq!(names(&facts(), 2), ["my-host-0", "my-host-1"]);
    }
}
