//! Stories of jobs.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, PostParams},
};
use ronde_control::{job::verdict, pods::is_active};
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
    let mut cluster = Cluster::start().await?;
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
    assert_eq!(number("Succeeded") as u64, completions, "seed {seed}");
    let pods: Api<Pod> = Api::default_namespaced(cluster.client.clone());
    for pod in pods.list(&ListParams::default()).await? {
        assert!(pod.finalizers().is_empty(), "seed {seed}: {} is still waited for", pod.name_any());
    }
    cluster.stop().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn every_pod_counts_once_whatever_dies() -> anyhow::Result<()> {
    for seed in 0..3 {
        story(seed).await.with_context(|| format!("seed {seed}"))?;
    }
    Ok(())
}
