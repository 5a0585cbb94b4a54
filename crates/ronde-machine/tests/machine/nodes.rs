//! Nodes fall silent, come back, are cordoned, tainted, drained and deleted.

use std::time::Duration;

use k8s_openapi::api::{
    core::v1::{Node, Pod},
    policy::v1::PodDisruptionBudget,
};
use kube::{
    Api, ResourceExt as _,
    api::{EvictParams, Patch, PatchParams},
};
use ronde_runtime::{pods, taints};
use serde_json::json;

use crate::{
    cluster::{Cluster, create, delete, names, patch, within},
    endpoints::pod,
    kubelet,
};

const SOON: Duration = Duration::from_secs(30);

async fn taint_keys(cluster: &Cluster, node: &str) -> anyhow::Result<Vec<String>> {
    let node = cluster.all::<Node>().get(node).await?;
    Ok(taints::of_node(&node).iter().map(|taint| format!("{}:{}", taint.key, taint.effect)).collect())
}

async fn is_running(cluster: &Cluster, name: &str) -> anyhow::Result<Option<()>> {
    let pod = cluster.api::<Pod>().get(name).await?;
    Ok(pods::is_ready(&pod).then_some(()))
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_loses_its_pods_and_gets_its_good_name_back() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let running = cluster.control().await?;
    let kubelet = kubelet::start(&cluster, "n1", json!({})).await?;
    create(&cluster.api::<Pod>(), pod("a", json!({}))).await?;
    within("the pod runs", SOON, || is_running(&cluster, "a")).await?;
    kubelet.abort();
    let lost = || async {
        let has = taint_keys(&cluster, "n1").await?.contains(&"node.kubernetes.io/unreachable:NoExecute".to_owned());
        Ok(has.then_some(()))
    };
    let ((), took) = within("the node is unreachable", Duration::from_secs(90), lost).await?;
    assert!((39..=45).contains(&took.as_secs()), "after 40 s, not {took:?}");
    let not_ready = || async { Ok((!pods::is_ready(&cluster.api::<Pod>().get("a").await?)).then_some(())) };
    within("its pod is not ready", SOON, not_ready).await?;
    let going = || async {
        let pod = cluster.api::<Pod>().get("a").await?;
        Ok(pod.metadata.deletion_timestamp.is_some().then_some(pod))
    };
    let (pod, took) = within("the pod is evicted", Duration::from_secs(400), going).await?;
    assert!((298..=302).contains(&took.as_secs()), "after its toleration of 300 s, not {took:?}");
    let target = pods::condition(&pod, "DisruptionTarget").expect("it says why");
    assert_eq!(target.reason.as_deref(), Some("DeletionByTaintManager"));
    let kubelet = kubelet::live(cluster.client.clone(), cluster.clock.clone(), "n1".to_owned());
    let back = || async { Ok(taint_keys(&cluster, "n1").await?.is_empty().then_some(())) };
    within("the node is back", SOON, back).await?;
    let gone = || async { Ok(names(&cluster.api::<Pod>()).await?.is_empty().then_some(())) };
    within("the node removes the pod", SOON, gone).await?;
    assert!(cluster.events("n1").await?.contains(&"NodeNotReady Node n1 status is now: NodeNotReady".to_owned()));
    kubelet.abort();
    running.stop().await;
    cluster.stop().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn taints_and_cordons_work() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let running = cluster.control().await?;
    let kubelet = kubelet::start(&cluster, "n1", json!({})).await?;
    create(&cluster.api::<Pod>(), pod("a", json!({}))).await?;
    let tough =
        json!({"tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}]});
    create(&cluster.api::<Pod>(), pod("b", tough)).await?;
    within("both run", SOON, || is_running(&cluster, "b")).await?;
    patch(&cluster.all::<Node>(), "n1", json!({"spec": {"unschedulable": true}})).await?;
    let cordoned = || async {
        Ok((taint_keys(&cluster, "n1").await? == ["node.kubernetes.io/unschedulable:NoSchedule"]).then_some(()))
    };
    within("the node is tainted", SOON, cordoned).await?;
    assert_eq!(names(&cluster.api::<Pod>()).await?, ["a", "b"], "a cordon drives nobody away");
    patch(&cluster.all::<Node>(), "n1", json!({"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}})).await?;
    let left = || async { Ok((names(&cluster.api::<Pod>()).await? == ["b"]).then_some(())) };
    let ((), took) = within("the one that does not tolerate it leaves", SOON, left).await?;
    assert!(took < Duration::from_secs(1), "at once, not after {took:?}");
    let none = || async { Ok(names(&cluster.api::<Pod>()).await?.is_empty().then_some(())) };
    let ((), took) = within("the other one later", Duration::from_secs(90), none).await?;
    assert!((58..=61).contains(&took.as_secs()), "after 60 s, not {took:?}");
    kubelet.abort();
    running.stop().await;
    cluster.stop().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_deleted_node_are_removed() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let running = cluster.control().await?;
    let kubelet = kubelet::start(&cluster, "n1", json!({})).await?;
    create(&cluster.api::<Pod>(), pod("a", json!({}))).await?;
    within("the pod runs", SOON, || is_running(&cluster, "a")).await?;
    kubelet.abort();
    delete(&cluster.all::<Node>(), "n1").await?;
    let gone = || async { Ok(names(&cluster.api::<Pod>()).await?.is_empty().then_some(())) };
    let ((), took) = within("the pod is gone", Duration::from_secs(120), gone).await?;
    assert!((40..=61).contains(&took.as_secs()), "after its quarantine, not {took:?}");
    running.stop().await;
    cluster.stop().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_budget_holds_evictions_back() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let running = cluster.control().await?;
    let kubelet = kubelet::start(&cluster, "n1", json!({})).await?;
    let budget =
        json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    create(&cluster.api::<PodDisruptionBudget>(), budget).await?;
    for name in ["a", "b"] {
        create(&cluster.api::<Pod>(), pod(name, json!({}))).await?;
    }
    let allowed = |count: i32| {
        let budgets = cluster.api::<PodDisruptionBudget>();
        move || {
            let budgets = budgets.clone();
            async move {
                let status = budgets.get("b").await?.status;
                Ok(status.filter(|status| status.disruptions_allowed == count && status.expected_pods > 0).map(drop))
            }
        }
    };
    within("one may go", SOON, allowed(1)).await?;
    cluster.api::<Pod>().evict("a", &EvictParams::default()).await?;
    within("then none", SOON, allowed(0)).await?;
    let refused = cluster.api::<Pod>().evict("b", &EvictParams::default()).await;
    assert!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 429));
    let left = || async { Ok((names(&cluster.api::<Pod>()).await? == ["b"]).then_some(())) };
    within("the evicted one is gone", SOON, left).await?;
    assert_eq!(cluster.api::<Pod>().get("b").await?.name_any(), "b");
    kubelet.abort();
    running.stop().await;
    cluster.stop().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_mark_of_a_pod_that_is_not_ended_is_taken_back() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let running = cluster.control().await?;
    let node = kubelet::start(&cluster, "n1", json!({})).await?;
    let api: Api<Pod> = cluster.api();
    for name in ["scheduler", "node"] {
        create(&api, json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "x"}]}}))
            .await?;
        let runs = || async { Ok((pods::phase(&api.get(name).await?) == "Running").then_some(())) };
        within("it runs", Duration::from_secs(30), runs).await?;
    }
    for (name, reason) in [("scheduler", "PreemptionByScheduler"), ("node", "TerminationByKubelet")] {
        let mark = json!({
            "type": "DisruptionTarget", "status": "True", "reason": reason, "lastTransitionTime": cluster.clock.now(),
        });
        let patch = Patch::Strategic(json!({"status": {"conditions": [mark]}}));
        api.patch_status(name, &PatchParams::default(), &patch).await?;
    }
    let taken_back = || async {
        let pod = api.get("scheduler").await?;
        Ok(pods::condition(&pod, "DisruptionTarget").filter(|mark| mark.status == "False").map(|_| ()))
    };
    let ((), took) = within("the mark is taken back", Duration::from_secs(300), taken_back).await?;
    assert!(took >= Duration::from_secs(118), "{took:?}");
    let pod = api.get("node").await?;
    assert_eq!(pods::condition(&pod, "DisruptionTarget").map(|mark| mark.status.as_str()), Some("True"));
    node.abort();
    running.stop().await;
    cluster.stop().await;
    Ok(())
}
