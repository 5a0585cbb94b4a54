//! `ronde suspend` and `ronde resume`: stop a job of any type for a while, and go on with it.
//!
//! A job of Volcano is told by a command, see [`crate::job`]; a training job by its annotation, which its controller
//! follows for as long as it stands there.

use http::{Request, header::CONTENT_TYPE};
use kube::Client;
use ronde_api::{TrainingJob, TrainingJobPhase, names::elastic};
use serde_json::json;

use crate::{
    Context,
    args::JobVerbArgs,
    client,
    failure::{Answer, Blame, Failure, Outcome},
    job::{self, Order},
    jobs::{
        self,
        any::{self, AnyJob},
    },
    objects,
    wait::{self, Progress},
};

/// Why a training job cannot be suspended or resumed.
#[derive(Debug, thiserror::Error)]
pub enum SuspendError {
    #[error("cannot {verb} job `{name}`: it is {phase}")]
    Ended { verb: &'static str, name: String, phase: TrainingJobPhase },
    #[error("cannot restart job `{name}`: it is a training job")]
    NoRestart { name: String },
    #[error("job `{name}` was deleted in the meantime")]
    Gone { name: String },
}

impl Failure for SuspendError {
    fn blame(&self) -> Blame {
        Blame::User
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Ended { name, .. } => Some(format!("delete it with `ronde delete {name}`")),
            Self::NoRestart { name } => Some(format!("run `ronde suspend {name}` and `ronde resume {name}`")),
            Self::Gone { .. } => None,
        }
    }
}

/// Stops a job for a while.
pub fn suspend(args: &JobVerbArgs, context: &Context) -> Outcome {
    run(Order::Suspend, args, context)
}

/// Goes on with a job.
pub fn resume(args: &JobVerbArgs, context: &Context) -> Outcome {
    run(Order::Resume, args, context)
}

/// Tells a job of any type what to do.
pub fn run(order: Order, args: &JobVerbArgs, context: &Context) -> Outcome {
    client::runtime()?.block_on(async {
        let client = client::connect_as(&args.cluster).await?;
        let namespace = args.namespace.as_deref().unwrap_or(client.default_namespace()).to_owned();
        match any::find(&client, &namespace, &args.name, None).await? {
            Some(AnyJob::Batch(job)) => job::tell(&client, order, &job, args, context).await,
            Some(AnyJob::Training(job)) => tell(&client, order, &job, args, context).await,
            None => Err(jobs::missing(&client, &namespace, &args.name).await),
        }
    })
}

async fn tell(client: &Client, order: Order, job: &TrainingJob, args: &JobVerbArgs, context: &Context) -> Outcome {
    let wanted = check(order, job, &args.name)?;
    let title = objects::title::<TrainingJob>(&args.name);
    if wanted == job.is_suspended() && is_done(wanted, job) {
        context.printer.say(format_args!("{}", order.needless(&args.name)));
        context.printer.data(format_args!("{title} unchanged"));
        return Ok(Answer::Done);
    }
    let value = wanted.then_some("true");
    let patch = json!({"metadata": {"annotations": {elastic::SUSPENDED: value}}});
    let path = objects::path::<TrainingJob>(job.metadata.namespace.as_deref(), Some(&args.name));
    let request = Request::patch(path).header(CONTENT_TYPE, "application/merge-patch+json");
    client::send(client, request, patch.to_string().into_bytes()).await?;
    if !args.wait.wait {
        context.printer.data(format_args!("{title} {} asked for", order.verb()));
        return Ok(Answer::Done);
    }
    let watch = any::watch(client, &AnyJob::from(job.clone())).await?;
    wait::until(&mut [watch], args.wait, context, |watches| {
        let now: Option<TrainingJob> = watches[0].one()?;
        let Some(now) = now.filter(|now| now.metadata.uid == job.metadata.uid) else {
            return Err(SuspendError::Gone { name: args.name.clone() }.into());
        };
        let phase = AnyJob::from(now.clone()).phase_word();
        let waits = || Progress::Waits(format!("job `{}` is {phase}", args.name));
        Ok(if is_done(wanted, &now) { Progress::Done } else { waits() })
    })
    .await?;
    context.printer.data(format_args!("{title} {}", order.done()));
    Ok(Answer::Done)
}

/// Returns whether the job shall be suspended, if it can do as it is told.
fn check(order: Order, job: &TrainingJob, name: &str) -> Result<bool, SuspendError> {
    let name = name.to_owned();
    if let Some(phase) = job.phase().filter(|phase| phase.is_final()) {
        return Err(SuspendError::Ended { verb: order.verb(), name, phase });
    }
    match order {
        Order::Restart => Err(SuspendError::NoRestart { name }),
        Order::Suspend => Ok(true),
        Order::Resume => Ok(false),
    }
}

fn is_done(wanted: bool, job: &TrainingJob) -> bool {
    let is_suspended = job.phase() == Some(TrainingJobPhase::Suspended);
    // A job that goes on may have to wait for room, which is another matter.
    is_suspended == wanted && job.phase().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_row(order: Order, phase: Option<&str>, annotation: bool, expected: Result<bool, &str>) {
        let annotations = annotation.then(|| json!({"job-supervisor.kube-ai.io/job-suspended": "true"}));
        let job = json!({"metadata": {"name": "lm", "annotations": annotations}, "status": {"phase": phase}});
        let job: TrainingJob = serde_json::from_value(job).unwrap();
        let found = check(order, &job, "lm").map_err(|error| error.to_string());
        assert_eq!(found.as_ref().map_err(String::as_str), expected.as_ref().map_err(|text| *text), "{phase:?}");
    }

    #[test]
    fn orders_that_make_no_sense_are_refused() {
        check_row(Order::Suspend, Some("Running"), false, Ok(true));
        check_row(Order::Suspend, None, false, Ok(true));
        check_row(Order::Resume, Some("Suspended"), true, Ok(false));
        check_row(Order::Resume, Some("Running"), true, Ok(false));
        check_row(Order::Resume, Some("Running"), false, Ok(false));
        check_row(Order::Suspend, Some("Failed"), false, Err("cannot suspend job `lm`: it is Failed"));
        check_row(Order::Restart, Some("Running"), false, Err("cannot restart job `lm`: it is a training job"));
    }
}
