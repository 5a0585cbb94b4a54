//! Gangs end to end on a real API server with simulated nodes: from the first request until every pod has a node.
//!
//! Beside it the floor: a bare loop that creates and binds the same pods, with as many requests under way. Nodes are
//! objects only, so that what is measured is the API server and whoever places the pods. Rounds take turns, since
//! every one leaves its pods behind.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use clap::Args;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::{Method, Request};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tokio::{
    process::{Child, Command},
    time::sleep,
};

use crate::node::cluster::Cluster;

const GROUPS: &str = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups";
const QUEUE: &str = "/apis/scheduling.volcano.sh/v1beta1/queues/default";
/// Requests under way at once, of the floor and of whoever submits gangs.
const REQUESTS: usize = 32;
/// How often it is looked whether all pods have nodes.
const LOOK: Duration = Duration::from_millis(20);
const LIMIT: Duration = Duration::from_secs(300);

#[derive(Args)]
pub struct Options {
    /// The script that starts the real control plane.
    #[arg(long)]
    kubernetes: PathBuf,
    /// The ronde program to measure.
    #[arg(long)]
    ronde: PathBuf,
    /// Simulated nodes.
    #[arg(long, default_value_t = 100)]
    nodes: usize,
    /// Gangs of each round.
    #[arg(long, default_value_t = 250)]
    gangs: usize,
    /// Pods of each gang.
    #[arg(long, default_value_t = 8)]
    size: usize,
    /// Rounds; the median counts.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

pub async fn run(options: &Options) -> anyhow::Result<()> {
    let cluster = Cluster::kubernetes(&options.kubernetes).await?;
    let measured = measure(options, &cluster).await;
    cluster.stop().await?;
    let (floor, ours) = measured?;
    let pods = (options.gangs * options.size) as f64;
    println!("{} gangs of {} pods on {} nodes", options.gangs, options.size, options.nodes);
    println!("{:<28} {:>8} {:>10} {:>10}", "", "SECONDS", "PODS/s", "OF FLOOR");
    for (name, seconds) in [("floor: create and bind", floor), ("ronde operator", ours)] {
        println!("{name:<28} {seconds:>8.2} {:>10.0} {:>9.0}%", pods / seconds, 100.0 * floor / seconds);
    }
    Ok(())
}

/// Returns the median seconds of the floor and of the operator.
async fn measure(options: &Options, cluster: &Cluster) -> anyhow::Result<(f64, f64)> {
    let client = cluster.client().await?;
    make_nodes(&client, options.nodes).await?;
    let mut operator = start_operator(&options.ronde, &cluster.kubeconfig(), &client).await?;
    let (mut floor, mut ours) = (Vec::new(), Vec::new());
    for round in 0..options.rounds {
        floor.push(bare_loop(&client, options, round).await?);
        ours.push(gangs(&client, options, round).await?);
    }
    operator.kill().await?;
    Ok((median(floor), median(ours)))
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

pub async fn make_nodes(client: &Client, count: usize) -> anyhow::Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    for number in 0..count {
        let name = node_name(number);
        nodes.create(&PostParams::default(), &serde_json::from_value(json!({"metadata": {"name": name}}))?).await?;
        // Admission marks every new node; the controller that would take the mark away does not run.
        let untaint = Patch::Merge(json!({"spec": {"taints": null}}));
        nodes.patch(&name, &PatchParams::default(), &untaint).await?;
        let room = json!({"cpu": "64", "memory": "256Gi", "pods": "1000"});
        let ready = json!([{"type": "Ready", "status": "True", "reason": "Simulated"}]);
        let status = json!({"status": {"capacity": room, "allocatable": room, "conditions": ready}});
        nodes.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await?;
    }
    Ok(())
}

fn node_name(number: usize) -> String {
    format!("node-{number:05}")
}

pub async fn start_operator(program: &Path, kubeconfig: &Path, client: &Client) -> anyhow::Result<Child> {
    let mut command = Command::new(program);
    command.arg("operator").arg("--kubeconfig").arg(kubeconfig).stderr(Stdio::null()).kill_on_drop(true);
    let operator = command.spawn()?;
    let begun = Instant::now();
    while client.request_text(request(Method::GET, QUEUE, Vec::new())?).await.is_err() {
        anyhow::ensure!(begun.elapsed() < LIMIT, "the operator does not begin");
        sleep(LOOK).await;
    }
    Ok(operator)
}

pub fn request(method: Method, path: &str, body: Vec<u8>) -> anyhow::Result<Request<Vec<u8>>> {
    Ok(Request::builder().method(method).uri(path).header("content-type", "application/json").body(body)?)
}

fn pod(name: &str, scheduler: &str, group: &str) -> Value {
    let requests = json!({"requests": {"cpu": "100m", "memory": "64Mi"}});
    let container = json!({"name": "main", "image": "none", "resources": requests});
    let annotations = json!({"scheduling.k8s.io/group-name": group});
    json!({"metadata": {"name": name, "annotations": annotations},
        "spec": {"schedulerName": scheduler, "containers": [container]}})
}

/// Creates pods and binds each at once, one node after the other.
async fn bare_loop(client: &Client, options: &Options, round: usize) -> anyhow::Result<f64> {
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let begun = Instant::now();
    let made = stream::iter(0..options.gangs * options.size).map(|number| {
        let (pods, name) = (pods.clone(), format!("floor-{round}-{number}"));
        let target = json!({"apiVersion": "v1", "kind": "Node", "name": node_name(number % options.nodes)});
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target});
        async move {
            let pod = serde_json::from_value(pod(&name, "floor", &format!("floor-{round}")))?;
            pods.create(&PostParams::default(), &pod).await?;
            let _: Value = pods.create_subresource("binding", &name, &PostParams::default(), &binding).await?;
            anyhow::Ok(())
        }
    });
    made.buffer_unordered(REQUESTS).try_collect::<Vec<()>>().await?;
    Ok(begun.elapsed().as_secs_f64())
}

/// Submits gangs, and waits until every pod has a node.
async fn gangs(client: &Client, options: &Options, round: usize) -> anyhow::Result<f64> {
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let begun = Instant::now();
    let made = stream::iter(0..options.gangs).map(|number| {
        let (pods, group) = (pods.clone(), format!("gang-{round}-{number}"));
        async move {
            let object = json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
                "metadata": {"name": group}, "spec": {"minMember": options.size}});
            client.request_text(request(Method::POST, GROUPS, serde_json::to_vec(&object)?)?).await?;
            for index in 0..options.size {
                let pod = serde_json::from_value(pod(&format!("{group}-{index}"), "volcano", &group))?;
                pods.create(&PostParams::default(), &pod).await?;
            }
            anyhow::Ok(())
        }
    });
    made.buffer_unordered(REQUESTS).try_collect::<Vec<()>>().await?;
    let without_node = ListParams::default().fields("spec.nodeName=").limit(1);
    while !pods.list(&without_node).await?.items.is_empty() {
        anyhow::ensure!(begun.elapsed() < LIMIT, "not all pods have a node after {LIMIT:?}");
        sleep(LOOK).await;
    }
    Ok(begun.elapsed().as_secs_f64())
}
