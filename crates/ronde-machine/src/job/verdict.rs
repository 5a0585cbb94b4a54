//! Whether a job has come to its end, and why.
//!
//! Pure. Once told in a condition (`SuccessCriteriaMet`, `FailureTarget`) a verdict stands, whatever happens to the pods.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    batch::v1::{JobCondition, JobStatus},
    core::v1::Pod,
};
use ronde_runtime::pods::phase;

use super::{
    census::{Census, Observed},
    policy::{self, Failure},
};

pub const SUCCESS_CRITERIA_MET: &str = "SuccessCriteriaMet";
pub const FAILURE_TARGET: &str = "FailureTarget";
pub const COMPLETE: &str = "Complete";
pub const FAILED: &str = "Failed";
pub const SUSPENDED: &str = "Suspended";

/// How a job ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    pub is_success: bool,
    pub reason: String,
    pub message: String,
}

impl Verdict {
    fn failure(reason: &str, message: impl Into<String>) -> Option<Self> {
        Some(Self { is_success: false, reason: reason.to_owned(), message: message.into() })
    }

    fn success(reason: &str, message: impl Into<String>) -> Option<Self> {
        Some(Self { is_success: true, reason: reason.to_owned(), message: message.into() })
    }

    /// Returns the condition that announces the end, and the one that states it.
    pub fn conditions(&self) -> (&'static str, &'static str) {
        if self.is_success { (SUCCESS_CRITERIA_MET, COMPLETE) } else { (FAILURE_TARGET, FAILED) }
    }
}

/// Returns how a job ends, if it does; for a success its last pods have to have gone.
pub fn verdict(observed: &Observed<'_>, census: &Census, now: Timestamp) -> Option<Verdict> {
    announced(&observed.status())
        .or_else(|| by_failure_policy(observed))
        .or_else(|| by_limits(observed, census, now))
        .or_else(|| by_failed_indexes(observed, census))
        .or_else(|| by_success(observed, census))
}

/// Returns how long a job may still be active.
pub fn deadline_in(observed: &Observed<'_>, now: Timestamp) -> Option<SignedDuration> {
    let seconds = observed.spec.active_deadline_seconds.filter(|_| !observed.is_suspended())?;
    let start = observed.job.status.as_ref().and_then(|status| status.start_time.as_ref()).map_or(now, |time| time.0);
    Some(start.duration_since(now) + SignedDuration::from_secs(seconds))
}

/// Tells whether a job has ended.
pub fn is_finished(status: Option<&JobStatus>) -> bool {
    status.is_some_and(|status| [COMPLETE, FAILED].iter().any(|kind| condition(status, kind).is_some()))
}

/// Returns a condition that is true.
pub fn condition<'a>(status: &'a JobStatus, kind: &str) -> Option<&'a JobCondition> {
    let conditions = status.conditions.iter().flatten();
    conditions.into_iter().find(|condition| condition.type_ == kind && condition.status == "True")
}

fn announced(status: &JobStatus) -> Option<Verdict> {
    let success = condition(status, SUCCESS_CRITERIA_MET).map(|condition| (true, condition));
    let (is_success, condition) = success.or_else(|| condition(status, FAILURE_TARGET).map(|found| (false, found)))?;
    let reason = condition.reason.clone().unwrap_or_default();
    Some(Verdict { is_success, reason, message: condition.message.clone().unwrap_or_default() })
}

fn by_failure_policy(observed: &Observed<'_>) -> Option<Verdict> {
    let failed = observed.pods.iter().filter(|pod| observed.has_failed(pod));
    let message = failed.into_iter().find_map(|pod| match policy::judge(observed.spec, pod) {
        Failure::FailsJob(message) => Some(message),
        _ => None,
    });
    message.and_then(|message| Verdict::failure("PodFailurePolicy", message))
}

fn by_limits(observed: &Observed<'_>, census: &Census, now: Timestamp) -> Option<Verdict> {
    let limit = observed.spec.backoff_limit.unwrap_or(6);
    let is_active = observed.job.status.as_ref().is_some_and(|status| status.start_time.is_some());
    if census.failed > limit || has_restarted_too_often(observed, limit) {
        Verdict::failure("BackoffLimitExceeded", "Job has reached the specified backoff limit")
    } else if is_active && deadline_in(observed, now).is_some_and(|left| left <= SignedDuration::ZERO) {
        Verdict::failure("DeadlineExceeded", "Job was active longer than specified deadline")
    } else {
        None
    }
}

/// Pods that restart their containers themselves fail through the restarts.
fn has_restarted_too_often(observed: &Observed<'_>, limit: i32) -> bool {
    let policy = observed.spec.template.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref());
    if policy != Some("OnFailure") {
        return false;
    }
    let restarts = |pod: &Pod| {
        let status = pod.status.iter();
        let of = status.flat_map(|status| status.init_container_statuses.iter().chain(&status.container_statuses));
        of.flatten().map(|container| container.restart_count).sum::<i32>()
    };
    let running = observed.pods.iter().filter(|pod| matches!(phase(pod), "Running" | "Pending"));
    running.map(|pod| restarts(pod)).sum::<i32>() >= limit.max(1)
}

fn by_failed_indexes(observed: &Observed<'_>, census: &Census) -> Option<Verdict> {
    let failed = census.failed_indexes.as_ref()?.len();
    let ended = failed + census.succeeded_indexes.len();
    if observed.spec.max_failed_indexes.is_some_and(|most| failed > most) {
        let message = "Job has exceeded the specified maximal number of failed indexes";
        Verdict::failure("MaxFailedIndexesExceeded", message)
    } else if failed > 0 && ended >= observed.spec.completions.unwrap_or(0) {
        Verdict::failure("FailedIndexes", "Job has failed indexes")
    } else {
        None
    }
}

fn by_success(observed: &Observed<'_>, census: &Census) -> Option<Verdict> {
    if let Some(message) = policy::success(observed.spec, &census.succeeded_indexes) {
        return Verdict::success("SuccessPolicy", message);
    }
    let has_enough = match observed.spec.completions {
        None => census.succeeded > 0,
        Some(completions) => census.succeeded >= completions,
    };
    if has_enough && census.active.is_empty() {
        return Verdict::success("CompletionsReached", "Reached expected number of succeeded pods");
    }
    None
}
