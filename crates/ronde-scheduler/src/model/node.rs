//! Nodes, their taints, and the parts of the network that they are in.

use super::{
    amounts::Amounts,
    ids::{HyperNodeName, NodeName},
    selector::Labels,
};

/// A node, as far as placing is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub name: NodeName,
    pub labels: Labels,
    pub taints: Vec<Taint>,
    /// What pods may use of it. Without an entry `pods` their number is not limited.
    pub allocatable: Amounts,
    /// Takes no new pods: cordoned. Pods that tolerate the taint of cordoned nodes are let in.
    pub unschedulable: bool,
    /// Takes no new pods at all: its agent is not heard of.
    pub ready: bool,
}

impl Node {
    /// Makes a ready node without labels and taints.
    pub fn new(name: &str, allocatable: Amounts) -> Self {
        Self {
            name: name.into(),
            labels: Labels::new(),
            taints: Vec::new(),
            allocatable,
            unschedulable: false,
            ready: true,
        }
    }
}

/// What a taint does to pods that do not tolerate it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    NoSchedule,
    PreferNoSchedule,
    NoExecute,
}

/// A mark on a node that keeps pods away.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Taint {
    pub key: String,
    pub value: String,
    pub effect: Effect,
}

/// A part of the network: nodes, or smaller parts, that are close to each other.
///
/// The caller resolves patterns and label selectors of members; nodes that do not exist are skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HyperNode {
    pub name: HyperNodeName,
    /// The lower, the closer.
    pub tier: u32,
    pub nodes: Vec<NodeName>,
    pub children: Vec<HyperNodeName>,
}
