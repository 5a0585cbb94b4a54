//! What is to be done for a training job whose status says all there is to say.
//!
//! Pure. Everything here follows from what is stored: whoever looks again after a `kill -9` comes to the same plan, less
//! what is done already.

use std::{collections::BTreeSet, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use ronde_api::{
    AttachMode, CleanPodPolicy, PodGroup, ScalingWay, TrainingJobPhase as Phase, TrainingJobStatus,
    names::elastic as names,
};
use ronde_runtime::pods::{hash, state::PodState};

use super::{
    files::Files,
    group,
    losses::has_left,
    objects::needed,
    observed::{Member, Observed},
    scaler_status::{self, ScalerUpdate},
    scaling::{leaves, moving},
    status_builder::is_live,
};
use crate::reconcile::GroupChange;

/// How long workers that are asked to leave a node that is shutting down have for it.
const LEAVE_MAX: SignedDuration = SignedDuration::from_mins(2);
/// How long workers without an agent have, at most: nobody can tell when they have left.
const LEAVE_SSH: SignedDuration = SignedDuration::from_secs(30);
/// The grace of pods that nobody waits for: what they run is over.
const QUICK_SECONDS: u32 = 1;

/// What is to be done.
#[derive(Debug, Clone, Default)]
pub struct TrainingJobPlan {
    /// The launcher, if it is kept and its job knows how it ended.
    pub release: Option<Arc<Pod>>,
    pub kill: Vec<Kill>,
    pub group: GroupChange,
    /// The files of the host list and the workers that need a service; none if they are as they should be.
    pub objects: Option<Objects>,
    pub create: Create,
    /// What `replicas` is to be, if it is not what the job has.
    pub replicas: Option<i32>,
    /// The launcher, if its note of the host list is to change, and the note.
    pub note: Option<(Arc<Pod>, String)>,
    pub scalers: Vec<ScalerUpdate>,
    /// When to look again even if nothing changes.
    pub look_again: Option<SignedDuration>,
}

/// A pod that is to go.
#[derive(Debug, Clone)]
pub struct Kill {
    pub pod: Arc<Pod>,
    /// Seconds; its own if none.
    pub grace: Option<u32>,
}

/// The pods that are to be made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Create {
    pub launcher: bool,
    pub workers: Vec<String>,
}

/// The objects beside pods and group, as they should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Objects {
    pub files: Files,
    /// The names of workers.
    pub services: BTreeSet<String>,
    pub fingerprint: String,
}

/// Plans for a job.
pub fn plan(seen: &Observed<'_>, status: &TrainingJobStatus, now: Timestamp) -> TrainingJobPlan {
    let phase = status.phase.unwrap_or(Phase::Created);
    let mut plan = TrainingJobPlan { scalers: scaler_status::all(seen, status, now), ..TrainingJobPlan::default() };
    if !seen.faults.is_empty() {
        return plan;
    }
    plan.release = seen.launcher.as_ref().filter(|it| is_known(status, it)).map(|it| it.pod.clone());
    for member in seen.launcher.iter().chain(seen.workers.values()) {
        match fate(seen, status, member, now) {
            _ if member.is_deleted() => {}
            Fate::Stays => {}
            Fate::Leaves(left) => plan.look_again = plan.look_again.into_iter().chain([left]).min(),
            Fate::Goes(grace) => plan.kill.push(Kill { pod: member.pod.clone(), grace }),
        }
    }
    plan.group = group_plan(seen, status);
    plan.objects = objects(seen, status);
    // Who has asked for something else meanwhile is heard first.
    plan.replicas =
        status.elastic.replicas_due.filter(|due| *due != seen.worker_spec().replicas() && !phase.is_final());
    if is_live(phase) {
        plan.create = missing(seen, status);
        plan.note = note(seen, status);
    }
    plan
}

/// Tells whether the status says all there is to say about a launcher that is kept for it: the job has ended with it, or
/// was stopped, or has begun anew; or somebody deleted it while it ran.
fn is_known(status: &TrainingJobStatus, launcher: &Member) -> bool {
    let goes_on = launcher.run == status.elastic.run && is_live(status.phase.unwrap_or(Phase::Created));
    launcher.is_tracked() && (!goes_on || launcher.is_deleted())
}

/// What becomes of a pod.
enum Fate {
    Stays,
    /// It has so long to leave by itself.
    Leaves(SignedDuration),
    Goes(Option<u32>),
}

fn fate(seen: &Observed<'_>, status: &TrainingJobStatus, member: &Member, now: Timestamp) -> Fate {
    let memory = &status.elastic;
    let is_launcher = seen.launcher.as_ref().is_some_and(|launcher| launcher.name == member.name);
    if memory.run != member.run {
        return Fate::Goes(if is_launcher { None } else { Some(QUICK_SECONDS) });
    }
    match status.phase.unwrap_or(Phase::Created) {
        Phase::Suspended => Fate::Goes(if is_launcher { None } else { Some(QUICK_SECONDS) }),
        Phase::Succeeded | Phase::Failed => clean(seen, member, is_launcher),
        _ if is_launcher => Fate::Stays,
        _ => worker_fate(seen, status, member, now),
    }
}

/// A launcher that has ended stays, for its output.
fn clean(seen: &Observed<'_>, member: &Member, is_launcher: bool) -> Fate {
    let goes = match seen.spec().clean_pod_policy() {
        _ if is_launcher => !member.is_finished(),
        CleanPodPolicy::All => true,
        CleanPodPolicy::Running => !member.is_finished(),
        CleanPodPolicy::None => false,
    };
    if goes { Fate::Goes(Some(QUICK_SECONDS)) } else { Fate::Stays }
}

fn worker_fate(seen: &Observed<'_>, status: &TrainingJobStatus, member: &Member, now: Timestamp) -> Fate {
    let memory = &status.elastic;
    let since = if leaves(memory, &member.name) {
        memory.scaling.as_ref().map(|scaling| (scaling.since.0, Leave::Within(seconds(scaling.timeout))))
    } else {
        let leaving = memory.leaving.iter().find(|leaving| leaving.name == member.name);
        leaving.map(|leaving| (leaving.since.0, Leave::AtMost(LEAVE_MAX)))
    };
    if let Some((since, time)) = since {
        return leave(seen, member, since.duration_since(now), time);
    }
    let is_wanted =
        status.target_workers.contains(&member.name) || moving(memory, ScalingWay::Out).contains(&member.name);
    // What has failed stays, for its output, until the job ends.
    if is_wanted || member.state == PodState::Failed { Fate::Stays } else { Fate::Goes(Some(QUICK_SECONDS)) }
}

/// The time that a worker has to leave.
#[derive(Clone, Copy)]
enum Leave {
    /// Then it is ended.
    AtMost(SignedDuration),
    /// Then nobody waits for it any more.
    Within(SignedDuration),
}

fn seconds(number: i32) -> SignedDuration {
    SignedDuration::from_secs(number.into())
}

/// A worker with an agent ends by itself when its ranks have left; without one it gets a time, of which enough is left to be
/// gone before nobody waits any more. What runs there as the first process ignores polite signals.
fn leave(seen: &Observed<'_>, member: &Member, since: SignedDuration, time: Leave) -> Fate {
    if has_left(member) {
        return Fate::Goes(Some(QUICK_SECONDS));
    }
    let is_ssh = seen.spec().attach_mode() == AttachMode::Ssh;
    let (most, grace) = match time {
        Leave::AtMost(most) if is_ssh => (most.min(LEAVE_SSH), Some(QUICK_SECONDS)),
        Leave::Within(most) if is_ssh => ((most / 2).min(LEAVE_SSH), Some(QUICK_SECONDS)),
        Leave::AtMost(most) => (most, None),
        Leave::Within(_) => return Fate::Stays,
    };
    let left = since + most;
    if left.is_positive() { Fate::Leaves(left) } else { Fate::Goes(grace) }
}

fn group_plan(seen: &Observed<'_>, status: &TrainingJobStatus) -> GroupChange {
    let phase = status.phase.unwrap_or(Phase::Created);
    let is_kept = seen.spec().clean_pod_policy() == CleanPodPolicy::None && phase.is_final();
    match &seen.group {
        Some(group) if group.metadata.deletion_timestamp.is_some() => GroupChange::Leave,
        Some(group) if !is_live(phase) && !is_kept => GroupChange::Delete(group.clone()),
        Some(group) if is_live(phase) => {
            let spec = group::spec(seen.job);
            let changed = || PodGroup { spec: spec.clone(), ..PodGroup::clone(group) };
            if group.spec == spec { GroupChange::Leave } else { GroupChange::Replace(Box::new(changed())) }
        }
        None if is_live(phase) && seen.is_gang() => GroupChange::Create(Box::new(group::build(seen.job))),
        _ => GroupChange::Leave,
    }
}

/// Every worker that is there or to come has a service, until it is gone.
pub fn objects(seen: &Observed<'_>, status: &TrainingJobStatus) -> Option<Objects> {
    let memory = &status.elastic;
    let phase = status.phase.unwrap_or(Phase::Created);
    let is_kept = seen.spec().clean_pod_policy() == CleanPodPolicy::None && phase.is_final();
    let mut services: BTreeSet<String> = status.target_workers.iter().cloned().collect();
    services.extend(moving(memory, ScalingWay::Out).iter().cloned());
    services.extend(memory.leaving.iter().map(|leaving| leaving.name.clone()));
    if !is_live(phase) && !is_kept {
        services.clear();
    }
    let files = Files::of_hosts(seen.job, &status.current_workers);
    let fingerprint = hash::name(&(&files.hostfile, &services), None);
    let is_lost = |there: &BTreeSet<String>| !needed(&seen.name(), &services).is_subset(there);
    let has_lost = is_live(phase) && seen.objects.as_ref().is_some_and(is_lost);
    (fingerprint != memory.applied || has_lost).then_some(Objects { files, services, fingerprint })
}

/// Pods whose names are free and whose queue has let the job in. No worker is made on its own account before the objects
/// that it mounts: see [`super::apply`].
fn missing(seen: &Observed<'_>, status: &TrainingJobStatus) -> Create {
    if !seen.is_admitted() {
        return Create::default();
    }
    let workers = status.target_workers.iter().chain(moving(&status.elastic, ScalingWay::Out));
    let is_free = |name: &&String| !seen.workers.contains_key(*name) && !leaves(&status.elastic, name);
    Create { launcher: seen.launcher.is_none(), workers: workers.filter(is_free).cloned().collect() }
}

/// A kubelet looks at the volumes of a pod when the pod changes; without this it would take a minute.
fn note(seen: &Observed<'_>, status: &TrainingJobStatus) -> Option<(Arc<Pod>, String)> {
    let launcher = seen.launcher(&status.elastic).filter(|launcher| !launcher.is_deleted())?;
    let note = Files::of_hosts(seen.job, &status.current_workers).digest();
    let is_known = launcher.pod.annotations().get(names::HOSTS) == Some(&note);
    (!is_known).then(|| (launcher.pod.clone(), note))
}
