//! Training jobs: a launcher and workers that come and go while they train.
//!
//! This file observes, [`decide`] says what comes next, [`apply`] does what is planned; the order of writes is that of
//! [`reconcile`](crate::reconcile): status first. Scale operations are looked at with their job, one at a time; what they
//! are told follows from the status of the job. Beside it runs [`Orphans`](ronde_runtime::pods::orphans).

pub mod apply;
pub mod capacity;
pub mod conditions;
pub mod decide;
pub mod files;
#[cfg(test)]
mod fixtures;
pub mod group;
pub mod losses;
pub mod objects;
pub mod observed;
pub mod plan;
pub mod pod;
pub mod reclaim;
pub mod scaler_status;
pub mod scaling;
pub mod status_builder;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    core::v1::{ConfigMap, Node, Pod, Secret, Service, ServiceAccount},
    rbac::v1::{Role, RoleBinding},
};
use kube::ResourceExt as _;
use ronde_api::names::MANAGED_SELECTOR;
use ronde_api::{
    PodGroup, ScaleIn, ScaleOut, Scaler, TrainingJob, TrainingJobStatus,
    names::elastic::{self as names, conditions as types},
    rules,
};
use ronde_runtime::telemetry::metrics::Metrics;
use ronde_runtime::watch::Owned;
use ronde_runtime::{
    pods::{apply as write, controller_of, orphans::Counts},
    podstatus::node_of,
    runner::{Controller, Ctx},
    watch::{Cached, Caches, Change, Key, Kinds},
};

use self::{
    capacity::Cluster,
    observed::{Capacity, Member, Observed, Request, RequestObject, TRACKING},
    plan::TrainingJobPlan,
    pod::Wiring,
};
use crate::{
    metrics::{JOB_RESTARTS, RESIZE_SECONDS},
    reconcile::{StatusFirst, Step, reconcile, refusals::Refusals},
    ssh_keys::KeySource,
};

/// The grace of pods whose job is gone, in seconds: what they run is over.
const ORPHAN_SECONDS: u32 = 1;

/// How often a job with workers on a silent node is looked at.
const WATCHFUL: SignedDuration = SignedDuration::from_secs(5);

impl Counts for Elastic {
    type Owner = TrainingJob;

    const ORPHANS: &'static str = "training-job-orphans-controller";
    const FINALIZER: &'static str = TRACKING;

    fn has_done(job: &TrainingJob) -> bool {
        job.metadata.deletion_timestamp.is_some()
    }
}

/// The controller of training jobs.
pub struct Elastic {
    keys: KeySource,
    wiring: Wiring,
    refusals: Refusals,
}

impl Elastic {
    /// Makes the controller, with where ssh keys and the program in pods come from.
    pub fn new(keys: KeySource, agent: pod::AgentSettings) -> Self {
        Self { keys, wiring: Wiring { agent }, refusals: Refusals::default() }
    }
}

impl Controller for Elastic {
    const NAME: &'static str = "et-operator";

    fn kinds(&self, kinds: &mut Kinds) {
        kinds.add::<TrainingJob>().add::<ScaleIn>().add::<ScaleOut>().add::<Pod>().add::<PodGroup>().add::<Node>();
        kinds
            .add_owned::<ConfigMap>(MANAGED_SELECTOR)
            .add_owned::<Secret>(MANAGED_SELECTOR)
            .add_owned::<Service>(MANAGED_SELECTOR);
        kinds
            .add_owned::<ServiceAccount>(MANAGED_SELECTOR)
            .add_owned::<Role>(MANAGED_SELECTOR)
            .add_owned::<RoleBinding>(MANAGED_SELECTOR);
    }

    fn affected(&self, change: &Change, caches: &Caches) -> Vec<Key> {
        if change.is::<TrainingJob>() {
            vec![change.key.clone()]
        } else if change.is::<Pod>() || change.is::<PodGroup>() || is_object(change) {
            change.owners("TrainingJob")
        } else if change.is::<ScaleIn>() {
            job_of::<ScaleIn>(change, caches)
        } else if change.is::<ScaleOut>() {
            job_of::<ScaleOut>(change, caches)
        } else if change.is::<Node>() {
            caches.list::<TrainingJob>(None).iter().map(|job| Key::of(&**job)).collect()
        } else {
            Vec::new()
        }
    }

    async fn reconcile(&self, ctx: &Ctx, key: &Key) -> Result<Option<SignedDuration>, kube::Error> {
        let Some(job) = ctx.caches.get::<TrainingJob>(key) else {
            self.refusals.forget(key);
            return forget(ctx, key).await.map(|()| None);
        };
        if job.metadata.deletion_timestamp.is_some() {
            return Ok(None);
        }
        reconcile(self, ctx, &job).await
    }
}

impl StatusFirst for Elastic {
    type Job = TrainingJob;
    type Status = TrainingJobStatus;
    type Plan = TrainingJobPlan;

    // A loss, its replacement and two changes of phase take four, objects one more.
    const ROUNDS_MAX: usize = 12;

    fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    fn complete(&self, _: &Ctx, job: &TrainingJob) -> TrainingJob {
        let mut job = job.clone();
        // The least workers of the beginning, however many there are later.
        let least = job.status.as_ref().map_or(0, |status| status.elastic.least);
        if least > 0 {
            job.spec.et_replica_specs.worker.min_replicas.get_or_insert(least);
        }
        rules::training_job::default(&mut job);
        job
    }

    fn decide(&self, ctx: &Ctx, job: &TrainingJob, now: Timestamp) -> Step<TrainingJobStatus, TrainingJobPlan> {
        let refusal = self.refusals.of_job(&Key::of(job));
        decide::decide(&Observed { refusal, ..observe(ctx, job, now) }, now)
    }

    fn with_status(job: &TrainingJob, status: TrainingJobStatus) -> TrainingJob {
        TrainingJob { status: Some(status), ..job.clone() }
    }

    fn measure(before: &TrainingJob, after: &TrainingJob, metrics: &Metrics) {
        let (Some(old), Some(new)) = (&before.status, &after.status) else { return };
        let is_restarting = conditions::is_true(&new.conditions, types::RESTARTING);
        if new.elastic.run > old.elastic.run && is_restarting {
            metrics.count(&JOB_RESTARTS, ["TrainingJob"]);
        }
        if scaling::is_under_way(&old.elastic)
            && let Some((scaling, outcome)) = new.elastic.scaling.as_ref().and_then(|it| Some((it, it.outcome?)))
            && let Some(end) = &new.elastic.last_scale_time
        {
            let took = end.0.duration_since(scaling.since.0).try_into().unwrap_or_default();
            metrics.observe(&RESIZE_SECONDS, [scaling.way.as_str(), outcome.as_str()], took);
        }
    }

    async fn apply(
        &self,
        ctx: &Ctx,
        job: &TrainingJob,
        plan: &TrainingJobPlan,
    ) -> Result<Option<TrainingJobStatus>, kube::Error> {
        apply::apply(ctx, self, job, plan).await
    }

    async fn rest(
        &self,
        ctx: &Ctx,
        job: &TrainingJob,
        plan: &TrainingJobPlan,
        _: Timestamp,
    ) -> Result<Option<SignedDuration>, kube::Error> {
        Ok(plan.look_again.into_iter().chain(watchful(ctx, job)).min())
    }
}

/// Returns the job that a scale operation is or was for.
fn job_of<S: Scaler + Cached>(change: &Change, caches: &Caches) -> Vec<Key> {
    let named = caches.get::<S>(&change.key).map(|scaler| Key::new(&change.key.namespace, scaler.job_name()));
    named.into_iter().chain(change.owners("TrainingJob")).collect()
}

fn observe<'a>(ctx: &Ctx, job: &'a TrainingJob, now: Timestamp) -> Observed<'a> {
    let uid = job.uid().unwrap_or_default();
    let namespace = job.namespace().unwrap_or_default();
    let members = ctx.caches.controlled_by::<Pod>(&uid).into_iter().map(Member::of_pod);
    let (launchers, workers): (Vec<Member>, Vec<Member>) =
        members.partition(|member| member.pod.labels().get(names::ROLE).is_some_and(|role| role == names::LAUNCHER));
    let workers: BTreeMap<String, Member> = workers.into_iter().map(|it| (it.name.clone(), it)).collect();
    let is_begun = job.status.as_ref().is_some_and(|status| status.elastic.run > 0);
    // What was accepted once stays accepted.
    let faults = if is_begun { Vec::new() } else { rules::training_job::validate(job) };
    Observed {
        job,
        vanishing: vanishing(ctx, &workers, now),
        workers,
        launcher_vanishing: launchers.first().and_then(|launcher| node_vanishing(ctx, launcher, now)),
        launcher: launchers.into_iter().next(),
        group: ctx.caches.get(&Key::new(&namespace, group::name(job))),
        requests: requests_for(ctx, &Key::of(job), Some(&uid)),
        capacity: if job.is_auto() { observe_capacity(ctx, job, now) } else { Capacity::default() },
        objects: Some(objects::all_of(ctx, job)),
        refusal: None,
        faults: faults.iter().map(ToString::to_string).collect(),
    }
}

/// Tells whether something that is made for jobs beside pods and groups has changed.
fn is_object(change: &Change) -> bool {
    change.is::<Owned<ConfigMap>>()
        || change.is::<Owned<Secret>>()
        || change.is::<Owned<Service>>()
        || change.is::<Owned<ServiceAccount>>()
        || change.is::<Owned<Role>>()
        || change.is::<Owned<RoleBinding>>()
}

fn vanishing(ctx: &Ctx, workers: &BTreeMap<String, Member>, now: Timestamp) -> BTreeMap<String, String> {
    let of = |worker: &Member| Some((worker.node().to_owned(), node_vanishing(ctx, worker, now)?));
    workers.values().filter_map(of).collect()
}

/// Returns why the node of a pod is about to go, if it has one that is.
fn node_vanishing(ctx: &Ctx, member: &Member, now: Timestamp) -> Option<String> {
    if member.node().is_empty() {
        return None;
    }
    match ctx.caches.get::<Node>(&Key::new("", member.node())) {
        Some(node) => capacity::vanishing(&node, &member.pod, now),
        None => Some(format!("node {} is gone", member.node())),
    }
}

/// Returns when to look again at workers on a node that has fallen silent: nobody tells when it has been so for long.
fn watchful(ctx: &Ctx, job: &TrainingJob) -> Option<SignedDuration> {
    let pods = ctx.caches.controlled_by::<Pod>(&job.uid().unwrap_or_default());
    let mut nodes = pods.iter().filter_map(|pod| ctx.caches.get::<Node>(&Key::new("", node_of(pod))));
    nodes.any(|node| capacity::is_silent(&node)).then_some(WATCHFUL)
}

fn observe_capacity(ctx: &Ctx, job: &TrainingJob, now: Timestamp) -> Capacity {
    let (nodes, pods) = (ctx.caches.list::<Node>(None), ctx.caches.list::<Pod>(None));
    let groups = ctx.caches.list::<PodGroup>(None);
    capacity::capacity(job, &Cluster { nodes: &nodes, pods: &pods, groups: &groups, now })
}

/// Returns the scale operations for a job, the oldest first; those of an earlier job of its name are not for it.
fn requests_for(ctx: &Ctx, key: &Key, uid: Option<&str>) -> Vec<Request> {
    let outs = ctx.caches.list::<ScaleOut>(Some(&key.namespace)).into_iter();
    let ins = ctx.caches.list::<ScaleIn>(Some(&key.namespace)).into_iter();
    let outs = outs.filter(|it| is_for(&**it, key, uid)).map(|it| (created(&*it), Request::of_out(it)));
    let ins = ins.filter(|it| is_for(&**it, key, uid)).map(|it| (created(&*it), Request::of_in(it)));
    let mut all: Vec<_> = outs.chain(ins).collect();
    all.sort_by(|(a, x), (b, y)| (a, &x.name).cmp(&(b, &y.name)));
    all.into_iter().map(|(_, request)| request).collect()
}

fn created<K: kube::Resource>(object: &K) -> Timestamp {
    object.meta().creation_timestamp.as_ref().map(|time| time.0).unwrap_or_default()
}

fn is_for<S: Scaler>(scaler: &S, key: &Key, uid: Option<&str>) -> bool {
    let meta = scaler.metadata();
    let owner = controller_of(meta).map(|owner| owner.uid.as_str());
    let is_owned = owner.is_none_or(|owner| uid == Some(owner));
    scaler.job_name() == key.name && is_owned && meta.deletion_timestamp.is_none()
}

/// Tells those who ask for a job that is not there, and ends what an earlier one has left: its workers would else wait
/// for somebody to let them go. The server is asked: the caches may be of different times.
async fn forget(ctx: &Ctx, key: &Key) -> Result<(), kube::Error> {
    let mut requests = requests_for(ctx, key, None);
    requests.retain(|request| request.outcome.is_none());
    let is_left = |pod: &Arc<Pod>| {
        let owner = controller_of(&pod.metadata).filter(|owner| owner.kind == "TrainingJob");
        owner.is_some_and(|owner| owner.name == key.name) && pod.metadata.deletion_grace_period_seconds != Some(1)
    };
    let pods: Vec<Arc<Pod>> = ctx.caches.list::<Pod>(Some(&key.namespace)).into_iter().filter(is_left).collect();
    if requests.is_empty() && pods.is_empty() {
        return Ok(());
    }
    if write::api::<TrainingJob>(ctx, &key.namespace).get_opt(&key.name).await?.is_some() {
        return Ok(());
    }
    for pod in pods {
        write::remove_within(ctx, &*pod, Some(ORPHAN_SECONDS)).await?;
    }
    for request in requests {
        let status = scaler_status::without_job(&request, &key.name, ctx.clock.now());
        match &request.object {
            RequestObject::Out(object) => {
                let object = ScaleOut::clone(object);
                apply::write_scaler(ctx, object, Some(&status), |object, status| object.status = Some(status)).await?;
            }
            RequestObject::In(object) => {
                let object = ScaleIn::clone(object);
                apply::write_scaler(ctx, object, Some(&status), |object, status| object.status = Some(status)).await?;
            }
        }
    }
    Ok(())
}
