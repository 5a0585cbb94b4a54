//! Why a pod was ended that had done nothing wrong: preemption, drains, lost nodes, nodes that are short of something.
//!
//! Pure. The mark is the condition `DisruptionTarget`. Whoever ends a pod in this way writes it before the pod is deleted,
//! so that it is there whatever is killed in between. A pod that went beyond its own limits does not get it.

use k8s_openapi::api::core::v1::Pod;

use super::condition;
use crate::podstatus::node_of;

/// The type of the condition that marks the pod.
pub const CONDITION: &str = "DisruptionTarget";
/// The reason of evictions by a scheduler.
pub const BY_SCHEDULER: &str = "PreemptionByScheduler";
/// The reason of evictions because of taints.
pub const BY_TAINT: &str = "DeletionByTaintManager";
/// The reason of evictions that somebody asks for, as `kubectl drain` does.
pub const BY_EVICTION_API: &str = "EvictionByEvictionAPI";
/// The reason of deletions because the node does not exist any more.
pub const BY_POD_GC: &str = "DeletionByPodGC";
/// The reason of evictions by a node that is short of something, or shuts down.
pub const BY_NODE: &str = "TerminationByKubelet";

/// How many characters of a foreign message are repeated.
const MESSAGE_MAX: usize = 300;

/// Why a pod was ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disruption {
    /// One word for events: `Preempted` or `Evicted`.
    pub reason: &'static str,
    /// What goes on after `pod x was`: `preempted by hi (priority high)`.
    pub why: String,
}

impl Disruption {
    /// Reads the mark of a pod.
    pub fn of_pod(pod: &Pod) -> Option<Self> {
        let node = || if node_of(pod).is_empty() { "its node".to_owned() } else { format!("node {}", node_of(pod)) };
        let evicted = |why: String| Some(Self { reason: "Evicted", why });
        let status = pod.status.as_ref()?;
        let said = short(status.message.as_deref().unwrap_or_default());
        let Some(mark) = condition(pod, CONDITION).filter(|mark| mark.status == "True") else {
            let is_lost = matches!(status.reason.as_deref(), Some("NodeLost" | "Shutdown" | "Terminated"));
            return is_lost
                .then(|| Self { reason: "Evicted", why: because(format!("stopped with {}", node()), &said) });
        };
        let told = short(mark.message.as_deref().unwrap_or_default());
        match mark.reason.as_deref().unwrap_or_default() {
            BY_SCHEDULER => Some(Self { reason: "Preempted", why: or(told, "preempted") }),
            BY_TAINT => evicted(format!("evicted from {} because of a taint", node())),
            BY_EVICTION_API => evicted(format!("evicted from {}", node())),
            BY_POD_GC => evicted(format!("lost with {}", node())),
            BY_NODE => evicted(because(format!("evicted from {}", node()), or_of(&said, &told))),
            _ => evicted(because(format!("evicted from {}", node()), &told)),
        }
    }
}

fn because(what: String, why: &str) -> String {
    if why.is_empty() { what } else { format!("{what}: {why}") }
}

fn or(text: String, otherwise: &str) -> String {
    if text.is_empty() { otherwise.to_owned() } else { text }
}

fn or_of<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    if text.is_empty() { otherwise } else { text }
}

/// Makes one line of a bounded length, without the full stop at its end.
pub fn short(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = line.trim_end_matches('.');
    match line.char_indices().nth(MESSAGE_MAX) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_owned(),
    }
}
