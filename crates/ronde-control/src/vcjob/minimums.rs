//! Stores the minimums that a new job leaves open, as Volcano's admission webhook does where there is one: those of the
//! beginning, however many replicas there are later. The other defaults follow from what may not change.
//!
//! This is the one write before the first status of a job. It does nothing for the job: it completes what the user has
//! written, and whoever is killed after it finds the spec complete.

use kube::{
    ResourceExt as _,
    api::{Patch, PatchParams},
};
use ronde_api::Job;
use ronde_runtime::{pods::apply as write, refusal::Refusal, runner::Ctx};
use serde_json::{Value, json};

/// Stores the minimums of a new job as they are in `full`, the job with all defaults.
///
/// # Errors
/// If the write fails for another reason than that the job is invalid, which its status will tell.
pub async fn store(ctx: &Ctx, job: &Job, full: &Job) -> Result<Job, kube::Error> {
    let is_new = job.status.as_ref().is_none_or(|status| status.state.phase.is_none());
    let minimums = |job: &Job| (job.spec.min_available, job.spec.tasks.iter().map(|it| it.min_available).collect());
    let (least, tasks): (i32, Vec<Option<i32>>) = minimums(full);
    if !is_new || minimums(job) == (least, tasks.clone()) {
        return Ok(job.clone());
    }
    let set = |path: String, least: Value| json!({"op": "add", "path": path, "value": least});
    // Of the version that was looked at, and nothing but the minimums: templates may have fields that our types do not know.
    let of_version = json!({"op": "replace", "path": "/metadata/resourceVersion", "value": job.resource_version()});
    let of_tasks = tasks.into_iter().enumerate();
    let of_tasks = of_tasks.map(|(at, least)| set(format!("/spec/tasks/{at}/minAvailable"), json!(least)));
    let changes = [of_version, set("/spec/minAvailable".to_owned(), json!(least))].into_iter().chain(of_tasks);
    let patch = Patch::Json::<()>(serde_json::from_value(changes.collect()).map_err(kube::Error::SerdeError)?);
    let jobs = write::api::<Job>(ctx, &job.namespace().unwrap_or_default());
    match jobs.patch(&job.name_any(), &PatchParams::default(), &patch).await {
        Ok(written) => {
            ctx.caches.assume(written.clone());
            Ok(written)
        }
        // Something else in it is wrong, and will be told: it goes on with the defaults of today.
        Err(error) if Refusal::of_error(&error) == Some(Refusal::Invalid) => Ok(job.clone()),
        Err(error) => Err(error),
    }
}
