//! Whether the pod goes on or has to end, and why.

use jiff::{SignedDuration, Timestamp};

use super::{
    backoff::after,
    phase::{Phase, of_containers},
    seen::Cause,
    view::{Restart, Role, Unit, View},
};

/// Every stopped container gets at least this long between SIGTERM and SIGKILL.
const GRACE_MIN: SignedDuration = SignedDuration::from_secs(2);
const GRACE_DEFAULT_SECONDS: i64 = 30;

pub(super) struct Ending {
    pub has_begun: bool,
    /// It has begun, and no container runs any more.
    pub is_over: bool,
    /// Set if not its containers but something else makes the pod fail.
    pub failure: Option<Cause>,
    /// Where the pod's own deadline lies, while it goes on.
    pub active_until: Option<Timestamp>,
}

impl Ending {
    pub fn of_pod(view: &View<'_>) -> Self {
        let phase = of_containers(view, false);
        let active_until = active_until(view);
        let failure = failure(view, phase, active_until);
        let has_begun = failure.is_some() || view.is_deleted() || view.is_terminal() || phase.is_terminal();
        let is_over = has_begun && view.units().all(|unit| unit.running().is_none());
        Self { has_begun, is_over, failure, active_until }
    }
}

/// When the containers of an ending pod are killed.
pub(super) fn kill_at(view: &View<'_>) -> Timestamp {
    let deletion = view.pod.metadata.deletion_timestamp.as_ref();
    // Who has to make room does it at once.
    let grace = if view.evicted.is_some() { GRACE_MIN } else { grace(view, None) };
    let at = deletion.map_or_else(|| after(view.now, grace), |time| time.0);
    at.max(after(view.now, GRACE_MIN))
}

/// When a container that is stopped alone is killed; a probe may have its own grace period.
pub(super) fn restart_kill_at(view: &View<'_>, probe_seconds: Option<i64>) -> Timestamp {
    after(view.now, grace(view, probe_seconds).max(GRACE_MIN))
}

fn grace(view: &View<'_>, probe_seconds: Option<i64>) -> SignedDuration {
    let seconds = probe_seconds.or(view.spec.termination_grace_period_seconds).unwrap_or(GRACE_DEFAULT_SECONDS);
    SignedDuration::from_secs(seconds)
}

fn active_until(view: &View<'_>) -> Option<Timestamp> {
    let seconds = view.spec.active_deadline_seconds?;
    let start = view.old.start_time.as_ref().map_or(view.now, |time| time.0);
    Some(after(start, SignedDuration::from_secs(seconds)))
}

fn failure(view: &View<'_>, phase: Phase, active_until: Option<Timestamp>) -> Option<Cause> {
    if view.is_terminal() {
        return None;
    }
    if let Some(refused) = view.refused {
        let message = format!("Pod was rejected: {}", refused.message);
        return Some(Cause { reason: refused.reason.clone(), message });
    }
    if let Some(evicted) = view.evicted {
        return Some(evicted.clone());
    }
    let ended_at = if phase.is_terminal() { ended_at(view) } else { None };
    if active_until.is_some_and(|until| ended_at.unwrap_or(view.now) >= until) {
        let message = "Pod was active on the node longer than the specified deadline";
        return Some(Cause { reason: "DeadlineExceeded".to_owned(), message: message.to_owned() });
    }
    let is_lost = !phase.is_terminal() && !view.is_deleted() && has_lost_its_only_run(view);
    is_lost.then(|| Cause {
        reason: "SandboxLost".to_owned(),
        message: "The pod's processes are gone and its restart policy does not allow a restart".to_owned(),
    })
}

/// When the last container that counts ended: a pod that was stopped at its deadline ended after it.
fn ended_at(view: &View<'_>) -> Option<Timestamp> {
    let that_count = view.units().filter(|unit| unit.role != Role::Sidecar);
    that_count.filter_map(|unit| unit.exit()).map(|exit| exit.finished_at).max()
}

/// Whether a pod that runs once has begun and cannot go on, because the sandbox it began in is gone.
fn has_lost_its_only_run(view: &View<'_>) -> bool {
    let ran_before = |unit: &Unit<'_>| unit.seen.as_deref().is_some_and(|seen| !seen.current) && unit.exit().is_some();
    Restart::of_pod(view.spec) == Restart::Never && !view.is_initialized() && view.units().any(ran_before)
}
