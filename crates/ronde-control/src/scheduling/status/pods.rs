//! What the status of a pod that waits should say. Pure.
//!
//! Autoscalers of clusters add nodes for pods whose condition `PodScheduled` is False with the reason `Unschedulable`, and
//! for no others. So this is the reason only if nodes are all that is lacking; otherwise it is why the group waits.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use kube::ResourceExt as _;
use ronde_api::{PodGroup, names};
use ronde_runtime::{pods::condition, podstatus};
use ronde_scheduler::{Reason, Waiting};

use super::groups::is_whole;
use crate::scheduling::state::PATIENCE;

/// What waits is told in the condition `PodScheduled`.
pub const SCHEDULED: &str = "PodScheduled";
const SURPLUS: &str = "exceeds the minimum of its group and is scheduled when there is room";
const LIMITED: &str = "exceeds the minimum of its group, and its queue is at its limit";
/// What autoscalers add nodes for.
const UNSCHEDULABLE: &str = "Unschedulable";
const GROUP_MISSING: &str = "PodGroupMissing";

/// What is known of the group of a pod that waits.
#[derive(Debug, Clone, Copy)]
pub struct PodFacts<'a> {
    /// None if there is no such group, or the pod needs none.
    pub group: Option<&'a PodGroup>,
    pub pods: &'a [Arc<Pod>],
    pub wait: Option<&'a Waiting>,
    /// Only limits of its queues hold back what the group has above its minimum.
    pub is_limited: bool,
    pub now: Timestamp,
}

/// Why a pod waits: one word for programs, a sentence for people.
pub type Why = (&'static str, String);

/// Returns why a pod waits; none if there is nothing to say yet.
pub fn why(seen: &PodFacts<'_>, pod: &Pod) -> Option<Why> {
    let named = pod.annotations().get(names::GROUP_NAME).filter(|name| !name.is_empty());
    match (seen.group, named) {
        (Some(group), _) if is_whole(group, seen.pods) && seen.is_limited => {
            Some((Reason::QueueLimit.as_str(), LIMITED.to_owned()))
        }
        (Some(group), _) if is_whole(group, seen.pods) => Some((UNSCHEDULABLE, SURPLUS.to_owned())),
        (None, Some(name)) => {
            let is_overdue = group_overdue_at(pod)? <= seen.now;
            is_overdue.then(|| (GROUP_MISSING, format!("pod group `{name}` does not exist")))
        }
        _ => seen.wait.map(|wait| {
            let reason = if wait.reason.is_of_nodes() { UNSCHEDULABLE } else { wait.reason.as_str() };
            (reason, wait.message.clone())
        }),
    }
}

/// Returns when the group of a pod should have been seen.
pub fn group_overdue_at(pod: &Pod) -> Option<Timestamp> {
    pod.creation_timestamp().map(|created| created.0 + PATIENCE)
}

/// Returns the condition of a pod that waits.
pub fn waiting(pod: &Pod, (reason, message): &Why, now: Timestamp) -> PodCondition {
    podstatus::build_condition(pod, SCHEDULED, "False", (reason, message), now)
}

/// Tells whether a pod says already that it waits for the same reason, in whatever words.
pub fn is_told(pod: &Pod, wanted: &PodCondition) -> bool {
    condition(pod, SCHEDULED).is_some_and(|found| found.status == wanted.status && found.reason == wanted.reason)
}
