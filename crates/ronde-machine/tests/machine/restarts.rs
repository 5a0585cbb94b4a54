//! Jobs come up again after a restart, whatever the order in which requests are answered and watches are lost.

use std::{sync::Arc, time::Duration};

use futures::FutureExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt as _, api::ListParams};
use parking_lot::Mutex;
use ronde_api::{Command, Job, JobPhase, PodGroup};
use ronde_runtime::pods::{is_deleted, phase};
use serde_json::{Value, json};
use tokio::{task::JoinHandle, time::sleep};

use crate::{
    chance::Chance,
    cluster::{Before, Cluster, Running, create, delete, within},
    kubelet,
};

/// The nodes look every few milliseconds, so this is long.
const SOON: Duration = Duration::from_secs(3);
/// How long a request of the controllers takes at most.
const SLOW: Duration = Duration::from_millis(20);

/// A job of three pods on a node that is quick, and controllers whose requests take their time.
struct World {
    cluster: Cluster,
    running: Running,
    node: JoinHandle<()>,
    jobs: Api<Job>,
    pods: Api<Pod>,
}

impl World {
    async fn start(seed: u64) -> anyhow::Result<Self> {
        let cluster = Cluster::start().await?;
        let node = kubelet::start(&cluster, "n1", json!({"cpu": "4", "paceMillis": 10})).await?;
        let chance = Arc::new(Mutex::new(Chance::new(seed)));
        let slowly: Before = Arc::new(move |_, _| sleep(chance.lock().time_up_to(SLOW)).boxed());
        let running = cluster.control_with(slowly).await?;
        let (jobs, pods) = (cluster.api::<Job>(), cluster.api::<Pod>());
        create(&jobs, job()).await?;
        let world = Self { cluster, running, node, jobs, pods };
        world.runs(0).await?;
        Ok(world)
    }

    /// Waits until all pods of a run run.
    async fn runs(&self, version: i32) -> anyhow::Result<()> {
        let look = || async {
            let status = self.jobs.get("lm").await?.status.unwrap_or_default();
            let pods = self.pods.list(&ListParams::default()).await?.items;
            let up = pods.iter().filter(|pod| phase(pod) == "Running" && !is_deleted(pod)).count();
            let is_so = status.version == version && status.state.phase == Some(JobPhase::Running) && up == 3;
            Ok((is_so && status.running == 3).then_some(()))
        };
        let seen = within(&format!("run {version} comes up"), SOON, look).await;
        if let Err(error) = seen {
            let state = self.jobs.get("lm").await?.status.unwrap_or_default().state;
            let groups = self.cluster.api::<PodGroup>().list(&ListParams::default()).await?.items;
            anyhow::bail!("{error}: {state:?}, {:?}", groups.into_iter().map(|group| group.status).collect::<Vec<_>>());
        }
        Ok(())
    }

    async fn command(&self, action: &str) -> anyhow::Result<()> {
        let uid = self.jobs.get("lm").await?.uid();
        let target = json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "lm", "uid": uid});
        let command = json!({"metadata": {"generateName": "lm-"}, "action": action, "target": target});
        create(&self.cluster.api::<Command>(), command).await.map(drop)
    }

    async fn end(self) {
        self.running.stop().await;
        self.node.abort();
        self.cluster.stop().await;
    }
}

fn job() -> Value {
    let container = json!({"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}});
    let template = json!({"spec": {"containers": [container], "restartPolicy": "Never"}});
    let spec = json!({
        "minAvailable": 3, "maxRetry": 1000, "schedulerName": "volcano", "queue": "default",
        "policies": [{"event": "PodEvicted", "action": "RestartJob"}],
        "tasks": [{"name": "w", "replicas": 3, "template": template}],
    });
    json!({"metadata": {"name": "lm"}, "spec": spec})
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_told_to_restart_comes_up_again() -> anyhow::Result<()> {
    for seed in 0..3 {
        let world = World::start(seed).await?;
        for version in 1..=4 {
            world.command("RestartJob").await?;
            world.runs(version).await.map_err(|error| error.context(format!("seed {seed}")))?;
        }
        world.end().await;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_job_comes_up_again_although_watches_are_lost_meanwhile() -> anyhow::Result<()> {
    for seed in 0..3 {
        let world = World::start(seed).await?;
        let mut chance = Chance::new(seed);
        for version in 1..=4 {
            delete(&world.pods, "lm-w-1").await?;
            sleep(chance.time_up_to(Duration::from_millis(100))).await;
            let kinds = ["podgroups", "pods", "jobs"];
            let lost = chance.between(0, 2);
            world.cluster.cuts.send(kinds[usize::try_from(lost)?])?;
            world.runs(version).await.map_err(|error| error.context(format!("seed {seed}")))?;
        }
        world.end().await;
    }
    Ok(())
}
