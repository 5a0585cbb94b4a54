//! How a deployment that is given another size shares it among its replica sets.
//!
//! Pure. In proportion to their sizes, so that a rollout in the middle is neither hastened nor held up by it.

use std::{cmp::Reverse, collections::BTreeMap};

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use kube::ResourceExt as _;

use super::{
    limits::{Limits, is_rolling, replicas},
    status::available_replicas,
    template::{DESIRED_REPLICAS, MAX_REPLICAS, annotated},
};

/// Returns the sizes that replica sets get, by name; a set that is not named keeps its own.
pub fn sizes(deployment: &Deployment, new: Option<&ReplicaSet>, old: &[ReplicaSet]) -> BTreeMap<String, i32> {
    let limits = Limits::of_deployment(deployment);
    let mut active: Vec<&ReplicaSet> = old.iter().chain(new).filter(|set| replicas(set) > 0).collect();
    if active.len() <= 1 {
        let only = active.first().copied().or(new).or(old.last());
        only.map(|set| (set.name_any(), limits.replicas)).into_iter().collect()
    } else if new.is_some_and(|new| is_saturated(new, limits)) {
        old.iter().filter(|set| replicas(set) > 0).map(|set| (set.name_any(), 0)).collect()
    } else if is_rolling(deployment) {
        share(deployment, limits, &mut active)
    } else {
        BTreeMap::new()
    }
}

/// Tells whether a set has all the pods that its deployment wants, and knows it.
fn is_saturated(set: &ReplicaSet, limits: Limits) -> bool {
    replicas(set) == limits.replicas
        && annotated(set, DESIRED_REPLICAS) == Some(limits.replicas)
        && available_replicas(set) == limits.replicas
}

fn share(deployment: &Deployment, limits: Limits, sets: &mut [&ReplicaSet]) -> BTreeMap<String, i32> {
    let total: i32 = sets.iter().map(|set| replicas(set)).sum();
    let allowed = if limits.replicas > 0 { limits.most() } else { 0 };
    let to_add = allowed - total;
    // The largest first; of two of one size the newer grows and the older shrinks first.
    let age = |set: &ReplicaSet| (set.metadata.creation_timestamp.clone(), set.name_any());
    if to_add > 0 {
        sets.sort_by_cached_key(|set| (Reverse(replicas(set)), Reverse(age(set))));
    } else {
        sets.sort_by_cached_key(|set| (Reverse(replicas(set)), age(set)));
    }
    let mut added = 0;
    let mut sizes = BTreeMap::new();
    for set in sets.iter() {
        let left = to_add - added;
        let fraction = fraction(deployment, limits, set);
        let part = if to_add > 0 { fraction.min(left) } else { fraction.max(left) };
        let part = if left == 0 { 0 } else { part };
        sizes.insert(set.name_any(), replicas(set) + part);
        added += part;
    }
    // What rounding has left over goes to the largest.
    if let Some(size) = sets.first().and_then(|set| sizes.get_mut(&set.name_any())) {
        *size = (*size + to_add - added).max(0);
    }
    sizes
}

/// Returns by how much a set grows if it keeps its part of the whole.
fn fraction(deployment: &Deployment, limits: Limits, set: &ReplicaSet) -> i32 {
    if limits.replicas == 0 {
        return -replicas(set);
    }
    let current = deployment.status.as_ref().and_then(|status| status.replicas).unwrap_or(0);
    let before = annotated(set, MAX_REPLICAS).filter(|most| *most > 0).unwrap_or(current);
    if before == 0 {
        return 0;
    }
    let grown = i64::from(replicas(set)) * i64::from(limits.most()) * 2 + i64::from(before);
    let rounded = grown.div_euclid(i64::from(before) * 2);
    i32::try_from(rounded).unwrap_or(i32::MAX) - replicas(set)
}
