//! Flows of many jobs, and many CronJobs, on the bare API with `ronde operator` and nodes that run nothing: what one job
//! costs as their number grows.
//!
//! Pods end as soon as they have a node. Processor time and requests do not depend on what else the machine does.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Stdio,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use clap::Args;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::Method;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams, WatchEvent, WatchParams},
};
use serde_json::{Value, json};
use tokio::{
    process::{Child, Command},
    time::sleep,
};

use crate::{
    cluster::{load::request, surroundings::make_nodes},
    node::{
        cluster::Cluster,
        usage::{processor_seconds, proportional_kilobytes},
    },
};

const TEMPLATES: &str = "/apis/flow.volcano.sh/v1alpha1/namespaces/default/jobtemplates";
const FLOWS: &str = "/apis/flow.volcano.sh/v1alpha1/namespaces/default/jobflows";
const CRONS: &str = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/cronjobs";
const NODES: usize = 50;
/// Requests of the benchmark under way at once.
const REQUESTS: usize = 32;
/// How many jobs of a flow run at once: each waits for the one so many places before it.
const WIDTH: usize = 10;
/// How often it is looked whether flows have ended.
const LOOK: Duration = Duration::from_millis(100);
const LIMIT: Duration = Duration::from_secs(3600);
/// What is there when the operator has begun.
const QUEUE: &str = "/apis/scheduling.volcano.sh/v1beta1/queues/default";

#[derive(Args)]
pub struct Options {
    /// The ronde program to measure.
    #[arg(long)]
    ronde: PathBuf,
    /// Flows at once.
    #[arg(long, default_value_t = 10)]
    flows: usize,
    /// Jobs of each flow, one measurement for each number.
    #[arg(long, value_delimiter = ',', default_value = "10,100,1000")]
    jobs: Vec<usize>,
    /// CronJobs that run every minute, one measurement for each number.
    #[arg(long, value_delimiter = ',', default_value = "10,100,1000")]
    crons: Vec<usize>,
}

pub async fn run(options: &Options) -> anyhow::Result<()> {
    println!("                        ---- PER JOB: ---------------------------------  -- AT THE END: --");
    println!("                                      PROCESSOR ms               MEMORY KB    MEMORY MB");
    println!("WHAT            JOBS  SECONDS  REQUESTS  API  OPERATOR   API  OPERATOR   API  OPERATOR");
    for jobs in &options.jobs {
        let total = options.flows * jobs;
        let bench = Bench::start(options, total).await?;
        bench.make_templates(*jobs).await?;
        let begin = bench.look().await?;
        bench.make_flows(options.flows, *jobs).await?;
        bench.run_pods(total).await?;
        bench.wait_for_flows(options.flows).await?;
        bench.print(&format!("{} flows", options.flows), total, &begin).await?;
        bench.stop().await?;
    }
    for crons in &options.crons {
        let bench = Bench::start(options, *crons).await?;
        let begin = bench.look().await?;
        bench.make_crons(*crons).await?;
        bench.run_pods(*crons).await?;
        bench.print(&format!("{crons} crons"), *crons, &begin).await?;
        bench.stop().await?;
    }
    Ok(())
}

struct Bench {
    cluster: Cluster,
    client: Client,
    daemon: u32,
    operator: Child,
    ours: AtomicU64,
}

/// What has been used so far.
struct Seen {
    at: Instant,
    requests: f64,
    processor: [f64; 2],
    kilobytes: [f64; 2],
}

impl Bench {
    async fn start(options: &Options, jobs: usize) -> anyhow::Result<Self> {
        let cluster = Cluster::api(&options.ronde).await?;
        let client = cluster.client().await?;
        make_nodes(&client, NODES.max(jobs / 500)).await?;
        let operator = start_operator(&options.ronde, &cluster.kubeconfig(), &client).await?;
        Ok(Self { daemon: cluster.daemon().await?, cluster, client, operator, ours: 0.into() })
    }

    async fn ask(&self, method: Method, path: &str, body: &Value) -> anyhow::Result<String> {
        self.ours.fetch_add(1, Ordering::Relaxed);
        let body = if body.is_null() { Vec::new() } else { serde_json::to_vec(body)? };
        Ok(self.client.request_text(request(method, path, body)?).await?)
    }

    async fn make(&self, path: &str, objects: Vec<Value>) -> anyhow::Result<()> {
        let made = stream::iter(objects).map(|object| async move { self.ask(Method::POST, path, &object).await });
        made.buffer_unordered(REQUESTS).try_for_each(|_| async { Ok(()) }).await
    }

    async fn make_templates(&self, jobs: usize) -> anyhow::Result<()> {
        let template = |number| json!({"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobTemplate", "metadata": {"name": step(number)}, "spec": job()});
        self.make(TEMPLATES, (0..jobs).map(template).collect()).await
    }

    async fn make_flows(&self, flows: usize, jobs: usize) -> anyhow::Result<()> {
        let one = |number: usize| {
            let targets: Vec<String> = number.checked_sub(WIDTH).map(step).into_iter().collect();
            json!({"name": step(number), "dependsOn": {"targets": targets}})
        };
        let steps: Vec<Value> = (0..jobs).map(one).collect();
        let flow = |number| {
            json!({"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobFlow",
                "metadata": {"name": format!("f{number}")}, "spec": {"flows": steps}})
        };
        self.make(FLOWS, (0..flows).map(flow).collect()).await
    }

    async fn make_crons(&self, crons: usize) -> anyhow::Result<()> {
        let cron = |number: usize| {
            json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "CronJob", "metadata": {"name": format!("c{number}")},
                "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": job()}}})
        };
        self.make(CRONS, (0..crons).map(cron).collect()).await
    }

    /// Ends pods as soon as they have a node, until so many have ended.
    async fn run_pods(&self, wanted: usize) -> anyhow::Result<()> {
        let pods: Api<Pod> = Api::default_namespaced(self.client.clone());
        let ended = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
        let (begun, mut done, mut version) = (Instant::now(), BTreeSet::new(), "0".to_owned());
        while done.len() < wanted {
            anyhow::ensure!(begun.elapsed() < LIMIT, "{} of {wanted} jobs have run after {LIMIT:?}", done.len());
            let mut events = pods.watch(&WatchParams::default(), &version).await?.boxed();
            while let Some(event) = events.try_next().await? {
                let (WatchEvent::Added(pod) | WatchEvent::Modified(pod)) = event else { continue };
                version = pod.resource_version().unwrap_or_default();
                let is_placed = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
                if is_placed && done.insert(pod.uid()) {
                    self.ours.fetch_add(1, Ordering::Relaxed);
                    pods.patch_status(&pod.name_any(), &PatchParams::default(), &ended).await?;
                }
                if done.len() >= wanted {
                    break;
                }
            }
        }
        Ok(())
    }

    async fn wait_for_flows(&self, flows: usize) -> anyhow::Result<()> {
        let begun = Instant::now();
        for number in 0..flows {
            loop {
                anyhow::ensure!(begun.elapsed() < LIMIT, "flow {number} has not succeeded after {LIMIT:?}");
                let flow: Value =
                    serde_json::from_str(&self.ask(Method::GET, &format!("{FLOWS}/f{number}"), &Value::Null).await?)?;
                if flow["status"]["state"]["phase"] == "Succeed" {
                    break;
                }
                sleep(LOOK).await;
            }
        }
        Ok(())
    }

    async fn look(&self) -> anyhow::Result<Seen> {
        let metrics = self.ask(Method::GET, "/metrics", &Value::Null).await?;
        let lines = metrics.lines().filter(|line| line.starts_with("ronde_apiserver_requests_total{"));
        let all: f64 = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum();
        let ours = self.ours.load(Ordering::Relaxed) as f64;
        let pids = [self.daemon, self.operator.id().context("the operator has ended")?];
        let [processor, kilobytes] = [processor_seconds, proportional_kilobytes]
            .map(|look: fn(u32) -> Option<f64>| pids.map(|pid| look(pid).unwrap_or_default()));
        Ok(Seen { at: Instant::now(), requests: all - ours, processor, kilobytes })
    }

    async fn print(&self, what: &str, jobs: usize, begin: &Seen) -> anyhow::Result<()> {
        let end = self.look().await?;
        let count = jobs as f64;
        let each =
            |now: [f64; 2], before: [f64; 2], unit: f64| [0, 1].map(|at: usize| (now[at] - before[at]) * unit / count);
        let [api, operator] = each(end.processor, begin.processor, 1000.0);
        let [api_kb, operator_kb] = each(end.kilobytes, begin.kilobytes, 1.0);
        let [api_mb, operator_mb] = end.kilobytes.map(|kilobytes| kilobytes / 1024.0);
        let requests = (end.requests - begin.requests) / count;
        let seconds = (end.at - begin.at).as_secs_f64();
        println!(
            "{what:<12} {jobs:>7} {seconds:>8.1} {requests:>9.1} {api:>4.1} {operator:>9.1} {api_kb:>5.0} {operator_kb:>9.0} {api_mb:>5.0} {operator_mb:>9.0}"
        );
        Ok(())
    }

    async fn stop(mut self) -> anyhow::Result<()> {
        self.operator.kill().await?;
        self.cluster.stop().await
    }
}

fn step(number: usize) -> String {
    format!("s{number:04}")
}

/// A job of one pod.
fn job() -> Value {
    let container = json!({"name": "main", "image": "none", "resources": {"requests": {"cpu": "10m"}}});
    let pod =
        json!({"spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}});
    json!({"tasks": [{"name": "w", "replicas": 1, "template": pod}]})
}

async fn start_operator(program: &Path, kubeconfig: &Path, client: &Client) -> anyhow::Result<Child> {
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
