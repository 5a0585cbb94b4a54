//! Pods and what they ask of a node.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    amounts::Amounts,
    ids::{GroupId, NodeName, PodId, Time},
    node::Effect,
    selector::{LabelSelector, Labels, NodeSelector, NodeSelectorTerm},
};

/// A pod. Pods of other schedulers belong to a group too (of one), so that what they take is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    pub id: PodId,
    pub group: GroupId,
    /// The task (role) of the group that it plays; empty if there is none.
    pub task: Arc<str>,
    /// Its number in the task.
    pub index: u32,
    pub labels: Labels,
    /// Shared by pods made from one template, where the caller can.
    pub spec: Arc<PodSpec>,
    /// Of the pods of a group those with the higher priority are placed first.
    pub priority: i32,
    pub created: Time,
    pub phase: Phase,
    /// Where it is bound.
    pub node: Option<NodeName>,
    /// Since when it is bound.
    pub bound_since: Option<Time>,
    /// How long it runs at least before others may push it out; if it does not say, its queue does.
    pub min_run_ms: Option<i64>,
    /// Where room is held for it, as [`Step::Nominate`](crate::Step::Nominate) said.
    pub nominated: Option<NodeName>,
    /// It is being deleted.
    pub leaving: bool,
    /// May be pushed off its node for a gang that is more important.
    pub preemptable: bool,
    /// Is not to be placed yet: it has scheduling gates, or is of another scheduler.
    pub held: bool,
}

impl Pod {
    /// Makes a pending pod that only asks for resources.
    pub fn new(id: PodId, group: GroupId, requests: Amounts) -> Self {
        Self {
            id,
            group,
            task: "".into(),
            index: 0,
            labels: Labels::new(),
            spec: Arc::new(PodSpec { requests, ..PodSpec::default() }),
            priority: 0,
            created: Time::default(),
            phase: Phase::Pending,
            node: None,
            bound_since: None,
            min_run_ms: None,
            nominated: None,
            leaving: false,
            preemptable: true,
            held: false,
        }
    }
}

/// How far a pod has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Pending,
    Running,
    Succeeded,
    Failed,
}

impl Phase {
    pub fn is_finished(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// What a pod asks of a node; the same for all pods of a task.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodSpec {
    pub requests: Amounts,
    pub node_selector: Labels,
    pub node_affinity: NodeAffinity,
    pub tolerations: Vec<Toleration>,
    pub host_ports: Vec<HostPort>,
    pub volumes: Volumes,
    /// Pods that must be near.
    pub affinity: Vec<PodAffinityTerm>,
    pub preferred_affinity: Vec<Weighted<PodAffinityTerm>>,
    /// Pods that must not be near.
    pub anti_affinity: Vec<PodAffinityTerm>,
    pub preferred_anti_affinity: Vec<Weighted<PodAffinityTerm>>,
    pub spread: Vec<Spread>,
}

/// Something preferred, with how much (1 to 100).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weighted<T> {
    pub weight: i32,
    pub term: T,
}

/// Which nodes a pod wants by their labels.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeAffinity {
    pub required: Option<NodeSelector>,
    pub preferred: Vec<Weighted<NodeSelectorTerm>>,
}

/// Which taints a pod does not mind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Toleration {
    /// Empty: every key.
    pub key: String,
    /// None: whatever the value is (operator `Exists`).
    pub value: Option<String>,
    /// None: every effect.
    pub effect: Option<Effect>,
}

impl Toleration {
    /// Tolerates every taint.
    pub fn everything() -> Self {
        Self { key: String::new(), value: None, effect: None }
    }

    pub fn tolerates(&self, key: &str, value: &str, effect: Effect) -> bool {
        (self.key.is_empty() || self.key == key)
            && self.value.as_deref().is_none_or(|wanted| wanted == value)
            && self.effect.is_none_or(|wanted| wanted == effect)
    }
}

/// A port of the node that a pod takes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    pub port: u16,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: Arc<str>,
    /// Empty or `0.0.0.0`: all addresses of the node.
    pub address: Arc<str>,
}

impl HostPort {
    pub fn clashes_with(&self, other: &Self) -> bool {
        let is_any = |address: &str| address.is_empty() || address == "0.0.0.0";
        self.port == other.port
            && self.protocol == other.protocol
            && (is_any(&self.address) || is_any(&other.address) || self.address == other.address)
    }
}

/// Where the volumes of a pod can be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Volumes {
    /// Each volume on one of the nodes that its selector selects.
    On(Vec<NodeSelector>),
    /// Nowhere yet, with the reason as a fragment: ``claim `data` does not exist``.
    Missing(String),
}

impl Default for Volumes {
    fn default() -> Self {
        Self::On(Vec::new())
    }
}

/// Pods near which a pod wants to be, or not to be. `matchLabelKeys` are merged into the selector by the caller.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodAffinityTerm {
    /// Near is: on nodes with the same value of this label.
    pub topology_key: String,
    /// None selects no pod.
    pub selector: Option<LabelSelector>,
    /// Without any, and without a selector of namespaces, the pod's own.
    pub namespaces: BTreeSet<String>,
    pub namespace_selector: Option<LabelSelector>,
}

impl PodAffinityTerm {
    /// Makes a term about pods of the same namespace.
    pub fn new(topology_key: &str, selector: LabelSelector) -> Self {
        Self {
            topology_key: topology_key.to_owned(),
            selector: Some(selector),
            namespaces: BTreeSet::new(),
            namespace_selector: None,
        }
    }
}

/// How evenly pods are spread over the values of a label of nodes. `matchLabelKeys` are merged by the caller.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Spread {
    pub topology_key: String,
    pub max_skew: u32,
    /// `DoNotSchedule`; otherwise only a preference.
    pub required: bool,
    /// None counts no pod.
    pub selector: Option<LabelSelector>,
    pub min_domains: Option<u32>,
    /// Counts only nodes that the pod's node selector and affinity allow (the default of Kubernetes).
    pub honours_affinity: bool,
    /// Counts only nodes whose taints the pod tolerates.
    pub honours_taints: bool,
}
