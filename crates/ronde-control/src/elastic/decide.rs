//! Decides what comes next for a training job: another status, or, when it says all there is to say, a plan. Pure.

use jiff::Timestamp;
use ronde_api::TrainingJobStatus;

use super::{
    draft::Draft,
    observed::Observed,
    plan::{self, Plan},
};
use crate::reconcile::Step;

/// Decides the next step.
pub fn decide(seen: &Observed<'_>, now: Timestamp) -> Step<TrainingJobStatus, Plan> {
    let mut draft = Draft::new(seen, now);
    if seen.faults.is_empty() {
        // 1. whether the job runs at all
        draft.begin();
        draft.heed_suspension();
        // 2. whether it has ended, and whether it runs again
        draft.judge_launcher();
        draft.restart();
        // 3. which workers it has lost, and which come and go
        draft.count_losses();
        draft.scale();
        draft.fill();
        // 4. how far it has come
        draft.advance();
        draft.give_up_waiting();
    } else {
        draft.refuse();
    }
    let (status, events, look_again) = draft.finish();
    if seen.job.status.as_ref() == Some(&status) {
        let mut plan = plan::plan(seen, &status, now);
        plan.look_again = plan.look_again.into_iter().chain(look_again).min();
        return Step::Apply(Box::new(plan));
    }
    Step::Write { status: Box::new(status), events }
}
