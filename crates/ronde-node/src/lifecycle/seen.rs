//! What a decision is made from: plain data that the pod's worker gathers.

use std::{collections::BTreeMap, net::IpAddr};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

/// The exit code of a container that was killed or lost: 128 + SIGKILL.
const KILLED: i32 = 137;

/// All that is seen of a pod at one moment.
#[derive(Debug, Clone, Copy)]
pub struct PodSeen<'a> {
    /// The newest object, with the status that this node published last.
    pub pod: &'a Pod,
    pub now: Timestamp,
    pub host_ip: IpAddr,
    /// Why the node does not take the pod, if it does not.
    pub refused: Option<&'a Cause>,
    /// Why the pod has to make room, if it has.
    pub evicted: Option<&'a Cause>,
    pub sandbox: &'a Sandbox,
    /// Init and ordinary containers by name; absent means never tried.
    pub containers: &'a BTreeMap<String, ContainerSeen>,
}

/// A reason for programs and a message for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    pub reason: String,
    pub message: String,
}

/// The namespaces and the supervisor of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sandbox {
    Absent,
    /// Could not be made; `tries` times in a row by now.
    Failed {
        message: String,
        at: Timestamp,
        tries: u32,
    },
    Ready {
        /// None if the pod uses the machine's network.
        ip: Option<IpAddr>,
    },
    /// Was there, and is gone without having been told to.
    Lost {
        at: Timestamp,
    },
}

/// The newest attempt to run a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerSeen {
    /// Counts from zero: the number of restarts.
    pub attempt: u32,
    /// Whether the attempt was made in the present sandbox.
    pub current: bool,
    pub state: RunState,
    /// How the attempt before this one ended.
    pub previous: Option<Exit>,
    /// Exits in a row without a long run between them, as [`super::crashes_after`] counts them.
    pub crashes: u32,
    pub post_start: HookState,
    /// When an ordered stop turns into a kill.
    pub stopping: Option<Timestamp>,
    /// Whether the startup probe has passed; true if there is none.
    pub started: bool,
    /// What the readiness probe says; true if there is none.
    pub ready: bool,
    /// The probe that wants the container restarted.
    pub unhealthy: Option<Ailment>,
    /// Which files it sees, if that is written down: those of a pod of an earlier version are not.
    pub image_id: Option<String>,
}

/// How far an attempt came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunState {
    /// Could not be started (`CreateContainerConfigError`, …) and is tried again under the same number.
    Blocked {
        reason: String,
        message: String,
        /// When it is tried again.
        until: Timestamp,
    },
    Running(Run),
    Exited(Exit),
}

/// A process that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    pub container_id: String,
    pub started_at: Timestamp,
}

/// How a container ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    pub container_id: String,
    /// 128 + the signal's number if a signal ended it.
    pub code: i32,
    /// `Completed`, `Error`, `OOMKilled`, `StartError`, …
    pub reason: String,
    pub message: Option<String>,
    /// None if it never ran (`StartError`).
    pub started_at: Option<Timestamp>,
    pub finished_at: Timestamp,
}

/// How far a postStart hook came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookState {
    /// Has passed, or there is none.
    Done,
    Pending,
    Failed,
}

/// A failed probe that calls for a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ailment {
    Liveness,
    Startup,
}

impl ContainerSeen {
    /// The id of the attempt; empty if it has not begun.
    pub(super) fn id(&self) -> &str {
        match &self.state {
            RunState::Blocked { .. } => "",
            RunState::Running(run) => &run.container_id,
            RunState::Exited(exit) => &exit.container_id,
        }
    }
}

impl Exit {
    /// Returns the end of a process that vanished with its sandbox or its records.
    pub fn lost(run: &Run, at: Timestamp) -> Self {
        Self {
            container_id: run.container_id.clone(),
            code: KILLED,
            reason: "ContainerStatusUnknown".to_owned(),
            message: Some("The container could not be located when the pod was terminated".to_owned()),
            started_at: Some(run.started_at),
            finished_at: at,
        }
    }
}
