//! How a pod fares, in one word, and whether it had ended before somebody deleted it. Pure.

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;

use super::{backoff::finished_at, is_deleted, phase};

/// How a pod fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodState {
    Pending,
    Running,
    Succeeded,
    Failed,
    Unknown,
    /// Being deleted.
    Terminating,
}

impl PodState {
    /// Reads the state of a pod.
    pub fn of_pod(pod: &Pod) -> Self {
        match phase(pod) {
            _ if is_deleted(pod) => Self::Terminating,
            "Running" => Self::Running,
            "Succeeded" => Self::Succeeded,
            "Failed" => Self::Failed,
            "Unknown" => Self::Unknown,
            _ => Self::Pending,
        }
    }
}

/// Tells whether a pod that has ended had done so before somebody deleted it, if anybody has.
pub fn ended_before_deletion(pod: &Pod) -> bool {
    let meta = &pod.metadata;
    let grace = SignedDuration::from_secs(meta.deletion_grace_period_seconds.unwrap_or(0));
    let asked = meta.deletion_timestamp.as_ref().map(|time| time.0 - grace);
    asked.is_none_or(|asked| finished_at(pod) < asked)
}
