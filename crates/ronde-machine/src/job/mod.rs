//! Jobs: runs pods until enough of them have succeeded, or too many have failed.
//!
//! [`plan`] decides about pods, [`account`] counts them; this file observes, acts and writes. Jobs that are managed by
//! somebody else are left alone. Beside it run [`Orphans`](ronde_runtime::pods::orphans) and [`ttl`] (jobs that are done).

pub mod account;
pub mod census;
pub mod plan;
pub mod policy;
pub mod template;
#[cfg(test)]
mod tests;
pub mod ttl;
pub mod verdict;

use std::sync::Arc;

use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    batch::v1::{Job, JobStatus},
    core::v1::Pod,
};
use kube::{ResourceExt as _, api::PostParams};
use ronde_runtime::{
    pods::{
        apply::{self, Wants},
        orphans::Counts,
        owners_of_change, selects,
    },
    runner::{Controller, Ctx},
    watch::{Caches, Change, Key, Kinds},
};

use self::{account::JobEvent, census::Observed, plan::JobPlan, template::TRACKING};

/// The name by which a job says that this controller manages it; a job that says nothing means the same.
pub const MANAGER: &str = "kubernetes.io/job-controller";
/// Naming, counting, announcing and stating the end take four rounds; more pods than fit into a status take more looks.
const ROUNDS_MAX: usize = 6;

impl Counts for Jobs {
    type Owner = Job;

    const ORPHANS: &'static str = "job-orphans-controller";
    const FINALIZER: &'static str = TRACKING;

    /// Somebody else's jobs are somebody else's business.
    fn has_done(job: &Job) -> bool {
        is_managed(job) && verdict::is_finished(job.status.as_ref())
    }
}

/// The controller of jobs.
#[derive(Debug, Default)]
pub struct Jobs;

impl Controller for Jobs {
    const NAME: &'static str = "job-controller";

    fn kinds(&self, kinds: &mut Kinds) {
        kinds.add::<Job>().add::<Pod>();
    }

    fn affected(&self, change: &Change, caches: &Caches) -> Vec<Key> {
        if change.is::<Job>() {
            vec![change.key.clone()]
        } else if change.is::<Pod>() {
            owners_of_change::<Job>(change, caches, |job| job.spec.as_ref()?.selector.as_ref())
        } else {
            Vec::new()
        }
    }

    async fn reconcile(&self, ctx: &Ctx, key: &Key) -> Result<Option<SignedDuration>, kube::Error> {
        let Some(job) = ctx.caches.get::<Job>(key) else { return Ok(None) };
        if !is_managed(&job) || verdict::is_finished(job.status.as_ref()) {
            return Ok(None);
        }
        // One time for the whole look: the end must not come between two of its steps.
        let now = ctx.clock.now();
        // 1. observe
        adopt_and_release(ctx, &job).await?;
        let Some(observed) = observe(ctx, &job) else { return Ok(None) };
        // 2. decide
        let plan = plan::plan(&observed, now);
        // 3. act
        let done = apply(ctx, &job, &plan).await;
        // 4. count
        let is_finished = count(ctx, job, now).await?;
        done?;
        Ok(plan.look_again.filter(|_| !is_finished))
    }
}

/// Tells whether a job is this controller's.
fn is_managed(job: &Job) -> bool {
    let manager = job.spec.as_ref().and_then(|spec| spec.managed_by.as_deref());
    manager.is_none_or(|manager| manager == MANAGER)
}

fn is_selected(job: &Job, pod: &Pod) -> bool {
    let selector = job.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    selector.is_some_and(|selector| selects(selector, pod.labels()))
}

async fn adopt_and_release(ctx: &Ctx, job: &Job) -> Result<(), kube::Error> {
    let wants = Wants { selects: &|pod| is_selected(job, pod), finalizer: Some(TRACKING) };
    apply::claim_all::<_, Pod>(ctx, job, apply::candidates(ctx, job), wants).await.map(drop)
}

fn observe<'a>(ctx: &Ctx, job: &'a Job) -> Option<Observed<'a>> {
    let mut pods = ctx.caches.controlled_by::<Pod>(&job.uid().unwrap_or_default());
    pods.retain(|pod| is_selected(job, pod));
    Some(Observed { job, spec: job.spec.as_ref()?, pods })
}

async fn apply(ctx: &Ctx, job: &Job, plan: &JobPlan) -> Result<(), kube::Error> {
    apply::delete_all(ctx, job, &plan.fail).await?;
    // Without the finalizer a pod that goes is nobody's failure.
    untrack(ctx, &plan.give_up).await?;
    apply::delete_all(ctx, job, &plan.give_up).await?;
    apply::create_all(ctx, job, plan.create.clone()).await
}

async fn untrack(ctx: &Ctx, pods: &[Arc<Pod>]) -> Result<(), kube::Error> {
    let untracked = join_all(pods.iter().map(|pod| apply::remove_finalizer(ctx, pod, TRACKING))).await;
    untracked.into_iter().collect()
}

/// Counts what has ended until there is nothing to write; tells whether the job has ended.
async fn count(ctx: &Ctx, mut job: Arc<Job>, now: Timestamp) -> Result<bool, kube::Error> {
    for _ in 0..ROUNDS_MAX {
        let Some(observed) = observe(ctx, &job) else { break };
        let account = account::account(&observed, now);
        let is_written = job.status.as_ref() == Some(&account.status);
        if is_written && account.untrack.is_empty() {
            break;
        }
        if !is_written {
            job = Arc::new(write_status(ctx, &job, account.status).await?);
            account.news.iter().for_each(|news| record_event(ctx, &job, news));
        }
        if verdict::is_finished(job.status.as_ref()) {
            break;
        }
        untrack(ctx, &account.untrack).await?;
    }
    Ok(verdict::is_finished(job.status.as_ref()))
}

async fn write_status(ctx: &Ctx, job: &Job, status: JobStatus) -> Result<Job, kube::Error> {
    let jobs = apply::api::<Job>(ctx, &job.namespace().unwrap_or_default());
    let job = Job { status: Some(status), ..job.clone() };
    // With the version that was looked at: what somebody else has counted is never overwritten.
    let written = jobs.replace_status(&job.name_any(), &PostParams::default(), &job).await?;
    ctx.caches.assume(written.clone());
    Ok(written)
}

fn record_event(ctx: &Ctx, job: &Job, news: &JobEvent) {
    match news {
        JobEvent::Suspended => ctx.events.normal(job, "Suspended", "Job suspended"),
        JobEvent::Resumed => ctx.events.normal(job, "Resumed", "Job resumed"),
        JobEvent::Completed => ctx.events.normal(job, "Completed", "Job completed"),
        JobEvent::TooManySucceeded => {
            let text = "Too many succeeded pods running after completion count reached";
            ctx.events.warning(job, "TooManySucceededPods", text);
        }
        JobEvent::Failed(verdict) => ctx.events.warning(job, event_reason(&verdict.reason), &verdict.message),
    }
}

/// Events have fixed reasons; a condition may have been written by somebody else.
fn event_reason(reason: &str) -> &'static str {
    let known =
        ["BackoffLimitExceeded", "DeadlineExceeded", "PodFailurePolicy", "MaxFailedIndexesExceeded", "FailedIndexes"];
    known.into_iter().find(|known| *known == reason).unwrap_or("Failed")
}
