//! What pods that are there mean for a pod that is to be placed: near, far, evenly spread.
//!
//! Rules are made once for a class and namespace when a gang is tried, and then follow its placements.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    cluster::{Cluster, classes::Class, neighbours::Query, nodes::Nodes, pods::PodState},
    model::{
        pod::{Pod, PodAffinityTerm, Spread},
        selector::Labels,
    },
};

/// What one point of a preference for other pods is worth in a score.
const PREFERENCE: i64 = 10;
/// What every pod costs that is already where spreading would rather have fewer.
const CROWD: i64 = 100;

/// What keeps a pod off a node because of other pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    Affinity,
    AntiAffinity,
    /// A pod that is there does not want this one.
    Unwanted,
    Spread,
}

/// How many pods a query finds for every value of a label of nodes.
#[derive(Debug)]
struct Field {
    query: Query,
    key: String,
    counts: BTreeMap<String, i64>,
}

impl Field {
    fn new(cluster: &mut Cluster, query: Query, key: &str) -> Self {
        let counts = cluster.neighbours.counts(&query, &cluster.pods).clone();
        let mut by_value: BTreeMap<String, i64> = BTreeMap::new();
        for (node, count) in counts {
            if let Some(value) = cluster.nodes.slots[node].node.labels.get(key) {
                *by_value.entry(value.clone()).or_default() += i64::from(count);
            }
        }
        Self { query, key: key.to_owned(), counts: by_value }
    }

    fn count(&self, labels: &Labels) -> Option<i64> {
        Some(self.counts.get(labels.get(&self.key)?).copied().unwrap_or(0))
    }

    fn note(&mut self, pod: &Pod, labels: &Labels, namespaces: &BTreeMap<String, Labels>) {
        if let Some(value) = labels.get(&self.key)
            && self.query.selects(pod, namespaces)
        {
            *self.counts.entry(value.clone()).or_default() += 1;
        }
    }
}

#[derive(Debug)]
struct Evenness {
    field: Field,
    asked: Spread,
    /// Values of the label on nodes that count.
    domains: BTreeSet<String>,
}

impl Evenness {
    fn new(cluster: &mut Cluster, class: &Class, namespace: &str, asked: &Spread) -> Self {
        let term = PodAffinityTerm { selector: asked.selector.clone(), ..own_term(&asked.topology_key) };
        let mut field = Field::new(cluster, query(namespace, vec![term]), &asked.topology_key);
        let counted: BTreeSet<usize> = counted_nodes(cluster, class, asked).collect();
        let found = cluster.neighbours.counts(&field.query, &cluster.pods).clone();
        field.counts.clear();
        let mut domains = BTreeSet::new();
        for node in counted {
            let Some(value) = cluster.nodes.slots[node].node.labels.get(&asked.topology_key) else { continue };
            domains.insert(value.clone());
            *field.counts.entry(value.clone()).or_default() += i64::from(found.get(&node).copied().unwrap_or(0));
        }
        Self { field, asked: asked.clone(), domains }
    }

    fn least(&self) -> i64 {
        let has_domains = self.asked.min_domains.is_none_or(|least| self.domains.len() >= least as usize);
        let counts = self.domains.iter().map(|value| self.field.counts.get(value).copied().unwrap_or(0));
        counts.min().filter(|_| has_domains).unwrap_or(0)
    }

    fn allows(&self, pod: &Pod, labels: &Labels, namespaces: &BTreeMap<String, Labels>) -> bool {
        let own = i64::from(self.field.query.selects(pod, namespaces));
        let skew_max = i64::from(self.asked.max_skew);
        self.field.count(labels).is_some_and(|count| count + own - self.least() <= skew_max)
    }
}

fn counted_nodes<'a>(cluster: &'a Cluster, class: &'a Class, asked: &'a Spread) -> impl Iterator<Item = usize> + 'a {
    let required = class.spec.spread.iter().filter(|spread| spread.required);
    let keys: Vec<&String> = required.map(|spread| &spread.topology_key).collect();
    let counts = move |(slot, state): (usize, &crate::cluster::nodes::NodeState)| {
        let has_keys = keys.iter().all(|key| state.node.labels.contains_key(*key));
        let is_wanted = !asked.honours_affinity || class.wants(state);
        let is_tolerated = !asked.honours_taints || class.tolerates_all(state);
        (has_keys && is_wanted && is_tolerated).then_some(slot)
    };
    cluster.nodes.present().filter_map(counts)
}

/// The rules of pods of one class and namespace.
#[derive(Debug, Default)]
pub struct Rules {
    near: Vec<Field>,
    far: Vec<Field>,
    preferred: Vec<(Field, i64)>,
    even: Vec<Evenness>,
}

impl Rules {
    pub fn new(cluster: &mut Cluster, class: &Class, namespace: &str) -> Self {
        let spec = &class.spec;
        let one = |term: &PodAffinityTerm| query(namespace, vec![term.clone()]);
        let all = query(namespace, spec.affinity.clone());
        let mut rules = Self::default();
        for term in &spec.affinity {
            rules.near.push(Field::new(cluster, all.clone(), &term.topology_key));
        }
        for term in &spec.anti_affinity {
            rules.far.push(Field::new(cluster, one(term), &term.topology_key));
        }
        let near = spec.preferred_affinity.iter().map(|wanted| (wanted, 1));
        for (wanted, sign) in near.chain(spec.preferred_anti_affinity.iter().map(|wanted| (wanted, -1))) {
            let field = Field::new(cluster, one(&wanted.term), &wanted.term.topology_key);
            rules.preferred.push((field, i64::from(wanted.weight) * sign));
        }
        for asked in &spec.spread {
            rules.even.push(Evenness::new(cluster, class, namespace, asked));
        }
        rules
    }

    /// Returns the rule that keeps a pod off a node.
    pub fn against(&self, pod: &Pod, labels: &Labels, namespaces: &BTreeMap<String, Labels>) -> Option<Rule> {
        if !self.is_near(pod, labels, namespaces) {
            return Some(Rule::Affinity);
        }
        if self.far.iter().any(|field| field.count(labels).is_some_and(|count| count > 0)) {
            return Some(Rule::AntiAffinity);
        }
        let mut hard = self.even.iter().filter(|even| even.asked.required);
        hard.any(|even| !even.allows(pod, labels, namespaces)).then_some(Rule::Spread)
    }

    fn is_near(&self, pod: &Pod, labels: &Labels, namespaces: &BTreeMap<String, Labels>) -> bool {
        let Some(first) = self.near.first() else { return true };
        if self.near.iter().all(|field| field.count(labels).is_some_and(|count| count > 0)) {
            return true;
        }
        // The first of pods that want to be near each other has nobody to be near to.
        let is_first = self.near.iter().all(|field| field.counts.values().all(|count| *count == 0))
            && first.query.selects(pod, namespaces);
        is_first && self.near.iter().all(|field| labels.contains_key(&field.key))
    }

    /// Returns how much a pod prefers a node for the pods around it.
    pub fn preference(&self, labels: &Labels) -> i64 {
        let wanted = self.preferred.iter().map(|(field, weight)| field.count(labels).unwrap_or(0) * weight);
        let soft = self.even.iter().filter(|even| !even.asked.required);
        let crowd: i64 = soft.filter_map(|even| even.field.count(labels)).sum();
        wanted.sum::<i64>() * PREFERENCE - crowd * CROWD
    }

    /// Takes note of a pod that has been placed.
    pub fn note(&mut self, state: &PodState, labels: &Labels, namespaces: &BTreeMap<String, Labels>) {
        let fields = self.near.iter_mut().chain(&mut self.far);
        let fields = fields.chain(self.preferred.iter_mut().map(|(field, _)| field));
        let fields = fields.chain(self.even.iter_mut().map(|even| &mut even.field));
        fields.for_each(|field| field.note(&state.pod, labels, namespaces));
    }
}

/// Where pods are that want a pod away from them: labels and their values.
#[derive(Debug, Default)]
pub struct Unwanted(Vec<(String, BTreeSet<String>)>);

impl Unwanted {
    pub fn new(cluster: &Cluster, pod: &Pod) -> Self {
        if !cluster.neighbours.has_shy() {
            return Self::default();
        }
        let values = |nodes: &Nodes, key: &str, node: usize| nodes.slots[node].node.labels.get(key).cloned();
        let shy = cluster.neighbours.shy_of(pod).map(|(key, counts)| {
            let here = counts.keys().filter_map(|node| values(&cluster.nodes, key, *node));
            (key.to_owned(), here.collect())
        });
        Self(shy.collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn is_at(&self, labels: &Labels) -> bool {
        self.0.iter().any(|(key, values)| labels.get(key).is_some_and(|value| values.contains(value)))
    }
}

fn query(namespace: &str, terms: Vec<PodAffinityTerm>) -> Query {
    Query { namespace: namespace.to_owned(), terms }
}

fn own_term(key: &str) -> PodAffinityTerm {
    PodAffinityTerm {
        topology_key: key.to_owned(),
        selector: None,
        namespaces: BTreeSet::new(),
        namespace_selector: None,
    }
}
