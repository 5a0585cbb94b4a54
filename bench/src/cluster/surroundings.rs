//! What work needs around it: nodes, namespaces and queues; and what is left of it, taken away.

use std::time::{Duration, Instant};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::Method;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod, ServiceAccount};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::time::sleep;

use super::{
    load::{self, REQUESTS, Work, create, request},
    shape::Shape,
};

/// How often it is looked.
const LOOK: Duration = Duration::from_millis(100);
/// How long somebody may take to begin.
const LIMIT: Duration = Duration::from_secs(300);
/// How long it may take until everything of a turn is gone.
const GONE_LIMIT: Duration = Duration::from_secs(600);

/// Makes nodes until there are so many; returns their names.
pub async fn make_nodes(client: &Client, wanted: usize) -> anyhow::Result<Vec<String>> {
    let nodes: &Api<Node> = &Api::all(client.clone());
    let mut names: Vec<String> = nodes.list(&ListParams::default()).await?.iter().map(Node::name_any).collect();
    let missing = (0..wanted).map(|number| format!("node-{number:05}")).filter(|name| !names.contains(name));
    let missing: Vec<String> = missing.collect();
    let made = stream::iter(missing.clone()).map(|name| async move { make_node(nodes, &name).await });
    made.buffer_unordered(REQUESTS).try_collect::<()>().await?;
    names.extend(missing);
    Ok(names)
}

/// As KWOK expects them; where it does not run, pods get a node and nothing more.
async fn make_node(nodes: &Api<Node>, name: &str) -> anyhow::Result<()> {
    let meta = json!({"name": name, "labels": {"kubernetes.io/hostname": name},
        "annotations": {"kwok.x-k8s.io/node": "fake"}});
    nodes.create(&PostParams::default(), &serde_json::from_value(json!({"metadata": meta}))?).await?;
    // Admission marks every new node; the controller that would take the mark away does not run.
    let untaint = Patch::Merge(json!({"spec": {"taints": null}}));
    nodes.patch(name, &PatchParams::default(), &untaint).await?;
    let room = json!({"cpu": "64", "memory": "256Gi", "pods": "1000"});
    let ready = json!([{"type": "Ready", "status": "True", "reason": "Simulated"}]);
    let status = json!({"status": {"capacity": room, "allocatable": room, "conditions": ready}});
    nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await?;
    Ok(())
}

/// Makes a namespace in which pods can be made at once.
pub async fn make_namespace(client: &Client, name: &str) -> anyhow::Result<()> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
    namespaces.create(&PostParams::default(), &namespace).await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), name);
    let account = serde_json::from_value(json!({"metadata": {"name": "default"}}))?;
    match accounts.create(&PostParams::default(), &account).await {
        // Somebody was quicker.
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        made => Ok(made.map(drop)?),
    }
}

/// Gives whoever has just been started some work again and again until it takes it: before, its kinds may not even be there.
pub async fn until_it_works(client: &Client, namespace: &str, shape: Shape, work: Work<'_>) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        match load::run(client, namespace, shape, work).await {
            Ok(_) => return Ok(()),
            Err(error) if begun.elapsed() > LIMIT => return Err(error.context("it does not begin")),
            Err(_) => sleep(LOOK).await,
        }
    }
}

/// Makes the queues of a shape that are not there yet.
pub async fn make_queues(client: &Client, shape: Shape) -> anyhow::Result<()> {
    if shape.queues == 1 {
        return Ok(());
    }
    let path = "/apis/scheduling.volcano.sh/v1beta1/queues";
    let made = stream::iter(0..shape.queues).map(|number| async move {
        let name = shape.queue(number);
        let queue = json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue",
            "metadata": {"name": name}, "spec": {"weight": 1}});
        let is_there = client.request_text(request(Method::GET, &format!("{path}/{name}"), Vec::new())?).await.is_ok();
        if is_there { Ok(()) } else { create(client, path, queue).await }
    });
    made.buffer_unordered(REQUESTS).try_collect().await
}

/// Takes away what was made in a namespace, and waits until it is gone.
pub async fn clear(client: &Client, namespace: &str) -> anyhow::Result<()> {
    for (group, kind) in [("batch.volcano.sh/v1alpha1", "jobs"), ("scheduling.volcano.sh/v1beta1", "podgroups")] {
        let path = format!("/apis/{group}/namespaces/{namespace}/{kind}");
        // Before the definitions are there, nothing of them is there either.
        client.request_text(request(Method::DELETE, &path, Vec::new())?).await.ok();
    }
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let begun = Instant::now();
    let at_once = DeleteParams::default().grace_period(0);
    loop {
        // Also what was made meanwhile.
        let _left = pods.delete_collection(&at_once, &ListParams::default()).await?;
        if pods.list(&ListParams::default().limit(1)).await?.items.is_empty() {
            return Ok(());
        }
        anyhow::ensure!(begun.elapsed() < GONE_LIMIT, "the pods of {namespace} do not go");
        sleep(20 * LOOK).await;
    }
}
