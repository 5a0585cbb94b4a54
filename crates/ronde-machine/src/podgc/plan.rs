//! Which pods nobody will ever clean up. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

use ronde_runtime::{
    pods::{is_deleted, is_finished, phase},
    podstatus::node_of,
};

/// How long a node has to be missing before its pods are given up: it may be on its way.
pub const QUARANTINE: SignedDuration = SignedDuration::from_secs(40);

/// Why a pod is garbage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Its node does not exist.
    Orphaned,
    /// Too many pods have ended.
    TooMany,
    /// It is being deleted, and no node was ever to do that.
    NeverPlaced,
}

/// What is known when the garbage is looked for.
pub struct Observed<'a> {
    pub pods: &'a [Arc<Pod>],
    pub nodes: &'a BTreeSet<String>,
    /// Since when nodes that pods name have been missing.
    pub missing: &'a BTreeMap<String, Timestamp>,
    /// How many pods that have ended may stay.
    pub finished_max: usize,
    pub now: Timestamp,
}

/// Returns the missing nodes that pods name, with since when.
pub fn missing(
    pods: &[Arc<Pod>],
    nodes: &BTreeSet<String>,
    before: &BTreeMap<String, Timestamp>,
    now: Timestamp,
) -> BTreeMap<String, Timestamp> {
    let named = pods.iter().map(|pod| node_of(pod)).filter(|node| !node.is_empty() && !nodes.contains(*node));
    named.map(|node| (node.to_owned(), before.get(node).copied().unwrap_or(now))).collect()
}

/// Returns the pods to remove, each once.
pub fn garbage(observed: &Observed<'_>) -> Vec<(Arc<Pod>, Why)> {
    let is_lost = |node: &str| {
        let since = observed.missing.get(node).filter(|_| !observed.nodes.contains(node));
        since.is_some_and(|since| observed.now.duration_since(*since) >= QUARANTINE)
    };
    let why = |pod: &Arc<Pod>| {
        if is_lost(node_of(pod)) {
            Some(Why::Orphaned)
        } else if is_deleted(pod) && node_of(pod).is_empty() {
            Some(Why::NeverPlaced)
        } else {
            None
        }
    };
    let mut garbage: Vec<_> = observed.pods.iter().filter_map(|pod| Some((pod.clone(), why(pod)?))).collect();
    let mut finished: Vec<_> = observed.pods.iter().filter(|pod| is_finished(pod) && why(pod).is_none()).collect();
    let surplus = finished.len().saturating_sub(observed.finished_max);
    finished.sort_by_key(|pod| (!is_evicted(pod), pod.creation_timestamp(), pod.name_any()));
    garbage.extend(finished.into_iter().take(surplus).map(|pod| (pod.clone(), Why::TooMany)));
    garbage
}

fn is_evicted(pod: &Pod) -> bool {
    phase(pod) == "Failed" && pod.status.as_ref().and_then(|status| status.reason.as_deref()) == Some("Evicted")
}
