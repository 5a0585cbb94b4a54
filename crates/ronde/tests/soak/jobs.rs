//! The stream of jobs, and how each of them has to end.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, api::PostParams};
use ronde_api::JobPhase;
use serde_json::{Value, json};

use crate::{
    cluster::{Cluster, NAMESPACE},
    dice::Dice,
};

/// Two or three times of what the nodes have room for: some always wait.
const OPEN_MAX: usize = 12;
const PODS_MAX: u64 = 5;
/// So many restarts by evictions are more than a run brings.
const RETRIES: u64 = 1000;

/// Jobs that were not deleted by their user, and how they have to end.
pub struct Jobs {
    next: u64,
    pub wanted: BTreeMap<String, JobPhase>,
    done: BTreeMap<&'static str, u64>,
}

/// A kind of job: how its pods end, what it does about that, and how it ends then.
struct Plan {
    name: &'static str,
    /// The exit code of its pods.
    exit: &'static str,
    on_failure: &'static str,
    retries: u64,
    end: JobPhase,
}

const PLANS: [Plan; 5] = [
    Plan { name: "succeeds", exit: "0", on_failure: "RestartJob", retries: RETRIES, end: JobPhase::Completed },
    Plan { name: "terminates", exit: "1", on_failure: "TerminateJob", retries: RETRIES, end: JobPhase::Terminated },
    Plan { name: "aborts", exit: "1", on_failure: "AbortJob", retries: RETRIES, end: JobPhase::Aborted },
    Plan { name: "completes", exit: "1", on_failure: "CompleteJob", retries: RETRIES, end: JobPhase::Completed },
    Plan { name: "gives-up", exit: "1", on_failure: "RestartJob", retries: 1, end: JobPhase::Failed },
];

impl Jobs {
    pub async fn begin(cluster: &Cluster) -> Self {
        let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}})).unwrap();
        Api::all(cluster.client.clone()).create(&PostParams::default(), &namespace).await.unwrap();
        crate::verdict::wait_for_kinds(cluster).await;
        Self { next: 0, wanted: BTreeMap::new(), done: BTreeMap::new() }
    }

    /// Submits a job or deletes one, and says which.
    pub async fn one(&mut self, cluster: &Cluster, dice: &mut Dice) -> String {
        let jobs = cluster.list::<ronde_api::Job>().await;
        let open: Vec<_> = jobs.iter().filter(|job| !crate::verdict::has_ended(job)).collect();
        let (kind, what) = match dice.below(8) {
            0 => ("deleted", self.delete(cluster, dice).await),
            _ if open.len() >= OPEN_MAX => return format!("{} jobs are enough", open.len()),
            _ => ("submitted", self.submit(cluster, dice).await),
        };
        *self.done.entry(kind).or_default() += 1;
        what
    }

    pub fn summary(&self) -> String {
        let done: Vec<_> = self.done.iter().map(|(what, count)| format!("{count} {what}")).collect();
        format!("{} jobs {}", self.next, done.join(", "))
    }

    async fn submit(&mut self, cluster: &Cluster, dice: &mut Dice) -> String {
        let plan = dice.pick(&PLANS).unwrap();
        self.next += 1;
        let (name, pods) = (format!("{}-{}", plan.name, self.next), 1 + dice.below(PODS_MAX));
        cluster.create::<ronde_api::Job>(job(&name, plan, pods)).await;
        self.wanted.insert(name.clone(), plan.end);
        format!("submit {name} of {pods}")
    }

    async fn delete(&mut self, cluster: &Cluster, dice: &mut Dice) -> String {
        let names: Vec<String> = self.wanted.keys().cloned().collect();
        let Some(name) = dice.pick(&names) else { return "no job to delete".to_owned() };
        self.wanted.remove(name);
        cluster.delete::<ronde_api::Job>(name, None).await;
        format!("delete {name}")
    }
}

/// Every member that is lost is a reason to start all of them again: what is left alone would run in part.
fn job(name: &str, plan: &Plan, pods: u64) -> Value {
    let template = json!({
        "metadata": {"labels": {"ronde.test/exit": plan.exit}},
        "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [{
            "name": "main", "image": "example.test/worker:1", "resources": {"requests": {"cpu": "500m"}},
        }]},
    });
    json!({"metadata": {"name": name}, "spec": {
        "schedulerName": "volcano", "minAvailable": pods, "maxRetry": plan.retries, "plugins": {"svc": [], "ssh": []},
        "policies": [
            {"event": "PodEvicted", "action": "RestartJob"}, {"event": "PodFailed", "action": plan.on_failure},
        ],
        "tasks": [{"name": "worker", "replicas": pods, "template": template}],
    }})
}
