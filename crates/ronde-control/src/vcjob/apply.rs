//! Does what is planned for a job. Every write names the very object it means, and may be repeated.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{ResourceExt as _, api::PostParams};
use ronde_api::{Job, JobStatus};
use ronde_runtime::{pods::apply as write, runner::Ctx};

use super::{
    events,
    member::TRACKING,
    memory::Memory,
    objects::{delete_all, ensure_all},
    plan::{Objects, VcJobPlan},
    plugins::Plugins,
};
use crate::{
    reconcile::apply::{apply_group, create_pods, delete_pods, release_pods, warn},
    ssh_keys::KeySource,
};

/// Carries out a plan; returns the receipt of plugins' objects if the status does not have it yet. Pods come after it:
/// whoever ends the job has to know that there are objects to delete.
///
/// # Errors
/// If a write fails; the whole plan is made anew then.
pub async fn apply(ctx: &Ctx, keys: &KeySource, job: &Job, plan: &VcJobPlan) -> Result<Option<JobStatus>, kube::Error> {
    for command in &plan.forget {
        write::remove(ctx, &**command).await?;
    }
    release_pods(ctx, &plan.release, TRACKING).await?;
    delete_pods(ctx, job, plan.kill.iter().map(|pod| (pod.clone(), None))).await?;
    apply_group(ctx, job, &plan.group).await?;
    make_claims(ctx, job, &plan.claims).await?;
    apply_objects(ctx, keys, job, plan.objects).await?;
    let receipt = receipt(job, plan.objects);
    if receipt.is_none() {
        create_pods(ctx, job, &plan.create).await?;
    }
    Ok(receipt)
}

async fn make_claims(ctx: &Ctx, job: &Job, claims: &[PersistentVolumeClaim]) -> Result<(), kube::Error> {
    let api = write::api::<PersistentVolumeClaim>(ctx, &job.namespace().unwrap_or_default());
    for claim in claims {
        let made = api.create(&PostParams::default(), claim).await;
        ctx.caches.assume(made.inspect_err(|error| warn(ctx, job, events::PVC_ERROR, error))?);
    }
    Ok(())
}

async fn apply_objects(ctx: &Ctx, keys: &KeySource, job: &Job, what: Objects) -> Result<(), kube::Error> {
    let objects = || Plugins::of_job(job).objects();
    match what {
        Objects::Leave => Ok(()),
        Objects::Ensure => {
            let done = ensure_all(ctx, keys, job, objects()).await;
            done.inspect_err(|error| warn(ctx, job, events::PLUGIN_ERROR, error))
        }
        Objects::Delete => delete_all(ctx, job, objects()).await,
    }
}

/// Returns the status that knows of the objects of plugins, if it is another than the job has.
pub fn receipt(job: &Job, what: Objects) -> Option<JobStatus> {
    let mut status = job.status.clone().unwrap_or_default();
    let mut memory = Memory::read(&status, &job.spec);
    memory.applied = match what {
        Objects::Leave => return None,
        Objects::Ensure => Some(Plugins::of_job(job).fingerprint()),
        Objects::Delete => None,
    };
    if memory.applied.is_none() {
        status.controlled_resources.retain(|key, _| !key.starts_with("plugin-"));
    }
    memory.write(&mut status);
    Some(status).filter(|status| job.status.as_ref() != Some(status))
}
