//! Decides what comes next for a job: another status, or, when it says all there is to say, a plan. Pure.

use jiff::{SignedDuration, Timestamp};
use ronde_api::JobStatus;

use super::{
    observed::Observed,
    plan::{self, VcJobPlan},
    status_builder::StatusBuilder,
    tally::is_recount,
};
use crate::reconcile::{JobEvent, Step};

/// How often a status is written in which nothing but the numbers of pods are others: a thousand pods that begin to run one
/// after the other are not a thousand writes.
const RECOUNT_EVERY: SignedDuration = SignedDuration::from_millis(500);

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
    let (mut status, mut memory, events, look_again) = builder.finish();
    let recount_in = recount_in(seen, &status, &events, now);
    if seen.job.status.as_ref() == Some(&status) || recount_in.is_some() {
        let mut plan = plan::plan(seen, &memory, phase);
        plan.look_again = look_again.into_iter().chain(recount_in).min();
        return Step::Apply(Box::new(plan));
    }
    // 4. what alone is no news
    if seen.in_place.is_some() && !phase.is_final() {
        memory.applied.clone_from(&seen.in_place);
        memory.write(&mut status);
    }
    Step::Write { status: Box::new(status), events }
}

/// Returns how long a status may wait: for a while, if only numbers are others.
fn recount_in(seen: &Observed<'_>, status: &JobStatus, events: &[JobEvent], now: Timestamp) -> Option<SignedDuration> {
    let before = seen.job.status.as_ref()?;
    let wait = (seen.told? + RECOUNT_EVERY).duration_since(now);
    (wait.is_positive() && events.is_empty() && before != status && is_recount(before, status)).then_some(wait)
}
