//! Does what is planned for a training job. Every write names the very object it means, and may be repeated.

use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use ronde_api::{ScalerStatus, ScalingWay, TrainingJob, names::elastic as names};
use ronde_runtime::{
    pods::{
        act::{self as write, Owner},
        controller_ref, time,
    },
    runner::Ctx,
};
use serde::Serialize;
use serde_json::json;

use super::{
    Elastic, objects,
    observed::{RequestObject, TRACKING},
    plan::{Kill, Objects, Plan},
    scaling::moving,
    tell::Tell,
    write_status,
};
use crate::vcjob::act::apply_group;

/// How many requests about the pods of one job are under way.
const AT_ONCE: usize = 32;

/// Carries out a plan: first what goes, then what pods need, then the pods, then those who asked are told. Returns the job
/// if its status has changed with that: then there is another plan.
///
/// # Errors
/// If a write fails; the whole plan is made anew then.
pub async fn apply(
    ctx: &Ctx,
    elastic: &Elastic,
    job: &TrainingJob,
    plan: &Plan,
) -> Result<Option<TrainingJob>, kube::Error> {
    if let Some(launcher) = &plan.release {
        write::remove_finalizer(ctx, launcher, TRACKING).await?;
    }
    kill_all(ctx, &plan.kill).await?;
    apply_group(ctx, job, &plan.group).await.inspect_err(|error| warn(ctx, job, "PodGroupError", error))?;
    if let Some(objects) = &plan.objects {
        return apply_objects(ctx, elastic, job, objects).await.map(Some);
    }
    if let Some((launcher, note)) = &plan.note {
        annotate(ctx, launcher, note).await?;
    }
    create_all(ctx, job, &pods(elastic, job, plan)).await?;
    for tell in &plan.tell {
        tell_one(ctx, job, tell).await?;
    }
    Ok(None)
}

async fn kill_all(ctx: &Ctx, kills: &[Kill]) -> Result<(), kube::Error> {
    let killed = stream::iter(kills.to_vec())
        .map(|kill| async move { write::remove_within(ctx, &*kill.pod, kill.grace).await.map(drop) });
    killed.buffer_unordered(AT_ONCE).try_collect().await
}

/// Makes the objects, then remembers that it is so.
async fn apply_objects(
    ctx: &Ctx,
    elastic: &Elastic,
    job: &TrainingJob,
    wanted: &Objects,
) -> Result<TrainingJob, kube::Error> {
    let applied = objects::apply(ctx, &elastic.keys, job, wanted).await;
    applied.inspect_err(|error| warn(ctx, job, "FailedCreate", error))?;
    let mut status = job.status.clone().unwrap_or_default();
    status.elastic.applied.clone_from(&wanted.fingerprint);
    status.elastic.applied_time = Some(time(ctx.clock.now()));
    write_status(ctx, job, status).await
}

async fn annotate(ctx: &Ctx, launcher: &Pod, note: &str) -> Result<(), kube::Error> {
    let patch = json!({"metadata": {"uid": launcher.metadata.uid, "annotations": {names::HOSTS: note}}});
    write::patch(ctx, launcher, &patch).await.map(drop)
}

fn pods(elastic: &Elastic, job: &TrainingJob, plan: &Plan) -> Vec<Pod> {
    let status = job.status.clone().unwrap_or_default();
    let run = status.elastic.run;
    let launcher = plan.create.launcher.then(|| elastic.wiring.launcher(job, run));
    let scale_out = status.elastic.scaling.as_ref().map(|scaling| scaling.name.clone()).unwrap_or_default();
    let worker = |name: &String| {
        let mut pod = elastic.wiring.worker(job, name, run);
        if moving(&status.elastic, ScalingWay::Out).contains(name) && !scale_out.is_empty() {
            pod.labels_mut().insert(names::SCALE_OUT.to_owned(), scale_out.clone());
        }
        pod
    };
    launcher.into_iter().chain(plan.create.workers.iter().map(worker)).collect()
}

/// Makes one pod, then all others side by side: what refuses one refuses all.
async fn create_all(ctx: &Ctx, job: &TrainingJob, pods: &[Pod]) -> Result<(), kube::Error> {
    let Some((first, rest)) = pods.split_first() else { return Ok(()) };
    create(ctx, job, first).await?;
    let created = stream::iter(rest.to_vec()).map(|pod| async move { create(ctx, job, &pod).await });
    created.buffer_unordered(AT_ONCE).try_collect().await
}

async fn create(ctx: &Ctx, job: &TrainingJob, pod: &Pod) -> Result<(), kube::Error> {
    let pods = write::api::<Pod>(ctx, &job.namespace().unwrap_or_default());
    let made = pods.create(&PostParams::default(), pod).await;
    ctx.caches.assume(made.inspect_err(|error| warn(ctx, job, "FailedCreate", error))?);
    Ok(())
}

async fn tell_one(ctx: &Ctx, job: &TrainingJob, tell: &Tell) -> Result<(), kube::Error> {
    let owner = tell.is_to_be_owned.then_some(job);
    match &tell.object {
        RequestObject::Out(object) => {
            let object = own(ctx, &**object, owner).await?;
            write_scaler(ctx, object, tell.status.as_ref(), |object, status| object.status = Some(status)).await
        }
        RequestObject::In(object) => {
            let object = own(ctx, &**object, owner).await?;
            write_scaler(ctx, object, tell.status.as_ref(), |object, status| object.status = Some(status)).await
        }
    }
}

/// Makes a scale operation go with its job.
async fn own<K: Owner>(ctx: &Ctx, object: &K, owner: Option<&TrainingJob>) -> Result<K, kube::Error> {
    let Some(job) = owner else { return Ok(object.clone()) };
    let objects: Api<K> = write::api(ctx, &object.namespace().unwrap_or_default());
    let version = object.resource_version();
    let meta = json!({"resourceVersion": version, "ownerReferences": [controller_ref(job)]});
    let patch = Patch::Merge(json!({"metadata": meta}));
    let owned = objects.patch(&object.name_any(), &PatchParams::default(), &patch).await?;
    ctx.caches.assume(owned.clone());
    Ok(owned)
}

/// With the version that was looked at: nobody is told twice.
pub async fn write_scaler<K: Owner + Serialize>(
    ctx: &Ctx,
    mut object: K,
    status: Option<&ScalerStatus>,
    put: impl FnOnce(&mut K, ScalerStatus),
) -> Result<(), kube::Error> {
    let Some(status) = status else { return Ok(()) };
    put(&mut object, status.clone());
    let objects: Api<K> = write::api(ctx, &object.namespace().unwrap_or_default());
    let written = objects.replace_status(&object.name_any(), &PostParams::default(), &object).await?;
    ctx.caches.assume(written);
    Ok(())
}

/// Losing a race is part of the game, and no news.
fn warn(ctx: &Ctx, job: &TrainingJob, reason: &'static str, error: &kube::Error) {
    if !matches!(error, kube::Error::Api(status) if matches!(status.code, 404 | 409)) {
        ctx.events.warning(job, reason, write::text(error));
    }
}
