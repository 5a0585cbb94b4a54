//! Stories of deployments.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicI32, AtomicUsize, Ordering},
    },
    time::Duration,
};

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, ReplicaSet},
        core::v1::Pod,
    },
    apimachinery::pkg::util::intstr::IntOrString,
};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use ronde_machine::deployment::{
    limits::Limits,
    status::{PROGRESSING, is_complete},
    template,
};
use ronde_runtime::pods::{is_active, is_finished, is_ready};
use serde_json::json;

use crate::{
    chance::Chance,
    cluster::{Cluster, eventually},
    node::{self, Habits},
};

const HISTORY_LIMIT: usize = 2;

fn deployment(chance: &mut Chance) -> Deployment {
    let container = json!({"name": "c", "image": "x:0"});
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}});
    let rolling = json!({"maxSurge": format!("{}%", chance.between(0, 60)), "maxUnavailable": chance.between(1, 2)});
    let strategy = if chance.percent(25) {
        json!({"type": "Recreate"})
    } else {
        json!({"type": "RollingUpdate", "rollingUpdate": rolling})
    };
    let spec = json!({
        "replicas": chance.between(1, 5), "selector": {"matchLabels": {"app": "web"}}, "template": template,
        "strategy": strategy, "revisionHistoryLimit": HISTORY_LIMIT, "minReadySeconds": chance.between(0, 3),
    });
    serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": spec})).expect("a deployment")
}

/// What must hold at any time: the most pods, the fewest ready ones, and for some only one generation at once.
fn check(seed: u64, most: Arc<AtomicUsize>, least: Arc<AtomicI32>, is_recreated: bool) -> node::Check {
    Box::new(move |pods| {
        let active = pods.iter().filter(|pod| is_active(pod)).count();
        let most = most.load(Ordering::Relaxed);
        assert!(active <= most, "seed {seed}: {active} pods, {most} allowed");
        let ready = pods.iter().filter(|pod| is_active(pod) && is_ready(pod)).count();
        let least = least.load(Ordering::Relaxed);
        assert!(i32::try_from(ready).expect("few") >= least, "seed {seed}: {ready} pods are ready, not {least}");
        let alive = pods.iter().filter(|pod| !is_finished(pod));
        let generations: BTreeSet<_> = alive.map(|pod| pod.labels().get("pod-template-hash")).collect();
        assert!(!is_recreated || generations.len() <= 1, "seed {seed}: old and new pods at once");
    })
}

async fn story(seed: u64) -> anyhow::Result<()> {
    let mut chance = Chance::new(seed);
    let mut cluster = Cluster::start(seed).await?;
    let deployments: Api<Deployment> = Api::default_namespaced(cluster.client.clone());
    let mut web = deployments.create(&PostParams::default(), &deployment(&mut chance)).await?;
    let is_recreated = web.spec.as_ref().and_then(|spec| spec.strategy.as_ref()?.type_.as_deref()) == Some("Recreate");
    let most = Arc::new(AtomicUsize::new(usize::try_from(Limits::of_deployment(&web).most())?));
    let least = Arc::new(AtomicI32::new(0));
    let check = check(seed, most.clone(), least.clone(), is_recreated);
    let node = node::start(&cluster.client, &cluster.clock, seed, Habits::default(), check).await?;
    let is_done = async || Ok(deployments.get("web").await.map(|web| has_rolled_out(&web))?);
    eventually("the first rollout", is_done).await?;
    let is_scaled = chance.percent(50);
    if !is_scaled && !is_recreated {
        least.store(Limits::of_deployment(&web).least_available(), Ordering::Relaxed);
    }
    for _ in 0..chance.between(3, 6) {
        tokio::time::sleep(chance.time_up_to(Duration::from_secs(15))).await;
        let patch = match chance.between(0, 3) {
            0 if is_scaled => json!({"spec": {"replicas": chance.between(0, 5)}}),
            1 => json!({"spec": {"paused": chance.percent(50)}}),
            _ => {
                let image = format!("x:{}", chance.between(0, 3));
                json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}})
            }
        };
        web = deployments.patch("web", &PatchParams::default(), &Patch::Strategic(patch)).await?;
        most.fetch_max(usize::try_from(Limits::of_deployment(&web).most())?, Ordering::Relaxed);
        if chance.percent(50) {
            cluster.kill(&mut chance).await;
        }
    }
    let resume = Patch::Merge(json!({"spec": {"paused": false}}));
    deployments.patch("web", &PatchParams::default(), &resume).await?;
    eventually("the last rollout", is_done).await?;
    // The history is cut after the rollout.
    tokio::time::sleep(Duration::from_secs(5)).await;
    ensure_rolled_out(seed, &cluster).await?;
    node.stop().await?;
    cluster.stop().await;
    Ok(())
}

/// As `kubectl rollout status` sees it.
fn has_rolled_out(web: &Deployment) -> bool {
    web.status.as_ref().is_some_and(|status| is_complete(web, status))
}

async fn ensure_rolled_out(seed: u64, cluster: &Cluster) -> anyhow::Result<()> {
    let web = Api::<Deployment>::default_namespaced(cluster.client.clone()).get("web").await?;
    let spec = web.spec.clone().unwrap_or_default();
    let status = web.status.clone().unwrap_or_default();
    let progress = status.conditions.iter().flatten().find(|condition| condition.type_ == PROGRESSING);
    let reason = progress.and_then(|condition| condition.reason.as_deref());
    assert_eq!(reason, Some("NewReplicaSetAvailable"), "seed {seed}: {status:?}");
    let pods = Api::<Pod>::default_namespaced(cluster.client.clone()).list(&ListParams::default()).await?;
    let image =
        |spec: Option<&k8s_openapi::api::core::v1::PodSpec>| spec.and_then(|spec| spec.containers[0].image.clone());
    let active: Vec<_> = pods.iter().filter(|pod| is_active(pod)).collect();
    assert_eq!(i32::try_from(active.len())?, spec.replicas.unwrap_or(0), "seed {seed}");
    assert!(active.iter().all(|pod| image(pod.spec.as_ref()) == image(spec.template.spec.as_ref())), "seed {seed}");
    let sets = Api::<ReplicaSet>::default_namespaced(cluster.client.clone()).list(&ListParams::default()).await?;
    let idle = sets.iter().filter(|set| set.spec.as_ref().and_then(|spec| spec.replicas) == Some(0)).count();
    assert!(idle <= HISTORY_LIMIT + 1, "seed {seed}: {idle} old sets");
    let revision = |annotations: &std::collections::BTreeMap<String, String>| -> Option<i64> {
        annotations.get("deployment.kubernetes.io/revision")?.parse().ok()
    };
    let newest = sets.iter().filter_map(|set| revision(set.annotations())).max();
    assert_eq!(revision(web.annotations()), newest, "seed {seed}");
    Ok(())
}

/// Each seed is another story.
mod rollouts_keep_their_limits_and_end_whatever_dies {
    crate::stories!(seed_0: 0, seed_1: 1, seed_2: 2, seed_3: 3);
}

#[tokio::test(start_paused = true)]
async fn a_deployment_at_rest_costs_nothing() -> anyhow::Result<()> {
    let mut chance = Chance::new(1);
    let cluster = Cluster::start(0).await?;
    let deployments: Api<Deployment> = Api::default_namespaced(cluster.client.clone());
    let mut web = deployment(&mut chance);
    let rolling = web.spec.as_mut().and_then(|spec| spec.strategy.as_mut()?.rolling_update.as_mut());
    rolling.into_iter().for_each(|rolling| rolling.max_surge = Some(IntOrString::Int(1)));
    deployments.create(&PostParams::default(), &web).await?;
    let node = node::start(&cluster.client, &cluster.clock, 1, Habits::default(), Box::new(|_| {})).await?;
    eventually("the rollout", async || Ok(has_rolled_out(&deployments.get("web").await?))).await?;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let before = cluster.requests();
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(cluster.requests(), before);
    node.stop().await?;
    cluster.stop().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_taken_leads_to_another() -> anyhow::Result<()> {
    let cluster = Cluster::start(0).await?;
    let client = cluster.client.clone();
    let (deployments, sets): (Api<Deployment>, Api<ReplicaSet>) =
        (Api::default_namespaced(client.clone()), Api::default_namespaced(client.clone()));
    let node = node::start(&client, &cluster.clock, 1, Habits::default(), Box::new(|_| {})).await?;
    let mut web = deployment(&mut Chance::new(1));
    web.spec.as_mut().into_iter().for_each(|spec| spec.paused = Some(true));
    let web = deployments.create(&PostParams::default(), &web).await?;
    let mut other = template::build(&web);
    other.metadata.owner_references = None;
    let labels = json!({"app": "other"});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "y"}]}});
    other.metadata.labels = None;
    other.spec = serde_json::from_value(json!({"selector": {"matchLabels": labels}, "template": template}))?;
    sets.create(&PostParams::default(), &other).await?;
    let resume = Patch::Merge(json!({"spec": {"paused": false}}));
    deployments.patch("web", &PatchParams::default(), &resume).await?;
    eventually("the rollout", async || Ok(has_rolled_out(&deployments.get("web").await?))).await?;
    let status = deployments.get("web").await?.status.unwrap_or_default();
    assert_eq!(status.collision_count, Some(1));
    node.stop().await?;
    cluster.stop().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn pods_are_adopted_and_released_by_their_labels() -> anyhow::Result<()> {
    let cluster = Cluster::start(0).await?;
    let client = cluster.client.clone();
    let (pods, sets): (Api<Pod>, Api<ReplicaSet>) =
        (Api::default_namespaced(client.clone()), Api::default_namespaced(client));
    let labels = json!({"app": "web"});
    let containers = json!({"containers": [{"name": "c", "image": "x"}]});
    let orphan = json!({"metadata": {"name": "orphan", "labels": labels}, "spec": containers});
    pods.create(&PostParams::default(), &serde_json::from_value(orphan)?).await?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let template = json!({"metadata": {"labels": labels}, "spec": containers});
    let spec = json!({"replicas": 1, "selector": {"matchLabels": labels}, "template": template});
    let set = sets
        .create(&PostParams::default(), &serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": spec}))?)
        .await?;
    let is_owned = |pod: &Pod| pod.owner_references().iter().any(|owner| Some(&owner.uid) == set.metadata.uid.as_ref());
    eventually("it is adopted", async || Ok(is_owned(&pods.get("orphan").await?))).await?;
    assert_eq!(pods.list(&ListParams::default()).await?.items.len(), 1, "no other is made");
    let relabel = Patch::Merge(json!({"metadata": {"labels": {"app": "debug"}}}));
    pods.patch("orphan", &PatchParams::default(), &relabel).await?;
    eventually("it is released", async || Ok(!is_owned(&pods.get("orphan").await?))).await?;
    eventually("another is made", async || Ok(pods.list(&ListParams::default()).await?.items.len() == 2)).await?;
    cluster.stop().await;
    Ok(())
}
