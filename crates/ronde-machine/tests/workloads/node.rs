//! A toy node: binds pods, lets them become ready and end, and removes those that are deleted, all in its own time.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Node as NodeObject, Pod},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use parking_lot::Mutex;
use ronde_runtime::{
    pods::{is_deleted, is_finished, phase},
    runner::Clock,
};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::chance::Chance;

/// How the node treats pods.
#[derive(Debug, Clone, Copy, Default)]
pub struct Habits {
    /// In how many cases of a hundred a running pod ends in a while.
    pub ends: u64,
    /// How many of a hundred ends are failures.
    pub fails: u64,
}

/// The ends of pods, by uid: what the controllers must have counted.
pub type Ends = Arc<Mutex<BTreeMap<String, &'static str>>>;

/// Called with all pods before the node does anything.
pub type Check = Box<dyn Fn(&[Pod]) + Send + Sync>;

/// A node that runs.
pub struct Running {
    pub ends: Ends,
    task: JoinHandle<()>,
}

impl Running {
    /// Stops the node; fails if a check had failed.
    pub async fn stop(self) -> anyhow::Result<()> {
        if self.task.is_finished() {
            self.task.await?;
        } else {
            self.task.abort();
        }
        Ok(())
    }
}

pub struct Node {
    pods: Api<Pod>,
    clock: Clock,
    chance: Chance,
    habits: Habits,
    ends: Ends,
    check: Check,
}

/// Starts a node that runs until the test ends.
pub async fn start(client: &Client, clock: &Clock, seed: u64, habits: Habits, check: Check) -> anyhow::Result<Running> {
    let nodes: Api<NodeObject> = Api::all(client.clone());
    nodes.create(&PostParams::default(), &serde_json::from_value(json!({"metadata": {"name": "toy"}}))?).await?;
    let ends = Ends::default();
    let pods = Api::default_namespaced(client.clone());
    let mut node = Node { pods, clock: clock.clone(), chance: Chance::new(seed), habits, ends: ends.clone(), check };
    let task = tokio::spawn(async move {
        loop {
            node.tick().await.expect("the server answers the node");
            let pause = node.chance.time_up_to(Duration::from_secs(2));
            tokio::time::sleep(pause).await;
        }
    });
    Ok(Running { ends, task })
}

impl Node {
    async fn tick(&mut self) -> anyhow::Result<()> {
        let pods = self.pods.list(&ListParams::default()).await?.items;
        (self.check)(&pods);
        for pod in pods {
            if self.chance.percent(60) {
                let done = self.advance(&pod).await;
                // It may have gone, or be another by now.
                if let Err(error) = done
                    && !matches!(&error, kube::Error::Api(status) if matches!(status.code, 404 | 409))
                {
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }

    async fn advance(&mut self, pod: &Pod) -> Result<(), kube::Error> {
        let is_bound = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
        match phase(pod) {
            _ if is_deleted(pod) => self.remove(pod).await,
            _ if is_finished(pod) => Ok(()),
            "Pending" if !is_bound => self.bind(pod).await,
            "Pending" => self.report(pod, running(self.clock.now())).await,
            _ if self.chance.percent(self.habits.ends) => self.end(pod).await,
            _ => Ok(()),
        }
    }

    async fn bind(&self, pod: &Pod) -> Result<(), kube::Error> {
        let target = json!({"apiVersion": "v1", "kind": "Node", "name": "toy"});
        let binding =
            json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod.name_any()}, "target": target});
        let params = PostParams::default();
        self.pods.create_subresource::<_, Value>("binding", &pod.name_any(), &params, &binding).await.map(drop)
    }

    async fn end(&mut self, pod: &Pod) -> Result<(), kube::Error> {
        let phase = if self.chance.percent(self.habits.fails) { "Failed" } else { "Succeeded" };
        self.report(pod, ended(phase, self.clock.now())).await?;
        self.ends.lock().insert(pod.uid().unwrap_or_default(), phase);
        Ok(())
    }

    async fn remove(&self, pod: &Pod) -> Result<(), kube::Error> {
        if !is_finished(pod) {
            self.report(pod, ended("Failed", self.clock.now())).await?;
        }
        self.pods
            .delete(&pod.name_any(), &DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() })
            .await?;
        Ok(())
    }

    async fn report(&self, pod: &Pod, status: Value) -> Result<(), kube::Error> {
        let patch = json!({"metadata": {"resourceVersion": pod.resource_version()}, "status": status});
        self.pods.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
    }
}

fn running(now: Timestamp) -> Value {
    json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": Time(now)}]})
}

fn ended(phase: &str, now: Timestamp) -> Value {
    let ready = json!({"type": "Ready", "status": "False", "lastTransitionTime": Time(now)});
    json!({"phase": phase, "conditions": [ready]})
}
