//! What comes next for a job: another status, or, when it says all there is to say, something to do.
//!
//! Pure. The status is always written before anything is done, and everything that is done follows from it alone:
//! that is why the controller may be killed between any two writes.

use jiff::Timestamp;
use ronde_api::JobStatus;

use super::{
    draft::Draft,
    news::News,
    observed::Observed,
    plan::{self, Plan},
};

/// The next step of a job.
#[derive(Debug, Clone)]
pub enum Next {
    /// To write down.
    Record { status: Box<JobStatus>, news: Vec<News> },
    /// To do, now that the status stands.
    Act(Box<Plan>),
}

/// Decides the next step.
pub fn next(seen: &Observed<'_>, now: Timestamp) -> Next {
    let mut draft = Draft::new(seen, now);
    if !seen.faults.is_empty() {
        draft.refuse();
        draft.decline();
        let (status, memory, news, look_again) = draft.finish();
        let is_known = seen.job.status.as_ref() == Some(&status);
        let plan = Plan { forget: plan::done_commands(seen, &memory), look_again, ..Plan::default() };
        return if is_known { Next::Act(Box::new(plan)) } else { Next::Record { status: Box::new(status), news } };
    }
    // 1. what has ended and what is over
    draft.remember();
    // 2. what has happened, and what answers it
    if !draft.answer() {
        // 3. what follows from the pods
        draft.advance();
    }
    let phase = draft.phase();
    let (status, memory, news, look_again) = draft.finish();
    if seen.job.status.as_ref() == Some(&status) {
        let mut plan = plan::plan(seen, &memory, phase);
        plan.look_again = look_again;
        return Next::Act(Box::new(plan));
    }
    Next::Record { status: Box::new(status), news }
}
