//! Which phase follows from the pods of a job alone, and what it waits for. Pure.

use ronde_api::{JobPhase, JobStatus, PodGroupConditionType, PodGroupPhase};
use ronde_runtime::pods::{
    state::PodState,
    trouble::{self, Trouble},
};

use super::{
    events,
    memory::{Disrupted, Memory},
    observed::{Observed, is_past_group},
    occurrence,
    plugins::Plugins,
    tally::Tally,
};
use crate::reconcile::{Cause, apply::FAILED_CREATE};

/// Reasons of phases, which say nothing of what is wrong.
const STARTED: &str = "Started";
const RESTARTED: &str = "Restarted";
const PODS_PENDING: &str = "PodsPending";

/// Returns the next phase, if it is another one.
pub fn next_phase(
    seen: &Observed<'_>,
    status: &JobStatus,
    tally: &Tally,
    phase: JobPhase,
) -> Option<(JobPhase, Cause)> {
    let (replicas, least) = (seen.replicas(), seen.spec().min_available);
    let begun = tally.running + tally.succeeded + tally.failed;
    match phase {
        JobPhase::Pending if least <= begun => Some((JobPhase::Running, started(seen, tally))),
        JobPhase::Running => running(seen, tally),
        JobPhase::Restarting if status.retry_count >= seen.max_retry() => {
            let (most, last) = (seen.max_retry(), &status.state.message);
            let runs = if most == 1 { "1 run".to_owned() } else { format!("{most} runs") };
            let message = format!("failed after {runs}, the limit of maxRetry; last: {last}");
            Some((JobPhase::Failed, Cause::new("RetryLimitReached", message)))
        }
        JobPhase::Restarting if replicas - tally.terminating >= least => {
            Some((JobPhase::Pending, Cause::new(RESTARTED, status.state.message.clone())))
        }
        JobPhase::Aborting if tally.alive() == 0 => Some((JobPhase::Aborted, kept(status))),
        JobPhase::Completing if tally.alive() == 0 => Some((JobPhase::Completed, kept(status))),
        JobPhase::Terminating if tally.alive() == 0 => Some((JobPhase::Terminated, kept(status))),
        _ => None,
    }
}

fn started(seen: &Observed<'_>, tally: &Tally) -> Cause {
    let (begun, replicas, least) =
        (tally.running + tally.succeeded + tally.failed, seen.replicas(), seen.spec().min_available);
    Cause::new(STARTED, format!("{begun} of {replicas} pods started, {least} required"))
}

/// Returns what a job says of its phase when nothing is wrong any more; none if it says so already.
pub fn usual(seen: &Observed<'_>, tally: &Tally, status: &JobStatus) -> Option<Cause> {
    let reason = status.state.reason.as_str();
    match status.state.phase {
        Some(JobPhase::Running) if !matches!(reason, "" | STARTED) => Some(started(seen, tally)),
        Some(JobPhase::Pending) if !matches!(reason, "" | RESTARTED | PODS_PENDING) => Some(Cause::new("", "")),
        _ => None,
    }
}

/// The end has the cause that its beginning had.
fn kept(status: &JobStatus) -> Cause {
    Cause::new(&status.state.reason, status.state.message.clone())
}

fn running(seen: &Observed<'_>, tally: &Tally) -> Option<(JobPhase, Cause)> {
    let (spec, replicas, succeeded) = (seen.spec(), seen.replicas(), tally.succeeded);
    if replicas == 0 {
        return None;
    }
    if let Some(wanted) = spec.min_success
        && succeeded >= wanted
    {
        let message = format!("{succeeded} pods succeeded, minSuccess is {wanted}");
        return Some((JobPhase::Completed, Cause::new("MinSuccessReached", message)));
    }
    if succeeded + tally.failed >= replicas {
        return Some(verdict(seen, tally));
    }
    let may_wait = replicas - spec.min_available;
    let message = || format!("{} of {replicas} pods are pending, at most {may_wait} may be", tally.pending);
    (tally.pending > may_wait).then(|| (JobPhase::Pending, Cause::new(PODS_PENDING, message())))
}

/// All pods have ended.
fn verdict(seen: &Observed<'_>, tally: &Tally) -> (JobPhase, Cause) {
    let (spec, succeeded) = (seen.spec(), tally.succeeded);
    let of_tasks: i32 = spec.tasks.iter().map(ronde_api::TaskSpec::min_available).sum();
    let short = spec.tasks.iter().find(|task| tally.succeeded_of(&task.name) < task.min_available());
    let failed = |reason: &str, message: String| {
        let failed = seen.members.iter().find(|member| member.state == PodState::Failed && !seen.is_surplus(member));
        let why = failed.map(|member| format!("; {}", occurrence::failure(member))).unwrap_or_default();
        (JobPhase::Failed, Cause::new(reason, format!("{message}{why}")))
    };
    if let Some(task) = short.filter(|_| spec.min_available >= of_tasks) {
        let (has, needs) = (tally.succeeded_of(&task.name), task.min_available());
        let message = format!("task {}: {has} of {} pods succeeded, {needs} required", task.name, task.replicas);
        return failed("TaskBelowMinAvailable", message);
    }
    if let Some(wanted) = spec.min_success {
        let message = format!("{succeeded} of {} pods succeeded, {wanted} required", seen.replicas());
        return failed("MinSuccessMissed", message);
    }
    let message = format!("{succeeded} of {} pods succeeded, {} required", seen.replicas(), spec.min_available);
    if succeeded >= spec.min_available {
        (JobPhase::Completed, Cause::new("PodsSucceeded", message))
    } else {
        failed("PodsFailed", message)
    }
}

/// Returns what keeps a job from running, or a part of it although it runs, as far as anything is known.
pub fn obstacle(seen: &Observed<'_>, memory: &Memory, phase: JobPhase) -> Option<Cause> {
    let refused = seen.refusal.as_ref().map(|why| Cause::new(FAILED_CREATE, why));
    let waits = || if phase == JobPhase::Pending { wait(seen, memory) } else { None };
    refused.or_else(waits).or_else(|| trouble(seen, memory))
}

/// Puts in front of an obstacle that pods were ended which had done nothing wrong.
pub fn with_disruption(obstacle: Option<Cause>, memory: &Memory) -> Option<Cause> {
    let Some(Disrupted { why, .. }) = &memory.disruption else { return obstacle };
    Some(match obstacle {
        Some(Cause { reason, message }) => Cause { reason, message: format!("{why}; {message}") },
        None => Cause::new(events::DISRUPTED, why.clone()),
    })
}

/// Returns what is wrong with the first pod whose containers cannot start.
fn trouble(seen: &Observed<'_>, memory: &Memory) -> Option<Cause> {
    let mut present = seen.members.iter().filter(|member| seen.is_present(memory, member) && !member.is_deleted());
    present.find_map(|member| {
        let Trouble { reason, message } = trouble::of_pod(&member.pod)?;
        Some(Cause::new(reason, format!("pod {}: {message}", member.name)))
    })
}

fn wait(seen: &Observed<'_>, memory: &Memory) -> Option<Cause> {
    let missing = seen.missing_claims();
    if !missing.is_empty() {
        let message = format!("waiting for PersistentVolumeClaim {}, which does not exist", missing.join(", "));
        return Some(Cause::new(events::PVC_ERROR, message));
    }
    if let Some(obstacle) = Plugins::of_job(seen.job).obstacle() {
        return Some(Cause::new(events::PLUGIN_ERROR, obstacle));
    }
    let group = seen.group.as_ref().filter(|group| !is_past_group(memory, group))?;
    let is_waiting = matches!(group.phase(), None | Some(PodGroupPhase::Pending | PodGroupPhase::Inqueue));
    let mut conditions = group.status.iter().flat_map(|status| &status.conditions);
    let is_why = |kind, status: &str| kind == PodGroupConditionType::Unschedulable && status == "True";
    let why = conditions.rfind(|condition| is_why(condition.type_, &condition.status))?;
    is_waiting.then(|| Cause::new(events::POD_GROUP_PENDING, why.message.clone()))
}
