//! Makes pods in all the ways that are compared, and follows them until each has its node.

use std::{
    collections::BTreeMap,
    pin::pin,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::{Method, Request};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt as _,
    api::{ListParams, PostParams, WatchEvent, WatchParams},
};
use serde_json::{Value, json};
use tokio::{task::JoinHandle, time::timeout};

use super::shape::Shape;

/// Requests under way at once, of the floor and of whoever submits.
pub const REQUESTS: usize = 32;
/// How long all pods may take until they have nodes.
const LIMIT: Duration = Duration::from_secs(900);

/// How long it took.
#[derive(Debug, Clone, Default)]
pub struct Timing {
    /// From the first request until the last pod has its node.
    pub seconds: f64,
    /// Of each pod, from when it was seen until it was seen with a node; in order.
    pub waits: Vec<f64>,
}

impl Timing {
    /// Returns the wait that so many percent of the pods do not exceed.
    pub fn percentile(&self, percent: usize) -> f64 {
        let last = self.waits.len().saturating_sub(1);
        self.waits.get((self.waits.len() * percent / 100).min(last)).copied().unwrap_or_default()
    }
}

/// Who makes the pods.
#[derive(Debug, Clone, Copy)]
pub enum Work<'a> {
    /// The benchmark makes them and binds each at once, one node after the other.
    Floor { nodes: &'a [String] },
    /// A controller, from jobs; a scheduler binds them.
    Jobs { scheduler: &'a str },
    /// The benchmark, with their groups; a scheduler binds them.
    Groups { scheduler: &'a str },
}

/// Lets some work be done in a namespace; returns how long it took.
pub async fn run(client: &Client, namespace: &str, shape: Shape, work: Work<'_>) -> anyhow::Result<Timing> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let version = pods.list(&ListParams::default().limit(1)).await?.metadata.resource_version;
    let following = follow(pods.clone(), version.context("a list has no version")?, shape.all_pods());
    let begun = Instant::now();
    let submitted = match work {
        Work::Floor { nodes } => floor(&pods, shape, nodes).await,
        Work::Jobs { scheduler } => jobs(client, namespace, shape, scheduler).await,
        Work::Groups { scheduler } => groups(client, namespace, shape, scheduler).await,
    };
    if submitted.is_err() {
        following.abort();
    }
    submitted?;
    let (ended, mut waits) = following.await??;
    waits.sort_by(f64::total_cmp);
    Ok(Timing { seconds: (ended - begun).as_secs_f64(), waits })
}

type Followed = anyhow::Result<(Instant, Vec<f64>)>;

/// Notes when each pod is seen, and when with a node, until so many have one.
fn follow(pods: Api<Pod>, mut version: String, wanted: usize) -> JoinHandle<Followed> {
    tokio::spawn(async move {
        let (params, mut seen, mut waits) = (WatchParams::default(), BTreeMap::new(), Vec::new());
        let all = async {
            while waits.len() < wanted {
                let from = version.clone();
                let mut events = pin!(pods.watch(&params, &from).await?);
                // Who has seen the last one waits for no other event.
                while waits.len() < wanted
                    && let Some(event) = events.next().await
                {
                    let (WatchEvent::Added(pod) | WatchEvent::Modified(pod)) = event? else { continue };
                    let now = Instant::now();
                    let (since, is_placed) = seen.entry(pod.name_any()).or_insert((now, false));
                    if !*is_placed && pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()) {
                        *is_placed = true;
                        waits.push((now - *since).as_secs_f64());
                    }
                    version = pod.resource_version().unwrap_or_default();
                }
            }
            anyhow::Ok(Instant::now())
        };
        let ended = timeout(LIMIT, all).await;
        let ended = ended.with_context(|| format!("{} of {wanted} pods have nodes after {LIMIT:?}", waits.len()))??;
        Ok((ended, waits))
    })
}

fn spec(scheduler: &str) -> Value {
    let requests = json!({"requests": {"cpu": "100m", "memory": "64Mi"}});
    let container = json!({"name": "main", "image": "none", "resources": requests});
    json!({"schedulerName": scheduler, "restartPolicy": "Never", "containers": [container]})
}

async fn floor(pods: &Api<Pod>, shape: Shape, nodes: &[String]) -> anyhow::Result<()> {
    let made = stream::iter(0..shape.all_pods()).map(|number| {
        let name = format!("floor-{number}");
        let target = json!({"apiVersion": "v1", "kind": "Node", "name": nodes[number % nodes.len()]});
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target});
        async move {
            let pod = serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec("floor")}))?;
            pods.create(&PostParams::default(), &pod).await?;
            let _: Value = pods.create_subresource("binding", &name, &PostParams::default(), &binding).await?;
            anyhow::Ok(())
        }
    });
    made.buffer_unordered(REQUESTS).try_collect().await
}

async fn jobs(client: &Client, namespace: &str, shape: Shape, scheduler: &str) -> anyhow::Result<()> {
    let path = format!("/apis/batch.volcano.sh/v1alpha1/namespaces/{namespace}/jobs");
    let made = stream::iter(0..shape.jobs).map(|number| {
        let template = json!({"spec": spec(scheduler)});
        let task = json!({"name": "main", "replicas": shape.pods, "minAvailable": shape.pods, "template": template});
        let spec = json!({"schedulerName": scheduler, "queue": shape.queue(number), "minAvailable": shape.pods,
            "maxRetry": 3, "tasks": [task]});
        let job = json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job",
            "metadata": {"name": format!("j{number}")}, "spec": spec});
        create(client, &path, job)
    });
    made.buffer_unordered(REQUESTS).try_collect().await
}

async fn groups(client: &Client, namespace: &str, shape: Shape, scheduler: &str) -> anyhow::Result<()> {
    let path = &format!("/apis/scheduling.volcano.sh/v1beta1/namespaces/{namespace}/podgroups");
    let pods: &Api<Pod> = &Api::namespaced(client.clone(), namespace);
    let made = stream::iter(0..shape.jobs).map(|number| async move {
        let name = format!("g{number}");
        let group = json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
            "metadata": {"name": name}, "spec": {"minMember": shape.pods, "queue": shape.queue(number)}});
        create(client, path, group).await?;
        for index in 0..shape.pods {
            let annotations = json!({"scheduling.k8s.io/group-name": name});
            let meta = json!({"name": format!("{name}-{index}"), "annotations": annotations});
            let pod = serde_json::from_value(json!({"metadata": meta, "spec": spec(scheduler)}))?;
            pods.create(&PostParams::default(), &pod).await?;
        }
        anyhow::Ok(())
    });
    made.buffer_unordered(REQUESTS).try_collect().await
}

/// Makes an object of any kind.
pub async fn create(client: &Client, path: &str, object: Value) -> anyhow::Result<()> {
    client.request_text(request(Method::POST, path, serde_json::to_vec(&object)?)?).await?;
    Ok(())
}

pub fn request(method: Method, path: &str, body: Vec<u8>) -> anyhow::Result<Request<Vec<u8>>> {
    Ok(Request::builder().method(method).uri(path).header("content-type", "application/json").body(body)?)
}
