//! The loop of the controllers of jobs: status first.
//!
//! **Invariant: the status is written before anything is done for it.** A controller decides on another status or, when
//! the status says all there is to say, on a plan ([`Step`]); [`reconcile`] writes the one and applies the other. So all
//! that is done follows from what is stored, and a controller that is killed between any two writes comes to the same
//! plan again, less what is done already.
//!
//! Two writes stand outside of this order; neither does anything for a job that its status does not say. A *receipt*
//! ([`StatusFirst::apply`]) notes in the status that the objects beside pods are in place, or gone: it cannot be written
//! before they are, and if it is lost they are looked at once more. And the controller of Volcano's jobs stores the minimums of
//! a new job in its spec, in place of an admission webhook (`vcjob/minimums.rs`): nothing exists for the job by then.
//!
//! [`apply`] makes and deletes pods and groups, [`objects`] everything else that a job owns; [`refusals`] are what the API
//! does not let them make.

pub mod apply;
pub mod objects;
pub mod refusals;

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kube::{ResourceExt as _, api::PostParams};
use ronde_api::PodGroup;
use ronde_runtime::{
    pods::apply::{self as write, Owner},
    runner::Ctx,
    telemetry::metrics::Metrics,
    watch::Key,
};
use serde::Serialize;

use self::{apply::warn, refusals::Refusals};

/// How soon a job that is not done after all rounds is looked at again.
const NEXT_ROUNDS: SignedDuration = SignedDuration::from_millis(10);
/// The reason of events about a status that could not be written; Volcano's word.
const JOB_STATUS_ERROR: &str = "JobStatusError";

/// Why something is so: one word for programs, a sentence for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    pub reason: String,
    pub message: String,
}

impl Cause {
    pub fn new(reason: impl ToString, message: impl Into<String>) -> Self {
        Self { reason: reason.to_string(), message: message.into() }
    }
}

/// An event about a job, to be recorded when the status that it tells of is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobEvent {
    pub is_warning: bool,
    pub cause: Cause,
}

impl JobEvent {
    pub fn normal(reason: impl ToString, message: impl Into<String>) -> Self {
        Self { is_warning: false, cause: Cause::new(reason, message) }
    }

    pub fn warning(reason: impl ToString, message: impl Into<String>) -> Self {
        Self { is_warning: true, cause: Cause::new(reason, message) }
    }
}

/// The next step for a job.
#[derive(Debug, Clone)]
pub enum Step<S, P> {
    /// The status is to change; nothing else may happen before.
    Write { status: Box<S>, events: Vec<JobEvent> },
    /// The status stands, and this follows from it.
    Apply(Box<P>),
}

/// What is to be done with the group of a job.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum GroupChange {
    #[default]
    Leave,
    Create(Box<PodGroup>),
    Replace(Box<PodGroup>),
    /// The group of a run that is over gives way to that of the next at once, also while pods of the past still end: a
    /// job without a group has no place in its queue, and others would be let in instead.
    Recreate(Arc<PodGroup>, Box<PodGroup>),
    Delete(Arc<PodGroup>),
}

/// A controller of jobs, as the loop sees it.
pub trait StatusFirst: Send + Sync {
    type Job: Owner + Serialize;
    type Status: Send;
    type Plan: Send + Sync;

    /// How many steps one look takes at most; more come by the next look.
    const ROUNDS_MAX: usize;

    /// Returns what is refused to jobs; [`Self::decide`] sees to it that their statuses say so.
    fn refusals(&self) -> &Refusals;

    /// Returns a job with all defaults: where no admission fills them in, the controller does.
    fn complete(&self, ctx: &Ctx, job: &Self::Job) -> Self::Job;

    /// Observes and decides.
    fn decide(&self, ctx: &Ctx, job: &Self::Job, now: Timestamp) -> Step<Self::Status, Self::Plan>;

    /// Returns a job with another status.
    fn with_status(job: &Self::Job, status: Self::Status) -> Self::Job;

    /// Counts what another status means, once it is written; nothing, unless a controller has something to count.
    fn measure(_before: &Self::Job, _after: &Self::Job, _metrics: &Metrics) {}

    /// Does what is planned. Returns a receipt if the status is to note that objects are in place, or gone; then there
    /// is another plan.
    fn apply(
        &self,
        ctx: &Ctx,
        job: &Self::Job,
        plan: &Self::Plan,
    ) -> impl Future<Output = Result<Option<Self::Status>, kube::Error>> + Send;

    /// Does what is left to do with a job for which all is done; returns when to look again even if nothing changes.
    fn rest(
        &self,
        ctx: &Ctx,
        job: &Self::Job,
        plan: &Self::Plan,
        now: Timestamp,
    ) -> impl Future<Output = Result<Option<SignedDuration>, kube::Error>> + Send;
}

/// Brings a job as far as it can come now; returns when to look again even if nothing changes.
///
/// # Errors
/// If a write fails; the next look decides anew.
pub async fn reconcile<C: StatusFirst>(
    controller: &C,
    ctx: &Ctx,
    job: &C::Job,
) -> Result<Option<SignedDuration>, kube::Error> {
    // One time for the whole look: nothing may fall due between two of its steps.
    let now = ctx.clock.now();
    let key = Key::of(job);
    let mut job = controller.complete(ctx, job);
    for _ in 0..C::ROUNDS_MAX {
        // 1. observe and decide
        let written = match controller.decide(ctx, &job, now) {
            // 2. write down
            Step::Write { status, events } => {
                let written = write_status::<C>(ctx, &job, *status).await?;
                record_events(ctx, &job, events);
                written
            }
            // 3. apply
            Step::Apply(plan) => match controller.apply(ctx, &job, &plan).await {
                Ok(Some(receipt)) => write_status::<C>(ctx, &job, receipt).await?,
                // 4. the status says that something is refused, or is not any more
                Ok(None) if controller.refusals().forget(&key) => continue,
                Err(error) if controller.refusals().note(&key, &error) => continue,
                Ok(None) => return controller.rest(ctx, &job, &plan, now).await,
                Err(error) => return Err(error),
            },
        };
        job = controller.complete(ctx, &written);
    }
    Ok(Some(NEXT_ROUNDS))
}

/// With the version that was looked at: what somebody else has written is never overwritten.
async fn write_status<C: StatusFirst>(ctx: &Ctx, job: &C::Job, status: C::Status) -> Result<C::Job, kube::Error> {
    let jobs = write::api::<C::Job>(ctx, &job.namespace().unwrap_or_default());
    let next = C::with_status(job, status);
    let written = jobs.replace_status(&next.name_any(), &PostParams::default(), &next).await;
    let written = written.inspect_err(|error| warn(ctx, &next, JOB_STATUS_ERROR, error))?;
    C::measure(job, &written, &ctx.telemetry.metrics);
    ctx.caches.assume(written.clone());
    Ok(written)
}

fn record_events<J: Owner>(ctx: &Ctx, job: &J, events: Vec<JobEvent>) {
    for JobEvent { is_warning, cause } in events {
        ctx.events.about_part(job, "", is_warning, &cause.reason, cause.message);
    }
}
