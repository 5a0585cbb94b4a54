//! Pods, and what is planned for them and not yet seen.

use std::collections::HashMap;

use crate::model::{ids::PodId, pod::Pod};

#[derive(Debug, Clone)]
pub struct PodState {
    pub pod: Pod,
    pub class: usize,
    pub group: usize,
    /// It may be pushed off its node.
    pub is_evictable: bool,
    /// The slot of the node that it is on, also if the bind is only planned.
    pub node: Option<usize>,
    /// Its eviction is planned and not seen yet.
    pub is_evicted: bool,
    /// The slot of the node where room is held for it.
    pub claim: Option<usize>,
}

impl PodState {
    pub fn takes_room(&self) -> bool {
        self.node.is_some() && !self.pod.phase.is_finished()
    }

    pub fn is_leaving(&self) -> bool {
        self.pod.leaving || self.is_evicted
    }

    /// Has room and is not about to give it up.
    pub fn is_staying(&self) -> bool {
        self.takes_room() && !self.is_leaving()
    }

    /// May be evicted now. A bind that is only planned is not undone by another plan.
    pub fn may_go(&self) -> bool {
        self.is_evictable && self.pod.node.is_some()
    }

    /// Waits for a node.
    pub fn is_pending(&self) -> bool {
        self.node.is_none() && !self.is_leaving() && !self.pod.held && !self.pod.phase.is_finished()
    }

    /// Counts for the minimum of its group.
    pub fn is_placed(&self) -> bool {
        self.pod.phase == crate::Phase::Succeeded || (self.takes_room() && !self.is_leaving())
    }
}

/// All pods; a pod keeps its slot for as long as it exists.
#[derive(Debug, Clone, Default)]
pub struct Pods {
    slots: Vec<Option<PodState>>,
    by_id: HashMap<PodId, usize>,
    free: Vec<usize>,
}

impl Pods {
    pub fn find(&self, id: &PodId) -> Option<usize> {
        self.by_id.get(id).copied()
    }

    pub fn get(&self, slot: usize) -> &PodState {
        self.slots[slot].as_ref().expect("slots are given up only with their pod")
    }

    pub fn get_mut(&mut self, slot: usize) -> &mut PodState {
        self.slots[slot].as_mut().expect("slots are given up only with their pod")
    }

    pub fn id(&self, slot: usize) -> &PodId {
        &self.get(slot).pod.id
    }

    pub fn insert(&mut self, state: PodState) -> usize {
        let slot = self.free.pop().unwrap_or(self.slots.len());
        if slot == self.slots.len() {
            self.slots.push(None);
        }
        self.by_id.insert(state.pod.id.clone(), slot);
        self.slots[slot] = Some(state);
        slot
    }

    pub fn remove(&mut self, slot: usize) -> Option<PodState> {
        let state = self.slots[slot].take()?;
        self.by_id.remove(&state.pod.id);
        self.free.push(slot);
        Some(state)
    }

    /// Returns the slots of all pods, in no particular order.
    pub fn slots(&self) -> impl Iterator<Item = (usize, &PodState)> {
        self.slots.iter().enumerate().filter_map(|(slot, state)| Some((slot, state.as_ref()?)))
    }
}
