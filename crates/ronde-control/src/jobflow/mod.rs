//! Flows of jobs: makes each job from its template when those that it depends on are complete, or pass its probe.
//!
//! This file observes, [`decide`] says what comes next and [`probe`] asks pods; the order of writes is that of
//! [`reconcile`](crate::reconcile): status first. A job is listed in the status of its flow before it is made, and what
//! is listed is made: who is killed in between goes on there. What a job does is the business of its own controller.

pub mod decide;
pub mod probe;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use parking_lot::Mutex;
use ronde_api::{Job, JobFlow, JobFlowStatus, JobTemplate, names, rules};
use ronde_runtime::{
    pods::apply as write,
    refusal::Refusal,
    runner::{Controller, Ctx},
    watch::{Caches, Change, Key, Kinds},
};

use self::{
    decide::{JobFlowPlan, ObservedFlow},
    probe::{PodDialer, ProbedPod, Question},
};
use crate::reconcile::{
    StatusFirst, Step,
    apply::{FAILED_CREATE, create_job, warn},
    reconcile,
    refusals::Refusals,
};

/// How long a flow is left alone after a look, for each of its jobs: a look goes through all of them and may write a
/// status that lists them, so that the work for one job would grow with their number.
const REST_PER_JOB: SignedDuration = SignedDuration::from_millis(1);
/// The reason of events about jobs that were made; Volcano's word.
const CREATED: &str = "Created";

/// The controller of flows.
pub struct JobFlows {
    dialer: PodDialer,
    refusals: Refusals,
    /// When each flow was last looked at. What is forgotten with a restart is looked at once more.
    looks: Mutex<BTreeMap<Key, Timestamp>>,
}

impl JobFlows {
    /// Makes the controller, with how the addresses of pods are reached.
    pub fn new(dialer: PodDialer) -> Self {
        Self { dialer, refusals: Refusals::default(), looks: Mutex::default() }
    }

    /// Returns how long a flow is still to be left alone; if it is not, notes that it is looked at now.
    fn rest(&self, flow: &JobFlow, now: Timestamp) -> Option<SignedDuration> {
        let rest = REST_PER_JOB.saturating_mul(i32::try_from(flow.spec.flows.len()).unwrap_or(i32::MAX));
        let mut looks = self.looks.lock();
        let left = looks.get(&Key::of(flow)).map(|last| rest - now.duration_since(*last));
        let left = left.filter(SignedDuration::is_positive);
        if left.is_none() {
            looks.insert(Key::of(flow), now);
        }
        left
    }
}

impl Controller for JobFlows {
    const NAME: &'static str = "vc-jobflow-controller";

    fn kinds(&self, kinds: &mut Kinds) {
        kinds.add::<JobFlow>().add::<JobTemplate>().add::<Job>().add::<Pod>();
    }

    fn affected(&self, change: &Change, caches: &Caches) -> Vec<Key> {
        if change.is::<JobFlow>() {
            vec![change.key.clone()]
        } else if change.is::<Job>() {
            change.owners("JobFlow")
        } else if change.is::<JobTemplate>() {
            let flows = caches.list::<JobFlow>(Some(&change.key.namespace)).into_iter();
            let uses = |flow: &Arc<JobFlow>| flow.spec.flows.iter().any(|one| one.name == change.key.name);
            flows.filter(uses).map(|flow| Key::of(&*flow)).collect()
        } else {
            Vec::new()
        }
    }

    async fn reconcile(&self, ctx: &Ctx, key: &Key) -> Result<Option<SignedDuration>, kube::Error> {
        let Some(flow) = ctx.caches.get::<JobFlow>(key) else {
            self.refusals.forget(key);
            self.looks.lock().remove(key);
            return Ok(None);
        };
        if let Some(rest) = self.rest(&flow, ctx.clock.now()) {
            return Ok(Some(rest));
        }
        let questions = decide::questions(&observe(ctx, &flow, BTreeSet::new()));
        let answered = probe::ask_all(&self.dialer, questions).await;
        reconcile(&Look { controller: self, answered }, ctx, &flow).await
    }
}

/// One look at a flow, with what pods have answered at its beginning.
struct Look<'a> {
    controller: &'a JobFlows,
    answered: BTreeSet<Question>,
}

impl StatusFirst for Look<'_> {
    type Job = JobFlow;
    type Status = JobFlowStatus;
    type Plan = JobFlowPlan;

    // Jobs are listed, made, seen, and may be refused.
    const ROUNDS_MAX: usize = 6;

    fn refusals(&self) -> &Refusals {
        &self.controller.refusals
    }

    fn complete(&self, _: &Ctx, flow: &JobFlow) -> JobFlow {
        flow.clone()
    }

    fn decide(&self, ctx: &Ctx, flow: &JobFlow, now: Timestamp) -> Step<JobFlowStatus, JobFlowPlan> {
        let refusal = self.refusals().of_job(&Key::of(flow));
        decide::decide(&ObservedFlow { refusal, ..observe(ctx, flow, self.answered.clone()) }, now)
    }

    fn with_status(flow: &JobFlow, status: JobFlowStatus) -> JobFlow {
        JobFlow { status: Some(status), ..flow.clone() }
    }

    async fn apply(&self, ctx: &Ctx, flow: &JobFlow, plan: &JobFlowPlan) -> Result<Option<JobFlowStatus>, kube::Error> {
        for job in &plan.delete {
            write::remove(ctx, &**job).await?;
        }
        let mut refused = None;
        for job in &plan.create {
            let Err(error) = create(ctx, flow, job).await else { continue };
            // One job that is refused keeps none of the others; who cannot be asked is not asked for each of them.
            if !Refusal::of_error(&error).is_some_and(Refusal::is_lasting) {
                return Err(error);
            }
            refused = refused.or(Some(error));
        }
        refused.map_or(Ok(None), Err)
    }

    async fn rest(
        &self,
        _: &Ctx,
        _: &JobFlow,
        plan: &JobFlowPlan,
        _: Timestamp,
    ) -> Result<Option<SignedDuration>, kube::Error> {
        Ok(plan.look_again)
    }
}

async fn create(ctx: &Ctx, flow: &JobFlow, job: &Job) -> Result<(), kube::Error> {
    let made = create_job(ctx, flow, job).await;
    if made.inspect_err(|error| warn(ctx, flow, FAILED_CREATE, error))? {
        ctx.events.normal(flow, CREATED, format!("created job {}", job.name_any()));
    }
    Ok(())
}

fn observe<'a>(ctx: &Ctx, flow: &'a JobFlow, answered: BTreeSet<Question>) -> ObservedFlow<'a> {
    let namespace = flow.namespace().unwrap_or_default();
    let own = ctx.caches.controlled_by::<Job>(&flow.uid().unwrap_or_default());
    let jobs: BTreeMap<String, Arc<Job>> = own.into_iter().map(|job| (job.name_any(), job)).collect();
    let template = |name: &String| ctx.caches.get::<JobTemplate>(&Key::new(&namespace, name));
    let templates = flow.spec.flows.iter().filter_map(|one| Some((one.name.clone(), template(&one.name)?)));
    let probed = flow.spec.flows.iter().filter(|one| one.probe().is_some()).flat_map(ronde_api::Flow::targets);
    let pods = probed.filter_map(|target| {
        let job = jobs.get(&names::flow_job(&flow.name_any(), target))?;
        let pods = ctx.caches.controlled_by::<Pod>(&job.uid().unwrap_or_default());
        Some((job.name_any(), pods.iter().map(|pod| ProbedPod::of_pod(pod)).collect()))
    });
    ObservedFlow {
        flow,
        entries: decide::entries(flow),
        templates: templates.collect(),
        pods: pods.collect(),
        jobs,
        answered,
        faults: rules::job_flow::validate(flow).iter().map(ToString::to_string).collect(),
        refusal: None,
    }
}
