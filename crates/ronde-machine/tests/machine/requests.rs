//! How many requests jobs cost: counted, so that it does not matter how busy the machine is.
//!
//! Every request takes a while, as on a real cluster, and pods begin to run one after the other: whoever writes a status for
//! each of them is found out here.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::FutureExt as _;
use http::Method;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use parking_lot::Mutex;
use ronde_api::{Job, JobPhase};
use ronde_control::operator;
use ronde_runtime::podstatus::node_of;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::cluster::{Before, Cluster, Running, create, within};

/// How long a request is under way.
const LATENCY: Duration = Duration::from_millis(5);
/// How long a node needs for a pod: longer than a request, so that each is seen for itself.
const START: Duration = Duration::from_millis(8);
const LONG: Duration = Duration::from_secs(120);

/// Requests by verb and kind, without lists, watches and the lease.
type Counts = BTreeMap<String, usize>;

/// Returns what a request is counted as.
fn name_of(method: &Method, path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let kinds = if parts.first() == Some(&"api") { 2 } else { 3 };
    let rest = parts.get(kinds..)?;
    let kind = match rest {
        ["namespaces", _, kind, _, part, ..] => format!("{kind}/{part}"),
        ["namespaces", _, kind, ..] => (*kind).to_owned(),
        [kind, _, part, ..] => format!("{kind}/{part}"),
        [kind, ..] => (*kind).to_owned(),
        [] => return None,
    };
    let is_one = rest.len() > if rest.first() == Some(&"namespaces") { 3 } else { 1 };
    let is_counted = kind != "leases" && (is_one || *method != Method::GET);
    is_counted.then(|| format!("{method} {kind}"))
}

/// Runs so many jobs of so many pods each until all of them run; returns what that took.
async fn count(jobs: usize, replicas: usize, more: Value) -> anyhow::Result<Counts> {
    let cluster = Cluster::start().await?;
    node(&cluster).await?;
    let counts = Arc::<Mutex<Counts>>::default();
    let counted = counts.clone();
    let before: Before = Arc::new(move |method, path| {
        if let Some(name) = name_of(method, path) {
            *counted.lock().entry(name).or_default() += 1;
        }
        sleep(LATENCY).boxed()
    });
    let client = cluster.client_with(before);
    let options = cluster.operator_options(client.clone(), "test");
    let running = Running::start(operator::runner(&options, client, |_| {}).await?);
    // What it does at its beginning is another matter.
    sleep(Duration::from_secs(5)).await;
    counts.lock().clear();
    submit(&cluster, jobs, replicas, more).await?;
    run_all(&cluster, jobs * replicas).await?;
    let all_run = || async {
        let jobs = cluster.api::<Job>().list(&ListParams::default()).await?;
        let is_right = |job: &Job| {
            let status = job.status.clone().unwrap_or_default();
            status.state.phase == Some(JobPhase::Running) && usize::try_from(status.running) == Ok(replicas)
        };
        Ok(jobs.iter().all(is_right).then_some(()))
    };
    within("all jobs say that all their pods run", LONG, all_run).await?;
    sleep(Duration::from_secs(5)).await;
    running.stop().await;
    cluster.stop().await;
    Ok(std::mem::take(&mut *counts.lock()))
}

/// Makes a node on which there is room for everything; nobody lives there.
async fn node(cluster: &Cluster) -> anyhow::Result<()> {
    let node = create(&cluster.all::<Node>(), json!({"metadata": {"name": "n"}})).await?;
    let room = json!({"cpu": "10000", "memory": "8000Gi", "pods": "10000"});
    let ready = json!([{"type": "Ready", "status": "True", "reason": "Simulated"}]);
    let status = Patch::Merge(json!({"status": {"allocatable": room, "conditions": ready}}));
    cluster.all::<Node>().patch_status(&node.name_any(), &PatchParams::default(), &status).await?;
    let untaint = Patch::Merge(json!({"spec": {"taints": null}}));
    cluster.all::<Node>().patch("n", &PatchParams::default(), &untaint).await?;
    Ok(())
}

async fn submit(cluster: &Cluster, jobs: usize, replicas: usize, more: Value) -> anyhow::Result<()> {
    let container = json!({"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}});
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [container]}});
    let mut spec = json!({"tasks": [{"name": "work", "replicas": replicas, "template": template}]});
    if let Value::Object(more) = more {
        more.into_iter().for_each(|(key, value)| spec[key] = value);
    }
    for number in 0..jobs {
        let job = serde_json::from_value(json!({"metadata": {"name": format!("j{number}")}, "spec": spec}))?;
        cluster.api::<Job>().create(&PostParams::default(), &job).await?;
    }
    Ok(())
}

/// Lets pods run one after the other as soon as they have a node, until there are so many.
async fn run_all(cluster: &Cluster, wanted: usize) -> anyhow::Result<()> {
    let pods: Api<Pod> = cluster.api();
    let mut running = 0;
    while running < wanted {
        let bound = pods.list(&ListParams::default()).await?;
        let is_new = |pod: &&Pod| !node_of(pod).is_empty() && ronde_runtime::pods::phase(pod) != "Running";
        for pod in bound.iter().filter(is_new) {
            let status = Patch::Merge(json!({"status": {"phase": "Running"}}));
            pods.patch_status(&pod.name_any(), &PatchParams::default(), &status).await?;
            running += 1;
            sleep(START).await;
        }
        sleep(START).await;
    }
    Ok(())
}

/// Checks that jobs take at most so many requests each, and their pods so many each.
async fn check(what: &str, (jobs, replicas): (usize, usize), more: Value, most: (f64, f64)) -> anyhow::Result<()> {
    let counts = count(jobs, replicas, more).await?;
    let is_of_pods = |name: &str| name.contains(" pods") || name.ends_with(" events");
    // What queues use is written by the clock.
    let counted = counts.iter().filter(|(name, _)| !name.contains(" queues"));
    let (of_pods, of_jobs): (Vec<_>, Vec<_>) = counted.partition(|(name, _)| is_of_pods(name));
    let sum = |part: &[(&String, &usize)]| part.iter().map(|(_, number)| **number).sum::<usize>() as f64;
    let per_job = sum(&of_jobs) / jobs as f64;
    let per_pod = sum(&of_pods) / (jobs * replicas) as f64;
    let shown = format!("{what}: {per_job:.2} per job, {per_pod:.2} per pod: {counts:?}");
    assert!(per_job <= most.0 && per_pod <= most.1, "at most {most:?} are wanted; {shown}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn jobs_cost_few_requests() -> anyhow::Result<()> {
    // Its minimums, its status when it is seen and when it runs; its group, let in, whole, and counted when its pods run.
    // A wait of more than half a second for its place is told, too.
    check("jobs of one pod", (8, 1), json!({"minAvailable": 1}), (8.0, 5.0)).await?;
    check("jobs of ten pods", (4, 10), json!({"minAvailable": 10}), (9.0, 3.5)).await?;
    // Half a second of pods that begin to run is another status, of the job and of its group.
    check("a job of sixty pods", (1, 60), json!({"minAvailable": 60}), (12.0, 3.1)).await?;
    // And four objects.
    check("jobs with plugins", (3, 1), json!({"plugins": {"svc": [], "ssh": []}}), (12.0, 5.0)).await
}
