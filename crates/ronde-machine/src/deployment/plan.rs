//! What a deployment does next with its replica sets.
//!
//! Pure: replica sets in, steps and status out; [`super`] carries them out. The rules are those of Kubernetes: one step
//! of a rollout at a time, a scaling of the deployment is shared by its replica sets and is no rollout.

use std::{fmt, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    apps::v1::{Deployment, DeploymentStatus, ReplicaSet},
    core::v1::Pod,
};
use kube::ResourceExt as _;
use ronde_runtime::pods::{controller_of, is_finished};

use super::{
    limits::{Limits, is_rolling, replicas},
    scale,
    status::{self, Reporter, actual_replicas, available_replicas},
    template::{self, DESIRED_REPLICAS, MAX_REPLICAS, REVISION},
};

/// A deployment and what belongs to it.
#[derive(Debug, Clone)]
pub struct Observed<'a> {
    pub deployment: &'a Deployment,
    pub sets: Vec<Arc<ReplicaSet>>,
    /// The pods of all of its replica sets.
    pub pods: Vec<Arc<Pod>>,
}

/// What is to be done, in this order; then the status is written.
#[derive(Debug, Clone, PartialEq)]
pub struct RolloutPlan {
    pub steps: Vec<RolloutStep>,
    pub status: DeploymentStatus,
    /// The revision that the deployment is at.
    pub revision: Option<String>,
    pub look_again: Option<SignedDuration>,
}

/// A write to a replica set.
#[derive(Debug, Clone, PartialEq)]
pub enum RolloutStep {
    Create(Box<ReplicaSet>),
    /// With the number of replicas before.
    Update(Box<ReplicaSet>, i32),
    Delete(Box<ReplicaSet>),
}

impl fmt::Display for RolloutStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(set) => write!(f, "create {} with {}", set.name_any(), replicas(set)),
            Self::Update(set, from) if *from == replicas(set) => write!(f, "annotate {}", set.name_any()),
            Self::Update(set, from) => write!(f, "scale {} from {from} to {}", set.name_any(), replicas(set)),
            Self::Delete(set) => write!(f, "delete {}", set.name_any()),
        }
    }
}

/// Decides what a deployment does next.
pub fn plan(observed: &Observed<'_>, now: Timestamp) -> RolloutPlan {
    let deployment = observed.deployment;
    let mut rollout = Rollout::new(observed, now);
    if deployment.metadata.deletion_timestamp.is_some() {
        return rollout.finish(Reporter::counts);
    }
    rollout.reporter.note_pause();
    rollout.sync_revision();
    if status::is_paused(deployment) {
        rollout.scale();
        rollout.forget_history();
        return rollout.finish(Reporter::counts);
    }
    if rollout.is_scaled() {
        rollout.scale();
        return rollout.finish(Reporter::counts);
    }
    if is_rolling(deployment) {
        rollout.roll();
    } else {
        rollout.recreate();
    }
    rollout.finish(Reporter::rollout)
}

/// A deployment while its plan is made: the replica sets are as they will be.
struct Rollout<'a> {
    observed: &'a Observed<'a>,
    deployment: &'a Deployment,
    limits: Limits,
    new: Option<ReplicaSet>,
    /// Oldest first.
    old: Vec<ReplicaSet>,
    deleted: Vec<RolloutStep>,
    reporter: Reporter<'a>,
    now: Timestamp,
}

impl<'a> Rollout<'a> {
    fn new(observed: &'a Observed<'a>, now: Timestamp) -> Self {
        let deployment = observed.deployment;
        let (new, old) = template::split(deployment, &observed.sets);
        let reporter = Reporter::new(deployment, now);
        let limits = Limits::of_deployment(deployment);
        Self { observed, deployment, limits, new, old, deleted: Vec::new(), reporter, now }
    }

    fn next_revision(&self) -> i64 {
        self.old.iter().map(template::revision).max().unwrap_or(0) + 1
    }

    /// Brings the replica set of the template up to date, if it is there.
    fn sync_revision(&mut self) {
        let revision = self.next_revision();
        let Some(new) = &mut self.new else { return };
        template::annotate(self.deployment, new, revision);
        let wanted = self.deployment.spec.as_ref().and_then(|spec| spec.min_ready_seconds);
        if let Some(spec) = &mut new.spec {
            spec.min_ready_seconds = wanted;
        }
        self.reporter.note_found(new);
    }

    /// Tells whether the deployment has been given another number of replicas since its sets were last scaled.
    fn is_scaled(&self) -> bool {
        let active = self.old.iter().chain(&self.new).filter(|set| replicas(set) > 0);
        let mut desired = active.filter_map(|set| template::annotated(set, DESIRED_REPLICAS));
        desired.any(|desired| desired != self.limits.replicas)
    }

    fn scale(&mut self) {
        let sizes = scale::sizes(self.deployment, self.new.as_ref(), &self.old);
        for set in self.old.iter_mut().chain(&mut self.new) {
            if let Some(size) = sizes.get(&set.name_any()) {
                resize(set, *size, self.limits);
            }
        }
    }

    /// One step of replacing old pods by new ones, bit by bit.
    fn roll(&mut self) {
        self.ensure_new();
        let total = self.total();
        let Some(new) = &mut self.new else { return };
        let wanted = if replicas(new) > self.limits.replicas {
            self.limits.replicas
        } else {
            let room = (self.limits.most() - total).max(0);
            (replicas(new) + room).min(self.limits.replicas)
        };
        let is_resized = resize(new, wanted, self.limits);
        if !is_resized && !self.shrink_old() {
            self.forget_history_if_complete();
        }
    }

    /// Takes pods from the old sets as far as enough others are available; tells whether it took some.
    fn shrink_old(&mut self) -> bool {
        let (total, least) = (self.total(), self.limits.least_available());
        let new_missing = self.new.as_ref().map_or(0, |new| replicas(new) - available_replicas(new));
        let room = total - least - new_missing;
        if room <= 0 {
            return false;
        }
        let taken = self.shrink_unhealthy(room);
        let available: i32 = self.old.iter().chain(&self.new).map(available_replicas).sum();
        let mut surplus = available - least;
        let mut is_shrunk = taken > 0;
        for set in &mut self.old {
            let take = replicas(set).min(surplus);
            if take > 0 {
                resize(set, replicas(set) - take, self.limits);
                surplus -= take;
                is_shrunk = true;
            }
        }
        is_shrunk
    }

    /// Old pods that are not available anyway go first: they would be in the way for ever.
    fn shrink_unhealthy(&mut self, room: i32) -> i32 {
        let mut taken = 0;
        for set in &mut self.old {
            let take = (replicas(set) - available_replicas(set)).min(room - taken);
            if take > 0 {
                resize(set, replicas(set) - take, self.limits);
                taken += take;
            }
        }
        taken
    }

    /// One step of replacing all old pods, then making new ones.
    fn recreate(&mut self) {
        let mut is_shrunk = false;
        for set in self.old.iter_mut().filter(|set| replicas(set) > 0) {
            is_shrunk |= resize(set, 0, self.limits);
        }
        if is_shrunk || self.has_old_pods() {
            return;
        }
        self.ensure_new();
        if let Some(new) = &mut self.new {
            resize(new, self.limits.replicas, self.limits);
        }
        self.forget_history_if_complete();
    }

    fn has_old_pods(&self) -> bool {
        let new_uid = self.new.as_ref().and_then(|new| new.metadata.uid.as_deref());
        let is_old = |pod: &&Arc<Pod>| controller_of(&pod.metadata).map(|owner| owner.uid.as_str()) != new_uid;
        self.old.iter().any(|set| actual_replicas(set) > 0)
            || self.observed.pods.iter().filter(is_old).any(|pod| !is_finished(pod))
    }

    /// Makes the replica set of the template, if it is not there.
    fn ensure_new(&mut self) {
        if self.new.is_some() {
            return;
        }
        let mut new = template::build(self.deployment);
        template::annotate(self.deployment, &mut new, self.next_revision());
        let room = if is_rolling(self.deployment) { self.limits.most() - self.total() } else { self.limits.replicas };
        resize(&mut new, room.clamp(0, self.limits.replicas), self.limits);
        self.reporter.note_created(&new);
        self.new = Some(new);
    }

    fn total(&self) -> i32 {
        self.old.iter().chain(&self.new).map(replicas).sum()
    }

    fn forget_history_if_complete(&mut self) {
        if self.deployment.status.as_ref().is_some_and(|status| status::is_complete(self.deployment, status)) {
            self.forget_history();
        }
    }

    /// Deletes old replica sets beyond those that are kept to go back to.
    fn forget_history(&mut self) {
        let limit = self.deployment.spec.as_ref().and_then(|spec| spec.revision_history_limit);
        let Some(limit) = limit.filter(|limit| *limit != i32::MAX) else { return };
        let mut sets: Vec<&ReplicaSet> =
            self.old.iter().filter(|set| set.metadata.deletion_timestamp.is_none()).collect();
        sets.sort_by_key(|set| template::revision(set));
        let surplus = sets.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
        let is_idle = |set: &&&ReplicaSet| {
            let observed = set.status.as_ref().and_then(|status| status.observed_generation);
            actual_replicas(set) == 0 && replicas(set) == 0 && observed >= set.metadata.generation
        };
        let doomed = sets.iter().take(surplus).filter(is_idle);
        self.deleted = doomed.map(|set| RolloutStep::Delete(Box::new(ReplicaSet::clone(set)))).collect();
    }

    fn finish(self, report: fn(Reporter<'a>, Option<&ReplicaSet>, &[ReplicaSet]) -> DeploymentStatus) -> RolloutPlan {
        // New pods first: if they cannot be had, the old ones stay.
        let mut steps: Vec<RolloutStep> = self.new.iter().chain(&self.old).filter_map(|set| self.step(set)).collect();
        steps.extend(self.deleted);
        let status = report(self.reporter, self.new.as_ref(), &self.old);
        let look_again = status::look_again(self.deployment, &status, self.now);
        let revision = self.new.as_ref().and_then(|new| new.annotations().get(REVISION).cloned());
        RolloutPlan { steps, status, revision, look_again }
    }

    /// Returns the write that makes a set what it has become.
    fn step(&self, set: &ReplicaSet) -> Option<RolloutStep> {
        let before = self.observed.sets.iter().find(|before| before.metadata.uid == set.metadata.uid);
        match before {
            None => Some(RolloutStep::Create(Box::new(set.clone()))),
            Some(before) if **before == *set => None,
            Some(before) => Some(RolloutStep::Update(Box::new(set.clone()), replicas(before))),
        }
    }
}

/// Gives a set a number of replicas, and notes for what size of the deployment; tells whether the number is another.
fn resize(set: &mut ReplicaSet, size: i32, limits: Limits) -> bool {
    let before = replicas(set);
    let annotations = set.annotations_mut();
    annotations.insert(DESIRED_REPLICAS.to_owned(), limits.replicas.to_string());
    annotations.insert(MAX_REPLICAS.to_owned(), limits.most().to_string());
    set.spec.get_or_insert_default().replicas = Some(size);
    before != size
}
