//! Services and their endpoints, from pods that are placed and run.

use std::{sync::atomic::Ordering, time::Duration};

use k8s_openapi::api::{
    core::v1::{Endpoints, Pod, Service},
    discovery::v1::EndpointSlice,
};
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::{
    cluster::{Cluster, create, delete, names, patch_status, within},
    kubelet,
};

const SOON: Duration = Duration::from_secs(30);

pub fn pod(name: &str, spec: Value) -> Value {
    let mut whole = json!({"containers": [{"name": "c", "image": "x"}]});
    whole.as_object_mut().expect("an object").extend(spec.as_object().expect("an object").clone());
    json!({"metadata": {"name": name, "labels": {"app": "web"}}, "spec": whole})
}

async fn ready(cluster: &Cluster) -> anyhow::Result<usize> {
    let endpoints = cluster.api::<Endpoints>().get_opt("web").await?;
    let subsets = endpoints.and_then(|endpoints| endpoints.subsets).unwrap_or_default();
    let slices = cluster.api::<EndpointSlice>().list(&ListParams::default()).await?.items;
    let conditions =
        slices.iter().flat_map(|slice| &slice.endpoints).filter_map(|endpoint| endpoint.conditions.as_ref());
    let in_slices = conditions.filter(|conditions| conditions.ready == Some(true)).count();
    let in_endpoints = subsets.iter().map(|subset| subset.addresses.iter().flatten().count()).sum::<usize>();
    Ok(in_slices.min(in_endpoints))
}

#[tokio::test(start_paused = true)]
async fn endpoints_follow_pods_and_services() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let running = cluster.control().await?;
    let kubelet = kubelet::start(&cluster, "n1", json!({})).await?;
    let service = json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
    create(&cluster.api::<Service>(), service).await?;
    for name in ["a", "b"] {
        create(&cluster.api::<Pod>(), pod(name, json!({}))).await?;
    }
    let has = |count: usize| {
        let cluster = &cluster;
        move || async move { Ok((ready(cluster).await? == count).then_some(())) }
    };
    within("two ready endpoints", SOON, has(2)).await?;
    let down = json!({"conditions": [{"type": "Ready", "status": "False"}]});
    patch_status(&cluster.api::<Pod>(), "a", down).await?;
    let ((), took) = within("one ready endpoint", SOON, has(1)).await?;
    assert!(took <= Duration::from_millis(10), "at once, not after {took:?}");
    delete(&cluster.api::<Pod>(), "b").await?;
    within("none", SOON, has(0)).await?;
    delete(&cluster.api::<Service>(), "web").await?;
    let gone = || async {
        let left =
            names(&cluster.api::<Endpoints>()).await?.len() + names(&cluster.api::<EndpointSlice>()).await?.len();
        Ok((left == 0).then_some(()))
    };
    within("nothing is left of the service", SOON, gone).await?;
    kubelet.abort();
    running.stop().await;
    cluster.stop().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_machine_at_rest_is_quiet() -> anyhow::Result<()> {
    const KINDS: usize = 27;
    let cluster = Cluster::start().await?;
    let running = cluster.control().await?;
    let kubelet = kubelet::start(&cluster, "n1", json!({})).await?;
    let service = json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
    create(&cluster.api::<Service>(), service).await?;
    create(&cluster.api::<Pod>(), pod("a", json!({}))).await?;
    create(&cluster.api::<Pod>(), pod("waits", json!({"nodeSelector": {"no": "where"}}))).await?;
    within("an endpoint", SOON, || async { Ok((ready(&cluster).await? == 1).then_some(())) }).await?;
    tokio::time::sleep(SOON).await;
    let before = cluster.requests.load(Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(600)).await;
    let requests = cluster.requests.load(Ordering::Relaxed) - before;
    assert!(requests <= 3 * KINDS, "only the watches are renewed, every five minutes; seen: {requests} requests");
    kubelet.abort();
    running.stop().await;
    cluster.stop().await;
    Ok(())
}
