//! Whether and when a pod has to leave a tainted node. Pure.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod, Taint};

use ronde_runtime::taints::{self, NO_EXECUTE};

/// What is to become of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Stays,
    /// Leaves unless the taint goes first.
    LeavesAt(Timestamp),
    LeavesNow,
}

/// Tells whether a node has taints that drive pods away.
pub fn drives_away(node: &Node) -> bool {
    taints::of_node(node).iter().any(|taint| taint.effect == NO_EXECUTE)
}

/// Decides about a pod; `since` tells when a taint was put on that does not say so itself.
pub fn fate(pod: &Pod, node: &Node, since: impl Fn(&Taint) -> Timestamp, now: Timestamp) -> Fate {
    let mut leaves: Option<Timestamp> = None;
    for taint in taints::of_node(node).iter().filter(|taint| taint.effect == NO_EXECUTE) {
        let Some(toleration) = taints::toleration(pod, taint) else { return Fate::LeavesNow };
        let Some(seconds) = toleration.toleration_seconds else { continue };
        let added = taint.time_added.as_ref().map_or_else(|| since(taint), |time| time.0);
        // A toleration too long for the calendar is one for ever.
        let Ok(at) = added.checked_add(SignedDuration::from_secs(seconds.max(0))) else { continue };
        leaves = Some(leaves.map_or(at, |earlier| earlier.min(at)));
    }
    match leaves {
        None => Fate::Stays,
        Some(at) if at <= now => Fate::LeavesNow,
        Some(at) => Fate::LeavesAt(at),
    }
}
