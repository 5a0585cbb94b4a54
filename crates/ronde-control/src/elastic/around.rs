//! What is around a training job: nodes that are about to go, room that nobody uses, gangs that wait for some. Pure.

use std::{collections::BTreeMap, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt as _;
use ronde_api::{PodGroup, PodGroupConditionType, TrainingJob};
use ronde_scheduler::Amounts;

use super::{group, observed::Around, pod::Wiring};
use crate::{
    pods::is_finished,
    podstatus::node_of,
    scheduling::objects::amounts::{amounts, quota_requests, requests},
    taints::{self, NO_EXECUTE, NO_SCHEDULE, NOT_READY, UNREACHABLE},
};

/// Taints by which clouds and their tools say that a node is about to go, whatever their effect.
const NOTICES: [&str; 7] = [
    "ronde.dev/vanishing",
    "aws-node-termination-handler/spot-itn",
    "aws-node-termination-handler/rebalance-recommendation",
    "cloud.google.com/impending-node-termination",
    "karpenter.sh/disrupted",
    "ToBeDeletedByClusterAutoscaler",
    "node.kubernetes.io/out-of-service",
];
/// Conditions of nodes that say the same.
const NOTICE_CONDITIONS: [&str; 4] = ["Vanishing", "SpotTermination", "TerminationScheduled", "InstanceExpired"];
/// How long a node may be silent: most are heard of again.
const SILENCE: SignedDuration = SignedDuration::from_secs(30);

/// Returns why a node is about to go, if it is; `worker` tells what it tolerates.
pub fn vanishing(node: &Node, worker: &Pod, now: Timestamp) -> Option<String> {
    let name = node.name_any();
    if node.metadata.deletion_timestamp.is_some() {
        return Some(format!("node {name} is being deleted"));
    }
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut noticed = conditions.filter(|it| it.status == "True" && NOTICE_CONDITIONS.contains(&it.type_.as_str()));
    if let Some(condition) = noticed.next() {
        return Some(format!("node {name} is about to go: {}", condition.type_));
    }
    let drives_away = |taint: &&k8s_openapi::api::core::v1::Taint| {
        if NOTICES.contains(&taint.key.as_str()) {
            return true;
        }
        let since = taint.time_added.as_ref().map_or(now, |time| time.0);
        let is_silence = matches!(taint.key.as_str(), NOT_READY | UNREACHABLE);
        let is_early = is_silence && now.duration_since(since) < SILENCE;
        let toleration = taints::toleration(worker, taint);
        let stays = toleration.is_some_and(|toleration| toleration.toleration_seconds.is_none());
        taint.effect == NO_EXECUTE && !stays && !is_early
    };
    let taint = taints::of(node).iter().find(drives_away)?;
    Some(format!("node {name} is about to go: taint {}", taint.key))
}

/// Tells whether nothing has been heard of a node lately.
pub fn is_silent(node: &Node) -> bool {
    taints::of(node).iter().any(|taint| matches!(taint.key.as_str(), NOT_READY | UNREACHABLE))
}

/// Returns what others leave free and wait for. Costs a look at every pod.
pub fn around(job: &TrainingJob, nodes: &[Arc<Node>], pods: &[Arc<Pod>], groups: &[Arc<PodGroup>]) -> Around {
    let own_group = group::name(job);
    let worker = Wiring::default().worker(job, "", 0);
    let request = requests(&worker.spec.clone().unwrap_or_default());
    let mut used: BTreeMap<&str, Vec<Amounts>> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| !node_of(pod).is_empty() && !is_finished(pod)) {
        let of_pod = pod.spec.as_ref().map(requests).unwrap_or_default();
        used.entry(node_of(pod)).or_default().push(of_pod);
    }
    let room = |node: &Arc<Node>| {
        let used = used.get(node.name_any().as_str()).map_or(&[][..], Vec::as_slice);
        if is_open(node, &worker) { room_on(node, used, &request) } else { 0 }
    };
    let is_other = |group: &&Arc<PodGroup>| group.name_any() != own_group || group.namespace() != job.namespace();
    let waits = groups.iter().filter(is_other).find(|group| lacks_room(group));
    let needs = |group: &Arc<PodGroup>| {
        let asked = group.spec.min_resources.as_ref().map(quota_requests).unwrap_or_default();
        let share = |(name, own): (&ronde_scheduler::ResourceName, i64)| {
            if own > 0 { asked.get(name).unwrap_or(0).div_euclid(own) + 1 } else { 1 }
        };
        let workers = request.iter().map(share).max().unwrap_or(1);
        (group.name_any(), i32::try_from(workers).unwrap_or(i32::MAX))
    };
    let total: i64 = nodes.iter().map(room).sum();
    Around { room: i32::try_from(total).unwrap_or(i32::MAX), waits: waits.map(needs) }
}

/// Tells whether new pods may come to a node.
fn is_open(node: &Node, worker: &Pod) -> bool {
    let spec = node.spec.clone().unwrap_or_default();
    let keeps_away = |taint: &k8s_openapi::api::core::v1::Taint| {
        matches!(taint.effect.as_str(), NO_SCHEDULE | NO_EXECUTE) && taints::toleration(worker, taint).is_none()
    };
    let selector = worker.spec.as_ref().and_then(|spec| spec.node_selector.clone()).unwrap_or_default();
    let is_selected = selector.iter().all(|(key, value)| node.labels().get(key) == Some(value));
    spec.unschedulable != Some(true) && is_selected && !taints::of(node).iter().any(keeps_away)
}

fn room_on(node: &Node, used: &[Amounts], request: &Amounts) -> i64 {
    let allocatable = amounts(node.status.as_ref().and_then(|status| status.allocatable.as_ref()));
    let pods = allocatable.get("pods").map_or(i64::MAX, |most| most - i64::try_from(used.len()).unwrap_or(most));
    let fits = |(name, own): (&ronde_scheduler::ResourceName, i64)| {
        let taken: i64 = used.iter().map(|amounts| amounts.get(name).unwrap_or(0)).sum();
        if own > 0 { (allocatable.get(name).unwrap_or(0) - taken).div_euclid(own) } else { i64::MAX }
    };
    // A worker that asks for nothing would fit any number of times: one at a time, then.
    let least = request.iter().map(fits).min().unwrap_or(1);
    least.min(pods).clamp(0, i64::from(i16::MAX))
}

fn lacks_room(group: &PodGroup) -> bool {
    let conditions = group.status.iter().flat_map(|status| &status.conditions);
    let mut waits =
        conditions.filter(|told| told.type_ == PodGroupConditionType::Unschedulable && told.status == "True");
    waits.any(|told| matches!(told.reason.as_str(), "NotEnoughResources" | "WaitingForRoom" | "HeldForOthers"))
}
