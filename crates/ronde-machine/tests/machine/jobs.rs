//! Volcano's jobs with the real scheduler: what neither of the two shows alone.

use std::{
    future::ready,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::FutureExt as _;
use http::Method;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::{
    ResourceExt as _,
    api::{Patch, PatchParams},
};
use ronde_api::{Command, Job, PodGroup, names};
use ronde_runtime::podstatus::node_of;
use serde_json::json;
use tokio::task::JoinHandle;

use crate::{
    cluster::{Before, Cluster, Running, create, delete, names as names_of, patch, within},
    kubelet,
};

/// Longer than the rest of a gang may stay without the others.
const LONG: Duration = Duration::from_secs(900);

/// A cluster with room for a job of three workers that needs all of them, and the job.
struct Stage {
    cluster: Cluster,
    running: Running,
    node: JoinHandle<()>,
}

impl Stage {
    async fn start() -> anyhow::Result<Self> {
        let cluster = Cluster::start().await?;
        let running = cluster.control().await?;
        let stage = Self::submit(cluster, running).await?;
        stage.becomes("Running 3 0").await?;
        Ok(stage)
    }

    async fn submit(cluster: Cluster, running: Running) -> anyhow::Result<Self> {
        let node = kubelet::start(&cluster, "n1", json!({"cpu": "4"})).await?;
        let container = json!({"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}});
        let template = json!({"spec": {"restartPolicy": "Never", "containers": [container]}});
        let task = json!({"name": "w", "replicas": 3, "template": template});
        create(&cluster.api::<Job>(), json!({"metadata": {"name": "lm"}, "spec": {"tasks": [task]}})).await?;
        Ok(Self { cluster, running, node })
    }

    async fn level(cluster: &Cluster, level: &str) -> anyhow::Result<()> {
        let label = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": level}}});
        patch(&cluster.all::<Namespace>(), "default", label).await?;
        Ok(())
    }

    /// Waits for a phase and numbers of running and succeeded pods.
    async fn becomes(&self, wanted: &str) -> anyhow::Result<()> {
        let look = || async {
            let status = self.cluster.api::<Job>().get("lm").await?.status.unwrap_or_default();
            let phase = status.state.phase.map(|phase| phase.to_string()).unwrap_or_default();
            let found = format!("{phase} {} {}", status.running, status.succeeded);
            Ok((found == wanted).then_some(()))
        };
        let seen = within(&format!("the job is {wanted}"), LONG, look).await;
        if let Err(error) = seen {
            let groups = self.cluster.api::<PodGroup>().list(&kube::api::ListParams::default()).await?;
            anyhow::bail!("{error}: {:?}", groups.items.iter().map(|group| &group.status).collect::<Vec<_>>());
        }
        Ok(())
    }

    /// Lets a worker succeed and removes it.
    async fn succeed_and_go(&self, name: &str) -> anyhow::Result<()> {
        let done = Patch::Strategic(json!({"status": {"phase": "Succeeded"}}));
        self.cluster.api::<Pod>().patch_status(name, &PatchParams::default(), &done).await?;
        self.becomes("Running 2 1").await?;
        self.evict(name).await
    }

    /// Deletes a pod and waits until it is gone, or another one in its place.
    async fn evict(&self, name: &str) -> anyhow::Result<()> {
        let pods = self.cluster.api::<Pod>();
        let uid = pods.get(name).await?.uid();
        delete(&pods, name).await?;
        let look = || async { Ok(pods.get_opt(name).await?.is_none_or(|pod| pod.uid() != uid).then_some(())) };
        within("the pod is gone", LONG, look).await?;
        Ok(())
    }

    async fn command(&self, action: &str) -> anyhow::Result<()> {
        let target = json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "lm", "uid": ""});
        let meta = json!({"generateName": "lm-"});
        create(&self.cluster.api::<Command>(), json!({"metadata": meta, "action": action, "target": target})).await?;
        Ok(())
    }

    async fn end(self) {
        self.running.stop().await;
        self.node.abort();
        self.cluster.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_comes_back_although_another_has_succeeded_and_is_gone() -> anyhow::Result<()> {
    let stage = Stage::start().await?;
    let survivor = stage.cluster.api::<Pod>().get("lm-w-2").await?.uid();
    stage.succeed_and_go("lm-w-0").await?;
    stage.evict("lm-w-1").await?;
    stage.becomes("Running 2 1").await?;
    // The rest of a gang that is not whole would have to go by then.
    tokio::time::sleep(LONG).await;
    stage.becomes("Running 2 1").await?;
    assert_eq!(stage.cluster.api::<Pod>().get("lm-w-2").await?.uid(), survivor, "it was let alone");
    stage.end().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_job_is_resumed_although_a_worker_has_succeeded_and_is_gone() -> anyhow::Result<()> {
    let stage = Stage::start().await?;
    stage.succeed_and_go("lm-w-0").await?;
    stage.command("AbortJob").await?;
    stage.becomes("Aborted 0 1").await?;
    stage.command("ResumeJob").await?;
    stage.becomes("Running 2 1").await?;
    let pods = stage.cluster.api::<Pod>();
    assert_eq!(names_of(&pods).await?, ["lm-w-1", "lm-w-2"]);
    assert_eq!(node_of(&pods.get("lm-w-1").await?), "n1");
    let job = stage.cluster.api::<Job>().get("lm").await?;
    let group = names::pod_group("lm", &job.uid().unwrap_or_default());
    let spec = stage.cluster.api::<PodGroup>().get(&group).await?.spec;
    let asked = spec.min_resources.and_then(|amounts| amounts.get("cpu").map(|cpu| cpu.0.clone()));
    assert_eq!((spec.min_member, spec.min_task_member.get("w"), asked.as_deref()), (2, Some(&2), Some("2")));
    stage.end().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn pods_that_are_refused_are_asked_for_once_a_minute_and_come_when_they_may() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    Stage::level(&cluster, "restricted").await?;
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = asked.clone();
    let before: Before = Arc::new(move |method, path| {
        counter.fetch_add(usize::from(method == Method::POST && path.ends_with("/pods")), Ordering::Relaxed);
        ready(()).boxed()
    });
    let running = cluster.control_with(before).await?;
    let stage = Stage::submit(cluster, running).await?;
    stage.becomes("Pending 0 0").await?;
    tokio::time::sleep(Duration::from_secs(20 * 60)).await;
    // Twice as long after each refusal, from 5 ms to a minute: 14 of them in the first.
    let count = asked.load(Ordering::Relaxed);
    assert!((20..=20 + 20).contains(&count), "{count} times in twenty minutes");
    let status = stage.cluster.api::<Job>().get("lm").await?.status.unwrap_or_default();
    assert!(status.state.message.contains("violates PodSecurity"), "{}", status.state.message);
    let events = stage.cluster.events("lm").await?;
    assert_eq!(events.iter().filter(|event| event.contains("FailedCreate")).count(), 1, "{events:?}");
    Stage::level(&stage.cluster, "baseline").await?;
    tokio::time::sleep(Duration::from_secs(90)).await;
    stage.becomes("Running 3 0").await?;
    stage.end().await;
    Ok(())
}
