//! Nodes with what is used on them, and the log of those that changed.
//!
//! A node has a slot for as long as it exists or has pods; decisions are ordered by its rank, which follows the names, and
//! never by slots. A pod may be bound to a node that is not known yet: its slot is then absent.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    classes::Class,
    table::{AMOUNT_MAX, PODS_ID, Request, Resources, Row},
};
use crate::model::{amounts::PODS, ids::NodeName, node::Node, pod::HostPort};

/// Entries that the log has at most for every node; then it forgets the older half, and views that are older are rebuilt.
const LOG_PER_NODE: usize = 8;

/// Which room counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// What is free.
    Now,
    /// What is free once those that are leaving are gone.
    Future,
    /// What is free once everybody who runs now is gone.
    Empty,
}

impl Mode {
    pub const ALL: [Self; 3] = [Self::Now, Self::Future, Self::Empty];
}

/// Room on a node that is held for a pod of a group.
#[derive(Debug, Clone)]
pub struct Claim {
    pub pod: usize,
    pub group: usize,
    pub priority: i32,
    pub request: Box<Request>,
}

#[derive(Debug, Clone)]
pub struct NodeState {
    pub node: Node,
    /// The node itself is known, not only pods that are bound to it.
    pub is_present: bool,
    pub alloc: Row,
    pub used: Row,
    /// The part of `used` that is leaving.
    pub leaving: Row,
    /// The part of `used` that is only tried.
    pub trial: Row,
    pub pods: Vec<usize>,
    pub ports: Vec<(usize, HostPort)>,
    pub claims: Vec<Claim>,
    pub has_devices: bool,
    /// Position of the name among all nodes.
    pub rank: u32,
    /// Grows with every change.
    pub version: u32,
    /// Grows with changes of the node itself: labels, taints, readiness.
    pub spec_version: u32,
}

impl NodeState {
    #[inline]
    pub fn room(&self, id: usize, mode: Mode) -> i64 {
        let alloc = self.alloc.get(id);
        match mode {
            Mode::Now => alloc - self.used.get(id),
            Mode::Future => alloc - self.used.get(id) + self.leaving.get(id),
            Mode::Empty => alloc - self.trial.get(id),
        }
    }

    /// Returns how many pods of a class the room is enough for, whatever else they ask.
    pub fn fits(&self, class: &Class, mode: Mode) -> u32 {
        let count = |(id, amount): &(usize, i64)| self.room(*id, mode).max(0) / amount;
        let fits = class.request.iter().map(count).min().unwrap_or(0);
        let is_taken = mode != Mode::Empty && self.clashes(class);
        let fits = if is_taken { 0 } else { fits.min(class.per_node_max) };
        u32::try_from(fits).unwrap_or(u32::MAX)
    }

    /// Returns how many pods fit beside what is held for others that may not be pushed aside.
    pub fn fits_beside_claims(&self, class: &Class, mode: Mode, asker: (usize, i32)) -> u32 {
        let held = |id: usize| self.held(id, asker);
        // Room that will be free counts for the claims on it.
        let room = |id: usize| match mode {
            Mode::Now => self.room(id, Mode::Future).saturating_sub(held(id)).min(self.room(id, Mode::Now)),
            _ => self.room(id, mode).saturating_sub(held(id)),
        };
        let count = |(id, amount): &(usize, i64)| room(*id).max(0) / amount;
        let fits = class.request.iter().map(count).min().unwrap_or(0);
        u32::try_from(fits).unwrap_or(u32::MAX).min(self.fits(class, mode))
    }

    /// Returns how much is held for groups that this one may not push aside.
    pub fn held(&self, id: usize, (group, priority): (usize, i32)) -> i64 {
        let heeded = self.claims.iter().filter(|claim| claim.group != group && claim.priority >= priority);
        heeded.flat_map(|claim| claim.request.iter()).filter(|(other, _)| *other == id).map(|(_, amount)| amount).sum()
    }

    fn clashes(&self, class: &Class) -> bool {
        let wanted = &class.spec.host_ports;
        !wanted.is_empty() && self.ports.iter().any(|(_, taken)| wanted.iter().any(|port| port.clashes_with(taken)))
    }
}

/// All nodes.
#[derive(Debug, Clone, Default)]
pub struct Nodes {
    pub slots: Vec<NodeState>,
    by_name: BTreeMap<NodeName, usize>,
    free: Vec<usize>,
    /// Slots of nodes that changed, oldest first; the first has number `log_start`.
    log: Vec<u32>,
    log_start: u64,
    /// Grows when nodes come, go or change what they offer.
    pub shape: u64,
    /// Ranks have to be given anew.
    is_unranked: bool,
    /// What all present nodes offer.
    pub total: Row,
    /// What all pods on nodes take.
    pub used: Row,
    /// Slots of nodes with room that is held for someone.
    pub with_claims: BTreeSet<usize>,
    /// Slots of nodes with pods that are leaving.
    pub with_leaving: BTreeSet<usize>,
}

impl Nodes {
    pub fn find(&self, name: &NodeName) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    pub fn name(&self, slot: usize) -> &NodeName {
        &self.slots[slot].node.name
    }

    /// Returns present nodes in the order of their names.
    pub fn present(&self) -> impl Iterator<Item = (usize, &NodeState)> {
        self.by_name.values().map(|slot| (*slot, &self.slots[*slot])).filter(|(_, state)| state.is_present)
    }

    /// Returns the slot of a node; makes an absent one if it is not known.
    pub fn slot(&mut self, name: &NodeName) -> usize {
        if let Some(slot) = self.find(name) {
            return slot;
        }
        let state = NodeState {
            node: Node::new(name.as_str(), crate::Amounts::default()),
            is_present: false,
            alloc: Row::default(),
            used: Row::default(),
            leaving: Row::default(),
            trial: Row::default(),
            pods: Vec::new(),
            ports: Vec::new(),
            claims: Vec::new(),
            has_devices: false,
            rank: 0,
            version: 0,
            spec_version: 0,
        };
        let slot = if let Some(slot) = self.free.pop() {
            self.slots[slot] = state;
            slot
        } else {
            self.slots.push(state);
            self.slots.len() - 1
        };
        self.by_name.insert(name.clone(), slot);
        self.reshape();
        slot
    }

    pub fn set(&mut self, node: Node, resources: &mut Resources) {
        let slot = self.slot(&node.name.clone());
        if self.slots[slot].is_present && self.slots[slot].node == node {
            return;
        }
        let mut alloc = resources.row(&node.allocatable);
        if node.allocatable.get(PODS).is_none() {
            alloc.set(PODS_ID, AMOUNT_MAX);
        }
        let old = &mut self.slots[slot];
        if !old.is_present {
            self.is_unranked = true;
        }
        let offered = std::mem::take(&mut old.alloc);
        self.total.add_row(&offered, -1);
        self.total.add_row(&alloc, 1);
        old.has_devices = alloc.iter().any(|(id, amount)| amount > 0 && resources.is_device(id));
        old.alloc = alloc;
        old.is_present = true;
        old.node = node;
        self.respecified(slot);
    }

    pub fn remove(&mut self, name: &NodeName) {
        let Some(slot) = self.find(name) else { return };
        let state = &mut self.slots[slot];
        if state.is_present {
            state.is_present = false;
            let offered = std::mem::take(&mut state.alloc);
            self.total.add_row(&offered, -1);
            self.respecified(slot);
        }
        self.forget_if_unused(slot);
    }

    /// Gives up the slot of a node that is gone and has no pods left.
    pub fn forget_if_unused(&mut self, slot: usize) {
        let state = &self.slots[slot];
        if state.is_present || !state.pods.is_empty() || !state.claims.is_empty() {
            return;
        }
        if self.by_name.remove(&state.node.name).is_some() {
            self.free.push(slot);
            self.reshape();
        }
    }

    fn respecified(&mut self, slot: usize) {
        self.slots[slot].spec_version += 1;
        self.shape += 1;
        self.touch(slot);
    }

    fn reshape(&mut self) {
        self.shape += 1;
        self.is_unranked = true;
        self.restart_log();
    }

    /// Makes every view older than this be built again.
    fn restart_log(&mut self) {
        self.log_start += self.log.len() as u64 + 1;
        self.log.clear();
    }

    /// Not all of it: every view would have to be built again, and one cycle in many would take ten times as long.
    fn forget_half_of_log(&mut self) {
        let old = self.log.len() / 2;
        self.log.drain(..old);
        self.log_start += old as u64;
    }

    /// Notes that something about a node changed.
    #[inline]
    pub fn touch(&mut self, slot: usize) {
        self.slots[slot].version = self.slots[slot].version.wrapping_add(1);
        if self.log.len() > LOG_PER_NODE * self.slots.len() + 1024 {
            self.forget_half_of_log();
        }
        #[expect(clippy::cast_possible_truncation, reason = "there are fewer than 2^32 nodes")]
        self.log.push(slot as u32);
    }

    pub fn log_end(&self) -> u64 {
        self.log_start + self.log.len() as u64
    }

    /// Returns the nodes that changed since a position of the log; None if that is too long ago.
    pub fn changed_since(&self, position: u64) -> Option<&[u32]> {
        let start = position.checked_sub(self.log_start)?;
        self.log.get(usize::try_from(start).ok()?..)
    }

    /// Gives ranks by name after nodes came or went.
    pub fn rank(&mut self) {
        if !std::mem::take(&mut self.is_unranked) {
            return;
        }
        for (rank, slot) in self.by_name.values().enumerate() {
            self.slots[*slot].rank = u32::try_from(rank).unwrap_or(u32::MAX);
        }
        self.restart_log();
    }
}
