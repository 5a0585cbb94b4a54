//! The pod's phase machine: given all that is seen of a pod, the status to publish and what to do next.
//!
//! Called by the pod's worker after every change and at `wake_at`. Pure: no clock, no I/O, no memory between calls.
//! What must be remembered is in the pod's published status and in the supervisor's records, so a decision repeated
//! after a crash is the same decision.
//!
//! ```text
//!            sandbox            init done, all started
//!  Pending ───────────▶ Pending ───────────────────────▶ Running
//!     │                    │                                │ ended for good, deleted, deadline
//!     │ refused, deleted   │ an init container failed       ▼
//!     └────────────────────┴───────────▶ stop containers, then Succeeded / Failed ─▶ TearDown ─▶ Release (if deleted)
//! ```

mod backoff;
mod conditions;
mod container_status;
mod decision;
mod ending;
mod events;
mod live;
mod phase;
mod plan;
mod seen;
mod status;
mod stop;
mod view;

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

pub use self::{
    backoff::{blocked_until, crashes_after, pull_due},
    decision::{Action, Decision, PodEvent, Severity, StopReason},
    seen::{Ailment, Cause, ContainerSeen, Exit, HookState, PodSeen, Run, RunState, Sandbox},
};
use self::{ending::Ending, plan::PodPlan, view::View};

/// Returns the status to publish, what to do, and when to ask again if nothing happens.
///
/// `seen.pod` must carry the status that was published last: events are told once by comparing with it.
pub fn decide(seen: &PodSeen<'_>) -> Decision {
    // 1. Put what is recorded and what was published into one picture.
    let view = View::new(seen);
    // 2. See whether the pod has to end.
    let ending = Ending::of_pod(&view);
    // 3. Find the next steps.
    let mut plan = PodPlan::default();
    if ending.has_begun {
        stop::plan(&view, &ending, &mut plan);
    } else {
        live::plan(&view, &ending, &mut plan);
    }
    // 4. Say how the pod is.
    let status = status::build(&view, &ending, &plan);
    let mut events = events::changes(&view, &ending, &status);
    events.append(&mut plan.events);
    Decision { status, actions: plan.actions, wake_at: plan.wake_at, events }
}
