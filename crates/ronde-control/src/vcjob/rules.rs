//! Which phase follows from the pods of a job alone, and what it waits for. Pure.

use ronde_api::{JobPhase, JobStatus, PodGroupConditionType, PodGroupPhase};

use super::{
    draft::Cause,
    memory::Memory,
    news,
    observed::{Observed, is_past_group},
    plugins::Plugins,
    tally::Tally,
};

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
        JobPhase::Pending if least <= begun => {
            let message = format!("{begun} of {replicas} pods have started, {least} are needed");
            Some((JobPhase::Running, Cause::new("Started", message)))
        }
        JobPhase::Running => running(seen, tally),
        JobPhase::Restarting if status.retry_count >= seen.max_retry() => {
            let message = format!("the limit of {} runs is reached; last: {}", seen.max_retry(), status.state.message);
            Some((JobPhase::Failed, Cause::new("RetryLimitReached", message)))
        }
        JobPhase::Restarting if replicas - tally.terminating >= least => {
            Some((JobPhase::Pending, Cause::new("Restarted", status.state.message.clone())))
        }
        JobPhase::Aborting if tally.alive() == 0 => Some((JobPhase::Aborted, kept(status))),
        JobPhase::Completing if tally.alive() == 0 => Some((JobPhase::Completed, kept(status))),
        JobPhase::Terminating if tally.alive() == 0 => Some((JobPhase::Terminated, kept(status))),
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
        let message = format!("{succeeded} pods succeeded, {wanted} are enough");
        return Some((JobPhase::Completed, Cause::new("MinSuccessReached", message)));
    }
    if succeeded + tally.failed >= replicas {
        return Some(verdict(seen, tally));
    }
    let may_wait = replicas - spec.min_available;
    let message = || format!("{} of {replicas} pods wait, {may_wait} may", tally.pending);
    (tally.pending > may_wait).then(|| (JobPhase::Pending, Cause::new("PodsPending", message())))
}

/// All pods have ended.
fn verdict(seen: &Observed<'_>, tally: &Tally) -> (JobPhase, Cause) {
    let (spec, succeeded) = (seen.spec(), tally.succeeded);
    let of_tasks: i32 = spec.tasks.iter().map(ronde_api::TaskSpec::min_available).sum();
    let short = spec.tasks.iter().find(|task| tally.succeeded_of(&task.name) < task.min_available());
    if let Some(task) = short.filter(|_| spec.min_available >= of_tasks) {
        let (has, needs) = (tally.succeeded_of(&task.name), task.min_available());
        let message = format!("task {}: {has} of {} pods succeeded, {needs} are needed", task.name, task.replicas);
        return (JobPhase::Failed, Cause::new("TaskBelowMinAvailable", message));
    }
    if let Some(wanted) = spec.min_success {
        let message = format!("{succeeded} of {} pods succeeded, {wanted} are needed", seen.replicas());
        return (JobPhase::Failed, Cause::new("MinSuccessMissed", message));
    }
    let message = format!("{succeeded} of {} pods succeeded, {} are needed", seen.replicas(), spec.min_available);
    if succeeded >= spec.min_available {
        (JobPhase::Completed, Cause::new("PodsSucceeded", message))
    } else {
        (JobPhase::Failed, Cause::new("PodsFailed", message))
    }
}

/// Returns what a job that is pending waits for, as far as anything is known.
pub fn wait(seen: &Observed<'_>, memory: &Memory) -> Option<Cause> {
    let missing = seen.missing_claims();
    if !missing.is_empty() {
        let message = format!("waits for the PersistentVolumeClaim {}, which does not exist", missing.join(", "));
        return Some(Cause::new(news::PVC_ERROR, message));
    }
    if let Some(obstacle) = Plugins::of(seen.job).obstacle() {
        return Some(Cause::new(news::PLUGIN_ERROR, obstacle));
    }
    let group = seen.group.as_ref().filter(|group| !is_past_group(memory, group))?;
    let is_waiting = matches!(group.phase(), None | Some(PodGroupPhase::Pending | PodGroupPhase::Inqueue));
    let mut conditions = group.status.iter().flat_map(|status| &status.conditions);
    let is_why = |kind, status: &str| kind == PodGroupConditionType::Unschedulable && status == "True";
    let why = conditions.rfind(|condition| is_why(condition.type_, &condition.status))?;
    is_waiting.then(|| Cause::new(news::POD_GROUP_PENDING, why.message.clone()))
}
