//! One picture of the pod from two sources: what the supervisor recorded and what was published.
//!
//! A container that cannot be found again counts as ended (137, `ContainerStatusUnknown`): if its sandbox is gone, or if
//! only the published status knows of it. So nothing is forgotten and nothing runs twice.

use std::{borrow::Cow, net::IpAddr, sync::LazyLock};

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Container, ContainerStateTerminated, ContainerStatus, Pod, PodSpec, PodStatus},
    apimachinery::pkg::apis::meta::v1::Time,
};

use super::seen::{Cause, ContainerSeen, Exit, HookState, PodSeen, Run, RunState, Sandbox};

/// Stands before the container's id in the status.
pub(super) const ID_PREFIX: &str = "ronde://";

static NO_SPEC: LazyLock<PodSpec> = LazyLock::new(PodSpec::default);
static NO_STATUS: LazyLock<PodStatus> = LazyLock::new(PodStatus::default);

pub(super) struct View<'a> {
    pub pod: &'a Pod,
    pub spec: &'a PodSpec,
    /// The status that was published last.
    pub old: &'a PodStatus,
    pub now: Timestamp,
    pub host_ip: IpAddr,
    pub refused: Option<&'a Cause>,
    pub evicted: Option<&'a Cause>,
    pub sandbox: &'a Sandbox,
    pub init: Vec<Unit<'a>>,
    pub main: Vec<Unit<'a>>,
}

/// A container of the pod with what is known of it.
pub(super) struct Unit<'a> {
    pub spec: &'a Container,
    pub role: Role,
    pub restart: Restart,
    pub seen: Option<Cow<'a, ContainerSeen>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Runs to its end before the next one starts.
    Init,
    /// A restartable init container: stays beside the main ones.
    Sidecar,
    Main,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Restart {
    Always,
    OnFailure,
    Never,
}

/// How far a container came, as the pod's phase counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress<'a> {
    Unstarted,
    Running,
    Ended(&'a Exit),
}

impl<'a> View<'a> {
    pub fn new(seen: &PodSeen<'a>) -> Self {
        let spec = seen.pod.spec.as_ref().unwrap_or(&NO_SPEC);
        let old = seen.pod.status.as_ref().unwrap_or(&NO_STATUS);
        let policy = Restart::of_pod(spec);
        let init = spec.init_containers.as_deref().unwrap_or_default().iter().map(|container| {
            let role = if container.restart_policy.as_deref() == Some("Always") { Role::Sidecar } else { Role::Init };
            let restart = match (role, policy) {
                (Role::Sidecar, _) => Restart::Always,
                (_, Restart::Never) => Restart::Never,
                _ => Restart::OnFailure,
            };
            Unit {
                spec: container,
                role,
                restart,
                seen: find(seen, &container.name, old.init_container_statuses.as_deref()),
            }
        });
        let main = spec.containers.iter().map(|container| {
            let seen = find(seen, &container.name, old.container_statuses.as_deref());
            Unit { spec: container, role: Role::Main, restart: policy, seen }
        });
        Self {
            pod: seen.pod,
            spec,
            old,
            now: seen.now,
            host_ip: seen.host_ip,
            refused: seen.refused,
            evicted: seen.evicted,
            sandbox: seen.sandbox,
            init: init.collect(),
            main: main.collect(),
        }
    }

    pub fn units(&self) -> impl DoubleEndedIterator<Item = &Unit<'a>> {
        self.init.iter().chain(&self.main)
    }

    pub fn is_sandbox_ready(&self) -> bool {
        matches!(self.sandbox, Sandbox::Ready { .. })
    }

    pub fn is_deleted(&self) -> bool {
        self.pod.metadata.deletion_timestamp.is_some()
    }

    /// Whether a main container was started in this sandbox: then the init containers are done.
    pub fn is_initialized(&self) -> bool {
        self.main.iter().any(|unit| {
            let tried = unit.seen.as_deref().filter(|seen| seen.current);
            tried.is_some_and(|seen| !matches!(seen.state, RunState::Blocked { .. }))
        })
    }

    /// Whether the published phase is one that nothing leaves.
    pub fn is_terminal(&self) -> bool {
        matches!(self.old.phase.as_deref(), Some("Succeeded" | "Failed"))
    }

    /// The pod as messages name it: `name_namespace(uid)`.
    pub fn shown_name(&self) -> String {
        let meta = &self.pod.metadata;
        let text = |field: &'a Option<String>| field.as_deref().unwrap_or_default();
        format!("{}_{}({})", text(&meta.name), text(&meta.namespace), text(&meta.uid))
    }
}

impl<'a> Unit<'a> {
    pub fn name(&self) -> &'a str {
        &self.spec.name
    }

    pub fn running(&self) -> Option<&ContainerSeen> {
        self.seen.as_deref().filter(|seen| matches!(seen.state, RunState::Running(_)))
    }

    /// How it ended, if it neither runs nor waits for another start.
    pub fn exit(&self) -> Option<&Exit> {
        match &self.seen.as_deref()?.state {
            RunState::Exited(exit) => Some(exit),
            RunState::Blocked { .. } | RunState::Running(_) => None,
        }
    }

    /// Whether the postStart hook and the startup probe are behind it.
    pub fn is_started(&self) -> bool {
        self.running().is_some_and(|seen| seen.started && seen.post_start != HookState::Pending)
    }

    pub fn progress(&self) -> Progress<'_> {
        let Some(seen) = self.seen.as_deref() else { return Progress::Unstarted };
        let before = seen.previous.as_ref().map_or(Progress::Unstarted, Progress::Ended);
        match &seen.state {
            RunState::Blocked { .. } => before,
            // A container counts as running once its postStart hook has ended.
            RunState::Running(_) if seen.post_start == HookState::Pending => before,
            RunState::Running(_) => Progress::Running,
            RunState::Exited(exit) => Progress::Ended(exit),
        }
    }

    pub fn restarts_after(&self, exit: &Exit) -> bool {
        match self.restart {
            Restart::Always => true,
            Restart::OnFailure => exit.code != 0,
            Restart::Never => false,
        }
    }

    /// Where events of the container point to.
    pub fn field_path(&self) -> String {
        let list = if self.role == Role::Main { "containers" } else { "initContainers" };
        format!("spec.{list}{{{}}}", self.name())
    }
}

impl Restart {
    pub fn of_pod(spec: &PodSpec) -> Self {
        match spec.restart_policy.as_deref() {
            Some("Never") => Self::Never,
            Some("OnFailure") => Self::OnFailure,
            _ => Self::Always,
        }
    }
}

fn find<'a>(
    seen: &PodSeen<'a>,
    name: &str,
    published: Option<&'a [ContainerStatus]>,
) -> Option<Cow<'a, ContainerSeen>> {
    let status = published.unwrap_or_default().iter().find(|status| status.name == name);
    let Some(record) = seen.containers.get(name) else {
        return from_status(status?, seen.now).map(Cow::Owned);
    };
    let is_there = matches!(seen.sandbox, Sandbox::Ready { .. }) && record.current;
    let knows_past = record.attempt == 0 || record.previous.is_some();
    if is_there && knows_past {
        return Some(Cow::Borrowed(record));
    }
    let mut record = record.clone();
    if !knows_past {
        record.previous = status.and_then(|status| published_end(status, seen.now, |id| id != record.id()));
    }
    if !is_there {
        if let RunState::Running(run) = &record.state {
            let published = status.and_then(|status| published_end(status, seen.now, |id| id == run.container_id));
            record.state = RunState::Exited(published.unwrap_or_else(|| Exit::lost(run, lost_at(seen))));
        }
        record = ContainerSeen { current: false, unhealthy: None, stopping: None, ..record };
    }
    Some(Cow::Owned(record))
}

fn lost_at(seen: &PodSeen<'_>) -> Timestamp {
    match seen.sandbox {
        Sandbox::Lost { at } | Sandbox::Failed { at, .. } => *at,
        Sandbox::Absent | Sandbox::Ready { .. } => seen.now,
    }
}

/// The newest published end of an attempt with such an id.
fn published_end(status: &ContainerStatus, now: Timestamp, is_meant: impl Fn(&str) -> bool) -> Option<Exit> {
    let states = [&status.state, &status.last_state];
    let ends = states.into_iter().flatten().filter_map(|state| state.terminated.as_ref());
    ends.map(|ended| exit_of(ended, now)).find(|exit| is_meant(&exit.container_id))
}

/// Rebuilds what was published of a container whose records are gone; None if it never ran.
fn from_status(status: &ContainerStatus, now: Timestamp) -> Option<ContainerSeen> {
    let last = status.last_state.as_ref().and_then(|state| state.terminated.as_ref());
    let ended = status.state.as_ref().and_then(|state| state.terminated.as_ref());
    let running = status.state.as_ref().and_then(|state| state.running.as_ref());
    let container_id = plain_id(status.container_id.as_deref());
    let (exit, previous) = match (ended, last) {
        (Some(ended), last) => (exit_of(ended, now), last),
        (None, Some(last)) if running.is_none() => (exit_of(last, now), None),
        (None, last) if !container_id.is_empty() => {
            let started_at = running.and_then(|running| running.started_at.as_ref()).map_or(now, |time| time.0);
            (Exit::lost(&Run { container_id, started_at }, now), last)
        }
        _ => return None,
    };
    Some(ContainerSeen {
        image_id: Some(status.image_id.clone()).filter(|id| !id.is_empty()),
        attempt: u32::try_from(status.restart_count).unwrap_or_default(),
        current: false,
        state: RunState::Exited(exit),
        previous: previous.map(|last| exit_of(last, now)),
        crashes: 1,
        post_start: HookState::Done,
        stopping: None,
        started: false,
        ready: false,
        unhealthy: None,
    })
}

fn exit_of(state: &ContainerStateTerminated, now: Timestamp) -> Exit {
    let at = |time: &Option<Time>| time.as_ref().map(|time| time.0);
    Exit {
        container_id: plain_id(state.container_id.as_deref()),
        code: state.exit_code,
        reason: state.reason.clone().unwrap_or_default(),
        message: state.message.clone(),
        started_at: at(&state.started_at),
        finished_at: at(&state.finished_at).unwrap_or(now),
    }
}

fn plain_id(id: Option<&str>) -> String {
    let id = id.unwrap_or_default();
    id.strip_prefix(ID_PREFIX).unwrap_or(id).to_owned()
}
