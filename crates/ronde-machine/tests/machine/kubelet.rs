//! A toy node: says that it lives, runs the pods that are bound to it at once, removes those that are deleted.

use std::time::Duration;

use k8s_openapi::{
    api::{
        coordination::v1::Lease,
        core::v1::{Node, Pod},
    },
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use ronde_runtime::runner::Clock;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::cluster::Cluster;

const PACE: Duration = Duration::from_secs(1);

/// Makes a node and lets it live until the handle is aborted.
pub async fn start(cluster: &Cluster, name: &str, more: Value) -> anyhow::Result<JoinHandle<()>> {
    let nodes: Api<Node> = cluster.all();
    let mut meta = json!({"name": name, "labels": {"kubernetes.io/hostname": name}});
    if let Some(zone) = more["zone"].as_str() {
        meta["labels"]["topology.kubernetes.io/zone"] = zone.into();
    }
    let cpu = more["cpu"].as_str().unwrap_or("4");
    nodes.create(&PostParams::default(), &serde_json::from_value(json!({"metadata": meta}))?).await?;
    let status = json!({"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "20"}});
    nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(json!({"status": status}))).await?;
    let pace = more["paceMillis"].as_u64().map_or(PACE, Duration::from_millis);
    Ok(live_at(pace, cluster.client.clone(), cluster.clock.clone(), name.to_owned()))
}

/// Lets a node that exists live.
pub fn live(client: Client, clock: Clock, name: String) -> JoinHandle<()> {
    live_at(PACE, client, clock, name)
}

fn live_at(pace: Duration, client: Client, clock: Clock, name: String) -> JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            if let Err(error) = tick(&client, &clock, &name).await {
                assert!(is_race(&error), "the server answers the node: {error}");
            }
            tokio::time::sleep(pace).await;
        }
    })
}

fn is_race(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 404 | 409))
}

async fn tick(client: &Client, clock: &Clock, name: &str) -> Result<(), kube::Error> {
    let nodes: Api<Node> = Api::all(client.clone());
    let conditions = nodes.get(name).await?.status.and_then(|status| status.conditions).unwrap_or_default();
    if !conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True") {
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]}});
        nodes.patch_status(name, &PatchParams::default(), &Patch::Strategic(ready)).await?;
    }
    renew(client, clock, name).await?;
    let pods =
        Api::<Pod>::all(client.clone()).list(&ListParams::default().fields(&format!("spec.nodeName={name}"))).await?;
    for pod in pods {
        match advance(client, &pod).await {
            Err(error) if !is_race(&error) => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

async fn renew(client: &Client, clock: &Clock, name: &str) -> Result<(), kube::Error> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
    let spec = json!({"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": MicroTime(clock.now())});
    let lease =
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": spec});
    leases.patch(name, &PatchParams::apply("kubelet").force(), &Patch::Apply(lease)).await.map(drop)
}

async fn advance(client: &Client, pod: &Pod) -> Result<(), kube::Error> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
    if pod.metadata.deletion_timestamp.is_some() {
        return pods.delete(&pod.name_any(), &DeleteParams::default().grace_period(0)).await.map(drop);
    }
    if phase != "Pending" {
        return Ok(());
    }
    let number = pod.resource_version().and_then(|version| version.parse::<u32>().ok()).unwrap_or_default();
    let address = format!("10.1.{}.{}", (number / 250) % 250, number % 250 + 1);
    let status = json!({
        "phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
        "conditions": [{"type": "Ready", "status": "True"}],
    });
    pods.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(json!({"status": status})))
        .await
        .map(drop)
}
