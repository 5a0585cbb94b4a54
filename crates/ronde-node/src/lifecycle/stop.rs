//! The next steps of a pod that ends: main containers first, sidecars after them in reverse order, then the sandbox.

use super::{
    decision::{Action, StopReason},
    ending::{Ending, kill_at},
    plan::PodPlan,
    seen::Sandbox,
    view::{Role, View},
};

pub(super) fn plan(view: &View<'_>, ending: &Ending, plan: &mut PodPlan) {
    if !ending.is_over {
        containers(view, plan);
    } else if *view.sandbox != Sandbox::Absent {
        plan.actions.push(Action::TearDown);
    } else if view.is_deleted() && view.is_terminal() {
        // Not before the terminal phase is published: others wait to see how the pod ended.
        plan.actions.push(Action::Release);
    }
}

fn containers(view: &View<'_>, plan: &mut PodPlan) {
    let deadline = kill_at(view);
    let mut is_turn = view.main.iter().all(|unit| unit.running().is_none());
    for unit in view.units().rev() {
        if unit.role != Role::Sidecar {
            plan.stop(unit, deadline, StopReason::PodEnds);
        } else if unit.running().is_some() && is_turn {
            plan.stop(unit, deadline, StopReason::PodEnds);
            is_turn = false;
        }
    }
}
