//! Does what is planned for a training job. Every write names the very object it means, and may be repeated.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use ronde_api::{ScalerStatus, ScalingWay, TrainingJob, TrainingJobStatus, names::elastic as names};
use ronde_runtime::{
    pods::{
        apply::{self as write, Owner},
        controller_ref, time,
    },
    runner::Ctx,
};
use serde::Serialize;
use serde_json::json;

use super::{
    Elastic, objects,
    observed::{RequestObject, TRACKING},
    plan::{Objects, TrainingJobPlan},
    scaler_status::ScalerUpdate,
    scaling::moving,
};
use crate::reconcile::apply::{FAILED_CREATE, apply_group, create_pods, delete_pods, release_pods, warn};

/// Carries out a plan: first what goes, then what pods need, then the pods, then those who asked are told. Returns the
/// receipt of the objects if they were not in place: then there is another plan.
///
/// # Errors
/// If a write fails; the whole plan is made anew then.
pub async fn apply(
    ctx: &Ctx,
    elastic: &Elastic,
    job: &TrainingJob,
    plan: &TrainingJobPlan,
) -> Result<Option<TrainingJobStatus>, kube::Error> {
    release_pods(ctx, plan.release.as_slice(), TRACKING).await?;
    delete_pods(ctx, job, plan.kill.iter().map(|kill| (kill.pod.clone(), kill.grace))).await?;
    apply_group(ctx, job, &plan.group).await?;
    if let Some(wanted) = &plan.objects {
        let applied = objects::apply(ctx, &elastic.keys, job, wanted).await;
        applied.inspect_err(|error| warn(ctx, job, FAILED_CREATE, error))?;
        return Ok(Some(receipt(job, wanted, ctx.clock.now())));
    }
    if let Some((launcher, note)) = &plan.note {
        annotate(ctx, launcher, note).await?;
    }
    create_pods(ctx, job, &pods(elastic, job, plan)).await?;
    for update in &plan.scalers {
        update_scaler(ctx, job, update).await?;
    }
    if let Some(replicas) = plan.replicas {
        resize(ctx, job, replicas).await?;
    }
    Ok(None)
}

/// Returns the status that knows that the objects are in place, and since when.
pub fn receipt(job: &TrainingJob, wanted: &Objects, now: Timestamp) -> TrainingJobStatus {
    let mut status = job.status.clone().unwrap_or_default();
    status.elastic.applied.clone_from(&wanted.fingerprint);
    status.elastic.applied_time = Some(time(now));
    status
}

async fn annotate(ctx: &Ctx, launcher: &Pod, note: &str) -> Result<(), kube::Error> {
    let patch = json!({"metadata": {"uid": launcher.metadata.uid, "annotations": {names::HOSTS: note}}});
    write::patch(ctx, launcher, &patch).await.map(drop)
}

fn pods(elastic: &Elastic, job: &TrainingJob, plan: &TrainingJobPlan) -> Vec<Pod> {
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

/// With the version that was looked at: what somebody else asks for meanwhile is never overwritten.
async fn resize(ctx: &Ctx, job: &TrainingJob, replicas: i32) -> Result<(), kube::Error> {
    let jobs: Api<TrainingJob> = write::api(ctx, &job.namespace().unwrap_or_default());
    let patch = Patch::Merge(json!({
        "metadata": {"resourceVersion": job.resource_version()},
        "spec": {"etReplicaSpecs": {"worker": {"replicas": replicas}}},
    }));
    let written = jobs.patch(&job.name_any(), &PatchParams::default(), &patch).await?;
    ctx.caches.assume(written);
    Ok(())
}

async fn update_scaler(ctx: &Ctx, job: &TrainingJob, update: &ScalerUpdate) -> Result<(), kube::Error> {
    let owner = update.is_to_be_owned.then_some(job);
    match &update.object {
        RequestObject::Out(object) => {
            let object = own(ctx, &**object, owner).await?;
            write_scaler(ctx, object, update.status.as_ref(), |object, status| object.status = Some(status)).await
        }
        RequestObject::In(object) => {
            let object = own(ctx, &**object, owner).await?;
            write_scaler(ctx, object, update.status.as_ref(), |object, status| object.status = Some(status)).await
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
