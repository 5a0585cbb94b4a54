//! After a job is submitted: waits until it runs, or shows what it writes until it ends.

use kube::Client;
use ronde_api::PodGroup;

use crate::{
    Context,
    args::{LogsArgs, SubmitHow, WaitArgs},
    failure::{Answer, Blame, Failure, Outcome},
    jobs::{
        self,
        any::{self, AnyJob, State},
        by_job,
    },
    logs, objects,
    wait::{self, Progress},
};

/// The job did not do what was waited for.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    #[error("the job {name} has failed{why}")]
    Failed { name: String, why: String },
    #[error("the job {name} was deleted in the meantime")]
    Gone { name: String },
}

impl Failure for FollowError {
    fn blame(&self) -> Blame {
        Blame::User
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Failed { name, .. } => Some(format!("see `ronde get {name}` and `ronde logs {name}`")),
            Self::Gone { .. } => None,
        }
    }
}

/// Waits for as much as was asked for.
pub async fn run(client: &Client, job: &AnyJob, how: &SubmitHow, context: &Context) -> Outcome {
    if !how.wait && !how.follow {
        return Ok(Answer::Done);
    }
    let wait = WaitArgs { wait: true, timeout: how.timeout };
    if !how.follow {
        until(client, job, wait, context, State::is_past_start).await?;
        context.caller.info(context.printer, format_args!("The Job {} is running", job.name()));
        return Ok(Answer::Done);
    }
    // What a job wrote before it failed is what its user wants to read.
    until(client, job, wait, context, |state| state.is_past_start() || state.is_final()).await?;
    logs::job::run(client, &LogsArgs::to_the_end(&job.name()), job, context).await?;
    until(client, job, wait, context, |state| state == State::Succeeded).await?;
    context.caller.info(context.printer, format_args!("The Job {} has succeeded", job.name()));
    Ok(Answer::Done)
}

/// Waits until a job is in a state; one that has failed is a failure.
async fn until(
    client: &Client,
    job: &AnyJob,
    args: WaitArgs,
    context: &Context,
    is_there: fn(State) -> bool,
) -> Result<(), Box<dyn Failure>> {
    let groups = objects::watch::<PodGroup>(client, Some(job.namespace()), &[]).await?;
    let watch = any::watch(client, job).await?;
    wait::until(&mut [watch, groups], args, context, |watches| {
        let groups = by_job(watches[1].all()?);
        Ok(progress(job, any::of_watch(job, &watches[0])?.as_ref(), groups.get(job.uid()), is_there)?)
    })
    .await
}

fn progress(
    before: &AnyJob,
    now: Option<&AnyJob>,
    group: Option<&PodGroup>,
    is_there: fn(State) -> bool,
) -> Result<Progress, FollowError> {
    let name = before.name();
    let Some(job) = now.filter(|now| now.uid() == before.uid()) else { return Err(FollowError::Gone { name }) };
    let why = group.and_then(jobs::unschedulable).or_else(|| job.message());
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    match job.state() {
        state if is_there(state) => Ok(Progress::Done),
        State::Failed => Err(FollowError::Failed { name, why }),
        _ => Ok(Progress::Waits(format!("the job {name} is {}, {}{why}", job.phase_word(), job.pods_in_words()))),
    }
}

impl State {
    fn is_past_start(self) -> bool {
        matches!(self, Self::Running | Self::Scaling | Self::Succeeded)
    }
}

#[cfg(test)]
mod tests {
    use ronde_api::TrainingJob;
    use serde_json::{Value, json};

    use super::*;

    fn job(uid: &str, status: Value) -> AnyJob {
        let spec = json!({"etReplicaSpecs": {"worker": {"replicas": 3}, "launcher": {}}});
        let job = json!({"metadata": {"name": "mnist", "uid": uid}, "spec": spec, "status": status});
        AnyJob::from(serde_json::from_value::<TrainingJob>(job).unwrap())
    }

    fn check(name: &str, status: Option<Value>, is_there: fn(State) -> bool, expected: &str) {
        let now = status.map(|status| job("u1", status));
        let shown = match progress(&job("u1", Value::Null), now.as_ref(), None, is_there) {
            Ok(Progress::Done) => "done".to_owned(),
            Ok(Progress::Waits(waits)) => waits,
            Err(error) => format!("error: {error}"),
        };
        assert_eq!(shown, expected, "{name}");
    }

    #[test]
    fn what_is_waited_for_is_said() {
        let start = State::is_past_start as fn(State) -> bool;
        let waiting =
            json!({"phase": "Created", "message": "needs 3 GPUs", "replicaStatuses": {"Worker": {"active": 1}}});
        check("it waits", Some(waiting), start, "the job mnist is Created, 1 of 4 pods run: needs 3 GPUs");
        check("it runs", Some(json!({"phase": "Running"})), start, "done");
        check(
            "it runs on",
            Some(json!({"phase": "Running"})),
            State::is_final,
            "the job mnist is Running, 0 of 4 pods run",
        );
        check("it has succeeded", Some(json!({"phase": "Succeeded"})), State::is_final, "done");
        let failed = json!({"phase": "Failed", "message": "exit code 127"});
        check("it has failed", Some(failed), start, "error: the job mnist has failed: exit code 127");
        check("its output is wanted", Some(json!({"phase": "Failed"})), State::is_final, "done");
        check("it is gone", None, start, "error: the job mnist was deleted in the meantime");
    }
}
