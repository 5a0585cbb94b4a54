//! `ronde job`: suspends, resumes and restarts jobs, by commands to their controller.
//!
//! What cannot work in the phase that the job is in is refused here, because a controller only notes it in an event.

use kube::Client;
use ronde_api::{Action, Job, JobPhase, PodGroup};

use crate::{
    Context,
    args::{JobArgs, JobVerb, JobVerbArgs},
    commands,
    failure::{Answer, Blame, Failure, Outcome},
    jobs::{self, by_job, is_final, phase, reason},
    objects::{title, watch_one},
    suspend,
    wait::{self, Progress},
    watch::Watch,
};

/// Why a job does not do as it is told.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    #[error("cannot {verb} job `{name}`: it is {phase}")]
    WrongPhase { verb: &'static str, name: String, phase: JobPhase, hint: &'static str },
    #[error("job `{name}` became {phase} before it could {verb}{why}")]
    Ended { verb: &'static str, name: String, phase: JobPhase, why: String },
    #[error("job `{name}` was deleted in the meantime")]
    Gone { name: String },
}

impl Failure for JobError {
    fn blame(&self) -> Blame {
        Blame::User
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::WrongPhase { hint, .. } => Some((*hint).to_owned()),
            Self::Ended { name, .. } => Some(format!("see `ronde get {name}`")),
            Self::Gone { .. } => None,
        }
    }
}

/// What a job is told to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Suspend,
    Resume,
    Restart,
}

/// What an order means for a job in a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    /// A command is needed.
    Give,
    /// It is on the way already.
    Follow,
    /// It is so already.
    Nothing,
    /// It cannot be, and this helps.
    Refuse(&'static str),
}

/// Runs the verb.
pub fn run(args: &JobArgs, context: &Context) -> Outcome {
    let (order, args) = match &args.verb {
        JobVerb::Suspend(args) => (Order::Suspend, args),
        JobVerb::Resume(args) => (Order::Resume, args),
        JobVerb::Restart(args) => (Order::Restart, args),
    };
    suspend::run(order, args, context)
}

/// Tells a job of Volcano what to do, and waits for it.
pub async fn tell(client: &Client, order: Order, job: &Job, args: &JobVerbArgs, context: &Context) -> Outcome {
    let namespace = job.metadata.namespace.as_deref().unwrap_or_default();
    let title = title::<Job>(&args.name);
    let command = match order.start(phase(job)) {
        Start::Give => Some(commands::give::<Job>(client, namespace, order.action(), &job.metadata).await?),
        Start::Follow => None,
        Start::Nothing => {
            context.printer.say(format_args!("{}", order.needless(&args.name)));
            context.printer.data(format_args!("{title} unchanged"));
            return Ok(Answer::Done);
        }
        Start::Refuse(hint) => {
            let (name, phase) = (args.name.clone(), phase(job));
            return Err(JobError::WrongPhase { verb: order.verb(), name, phase, hint }.into());
        }
    };
    if !args.wait.wait {
        context.printer.data(format_args!("{title} {} asked for", order.verb()));
        return Ok(Answer::Done);
    }
    follow(client, Goal { order, before: job }, command, (args, context)).await?;
    context.printer.data(format_args!("{title} {}", order.done()));
    Ok(Answer::Done)
}

impl Order {
    pub fn verb(self) -> &'static str {
        match self {
            Self::Suspend => "suspend",
            Self::Resume => "resume",
            Self::Restart => "restart",
        }
    }

    pub fn done(self) -> &'static str {
        match self {
            Self::Suspend => "suspended",
            Self::Resume => "resumed",
            Self::Restart => "restarted",
        }
    }

    /// Says that a job is already as it is told to be.
    pub fn needless(self, name: &str) -> String {
        match self {
            Self::Suspend => format!("job `{name}` is already suspended"),
            Self::Resume | Self::Restart => format!("job `{name}` is not suspended"),
        }
    }

    fn action(self) -> Action {
        match self {
            Self::Suspend => Action::AbortJob,
            Self::Resume => Action::ResumeJob,
            Self::Restart => Action::RestartJob,
        }
    }

    /// Says what to do about a job in a phase.
    fn start(self, phase: JobPhase) -> Start {
        use JobPhase::{Aborted, Aborting, Pending, Restarting, Running};
        match (self, phase) {
            (Self::Suspend, Aborting) => Start::Follow,
            (Self::Suspend, Aborted) | (Self::Resume, Pending | Running | Restarting) => Start::Nothing,
            (Self::Resume, Aborting | Aborted) => Start::Give,
            (Self::Suspend | Self::Restart, Pending | Running | Restarting) => Start::Give,
            (Self::Restart, Aborting | Aborted) => {
                Start::Refuse("`ronde job resume NAME` goes on with a suspended job")
            }
            _ => Start::Refuse("a job that has ended can be deleted and applied again"),
        }
    }
}

/// What is waited for, and the job as it was when it was asked for.
struct Goal<'a> {
    order: Order,
    before: &'a Job,
}

async fn follow(
    client: &Client,
    goal: Goal<'_>,
    command: Option<Watch>,
    (args, context): (&JobVerbArgs, &Context),
) -> Result<(), Box<dyn Failure>> {
    let namespace = goal.before.metadata.namespace.as_deref();
    let job = watch_one::<Job>(client, namespace, &args.name).await?;
    let groups = crate::objects::watch::<PodGroup>(client, namespace, &[]).await?;
    let mut watches: Vec<Watch> = [job, groups].into_iter().chain(command).collect();
    wait::until(&mut watches, args.wait, context, |watches| {
        let groups = by_job(watches[1].all()?);
        let untaken = watches.get(2).and_then(commands::untaken);
        let job: Option<Job> = watches[0].one()?;
        Ok(goal.progress(job.as_ref(), groups.get(jobs::uid(goal.before)), untaken)?)
    })
    .await
}

impl Goal<'_> {
    fn progress(
        &self,
        job: Option<&Job>,
        group: Option<&PodGroup>,
        untaken: Option<&str>,
    ) -> Result<Progress, JobError> {
        let name = self.before.metadata.name.clone().unwrap_or_default();
        let Some(job) = job.filter(|job| jobs::uid(job) == jobs::uid(self.before)) else {
            return Err(JobError::Gone { name });
        };
        let phase = phase(job);
        // The version grows when the pods are killed to be made anew.
        let is_anew = version(job) > version(self.before);
        let is_done = match self.order {
            Order::Suspend => phase == JobPhase::Aborted,
            Order::Resume | Order::Restart => is_anew && (phase == JobPhase::Running || is_final(phase)),
        };
        let why = reason(job, group).map(|why| format!(": {why}")).unwrap_or_default();
        if is_done {
            Ok(Progress::Done)
        } else if is_final(phase) {
            Err(JobError::Ended { verb: self.order.verb(), name, phase, why })
        } else {
            let why = untaken.map_or(why, |untaken| format!(": {untaken}"));
            Ok(Progress::Waits(format!("job `{name}` is {phase}{why}")))
        }
    }
}

fn version(job: &Job) -> i32 {
    job.status.as_ref().map_or(0, |status| status.version)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn job(phase: JobPhase, version: i32) -> Job {
        let status = json!({"state": {"phase": phase}, "version": version});
        serde_json::from_value(json!({"metadata": {"name": "mnist", "uid": "u1"}, "status": status})).unwrap()
    }

    #[test]
    fn every_order_has_an_answer_in_every_phase() {
        let answers = |order: Order| {
            let answer = |phase: &JobPhase| match order.start(*phase) {
                Start::Refuse(_) => format!("{phase} -"),
                other => format!("{phase} {other:?}"),
            };
            JobPhase::ALL.iter().map(answer).filter(|answer| !answer.ends_with('-')).collect::<Vec<_>>().join(", ")
        };
        assert_eq!(
            answers(Order::Suspend),
            "Pending Give, Aborting Follow, Aborted Nothing, Running Give, Restarting Give"
        );
        let resumed = "Pending Nothing, Aborting Give, Aborted Give, Running Nothing, Restarting Nothing";
        assert_eq!(answers(Order::Resume), resumed);
        assert_eq!(answers(Order::Restart), "Pending Give, Running Give, Restarting Give");
    }

    fn check(name: &str, order: Order, (before, now): (Job, Option<Job>), expected: &str) {
        let goal = Goal { order, before: &before };
        let shown = match goal.progress(now.as_ref(), None, None) {
            Ok(Progress::Done) => "done".to_owned(),
            Ok(Progress::Waits(waits)) => waits,
            Err(error) => format!("error: {error}"),
        };
        assert_eq!(shown, expected, "{name}");
    }

    #[test]
    fn the_wait_ends_when_the_order_is_carried_out_or_cannot_be() {
        use JobPhase::{Aborted, Aborting, Completed, Failed, Pending, Restarting, Running};
        let from = |phase, now, version| (job(phase, 1), Some(job(now, version)));
        check("not begun", Order::Suspend, from(Running, Running, 1), "job `mnist` is Running");
        check("on the way", Order::Suspend, from(Running, Aborting, 1), "job `mnist` is Aborting");
        check("suspended", Order::Suspend, from(Running, Aborted, 1), "done");
        check(
            "it ended first",
            Order::Suspend,
            from(Running, Completed, 1),
            "error: job `mnist` became Completed before it could suspend",
        );
        check("the restart has not begun", Order::Restart, from(Running, Running, 1), "job `mnist` is Running");
        check("its pods end", Order::Restart, from(Running, Restarting, 2), "job `mnist` is Restarting");
        check("it waits for room", Order::Restart, from(Running, Pending, 2), "job `mnist` is Pending");
        check("it runs again", Order::Restart, from(Running, Running, 2), "done");
        check("it ran again and failed", Order::Restart, from(Running, Failed, 2), "done");
        check("it goes on", Order::Resume, from(Aborted, Running, 2), "done");
        check("it is gone", Order::Resume, (job(Aborted, 1), None), "error: job `mnist` was deleted in the meantime");
        let mut other = job(Aborted, 1);
        other.metadata.uid = Some("u2".to_owned());
        check(
            "another of its name",
            Order::Suspend,
            (job(Running, 1), Some(other)),
            "error: job `mnist` was deleted in the meantime",
        );
    }
}
