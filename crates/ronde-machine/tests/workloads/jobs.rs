//! Stories of jobs.

use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{Event, Pod},
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, PropagationPolicy},
};
use ronde_machine::job::verdict;
use ronde_runtime::pods::is_active;
use serde_json::{Value, json};

use crate::{
    chance::Chance,
    cluster::{Cluster, eventually},
    node::{self, Habits},
};

fn job(name: &str, spec: Value) -> Job {
    let container = json!({"name": "c", "image": "x"});
    let mut spec = spec;
    spec["template"] = json!({"spec": {"containers": [container], "restartPolicy": "Never"}});
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).expect("a job")
}

fn index_of(pod: &Pod) -> Option<&String> {
    pod.labels().get("batch.kubernetes.io/job-completion-index")
}

async fn story(seed: u64) -> anyhow::Result<()> {
    let mut chance = Chance::new(seed);
    let mut cluster = Cluster::start(seed).await?;
    let jobs: Api<Job> = Api::default_namespaced(cluster.client.clone());
    let (completions, parallelism) = (chance.between(1, 6), chance.between(1, 4));
    let is_indexed = chance.percent(50);
    let mode = if is_indexed { "Indexed" } else { "NonIndexed" };
    let mut spec = json!({
        "completions": completions, "parallelism": parallelism, "completionMode": mode, "backoffLimit": 100,
        "podReplacementPolicy": if chance.percent(50) { "Failed" } else { "TerminatingOrFailed" },
    });
    if is_indexed && chance.percent(50) {
        spec["backoffLimitPerIndex"] = 50.into();
    }
    let check = move |pods: &[Pod]| {
        let active: Vec<&Pod> = pods.iter().filter(|pod| is_active(pod)).collect();
        assert!(active.len() as u64 <= parallelism, "seed {seed}: {} active pods, {parallelism} allowed", active.len());
        let indexes: BTreeSet<_> = active.iter().map(|pod| index_of(pod)).collect();
        assert!(!is_indexed || indexes.len() == active.len(), "seed {seed}: an index runs twice");
    };
    let habits = Habits { ends: 40, fails: 40 };
    let node = node::start(&cluster.client, &cluster.clock, seed, habits, Box::new(check)).await?;
    jobs.create(&PostParams::default(), &job("work", spec)).await?;
    for _ in 0..chance.between(2, 6) {
        tokio::time::sleep(chance.time_up_to(Duration::from_secs(20))).await;
        cluster.kill(&mut chance).await;
    }
    eventually("the job ends", async || Ok(verdict::is_finished(jobs.get("work").await?.status.as_ref()))).await?;
    let status = jobs.get("work").await?.status.unwrap_or_default();
    let ends = node.ends.lock().clone();
    node.stop().await?;
    let number = |phase: &str| i32::try_from(ends.values().filter(|end| **end == phase).count()).expect("few");
    assert_eq!(status.succeeded.unwrap_or(0), number("Succeeded"), "seed {seed}: every success once: {status:?}");
    assert_eq!(status.failed.unwrap_or(0), number("Failed"), "seed {seed}: every failure once: {status:?}");
    assert_eq!(u64::try_from(number("Succeeded"))?, completions, "seed {seed}");
    let pods: Api<Pod> = Api::default_namespaced(cluster.client.clone());
    for pod in pods.list(&ListParams::default()).await? {
        assert!(pod.finalizers().is_empty(), "seed {seed}: {} is still waited for", pod.name_any());
    }
    cluster.stop().await;
    Ok(())
}

/// Each seed is another story.
mod every_pod_counts_once_whatever_dies {
    crate::stories!(seed_0: 0, seed_1: 1, seed_2: 2, seed_3: 3);
}

/// A cluster with a node on which pods run until they are deleted, and a job.
async fn cluster_with(spec: Value) -> anyhow::Result<(Cluster, node::Running, Api<Job>)> {
    let cluster = Cluster::start(0).await?;
    let jobs: Api<Job> = Api::default_namespaced(cluster.client.clone());
    let node = node::start(&cluster.client, &cluster.clock, 7, Habits::default(), Box::new(|_| {})).await?;
    jobs.create(&PostParams::default(), &job("work", spec)).await?;
    Ok((cluster, node, jobs))
}

async fn pods(client: &Client) -> anyhow::Result<Vec<Pod>> {
    Ok(Api::<Pod>::default_namespaced(client.clone()).list(&ListParams::default()).await?.items)
}

async fn is_ready(jobs: &Api<Job>, number: i32) -> anyhow::Result<bool> {
    Ok(jobs.get("work").await?.status.and_then(|status| status.ready) == Some(number))
}

/// Returns the reasons of the events about an object.
async fn reasons(client: &Client, name: &str) -> anyhow::Result<BTreeSet<String>> {
    let events = Api::<Event>::default_namespaced(client.clone()).list(&ListParams::default()).await?;
    let about = events.into_iter().filter(|event| event.involved_object.name.as_deref() == Some(name));
    Ok(about.filter_map(|event| event.reason).collect())
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_a_job_and_its_pods_and_later_it_is_deleted() -> anyhow::Result<()> {
    let spec = json!({"activeDeadlineSeconds": 60, "parallelism": 2, "ttlSecondsAfterFinished": 100});
    let (cluster, node, jobs) = cluster_with(spec).await?;
    eventually("the pods run", async || is_ready(&jobs, 2).await).await?;
    eventually("the job fails", async || Ok(verdict::is_finished(jobs.get("work").await?.status.as_ref()))).await?;
    let status = jobs.get("work").await?.status.unwrap_or_default();
    let failed = status.conditions.iter().flatten().find(|condition| condition.type_ == "Failed");
    assert_eq!(failed.and_then(|failed| failed.reason.as_deref()), Some("DeadlineExceeded"));
    assert_eq!((status.failed, status.active, status.terminating), (Some(2), None, Some(0)));
    let events = reasons(&cluster.client, "work").await?;
    let expected = ["DeadlineExceeded", "SuccessfulCreate", "SuccessfulDelete"];
    assert_eq!(events, expected.map(str::to_owned).into());
    eventually("it is deleted", async || Ok(jobs.get_opt("work").await?.is_none())).await?;
    node.stop().await?;
    cluster.stop().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_suspended_job_gives_its_pods_up_and_starts_again() -> anyhow::Result<()> {
    let (cluster, node, jobs) = cluster_with(json!({"parallelism": 2, "completions": 2})).await?;
    eventually("the pods run", async || is_ready(&jobs, 2).await).await?;
    let suspend = |is: bool| Patch::Merge(json!({"spec": {"suspend": is}}));
    jobs.patch("work", &PatchParams::default(), &suspend(true)).await?;
    eventually("the pods are gone", async || Ok(pods(&cluster.client).await?.is_empty())).await?;
    let status = jobs.get("work").await?.status.unwrap_or_default();
    assert_eq!((status.failed, status.active), (None, None), "to be suspended is not to fail");
    jobs.patch("work", &PatchParams::default(), &suspend(false)).await?;
    eventually("new pods run", async || is_ready(&jobs, 2).await).await?;
    let events = reasons(&cluster.client, "work").await?;
    assert!(events.contains("Suspended") && events.contains("Resumed"), "{events:?}");
    node.stop().await?;
    cluster.stop().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_deleted_lets_go_of_its_pods() -> anyhow::Result<()> {
    for (policy, left) in [(PropagationPolicy::Background, 0), (PropagationPolicy::Orphan, 2)] {
        let (cluster, node, jobs) = cluster_with(json!({"parallelism": 2, "completions": 2})).await?;
        eventually("the pods run", async || is_ready(&jobs, 2).await).await?;
        let params = DeleteParams { propagation_policy: Some(policy), ..DeleteParams::default() };
        jobs.delete("work", &params).await?;
        let is_let_go = async || {
            let pods = pods(&cluster.client).await?;
            Ok(pods.len() == left && pods.iter().all(|pod| pod.finalizers().is_empty()))
        };
        eventually("no pod is waited for", is_let_go).await?;
        node.stop().await?;
        cluster.stop().await;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_job_of_another_manager_is_left_alone() -> anyhow::Result<()> {
    let (cluster, node, _jobs) = cluster_with(json!({"managedBy": "example.com/other"})).await?;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(pods(&cluster.client).await?.is_empty());
    node.stop().await?;
    cluster.stop().await;
    Ok(())
}
