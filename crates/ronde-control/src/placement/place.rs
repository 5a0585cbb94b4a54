//! Finds the node for a pod: the least loaded of those that fit. Pure.
//!
//! ```text
//! every node --filters--> those that fit --score--> the best
//! ```
//! The filters, their order and their words are those of kube-scheduler; of the first that refuses a node the reason is
//! kept. Cost: nodes × (filters + rules), and once per pod a walk over all pods for rules about neighbours.

use std::{cmp::Reverse, collections::BTreeMap, fmt, sync::Arc};

use k8s_openapi::api::core::v1::{NodeSelector, Pod, Taint};

use super::{
    affinity::{self, Neighbours, Rule},
    resources::{self, Amounts, HostPort, PODS},
    snapshot::{Place, Snapshot},
    spread::{Spread, Uneven},
};
use crate::taints::{self, NO_EXECUTE, NO_SCHEDULE, UNSCHEDULABLE};

/// A pod with what it needs.
#[derive(Debug, Clone)]
pub struct Needs {
    pub pod: Arc<Pod>,
    /// Where its volumes can be, or why they cannot be anywhere yet.
    pub volumes: Result<Vec<NodeSelector>, String>,
    requests: Amounts,
    ports: Vec<HostPort>,
}

impl Needs {
    pub fn new(pod: Arc<Pod>, volumes: Result<Vec<NodeSelector>, String>) -> Self {
        let (requests, ports) = (resources::requests(&pod), resources::host_ports(&pod));
        Self { pod, volumes, requests, ports }
    }
}

/// Why there is no node for a pod now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unplaceable {
    nodes: usize,
    /// What is wrong with the pod whatever the node.
    everywhere: Option<String>,
    reasons: BTreeMap<String, usize>,
}

impl fmt::Display for Unplaceable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nodes == 0 {
            return f.write_str("no nodes available to schedule pods");
        }
        write!(f, "0/{} nodes are available: ", self.nodes)?;
        if let Some(reason) = &self.everywhere {
            return write!(f, "{reason}.");
        }
        let mut counts: Vec<String> = self.reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        counts.sort();
        write!(f, "{}.", counts.join(", "))
    }
}

/// Finds the node for a pod.
pub fn place(needs: &Needs, snapshot: &Snapshot) -> Result<String, Unplaceable> {
    let mut refused = Unplaceable { nodes: snapshot.places.len(), everywhere: None, reasons: BTreeMap::new() };
    let volumes = match &needs.volumes {
        Ok(volumes) => volumes,
        Err(reason) => {
            refused.everywhere = Some(reason.clone());
            return Err(refused);
        }
    };
    let rules =
        Rules { volumes, neighbours: Neighbours::new(&needs.pod, snapshot), spread: Spread::new(&needs.pod, snapshot) };
    let mut best: Option<(Score, &String)> = None;
    for (name, place) in &snapshot.places {
        let reasons = rules.against(needs, place);
        for reason in &reasons {
            *refused.reasons.entry(reason.clone()).or_default() += 1;
        }
        let score = rules.score(needs, place);
        if reasons.is_empty() && best.as_ref().is_none_or(|(best, _)| score > *best) {
            best = Some((score, name));
        }
    }
    best.map(|(_, name)| name.clone()).ok_or(refused)
}

/// Places pods one after the other, each in the world that the earlier ones leave.
pub fn place_all(pods: Vec<Needs>, snapshot: &mut Snapshot) -> Vec<(Arc<Pod>, Result<String, Unplaceable>)> {
    let mut placed = Vec::with_capacity(pods.len());
    for needs in pods {
        let found = place(&needs, snapshot);
        if let Ok(node) = &found {
            snapshot.add(node, needs.pod.clone());
        }
        placed.push((needs.pod, found));
    }
    placed
}

/// Returns the first taint of a node that keeps a pod off it.
pub fn untolerated(pod: &Pod, place: &Place) -> Option<Taint> {
    let is_hard = |taint: &Taint| matches!(taint.effect.as_str(), NO_SCHEDULE | NO_EXECUTE);
    place.taints().into_iter().find(|taint| is_hard(taint) && taints::toleration(pod, taint).is_none())
}

/// How good a node is; greater is better, in the order of the fields.
#[derive(Debug, PartialEq, PartialOrd)]
struct Score {
    /// Taints that ask to be avoided.
    avoided: Reverse<usize>,
    preference: i64,
    crowd: Reverse<i64>,
    load: Reverse<f64>,
}

struct Rules<'a> {
    volumes: &'a [NodeSelector],
    neighbours: Neighbours,
    spread: Spread,
}

impl Rules<'_> {
    /// Returns why a pod cannot be on a node.
    fn against(&self, needs: &Needs, place: &Place) -> Vec<String> {
        let pod = &*needs.pod;
        let one = |reason: &str| vec![reason.to_owned()];
        if is_cordoned(pod, place) {
            return one("node(s) were unschedulable");
        }
        if let Some(taint) = untolerated(pod, place) {
            let value = taint.value.unwrap_or_default();
            return vec![format!("node(s) had untolerated taint {{{}: {value}}}", taint.key)];
        }
        if !affinity::matches_node(pod, &place.node) {
            return one("node(s) didn't match Pod's node affinity/selector");
        }
        if needs.ports.iter().any(|port| place.ports.iter().any(|taken| port.clashes_with(taken))) {
            return one("node(s) didn't have free ports for the requested pod ports");
        }
        let lacking = lacking(&needs.requests, place);
        if !lacking.is_empty() {
            return lacking;
        }
        if !self.volumes.iter().all(|volume| affinity::selects_node(volume, &place.node)) {
            return one("node(s) didn't match PersistentVolume's node affinity");
        }
        match self.spread.against(place) {
            Some(Uneven::MissingLabel) => {
                return one("node(s) didn't match pod topology spread constraints (missing required label)");
            }
            Some(Uneven::Skewed) => return one("node(s) didn't match pod topology spread constraints"),
            None => {}
        }
        match self.neighbours.rule_against(place) {
            Some(Rule::Affinity) => one("node(s) didn't match pod affinity rules"),
            Some(Rule::AntiAffinity) => one("node(s) didn't match pod anti-affinity rules"),
            Some(Rule::ExistingAntiAffinity) => one("node(s) didn't satisfy existing pods anti-affinity rules"),
            None => Vec::new(),
        }
    }

    fn score(&self, needs: &Needs, place: &Place) -> Score {
        let pod = &*needs.pod;
        let taints = place.taints();
        let soft = taints.iter().filter(|taint| taint.effect == "PreferNoSchedule");
        let preference = affinity::preference_of_node(pod, &place.node) + self.neighbours.preference(place);
        Score {
            avoided: Reverse(soft.filter(|taint| taints::toleration(pod, taint).is_none()).count()),
            preference,
            crowd: Reverse(self.spread.crowd(place)),
            load: Reverse(load(&needs.requests, place)),
        }
    }
}

fn is_cordoned(pod: &Pod, place: &Place) -> bool {
    let cordoned = Taint { key: UNSCHEDULABLE.to_owned(), effect: NO_SCHEDULE.to_owned(), ..Taint::default() };
    let is_cordoned = place.node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
    is_cordoned && taints::toleration(pod, &cordoned).is_none()
}

fn lacking(requests: &Amounts, place: &Place) -> Vec<String> {
    let of = |amounts: &Amounts, name: &String| amounts.get(name).copied().unwrap_or_default();
    let is_lacking = |(name, wanted): &(&String, &i128)| {
        **wanted > 0 && of(&place.used, name).saturating_add(**wanted) > of(&place.allocatable, name)
    };
    let names = requests.iter().filter(is_lacking).map(|(name, _)| name);
    let reason = |name: &String| match name.as_str() {
        PODS => "Too many pods".to_owned(),
        name => format!("Insufficient {name}"),
    };
    names.map(reason).collect()
}

/// The fullest of the resources that all nodes have, once the pod is there.
fn load(requests: &Amounts, place: &Place) -> f64 {
    let share = |name: &str| {
        let all = place.allocatable.get(name).copied().filter(|all| *all > 0)?;
        let used = place.used.get(name).copied().unwrap_or_default();
        let wanted = requests.get(name).copied().unwrap_or_default();
        Some(used.saturating_add(wanted) as f64 / all as f64)
    };
    ["cpu", "memory", PODS].into_iter().filter_map(share).fold(0.0, f64::max)
}
