//! Even spreading of pods over zones, hosts or whatever a label tells apart. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, TopologySpreadConstraint};
use kube::ResourceExt as _;

use super::{
    affinity::{matches_node, same_labels},
    place::untolerated,
    snapshot::{Place, Snapshot},
};
use crate::pods::{is_deleted, selects};

/// Why a node is out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Uneven {
    MissingLabel,
    Skewed,
}

/// The constraints of one pod; computed once for all nodes.
#[derive(Debug, Default)]
pub struct Spread {
    hard: Vec<Constraint>,
    soft: Vec<Constraint>,
}

#[derive(Debug)]
struct Constraint {
    key: String,
    /// How many pods that count are in each domain.
    counts: BTreeMap<String, i64>,
    least: i64,
    skew_max: i64,
    /// One if the pod itself counts.
    own: i64,
}

impl Spread {
    pub fn new(pod: &Pod, snapshot: &Snapshot) -> Self {
        let constraints = pod.spec.as_ref().and_then(|spec| spec.topology_spread_constraints.as_deref());
        let (hard, soft): (Vec<_>, Vec<_>) =
            constraints.unwrap_or_default().iter().partition(|c| c.when_unsatisfiable == "DoNotSchedule");
        let keys: Vec<&String> = hard.iter().map(|constraint| &constraint.topology_key).collect();
        let count = |constraint: &&TopologySpreadConstraint| Constraint::new(pod, constraint, &keys, snapshot);
        Self { hard: hard.iter().map(count).collect(), soft: soft.iter().map(count).collect() }
    }

    /// Returns what keeps a pod off a node.
    pub fn against(&self, place: &Place) -> Option<Uneven> {
        self.hard.iter().find_map(|constraint| {
            let Some(value) = place.label(&constraint.key) else { return Some(Uneven::MissingLabel) };
            let there = constraint.counts.get(value).copied().unwrap_or_default();
            (there + constraint.own - constraint.least > constraint.skew_max).then_some(Uneven::Skewed)
        })
    }

    /// Returns how many pods are already where a pod would rather not see so many.
    pub fn crowd(&self, place: &Place) -> i64 {
        let here = |constraint: &Constraint| constraint.counts.get(place.label(&constraint.key)?).copied();
        self.soft.iter().filter_map(here).sum()
    }
}

impl Constraint {
    fn new(pod: &Pod, wanted: &TopologySpreadConstraint, keys: &[&String], snapshot: &Snapshot) -> Self {
        let honours = |policy: &Option<String>, default| policy.as_deref().unwrap_or(default) == "Honor";
        let counts_here = |place: &&Place| {
            keys.iter().all(|key| place.label(key).is_some())
                && (!honours(&wanted.node_affinity_policy, "Honor") || matches_node(pod, &place.node))
                && (!honours(&wanted.node_taints_policy, "Ignore") || untolerated(pod, place).is_none())
        };
        let mut counts: BTreeMap<String, i64> = BTreeMap::new();
        for place in snapshot.places.values().filter(counts_here) {
            let Some(value) = place.label(&wanted.topology_key) else { continue };
            let matching = place.pods.iter().filter(|other| !is_deleted(other) && is_counted(wanted, pod, other));
            *counts.entry(value.clone()).or_default() += i64::try_from(matching.count()).unwrap_or(i64::MAX);
        }
        let domains = i32::try_from(counts.len()).unwrap_or(i32::MAX);
        let has_domains = wanted.min_domains.is_none_or(|wanted| domains >= wanted);
        let least = counts.values().min().copied().filter(|_| has_domains).unwrap_or_default();
        let own = i64::from(is_counted(wanted, pod, pod));
        Self { key: wanted.topology_key.clone(), counts, least, skew_max: i64::from(wanted.max_skew), own }
    }
}

fn is_counted(wanted: &TopologySpreadConstraint, pod: &Pod, other: &Pod) -> bool {
    let keys = wanted.match_label_keys.as_deref().unwrap_or_default();
    pod.namespace() == other.namespace()
        && wanted.label_selector.as_ref().is_some_and(|selector| selects(selector, other.labels()))
        && selects(&same_labels(pod.labels(), keys, "In"), other.labels())
}
