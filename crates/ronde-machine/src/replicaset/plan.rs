//! What a replica set needs: how many pods more, which pods less, and what its status says.
//!
//! Pure; called by the controller in [`super`]. Whose pods they are has been settled before.

use std::{collections::BTreeMap, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus},
    core::v1::Pod,
};
use kube::ResourceExt as _;

use ronde_runtime::pods::{
    self, count, is_active, is_available, is_ready, next_available_in,
    rank::{node, rank},
};

/// Pods that are made or deleted in one go.
pub const BURST_MAX: usize = 500;
/// The condition of a set that cannot make or delete its pods.
const REPLICA_FAILURE: &str = "ReplicaFailure";

/// A replica set and its surroundings.
#[derive(Debug, Clone)]
pub struct Observed<'a> {
    pub set: &'a ReplicaSet,
    /// The active pods of the set.
    pub pods: Vec<Arc<Pod>>,
    /// The pods of all sets of the same owner, these included.
    pub related: Vec<Arc<Pod>>,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum ReplicaPlan {
    Keep,
    Create(usize),
    Delete(Vec<Arc<Pod>>),
}

/// Why pods could not be made or deleted.
#[derive(Debug, Clone, Copy)]
pub struct Failure<'a> {
    pub reason: &'static str,
    pub message: &'a str,
}

/// Decides what a replica set needs.
pub fn plan(observed: &Observed<'_>, now: Timestamp) -> ReplicaPlan {
    let wanted = wanted(observed.set);
    let has = observed.pods.len();
    if observed.set.metadata.deletion_timestamp.is_some() || has == wanted {
        ReplicaPlan::Keep
    } else if has < wanted {
        ReplicaPlan::Create((wanted - has).min(BURST_MAX))
    } else {
        ReplicaPlan::Delete(victims(observed, (has - wanted).min(BURST_MAX), now))
    }
}

/// Returns the status of a replica set.
pub fn status(observed: &Observed<'_>, failure: Option<Failure<'_>>, now: Timestamp) -> ReplicaSetStatus {
    let set = observed.set;
    let template = set.spec.as_ref().and_then(|spec| spec.template.as_ref()?.metadata.as_ref()?.labels.as_ref());
    let is_labelled =
        |pod: &Pod| template.into_iter().flatten().all(|(key, value)| pod.labels().get(key) == Some(value));
    let number = |test: &dyn Fn(&Pod) -> bool| count(observed.pods.iter().filter(|pod| test(pod)).count());
    ReplicaSetStatus {
        replicas: i32::try_from(observed.pods.len()).unwrap_or(i32::MAX),
        fully_labeled_replicas: number(&is_labelled),
        ready_replicas: number(&is_ready),
        available_replicas: number(&|pod| is_available(pod, min_ready_seconds(set), now)),
        observed_generation: set.metadata.generation,
        conditions: conditions(set, failure, now),
        terminating_replicas: None,
    }
}

/// Returns when a pod becomes available only because time passes.
pub fn look_again(observed: &Observed<'_>, now: Timestamp) -> Option<SignedDuration> {
    next_available_in(observed.pods.iter().map(AsRef::as_ref), min_ready_seconds(observed.set), now)
}

fn wanted(set: &ReplicaSet) -> usize {
    let replicas = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    usize::try_from(replicas).unwrap_or(0)
}

fn min_ready_seconds(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0)
}

fn victims(observed: &Observed<'_>, number: usize, now: Timestamp) -> Vec<Arc<Pod>> {
    let mut on_node: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    for pod in observed.related.iter().filter(|pod| is_active(pod)) {
        *on_node.entry(node(pod)).or_default() += 1;
    }
    let mut pods = observed.pods.clone();
    pods.sort_by_cached_key(|pod| rank(pod, on_node.get(&node(pod)).copied().unwrap_or(0), now));
    pods.truncate(number);
    pods
}

/// A failure stays as it was first told until it is over.
fn conditions(set: &ReplicaSet, failure: Option<Failure<'_>>, now: Timestamp) -> Option<Vec<ReplicaSetCondition>> {
    let mut conditions = set.status.clone().and_then(|status| status.conditions).unwrap_or_default();
    let has_failed = conditions.iter().any(|condition| condition.type_ == REPLICA_FAILURE);
    match failure {
        Some(failure) if !has_failed => conditions.push(ReplicaSetCondition {
            type_: REPLICA_FAILURE.to_owned(),
            status: "True".to_owned(),
            reason: Some(failure.reason.to_owned()),
            message: Some(failure.message.to_owned()),
            last_transition_time: Some(pods::time(now)),
        }),
        Some(_) => {}
        None => conditions.retain(|condition| condition.type_ != REPLICA_FAILURE),
    }
    (!conditions.is_empty()).then_some(conditions)
}
