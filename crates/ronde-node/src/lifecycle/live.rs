//! The next steps of a pod that goes on: sandbox, init containers in order, then the main ones together.

use k8s_openapi::api::core::v1::Probe;

use super::{
    backoff::sandbox_due,
    decision::{Action, Severity, StopReason},
    ending::{Ending, restart_kill_at},
    plan::PodPlan,
    seen::{Ailment, HookState, Sandbox},
    view::{Role, Unit, View},
};

pub(super) fn plan(view: &View<'_>, ending: &Ending, plan: &mut PodPlan) {
    if let Some(until) = ending.active_until {
        plan.wake(until);
    }
    match view.sandbox {
        Sandbox::Ready { .. } => containers(view, plan),
        Sandbox::Failed { at, tries, .. } if sandbox_due(*at, *tries) > view.now => plan.wake(sandbox_due(*at, *tries)),
        Sandbox::Absent | Sandbox::Failed { .. } | Sandbox::Lost { .. } => plan.actions.push(Action::EnsureSandbox),
    }
}

fn containers(view: &View<'_>, plan: &mut PodPlan) {
    for unit in &view.init {
        let is_done = match unit.role {
            Role::Sidecar => sidecar(view, unit, plan),
            Role::Init | Role::Main => view.is_initialized() || init(view, unit, plan),
        };
        if !is_done && !view.is_initialized() {
            return;
        }
    }
    for unit in &view.main {
        if unit.running().is_some() {
            heal(view, unit, plan);
        } else if unit.exit().is_none_or(|exit| unit.restarts_after(exit)) {
            plan.start(view, unit);
        }
    }
}

/// Takes an init container a step on; returns whether it has succeeded in this sandbox.
fn init(view: &View<'_>, unit: &Unit<'_>, plan: &mut PodPlan) -> bool {
    let is_current = unit.seen.as_deref().is_some_and(|seen| seen.current);
    if is_current && unit.exit().is_some_and(|exit| exit.code == 0) {
        return true;
    }
    if unit.running().is_none() {
        plan.start(view, unit);
    }
    false
}

/// Keeps a sidecar running; returns whether the next container may start.
fn sidecar(view: &View<'_>, unit: &Unit<'_>, plan: &mut PodPlan) -> bool {
    if unit.running().is_none() {
        plan.start(view, unit);
        return false;
    }
    heal(view, unit, plan);
    unit.is_started()
}

/// Stops a running container whose probe or hook has failed; its exit then leads to the restart.
fn heal(view: &View<'_>, unit: &Unit<'_>, plan: &mut PodPlan) {
    let Some(seen) = unit.running().filter(|seen| seen.stopping.is_none()) else { return };
    let grace_of = |probe: &Option<Probe>| probe.as_ref().and_then(|probe| probe.termination_grace_period_seconds);
    let (reason, seconds) = match (seen.post_start, seen.unhealthy) {
        (HookState::Failed, _) => {
            plan.record_event(unit, Severity::Warning, "FailedPostStartHook", "PostStartHook failed".to_owned());
            (StopReason::PostStart, None)
        }
        (_, Some(Ailment::Liveness)) => (StopReason::Liveness, grace_of(&unit.spec.liveness_probe)),
        (_, Some(Ailment::Startup)) => (StopReason::Startup, grace_of(&unit.spec.startup_probe)),
        (_, None) => return,
    };
    plan.stop(unit, restart_kill_at(view, seconds), reason);
}
