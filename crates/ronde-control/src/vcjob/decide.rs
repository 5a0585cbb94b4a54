//! Decides what comes next for a job: another status, or, when it says all there is to say, a plan. Pure.

use jiff::Timestamp;
use ronde_api::JobStatus;

use super::{
    draft::Draft,
    observed::Observed,
    plan::{self, Plan},
};
use crate::reconcile::Step;

/// Decides the next step.
pub fn decide(seen: &Observed<'_>, now: Timestamp) -> Step<JobStatus, Plan> {
    let mut draft = Draft::new(seen, now);
    if !seen.faults.is_empty() {
        draft.refuse();
        draft.decline();
        let (status, memory, events, look_again) = draft.finish();
        let is_known = seen.job.status.as_ref() == Some(&status);
        let plan = Plan { forget: plan::done_commands(seen, &memory), look_again, ..Plan::default() };
        return if is_known { Step::Apply(Box::new(plan)) } else { Step::Write { status: Box::new(status), events } };
    }
    // 1. what has ended and what is over
    draft.remember();
    // 2. what has happened, and what answers it
    if !draft.answer() {
        // 3. what follows from the pods
        draft.advance();
    }
    let phase = draft.phase();
    let (status, memory, events, look_again) = draft.finish();
    if seen.job.status.as_ref() == Some(&status) {
        let mut plan = plan::plan(seen, &memory, phase);
        plan.look_again = look_again;
        return Step::Apply(Box::new(plan));
    }
    Step::Write { status: Box::new(status), events }
}
