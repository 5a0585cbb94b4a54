//! Where pods take and give up room: the only place where sums of nodes, groups and queues change.
//!
//! Changes, trials and plans all go through [`Cluster::occupy`] and [`Cluster::vacate`], so that a trial that is taken back
//! leaves no trace.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use super::{
    Cluster,
    groups::Standing,
    nodes::Claim,
    table::{PODS_ID, Row},
};
use crate::model::{
    group::Group,
    ids::{GroupId, QueueName, Time},
};

/// What the pods of a queue take and ask for.
#[derive(Debug, Clone, Default)]
pub struct Demand {
    pub allocated: Row,
    /// The part of `allocated` that is leaving.
    pub leaving: Row,
    pub asked: Row,
    /// Its groups that have pods on nodes, in the order in which they have to go.
    pub running: BTreeSet<Turn>,
    /// Those of them that have more pods than their minimum.
    pub with_surplus: BTreeSet<Turn>,
}

/// When a group of a queue has to go: the least important first, then the youngest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Turn {
    pub priority: i32,
    created: Reverse<Time>,
    id: GroupId,
    pub slot: usize,
}

impl Demand {
    /// Notes how much of a group there is on nodes.
    pub(super) fn list(&mut self, slot: usize, group: &Group, standing: Standing) {
        let (priority, created, id) = (group.priority, Reverse(group.created), group.id.clone());
        let turn = Turn { priority, created, id, slot };
        put(&mut self.with_surplus, &turn, standing == Standing::Surplus);
        put(&mut self.running, &turn, standing != Standing::Absent);
    }
}

fn put(turns: &mut BTreeSet<Turn>, turn: &Turn, is_in: bool) {
    if is_in {
        turns.insert(turn.clone());
    } else {
        turns.remove(turn);
    }
}

impl Cluster {
    /// Adds a pod to the sums of its group and queue, or takes it away.
    pub(super) fn count(&mut self, slot: usize, times: i32) {
        let state = self.pods.get(slot);
        let request = &self.classes.get(state.class).request;
        let group = self.groups.get_mut(state.group);
        let before = group.standing();
        group.count(state, times);
        let times = i64::from(times);
        let after = group.standing();
        let queue = group.group.as_ref().map(|group| &group.queue);
        let mut demand = queue.map(|name| demand(&mut self.demand, name));
        if state.takes_room() {
            group.allocated.add_request(request, times);
            if let Some(demand) = &mut demand {
                demand.allocated.add_request(request, times);
                if state.is_leaving() {
                    demand.leaving.add_request(request, times);
                }
            }
        } else if state.is_pending() {
            group.asked.add_request(request, times);
            if let Some(demand) = &mut demand {
                demand.asked.add_request(request, times);
            }
        }
        if before != after
            && let (Some(demand), Some(known)) = (demand, &group.group)
        {
            demand.list(state.group, known, after);
        }
    }

    /// Lets a pod take room on a node.
    pub(crate) fn occupy(&mut self, slot: usize, node: usize) {
        self.count(slot, -1);
        self.pods.get_mut(slot).node = Some(node);
        self.count(slot, 1);
        self.settle(slot, node, 1);
    }

    /// Lets a pod give up its room.
    pub(crate) fn vacate(&mut self, slot: usize) {
        let Some(node) = self.pods.get(slot).node else { return };
        self.settle(slot, node, -1);
        self.count(slot, -1);
        self.pods.get_mut(slot).node = None;
        self.count(slot, 1);
    }

    /// Adds a pod to the sums of its node, or takes it away.
    fn settle(&mut self, slot: usize, node: usize, times: i64) {
        let state = self.pods.get(slot);
        let request = &self.classes.get(state.class).request;
        if state.takes_room() {
            self.nodes.used.add_request(request, times);
        }
        let place = &mut self.nodes.slots[node];
        if times > 0 {
            place.pods.push(slot);
        } else {
            place.pods.retain(|other| *other != slot);
        }
        if !state.takes_room() {
            return;
        }
        place.used.add_request(request, times);
        if state.is_leaving() {
            place.leaving.add_request(request, times);
            if place.leaving.get(PODS_ID) > 0 {
                self.nodes.with_leaving.insert(node);
            } else {
                self.nodes.with_leaving.remove(&node);
            }
        }
        if times > 0 {
            place.ports.extend(state.pod.spec.host_ports.iter().map(|port| (slot, port.clone())));
            self.neighbours.came(state, node);
        } else {
            place.ports.retain(|(other, _)| *other != slot);
            self.neighbours.went(state, node);
        }
        self.nodes.touch(node);
    }

    /// Notes that a pod is to go, or is not after all.
    pub(crate) fn set_evicted(&mut self, slot: usize, is_evicted: bool) {
        let node = self.pods.get(slot).node;
        if let Some(node) = node {
            self.settle(slot, node, -1);
        }
        self.count(slot, -1);
        self.pods.get_mut(slot).is_evicted = is_evicted;
        self.count(slot, 1);
        if let Some(node) = node {
            self.settle(slot, node, 1);
        }
        self.reopen(self.pods.get(slot).group);
    }

    /// Holds room on a node for a pod.
    pub(crate) fn claim(&mut self, slot: usize, node: usize) {
        let old = self.release(slot);
        let state = self.pods.get_mut(slot);
        state.claim = Some(node);
        state.pod.nominated = Some(self.nodes.name(node).clone());
        let group = self.groups.get_mut(state.group);
        group.claims += 1;
        let request = self.classes.get(state.class).request.clone();
        let claim = Claim { pod: slot, group: state.group, priority: group.priority(), request };
        self.nodes.slots[node].claims.push(claim);
        self.nodes.with_claims.insert(node);
        self.nodes.touch(node);
        // Only now: the old node may be the new one, known by nothing but this claim.
        old.into_iter().for_each(|old| self.nodes.forget_if_unused(old));
    }

    /// Holds room for a pod no longer.
    pub(crate) fn unclaim(&mut self, slot: usize) {
        let old = self.release(slot);
        old.into_iter().for_each(|old| self.nodes.forget_if_unused(old));
    }

    /// Takes away the claim of a pod; returns the node.
    fn release(&mut self, slot: usize) -> Option<usize> {
        let state = self.pods.get_mut(slot);
        state.pod.nominated = None;
        let node = state.claim.take()?;
        self.groups.get_mut(state.group).claims -= 1;
        self.nodes.slots[node].claims.retain(|claim| claim.pod != slot);
        if self.nodes.slots[node].claims.is_empty() {
            self.nodes.with_claims.remove(&node);
        }
        self.nodes.touch(node);
        Some(node)
    }
}

/// Returns the demand of a queue, also of one that does not exist.
pub(super) fn demand<'a>(all: &'a mut BTreeMap<QueueName, Demand>, name: &QueueName) -> &'a mut Demand {
    if !all.contains_key(name) {
        all.insert(name.clone(), Demand::default());
    }
    all.get_mut(name).expect("it has just been put there")
}
