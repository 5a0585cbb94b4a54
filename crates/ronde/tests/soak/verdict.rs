//! How everything has to be at the end.

use std::{collections::BTreeSet, future::Future, time::Duration};

use k8s_openapi::api::{
    core::v1::{ConfigMap, Pod, Secret, Service},
    networking::v1::NetworkPolicy,
};
use kube::{Api, ResourceExt as _, api::ListParams};
use ronde_api::{Command, Job, JobPhase, PodGroup, Queue};

use crate::{
    cluster::{Cluster, Kind},
    jobs::Jobs,
    now,
    operators::Operators,
};

/// A dozen jobs wait for room that takes seconds to become free, behind an operator that waits for its lease.
const LIMIT: Duration = Duration::from_secs(300);
const PAUSE: Duration = Duration::from_millis(500);
/// What a namespace has by itself.
const GIVEN: &str = "kube-root-ca.crt";

/// Waits until the first operator has told the cluster of our kinds.
pub async fn wait_for_kinds(cluster: &Cluster) {
    wait(|| async {
        let queue = Api::<Queue>::all(cluster.client.clone()).get("default").await;
        queue.err().map(|error| error.to_string()).into_iter().collect()
    })
    .await;
}

pub fn has_ended(job: &Job) -> bool {
    let phase = job.status.as_ref().and_then(|status| status.state.phase);
    phase.is_some_and(|phase| {
        matches!(phase, JobPhase::Completed | JobPhase::Failed | JobPhase::Aborted | JobPhase::Terminated)
    })
}

/// Waits until all jobs have ended as they have to, and no pod is without its job.
pub async fn wait_for_ends(cluster: &Cluster, jobs: &Jobs, operators: &mut Operators) {
    let begun = now();
    loop {
        operators.revive();
        let wrong = contradictions(cluster, jobs).await;
        if wrong.is_empty() {
            return;
        }
        assert!(begun.elapsed() < LIMIT, "after {LIMIT:?} of peace:\n  {}", wrong.join("\n  "));
        tokio::time::sleep(PAUSE).await;
    }
}

async fn contradictions(cluster: &Cluster, wanted: &Jobs) -> Vec<String> {
    let (jobs, pods) = (cluster.list::<Job>().await, cluster.list::<Pod>().await);
    let phases = jobs.iter().map(|job| (job.name_any(), job.status.as_ref().and_then(|status| status.state.phase)));
    let mut wrong: Vec<String> = phases
        .filter(|(name, phase)| wanted.wanted.get(name) != phase.as_ref())
        .map(|(name, phase)| format!("{name} is {phase:?} instead of {:?}", wanted.wanted.get(&name)))
        .collect();
    let missing = wanted.wanted.keys().filter(|name| !jobs.iter().any(|job| job.name_any() == **name));
    wrong.extend(missing.map(|name| format!("{name} is gone")));
    let uids: BTreeSet<_> = jobs.iter().filter_map(|job| job.metadata.uid.as_deref()).collect();
    let orphans = pods.iter().filter(|pod| !pod.owner_references().iter().any(|owner| uids.contains(&*owner.uid)));
    wrong.extend(orphans.map(|pod| format!("pod {} has no job", pod.name_any())));
    let active = pods.iter().filter(|pod| !has_pod_ended(pod));
    wrong.extend(active.map(|pod| format!("pod {} has not ended", pod.name_any())));
    wrong
}

fn has_pod_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// Deletes the jobs, and waits until nothing is left of what was made for them.
pub async fn delete_all(cluster: &Cluster) {
    for job in cluster.list::<Job>().await {
        cluster.delete::<Job>(&job.name_any(), None).await;
    }
    wait(|| async {
        let mut left = names::<Job>(cluster).await;
        left.extend(names::<Pod>(cluster).await);
        left.extend(names::<PodGroup>(cluster).await);
        left.extend(names::<ConfigMap>(cluster).await);
        left.extend(names::<Secret>(cluster).await);
        left.extend(names::<Service>(cluster).await);
        left.extend(names::<NetworkPolicy>(cluster).await);
        left.extend(names::<Command>(cluster).await);
        left.retain(|name| !name.ends_with(GIVEN));
        left
    })
    .await;
}

async fn names<K: Kind>(cluster: &Cluster) -> Vec<String> {
    let list = cluster.api::<K>().list(&ListParams::default()).await;
    let items = list.map(|list| list.items).unwrap_or_default();
    items.iter().map(|item| format!("{}/{}", K::kind(&()), item.name_any())).collect()
}

/// Waits until nothing is wrong.
async fn wait<F: Future<Output = Vec<String>>>(wrong: impl Fn() -> F) {
    let begun = now();
    loop {
        let wrong = wrong().await;
        if wrong.is_empty() {
            return;
        }
        assert!(begun.elapsed() < LIMIT, "after {LIMIT:?}:\n  {}", wrong.join("\n  "));
        tokio::time::sleep(PAUSE).await;
    }
}
