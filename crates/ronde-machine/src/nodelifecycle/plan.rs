//! Whether a node is alive, and what its conditions and taints should be. Pure.
//!
//! A node is alive while its lease, or the heartbeat of its `Ready` condition, moves. What counts is when that was seen
//! here, not the time in the object: after a pause of the whole machine every node gets its time again.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, NodeCondition, Taint};

use ronde_runtime::{
    nodes::{READY, condition},
    pods::time,
    taints::{NO_EXECUTE, NO_SCHEDULE, NOT_READY, UNREACHABLE, UNSCHEDULABLE},
};

/// How long a node may be silent: four times the pace of its lease.
pub const GRACE: SignedDuration = SignedDuration::from_secs(40);
/// How long a node may take to report for the first time.
pub const STARTUP_GRACE: SignedDuration = SignedDuration::from_secs(60);

/// The conditions that only the node itself knows.
const REPORTED: [&str; 4] = [READY, "MemoryPressure", "DiskPressure", "PIDPressure"];
/// Which condition with which status puts which taint on a node.
const TAINTED: [(&str, &str, &str); 6] = [
    (READY, "False", NOT_READY),
    (READY, "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
];

/// The last sign of life of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pulse {
    /// What moved: the time of the lease and of the heartbeat.
    pub beat: (Option<Timestamp>, Option<Timestamp>),
    /// When that was seen.
    pub seen: Timestamp,
}

/// Returns the newest sign of life.
pub fn pulse(before: Option<&Pulse>, node: &Node, lease: Option<Timestamp>, now: Timestamp) -> Pulse {
    let heartbeat = condition(node, READY).and_then(|ready| ready.last_heartbeat_time.as_ref()).map(|time| time.0);
    let beat = (lease, heartbeat);
    match before {
        Some(before) if before.beat == beat => before.clone(),
        _ => Pulse { beat, seen: now },
    }
}

/// Returns how much longer a node may be silent; none if it has been silent too long.
pub fn time_left(pulse: &Pulse, node: &Node, now: Timestamp) -> Option<SignedDuration> {
    let grace = if condition(node, READY).is_some() { GRACE } else { STARTUP_GRACE };
    let left = grace - now.duration_since(pulse.seen);
    Some(left).filter(|left| left.is_positive() || left.is_zero())
}

/// Returns the conditions of a node that is silent, if they do not say so yet.
pub fn silent_conditions(node: &Node, now: Timestamp) -> Option<Vec<NodeCondition>> {
    let mut changed = Vec::new();
    for kind in REPORTED {
        let known = condition(node, kind);
        if known.is_some_and(|known| known.status == "Unknown") {
            continue;
        }
        let (reason, message) = match known {
            Some(_) => ("NodeStatusUnknown", "Kubelet stopped posting node status."),
            None => ("NodeStatusNeverUpdated", "Kubelet never posted node status."),
        };
        let heartbeat = known.and_then(|known| known.last_heartbeat_time.clone());
        changed.push(NodeCondition {
            type_: kind.to_owned(),
            status: "Unknown".to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_heartbeat_time: heartbeat.or_else(|| node.metadata.creation_timestamp.clone()),
            last_transition_time: Some(time(now)),
        });
    }
    Some(changed).filter(|changed| !changed.is_empty())
}

/// Tells whether a node is known not to answer.
pub fn is_lost(node: &Node) -> bool {
    condition(node, READY).is_some_and(|ready| ready.status == "Unknown")
}

/// Returns the taints that a node should have, if it has others.
pub fn taints(node: &Node, now: Timestamp) -> Option<Vec<Taint>> {
    let has = |kind: &str, status: &str| condition(node, kind).is_some_and(|condition| condition.status == status);
    let mut wanted: Vec<(&str, &str)> = Vec::new();
    for (kind, status, key) in TAINTED {
        if has(kind, status) {
            wanted.push((key, NO_SCHEDULE));
            if kind == READY {
                wanted.push((key, NO_EXECUTE));
            }
        }
    }
    if node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true) {
        wanted.push((UNSCHEDULABLE, NO_SCHEDULE));
    }
    let existing = ronde_runtime::taints::of_node(node);
    let is_wanted = |taint: &&Taint| wanted.contains(&(taint.key.as_str(), taint.effect.as_str()));
    let mut taints: Vec<Taint> = existing.iter().filter(|taint| is_wanted(taint) || !is_ours(taint)).cloned().collect();
    for (key, effect) in wanted {
        if !taints.iter().any(|taint| taint.key == key && taint.effect == effect) {
            let time_added = Some(time(now));
            taints.push(Taint { key: key.to_owned(), effect: effect.to_owned(), time_added, value: None });
        }
    }
    (taints != existing).then_some(taints)
}

/// Tells whether a taint is put on and taken off here.
fn is_ours(taint: &Taint) -> bool {
    let follows_condition = TAINTED.iter().any(|(_, _, key)| taint.key == *key);
    match taint.effect.as_str() {
        NO_SCHEDULE => follows_condition || taint.key == UNSCHEDULABLE,
        NO_EXECUTE => taint.key == NOT_READY || taint.key == UNREACHABLE,
        _ => false,
    }
}
