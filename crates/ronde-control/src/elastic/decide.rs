//! Decides what comes next for a training job: another status, or, when it says all there is to say, a plan. Pure.

use jiff::Timestamp;
use ronde_api::TrainingJobStatus;

use super::{
    observed::Observed,
    plan::{self, TrainingJobPlan},
    status_builder::StatusBuilder,
};
use crate::reconcile::Step;

/// Decides the next step.
pub fn decide(seen: &Observed<'_>, now: Timestamp) -> Step<TrainingJobStatus, TrainingJobPlan> {
    let mut builder = StatusBuilder::new(seen, now);
    if seen.faults.is_empty() {
        // 1. whether the job runs at all
        builder.begin();
        builder.heed_replicas();
        builder.heed_suspension();
        // 2. whether it has ended, and whether it runs again
        builder.judge_launcher();
        builder.restart();
        // 3. which workers it has lost, and which come and go
        builder.count_losses();
        builder.scale();
        builder.fill();
        // 4. how far it has come
        builder.advance();
        builder.give_up_waiting();
    } else {
        builder.refuse();
    }
    let (status, events, look_again) = builder.finish();
    if seen.job.status.as_ref() == Some(&status) {
        let mut plan = plan::plan(seen, &status, now);
        plan.look_again = plan.look_again.into_iter().chain(look_again).min();
        return Step::Apply(Box::new(plan));
    }
    Step::Write { status: Box::new(status), events }
}
