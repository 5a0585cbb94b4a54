//! Room for gangs that find none: coming with pods that leave, made by pushing out others, or held while others end.
//!
//! Room that is promised is held by claims on nodes and on limits of queues, which everybody of the same or a lower priority
//! respects. **The bound on overtaking:** a gang that has waited for [`Policy::reserve_after_ms`](crate::Policy) is the next of its
//! queue to get claims on nodes as if they were empty, and before that its part of the limits of its queue and those above
//! it; from then on it waits at most as long as the pods run that are on those nodes or below those limits, whatever else
//! arrives with the same or a lower priority. In a strict queue the next is the first that has its pods.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use super::{
    Cycle, Wait,
    gang::Gang,
    ledger::Asker,
    lines::Lines,
    minimum_request,
    place::{self, Placement},
    request_of,
};
use crate::{
    cluster::{nodes::Mode, table::Row},
    model::{ids::Time, queue::Dequeue},
    plan::Step,
};

/// A gang that asks for room.
#[derive(Clone, Copy)]
pub struct Asks<'a> {
    pub account: usize,
    pub slot: usize,
    pub gang: &'a Gang,
    /// The queue whose limit is in the way, if it is not only a lack of room on nodes.
    pub limited_by: Option<usize>,
}

impl Cycle<'_> {
    /// Holds for each group what it was promised, and limits for the group of each queue that has waited too long.
    pub fn hold_promises(&mut self, lines: &Lines) {
        let mut overdue = Vec::new();
        for (account, mut line) in lines.all() {
            // Where nobody overtakes, only the first that has its pods has anything to be kept for it.
            if self.ledger.accounts[account].queue.dequeue == Dequeue::Fifo {
                let first = line.iter().position(|slot| !self.lacks_pods(*slot));
                let others = line.split_off(first.map_or(line.len(), |first| first + 1));
                others.into_iter().for_each(|slot| self.drop_claims(slot));
            }
            line.iter().for_each(|slot| self.hold_promise(account, *slot));
            let next =
                line.into_iter().find(|slot| self.overdue_at(*slot) <= self.now && self.could_run(account, *slot));
            let next = next.filter(|slot| self.cluster.groups.get(*slot).claims == 0);
            overdue.extend(next.map(|slot| (account, slot)));
        }
        overdue.sort_by_cached_key(|(_, slot)| {
            let state = self.cluster.groups.get(*slot);
            (Reverse(state.priority()), self.overdue_at(*slot), state.id.clone())
        });
        overdue.into_iter().for_each(|(account, slot)| self.hold_limit(account, slot));
    }

    fn lacks_pods(&mut self, slot: usize) -> bool {
        self.cluster.gang(slot).is_none_or(|gang| gang.lacking.is_some())
    }

    /// Tells whether a group has room promised, or would have some if nobody else were there.
    fn could_run(&mut self, account: usize, slot: usize) -> bool {
        if self.cluster.groups.get(slot).claims > 0 {
            return true;
        }
        let Some(gang) = self.cluster.gang(slot).filter(|gang| gang.lacking.is_none()) else { return false };
        if !self.ledger.could_hold(account, &minimum_request(self.cluster, &gang)) {
            return false;
        }
        let placement = place::try_gang(self.cluster, slot, &gang, Mode::Empty);
        placement.is_ok_and(|placement| {
            place::take_back(self.cluster, &placement);
            true
        })
    }

    fn hold_promise(&mut self, account: usize, slot: usize) {
        let state = self.cluster.groups.get(slot);
        if state.claims > 0 {
            let claimed = state.pods.iter().filter(|pod| self.cluster.pods.get(**pod).claim.is_some());
            let row = row_of(&request_of(self.cluster, claimed));
            self.ledger.hold(account, state.id.clone(), state.priority(), row);
            self.holders.insert(account);
        }
    }

    /// Holds part of the limits for a group that has waited too long: until others have ended, or until its turn in this
    /// cycle, so that nobody whose turn is earlier takes it away.
    fn hold_limit(&mut self, account: usize, slot: usize) {
        let Some(gang) = self.cluster.gang(slot) else { return };
        let request = minimum_request(self.cluster, &gang);
        let state = self.cluster.groups.get(slot);
        let (id, priority) = (state.id.clone(), state.priority());
        let is_over = |priority: i32| {
            let asker = Asker { group: &id, priority, counts_leaving: true };
            self.ledger.exceeded(account, &request, &asker).is_some()
        };
        // Two that hold against each other would both wait for ever: who is not kept waiting by those who run holds only
        // what is left beside others, and only if it gets room on nodes at its turn.
        let (is_kept, is_beside) = (is_over(i32::MAX), !is_over(priority));
        if is_kept || is_beside && !self.holders.contains(&account) && !self.is_to_be_undone(slot) {
            self.ledger.hold(account, id, priority, row_of(&request));
        }
    }

    /// Returns when a group has waited too long.
    pub fn overdue_at(&self, slot: usize) -> Time {
        let since = self.cluster.groups.get(slot).waiting_since().unwrap_or(self.now);
        since.plus_millis(self.cluster.policy.reserve_after_ms)
    }

    /// Tries to place a gang where room was promised.
    pub fn try_promised(&mut self, slot: usize, gang: &Gang) -> Option<Placement> {
        if self.cluster.groups.get(slot).claims == 0 {
            return None;
        }
        let pods = gang.bundles.iter().flat_map(|bundle| &bundle.pods);
        let claimed = pods.filter_map(|pod| Some((*pod, self.cluster.pods.get(*pod).claim?)));
        let claimed: Placement = claimed.collect();
        place::try_exactly(self.cluster, slot, gang, &claimed)
    }

    /// Finds room for a gang in the future; returns what it then waits for.
    pub fn make_room(&mut self, asks: &Asks<'_>) -> Option<Wait> {
        if self.promise_holds(asks, Mode::Future) {
            return Some(Wait::Coming);
        }
        if asks.gang.least.iter().any(|(class, least)| self.cluster.capacity(*class, Mode::Empty) < *least) {
            return None;
        }
        if !self.cluster.nodes.with_leaving.is_empty()
            && let Some(placement) = self.fits_in_future(asks)
        {
            self.nominate(asks, &placement);
            return Some(Wait::Coming);
        }
        if self.move_others(asks) || self.preempt(asks) || self.reclaim(asks) {
            return Some(Wait::Coming);
        }
        if asks.limited_by.is_some() { None } else { self.reserve(asks) }
    }

    /// Tells whether the room that a gang was promised is still there, or will be.
    fn promise_holds(&self, asks: &Asks<'_>, mode: Mode) -> bool {
        let state = self.cluster.groups.get(asks.slot);
        let mut wanted: BTreeMap<usize, Row> = BTreeMap::new();
        let mut needs = asks.gang.needs.clone();
        for bundle in &asks.gang.bundles {
            let claims: Vec<_> = bundle.pods.iter().map(|pod| self.cluster.pods.get(*pod).claim).collect();
            if claims.iter().any(Option::is_none) {
                continue;
            }
            needs.meet(bundle, self.cluster);
            for (pod, node) in bundle.pods.iter().zip(claims.into_iter().flatten()) {
                let class = self.cluster.classes.get(self.cluster.pods.get(*pod).class);
                if class.mismatch(&self.cluster.nodes.slots[node]).is_some() {
                    return false;
                }
                wanted.entry(node).or_default().add_request(&class.request, 1);
            }
        }
        let fits = |(node, row): (&usize, &Row)| {
            let place = &self.cluster.nodes.slots[*node];
            let held = |id: usize| place.held(id, (asks.slot, state.priority()));
            row.positive().iter().all(|(id, amount)| amount.saturating_add(held(*id)) <= place.room(*id, mode))
        };
        // Nobody leaves and still it was not placed: something else is in the way.
        let is_moving = |node: &usize| mode == Mode::Empty || self.cluster.nodes.with_leaving.contains(node);
        state.claims > 0 && needs.are_met() && wanted.iter().all(fits) && wanted.keys().any(is_moving)
    }

    /// Returns where a gang fits once those that are leaving are gone, limits included.
    pub fn fits_in_future(&mut self, asks: &Asks<'_>) -> Option<Placement> {
        let request = minimum_request(self.cluster, asks.gang);
        if self.exceeded(asks.account, asks.slot, &request, false).is_some() {
            return None;
        }
        let placement = place::try_gang(self.cluster, asks.slot, asks.gang, Mode::Future).ok()?;
        place::take_back(self.cluster, &placement);
        Some(placement)
    }

    /// Holds room for a gang that has waited too long.
    fn reserve(&mut self, asks: &Asks<'_>) -> Option<Wait> {
        if self.is_to_be_undone(asks.slot) {
            return None;
        }
        let at = self.overdue_at(asks.slot);
        if self.now < at {
            self.look_again(at);
            return None;
        }
        if self.promise_holds(asks, Mode::Empty) {
            return Some(Wait::Held);
        }
        let has_claims = self.cluster.groups.get(asks.slot).claims > 0;
        if !has_claims && self.holders.contains(&asks.account) {
            return None;
        }
        let placement = place::try_gang(self.cluster, asks.slot, asks.gang, Mode::Empty).ok()?;
        place::take_back(self.cluster, &placement);
        self.nominate(asks, &placement);
        Some(Wait::Held)
    }

    /// Holds room for each pod of a placement that is to come.
    pub fn nominate(&mut self, asks: &Asks<'_>, placement: &[(usize, usize)]) {
        let chosen: BTreeSet<usize> = placement.iter().map(|(pod, _)| *pod).collect();
        for pod in self.cluster.groups.get(asks.slot).pods.clone() {
            if !chosen.contains(&pod) {
                self.drop_claim(pod);
            }
        }
        for (pod, node) in placement {
            if self.cluster.pods.get(*pod).claim != Some(*node) {
                self.cluster.claim(*pod, *node);
                let (pod, node) = (self.cluster.pods.id(*pod).clone(), self.cluster.nodes.name(*node).clone());
                self.plan.steps.push(Step::Nominate { pod, node: Some(node) });
            }
        }
        let state = self.cluster.groups.get(asks.slot);
        let (id, priority) = (state.id.clone(), state.priority());
        let row = row_of(&request_of(self.cluster, placement.iter().map(|(pod, _)| pod)));
        self.ledger.hold(asks.account, id, priority, row);
        self.holders.insert(asks.account);
    }

    /// Holds room for a group no longer.
    pub fn drop_claims(&mut self, slot: usize) {
        if self.cluster.groups.get(slot).claims > 0 {
            let pods = self.cluster.groups.get(slot).pods.clone();
            pods.into_iter().for_each(|pod| self.drop_claim(pod));
            let id = self.cluster.groups.get(slot).id.clone();
            self.ledger.release(&id);
        }
    }

    fn drop_claim(&mut self, pod: usize) {
        if self.cluster.pods.get(pod).claim.is_some() {
            self.cluster.unclaim(pod);
            let pod = self.cluster.pods.id(pod).clone();
            self.plan.steps.push(Step::Nominate { pod, node: None });
        }
    }
}

fn row_of(request: &[(usize, i64)]) -> Row {
    let mut row = Row::default();
    row.add_request(request, 1);
    row
}
