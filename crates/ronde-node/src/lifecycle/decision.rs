//! What a decision says: plain data that the pod's worker carries out.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodStatus;

/// What to publish and what to do. Actions may be carried out in any order and more than once.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    pub status: PodStatus,
    pub actions: Vec<Action>,
    /// The next moment at which the decision differs by time alone.
    pub wake_at: Option<Timestamp>,
    pub events: Vec<PodEvent>,
}

/// One step towards what the pod wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Make the sandbox. One that was lost is cleared away first; what was tried in it is no longer `current`.
    EnsureSandbox,
    Start {
        container: String,
        attempt: u32,
    },
    /// preStop hook, SIGTERM, and SIGKILL at the deadline. Comes again only with an earlier deadline.
    Stop {
        container: String,
        deadline: Timestamp,
        reason: StopReason,
    },
    /// All containers have ended and none comes back: the sandbox may go.
    TearDown,
    /// Nothing is left of a deleted pod: delete the object for good.
    Release,
}

/// Why a container is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The whole pod ends.
    PodEnds,
    Liveness,
    Startup,
    PostStart,
}

/// An event of the pod, worded as users know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodEvent {
    pub severity: Severity,
    pub reason: String,
    pub message: String,
    /// `spec.containers{a}`; empty if the event is about the whole pod.
    pub field_path: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    Normal,
    Warning,
}
