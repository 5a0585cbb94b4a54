//! What an operator keeps in memory for each pod and node of its cluster.
//!
//! A bare API server is filled with pods of a realistic size, once and twice; a new operator reads them each time, and the
//! difference between its sizes is what the second half takes, scheduler and allocator included.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use clap::Args;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{cluster::contender::Contender, node::cluster::Cluster};

/// Requests under way at once.
const REQUESTS: usize = 32;
/// An operator whose size has not changed for so long has read everything.
const CALM: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(500);
const LIMIT: Duration = Duration::from_secs(300);
/// What it says when it has the lease.
const ACTIVE: &str = "active; places the pods";
/// What counts as no change.
const STILL_MB: f64 = 0.3;

#[derive(Args)]
pub struct Options {
    /// The ronde program to measure.
    #[arg(long)]
    ronde: PathBuf,
    /// How many pods come at a time.
    #[arg(long, default_value_t = 10_000)]
    pods: usize,
    /// How many nodes there are.
    #[arg(long, default_value_t = 2_000)]
    nodes: usize,
}

/// Whose pods they are.
#[derive(Debug, Clone, Copy)]
enum Whose {
    /// Of a Deployment, placed by another scheduler.
    Strangers,
    /// Of a job.
    Jobs,
}

pub async fn run(options: &Options) -> anyhow::Result<()> {
    println!("{:<44} {:>12} {:>12}", "", "MB", "BYTES EACH");
    let cluster = Cluster::api(&options.ronde).await?;
    let measured = measure(options, &cluster).await;
    cluster.stop().await?;
    measured
}

async fn measure(options: &Options, cluster: &Cluster) -> anyhow::Result<()> {
    let client = cluster.client().await?;
    let size = async || size(&options.ronde, cluster).await;
    let empty = size().await?;
    println!("{:<44} {empty:>12.1}", "nothing");
    make_nodes(&client, options.nodes).await?;
    let mut before = size().await?;
    tell(&format!("{} nodes with 50 images each", options.nodes), before, (before - empty) / options.nodes as f64);
    let mut made = 0;
    for whose in [Whose::Strangers, Whose::Strangers, Whose::Jobs, Whose::Jobs] {
        make_pods(&client, whose, made..made + options.pods, options.nodes).await?;
        made += options.pods;
        let now = size().await?;
        let what = match whose {
            Whose::Strangers => "pods of others",
            Whose::Jobs => "pods of jobs",
        };
        tell(&format!("and {} {what}", options.pods), now, (now - before) / options.pods as f64);
        before = now;
    }
    Ok(())
}

fn tell(what: &str, megabytes: f64, each: f64) {
    println!("{what:<44} {megabytes:>12.1} {:>12.0}", each * 1024.0 * 1024.0);
}

/// Returns the size of a new operator that has read everything.
async fn size(ronde: &Path, cluster: &Cluster) -> anyhow::Result<f64> {
    let log = cluster.folder().join("operator.log");
    fs_err::remove_file(&log).or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) })?;
    let playing = Contender::ronde(ronde).start(&cluster.kubeconfig(), &log)?;
    let (begun, mut still_since, mut size) = (Instant::now(), Instant::now(), 0.0);
    while still_since.elapsed() < CALM {
        anyhow::ensure!(begun.elapsed() < LIMIT, "the operator does not begin, or grows without end");
        sleep(LOOK).await;
        let now = playing.usage().map_or(0.0, |used| used.memory_mb);
        // Until it has the lease it reads nothing.
        let is_active = fs_err::read_to_string(&log)?.contains(ACTIVE);
        if !is_active || (now - size).abs() > STILL_MB {
            (still_since, size) = (Instant::now(), now);
        }
    }
    playing.stop().await?;
    Ok(size)
}

async fn make_nodes(client: &Client, count: usize) -> anyhow::Result<()> {
    let nodes: &Api<Node> = &Api::all(client.clone());
    let made = stream::iter(0..count).map(|number| async move {
        let name = format!("node-{number:05}");
        let labels = json!({"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": format!("zone-{}", number % 3),
            "node.kubernetes.io/instance-type": "p4d.24xlarge", "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"});
        let annotations = json!({"csi.volume.kubernetes.io/nodeid": format!("{{\"csi.example\": \"{name}\"}}"),
            "volumes.kubernetes.io/controller-managed-attach-detach": "true"});
        let node = json!({"metadata": {"name": name, "labels": labels, "annotations": annotations}});
        nodes.create(&PostParams::default(), &serde_json::from_value(node)?).await?;
        let room = json!({"cpu": "96", "memory": "1152Gi", "pods": "250", "ephemeral-storage": "800Gi", "nvidia.com/gpu": "8"});
        let image = |number: usize| json!({"names": [format!("registry.example/team/image-{number}@sha256:{number:064}"),
            format!("registry.example/team/image-{number}:v1.{number}")], "sizeBytes": 1_000_000_000});
        let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "reason": "KubeletReports",
            "message": "kubelet is posting this status", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let conditions = json!([condition("MemoryPressure", "False"), condition("DiskPressure", "False"),
            condition("PIDPressure", "False"), condition("Ready", "True")]);
        let addresses = json!([{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": name}]);
        let status = json!({"capacity": room, "allocatable": room, "conditions": conditions, "addresses": addresses,
            "images": (0..50).map(image).collect::<Vec<_>>()});
        nodes.patch_status(&name, &PatchParams::default(), &Patch::Merge(json!({"status": status}))).await?;
        anyhow::Ok(())
    });
    made.buffer_unordered(REQUESTS).try_collect().await
}

async fn make_pods(client: &Client, whose: Whose, numbers: std::ops::Range<usize>, nodes: usize) -> anyhow::Result<()> {
    let pods: &Api<Pod> = &Api::default_namespaced(client.clone());
    let made = stream::iter(numbers).map(|number| async move {
        let (name, node) =
            (format!("trainer-{number}-7d4b9c6f5-{:05}", number % 99999), format!("node-{:05}", number % nodes));
        let pod = pod(whose, &name, &node, number);
        pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
        pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(json!({"status": status(number)}))).await?;
        anyhow::Ok(())
    });
    made.buffer_unordered(REQUESTS).try_collect().await
}

/// A pod of about 4 KB of JSON, as they are in the wild: with variables, volumes, a probe, and a note of `kubectl apply`.
fn pod(whose: Whose, name: &str, node: &str, number: usize) -> Value {
    let variable = |number: usize| json!({"name": format!("VARIABLE_NUMBER_{number}"), "value": format!("some value of number {number}")});
    let mount =
        |number: usize| json!({"name": format!("volume-{number}"), "mountPath": format!("/mnt/volume-{number}")});
    let volume =
        |number: usize| json!({"name": format!("volume-{number}"), "configMap": {"name": format!("config-{number}")}});
    let resources = json!({"requests": {"cpu": "4", "memory": "16Gi"}, "limits": {"cpu": "4", "memory": "16Gi"}});
    let container = json!({
        "name": "main", "image": "registry.example/team/trainer:v1.2.3", "command": ["python", "/app/train.py", "--epochs=10"],
        "env": (0..20).map(variable).collect::<Vec<_>>(), "volumeMounts": (0..5).map(mount).collect::<Vec<_>>(),
        "resources": resources, "readinessProbe": {"httpGet": {"path": "/healthz", "port": 8080}},
        "ports": [{"containerPort": 8080}],
    });
    let (api, kind, scheduler) = match whose {
        Whose::Strangers => ("apps/v1", "ReplicaSet", "default-scheduler"),
        Whose::Jobs => ("batch.volcano.sh/v1alpha1", "Job", "volcano"),
    };
    let job = number / 16;
    let owner = json!({"apiVersion": api, "kind": kind, "name": format!("trainer-{job}"), "controller": true,
        "uid": format!("00000000-0000-4000-8000-{job:012}")});
    let labels = json!({"app": format!("trainer-{job}"), "pod-template-hash": "7d4b9c6f5", "team": "research"});
    let annotations = match whose {
        Whose::Strangers => json!({"kubectl.kubernetes.io/last-applied-configuration": "x".repeat(1000),
            "prometheus.io/scrape": "true"}),
        Whose::Jobs => json!({"scheduling.k8s.io/group-name": format!("trainer-{job}"), "volcano.sh/task-spec": "main",
            "volcano.sh/task-index": (number % 16).to_string(), "volcano.sh/job-version": "0",
            "volcano.sh/job-name": format!("trainer-{job}"), "volcano.sh/queue-name": "default"}),
    };
    json!({
        "metadata": {"name": name, "labels": labels, "annotations": annotations, "ownerReferences": [owner]},
        "spec": {"nodeName": node, "schedulerName": scheduler, "containers": [container],
            "volumes": (0..5).map(volume).collect::<Vec<_>>()},
    })
}

fn status(number: usize) -> Value {
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let conditions: Vec<Value> =
        ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"].map(condition).into();
    let address = format!("10.{}.{}.{}", (number >> 16) & 255, (number >> 8) & 255, number & 255);
    let container = json!({"name": "main", "image": "registry.example/team/trainer:v1.2.3", "ready": true,
        "imageID": format!("registry.example/team/trainer@sha256:{:064}", 7), "restartCount": 0,
        "containerID": format!("containerd://{number:064}"), "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}});
    json!({"phase": "Running", "conditions": conditions, "hostIP": "10.0.0.1", "podIP": address,
        "podIPs": [{"ip": address}], "startTime": "2026-01-01T00:00:00Z", "containerStatuses": [container]})
}
