//! Deletes jobs that ended long enough ago (`ttlSecondsAfterFinished`), and their pods with them.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::Job;
use kube::{
    ResourceExt as _,
    api::{DeleteParams, Preconditions},
};
use ronde_runtime::{
    pods::apply,
    runner::{Controller, Ctx},
    watch::{Caches, Change, Key, Kinds},
};

use super::verdict::{COMPLETE, FAILED, condition};

/// The controller of jobs that have ended.
#[derive(Debug, Default)]
pub struct TtlAfterFinished;

impl Controller for TtlAfterFinished {
    const NAME: &'static str = "ttl-after-finished-controller";

    fn kinds(&self, kinds: &mut Kinds) {
        kinds.add::<Job>();
    }

    fn affected(&self, change: &Change, _: &Caches) -> Vec<Key> {
        if change.is::<Job>() { vec![change.key.clone()] } else { Vec::new() }
    }

    async fn reconcile(&self, ctx: &Ctx, key: &Key) -> Result<Option<SignedDuration>, kube::Error> {
        let Some(job) = ctx.caches.get::<Job>(key) else { return Ok(None) };
        let Some(left) = left(&job, ctx.clock.now()) else { return Ok(None) };
        if left > SignedDuration::ZERO {
            return Ok(Some(left));
        }
        // A version later than the one that was looked at may live longer.
        let only = Preconditions { uid: job.uid(), resource_version: job.resource_version() };
        let params = DeleteParams { preconditions: Some(only), ..DeleteParams::foreground() };
        apply::api::<Job>(ctx, &key.namespace).delete(&key.name, &params).await?;
        Ok(None)
    }
}

/// Returns how long a job still has, if it has ended and is not to stay for ever.
pub fn left(job: &Job, now: Timestamp) -> Option<SignedDuration> {
    let seconds = job.spec.as_ref()?.ttl_seconds_after_finished?;
    let status = job.status.as_ref().filter(|_| job.metadata.deletion_timestamp.is_none())?;
    let end = [COMPLETE, FAILED].iter().find_map(|kind| condition(status, kind))?;
    let end = end.last_transition_time.as_ref()?.0;
    Some(end.duration_since(now) + SignedDuration::from_secs(i64::from(seconds)))
}
