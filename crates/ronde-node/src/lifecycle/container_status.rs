//! What is published of each container.

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{
        ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus,
        VolumeMountStatus,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};

use super::{
    backoff,
    plan::PodPlan,
    seen::{ContainerSeen, Exit, HookState, RunState},
    view::{ID_PREFIX, Restart, Role, Unit, View},
};

/// Returns the statuses of the given containers, in their order.
pub(super) fn build(view: &View<'_>, units: &[Unit<'_>], plan: &PodPlan) -> Vec<ContainerStatus> {
    units.iter().map(|unit| status_of(view, unit, plan)).collect()
}

/// The time as it is published: whole seconds.
pub(super) fn time(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).unwrap_or(at))
}

fn status_of(view: &View<'_>, unit: &Unit<'_>, plan: &PodPlan) -> ContainerStatus {
    let base = ContainerStatus {
        name: unit.spec.name.clone(),
        image: unit.spec.image.clone().unwrap_or_default(),
        volume_mounts: volume_mounts(unit),
        started: Some(false),
        ..ContainerStatus::default()
    };
    let Some(seen) = unit.seen.as_deref() else {
        let waiting = Some(waiting(initial_reason(view), None));
        return ContainerStatus { state: waiting, last_state: Some(ContainerState::default()), ..base };
    };
    let shown = Shown::for_unit(view, unit, seen, plan);
    let has_run = !shown.container_id.is_empty();
    let resources = unit.spec.resources.clone().unwrap_or_default();
    ContainerStatus {
        restart_count: i32::try_from(shown.restarts).unwrap_or(i32::MAX),
        started: Some(unit.is_started()),
        ready: is_ready(unit, seen),
        state: Some(published_end(view, unit).filter(|_| shown.state.terminated.is_none()).unwrap_or(shown.state)),
        last_state: Some(shown.last.map(terminated).unwrap_or_default()),
        image_id: if has_run { seen.image_id.clone().unwrap_or_else(|| base.image.clone()) } else { String::new() },
        container_id: has_run.then(|| format!("{ID_PREFIX}{}", shown.container_id)),
        allocated_resources: if has_run { resources.requests.clone() } else { None },
        resources: has_run.then_some(resources),
        ..base
    }
}

struct Shown<'a> {
    state: ContainerState,
    last: Option<&'a Exit>,
    container_id: &'a str,
    restarts: u32,
}

impl<'a> Shown<'a> {
    fn for_unit(view: &View<'_>, unit: &Unit<'_>, seen: &'a ContainerSeen, plan: &PodPlan) -> Self {
        let previous = seen.previous.as_ref();
        match &seen.state {
            RunState::Blocked { reason, message, .. } => Self {
                state: waiting(
                    if reason == CREATING { initial_reason(view) } else { reason },
                    Some(message.clone()).filter(|message| !message.is_empty()),
                ),
                last: previous,
                container_id: previous.map_or("", |exit| &exit.container_id),
                // The attempt has not begun, so it does not count yet.
                restarts: seen.attempt.saturating_sub(1),
            },
            RunState::Running(run) => Self {
                state: if seen.post_start == HookState::Pending {
                    waiting(initial_reason(view), None)
                } else {
                    let started_at = Some(time(run.started_at));
                    ContainerState { running: Some(ContainerStateRunning { started_at }), ..ContainerState::default() }
                },
                last: previous,
                container_id: &run.container_id,
                restarts: seen.attempt,
            },
            RunState::Exited(exit) => {
                let is_waiting = plan.backing_off.contains(unit.name());
                Self {
                    state: if is_waiting { crash_loop(view, unit, seen) } else { terminated(exit) },
                    last: if is_waiting { Some(exit) } else { previous },
                    container_id: &exit.container_id,
                    restarts: seen.attempt,
                }
            }
        }
    }
}

/// The published end of an init container that runs again in a new sandbox. Where the pod restarts only on failure, the
/// API holds a success for final.
fn published_end(view: &View<'_>, unit: &Unit<'_>) -> Option<ContainerState> {
    let statuses = view.old.init_container_statuses.as_deref()?;
    let state = statuses.iter().find(|status| status.name == unit.name())?.state.as_ref()?;
    let is_final = unit.role == Role::Init
        && Restart::of_pod(view.spec) == Restart::OnFailure
        && state.terminated.as_ref().is_some_and(|ended| ended.exit_code == 0);
    is_final.then(|| state.clone())
}

fn is_ready(unit: &Unit<'_>, seen: &ContainerSeen) -> bool {
    match unit.role {
        Role::Init => unit.exit().is_some_and(|exit| exit.code == 0),
        Role::Sidecar | Role::Main => unit.is_started() && seen.ready,
    }
}

/// The reason of a container that is on its way.
const CREATING: &str = "ContainerCreating";

fn initial_reason(view: &View<'_>) -> &'static str {
    if view.init.is_empty() { CREATING } else { "PodInitializing" }
}

fn waiting(reason: &str, message: Option<String>) -> ContainerState {
    let waiting = ContainerStateWaiting { reason: Some(reason.to_owned()), message };
    ContainerState { waiting: Some(waiting), ..ContainerState::default() }
}

fn crash_loop(view: &View<'_>, unit: &Unit<'_>, seen: &ContainerSeen) -> ContainerState {
    let wait = backoff::shown(backoff::crash_delay(seen.crashes));
    let message = format!("back-off {wait} restarting failed container={} pod={}", unit.name(), view.shown_name());
    waiting("CrashLoopBackOff", Some(message))
}

fn terminated(exit: &Exit) -> ContainerState {
    let terminated = ContainerStateTerminated {
        container_id: Some(format!("{ID_PREFIX}{}", exit.container_id)),
        exit_code: exit.code,
        reason: Some(exit.reason.clone()).filter(|reason| !reason.is_empty()),
        message: exit.message.clone().filter(|message| !message.is_empty()),
        signal: None,
        started_at: exit.started_at.map(time),
        finished_at: Some(time(exit.finished_at)),
    };
    ContainerState { terminated: Some(terminated), ..ContainerState::default() }
}

fn volume_mounts(unit: &Unit<'_>) -> Option<Vec<VolumeMountStatus>> {
    let mounts = unit.spec.volume_mounts.as_deref().unwrap_or_default().iter().map(|mount| {
        let read_only = mount.read_only.filter(|read_only| *read_only);
        VolumeMountStatus {
            name: mount.name.clone(),
            mount_path: mount.mount_path.clone(),
            read_only,
            recursive_read_only: read_only.map(|_| "Disabled".to_owned()),
        }
    });
    let mounts: Vec<_> = mounts.collect();
    (!mounts.is_empty()).then_some(mounts)
}
