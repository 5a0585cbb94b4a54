//! Does what is planned for a job. Every write names the very object it means, and may be repeated.

use futures::join;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{ResourceExt as _, api::PostParams};
use ronde_api::{Job, JobStatus};
use ronde_runtime::{pods::apply as write, runner::Ctx, watch::Key};

use super::{
    events,
    member::TRACKING,
    memory::{Memory, PLUGIN},
    objects::{InPlace, delete_all, ensure_all},
    plan::{Objects, VcJobPlan},
    plugins::Plugins,
};
use crate::{
    reconcile::apply::{apply_group, create_pods, delete_pods, release_pods, warn},
    ssh_keys::KeySource,
};

/// Carries out a plan; returns the receipt that plugins' objects are gone, if they are. What pods need is made side by side,
/// and before them.
///
/// # Errors
/// If a write fails; the whole plan is made anew then.
pub async fn apply(
    ctx: &Ctx,
    keys: &KeySource,
    in_place: &InPlace,
    job: &Job,
    plan: &VcJobPlan,
) -> Result<Option<JobStatus>, kube::Error> {
    for command in &plan.forget {
        write::remove(ctx, &**command).await?;
    }
    release_pods(ctx, &plan.release, TRACKING).await?;
    delete_pods(ctx, job, plan.kill.iter().map(|pod| (pod.clone(), None))).await?;
    let (group, claims, objects) = join!(
        apply_group(ctx, job, &plan.group),
        make_claims(ctx, job, &plan.claims),
        apply_objects(ctx, keys, in_place, job, plan.objects)
    );
    group.and(claims).and(objects)?;
    create_pods(ctx, job, &plan.create).await?;
    Ok(receipt(job, plan.objects))
}

async fn make_claims(ctx: &Ctx, job: &Job, claims: &[PersistentVolumeClaim]) -> Result<(), kube::Error> {
    let api = write::api::<PersistentVolumeClaim>(ctx, &job.namespace().unwrap_or_default());
    for claim in claims {
        let made = api.create(&PostParams::default(), claim).await;
        ctx.caches.assume(made.inspect_err(|error| warn(ctx, job, events::PVC_ERROR, error))?);
    }
    Ok(())
}

async fn apply_objects(
    ctx: &Ctx,
    keys: &KeySource,
    in_place: &InPlace,
    job: &Job,
    what: Objects,
) -> Result<(), kube::Error> {
    match what {
        Objects::Leave => Ok(()),
        Objects::Ensure => {
            let done = ensure_all(ctx, keys, job).await;
            let versions = done.inspect_err(|error| warn(ctx, job, events::PLUGIN_ERROR, error))?;
            in_place.note(job, versions);
            Ok(())
        }
        Objects::Delete => {
            in_place.forget(&Key::of(job));
            delete_all(ctx, job, Plugins::of_job(job).objects()).await
        }
    }
}

/// Returns the status that knows that the objects of plugins are gone.
pub fn receipt(job: &Job, what: Objects) -> Option<JobStatus> {
    if what != Objects::Delete {
        return None;
    }
    let mut status = job.status.clone().unwrap_or_default();
    let mut memory = Memory::read(&status, &job.spec);
    memory.applied = None;
    status.controlled_resources.retain(|key, _| !key.starts_with(PLUGIN));
    memory.write(&mut status);
    Some(status)
}
