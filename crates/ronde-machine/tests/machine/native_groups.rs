//! PodGroups of Kubernetes, from a server that learns of them while the operator runs: a definition stands for the kind, and
//! an annotation for the field of pods, which the server of one machine does not have.

use std::time::Duration;

use http::{Method, Request, Response, header::CONTENT_LENGTH};
use http_body_util::BodyExt as _;
use k8s_openapi::{
    api::core::v1::Pod, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, ResourceExt,
    api::ListParams,
    client::Body,
    core::{ApiResource, DynamicObject},
};
use ronde_api::PodGroup;
use ronde_control::{
    native::{NativeGroup, V1Alpha2},
    operator,
};
use ronde_runtime::podstatus::node_of;
use serde_json::{Value, json};
use tower::service_fn;

use crate::{
    cluster::{Cluster, Running, create, delete, within},
    kubelet,
};

/// More than until the operator asks again whether the cluster has the kind.
const SOON: Duration = Duration::from_secs(400);
/// Stands for `spec.schedulingGroup.podGroupName`.
const STAND_IN: &str = "example.test/pod-group-name";

/// Shows single pods as a server does that has the field.
fn newer(client: Client) -> Client {
    let service = service_fn(move |request: Request<Body>| {
        let client = client.clone();
        async move {
            let is_pod = request.method() == Method::GET && request.uri().path().contains("/pods/");
            let answer = client.send(request).await?;
            if is_pod { with_field(answer).await } else { Ok(answer) }
        }
    });
    Client::new(service, "default")
}

async fn with_field(answer: Response<Body>) -> Result<Response<Body>, kube::Error> {
    let (mut parts, body) = answer.into_parts();
    let bytes = body.collect().await.map_err(|error| kube::Error::Service(error.into()))?.to_bytes();
    let mut pod: Value = serde_json::from_slice(&bytes).map_err(kube::Error::SerdeError)?;
    if let Some(name) = pod["metadata"]["annotations"].get(STAND_IN).cloned() {
        pod["spec"]["schedulingGroup"] = json!({"podGroupName": name});
    }
    parts.headers.remove(CONTENT_LENGTH);
    Ok(Response::from_parts(parts, Body::from(pod.to_string().into_bytes())))
}

fn definition() -> Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}});
    let version =
        json!({"name": "v1alpha2", "served": true, "storage": true, "schema": schema, "subresources": {"status": {}}});
    let approved = json!({"api-approved.kubernetes.io": "unapproved, stands for what a server has itself"});
    json!({
        "metadata": {"name": "podgroups.scheduling.k8s.io", "annotations": approved},
        "spec": {
            "group": "scheduling.k8s.io", "scope": "Namespaced", "versions": [version],
            "names": {"kind": "PodGroup", "listKind": "PodGroupList", "plural": "podgroups", "singular": "podgroup"},
        },
    })
}

fn natives(cluster: &Cluster) -> Api<DynamicObject> {
    Api::default_namespaced_with(cluster.client.clone(), &ApiResource::erase::<NativeGroup<V1Alpha2>>(&()))
}

async fn gang(cluster: &Cluster, name: &str, pods: usize, scheduler: &str) -> anyhow::Result<()> {
    let meta = json!({"name": name, "annotations": {"scheduling.volcano.sh/queue-name": "default"}});
    let spec = json!({"schedulingPolicy": {"gang": {"minCount": pods}}});
    let group = json!({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": meta, "spec": spec});
    natives(cluster).create(&kube::api::PostParams::default(), &serde_json::from_value(group)?).await?;
    for index in 0..pods {
        let container = json!({"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}});
        let meta = json!({"name": format!("{name}-{index}"), "annotations": {STAND_IN: name}});
        let pod = json!({"metadata": meta, "spec": {"schedulerName": scheduler, "containers": [container]}});
        create(&cluster.api::<Pod>(), pod).await?;
    }
    Ok(())
}

/// Waits until a PodGroup has a condition, `True Scheduled`, and returns its message.
async fn says(cluster: &Cluster, name: &str, wanted: &str) -> anyhow::Result<String> {
    let look = || async {
        let found = natives(cluster).get(name).await?;
        let conditions = found.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let mut told = conditions.iter().filter(|condition| condition["type"] == "PodGroupScheduled");
        let is_so = |condition: &&Value| {
            wanted.split(' ').eq([&condition["status"], &condition["reason"]].map(|it| it.as_str().unwrap_or_default()))
        };
        Ok(told.find(is_so).map(|condition| condition["message"].as_str().unwrap_or_default().to_owned()))
    };
    Ok(within(&format!("{name} says {wanted}"), SOON, look).await?.0)
}

#[tokio::test(start_paused = true)]
async fn a_pod_group_of_kubernetes_is_a_gang_as_soon_as_the_cluster_has_the_kind() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let first = kubelet::start(&cluster, "n1", json!({"cpu": "2"})).await?;
    let options = cluster.operator_options(newer(cluster.client.clone()), "test");
    let running = Running::start(operator::runner(&options, newer(cluster.client.clone()), |_| {}).await?);
    tokio::time::sleep(SOON).await;
    create(&cluster.all::<CustomResourceDefinition>(), definition()).await?;
    tokio::time::sleep(SOON).await;
    gang(&cluster, "g", 3, "ronde").await?;
    gang(&cluster, "theirs", 1, "another-scheduler").await?;
    let why = says(&cluster, "g", "False Unschedulable").await?;
    assert!(why.starts_with("needs 3 pods × 1 cpu"), "{why}");
    let group = cluster.api::<PodGroup>().get("g").await?;
    let owner = natives(&cluster).get("g").await?;
    assert_eq!(group.owner_references()[0].uid, owner.uid().unwrap_or_default());
    let second = kubelet::start(&cluster, "n2", json!({"cpu": "2"})).await?;
    says(&cluster, "g", "True Scheduled").await?;
    let pods = cluster.api::<Pod>().list(&ListParams::default()).await?.items;
    let placed: Vec<_> = pods.iter().filter(|pod| !node_of(pod).is_empty()).map(ResourceExt::name_any).collect();
    assert_eq!(placed, ["g-0", "g-1", "g-2"]);
    assert!(cluster.api::<PodGroup>().get_opt("theirs").await?.is_none(), "it has no pod of ours");
    delete(&cluster.api::<Pod>(), "g-1").await?;
    tokio::time::sleep(SOON).await;
    says(&cluster, "g", "True Scheduled").await?;
    running.stop().await;
    [first, second].iter().for_each(tokio::task::JoinHandle::abort);
    cluster.stop().await;
    Ok(())
}
