//! Stories of CronJobs: schedules, and controllers that are killed between any two requests.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::core::v1::Event;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use parking_lot::Mutex;
use ronde_api::{CronJob, Job, names};
use serde_json::json;

use crate::{
    chance::Chance,
    cluster::{Cluster, eventually},
    node::{self, Habits},
    queues::admit_all,
};

/// How long a story is watched.
const MINUTES: u64 = 12;

fn cron(schedule: &str, policy: &str) -> CronJob {
    let pod = json!({"spec": {"containers": [{"name": "c", "image": "x"}], "restartPolicy": "Never"}});
    let template = json!({"spec": {"tasks": [{"name": "w", "replicas": 1, "template": pod}]}});
    let spec = json!({"schedule": schedule, "concurrencyPolicy": policy, "jobTemplate": template});
    serde_json::from_value(json!({"metadata": {"name": "c"}, "spec": spec})).expect("a CronJob")
}

/// The uid of each job that was ever there.
type Chronicle = Arc<Mutex<BTreeMap<String, BTreeSet<String>>>>;

fn watch(jobs: Api<Job>, chronicle: Chronicle) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            for job in jobs.list(&ListParams::default()).await.expect("jobs").items {
                chronicle.lock().entry(job.name_any()).or_default().insert(job.uid().unwrap_or_default());
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    })
}

async fn story(seed: u64) -> anyhow::Result<()> {
    let mut chance = Chance::new(seed);
    let mut cluster = Cluster::start_batch(seed).await?;
    let admission = admit_all(&cluster.client);
    let habits = Habits { ends: 50, fails: 15 };
    let node = node::start(&cluster.client, &cluster.clock, seed, habits, Box::new(|_| {})).await?;
    let crons: Api<CronJob> = Api::default_namespaced(cluster.client.clone());
    let jobs: Api<Job> = Api::default_namespaced(cluster.client.clone());
    let chronicle = Chronicle::default();
    let watcher = watch(jobs.clone(), chronicle.clone());
    let begun = cluster.clock.now();
    let made = crons.create(&PostParams::default(), &cron("* * * * *", "Allow")).await?;
    while cluster.clock.now().duration_since(begun).as_secs() < i64::try_from(MINUTES * 60)? {
        tokio::time::sleep(chance.time_up_to(Duration::from_secs(60))).await;
        cluster.kill(&mut chance).await;
    }
    let is_accounted_for = async || {
        let status = crons.get("c").await?.status.unwrap_or_default();
        let now = cluster.clock.now();
        let last = status.last_schedule_time.map_or(now, |time| time.0);
        let is_made = status.active.iter().all(|entry| entry.uid.is_some());
        let first = made.creation_timestamp().expect("a time").0.as_second() / 60;
        let due = last.as_second() / 60 - first;
        let started = i64::try_from(chronicle.lock().len())?;
        Ok(is_made && now.duration_since(last).as_secs() < 60 && due == started + status.missed_runs)
    };
    eventually("every run has started or is counted", is_accounted_for).await?;
    anyhow::ensure!(!watcher.is_finished(), "seed {seed}: {:?}", watcher.await);
    watcher.abort();
    for (job, uids) in &*chronicle.lock() {
        anyhow::ensure!(uids.len() == 1, "seed {seed}: {job} was made {} times", uids.len());
    }
    admission.abort();
    node.stop().await?;
    cluster.stop().await;
    Ok(())
}

/// Each seed is another story.
mod every_run_starts_once_or_is_counted_whatever_dies {
    crate::stories!(seed_0: 0, seed_1: 1, seed_2: 2, seed_3: 3);
}

#[tokio::test(start_paused = true)]
async fn a_cron_replaces_its_jobs_and_takes_them_along() -> anyhow::Result<()> {
    let cluster = Cluster::start_batch(1).await?;
    let crons: Api<CronJob> = Api::default_namespaced(cluster.client.clone());
    let jobs: Api<Job> = Api::default_namespaced(cluster.client.clone());
    crons.create(&PostParams::default(), &cron("* * * * *", "Replace")).await?;
    let chronicle = Chronicle::default();
    let watcher = watch(jobs.clone(), chronicle.clone());
    eventually("three have run", async || Ok(chronicle.lock().len() >= 3)).await?;
    watcher.abort();
    let is_alone = async || {
        let active = crons.get("c").await?.status.unwrap_or_default().active;
        let there: Vec<String> = jobs.list(&ListParams::default()).await?.iter().map(ResourceExt::name_any).collect();
        Ok(active.len() == 1 && active[0].name.as_ref() == there.first() && there.len() == 1)
    };
    eventually("only the last one is there", is_alone).await?;
    let name = jobs.list(&ListParams::default()).await?.items[0].clone();
    assert!(name.annotations().contains_key(names::SCHEDULED_AT));
    crons.delete("c", &DeleteParams::foreground()).await?;
    eventually("its jobs go with it", async || {
        Ok(crons.get_opt("c").await?.is_none() && jobs.list(&ListParams::default()).await?.items.is_empty())
    })
    .await?;
    cluster.stop().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_wrong_cron_is_refused_or_where_nobody_refuses_it_told() -> anyhow::Result<()> {
    let why = "spec.schedule: \"61 * * * *\" is not a schedule";
    let strict = Cluster::start_batch(1).await?;
    let crons: Api<CronJob> = Api::default_namespaced(strict.client.clone());
    let refused = crons.create(&PostParams::default(), &cron("61 * * * *", "Allow")).await;
    let text = refused.expect_err("a schedule that is none").to_string();
    assert!(text.contains("spec.schedule") && text.contains("found 61"), "{text}");
    strict.stop().await;

    let lax = Cluster::start_batch(2).await?;
    let crons: Api<CronJob> = Api::default_namespaced(lax.client.clone());
    let refused = crons.create(&PostParams::default(), &cron("* * * * *", "Never")).await;
    assert!(refused.expect_err("a policy that is none").to_string().contains("concurrencyPolicy"));
    crons.create(&PostParams::default(), &cron("61 * * * *", "Allow")).await?;
    let state = async || {
        let status = crons.get("c").await?.status.unwrap_or_default();
        Ok(status.reason == "InvalidCronJob" && status.message.starts_with(why))
    };
    eventually("its status says why", state).await?;
    let events: Api<Event> = Api::default_namespaced(lax.client.clone());
    eventually("an event", async || {
        let events = events.list(&ListParams::default()).await?;
        Ok(events.iter().any(|event| event.message.as_deref().is_some_and(|text| text.starts_with(why))))
    })
    .await?;
    lax.stop().await;
    Ok(())
}
