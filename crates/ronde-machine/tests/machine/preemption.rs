//! Jobs that are preempted again and again, by the real scheduler: they wait, run again and complete, whatever is killed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use futures::{
    FutureExt as _,
    future::{pending, ready},
};
use http::Method;
use jiff::Timestamp;
use k8s_openapi::api::{
    core::v1::{Namespace, Pod},
    scheduling::v1::PriorityClass,
};
use kube::{
    ResourceExt as _,
    api::{DeleteParams, ListParams},
};
use ronde_api::{Job, JobPhase, JobStatus, PodGroup, Queue, TrainingJob, TrainingJobPhase, TrainingJobStatus};
use ronde_control::scheduling::objects::groups;
use ronde_runtime::pods::{is_deleted, phase};
use serde_json::json;
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};

use crate::{
    cluster::{Before, Cluster, create, delete, patch, patch_status, within},
    kubelet,
};

const SOON: Duration = Duration::from_secs(120);
/// How long controllers live that are killed at a write: long enough to preempt.
const LIFE: Duration = Duration::from_secs(20);

/// A cluster with one node of four processors, and a class of priority.
struct World {
    cluster: Cluster,
    node: JoinHandle<()>,
}

impl World {
    async fn start() -> anyhow::Result<Self> {
        let cluster = Cluster::start().await?;
        let node = kubelet::start(&cluster, "n1", json!({"cpu": "4"})).await?;
        create(&cluster.all::<PriorityClass>(), json!({"metadata": {"name": "high"}, "value": 1000})).await?;
        Ok(Self { cluster, node })
    }

    /// Submits a job as `ronde submit pytorchjob` writes it; it may run once.
    async fn submit(&self, name: &str, class: &str) -> anyhow::Result<()> {
        let requests = json!({"requests": {"cpu": "1"}});
        let template = json!({"spec": {"restartPolicy": "Never", "containers": [
            {"name": "c", "image": "x", "resources": requests},
        ]}});
        let spec = json!({
            "maxRetry": 1, "minAvailable": 3, "priorityClassName": class,
            "policies": [{"events": ["PodFailed", "PodEvicted"], "action": "RestartJob"}],
            "tasks": [{"name": "worker", "replicas": 3, "template": template}],
        });
        create(&self.cluster.api::<Job>(), json!({"metadata": {"name": name}, "spec": spec})).await?;
        Ok(())
    }

    async fn status(&self, name: &str) -> anyhow::Result<JobStatus> {
        Ok(self.cluster.api::<Job>().get(name).await?.status.unwrap_or_default())
    }

    async fn wait_for(&self, name: &str, wanted: JobPhase) -> anyhow::Result<()> {
        let look = || async { Ok((self.status(name).await?.state.phase == Some(wanted)).then_some(())) };
        if let Err(error) = within(&format!("{name} is {wanted}"), SOON, look).await {
            anyhow::bail!("{error}: {:?} {:?}", self.status(name).await?, self.cluster.events(name).await?);
        }
        Ok(())
    }

    async fn says(&self, name: &str, what: &str) -> anyhow::Result<()> {
        let look = || async { Ok(self.status(name).await?.state.message.starts_with(what).then_some(())) };
        if within("it says why", SOON, look).await.is_err() {
            anyhow::bail!("it says {:?} instead of {what:?}", self.status(name).await?.state);
        }
        Ok(())
    }

    async fn complete(&self, name: &str) -> anyhow::Result<()> {
        for index in 0..3 {
            let ended = json!({"phase": "Succeeded"});
            patch_status(&self.cluster.api::<Pod>(), &format!("{name}-worker-{index}"), ended).await?;
        }
        self.wait_for(name, JobPhase::Completed).await
    }

    async fn remove(&self, name: &str) -> anyhow::Result<()> {
        self.cluster.api::<Job>().delete(name, &DeleteParams::background()).await?;
        let gone = || async {
            let pods = self.cluster.api::<Pod>().list(&ListParams::default()).await?;
            Ok((!pods.iter().any(|pod| pod.name_any().starts_with(&format!("{name}-")))).then_some(()))
        };
        within("its pods are gone", SOON, gone).await?;
        Ok(())
    }

    async fn end(self) {
        self.node.abort();
        self.cluster.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_preempted_again_and_again_completes() -> anyhow::Result<()> {
    let world = World::start().await?;
    let running = world.cluster.control().await?;
    world.submit("low", "").await?;
    world.wait_for("low", JobPhase::Running).await?;
    for _ in 0..4 {
        world.submit("hi", "high").await?;
        world.wait_for("hi", JobPhase::Running).await?;
        world.wait_for("low", JobPhase::Pending).await?;
        world.says("low", "preempted by hi (priority high); needs ").await?;
        world.remove("hi").await?;
        world.wait_for("low", JobPhase::Running).await?;
        world.says("low", "3 of 3 pods started").await?;
    }
    let events = world.cluster.events("low").await?;
    assert!(
        events.iter().any(|event| event.starts_with("Preempted pod low-worker-")
            && event.ends_with(" was preempted by hi (priority high)")),
        "{events:?}"
    );
    world.complete("low").await?;
    assert_eq!(world.status("low").await?.retry_count, 0);
    running.stop().await;
    world.end().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_pods_are_refused_says_why_until_they_are_not() -> anyhow::Result<()> {
    let world = World::start().await?;
    let running = world.cluster.control().await?;
    let label = "pod-security.kubernetes.io/enforce";
    patch(&world.cluster.all::<Namespace>(), "default", json!({"metadata": {"labels": {label: "baseline"}}})).await?;
    let template = json!({"spec": {"hostNetwork": true, "containers": [{"name": "c", "image": "x"}]}});
    let spec = json!({"tasks": [{"name": "worker", "replicas": 1, "template": template}]});
    create(&world.cluster.api::<Job>(), json!({"metadata": {"name": "host"}, "spec": spec})).await?;
    world.says("host", "pods \"host-worker-0\" is forbidden: violates PodSecurity \"baseline:latest\": host ").await?;
    let specs = json!({"launcher": {"template": template}, "worker": {"replicas": 1, "template": template}});
    let training = json!({"metadata": {"name": "lm"}, "spec": {"etReplicaSpecs": specs}});
    create(&world.cluster.api::<TrainingJob>(), training).await?;
    let says = || async {
        let status = world.cluster.api::<TrainingJob>().get("lm").await?.status.unwrap_or_default();
        Ok(status.message.contains("violates PodSecurity").then_some(()))
    };
    within("the training job says why", SOON, says).await?;
    patch(&world.cluster.all::<Namespace>(), "default", json!({"metadata": {"labels": {label: null}}})).await?;
    world.wait_for("host", JobPhase::Running).await?;
    assert!(!world.status("host").await?.state.message.contains("forbidden"));
    running.stop().await;
    world.end().await;
    Ok(())
}

/// Lets so many writes through and no write after them, as if the process were killed there.
fn fuse(writes: i64) -> (Before, Arc<AtomicI64>) {
    let left = Arc::new(AtomicI64::new(writes));
    let counter = left.clone();
    let before: Before = Arc::new(move |method, path| {
        let is_counted = method != Method::GET && !path.contains("/events") && !path.contains("/leases");
        let is_dead = is_counted && counter.fetch_sub(1, Ordering::Relaxed) <= 0;
        if is_dead { pending().boxed() } else { ready(()).boxed() }
    });
    (before, left)
}

#[tokio::test(start_paused = true)]
async fn a_preemption_costs_no_retry_whatever_is_killed_at_whichever_write() -> anyhow::Result<()> {
    let world = World::start().await?;
    // Every fourth moment on the way, to its end after about 60 writes: each takes most of a second.
    for writes in (0..).step_by(4) {
        assert!(writes < 200, "the controllers never stop writing");
        let running = world.cluster.control().await?;
        world.submit("low", "").await?;
        world.wait_for("low", JobPhase::Running).await?;
        running.stop().await;
        world.submit("hi", "high").await?;
        let (before, left) = fuse(writes);
        // Who is killed at one of the first writes has not even started.
        if let Ok(running) = timeout(LIFE, world.cluster.control_with(before)).await {
            sleep(LIFE).await;
            running?.kill();
        }
        let is_through = left.load(Ordering::Relaxed) >= 0;
        let running = world.cluster.control().await?;
        world.wait_for("hi", JobPhase::Running).await?;
        world.remove("hi").await?;
        world.wait_for("low", JobPhase::Running).await?;
        assert_eq!(world.status("low").await?.retry_count, 0, "after {writes} writes");
        world.complete("low").await?;
        world.remove("low").await?;
        running.stop().await;
        if is_through {
            break;
        }
    }
    world.end().await;
    Ok(())
}

/// Makes a training job whose launcher and workers are never started again after a failure.
async fn submit_training(world: &World) -> anyhow::Result<()> {
    let template = json!({"spec": {"containers": [
        {"name": "et", "image": "x", "command": ["train"], "resources": {"requests": {"cpu": "1"}}},
    ]}});
    let specs = json!({
        "launcher": {"restartPolicy": "Never", "template": template},
        "worker": {"replicas": 2, "minReplicas": 2, "restartPolicy": "Never", "template": template},
    });
    let spec = json!({"etReplicaSpecs": specs});
    create(&world.cluster.api::<TrainingJob>(), json!({"metadata": {"name": "lm"}, "spec": spec})).await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_training_job_that_is_preempted_waits_and_trains_again() -> anyhow::Result<()> {
    let world = World::start().await?;
    let running = world.cluster.control().await?;
    submit_training(&world).await?;
    let status = || async {
        let job = world.cluster.api::<TrainingJob>().get("lm").await?;
        anyhow::Ok(job.status.unwrap_or_default())
    };
    let wait_for = async |what: &str, test: &dyn Fn(&TrainingJobStatus) -> bool| {
        let look = || async { Ok(Some(status().await?).filter(|status| test(status))) };
        match within(what, SOON, look).await {
            Ok(_) => Ok(()),
            Err(error) => Err(anyhow::anyhow!("{error}: {:#?}", status().await?)),
        }
    };
    let trains = |status: &TrainingJobStatus| {
        status.phase == Some(TrainingJobPhase::Running) && status.current_workers.len() == 2
    };
    wait_for("it trains", &trains).await?;
    for _ in 0..3 {
        world.submit("hi", "high").await?;
        world.wait_for("hi", JobPhase::Running).await?;
        let says = |status: &TrainingJobStatus| status.message.starts_with("preempted by hi (priority high); ");
        wait_for("it says why it waits", &says).await?;
        world.remove("hi").await?;
        wait_for("it trains again", &trains).await?;
    }
    assert_eq!((status().await?.restart_count, status().await?.elastic.failures), (0, 0));
    let alive = world.cluster.api::<Pod>().list(&ListParams::default()).await?.items;
    let alive = alive.iter().filter(|pod| phase(pod) == "Running" && !is_deleted(pod)).count();
    assert_eq!(alive, 3, "a launcher and two workers");
    delete(&world.cluster.api::<TrainingJob>(), "lm").await?;
    running.stop().await;
    world.end().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_job_runs_for_its_time_before_it_is_preempted_whoever_starts_anew() -> anyhow::Result<()> {
    let world = World::start().await?;
    let running = world.cluster.control().await?;
    let queues = world.cluster.all::<Queue>();
    let there = || async { Ok(queues.get_opt("default").await?) };
    within("there is a queue", SOON, there).await?;
    patch(&queues, "default", json!({"spec": {"minRuntime": "5m"}})).await?;
    world.submit("low", "").await?;
    world.wait_for("low", JobPhase::Running).await?;
    world.submit("hi", "high").await?;
    let told = || async {
        let groups = world.cluster.api::<PodGroup>().list(&ListParams::default()).await?.items;
        let sentences = groups.iter().filter_map(groups::unschedulable).map(|told| told.message.clone());
        Ok(sentences.into_iter().find(|message| message.contains("; may preempt `default/low-")))
    };
    let (sentence, _) = within("it says when it may", SOON, told).await?;
    let until: Timestamp = sentence.rsplit(' ').next().unwrap_or_default().parse()?;
    sleep(Duration::from_secs(120)).await;
    assert_eq!(world.status("low").await?.state.phase, Some(JobPhase::Running), "its time is not over");
    running.kill();
    let running = world.cluster.control().await?;
    let minutes = Duration::from_secs(300);
    let preempted = || async { Ok((world.status("low").await?.state.phase == Some(JobPhase::Pending)).then_some(())) };
    within("low makes room", minutes, preempted).await?;
    assert!(world.cluster.clock.now() >= until, "not before the time that was told");
    world.wait_for("hi", JobPhase::Running).await?;
    running.stop().await;
    world.end().await;
    Ok(())
}
