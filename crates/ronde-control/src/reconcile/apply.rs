//! Writes that the plans of all jobs have in common: many pods made and deleted, one group, events about failures.
//!
//! Every write names the very object it means, and may be repeated.

use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt as _, api::PostParams};
use ronde_api::{Job, PodGroup};
use ronde_runtime::{
    pods::apply::{self as write, Owner},
    refusal::Refusal,
    runner::Ctx,
};

use super::{
    GroupChange,
    objects::{is_owned, taken},
};

/// How many requests about the pods of one job are under way: a request takes about 1 ms, so that a gang of a
/// thousand takes a tenth of a second, and four jobs at once cannot drown a server.
const AT_ONCE: usize = 32;

/// Reasons of events about writes that fail; Volcano's words.
pub const FAILED_CREATE: &str = "FailedCreate";
pub const FAILED_DELETE: &str = "FailedDelete";
const POD_GROUP_ERROR: &str = "PodGroupError";

/// Records that a write for a job has failed. A lost race is part of the game, and worth no event.
pub fn warn<J: Owner>(ctx: &Ctx, job: &J, reason: &'static str, error: &kube::Error) {
    if !Refusal::of_error(error).is_some_and(Refusal::is_lost_race) {
        ctx.events.warning(job, reason, write::text(error));
    }
}

/// Makes one pod, then all others side by side: what refuses one refuses all.
///
/// # Errors
/// If a pod cannot be made; its name may still be that of one that is on its way out.
pub async fn create_pods<J: Owner>(ctx: &Ctx, job: &J, pods: &[Pod]) -> Result<(), kube::Error> {
    let Some((first, rest)) = pods.split_first() else { return Ok(()) };
    create(ctx, job, first).await?;
    let created = stream::iter(rest.to_vec()).map(|pod| async move { create(ctx, job, &pod).await });
    created.buffer_unordered(AT_ONCE).try_collect().await
}

async fn create<J: Owner>(ctx: &Ctx, job: &J, pod: &Pod) -> Result<(), kube::Error> {
    let pods = write::api::<Pod>(ctx, &job.namespace().unwrap_or_default());
    let made = pods.create(&PostParams::default(), pod).await;
    ctx.caches.assume(made.inspect_err(|error| warn(ctx, job, FAILED_CREATE, error))?);
    Ok(())
}

/// Deletes pods, each with so many seconds of grace; with its own if none.
///
/// # Errors
/// If one cannot be deleted.
pub async fn delete_pods<J: Owner>(
    ctx: &Ctx,
    job: &J,
    pods: impl IntoIterator<Item = (Arc<Pod>, Option<u32>)>,
) -> Result<(), kube::Error> {
    let pods: Vec<_> = pods.into_iter().collect();
    let deleted = stream::iter(pods).map(|(pod, grace)| async move {
        let deleted = write::remove_within(ctx, &*pod, grace).await;
        deleted.map(drop).inspect_err(|error| warn(ctx, job, FAILED_DELETE, error))
    });
    deleted.buffer_unordered(AT_ONCE).try_collect().await
}

/// Takes a finalizer off pods that have it: a look at an old state may not know that it is done.
///
/// # Errors
/// If a write fails.
pub async fn release_pods(ctx: &Ctx, pods: &[Arc<Pod>], finalizer: &str) -> Result<(), kube::Error> {
    let released = stream::iter(pods.to_vec()).map(|pod| async move {
        let is_tracked = pod.finalizers().iter().any(|it| it == finalizer);
        if is_tracked { write::remove_finalizer(ctx, &pod, finalizer).await } else { Ok(()) }
    });
    released.buffer_unordered(AT_ONCE).try_collect().await
}

/// Makes a job of Volcano for an object that starts jobs; tells whether it was made now. One that is there already was
/// made before somebody was killed, or is somebody else's.
///
/// # Errors
/// If the write fails, or the name is taken by a job that is not the owner's.
pub async fn create_job<O: Owner>(ctx: &Ctx, owner: &O, job: &Job) -> Result<bool, kube::Error> {
    let jobs = write::api::<Job>(ctx, &owner.namespace().unwrap_or_default());
    match jobs.create(&PostParams::default(), job).await {
        Ok(made) => {
            ctx.caches.assume(made);
            Ok(true)
        }
        Err(error) if write::is_taken(&error) => match jobs.get_opt(&job.name_any()).await? {
            Some(found) if is_owned(owner, &found) => {
                ctx.caches.assume(found);
                Ok(false)
            }
            Some(_) => Err(taken::<Job>(&job.name_any())),
            None => Err(error),
        },
        Err(error) => Err(error),
    }
}

/// Makes, changes or deletes the group of a job.
///
/// # Errors
/// If the write fails.
pub async fn apply_group<J: Owner>(ctx: &Ctx, job: &J, change: &GroupChange) -> Result<(), kube::Error> {
    let groups = write::api::<PodGroup>(ctx, &job.namespace().unwrap_or_default());
    let warn = |error: &kube::Error| warn(ctx, job, POD_GROUP_ERROR, error);
    if let GroupChange::Delete(group) | GroupChange::Recreate(group, _) = change {
        write::remove(ctx, &**group).await.inspect_err(warn)?;
    }
    let written = match change {
        GroupChange::Leave | GroupChange::Delete(_) => return Ok(()),
        GroupChange::Create(group) | GroupChange::Recreate(_, group) => {
            groups.create(&PostParams::default(), group).await
        }
        // With its version: the scheduler writes its part of the same object.
        GroupChange::Replace(group) => groups.replace(&group.name_any(), &PostParams::default(), group).await,
    };
    ctx.caches.assume(written.inspect_err(warn)?);
    Ok(())
}
