//! Stores the minimums that a new job leaves open, as Volcano's admission webhook does where there is one: those of the
//! beginning, however many replicas there are later. The other defaults follow from what may not change.
//!
//! This is the one write before the first status of a job. It does nothing for the job: it completes what the user has
//! written, and whoever is killed after it finds the spec complete.

use kube::{
    Api, ResourceExt as _,
    api::{ApiResource, DynamicObject, PostParams},
};
use ronde_api::Job;
use ronde_runtime::{refusal::Refusal, runner::Ctx};

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
    // As it is stored: templates may have fields that our types do not know.
    let kind = ApiResource::erase::<Job>(&());
    let jobs: Api<DynamicObject> =
        Api::namespaced_with(ctx.client.clone(), &job.namespace().unwrap_or_default(), &kind);
    let mut stored = jobs.get(&job.name_any()).await?;
    stored.metadata.resource_version = job.resource_version();
    stored.data["spec"]["minAvailable"] = least.into();
    for (at, least) in tasks.into_iter().enumerate() {
        stored.data["spec"]["tasks"][at]["minAvailable"] = least.into();
    }
    match jobs.replace(&job.name_any(), &PostParams::default(), &stored).await {
        Ok(written) => {
            let written = serde_json::to_value(written).and_then(serde_json::from_value::<Job>);
            let written = written.map_err(kube::Error::SerdeError)?;
            ctx.caches.assume(written.clone());
            Ok(written)
        }
        // Something else in it is wrong, and will be told: it goes on with the defaults of today.
        Err(error) if Refusal::of_error(&error) == Some(Refusal::Invalid) => Ok(job.clone()),
        Err(error) => Err(error),
    }
}
