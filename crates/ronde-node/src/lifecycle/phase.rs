//! The pod's phase as its containers make it.

use super::view::{Progress, Role, Unit, View};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Pending,
    Running,
    Succeeded,
    Failed,
}

impl Phase {
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }

    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// Returns the phase; with `is_over` no container comes back, whatever its restart policy says.
pub(super) fn of_containers(view: &View<'_>, is_over: bool) -> Phase {
    if view.init.iter().any(has_failed_for_good) {
        return Phase::Failed;
    }
    if view.init.iter().any(|unit| is_pending(view, unit)) {
        return Phase::Pending;
    }
    let mains: Vec<_> = view.main.iter().map(|unit| (unit, unit.progress())).collect();
    if mains.iter().any(|(_, progress)| *progress == Progress::Unstarted) {
        return Phase::Pending;
    }
    let comes_back = |(unit, progress): &(&Unit<'_>, Progress<'_>)| match progress {
        Progress::Ended(exit) => !is_over && unit.restarts_after(exit),
        Progress::Running | Progress::Unstarted => true,
    };
    if mains.iter().any(comes_back) {
        return Phase::Running;
    }
    let succeeded = mains.iter().all(|(_, progress)| matches!(progress, Progress::Ended(exit) if exit.code == 0));
    if succeeded { Phase::Succeeded } else { Phase::Failed }
}

fn has_failed_for_good(unit: &Unit<'_>) -> bool {
    let is_init = unit.role == Role::Init;
    is_init && matches!(unit.progress(), Progress::Ended(exit) if exit.code != 0 && !unit.restarts_after(exit))
}

/// Whether an init container still holds the pod back. One that ended badly does so through the containers after it.
fn is_pending(view: &View<'_>, unit: &Unit<'_>) -> bool {
    match (unit.role, unit.progress()) {
        (_, Progress::Unstarted) => true,
        (Role::Init, progress) => progress == Progress::Running,
        (_, Progress::Running) => !view.is_initialized() && !unit.is_started(),
        (_, Progress::Ended(_)) => false,
    }
}
