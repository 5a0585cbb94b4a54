//! What a deployment says of itself: counts, and the conditions that `kubectl rollout status` waits for.
//!
//! Pure. Progress is measured between the status before and the one now; the time since the last progress is in the
//! condition, so that a deadline outlives the controller.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet};
use kube::ResourceExt as _;
use ronde_runtime::pods::{self, count};

use super::limits::{Limits, replicas};

pub const AVAILABLE: &str = "Available";
pub const PROGRESSING: &str = "Progressing";
/// The condition of a set that cannot make or delete its pods, which its deployment repeats.
const REPLICA_FAILURE: &str = "ReplicaFailure";
/// The reasons of the condition `Progressing`.
pub mod reason {
    pub const CREATED: &str = "NewReplicaSetCreated";
    pub const CREATE_ERROR: &str = "ReplicaSetCreateError";
    pub const FOUND: &str = "FoundNewReplicaSet";
    pub const UPDATED: &str = "ReplicaSetUpdated";
    pub const COMPLETE: &str = "NewReplicaSetAvailable";
    pub const TIMED_OUT: &str = "ProgressDeadlineExceeded";
    pub const PAUSED: &str = "DeploymentPaused";
    pub const RESUMED: &str = "DeploymentResumed";
}

/// Makes the status of a deployment.
#[derive(Debug)]
pub struct Reporter<'a> {
    deployment: &'a Deployment,
    now: Timestamp,
    conditions: Vec<DeploymentCondition>,
}

impl<'a> Reporter<'a> {
    pub fn new(deployment: &'a Deployment, now: Timestamp) -> Self {
        let conditions = deployment.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
        Self { deployment, now, conditions }
    }

    /// Notes that a deployment pauses or goes on: the time in between does not count as a lack of progress.
    pub fn note_pause(&mut self) {
        let was = self.condition(PROGRESSING).and_then(|condition| condition.reason.as_deref());
        let was_paused = was == Some(reason::PAUSED);
        if self.deadline().is_none() || was == Some(reason::TIMED_OUT) {
            return;
        }
        match (is_paused(self.deployment), was_paused) {
            (true, false) => self.progressing("Unknown", reason::PAUSED, "Deployment is paused".to_owned()),
            (false, true) => self.progressing("Unknown", reason::RESUMED, "Deployment is resumed".to_owned()),
            _ => {}
        }
    }

    /// Notes that the replica set of the template has been made.
    pub fn note_created(&mut self, set: &ReplicaSet) {
        if self.deadline().is_some() {
            self.progressing("True", reason::CREATED, format!("Created new replica set {:?}", set.name_any()));
        }
    }

    /// Notes that the replica set of the template was there, unless something is known of its progress already.
    pub fn note_found(&mut self, set: &ReplicaSet) {
        if self.deadline().is_some() && self.condition(PROGRESSING).is_none() {
            self.progressing("True", reason::FOUND, format!("Found new replica set {:?}", set.name_any()));
        }
    }

    /// Notes that the replica set of the template cannot be made.
    pub fn note_create_error(&mut self, message: &str) {
        if self.deadline().is_some() {
            self.progressing("False", reason::CREATE_ERROR, message.to_owned());
        }
    }

    /// Returns the status without judging the progress.
    pub fn counts(mut self, new: Option<&ReplicaSet>, old: &[ReplicaSet]) -> DeploymentStatus {
        let mut status = self.count(new, old);
        status.conditions = (!self.conditions.is_empty()).then_some(self.conditions);
        status
    }

    /// Returns the status of a rollout.
    pub fn rollout(mut self, new: Option<&ReplicaSet>, old: &[ReplicaSet]) -> DeploymentStatus {
        let mut status = self.count(new, old);
        let current = self.condition(PROGRESSING).cloned();
        let was_complete = status.replicas == status.updated_replicas
            && current.as_ref().and_then(|condition| condition.reason.as_deref()) == Some(reason::COMPLETE);
        match self.deadline() {
            None => self.conditions.retain(|condition| condition.type_ != PROGRESSING),
            Some(deadline) if !was_complete => self.judge(&status, current.as_ref(), deadline, new),
            Some(_) => {}
        }
        self.repeat_failure(new, old);
        status.conditions = (!self.conditions.is_empty()).then_some(self.conditions);
        status
    }

    fn judge(
        &mut self,
        status: &DeploymentStatus,
        current: Option<&DeploymentCondition>,
        deadline: SignedDuration,
        new: Option<&ReplicaSet>,
    ) {
        let what = match new {
            Some(set) => format!("ReplicaSet {:?}", set.name_any()),
            None => format!("Deployment {:?}", self.deployment.name_any()),
        };
        if is_complete(self.deployment, status) {
            self.progressing("True", reason::COMPLETE, format!("{what} has successfully progressed."));
        } else if has_progressed(self.deployment.status.as_ref(), status) {
            // The time of the last progress moves even if nothing else does.
            self.conditions.retain(|condition| condition.type_ != PROGRESSING);
            self.progressing("True", reason::UPDATED, format!("{what} is progressing."));
            if let (Some(current), Some(last)) = (current, self.conditions.last_mut())
                && current.status == "True"
            {
                last.last_transition_time.clone_from(&current.last_transition_time);
            }
        } else if current.is_some_and(|current| has_timed_out(current, deadline, self.now)) {
            self.progressing("False", reason::TIMED_OUT, format!("{what} has timed out progressing."));
        }
    }

    fn count(&mut self, new: Option<&ReplicaSet>, old: &[ReplicaSet]) -> DeploymentStatus {
        let sets = || old.iter().chain(new);
        let sum = |field: &dyn Fn(&ReplicaSet) -> i32| sets().map(field).sum::<i32>();
        let available = sum(&available_replicas);
        let limits = Limits::of_deployment(self.deployment);
        if available >= limits.least_available() {
            let text = "Deployment has minimum availability.";
            self.set(AVAILABLE, "True", "MinimumReplicasAvailable", text.to_owned());
        } else {
            let text = "Deployment does not have minimum availability.";
            self.set(AVAILABLE, "False", "MinimumReplicasUnavailable", text.to_owned());
        }
        DeploymentStatus {
            observed_generation: self.deployment.metadata.generation,
            replicas: shown(sum(&actual_replicas)),
            updated_replicas: shown(new.map_or(0, actual_replicas)),
            ready_replicas: shown(sum(&|set| {
                set.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0)
            })),
            available_replicas: shown(available),
            unavailable_replicas: shown(sum(&replicas) - available),
            collision_count: self.deployment.status.as_ref().and_then(|status| status.collision_count),
            terminating_replicas: None,
            conditions: None,
        }
    }

    /// A replica set that cannot make its pods makes the deployment say so.
    fn repeat_failure(&mut self, new: Option<&ReplicaSet>, old: &[ReplicaSet]) {
        let conditions = new.into_iter().chain(old).filter_map(|set| set.status.as_ref()?.conditions.as_ref());
        let Some(failure) = conditions.flatten().find(|condition| condition.type_ == REPLICA_FAILURE) else {
            self.conditions.retain(|condition| condition.type_ != REPLICA_FAILURE);
            return;
        };
        self.put(DeploymentCondition {
            type_: failure.type_.clone(),
            status: failure.status.clone(),
            reason: failure.reason.clone(),
            message: failure.message.clone(),
            last_transition_time: failure.last_transition_time.clone(),
            last_update_time: failure.last_transition_time.clone(),
        });
    }

    fn deadline(&self) -> Option<SignedDuration> {
        deadline(self.deployment)
    }

    fn condition(&self, kind: &str) -> Option<&DeploymentCondition> {
        self.conditions.iter().find(|condition| condition.type_ == kind)
    }

    fn progressing(&mut self, status: &str, reason: &str, message: String) {
        self.set(PROGRESSING, status, reason, message);
    }

    fn set(&mut self, kind: &str, status: &str, reason: &str, message: String) {
        self.put(DeploymentCondition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message),
            last_transition_time: Some(pods::time(self.now)),
            last_update_time: Some(pods::time(self.now)),
        });
    }

    /// A condition that says the same keeps its times; one that says it for another reason, that of its transition.
    fn put(&mut self, mut condition: DeploymentCondition) {
        if let Some(current) = self.condition(&condition.type_).filter(|current| current.status == condition.status) {
            if current.reason == condition.reason {
                return;
            }
            condition.last_transition_time = current.last_transition_time.clone();
        }
        self.conditions.retain(|other| other.type_ != condition.type_);
        self.conditions.push(condition);
    }
}

/// Tells whether all replicas are of the current template, and available, and there are no others.
pub fn is_complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let wanted = Limits::of_deployment(deployment).replicas;
    let is_wanted = |number: Option<i32>| number.unwrap_or(0) == wanted;
    is_wanted(status.updated_replicas)
        && is_wanted(status.replicas)
        && is_wanted(status.available_replicas)
        && status.observed_generation >= deployment.metadata.generation
}

/// Returns when the progress has to be looked at again, though nothing changes.
pub fn look_again(deployment: &Deployment, status: &DeploymentStatus, now: Timestamp) -> Option<SignedDuration> {
    let deadline = deadline(deployment)?;
    let condition = status.conditions.iter().flatten().find(|condition| condition.type_ == PROGRESSING)?;
    let is_over = matches!(condition.reason.as_deref(), Some(reason::TIMED_OUT | reason::COMPLETE));
    if is_over || is_paused(deployment) || is_complete(deployment, status) {
        return None;
    }
    let left = condition.last_update_time.as_ref()?.0.duration_since(now) + deadline;
    // Times are in whole seconds.
    Some(left.max(SignedDuration::ZERO) + SignedDuration::from_secs(1))
}

/// Tells whether a deployment is not to be rolled out.
pub fn is_paused(deployment: &Deployment) -> bool {
    deployment.spec.as_ref().and_then(|spec| spec.paused).unwrap_or(false)
}

/// Returns how many pods a set has.
pub fn actual_replicas(set: &ReplicaSet) -> i32 {
    set.status.as_ref().map_or(0, |status| status.replicas)
}

/// Returns how many pods of a set are available.
pub fn available_replicas(set: &ReplicaSet) -> i32 {
    set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0)
}

fn deadline(deployment: &Deployment) -> Option<SignedDuration> {
    let seconds = deployment.spec.as_ref()?.progress_deadline_seconds?;
    (seconds != i32::MAX).then(|| SignedDuration::from_secs(i64::from(seconds)))
}

fn has_progressed(before: Option<&DeploymentStatus>, now: &DeploymentStatus) -> bool {
    let none = DeploymentStatus::default();
    let before = before.unwrap_or(&none);
    let number = |field: Option<i32>| field.unwrap_or(0);
    let old_pods = |status: &DeploymentStatus| number(status.replicas) - number(status.updated_replicas);
    number(now.updated_replicas) > number(before.updated_replicas)
        || old_pods(now) < old_pods(before)
        || number(now.ready_replicas) > number(before.ready_replicas)
        || number(now.available_replicas) > number(before.available_replicas)
}

fn has_timed_out(condition: &DeploymentCondition, deadline: SignedDuration, now: Timestamp) -> bool {
    match condition.reason.as_deref() {
        Some(reason::COMPLETE) => false,
        Some(reason::TIMED_OUT) => true,
        _ => condition.last_update_time.as_ref().is_some_and(|last| now.duration_since(last.0) > deadline),
    }
}

fn shown(number: i32) -> Option<i32> {
    count(usize::try_from(number).unwrap_or(0))
}
