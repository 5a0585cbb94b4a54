//! Does what is planned for a job. Every write names the very object it means, and may be repeated.

use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::{ResourceExt as _, api::PostParams};
use ronde_api::{Job, JobStatus, PodGroup};
use ronde_runtime::{
    pods::act::{self as write, Owner},
    runner::Ctx,
};

use super::{
    member::{TRACKING, is_tracked},
    news,
    objects::{self, KeySource},
    plan::{GroupPlan, Objects, Plan},
    plugins::Plugins,
    write_status,
};

/// How many requests about the pods of one job are under way: a request takes about 1 ms, so that a gang of a
/// thousand takes a tenth of a second, and four jobs at once cannot drown a server.
const AT_ONCE: usize = 32;

/// Carries out a plan.
///
/// # Errors
/// If a write fails; the whole plan is made anew then.
pub async fn apply(ctx: &Ctx, keys: &KeySource, job: &Job, plan: &Plan) -> Result<(), kube::Error> {
    for command in &plan.forget {
        write::remove(ctx, &**command).await?;
    }
    release_all(ctx, &plan.release).await?;
    kill_all(ctx, job, &plan.kill).await?;
    apply_group(ctx, job, &plan.group).await.inspect_err(|error| warn(ctx, job, news::POD_GROUP_ERROR, error))?;
    make_claims(ctx, job, &plan.claims).await?;
    apply_objects(ctx, keys, job, plan.objects).await?;
    create_all(ctx, job, &plan.create).await
}

/// Losing a race is part of the game, and no news.
fn warn(ctx: &Ctx, job: &Job, reason: &'static str, error: &kube::Error) {
    if !matches!(error, kube::Error::Api(status) if matches!(status.code, 404 | 409)) {
        ctx.events.warning(job, reason, write::text(error));
    }
}

async fn release_all(ctx: &Ctx, pods: &[Arc<Pod>]) -> Result<(), kube::Error> {
    let released = stream::iter(pods.to_vec()).map(|pod| async move {
        // A look at an old state may not know that it is done.
        if is_tracked(&pod) { write::remove_finalizer(ctx, &pod, TRACKING).await } else { Ok(()) }
    });
    released.buffer_unordered(AT_ONCE).try_collect().await
}

async fn kill_all(ctx: &Ctx, job: &Job, pods: &[Arc<Pod>]) -> Result<(), kube::Error> {
    let killed = stream::iter(pods.to_vec()).map(|pod| async move {
        let killed = write::remove(ctx, &*pod).await;
        killed.map(drop).inspect_err(|error| warn(ctx, job, news::FAILED_DELETE, error))
    });
    killed.buffer_unordered(AT_ONCE).try_collect().await
}

/// Makes, changes or deletes the group of a job.
///
/// # Errors
/// If the write fails.
pub async fn apply_group<J: Owner>(ctx: &Ctx, job: &J, plan: &GroupPlan) -> Result<(), kube::Error> {
    let groups = write::api::<PodGroup>(ctx, &job.namespace().unwrap_or_default());
    let written = match plan {
        GroupPlan::Leave => return Ok(()),
        GroupPlan::Delete(group) => return write::remove(ctx, &**group).await.map(drop),
        GroupPlan::Create(group) => groups.create(&PostParams::default(), group).await?,
        // With its version: the scheduler writes its part of the same object.
        GroupPlan::Replace(group) => groups.replace(&group.name_any(), &PostParams::default(), group).await?,
    };
    ctx.caches.assume(written);
    Ok(())
}

async fn make_claims(ctx: &Ctx, job: &Job, claims: &[PersistentVolumeClaim]) -> Result<(), kube::Error> {
    let api = write::api::<PersistentVolumeClaim>(ctx, &job.namespace().unwrap_or_default());
    for claim in claims {
        match api.create(&PostParams::default(), claim).await {
            Ok(made) => ctx.caches.assume(made),
            Err(error) => {
                warn(ctx, job, news::PVC_ERROR, &error);
                return Err(error);
            }
        }
    }
    Ok(())
}

/// Makes or deletes the objects of plugins, then remembers that it is so.
async fn apply_objects(ctx: &Ctx, keys: &KeySource, job: &Job, what: Objects) -> Result<(), kube::Error> {
    let plugins = Plugins::of(job);
    let applied = match what {
        Objects::Leave => return Ok(()),
        Objects::Ensure => {
            let done = objects::ensure_all(ctx, keys, job, plugins.objects()).await;
            done.inspect_err(|error| warn(ctx, job, news::PLUGIN_ERROR, error))?;
            Some(plugins.fingerprint())
        }
        Objects::Delete => {
            objects::delete_all(ctx, job, plugins.objects()).await?;
            None
        }
    };
    let status = remembered(job, applied);
    if job.status.as_ref() == Some(&status) {
        return Ok(());
    }
    write_status(ctx, job, status).await.map(drop)
}

fn remembered(job: &Job, applied: Option<String>) -> JobStatus {
    let mut status = job.status.clone().unwrap_or_default();
    let mut memory = super::memory::Memory::read(&status, &job.spec);
    memory.applied = applied;
    if memory.applied.is_none() {
        status.controlled_resources.retain(|key, _| !key.starts_with("plugin-"));
    }
    memory.write(&mut status);
    status
}

/// Makes one pod, then all others side by side: what refuses one refuses all.
async fn create_all(ctx: &Ctx, job: &Job, pods: &[Pod]) -> Result<(), kube::Error> {
    let Some((first, rest)) = pods.split_first() else { return Ok(()) };
    create(ctx, job, first).await?;
    let created = stream::iter(rest.to_vec()).map(|pod| async move { create(ctx, job, &pod).await });
    created.buffer_unordered(AT_ONCE).try_collect().await
}

async fn create(ctx: &Ctx, job: &Job, pod: &Pod) -> Result<(), kube::Error> {
    let pods = write::api::<Pod>(ctx, &job.namespace().unwrap_or_default());
    match pods.create(&PostParams::default(), pod).await {
        Ok(made) => {
            ctx.caches.assume(made);
            Ok(())
        }
        Err(error) => {
            // The name may still be that of a pod that is on its way out.
            warn(ctx, job, news::FAILED_CREATE, &error);
            Err(error)
        }
    }
}
