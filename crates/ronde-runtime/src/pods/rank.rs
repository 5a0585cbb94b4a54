//! Which pods are given up first when there are too many of them.
//!
//! The order is that of Kubernetes: pods that have not come far go first, then the cheap, the doubled up, the young.
//! Ages are compared by their powers of two, so that chance (the uid) decides between pods of about the same age.

use std::cmp::Reverse;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::ResourceExt as _;

use super::{is_ready, phase, ready_since};

/// The annotation by which users say how dear a pod is to them.
pub const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Where a pod stands in the order; the smallest goes first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    has_node: bool,
    phase: u8,
    is_ready: bool,
    cost: i32,
    /// Pods of the same workload on its node.
    beside: Reverse<usize>,
    ready_age: u32,
    restarts: Reverse<(i32, i32)>,
    age: u32,
    uid: String,
}

/// Returns the place of a pod that has `beside` pods of its workload, itself included, on its node.
pub fn rank(pod: &Pod, beside: usize, now: Timestamp) -> Rank {
    let cost = pod.annotations().get(DELETION_COST).and_then(|text| text.parse().ok()).unwrap_or(0);
    Rank {
        has_node: node(pod).is_some(),
        phase: match phase(pod) {
            "Running" => 2,
            "Unknown" => 1,
            _ => 0,
        },
        is_ready: is_ready(pod),
        cost,
        beside: Reverse(beside),
        ready_age: power_of_age(ready_since(pod), now),
        restarts: Reverse(restarts(pod)),
        age: power_of_age(pod.metadata.creation_timestamp.as_ref().map(|time| time.0), now),
        uid: pod.uid().unwrap_or_default(),
    }
}

/// Returns the node that a pod is bound to.
pub fn node(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}

/// Returns the power of two of an age in nanoseconds, from one; zero is no age at all.
fn power_of_age(since: Option<Timestamp>, now: Timestamp) -> u32 {
    let age = since.map_or(0, |since| now.duration_since(since).as_nanos());
    u128::try_from(age).ok().and_then(u128::checked_ilog2).map_or(0, |power| power + 1)
}

/// Returns the most restarts of a container, and of one that runs beside the others.
fn restarts(pod: &Pod) -> (i32, i32) {
    let Some(status) = &pod.status else { return (0, 0) };
    let is_beside = |status: &&ContainerStatus| {
        let containers = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
        let mut named = containers.filter(|container| container.name == status.name);
        named.any(|container| container.restart_policy.as_deref() == Some("Always"))
    };
    let most = |counts: &mut dyn Iterator<Item = &ContainerStatus>| counts.map(|one| one.restart_count).max();
    let main = most(&mut status.container_statuses.iter().flatten());
    let beside = most(&mut status.init_container_statuses.iter().flatten().filter(is_beside));
    (main.unwrap_or(0), beside.unwrap_or(0))
}
