//! What comes next for a training job: another status, or, when it says all there is to say, something to do.
//!
//! Pure. The status is always written before anything is done, and everything that is done follows from it alone:
//! that is why the controller may be killed between any two writes.

use jiff::Timestamp;
use ronde_api::TrainingJobStatus;

use super::{
    draft::{Draft, News},
    observed::Observed,
    plan::{self, Plan},
};

/// The next step of a job.
#[derive(Debug, Clone)]
pub enum Next {
    /// To write down.
    Record { status: Box<TrainingJobStatus>, news: Vec<News> },
    /// To do, now that the status stands.
    Act(Box<Plan>),
}

/// Decides the next step.
pub fn next(seen: &Observed<'_>, now: Timestamp) -> Next {
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
    let (status, news, look_again) = draft.finish();
    if seen.job.status.as_ref() == Some(&status) {
        let mut plan = plan::plan(seen, &status, now);
        plan.look_again = plan.look_again.into_iter().chain(look_again).min();
        return Next::Act(Box::new(plan));
    }
    Next::Record { status: Box::new(status), news }
}
