//! Which pods are where, as far as other pods ask: affinity, anti-affinity and spreading.
//!
//! A query counts the pods that its terms select, for every node; it is made when a pod first asks and then follows every
//! placement. Shy pods (with anti-affinity) are kept by their terms, since they keep others away too.

use std::collections::BTreeMap;

use super::pods::{PodState, Pods};
use crate::model::{
    pod::{Pod, PodAffinityTerm},
    selector::Labels,
};

/// Queries that are kept; beyond that all are forgotten and made again as they are asked.
const QUERIES_MAX: usize = 256;

/// Pods of a namespace asking for pods that all the terms select.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Query {
    pub namespace: String,
    pub terms: Vec<PodAffinityTerm>,
}

impl Query {
    pub fn selects(&self, pod: &Pod, namespaces: &BTreeMap<String, Labels>) -> bool {
        self.terms.iter().all(|term| selects(term, &self.namespace, pod, namespaces))
    }
}

/// Tells whether a term of a pod in a namespace is about a pod.
fn selects(term: &PodAffinityTerm, own: &str, pod: &Pod, namespaces: &BTreeMap<String, Labels>) -> bool {
    let namespace = pod.id.namespace();
    let is_own = term.namespaces.is_empty() && term.namespace_selector.is_none() && namespace == own;
    let is_near = || {
        let labels = namespaces.get(namespace).cloned().unwrap_or_default();
        term.namespaces.contains(namespace)
            || term.namespace_selector.as_ref().is_some_and(|selector| selector.selects(&labels))
    };
    let Some(selector) = &term.selector else { return false };
    (is_own || is_near()) && selector.selects(&pod.labels)
}

/// How many pods there are on each node by its slot; nodes without any are left out.
pub type Counts = BTreeMap<usize, u32>;

#[derive(Debug, Clone, Default)]
pub struct Neighbours {
    pub namespaces: BTreeMap<String, Labels>,
    queries: BTreeMap<Query, Counts>,
    /// Terms of anti-affinity with where the pods are that have them.
    shy: BTreeMap<(String, PodAffinityTerm), Counts>,
}

impl Neighbours {
    /// Notes that a pod came to a node.
    pub fn came(&mut self, pod: &PodState, node: usize) {
        for (query, counts) in &mut self.queries {
            if query.selects(&pod.pod, &self.namespaces) {
                *counts.entry(node).or_default() += 1;
            }
        }
        for term in &pod.pod.spec.anti_affinity {
            let key = (pod.pod.id.namespace().to_owned(), term.clone());
            *self.shy.entry(key).or_default().entry(node).or_default() += 1;
        }
    }

    /// Notes that a pod left a node.
    pub fn went(&mut self, pod: &PodState, node: usize) {
        for (query, counts) in &mut self.queries {
            if query.selects(&pod.pod, &self.namespaces) {
                subtract(counts, node);
            }
        }
        for term in &pod.pod.spec.anti_affinity {
            let key = (pod.pod.id.namespace().to_owned(), term.clone());
            if let Some(counts) = self.shy.get_mut(&key) {
                subtract(counts, node);
                if counts.is_empty() {
                    self.shy.remove(&key);
                }
            }
        }
    }

    /// Returns how many pods a query selects on each node.
    pub fn counts(&mut self, query: &Query, pods: &Pods) -> &Counts {
        if self.queries.len() >= QUERIES_MAX && !self.queries.contains_key(query) {
            self.queries.clear();
        }
        let namespaces = &self.namespaces;
        self.queries.entry(query.clone()).or_insert_with(|| {
            let mut counts = Counts::new();
            let placed = pods.slots().filter(|(_, state)| state.takes_room());
            for (_, state) in placed.filter(|(_, state)| query.selects(&state.pod, namespaces)) {
                if let Some(node) = state.node {
                    *counts.entry(node).or_default() += 1;
                }
            }
            counts
        })
    }

    pub fn has_shy(&self) -> bool {
        !self.shy.is_empty()
    }

    /// Returns where pods are that want this one away from them: the label that counts, and the nodes.
    pub fn shy_of<'a>(&'a self, pod: &'a Pod) -> impl Iterator<Item = (&'a str, &'a Counts)> {
        let about = move |(own, term): &(String, PodAffinityTerm)| selects(term, own, pod, &self.namespaces);
        self.shy.iter().filter(move |(key, _)| about(key)).map(|((_, term), counts)| (&*term.topology_key, counts))
    }

    /// Forgets all counts; they are made again as they are asked. For changes of namespaces.
    pub fn forget_queries(&mut self) {
        self.queries.clear();
    }
}

fn subtract(counts: &mut Counts, node: usize) {
    if let Some(count) = counts.get_mut(&node) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&node);
        }
    }
}
