//! Stories of flows: jobs that wait for each other, and controllers that are killed between any two requests.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{Event, Pod};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use parking_lot::Mutex;
use ronde_api::{Job, JobFlow, JobFlowPhase, JobPhase, JobTemplate, names};
use serde_json::{Value, json};

use crate::{
    chance::Chance,
    cluster::{Cluster, eventually},
    node::{self, Habits},
    queues::admit_all,
};

/// The whole graph: two begin, two wait, one is last.
const TEMPLATES: [&str; 5] = ["a", "b", "c", "d", "e"];

fn flow(name: &str, policy: &str) -> JobFlow {
    let flows = json!([
        {"name": "a"}, {"name": "b"}, {"name": "c", "dependsOn": {"targets": ["a"]}},
        {"name": "d", "dependsOn": {"targets": ["a", "b"]}, "patch": {"jobSpec": {"tasks": [{"name": "w", "replicas": 2}]}}},
        {"name": "e", "dependsOn": {"targets": ["c", "d"]}},
    ]);
    let spec = json!({"flows": flows, "jobRetainPolicy": policy});
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).expect("a flow")
}

async fn create_templates(cluster: &Cluster, names: &[&str]) -> anyhow::Result<()> {
    let templates: Api<JobTemplate> = Api::default_namespaced(cluster.client.clone());
    for name in names {
        let pod = json!({"spec": {"containers": [{"name": "c", "image": "x"}], "restartPolicy": "Never"}});
        let policies = json!([{"event": "PodFailed", "action": "RestartJob"}]);
        let tasks = json!([{"name": "w", "replicas": 1, "template": pod}]);
        let spec = json!({"maxRetry": 1000, "policies": policies, "tasks": tasks});
        let template: JobTemplate = serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec}))?;
        templates.create(&PostParams::default(), &template).await?;
    }
    Ok(())
}

async fn become_phase(flows: &Api<JobFlow>, name: &str, phase: JobFlowPhase) -> anyhow::Result<()> {
    let is_so = async || Ok(flows.get(name).await?.status.and_then(|status| status.state.phase) == Some(phase));
    eventually(&format!("{name} is {phase}"), is_so).await
}

async fn suspend(flows: &Api<JobFlow>, is: bool) -> anyhow::Result<()> {
    let patch = json!({"metadata": {"annotations": {names::FLOW_SUSPENDED: is.then_some("true")}}});
    flows.patch("f", &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

/// The jobs that were ever there, and in which order they began: each once, and none before what it waits for.
#[derive(Default)]
struct Chronicle(BTreeMap<String, String>);

impl Chronicle {
    fn note(&mut self, pods: &[Pod], completed: &[String]) {
        for pod in pods {
            let job = pod.labels().get(names::JOB_NAME).cloned().unwrap_or_default();
            let owner = pod.owner_references()[0].uid.clone();
            let known = self.0.entry(job.clone()).or_insert_with(|| {
                let needs: &[&str] = match job.as_str() {
                    "f-c" => &["f-a"],
                    "f-d" => &["f-a", "f-b"],
                    "f-e" => &["f-c", "f-d"],
                    _ => &[],
                };
                assert!(needs.iter().all(|need| completed.iter().any(|done| done == need)), "{job} began too early");
                owner.clone()
            });
            assert_eq!(*known, owner, "{job} was made twice");
        }
    }
}

async fn story(seed: u64) -> anyhow::Result<()> {
    let mut chance = Chance::new(seed);
    let mut cluster = Cluster::start_batch(seed).await?;
    let admission = admit_all(&cluster.client);
    let chronicle = Arc::new(Mutex::new(Chronicle::default()));
    let habits = Habits { ends: 50, fails: 15 };
    let node = node::start(&cluster.client, &cluster.clock, seed, habits, Box::new(|_| {})).await?;
    let flows: Api<JobFlow> = Api::default_namespaced(cluster.client.clone());
    let jobs: Api<Job> = Api::default_namespaced(cluster.client.clone());
    let pods: Api<Pod> = Api::default_namespaced(cluster.client.clone());
    create_templates(&cluster, &TEMPLATES).await?;
    flows.create(&PostParams::default(), &flow("f", "delete")).await?;
    let watcher = {
        let (chronicle, jobs, pods) = (chronicle.clone(), jobs.clone(), pods.clone());
        tokio::spawn(async move {
            loop {
                // Pods first: what was complete when they were made is complete when jobs are listed.
                let made = pods.list(&ListParams::default()).await.expect("pods").items;
                let all = jobs.list(&ListParams::default()).await.expect("jobs").items;
                let is_done =
                    |job: &Job| job.status.as_ref().and_then(|it| it.state.phase) == Some(JobPhase::Completed);
                let completed: Vec<String> = all.iter().filter(|job| is_done(job)).map(ResourceExt::name_any).collect();
                chronicle.lock().note(&made, &completed);
                // No pod comes and goes, and no job is deleted after it, between two looks.
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        })
    };
    for round in 0..chance.between(4, 8) {
        suspend(&flows, round % 2 == 1).await?;
        tokio::time::sleep(chance.time_up_to(Duration::from_secs(10))).await;
        cluster.kill(&mut chance).await;
    }
    suspend(&flows, false).await?;
    become_phase(&flows, "f", JobFlowPhase::Succeed).await?;
    eventually("the jobs are deleted", async || Ok(jobs.list(&ListParams::default()).await?.items.is_empty())).await?;
    anyhow::ensure!(!watcher.is_finished(), "seed {seed}: {:?}", watcher.await);
    watcher.abort();
    let status = flows.get("f").await?.status.unwrap_or_default();
    assert_eq!(status.completed_jobs, ["f-a", "f-b", "f-c", "f-d", "f-e"], "seed {seed}");
    assert_eq!(chronicle.lock().0.len(), TEMPLATES.len(), "seed {seed}");
    admission.abort();
    node.stop().await?;
    cluster.stop().await;
    Ok(())
}

/// Each seed is another story.
mod every_job_runs_once_and_in_its_turn_whatever_dies {
    crate::stories!(seed_0: 0, seed_1: 1, seed_2: 2, seed_3: 3);
}

#[tokio::test(start_paused = true)]
async fn a_suspended_flow_starts_nothing_until_it_is_resumed() -> anyhow::Result<()> {
    let mut cluster = Cluster::start_batch(5).await?;
    let mut chance = Chance::new(5);
    let flows: Api<JobFlow> = Api::default_namespaced(cluster.client.clone());
    let jobs: Api<Job> = Api::default_namespaced(cluster.client.clone());
    create_templates(&cluster, &TEMPLATES).await?;
    let mut waiting = flow("f", "retain");
    waiting.annotations_mut().insert(names::FLOW_SUSPENDED.to_owned(), "true".to_owned());
    flows.create(&PostParams::default(), &waiting).await?;
    let says_so = async || Ok(flows.get("f").await?.status.unwrap_or_default().state.reason == "Suspended");
    eventually("it says so", says_so).await?;
    cluster.kill(&mut chance).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(jobs.list(&ListParams::default()).await?.items.is_empty(), "nothing started, also after a restart");
    suspend(&flows, false).await?;
    eventually("the first two start", async || {
        let names: Vec<String> = jobs.list(&ListParams::default()).await?.iter().map(ResourceExt::name_any).collect();
        Ok(names == ["f-a", "f-b"])
    })
    .await?;
    cluster.stop().await;
    Ok(())
}

async fn messages(cluster: &Cluster) -> anyhow::Result<Vec<String>> {
    let events = Api::<Event>::default_namespaced(cluster.client.clone()).list(&ListParams::default()).await?;
    Ok(events.into_iter().filter_map(|event| event.message).collect())
}

#[tokio::test(start_paused = true)]
async fn a_wrong_flow_is_refused_or_where_nobody_refuses_it_told() -> anyhow::Result<()> {
    let circle: Value = json!([
        {"name": "a", "dependsOn": {"targets": ["b"]}}, {"name": "b", "dependsOn": {"targets": ["a", "x"]}},
    ]);
    let wrong = json!({"metadata": {"name": "w"}, "spec": {"flows": circle}});
    let why = "jobflow Flow is not DAG: \"a\" waits for \"b\" waits for itself";
    let strict = Cluster::start_batch(1).await?;
    let flows: Api<JobFlow> = Api::default_namespaced(strict.client.clone());
    let refused = flows.create(&PostParams::default(), &serde_json::from_value(wrong.clone())?).await;
    let text = refused.expect_err("a circle").to_string();
    assert!(text.contains(why) && text.contains("there is no flow \"x\""), "{text}");
    strict.stop().await;

    let lax = Cluster::start_batch(2).await?;
    let flows: Api<JobFlow> = Api::default_namespaced(lax.client.clone());
    flows.create(&PostParams::default(), &serde_json::from_value(wrong)?).await?;
    become_phase(&flows, "w", JobFlowPhase::Pending).await?;
    let state = flows.get("w").await?.status.unwrap_or_default().state;
    assert!(state.reason == "InvalidJobFlow" && state.message.contains(why), "{state:?}");
    eventually("an event", async || Ok(messages(&lax).await?.iter().any(|text| text.contains(why)))).await?;
    lax.stop().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_flow_waits_for_templates_and_takes_its_jobs_along() -> anyhow::Result<()> {
    let cluster = Cluster::start_batch(1).await?;
    let (flows, jobs): (Api<JobFlow>, Api<Job>) =
        (Api::default_namespaced(cluster.client.clone()), Api::default_namespaced(cluster.client.clone()));
    flows.create(&PostParams::default(), &flow("f", "retain")).await?;
    let message = async || Ok::<_, anyhow::Error>(flows.get("f").await?.status.unwrap_or_default().state.message);
    eventually("it says what is missing", async || Ok(message().await? == "there is no JobTemplate `a`")).await?;
    let mine: Job = serde_json::from_value(json!({"metadata": {"name": "f-a"}, "spec": {"tasks": [
        {"name": "w", "replicas": 1, "template": {"spec": {"containers": [{"name": "c", "image": "x"}]}}}]}}))?;
    jobs.create(&PostParams::default(), &mine).await?;
    create_templates(&cluster, &TEMPLATES).await?;
    let taken = "Job f-a exists and does not belong to this job";
    let goes_on = async || Ok(message().await? == taken && jobs.get_opt("f-b").await?.is_some());
    eventually("it says that a name is taken, and the other job begins", goes_on).await?;
    jobs.delete("f-a", &DeleteParams::background()).await?;
    let has_both = async || {
        let names: Vec<String> = jobs.list(&ListParams::default()).await?.iter().map(ResourceExt::name_any).collect();
        Ok(names == ["f-a", "f-b"] && message().await?.is_empty())
    };
    eventually("both begin when the name is free", has_both).await?;
    flows.delete("f", &DeleteParams::foreground()).await?;
    eventually("its jobs go with it", async || {
        Ok(flows.get_opt("f").await?.is_none() && jobs.list(&ListParams::default()).await?.items.is_empty())
    })
    .await?;
    cluster.stop().await;
    Ok(())
}
