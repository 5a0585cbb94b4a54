//! What a stateful set does next with its pods and claims, and what its status says.
//!
//! Pure; called by the controller in [`super`]. Ordered sets do one thing at a time and wait for each pod to be
//! available; parallel ones do all at once, except updates. Failed pods are deleted, and made again when they are gone.

use std::{collections::BTreeMap, fmt, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    apps::v1::{StatefulSet, StatefulSetSpec, StatefulSetStatus},
    core::v1::{PersistentVolumeClaim, Pod, PodTemplateSpec},
};
use kube::ResourceExt as _;
use ronde_runtime::pods::{count, is_available, is_deleted, is_finished, is_ready, next_available_in, phase};

use super::{
    claims,
    pod::{self, ordinal, ordinals, templates},
};

/// A revision of the template of a set.
#[derive(Debug, Clone, PartialEq)]
pub struct Revision {
    pub name: String,
    pub template: PodTemplateSpec,
}

/// A set and what belongs to it.
#[derive(Debug, Clone)]
pub struct Observed<'a> {
    pub set: &'a StatefulSet,
    pub spec: &'a StatefulSetSpec,
    pub pods: Vec<Arc<Pod>>,
    /// The claims of the namespace, by name.
    pub claims: BTreeMap<String, Arc<PersistentVolumeClaim>>,
    /// What the pods were made from before the current update.
    pub current: Revision,
    /// What they are to be made from.
    pub update: Revision,
    pub collisions: i32,
}

/// One write.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Of the named pod.
    CreateClaim(Box<PersistentVolumeClaim>, String),
    UpdateClaim(Box<PersistentVolumeClaim>),
    CreatePod(Box<Pod>),
    UpdatePod(Box<Pod>),
    DeletePod(Arc<Pod>),
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreateClaim(claim, _) => write!(f, "create claim {}", claim.name_any()),
            Self::UpdateClaim(claim) => write!(f, "update claim {}", claim.name_any()),
            Self::CreatePod(pod) => write!(f, "create {} at {}", pod.name_any(), pod::revision(pod)),
            Self::UpdatePod(pod) => write!(f, "update {}", pod.name_any()),
            Self::DeletePod(pod) => write!(f, "delete {}", pod.name_any()),
        }
    }
}

/// Whether what comes after a pod may be done in the same go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Continue,
    Wait,
}

/// Decides what a set does next.
pub fn plan(observed: &Observed<'_>, now: Timestamp) -> Vec<Action> {
    if observed.set.metadata.deletion_timestamp.is_some() {
        return Vec::new();
    }
    let mut planner = Planner::new(observed, now);
    let next = planner.keep_replicas();
    let next = if next == Next::Continue { planner.remove_condemned() } else { next };
    if next == Next::Continue {
        planner.update();
    }
    planner.actions
}

/// Returns the status of a set.
pub fn status(observed: &Observed<'_>, now: Timestamp) -> StatefulSetStatus {
    let Observed { set, spec, current, update, .. } = observed;
    let number = |test: &dyn Fn(&Pod) -> bool| count(observed.pods.iter().filter(|pod| test(pod)).count());
    let is_at = |pod: &Pod, revision: &str| !is_deleted(pod) && pod::revision(pod) == revision;
    let mut status = StatefulSetStatus {
        observed_generation: set.metadata.generation,
        replicas: i32::try_from(observed.pods.len()).unwrap_or(i32::MAX),
        ready_replicas: number(&is_running_and_ready),
        available_replicas: number(&|pod| is_available(pod, min_ready_seconds(spec), now)).or(Some(0)),
        current_replicas: number(&|pod| is_at(pod, &current.name)),
        updated_replicas: number(&|pod| is_at(pod, &update.name)),
        current_revision: Some(current.name.clone()),
        update_revision: Some(update.name.clone()),
        collision_count: Some(observed.collisions),
        conditions: set.status.as_ref().and_then(|status| status.conditions.clone()),
    };
    let wanted = spec.replicas.unwrap_or(1);
    let is_wanted = |number: Option<i32>| number.unwrap_or(0) == wanted;
    let is_updated =
        is_wanted(status.updated_replicas) && is_wanted(status.ready_replicas) && status.replicas == wanted;
    if is_rolling(spec) && is_updated {
        status.current_replicas = status.updated_replicas;
        status.current_revision = status.update_revision.clone();
    }
    status
}

/// Returns when a pod becomes available only because time passes.
pub fn look_again(observed: &Observed<'_>, now: Timestamp) -> Option<SignedDuration> {
    next_available_in(observed.pods.iter().map(AsRef::as_ref), min_ready_seconds(observed.spec), now)
}

struct Planner<'a> {
    observed: &'a Observed<'a>,
    now: Timestamp,
    is_ordered: bool,
    /// The pods that the set wants, by ordinal.
    replicas: Vec<(i32, Option<Arc<Pod>>)>,
    /// The pods that it does not, largest ordinal first.
    condemned: Vec<Arc<Pod>>,
    actions: Vec<Action>,
}

impl<'a> Planner<'a> {
    fn new(observed: &'a Observed<'a>, now: Timestamp) -> Self {
        let wanted = ordinals(observed.spec);
        let mut pods: BTreeMap<i32, Arc<Pod>> = BTreeMap::new();
        for pod in &observed.pods {
            if let Some(ordinal) = ordinal(observed.set, &pod.name_any()) {
                pods.insert(ordinal, pod.clone());
            }
        }
        let replicas = wanted.clone().map(|ordinal| (ordinal, pods.remove(&ordinal))).collect();
        let condemned = pods.into_values().rev().collect();
        let is_ordered = observed.spec.pod_management_policy.as_deref() != Some("Parallel");
        Self { observed, now, is_ordered, replicas, condemned, actions: Vec::new() }
    }

    fn keep_replicas(&mut self) -> Next {
        for (ordinal, pod) in self.replicas.clone() {
            let next = match pod {
                None => self.create(ordinal),
                Some(pod) => self.keep(ordinal, &pod),
            };
            if next == Next::Wait && self.is_ordered {
                return Next::Wait;
            }
        }
        Next::Continue
    }

    fn create(&mut self, ordinal: i32) -> Next {
        let set = self.observed.set;
        let name = pod::name(set, ordinal);
        let is_in_the_way = |claim: &Arc<PersistentVolumeClaim>| {
            claim.metadata.deletion_timestamp.is_some() || claims::is_stale(set, claim, &name)
        };
        let mut claims = templates(set).filter_map(|template| self.claim(template, ordinal));
        if !claims.any(|claim| is_in_the_way(&claim)) {
            self.create_claims(ordinal);
            let Revision { name, template } = self.revision_for(ordinal);
            self.actions.push(Action::CreatePod(Box::new(pod::build(set, ordinal, template, name))));
        }
        Next::Wait
    }

    fn keep(&mut self, ordinal: i32, pod: &Arc<Pod>) -> Next {
        if is_finished(pod) {
            if !is_deleted(pod) {
                self.actions.push(Action::DeletePod(pod.clone()));
            }
            return Next::Wait;
        }
        if phase(pod) == "Pending" {
            self.create_claims(ordinal);
        }
        if self.is_ordered && self.is_unavailable(pod) {
            return Next::Wait;
        }
        self.correct_claims(ordinal, pod);
        if !pod::is_identified(pod) {
            let mut pod = Pod::clone(pod);
            pod::identify(&mut pod, ordinal);
            self.actions.push(Action::UpdatePod(Box::new(pod)));
        }
        Next::Continue
    }

    fn remove_condemned(&mut self) -> Next {
        for pod in self.condemned.clone() {
            if let Some(ordinal) = ordinal(self.observed.set, &pod.name_any()) {
                self.correct_claims(ordinal, &pod);
            }
        }
        // A pod that is not well is waited for, unless all before it are.
        let first_unavailable = self.condemned.iter().rev().find(|pod| self.is_unavailable(pod)).cloned();
        for pod in self.condemned.clone() {
            let is_first = first_unavailable.as_ref().is_some_and(|first| Arc::ptr_eq(first, &pod));
            let is_healthy =
                is_running_and_ready(&pod) && is_available(&pod, min_ready_seconds(self.observed.spec), self.now);
            if !is_deleted(&pod) && (!self.is_ordered || is_healthy || is_first) {
                self.actions.push(Action::DeletePod(pod));
            }
            if self.is_ordered {
                return Next::Wait;
            }
        }
        Next::Continue
    }

    /// Deletes the pod with the largest ordinal that is not of the update, if all after it are well.
    fn update(&mut self) {
        if !is_rolling(self.observed.spec) {
            return;
        }
        let partition = usize::try_from(partition(self.observed.spec).unwrap_or(0)).unwrap_or(0);
        let targets: Vec<_> = self.replicas.iter().skip(partition).rev().map(|(_, pod)| pod.clone()).collect();
        for pod in targets {
            let Some(pod) = pod else { return };
            if pod::revision(&pod) != self.observed.update.name && !is_deleted(&pod) {
                self.actions.push(Action::DeletePod(pod));
                return;
            }
            if self.is_unavailable(&pod) {
                return;
            }
        }
    }

    fn is_unavailable(&self, pod: &Pod) -> bool {
        let is_available = is_available(pod, min_ready_seconds(self.observed.spec), self.now);
        is_deleted(pod) || !is_running_and_ready(pod) || !is_available
    }

    /// Pods below the partition stay what they were.
    fn revision_for(&self, ordinal: i32) -> &'a Revision {
        let Observed { set, spec, current, update, .. } = self.observed;
        let kept = partition(spec).or_else(|| set.status.as_ref().and_then(|status| status.current_replicas));
        let is_kept = ordinal < ordinals(spec).start.saturating_add(kept.unwrap_or(0));
        if is_rolling(spec) && is_kept { current } else { update }
    }

    fn claim(&self, template: &PersistentVolumeClaim, ordinal: i32) -> Option<Arc<PersistentVolumeClaim>> {
        self.observed.claims.get(&claims::name(self.observed.set, template, ordinal)).cloned()
    }

    fn create_claims(&mut self, ordinal: i32) {
        let set = self.observed.set;
        for template in templates(set) {
            if self.claim(template, ordinal).is_none() {
                let claim = Box::new(claims::build(set, template, ordinal));
                self.actions.push(Action::CreateClaim(claim, pod::name(set, ordinal)));
            }
        }
    }

    fn correct_claims(&mut self, ordinal: i32, pod: &Pod) {
        let set = self.observed.set;
        for template in templates(set) {
            let claim = self.claim(template, ordinal);
            if let Some(corrected) = claim.and_then(|claim| claims::corrected(set, pod, &claim)) {
                self.actions.push(Action::UpdateClaim(Box::new(corrected)));
            }
        }
    }
}

fn is_running_and_ready(pod: &Pod) -> bool {
    phase(pod) == "Running" && is_ready(pod)
}

fn is_rolling(spec: &StatefulSetSpec) -> bool {
    let strategy = spec.update_strategy.as_ref().and_then(|strategy| strategy.type_.as_deref());
    strategy != Some("OnDelete")
}

fn partition(spec: &StatefulSetSpec) -> Option<i32> {
    let rolling = spec.update_strategy.as_ref()?.rolling_update.as_ref()?;
    Some(rolling.partition.unwrap_or(0))
}

fn min_ready_seconds(spec: &StatefulSetSpec) -> i32 {
    spec.min_ready_seconds.unwrap_or(0)
}
