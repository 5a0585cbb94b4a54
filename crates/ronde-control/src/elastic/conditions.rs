//! Conditions of training jobs and scale operations, and the words in them that users rely on. Pure.
//!
//! The order matters: clients of et-operator show the last one, so one that changes goes to the end.

use jiff::Timestamp;
use ronde_api::ElasticCondition;

use ronde_runtime::pods::time;

use crate::reconcile::Cause;

pub const JOB_CREATED: &str = "TrainingJobCreated";
pub const JOB_RUNNING: &str = "TrainingJobRunning";
pub const JOB_SUCCEEDED: &str = "TrainingJobSucceeded";
pub const JOB_FAILED: &str = "TrainingJobFailed";
pub const JOB_EVICTED: &str = "TrainingJobEvicted";
pub const WORKER_FAILED: &str = "TrainingJobWorkerFailed";
pub const WORKER_CREATED: &str = "TrainingJobWorkerCreated";
pub const SCALING_START: &str = "ScalingStart";
/// Ours.
pub const JOB_SUSPENDED: &str = "TrainingJobSuspended";
pub const JOB_RESUMED: &str = "TrainingJobResumed";
pub const JOB_RESTARTED: &str = "TrainingJobRestarted";
pub const INVALID_JOB: &str = "InvalidJob";
pub const TOO_FEW_WORKERS: &str = "TooFewWorkers";
pub const WORKERS_WAIT: &str = "WorkersWait";
pub const WORKER_FAILURES: &str = "WorkerFailuresExceeded";
pub const MAX_WAIT_TIME: &str = "MaxWaitTimeExceeded";
pub const LAUNCHER_VANISHING: &str = "LauncherVanishing";
pub const LAUNCHER_GONE: &str = "LauncherGone";

pub const TRUE: &str = "True";
pub const FALSE: &str = "False";

/// Says that something is so or not.
pub fn set(conditions: &mut Vec<ElasticCondition>, type_: &str, status: &str, cause: &Cause, now: Timestamp) {
    let before = conditions.iter().position(|condition| condition.type_ == type_);
    let was = before.map(|at| &conditions[at]);
    let is_same =
        |was: &ElasticCondition| was.status == status && was.reason == cause.reason && was.message == cause.message;
    if was.is_some_and(is_same) {
        return;
    }
    let since = was.filter(|was| was.status == status).and_then(|was| was.last_transition_time.clone());
    conditions.retain(|condition| condition.type_ != type_);
    conditions.push(ElasticCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: cause.reason.clone(),
        message: cause.message.clone(),
        last_update_time: Some(time(now)),
        last_transition_time: since.or(Some(time(now))),
    });
}

/// Tells whether something is so.
pub fn is_true(conditions: &[ElasticCondition], type_: &str) -> bool {
    conditions.iter().any(|condition| condition.type_ == type_ && condition.status == TRUE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_goes_to_the_end_and_keeps_its_time_while_it_stays_so() {
        let at = |second| Timestamp::from_second(second).expect("a time");
        let mut conditions = Vec::new();
        let because = |message: &str| Cause::new("Why", message);
        set(&mut conditions, "A", TRUE, &because("one"), at(1));
        set(&mut conditions, "B", TRUE, &because("two"), at(2));
        set(&mut conditions, "A", TRUE, &because("one"), at(3));
        let order = |conditions: &[ElasticCondition]| conditions.iter().map(|c| c.type_.clone()).collect::<String>();
        assert_eq!(order(&conditions), "AB", "what is said again does not move");
        set(&mut conditions, "A", TRUE, &because("three"), at(4));
        assert_eq!(order(&conditions), "BA");
        assert_eq!(conditions[1].last_transition_time, Some(time(at(1))));
        set(&mut conditions, "A", FALSE, &because("three"), at(5));
        assert_eq!(conditions[1].last_transition_time, Some(time(at(5))));
        assert!(is_true(&conditions, "B") && !is_true(&conditions, "A"));
    }
}
