//! Which policy answers an event: those of the task first, then those of the job, each in the order of the list.
//!
//! Pure. A policy of a task wins only if it matches; an earlier policy shadows a later one.

use ronde_api::{Event, JobSpec, LifecyclePolicy};

/// An event as policies are asked about it.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    pub event: Event,
    /// The task that it happened to; none if it happened to the whole job.
    pub task: Option<&'a str>,
    /// The exit codes of all containers of the pod that failed.
    pub exit_codes: &'a [i32],
}

/// Returns the policy that answers an event.
pub fn answer<'a>(spec: &'a JobSpec, question: Question<'_>) -> Option<&'a LifecyclePolicy> {
    let task = spec.tasks.iter().find(|task| question.task == Some(task.name.as_str()));
    let of_task = task.into_iter().flat_map(|task| &task.policies);
    of_task.chain(&spec.policies).find(|policy| matches(policy, question))
}

fn matches(policy: &LifecyclePolicy, question: Question<'_>) -> bool {
    let is_named = policy.events().any(|event| is_meant(event, question.event));
    // A pod that waits is no trouble before a time that the policy has to name.
    let is_event = is_named && (question.event != Event::PodPending || policy.timeout.is_some());
    let is_exit = policy.exit_code.is_some_and(|code| question.exit_codes.contains(&code));
    is_event || is_exit
}

fn is_meant(named: Event, happened: Event) -> bool {
    // Volcano never tells of updates, so that `*` has never meant them: a job must not restart when it is scaled.
    named == happened || named == Event::Any && happened != Event::JobUpdated
}
