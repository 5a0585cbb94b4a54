//! What a training job can have of the cluster: nodes that are about to go, room that nobody uses, gangs that wait for some.
//! Pure.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod, Taint};
use kube::ResourceExt as _;
use ronde_api::{PodGroup, PodGroupConditionType, TrainingJob};
use ronde_runtime::pods::resources::requests;
use ronde_runtime::{
    podstatus::node_of,
    taints::{self, NO_EXECUTE, NOT_READY, UNREACHABLE},
};
use ronde_scheduler::Amounts;

use super::{
    group,
    observed::Capacity,
    pod::Wiring,
    reclaim::{self, Surplus},
};
use crate::node_shutdown;

/// How long a node may be silent: most are heard of again.
const SILENCE: SignedDuration = SignedDuration::from_secs(30);
/// How long a gang may take to use room that there seems to be for it.
const DOUBT: SignedDuration = SignedDuration::from_secs(30);

/// Returns why a node is about to go, if it is; `worker` tells what it tolerates.
pub fn vanishing(node: &Node, worker: &Pod, now: Timestamp) -> Option<String> {
    if let Some(notice) = node_shutdown::notice(node) {
        return Some(notice);
    }
    let drives_away = |taint: &&Taint| {
        let since = taint.time_added.as_ref().map_or(now, |time| time.0);
        let is_silence = matches!(taint.key.as_str(), NOT_READY | UNREACHABLE);
        let is_early = is_silence && now.duration_since(since) < SILENCE;
        let toleration = taints::toleration(worker, taint);
        let stays = toleration.is_some_and(|toleration| toleration.toleration_seconds.is_none());
        taint.effect == NO_EXECUTE && !stays && !is_early
    };
    let taint = taints::of_node(node).iter().find(drives_away)?;
    Some(format!("node {} is shutting down: taint {}", node.name_any(), taint.key))
}

/// Tells whether nothing has been heard of a node lately.
pub fn is_silent(node: &Node) -> bool {
    taints::of_node(node).iter().any(|taint| matches!(taint.key.as_str(), NOT_READY | UNREACHABLE))
}

/// What there is in the cluster.
pub struct Cluster<'a> {
    pub nodes: &'a [Arc<Node>],
    pub pods: &'a [Arc<Pod>],
    pub groups: &'a [Arc<PodGroup>],
    pub now: Timestamp,
}

/// Returns what others leave free and wait for. Costs a look at every pod.
pub fn capacity(job: &TrainingJob, cluster: &Cluster<'_>) -> Capacity {
    let worker = Wiring::default().worker(job, "", 0);
    let request = worker.spec.as_ref().map(requests).unwrap_or_default();
    // A worker that asks for nothing would fit any number of times: one at a time, then.
    let most = if request.is_empty() { 1 } else { i64::from(i16::MAX) };
    let rooms = reclaim::rooms(cluster.nodes, cluster.pods.iter());
    let total: i64 = rooms.values().map(|room| room.fits(&worker, &request).min(most)).sum();
    let surplus = surplus(job, cluster.pods, &request);
    Capacity { room: i32::try_from(total).unwrap_or(i32::MAX), waits: waits(job, cluster, &surplus) }
}

/// Returns the gang that can be helped with the fewest workers, and their number. It is none while there seems to be room
/// that the gang has not taken yet; if it never does, it waits for something that only the scheduler knows of.
fn waits(job: &TrainingJob, cluster: &Cluster<'_>, surplus: &[Surplus<'_>]) -> Option<(String, i32)> {
    let own = group::name(job);
    let is_other = |group: &&Arc<PodGroup>| group.name_any() != own || group.namespace() != job.namespace();
    let needs = |group: &Arc<PodGroup>| {
        let since = waits_since(group)?;
        let needed = reclaim::needed(group, cluster.nodes, cluster.pods, surplus)?;
        let is_doubtful = cluster.now.duration_since(since) > DOUBT;
        Some((if is_doubtful { needed.max(1) } else { needed }, group.name_any()))
    };
    let least = cluster.groups.iter().filter(is_other).filter_map(needs).min();
    least.map(|(workers, name)| (name, i32::try_from(workers).unwrap_or(i32::MAX)))
}

/// Returns the workers above what the job asks for, in the order in which they go: the highest index first.
fn surplus<'a>(job: &TrainingJob, pods: &'a [Arc<Pod>], request: &'a Amounts) -> Vec<Surplus<'a>> {
    let status = job.status.clone().unwrap_or_default();
    let number = usize::try_from(status.elastic.wanted - job.spec.worker().replicas()).unwrap_or(0);
    let node = |name: &String| {
        let pod = pods.iter().find(|pod| pod.name_any() == *name && pod.namespace() == job.namespace());
        (pod.map_or("", |pod| node_of(pod)), request)
    };
    status.target_workers.iter().rev().take(number).map(node).collect()
}

/// Returns since when a gang has waited for room, if it does.
fn waits_since(group: &PodGroup) -> Option<Timestamp> {
    let conditions = group.status.iter().flat_map(|status| &status.conditions);
    let mut waits =
        conditions.filter(|told| told.type_ == PodGroupConditionType::Unschedulable && told.status == "True");
    let told =
        waits.find(|told| matches!(told.reason.as_str(), "NotEnoughResources" | "WaitingForRoom" | "HeldForOthers"))?;
    Some(told.last_transition_time.as_ref().map(|time| time.0).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NOW: i64 = 1_800_000_000;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(NOW + second).expect("a time")
    }

    fn taint(key: &str, effect: &str, age: i64) -> Value {
        json!({"spec": {"taints": [{"key": key, "effect": effect, "timeAdded": at(-age).to_string()}]}})
    }

    fn condition(type_: &str, status: &str) -> Value {
        json!({"status": {"conditions": [{"type": type_, "status": status}]}})
    }

    /// The worker tolerates `stay` for good, `while` for a minute, and one of the notices.
    fn check(what: &str, mut node: Value, expected: Option<&str>) {
        node["metadata"]["name"] = "n".into();
        let node: Node = serde_json::from_value(node).expect("a node");
        let tolerations = json!([
            {"key": "stay", "operator": "Exists"},
            {"key": "while", "operator": "Exists", "tolerationSeconds": 60},
            {"key": "karpenter.sh/disrupted", "operator": "Exists"},
        ]);
        let worker = json!({"spec": {"containers": [], "tolerations": tolerations}});
        let worker: Pod = serde_json::from_value(worker).expect("a pod");
        assert_eq!(vanishing(&node, &worker, at(0)).as_deref(), expected, "{what}");
    }

    #[test]
    fn nodes_that_are_about_to_go_are_told_from_others() {
        let going = |why: &str| format!("node n is shutting down: {why}");
        check("one like any", json!({}), None);
        check(
            "deleted",
            json!({"metadata": {"deletionTimestamp": at(0).to_string()}}),
            Some("node n is being deleted"),
        );
        check("cordoned", json!({"spec": {"unschedulable": true}}), None);
        for notice in ["Vanishing", "SpotTermination", "TerminationScheduled", "InstanceExpired"] {
            check("a notice", condition(notice, "True"), Some(&going(notice)));
            check("no notice", condition(notice, "False"), None);
        }
        check("another condition", condition("DiskPressure", "True"), None);
        let spot = "aws-node-termination-handler/spot-itn";
        check("a notice of no effect", taint(spot, "PreferNoSchedule", 0), Some(&going(&format!("taint {spot}"))));
        let disrupted = going("taint karpenter.sh/disrupted");
        check("tolerated", taint("karpenter.sh/disrupted", "NoSchedule", 0), Some(&disrupted));
        check("keeps others away", taint("own", "NoSchedule", 0), None);
        check("drives away", taint("own", "NoExecute", 0), Some(&going("taint own")));
        check("but not this worker", taint("stay", "NoExecute", 0), None);
        check("but not yet", taint("while", "NoExecute", 0), Some(&going("taint while")));
        for silence in [NOT_READY, UNREACHABLE] {
            check("silent for a moment", taint(silence, "NoExecute", 29), None);
            check("silent for long", taint(silence, "NoExecute", 30), Some(&going(&format!("taint {silence}"))));
        }
    }
}
