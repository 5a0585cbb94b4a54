//! Which nodes a pod wants by their labels, and which pods it wants beside it or not. Pure.

use std::collections::BTreeSet;

use k8s_openapi::{
    api::core::v1::{Affinity, Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodAffinityTerm},
    apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement},
};
use kube::ResourceExt as _;

use super::snapshot::{Labels, Place, Snapshot};
use crate::pods::selects;

/// Why a node is out because of other pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    Affinity,
    AntiAffinity,
    /// A pod that is there does not want this one.
    ExistingAntiAffinity,
}

/// Tells whether a node has the labels that a pod requires of it.
pub fn matches_node(pod: &Pod, node: &Node) -> bool {
    let Some(spec) = &pod.spec else { return true };
    let has = |(key, value): (&String, &String)| node.labels().get(key) == Some(value);
    let is_selected = spec.node_selector.iter().flatten().all(has);
    let required = affinity(pod)
        .and_then(|affinity| affinity.node_affinity.as_ref())
        .and_then(|wants| wants.required_during_scheduling_ignored_during_execution.as_ref());
    is_selected && required.is_none_or(|selector| selects_node(selector, node))
}

/// Tells whether a node is picked by one of the terms of a selector.
pub fn selects_node(selector: &NodeSelector, node: &Node) -> bool {
    selector.node_selector_terms.iter().any(|term| matches_term(term, node))
}

/// Returns how much a pod prefers a node for its labels.
pub fn preference_of_node(pod: &Pod, node: &Node) -> i64 {
    let preferred = affinity(pod)
        .and_then(|affinity| affinity.node_affinity.as_ref())
        .and_then(|wants| wants.preferred_during_scheduling_ignored_during_execution.as_ref());
    let matching = preferred.into_iter().flatten().filter(|term| matches_term(&term.preference, node));
    matching.map(|term| i64::from(term.weight)).sum()
}

fn affinity(pod: &Pod) -> Option<&Affinity> {
    pod.spec.as_ref()?.affinity.as_ref()
}

/// A term that asks for nothing matches nothing.
fn matches_term(term: &NodeSelectorTerm, node: &Node) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    let name = node.name_any();
    let field =
        |wanted: &NodeSelectorRequirement| wanted.key == "metadata.name" && matches_requirement(wanted, Some(&name));
    !(expressions.is_empty() && fields.is_empty())
        && expressions.iter().all(|wanted| matches_requirement(wanted, node.labels().get(&wanted.key)))
        && fields.iter().all(field)
}

fn matches_requirement(wanted: &NodeSelectorRequirement, value: Option<&String>) -> bool {
    let values = wanted.values.as_deref().unwrap_or_default();
    let is_one = || value.is_some_and(|value| values.contains(value));
    let numbers = || Some((value?.parse::<i64>().ok()?, values.first()?.parse::<i64>().ok()?));
    match wanted.operator.as_str() {
        "In" => is_one(),
        "NotIn" => !is_one(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => numbers().is_some_and(|(have, bound)| have > bound),
        "Lt" => numbers().is_some_and(|(have, bound)| have < bound),
        _ => false,
    }
}

/// What the other pods mean for one pod; computed once for all nodes.
#[derive(Debug, Default)]
pub struct Neighbours {
    /// For every required term: its topology key, and the values of it where all terms find a pod.
    required: Vec<(String, BTreeSet<String>)>,
    /// No pod is there that the required terms could find, but the pod would be found by them itself.
    is_first: bool,
    forbidden: Vec<(String, BTreeSet<String>)>,
    unwanted: BTreeSet<(String, String)>,
    /// Topology key, value and weight of preferences that have come true there.
    preferred: Vec<(String, String, i64)>,
}

impl Neighbours {
    pub fn new(pod: &Pod, snapshot: &Snapshot) -> Self {
        let mut neighbours = Self { unwanted: unwanted(pod, snapshot), ..Self::default() };
        let Some(affinity) = affinity(pod) else { return neighbours };
        let required = affinity
            .pod_affinity
            .as_ref()
            .and_then(|wants| wants.required_during_scheduling_ignored_during_execution.as_deref())
            .unwrap_or_default();
        let finds_all = |other: &Pod| required.iter().all(|term| finds(term, pod, other, snapshot));
        neighbours.required = required.iter().map(|term| domains(term, snapshot, finds_all)).collect();
        let nobody = neighbours.required.iter().all(|(_, values)| values.is_empty());
        neighbours.is_first = nobody && finds_all(pod);
        let forbidden = affinity
            .pod_anti_affinity
            .as_ref()
            .and_then(|wants| wants.required_during_scheduling_ignored_during_execution.as_deref())
            .unwrap_or_default();
        neighbours.forbidden =
            forbidden.iter().map(|term| domains(term, snapshot, |other| finds(term, pod, other, snapshot))).collect();
        neighbours.preferred = preferred(pod, affinity, snapshot);
        neighbours
    }

    /// Returns which rule keeps a pod off a node.
    pub fn rule_against(&self, place: &Place) -> Option<Rule> {
        let is_in = |(key, values): &(String, BTreeSet<String>)| place.label(key).is_some_and(|v| values.contains(v));
        let has_key = |(key, _): &(String, BTreeSet<String>)| place.label(key).is_some();
        let is_wanted = self.required.iter().all(is_in) || (self.is_first && self.required.iter().all(has_key));
        let is_unwanted = |(key, value): &(String, String)| place.label(key) == Some(value);
        if !is_wanted {
            Some(Rule::Affinity)
        } else if self.forbidden.iter().any(is_in) {
            Some(Rule::AntiAffinity)
        } else if self.unwanted.iter().any(is_unwanted) {
            Some(Rule::ExistingAntiAffinity)
        } else {
            None
        }
    }

    /// Returns how much a pod prefers a node for the pods around it.
    pub fn preference(&self, place: &Place) -> i64 {
        let here = self.preferred.iter().filter(|(key, value, _)| place.label(key) == Some(value));
        here.map(|(_, _, weight)| weight).sum()
    }
}

/// Returns the values of a term's topology key on nodes with a pod that `is_found`.
fn domains(term: &PodAffinityTerm, snapshot: &Snapshot, is_found: impl Fn(&Pod) -> bool) -> (String, BTreeSet<String>) {
    let found = snapshot.pods().filter(|(_, other)| is_found(other));
    let values = found.filter_map(|(place, _)| place.label(&term.topology_key).cloned());
    (term.topology_key.clone(), values.collect())
}

/// Returns where pods are that do not want this one near them.
fn unwanted(pod: &Pod, snapshot: &Snapshot) -> BTreeSet<(String, String)> {
    let mut unwanted = BTreeSet::new();
    let shy = snapshot.places.values().flat_map(|place| place.shy.iter().map(move |pod| (place, pod)));
    for (place, other) in shy {
        let Some(wants) = affinity(other).and_then(|affinity| affinity.pod_anti_affinity.as_ref()) else { continue };
        for term in wants.required_during_scheduling_ignored_during_execution.iter().flatten() {
            if let Some(value) = place.label(&term.topology_key)
                && finds(term, other, pod, snapshot)
            {
                unwanted.insert((term.topology_key.clone(), value.clone()));
            }
        }
    }
    unwanted
}

fn preferred(pod: &Pod, affinity: &Affinity, snapshot: &Snapshot) -> Vec<(String, String, i64)> {
    let near = affinity.pod_affinity.iter();
    let near = near.flat_map(|wants| wants.preferred_during_scheduling_ignored_during_execution.iter().flatten());
    let far = affinity.pod_anti_affinity.iter();
    let far = far.flat_map(|wants| wants.preferred_during_scheduling_ignored_during_execution.iter().flatten());
    let terms: Vec<_> = near.map(|term| (term, 1)).chain(far.map(|term| (term, -1))).collect();
    let mut preferred = Vec::new();
    for (place, other) in snapshot.pods() {
        for (wanted, sign) in &terms {
            let term = &wanted.pod_affinity_term;
            if let Some(value) = place.label(&term.topology_key)
                && finds(term, pod, other, snapshot)
            {
                preferred.push((term.topology_key.clone(), value.clone(), i64::from(wanted.weight) * sign));
            }
        }
    }
    preferred
}

/// Tells whether a term of one pod is about another pod.
fn finds(term: &PodAffinityTerm, of: &Pod, other: &Pod, snapshot: &Snapshot) -> bool {
    let Some(selector) = &term.label_selector else { return false };
    let keys = term.match_label_keys.as_deref().unwrap_or_default();
    let not_keys = term.mismatch_label_keys.as_deref().unwrap_or_default();
    in_namespaces(term, of, other, snapshot)
        && selects(selector, other.labels())
        && selects(&same_labels(of.labels(), keys, "In"), other.labels())
        && selects(&same_labels(of.labels(), not_keys, "NotIn"), other.labels())
}

/// Turns the names of labels into a selector of the values that a pod has for them.
pub fn same_labels(labels: &Labels, keys: &[String], operator: &str) -> LabelSelector {
    let known = keys.iter().filter_map(|key| {
        Some(LabelSelectorRequirement {
            key: key.clone(),
            operator: operator.to_owned(),
            values: Some(vec![labels.get(key)?.clone()]),
        })
    });
    LabelSelector { match_expressions: Some(known.collect()), match_labels: None }
}

fn in_namespaces(term: &PodAffinityTerm, of: &Pod, other: &Pod, snapshot: &Snapshot) -> bool {
    let namespace = other.namespace().unwrap_or_default();
    let named = term.namespaces.as_deref().unwrap_or_default();
    if named.is_empty() && term.namespace_selector.is_none() {
        return of.namespace().unwrap_or_default() == namespace;
    }
    let no_labels = Labels::new();
    let labels = snapshot.namespaces.get(&namespace).unwrap_or(&no_labels);
    named.contains(&namespace) || term.namespace_selector.as_ref().is_some_and(|selector| selects(selector, labels))
}
