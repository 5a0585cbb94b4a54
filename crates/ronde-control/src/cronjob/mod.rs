//! CronJobs: makes a job at each time of a schedule.
//!
//! This file observes, [`decide`] says what comes next; the order of writes is that of
//! [`reconcile`](crate::reconcile): status first. What a job does is the business of its own controller.

pub mod decide;
#[cfg(test)]
mod tests;

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;
use ronde_api::{CronJob, CronJobStatus, Job, rules};
use ronde_runtime::{
    pods::apply::{self as write, Removed},
    runner::{Controller, Ctx},
    watch::{Caches, Change, Key, Kinds},
};

use self::decide::{CronJobPlan, ObservedCron};
use crate::reconcile::{
    StatusFirst, Step,
    apply::{FAILED_CREATE, FAILED_DELETE, create_job, warn},
    reconcile,
    refusals::Refusals,
};

/// Reasons of events about jobs; the words of Kubernetes.
const CREATED: &str = "SuccessfulCreate";
const DELETED: &str = "SuccessfulDelete";

/// The controller of CronJobs.
#[derive(Debug, Default)]
pub struct CronJobs {
    refusals: Refusals,
}

impl Controller for CronJobs {
    const NAME: &'static str = "vc-cronjob-controller";

    fn kinds(&self, kinds: &mut Kinds) {
        kinds.add::<CronJob>().add::<Job>();
    }

    fn affected(&self, change: &Change, _: &Caches) -> Vec<Key> {
        if change.is::<CronJob>() {
            vec![change.key.clone()]
        } else if change.is::<Job>() {
            change.owners("CronJob")
        } else {
            Vec::new()
        }
    }

    async fn reconcile(&self, ctx: &Ctx, key: &Key) -> Result<Option<SignedDuration>, kube::Error> {
        let Some(cron) = ctx.caches.get::<CronJob>(key) else {
            self.refusals.forget(key);
            return Ok(None);
        };
        reconcile(self, ctx, &cron).await
    }
}

impl StatusFirst for CronJobs {
    type Job = CronJob;
    type Status = CronJobStatus;
    type Plan = CronJobPlan;

    // A run is listed, its job is made, seen, and may be refused.
    const ROUNDS_MAX: usize = 6;

    fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    fn complete(&self, _: &Ctx, cron: &CronJob) -> CronJob {
        cron.clone()
    }

    fn decide(&self, ctx: &Ctx, cron: &CronJob, now: Timestamp) -> Step<CronJobStatus, CronJobPlan> {
        let seen = ObservedCron {
            cron,
            jobs: ctx.caches.controlled_by::<Job>(&cron.uid().unwrap_or_default()),
            faults: rules::cron_job::validate(cron).iter().map(ToString::to_string).collect(),
            refusal: self.refusals.of_job(&Key::of(cron)),
        };
        decide::decide(&seen, now)
    }

    fn with_status(cron: &CronJob, status: CronJobStatus) -> CronJob {
        CronJob { status: Some(status), ..cron.clone() }
    }

    async fn apply(&self, ctx: &Ctx, cron: &CronJob, plan: &CronJobPlan) -> Result<Option<CronJobStatus>, kube::Error> {
        for job in &plan.delete {
            let removed = write::remove(ctx, &**job).await;
            if removed.inspect_err(|error| warn(ctx, cron, FAILED_DELETE, error))? == Removed::Now {
                ctx.events.normal(cron, DELETED, format!("deleted job {}", job.name_any()));
            }
        }
        if let Some(job) = &plan.create {
            let made = create_job(ctx, cron, job).await;
            if made.inspect_err(|error| warn(ctx, cron, FAILED_CREATE, error))? {
                ctx.events.normal(cron, CREATED, format!("created job {}", job.name_any()));
            }
        }
        Ok(None)
    }

    async fn rest(
        &self,
        _: &Ctx,
        _: &CronJob,
        plan: &CronJobPlan,
        _: Timestamp,
    ) -> Result<Option<SignedDuration>, kube::Error> {
        Ok(plan.look_again)
    }
}
