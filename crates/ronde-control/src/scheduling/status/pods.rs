//! What the status of a pod that waits should say. Pure.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use kube::ResourceExt as _;
use ronde_api::{PodGroup, names};
use ronde_runtime::{pods::condition, podstatus};
use ronde_scheduler::Waiting;

use super::groups::is_whole;
use crate::scheduling::state::PATIENCE;

/// What waits is told in the condition `PodScheduled`.
pub const SCHEDULED: &str = "PodScheduled";
const SURPLUS: &str = "exceeds the minimum of its group and is scheduled when there is room";
/// What is known of the group of a pod that waits.
#[derive(Debug, Clone, Copy)]
pub struct PodFacts<'a> {
    /// None if there is no such group, or the pod needs none.
    pub group: Option<&'a PodGroup>,
    pub pods: &'a [Arc<Pod>],
    pub wait: Option<&'a Waiting>,
    pub now: Timestamp,
}

/// Returns why a pod waits; none if there is nothing to say yet.
pub fn why(seen: &PodFacts<'_>, pod: &Pod) -> Option<String> {
    let named = pod.annotations().get(names::GROUP_NAME).filter(|name| !name.is_empty());
    match (seen.group, named) {
        (Some(group), _) if is_whole(group, seen.pods) => Some(SURPLUS.to_owned()),
        (None, Some(name)) => {
            (group_overdue_at(pod)? <= seen.now).then(|| format!("pod group `{name}` does not exist"))
        }
        _ => seen.wait.map(|wait| wait.message.clone()),
    }
}

/// Returns when the group of a pod should have been seen.
pub fn group_overdue_at(pod: &Pod) -> Option<Timestamp> {
    pod.creation_timestamp().map(|created| created.0 + PATIENCE)
}

/// Returns the condition of a pod that waits.
pub fn waiting(pod: &Pod, why: &str, now: Timestamp) -> PodCondition {
    podstatus::build_condition(pod, SCHEDULED, "False", ("Unschedulable", why), now)
}

/// Tells whether a pod says already that it waits, whatever it says why.
pub fn is_told(pod: &Pod) -> bool {
    condition(pod, SCHEDULED)
        .is_some_and(|found| found.status == "False" && found.reason.as_deref() == Some("Unschedulable"))
}
