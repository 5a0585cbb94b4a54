//! What the objects of scale operations are to say, as it follows from the status of their job. Pure.

use jiff::Timestamp;
use ronde_api::{ScalerStatus, Scaling, ScalingWay, TrainingJobStatus, names::elastic::conditions as types};
use ronde_runtime::pods::time;

use super::{
    conditions::{self, TRUE},
    observed::{Observed, Request, RequestObject},
    scaling,
};
use crate::reconcile::Cause;

/// What is to be written to a scale operation.
#[derive(Debug, Clone)]
pub struct ScalerUpdate {
    pub object: RequestObject,
    /// It is to go when the job does.
    pub is_to_be_owned: bool,
    pub status: Option<ScalerStatus>,
}

/// Returns what is to be written.
pub fn all(seen: &Observed<'_>, status: &TrainingJobStatus, now: Timestamp) -> Vec<ScalerUpdate> {
    let of = |request: &Request| {
        let next = next(request, status.elastic.scaling.as_ref(), now);
        let next = Some(next).filter(|next| *next != request.status);
        let is_news = next.is_some() || !request.is_owned;
        is_news.then(|| ScalerUpdate {
            object: request.object.clone(),
            is_to_be_owned: !request.is_owned,
            status: next,
        })
    };
    seen.requests.iter().filter(|request| request.outcome.is_none()).filter_map(of).collect()
}

fn next(request: &Request, scaling: Option<&Scaling>, now: Timestamp) -> ScalerStatus {
    let mut status = request.status.clone();
    let mut set = |type_: &str, cause: &Cause| conditions::set(&mut status.conditions, type_, TRUE, cause, now);
    let created = [format!("{} {} is created.", request.way, request.name)];
    let created: Vec<String> = created.into_iter().chain(request.warnings.iter().cloned()).collect();
    set(types::CREATED, &Cause::new(types::CREATED, created.join(" ")));
    let Some(scaling) = scaling.filter(|scaling| scaling.uid == request.uid) else { return status };
    set(types::SCALING, &Cause::new(conditions::SCALING_START, format!("{} begins", request.name)));
    types::SCALING.clone_into(&mut status.phase);
    status.start_time = Some(scaling.since.clone());
    let workers = match request.way {
        ScalingWay::Out => &mut status.add_pods,
        ScalingWay::In => &mut status.to_delete_pods,
    };
    workers.clone_from(&scaling.workers);
    if let Some(outcome) = scaling.outcome {
        let cause = Cause::new(scaling::reason(scaling.way, outcome), &scaling.message);
        conditions::set(&mut status.conditions, outcome.as_str(), TRUE, &cause, now);
        outcome.as_str().clone_into(&mut status.phase);
        status.completion_time = Some(time(now));
    }
    status
}

/// Returns what a scale operation is to say whose job is not there.
pub fn without_job(request: &Request, job: &str, now: Timestamp) -> ScalerStatus {
    let mut status = request.status.clone();
    let cause = Cause::new("JobNotFound", format!("there is no TrainingJob {job} in this namespace"));
    conditions::set(&mut status.conditions, types::SCALE_FAILED, TRUE, &cause, now);
    types::SCALE_FAILED.clone_into(&mut status.phase);
    status.completion_time = Some(time(now));
    status
}
