//! Lets groups into their queues: only then are their pods created.
//!
//! A group is admitted if its minimum fits into its queue's limits and into what is free, where groups that were just
//! admitted count too while their pods do not come (for [`Policy::admission_ms`](crate::Policy), no longer). Groups whose pods
//! exist take nothing away here: they have room or wait for it themselves. The first of each queue and priority is admitted
//! without room, also if the limit of a queue above its own is in the way, so that its pods exist for an autoscaler, for
//! preemption and for reclaim; so an idle cluster blocks nobody. Who has waited too long is admitted likewise: room and
//! limits are held for pods only. At most [`WAITING_MAX`] groups of a queue wait with pods, or more whose minimum has room.
//! A limit on the number of jobs lets nobody in who could not run.

use std::{cmp::Reverse, collections::BTreeMap};

use super::{Cycle, Wait};
use crate::{cluster::table::Request, model::queue::Dequeue, plan::Step};

/// How many groups of a queue may wait with pods that have no room.
const WAITING_MAX: usize = 10;
/// How many of them may have come in only because they had waited too long: what can never run leaves places to others.
const OVERDUE_MAX: usize = WAITING_MAX / 2;

impl Cycle<'_> {
    /// Admits a group whose pods exist already: there is nothing to hold back.
    pub fn admit_at_once(&mut self, slot: usize) {
        if self.cluster.groups.get(slot).admitted().is_none() {
            self.let_in(slot);
        }
    }

    fn let_in(&mut self, slot: usize) {
        let state = self.cluster.groups.get_mut(slot);
        state.planned_admission = Some(self.now);
        state.told = None;
        self.plan.steps.push(Step::Admit(state.id.clone()));
        self.cluster.reopen(slot);
    }

    pub fn admit(&mut self, unadmitted: &[usize]) {
        if unadmitted.is_empty() {
            return;
        }
        self.reserve_for_admitted();
        let mut waiting = self.waiting_with_pods();
        let mut candidates = unadmitted.to_vec();
        let groups = &self.cluster.groups;
        candidates.sort_by_key(|slot| {
            let state = groups.get(*slot);
            (Reverse(state.priority()), state.group.as_ref().map(|group| group.created), &state.id)
        });
        for slot in candidates {
            match self.admits(slot, &waiting) {
                Err(wait) => self.waits.push((slot, wait)),
                Ok((account, request)) => {
                    self.expect(account, slot, request);
                    waiting.entry(account).or_default().push(self.cluster.groups.get(slot).priority());
                    self.let_in(slot);
                }
            }
        }
        for (account, request) in std::mem::take(&mut self.expected) {
            self.ledger.allocate(account, &request, -1);
        }
        self.coming_jobs.clear();
    }

    /// Counts what a group will take when its pods come.
    fn expect(&mut self, account: usize, slot: usize, request: Vec<(usize, i64)>) {
        if self.cluster.groups.get(slot).bound == 0 {
            self.coming_jobs.push(account);
        }
        self.ledger.allocate(account, &request, 1);
        self.incoming.add_request(&request, 1);
        self.expected.push((account, request));
    }

    /// Returns the queue of a group and what it will take, if it may come in.
    fn admits(&mut self, slot: usize, waiting: &BTreeMap<usize, Vec<i32>>) -> Result<(usize, Vec<(usize, i64)>), Wait> {
        let account = self.account(slot)?;
        if self.blocked.contains(&account) {
            return Err(self.behind(account));
        }
        if let Some(full) = self.full(account, slot) {
            self.block_if_strict(account);
            return Err(Wait::QueueFull(full));
        }
        let request = self.minimum(slot);
        let priority = self.cluster.groups.get(slot).priority();
        let ahead = waiting.get(&account).map_or(0, |all| all.iter().filter(|other| **other >= priority).count());
        let is_overdue = self.overdue_at(slot) <= self.now;
        let is_next = ahead == 0 || is_overdue && ahead < OVERDUE_MAX;
        let refused = match self.exceeded(account, slot, &request, true) {
            Some(exceeded) => {
                let may_wait_inside =
                    is_overdue || self.ledger.find(&exceeded.queue) != Some(account) || self.may_preempt(slot);
                let is_let_in = is_next && may_wait_inside && self.ledger.could_hold(account, &request);
                (!is_let_in).then_some(Wait::QueueLimit(exceeded))
            }
            None => {
                let has_room = (ahead < WAITING_MAX || is_overdue) && self.has_room(&request);
                (!is_next && !request.is_empty() && !has_room).then_some(Wait::NotAdmitted)
            }
        };
        match refused {
            None => Ok((account, request)),
            Some(wait) => {
                if !is_overdue {
                    self.look_again(self.overdue_at(slot));
                }
                self.block_if_strict(account);
                Err(wait)
            }
        }
    }

    /// Lets nobody of a strict queue pass one that waits.
    fn block_if_strict(&mut self, account: usize) {
        if self.ledger.accounts[account].queue.dequeue == Dequeue::Fifo {
            self.blocked.insert(account);
        }
    }

    /// Tells whether a limit may be in the way only because of less important groups, which a group with pods can push out.
    fn may_preempt(&self, slot: usize) -> bool {
        let Some(group) = &self.cluster.groups.get(slot).group else { return false };
        let running = self.cluster.demand.get(&group.queue).and_then(|demand| demand.running.first());
        self.cluster.policy.preempts && group.preempts && running.is_some_and(|first| first.priority < group.priority)
    }

    fn behind(&self, account: usize) -> Wait {
        let is_of = |slot: &usize| {
            let group = self.cluster.groups.get(*slot).group.as_ref();
            group.is_some_and(|group| self.ledger.find(&group.queue) == Some(account))
        };
        let ahead = self.waits.iter().rev().map(|(slot, _)| *slot).find(is_of);
        ahead.map_or(Wait::NotAdmitted, |slot| Wait::Behind(self.cluster.groups.get(slot).id.clone()))
    }

    fn minimum(&mut self, slot: usize) -> Vec<(usize, i64)> {
        let group = self.cluster.groups.get(slot).group.as_ref();
        let asked = group.and_then(|group| group.min_resources.clone()).unwrap_or_default();
        self.cluster.resources.row(&asked).positive()
    }

    /// Tells whether the cluster has room beside what is used and what has been admitted.
    fn has_room(&self, request: &Request) -> bool {
        let nodes = &self.cluster.nodes;
        let room = |id: usize| nodes.total.get(id) - nodes.used.get(id) - self.incoming.get(id);
        request.iter().all(|(id, amount)| *amount <= room(*id))
    }

    /// Counts what admitted groups will take whose pods are still to come.
    fn reserve_for_admitted(&mut self) {
        for slot in self.cluster.groups.open() {
            let state = self.cluster.groups.get(slot);
            let Some(until) = state.admitted().map(|time| time.plus_millis(self.cluster.policy.admission_ms)) else {
                continue;
            };
            let least = state.group.as_ref().map_or(0, |group| group.min_member);
            let is_coming = state.pending + state.placed < least && self.now < until;
            let Ok(account) = self.account(slot) else { continue };
            if is_coming {
                self.look_again(until);
                let request = self.minimum(slot);
                self.expect(account, slot, request);
            }
        }
    }

    /// Returns the priorities of the admitted groups of each queue that are not whole.
    fn waiting_with_pods(&mut self) -> BTreeMap<usize, Vec<i32>> {
        let mut waiting: BTreeMap<usize, Vec<i32>> = BTreeMap::new();
        for slot in self.cluster.groups.open() {
            let state = self.cluster.groups.get(slot);
            let is_expired = state.pods.is_empty()
                && state.admitted().is_some_and(|at| at.plus_millis(self.cluster.policy.admission_ms) <= self.now);
            if state.admitted().is_some()
                && !state.has_minimum()
                && !is_expired
                && let Ok(account) = self.account(slot)
            {
                waiting.entry(account).or_default().push(self.cluster.groups.get(slot).priority());
            }
        }
        waiting
    }
}
