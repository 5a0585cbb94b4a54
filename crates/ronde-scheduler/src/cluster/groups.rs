//! Groups with their pods and the counts that tell whether they need a look.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    pods::{PodState, Pods},
    table::Row,
};
use crate::{
    cycle::gang::Gang,
    model::{
        group::Group,
        ids::{GroupId, Time},
    },
    plan::Reason,
};

#[derive(Debug, Clone)]
pub struct GroupState {
    pub id: GroupId,
    /// None while only pods of it are known.
    pub group: Option<Group>,
    /// Slots of its pods; sorted by [`GroupState::sort`] where the order matters.
    pub pods: Vec<usize>,
    is_sorted: bool,
    pub pending: u32,
    /// Pods that count for the minimum.
    pub placed: u32,
    /// Pods that have a node and have not ended, also those that are leaving.
    pub bound: u32,
    /// Pods that have room and are not leaving.
    pub staying: u32,
    /// Those of them that may not be evicted.
    pub fixed: u32,
    /// How long its pods that have room want to run at least, with how many want it.
    min_runs: BTreeMap<i64, u32>,
    /// What its bound pods take.
    pub allocated: Row,
    /// What its pending pods would take.
    pub asked: Row,
    /// Pods that room is held for.
    pub claims: u32,
    /// What it needs to be whole, if that was asked since its last change.
    pub gang: Option<Arc<Gang>>,
    /// Admitted by a plan that is not seen yet.
    pub planned_admission: Option<Time>,
    /// Why it waits, as last told.
    pub told: Option<(Reason, String)>,
    /// The census, the number of pods and the end that the sentence was made for.
    pub told_for: Option<(u64, u64, String)>,
    /// Since when it waits, as far as was seen here.
    pub noticed: Option<Time>,
}

/// How much of a group there is on nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Absent,
    /// Its minimum or less.
    Minimum,
    Surplus,
}

impl GroupState {
    pub fn admitted(&self) -> Option<Time> {
        self.group.as_ref().and_then(|group| group.admitted).or(self.planned_admission)
    }

    pub fn priority(&self) -> i32 {
        self.group.as_ref().map_or(0, |group| group.priority)
    }

    /// The caller begins anew when a group is let into its queue; one that never ran waits all the same.
    pub fn waiting_since(&self) -> Option<Time> {
        let told = self.group.as_ref().and_then(|group| group.waiting_since);
        let has_run = self.group.as_ref().is_some_and(|group| group.started);
        if has_run { told.or(self.noticed) } else { told.into_iter().chain(self.noticed).min() }
    }

    /// Tells whether its minimum is placed, by the number of pods alone.
    pub fn has_minimum(&self) -> bool {
        self.group.as_ref().is_some_and(|group| self.placed >= group.min_member)
    }

    /// Tells how much of it there is on nodes.
    pub fn standing(&self) -> Standing {
        match &self.group {
            _ if self.bound == 0 => Standing::Absent,
            Some(group) if self.placed > group.min_member => Standing::Surplus,
            _ => Standing::Minimum,
        }
    }

    /// Puts the pods into the order in which they are placed.
    pub fn sort(&mut self, pods: &Pods) {
        if !std::mem::replace(&mut self.is_sorted, true) {
            self.pods.sort_by(|a, b| key(pods.get(*a)).cmp(&key(pods.get(*b))));
        }
    }

    pub fn add(&mut self, slot: usize) {
        self.pods.push(slot);
        self.is_sorted = false;
    }

    pub fn remove(&mut self, slot: usize) {
        self.pods.retain(|other| *other != slot);
    }

    /// Adds a pod to the counts, or takes it away.
    pub fn count(&mut self, pod: &PodState, times: i32) {
        self.gang = None;
        let change = |counter: &mut u32, holds: bool| {
            *counter = counter.saturating_add_signed(if holds { times } else { 0 });
        };
        change(&mut self.pending, pod.is_pending());
        change(&mut self.placed, pod.is_placed());
        change(&mut self.bound, pod.takes_room());
        change(&mut self.staying, pod.is_staying());
        change(&mut self.fixed, pod.is_staying() && !pod.may_go());
        if let Some(least) = pod.pod.min_run_ms.filter(|_| pod.is_staying()) {
            let count = self.min_runs.entry(least).or_default();
            *count = count.saturating_add_signed(times);
            self.min_runs.retain(|_, count| *count > 0);
        }
    }

    /// Returns how long its pods want to run at least before others push them out.
    pub fn min_run_ms(&self) -> Option<i64> {
        self.min_runs.last_key_value().map(|(least, _)| *least)
    }
}

fn key(state: &PodState) -> (Reverse<i32>, &str, u32, &crate::PodId) {
    (Reverse(state.pod.priority), &state.pod.task, state.pod.index, &state.pod.id)
}

/// All groups.
#[derive(Debug, Clone, Default)]
pub struct Groups {
    slots: Vec<GroupState>,
    by_id: BTreeMap<GroupId, usize>,
    free: Vec<usize>,
    /// Groups that may need something, in the order of their names.
    open: BTreeSet<(GroupId, usize)>,
}

impl Groups {
    pub fn find(&self, id: &GroupId) -> Option<usize> {
        self.by_id.get(id).copied()
    }

    pub fn get(&self, slot: usize) -> &GroupState {
        &self.slots[slot]
    }

    pub fn get_mut(&mut self, slot: usize) -> &mut GroupState {
        &mut self.slots[slot]
    }

    pub fn iter(&self) -> impl Iterator<Item = (usize, &GroupState)> {
        self.by_id.values().map(|slot| (*slot, &self.slots[*slot]))
    }

    pub fn slot(&mut self, id: &GroupId) -> usize {
        if let Some(slot) = self.find(id) {
            return slot;
        }
        let state = GroupState {
            id: id.clone(),
            group: None,
            pods: Vec::new(),
            is_sorted: true,
            pending: 0,
            placed: 0,
            bound: 0,
            staying: 0,
            fixed: 0,
            min_runs: BTreeMap::new(),
            allocated: Row::default(),
            asked: Row::default(),
            claims: 0,
            gang: None,
            planned_admission: None,
            told: None,
            told_for: None,
            noticed: None,
        };
        let slot = if let Some(slot) = self.free.pop() {
            self.slots[slot] = state;
            slot
        } else {
            self.slots.push(state);
            self.slots.len() - 1
        };
        self.by_id.insert(id.clone(), slot);
        slot
    }

    pub fn forget_if_unused(&mut self, slot: usize) {
        let state = &self.slots[slot];
        if state.group.is_none() && state.pods.is_empty() && self.by_id.remove(&state.id).is_some() {
            self.open.remove(&(state.id.clone(), slot));
            self.free.push(slot);
        }
    }

    /// Notes whether a group may need something.
    pub fn set_open(&mut self, slot: usize, is_open: bool) {
        let key = (self.slots[slot].id.clone(), slot);
        if is_open {
            self.open.insert(key);
        } else {
            self.open.remove(&key);
        }
    }

    pub fn open(&self) -> Vec<usize> {
        self.open.iter().map(|(_, slot)| *slot).collect()
    }
}
