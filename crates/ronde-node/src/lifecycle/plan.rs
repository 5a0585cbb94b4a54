//! The list of steps that a decision collects.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::{
    backoff,
    decision::{Action, PodEvent, Severity, StopReason},
    seen::RunState,
    view::{Restart, Role, Unit, View},
};

#[derive(Default)]
pub(super) struct PodPlan {
    pub actions: Vec<Action>,
    pub wake_at: Option<Timestamp>,
    /// What the actions themselves are worth telling.
    pub events: Vec<PodEvent>,
    /// The containers that ended and wait for their next start.
    pub backing_off: BTreeSet<String>,
}

impl PodPlan {
    pub fn wake(&mut self, at: Timestamp) {
        self.wake_at = Some(self.wake_at.map_or(at, |earlier| earlier.min(at)));
    }

    /// Starts a container that does not run, now or when its back-off is over.
    pub fn start(&mut self, view: &View<'_>, unit: &Unit<'_>) {
        let seen = unit.seen.as_deref();
        let due = seen.and_then(|seen| backoff::due(&seen.state, seen.crashes));
        if let Some(due) = due.filter(|due| *due > view.now) {
            self.wake(due);
            if unit.exit().is_some() {
                self.backing_off.insert(unit.name().to_owned());
            }
            return;
        }
        let attempt = seen.map_or(0, |seen| match seen.state {
            RunState::Blocked { .. } => seen.attempt,
            RunState::Running(_) | RunState::Exited(_) => seen.attempt.saturating_add(1),
        });
        self.actions.push(Action::Start { container: unit.name().to_owned(), attempt });
    }

    /// Stops a running container, unless it is being stopped as early already.
    pub fn stop(&mut self, unit: &Unit<'_>, deadline: Timestamp, reason: StopReason) {
        let Some(seen) = unit.running() else { return };
        match seen.stopping {
            Some(ordered) if ordered <= deadline => return,
            Some(_) => {}
            None => self.record_event(unit, Severity::Normal, "Killing", killing(unit, reason)),
        }
        self.actions.push(Action::Stop { container: unit.name().to_owned(), deadline, reason });
    }

    pub fn record_event(&mut self, unit: &Unit<'_>, severity: Severity, reason: &str, message: String) {
        self.events.push(PodEvent { severity, reason: reason.to_owned(), message, field_path: unit.field_path() });
    }
}

fn killing(unit: &Unit<'_>, reason: StopReason) -> String {
    let name = unit.name();
    let probe = match reason {
        StopReason::PodEnds => return format!("Stopping container {name}"),
        StopReason::PostStart => return "FailedPostStartHook".to_owned(),
        StopReason::Liveness => "liveness",
        StopReason::Startup => "startup",
    };
    match unit.role {
        Role::Main if unit.restart == Restart::Never => format!("Container {name} failed {probe} probe"),
        Role::Main => format!("Container {name} failed {probe} probe, will be restarted"),
        Role::Init | Role::Sidecar => format!("Init container {name} failed {probe} probe"),
    }
}
