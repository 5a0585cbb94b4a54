//! A pod of a job, as the controller sees it: which task and index it is, which run it belongs to, how it fares.
//!
//! Pure. A pod carries a finalizer until what happened to it is in the status of the job: so it cannot fail, succeed or
//! be evicted without being noticed, however long the controller is away.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::ResourceExt as _;
use ronde_api::names;

use ronde_runtime::pods::{
    backoff::finished_at,
    condition,
    disruption::{self, Disruption},
    is_deleted, is_ready, phase,
    state::{PodState, ended_before_deletion},
};

/// The finalizer of pods that the status of their job does not know all about yet.
pub const TRACKING: &str = "ronde.dev/job-tracking";

/// A pod of a job.
#[derive(Debug, Clone)]
pub struct Member {
    pub pod: Arc<Pod>,
    pub name: String,
    pub task: String,
    pub index: i32,
    /// The version of the job that it was made for.
    pub version: i32,
    pub partition: Option<i32>,
    pub state: PodState,
}

impl Member {
    /// Reads a pod; one that lost its marks is of no task.
    pub fn of_pod(pod: Arc<Pod>) -> Self {
        let note = |key| pod.annotations().get(key);
        let number = |text: Option<&String>| text.and_then(|text| text.parse::<i32>().ok());
        Self {
            name: pod.name_any(),
            task: note(names::TASK_SPEC).cloned().unwrap_or_default(),
            index: number(note(names::TASK_INDEX)).unwrap_or(-1),
            version: number(note(names::JOB_VERSION)).unwrap_or(-1),
            partition: number(pod.labels().get(names::PARTITION_ID)),
            state: PodState::of_pod(&pod),
            pod,
        }
    }

    /// Returns what it was made with, as [`super::template::mark`] has it.
    pub fn template(&self) -> Option<&String> {
        self.pod.annotations().get(names::POD_TEMPLATE)
    }

    /// Tells whether the status of the job may not know yet what happened to it.
    pub fn is_tracked(&self) -> bool {
        is_tracked(&self.pod)
    }

    pub fn is_deleted(&self) -> bool {
        is_deleted(&self.pod)
    }

    pub fn is_finished(&self) -> bool {
        matches!(self.state, PodState::Succeeded | PodState::Failed)
    }

    /// Tells whether it has succeeded, also if it is deleted since.
    pub fn has_succeeded(&self) -> bool {
        self.state == PodState::Succeeded || self.is_tracked() && succeeded_before_deletion(&self.pod)
    }

    /// Tells whether somebody has deleted it before it had succeeded, and the status does not know yet.
    pub fn is_evicted(&self) -> bool {
        self.is_deleted() && self.is_tracked() && !self.has_succeeded()
    }

    /// Returns why it was ended, if that was none of its own doing and the status does not know yet.
    pub fn disruption(&self) -> Option<Disruption> {
        let is_ended = self.is_evicted() || self.state == PodState::Failed;
        Disruption::of_pod(&self.pod).filter(|_| is_ended)
    }

    /// Returns since when it is marked to be ended, if it is, else when it ended.
    pub fn disrupted_at(&self) -> Timestamp {
        let mark = condition(&self.pod, disruption::CONDITION);
        mark.and_then(|mark| mark.last_transition_time.as_ref()).map_or_else(|| self.ended_at(), |time| time.0)
    }

    pub fn is_ready(&self) -> bool {
        let (main, _) = containers(&self.pod);
        let is_ready = if main.is_empty() { is_ready(&self.pod) } else { main.iter().all(|status| status.ready) };
        self.state == PodState::Running && is_ready
    }

    /// Returns since when it is there.
    pub fn created_at(&self) -> Timestamp {
        self.pod.creation_timestamp().map(|time| time.0).unwrap_or_default()
    }

    /// Returns when it has ended, as far as it can be told.
    pub fn ended_at(&self) -> Timestamp {
        finished_at(&self.pod)
    }

    /// Returns the exit codes of all containers that have ended, those of init containers too.
    pub fn exit_codes(&self) -> Vec<i32> {
        let (main, init) = containers(&self.pod);
        let ended = main.iter().chain(init).filter_map(|status| status.state.as_ref()?.terminated.as_ref());
        ended.map(|terminated| terminated.exit_code).collect()
    }

    /// Returns how often its containers were started again.
    pub fn restarts(&self) -> i32 {
        let (main, init) = containers(&self.pod);
        main.iter().chain(init).map(|status| status.restart_count).sum()
    }
}

/// Tells whether a pod has the finalizer.
pub fn is_tracked(pod: &Pod) -> bool {
    pod.finalizers().iter().any(|finalizer| finalizer == TRACKING)
}

/// A program may answer its deletion by ending well; that is no success.
fn succeeded_before_deletion(pod: &Pod) -> bool {
    phase(pod) == "Succeeded" && ended_before_deletion(pod)
}

/// Returns the states of the main and of the init containers.
fn containers(pod: &Pod) -> (&[ContainerStatus], &[ContainerStatus]) {
    let status = pod.status.as_ref();
    let main = status.and_then(|status| status.container_statuses.as_deref());
    let init = status.and_then(|status| status.init_container_statuses.as_deref());
    (main.unwrap_or_default(), init.unwrap_or_default())
}
