//! Volcano's jobs: gangs of pods that start together, find each other, and restart or end as policies say.
//!
//! This file observes, [`decide`] says what comes next, [`apply`] does what is planned; the order of writes is that of
//! [`reconcile`](crate::reconcile): status first. Beside it runs [`Orphans`](ronde_runtime::pods::orphans).
//! How events are told from states is in `docs/decisions/015-events-are-states.md`.

pub mod apply;
pub mod changes;
pub mod decide;
pub mod depends;
pub mod events;
#[cfg(test)]
mod fixtures;
pub mod group;
pub mod member;
pub mod memory;
pub mod minimums;
pub mod objects;
pub mod observed;
pub mod occurrence;
pub mod plan;
pub mod plugins;
pub mod pod;
pub mod policy;
pub mod rules;
pub mod status_builder;
pub mod tally;
pub mod template;
#[cfg(test)]
mod tests;
pub mod volumes;

use std::{collections::BTreeMap, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    core::v1::{ConfigMap, Namespace, PersistentVolumeClaim, Pod, Secret, Service},
    networking::v1::NetworkPolicy,
    scheduling::v1::PriorityClass,
};
use kube::{
    ResourceExt as _,
    api::{DeleteParams, Preconditions},
};
use parking_lot::Mutex;
use ronde_api::names::MANAGED_SELECTOR;
use ronde_api::{
    Command, Job, JobFlow, JobPhase, JobStatus, PodGroup, Queue, names,
    rules::{self as api_rules, Queues, Stage},
};
use ronde_runtime::telemetry::metrics::Metrics;
use ronde_runtime::watch::Owned;
use ronde_runtime::{
    pods::{apply as write, controller_of, orphans::Counts},
    runner::{Controller, Ctx},
    watch::{Caches, Change, Key, Kinds},
};

use self::{member::Member, memory::Memory, objects::InPlace, observed::Observed, plan::VcJobPlan};
use crate::{
    commands::{is_for, put_in_order},
    metrics::JOB_RESTARTS,
    reconcile::{StatusFirst, Step, reconcile, refusals::Refusals},
    ssh_keys::KeySource,
};

/// How soon a job that has lived long enough is looked at again while its flow awaits its end.
const FLOW_PACE: SignedDuration = SignedDuration::from_secs(1);

impl Counts for VcJobs {
    type Owner = Job;

    const ORPHANS: &'static str = "vc-job-orphans-controller";
    const FINALIZER: &'static str = member::TRACKING;

    fn has_done(job: &Job) -> bool {
        job.metadata.deletion_timestamp.is_some()
    }
}

/// The controller of Volcano's jobs.
pub struct VcJobs {
    keys: KeySource,
    refusals: Refusals,
    in_place: InPlace,
    /// When statuses were last written. A faster way only: a process that does not know writes at once.
    told: Mutex<BTreeMap<Key, Timestamp>>,
}

impl VcJobs {
    /// Makes the controller, with where the keys of the `ssh` plugin come from.
    pub fn new(keys: KeySource) -> Self {
        Self { keys, refusals: Refusals::default(), in_place: InPlace::default(), told: Mutex::default() }
    }
}

impl Controller for VcJobs {
    const NAME: &'static str = "vc-controller-manager";
    // Of many small jobs each takes a handful of requests one after the other.
    const CONCURRENCY: usize = 16;

    fn kinds(&self, kinds: &mut Kinds) {
        kinds.add::<Job>().add::<Pod>().add::<PodGroup>().add::<Command>().add::<Queue>();
        kinds.add::<PersistentVolumeClaim>().add::<PriorityClass>().add::<Namespace>().add::<JobFlow>();
        kinds
            .add_owned::<ConfigMap>(MANAGED_SELECTOR)
            .add_owned::<Secret>(MANAGED_SELECTOR)
            .add_owned::<Service>(MANAGED_SELECTOR)
            .add_owned::<NetworkPolicy>(MANAGED_SELECTOR);
    }

    fn affected(&self, change: &Change, caches: &Caches) -> Vec<Key> {
        if change.is::<Job>() {
            vec![change.key.clone()]
        } else if change.is::<Pod>() || change.is::<PodGroup>() {
            change.owners("Job")
        } else if change.is::<Command>() {
            let command = caches.get::<Command>(&change.key);
            command.and_then(|command| target_of(&command)).into_iter().collect()
        } else if change.is::<PersistentVolumeClaim>() {
            let jobs = caches.list::<Job>(Some(&change.key.namespace)).into_iter();
            let uses = |job: &Arc<Job>| volumes::claim_names(job).contains(&change.key.name);
            jobs.filter(uses).map(|job| Key::of(&*job)).collect()
        } else if is_object(change) {
            change.owners("Job")
        } else {
            Vec::new()
        }
    }

    async fn reconcile(&self, ctx: &Ctx, key: &Key) -> Result<Option<SignedDuration>, kube::Error> {
        let job = ctx.caches.get::<Job>(key);
        delete_orphaned_commands(ctx, key, job.as_deref()).await?;
        let Some(job) = job.filter(|job| job.metadata.deletion_timestamp.is_none()) else {
            self.refusals.forget(key);
            self.in_place.forget(key);
            self.told.lock().remove(key);
            return Ok(None);
        };
        let job = minimums::store(ctx, &job, &completed(ctx, &job)).await?;
        reconcile(self, ctx, &job).await
    }
}

impl StatusFirst for VcJobs {
    type Job = Job;
    type Status = JobStatus;
    type Plan = VcJobPlan;

    // A command, its effect, two changes of phase and a receipt take six.
    const ROUNDS_MAX: usize = 8;

    fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    fn complete(&self, ctx: &Ctx, job: &Job) -> Job {
        completed(ctx, job)
    }

    fn decide(&self, ctx: &Ctx, job: &Job, now: Timestamp) -> Step<JobStatus, VcJobPlan> {
        let key = Key::of(job);
        let refusal = self.refusals.of_job(&key);
        let told = self.told.lock().get(&key).copied();
        let versions = objects::versions(ctx, job);
        let in_place = versions.as_ref().and_then(|versions| self.in_place.fingerprint(job, versions));
        let has_lost_objects = versions.is_none();
        let seen = Observed { refusal, has_lost_objects, in_place, told, ..observe(ctx, job) };
        let step = decide::decide(&seen, now);
        if matches!(step, Step::Write { .. }) {
            self.told.lock().insert(key, now);
        }
        step
    }

    fn with_status(job: &Job, status: JobStatus) -> Job {
        Job { status: Some(status), ..job.clone() }
    }

    fn measure(before: &Job, after: &Job, metrics: &Metrics) {
        let told = |job: &Job| {
            let status = job.status.as_ref();
            status.map(|status| (status.state.phase == Some(JobPhase::Restarting), status.retry_count))
        };
        let ((was_restarting, old_count), (restarts, count)) =
            (told(before).unwrap_or_default(), told(after).unwrap_or_default());
        if (restarts && !was_restarting) || count > old_count {
            metrics.count(&JOB_RESTARTS, ["Job"]);
        }
    }

    async fn apply(&self, ctx: &Ctx, job: &Job, plan: &VcJobPlan) -> Result<Option<JobStatus>, kube::Error> {
        apply::apply(ctx, &self.keys, &self.in_place, job, plan).await
    }

    async fn rest(
        &self,
        ctx: &Ctx,
        job: &Job,
        plan: &VcJobPlan,
        now: Timestamp,
    ) -> Result<Option<SignedDuration>, kube::Error> {
        Ok(plan.look_again.into_iter().chain(expire(ctx, job, now).await?).min())
    }
}

/// Tells whether what plugins make has changed.
fn is_object(change: &Change) -> bool {
    change.is::<Owned<ConfigMap>>()
        || change.is::<Owned<Secret>>()
        || change.is::<Owned<Service>>()
        || change.is::<Owned<NetworkPolicy>>()
}

/// Returns a job with all defaults: where no admission fills them in, the controller does.
fn completed(ctx: &Ctx, job: &Job) -> Job {
    let mut job = job.clone();
    let memory = Memory::read(&job.status.clone().unwrap_or_default(), &job.spec);
    let least = job.spec.min_available;
    if memory.generation.is_some() {
        api_rules::job::default(&mut job, Stage::Create, memory.queue.as_deref());
        // Who says 0 later means it.
        job.spec.min_available = least;
    } else {
        let namespace = ctx.caches.get::<Namespace>(&Key::new("", job.namespace().unwrap_or_default()));
        let queue = namespace.as_ref().and_then(|namespace| namespace.annotations().get(names::GROUP_QUEUE));
        api_rules::job::default(&mut job, Stage::Create, queue.map(String::as_str));
    }
    job
}

/// Returns what is wrong with a job. What was accepted once stays accepted.
fn faults(ctx: &Ctx, job: &Job) -> Vec<String> {
    let memory = Memory::read(&job.status.clone().unwrap_or_default(), &job.spec);
    if memory.generation.is_some() {
        return Vec::new();
    }
    let queues: Queues = ctx.caches.list::<Queue>(None).iter().map(|queue| Queue::clone(queue)).collect();
    api_rules::job::validate(job, &queues).iter().map(ToString::to_string).collect()
}

/// Returns the job that a command is for.
fn target_of(command: &Command) -> Option<Key> {
    let target = command.target.as_ref()?;
    let is_job = target.kind == "Job" && target.api_version.starts_with("batch.volcano.sh/");
    is_job.then(|| Key::new(command.namespace().unwrap_or_default(), &target.name))
}

fn commands_for(ctx: &Ctx, key: &Key) -> Vec<Arc<Command>> {
    let mut commands = ctx.caches.list::<Command>(Some(&key.namespace));
    commands.retain(|command| target_of(command).as_ref() == Some(key));
    put_in_order(&mut commands);
    commands
}

/// Deletes commands for a job that is not there. The server is asked: the caches may be of different times.
async fn delete_orphaned_commands(ctx: &Ctx, key: &Key, job: Option<&Job>) -> Result<(), kube::Error> {
    let mut commands = commands_for(ctx, key);
    commands.retain(|command| job.is_none_or(|job| !is_for(command, job)));
    if commands.is_empty() {
        return Ok(());
    }
    let job = write::api::<Job>(ctx, &key.namespace).get_opt(&key.name).await?;
    commands.retain(|command| job.as_ref().is_none_or(|job| !is_for(command, job)));
    for command in commands {
        write::remove(ctx, &*command).await?;
    }
    Ok(())
}

fn observe<'a>(ctx: &Ctx, job: &'a Job) -> Observed<'a> {
    let key = Key::of(job);
    let uid = job.uid().unwrap_or_default();
    let namespace = key.namespace.clone();
    let claims = volumes::claim_names(job).into_iter();
    let is_there = |name: &String| ctx.caches.get::<PersistentVolumeClaim>(&Key::new(&namespace, name)).is_some();
    let classes = job.spec.tasks.iter().filter_map(|task| task.template.spec.as_ref()?.priority_class_name.clone());
    let value = |name: String| ctx.caches.get::<PriorityClass>(&Key::new("", &name)).map(|class| (name, class.value));
    let mut commands = commands_for(ctx, &key);
    commands.retain(|command| is_for(command, job));
    let queue = ctx.caches.get::<Queue>(&Key::new("", pod::queue(job)));
    Observed {
        job,
        members: ctx.caches.controlled_by::<Pod>(&uid).into_iter().map(Member::of_pod).collect(),
        group: ctx.caches.get(&Key::new(&namespace, names::pod_group(&key.name, &uid))),
        commands,
        claims: claims.filter(is_there).collect(),
        priorities: classes.chain([job.spec.priority_class_name.clone()]).filter_map(value).collect(),
        faults: faults(ctx, job),
        refusal: None,
        has_lost_objects: false,
        in_place: None,
        told: None,
        is_forwarded: queue.is_some_and(|queue| !queue.spec.extend_clusters.is_empty()),
    }
}

/// Deletes a job that ended long enough ago; returns how long it still has.
async fn expire(ctx: &Ctx, job: &Job, now: Timestamp) -> Result<Option<SignedDuration>, kube::Error> {
    let Some(left) = time_left(job, now) else { return Ok(None) };
    if left.is_positive() {
        return Ok(Some(left));
    }
    if is_awaited(ctx, job) {
        return Ok(Some(FLOW_PACE));
    }
    // A version later than the one that was looked at may live longer.
    let only = Preconditions { uid: job.uid(), resource_version: job.resource_version() };
    let params = DeleteParams { preconditions: Some(only), ..DeleteParams::foreground() };
    write::api::<Job>(ctx, &job.namespace().unwrap_or_default()).delete(&job.name_any(), &params).await?;
    Ok(None)
}

/// Tells whether the flow of a job has yet to write down how the job ended.
fn is_awaited(ctx: &Ctx, job: &Job) -> bool {
    let Some(owner) = controller_of(&job.metadata).filter(|owner| owner.kind == "JobFlow") else { return false };
    let flow = ctx.caches.get::<JobFlow>(&Key::new(job.namespace().unwrap_or_default(), &owner.name));
    flow.is_some_and(|flow| flow.uid().as_ref() == Some(&owner.uid) && flow.awaits_end(&job.name_any()))
}

/// Returns how long a job still has, if it has ended and is not to stay for ever.
fn time_left(job: &Job, now: Timestamp) -> Option<SignedDuration> {
    let seconds = job.spec.ttl_seconds_after_finished?;
    let state = &job.status.as_ref()?.state;
    let ended = state.last_transition_time.as_ref().filter(|_| state.phase.is_some_and(JobPhase::is_final))?;
    Some(ended.0.duration_since(now) + SignedDuration::from_secs(i64::from(seconds)))
}

/// Returns the phase of a job; one that nobody has looked at waits.
pub fn phase(job: &Job) -> JobPhase {
    job.status.as_ref().and_then(|status| status.state.phase).unwrap_or(JobPhase::Pending)
}
