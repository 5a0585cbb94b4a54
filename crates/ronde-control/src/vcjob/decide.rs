//! Decides what comes next for a job: another status, or, when it says all there is to say, a plan. Pure.

use jiff::Timestamp;
use ronde_api::JobStatus;

use super::{
    observed::Observed,
    plan::{self, VcJobPlan},
    status_builder::StatusBuilder,
};
use crate::reconcile::Step;

/// Decides the next step.
pub fn decide(seen: &Observed<'_>, now: Timestamp) -> Step<JobStatus, VcJobPlan> {
    let mut builder = StatusBuilder::new(seen, now);
    if !seen.faults.is_empty() {
        builder.refuse();
        builder.decline();
        let (status, memory, events, look_again) = builder.finish();
        let is_known = seen.job.status.as_ref() == Some(&status);
        let plan = VcJobPlan { forget: plan::done_commands(seen, &memory), look_again, ..VcJobPlan::default() };
        return if is_known { Step::Apply(Box::new(plan)) } else { Step::Write { status: Box::new(status), events } };
    }
    // 1. what has ended and what is over
    builder.remember();
    // 2. what has happened, and what answers it
    // 3. which pods are to be others
    if !builder.answer() && !builder.renew() {
        // 4. what follows from the pods
        builder.advance();
    }
    let phase = builder.phase();
    let (status, memory, events, look_again) = builder.finish();
    if seen.job.status.as_ref() == Some(&status) {
        let mut plan = plan::plan(seen, &memory, phase);
        plan.look_again = look_again;
        return Step::Apply(Box::new(plan));
    }
    Step::Write { status: Box::new(status), events }
}
