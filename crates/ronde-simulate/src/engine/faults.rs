//! What happens to nodes: they come, are lost, are taken back by their owner after a notice, are emptied and come back.
//!
//! The pods of a lost node are made again at once: how long a cluster takes to notice is not simulated.

use std::collections::BTreeSet;

use ronde_scheduler::{Change, Node, NodeName, Pod};

use super::{Move, NodeState, Simulation, agenda::Event};
use crate::scenario::{Fault, FaultKind};

/// Returns the node that a fault brings.
pub fn added(fault: &Fault) -> Option<&Node> {
    if let FaultKind::Add { node } = &fault.kind { Some(node) } else { None }
}

impl<'a> Simulation<'a> {
    pub(super) fn node_joins(&mut self, node: &Node) {
        self.tell(&Move::NodeJoins(node));
        self.usage.offer(node, 1);
        let capacity = self.usage.row(&node.allocatable);
        let used = vec![0; capacity.len()];
        let state = NodeState { node: node.clone(), used, capacity, pods: BTreeSet::default() };
        self.nodes.insert(node.name.clone(), state);
        self.cluster.apply(Change::Node(node.clone()));
    }

    pub(super) fn fault(&mut self, number: usize) {
        match &self.scenario.faults[number].kind {
            FaultKind::Lose { node, back_after } => {
                self.node_is_gone(node);
                self.comes_back(number, *back_after);
            }
            FaultKind::Reclaim { node, notice, .. } => {
                self.cordon(node, false);
                self.agenda.note(self.now.saturating_add(*notice), Event::Lost { fault: number });
            }
            FaultKind::Drain { node, back_after } => {
                self.cordon(node, false);
                self.empty(node);
                self.comes_back(number, *back_after);
            }
            FaultKind::Add { node } => {
                if !self.nodes.contains_key(&node.name) {
                    self.node_joins(node);
                }
            }
        }
    }

    fn comes_back(&mut self, fault: usize, after: Option<i64>) {
        if let Some(after) = after {
            self.agenda.note(self.now.saturating_add(after), Event::Back { fault });
        }
    }

    /// A node that its owner wants back is taken.
    pub(super) fn notice_ends(&mut self, number: usize) {
        if let FaultKind::Reclaim { node, back_after, .. } = &self.scenario.faults[number].kind {
            self.node_is_gone(node);
            self.comes_back(number, *back_after);
        }
    }

    pub(super) fn node_is_back(&mut self, number: usize) {
        let name = match &self.scenario.faults[number].kind {
            FaultKind::Lose { node, .. } | FaultKind::Reclaim { node, .. } | FaultKind::Drain { node, .. } => node,
            FaultKind::Add { node } => &node.name,
        };
        if self.nodes.contains_key(name) {
            self.cordon(name, true);
        } else if let Some(node) = self.known(name) {
            self.node_joins(node);
        }
    }

    /// Finds a node of the scenario, also one that came later.
    fn known(&self, name: &NodeName) -> Option<&'a Node> {
        let scenario = self.scenario;
        let mut all = scenario.nodes.iter().chain(scenario.faults.iter().filter_map(added));
        all.find(|node| node.name == *name)
    }

    fn node_is_gone(&mut self, name: &NodeName) {
        let Some(state) = self.nodes.get(name) else { return };
        let pods: Vec<(usize, usize)> = state.pods.iter().copied().collect();
        // While the node is there, so that what is made again has nothing planned on it.
        pods.into_iter().for_each(|(job, pod)| self.make_again(job, pod));
        if let Some(state) = self.nodes.remove(name) {
            self.usage.offer(&state.node, -1);
        }
        self.tell(&Move::NodeGone(name));
        self.cluster.apply(Change::NodeGone(name.clone()));
    }

    /// Lets nothing new onto a node, or lets it again.
    fn cordon(&mut self, name: &NodeName, is_open: bool) {
        let was_open = self.known(name).is_none_or(|node| !node.unschedulable);
        if let Some(state) = self.nodes.get_mut(name) {
            state.node.unschedulable = !(is_open && was_open);
            self.cluster.apply(Change::Node(state.node.clone()));
        }
    }

    /// Tells all pods of a node to leave.
    fn empty(&mut self, name: &NodeName) {
        let Some(state) = self.nodes.get(name) else { return };
        let pods: Vec<(usize, usize)> = state.pods.iter().copied().collect();
        for (job, pod) in pods {
            let state = &self.jobs[job].pods[pod];
            if !state.is_leaving {
                let id = state.id.clone();
                let told = Pod { leaving: true, node: Some(name.clone()), ..self.pod(job, pod) };
                self.cluster.apply(Change::Pod(told));
                self.evict(&id, None);
            }
        }
    }
}
