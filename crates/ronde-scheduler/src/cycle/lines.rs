//! Who is next: the lines of groups before each queue, and the walk down the tree of queues to the one to be served.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use super::ledger::{Ledger, WHOLE, portion};
use crate::{
    cluster::{Cluster, groups::GroupState},
    model::ids::{GroupId, Time},
};

/// The place of a group in its line: half gangs first, then by priority, by what it has, by age and by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct LinePlace {
    is_half: Reverse<bool>,
    priority: Reverse<i32>,
    share: i64,
    created: Time,
    id: GroupId,
    slot: usize,
}

impl LinePlace {
    fn of_group(cluster: &Cluster, slot: usize, is_gang: bool) -> Self {
        let state = cluster.groups.get(slot);
        Self {
            is_half: Reverse(is_gang && state.bound > 0),
            priority: Reverse(state.priority()),
            share: share(cluster, state),
            created: state.group.as_ref().map(|group| group.created).unwrap_or_default(),
            id: state.id.clone(),
            slot,
        }
    }
}

/// Returns the part of the cluster that a group has of its scarcest resource, in millionths.
fn share(cluster: &Cluster, state: &GroupState) -> i64 {
    let part =
        |(id, amount): (usize, i64)| if id == 0 { 0 } else { portion(WHOLE, amount, cluster.nodes.total.get(id)) };
    state.allocated.iter().map(part).max().unwrap_or(0)
}

/// The lines before all queues.
#[derive(Debug, Default)]
pub struct Lines {
    by_account: BTreeMap<usize, BTreeSet<LinePlace>>,
    /// How many groups stand before each queue and those below it.
    waiting: Vec<usize>,
    /// The groups are gangs that wait for their minimum.
    is_for_gangs: bool,
}

impl Lines {
    pub fn new(ledger: &Ledger, is_for_gangs: bool) -> Self {
        Self { by_account: BTreeMap::new(), waiting: vec![0; ledger.accounts.len()], is_for_gangs }
    }

    pub fn join(&mut self, cluster: &Cluster, ledger: &Ledger, account: usize, slot: usize) {
        if self.by_account.entry(account).or_default().insert(LinePlace::of_group(cluster, slot, self.is_for_gangs)) {
            ledger.path(account).into_iter().for_each(|index| self.waiting[index] += 1);
        }
    }

    /// Returns every queue with a line, and the groups in it in their order.
    pub fn all(&self) -> Vec<(usize, Vec<usize>)> {
        let line = |line: &BTreeSet<LinePlace>| line.iter().map(|place| place.slot).collect();
        self.by_account.iter().map(|(account, places)| (*account, line(places))).collect()
    }

    /// Takes the next group out of its line: down the tree by priority and share of the queues.
    pub fn next_group(&mut self, ledger: &Ledger) -> Option<(usize, usize)> {
        let mut account = 0;
        while !self.by_account.contains_key(&account) {
            let children = ledger.accounts[account].children.iter().filter(|child| self.waiting[**child] > 0);
            account = *children.min_by_key(|child| {
                let queue = &ledger.accounts[**child].queue;
                (Reverse(queue.priority), ledger.share(**child), &queue.name)
            })?;
        }
        let place = self.by_account.get_mut(&account)?.pop_first()?;
        self.left(ledger, account, 1);
        Some((account, place.slot))
    }

    /// Sends everybody in a line away; returns them in their order.
    pub fn clear(&mut self, ledger: &Ledger, account: usize) -> Vec<usize> {
        let line = self.by_account.remove(&account).unwrap_or_default();
        self.left(ledger, account, line.len());
        line.into_iter().map(|place| place.slot).collect()
    }

    fn left(&mut self, ledger: &Ledger, account: usize, count: usize) {
        ledger.path(account).into_iter().for_each(|index| self.waiting[index] -= count);
        if self.by_account.get(&account).is_some_and(BTreeSet::is_empty) {
            self.by_account.remove(&account);
        }
    }
}
