//! Who may not be pushed out yet, and who may not push out yet.
//!
//! A gang runs for the time that its pods or its queue name before others push it out, counted from when its minimum had
//! nodes; a pod above the minimum as long, counted from when it was bound. A group waits for the delay of its queue before it
//! takes back what the queue deserves. All of it follows from times in the objects, so that it outlives a restart.

use super::{Cycle, preempt::Cause, room::Asks, victims::Victim};
use crate::model::{ids::Time, queue::Queue};

/// A group that others may push out, but not yet.
#[derive(Debug, Clone, Copy)]
pub struct NotYet {
    pub cause: Cause,
    /// The group that has to go, or the first of them.
    pub victim: usize,
    pub until: Time,
}

impl Cycle<'_> {
    /// Returns when a victim has run long enough; in the past, if it never had to.
    pub fn kept_until(&self, victim: &Victim) -> Time {
        let state = self.cluster.groups.get(victim.group);
        let (since, least) = match victim.spare {
            Some(pod) => {
                let pod = &self.cluster.pods.get(pod).pod;
                (pod.bound_since, pod.min_run_ms)
            }
            None if !self.runs_whole(victim.group) => return Time::default(),
            None => (state.group.as_ref().and_then(|group| group.whole_since), state.min_run_ms()),
        };
        let least = least.or_else(|| self.of_queue(victim.account, |queue| queue.min_run_ms)).unwrap_or(0);
        // What has just been bound does not tell yet since when.
        if least > 0 { since.unwrap_or(self.now).plus_millis(least) } else { Time::default() }
    }

    /// Tells whether the minimum of a group runs. One of which only a part is left has nothing to be kept for.
    fn runs_whole(&self, slot: usize) -> bool {
        let state = self.cluster.groups.get(slot);
        let is_known = state.group.as_ref().is_some_and(|group| group.whole_since.is_some());
        is_known || state.has_minimum() && state.gang.as_ref().is_none_or(|gang| gang.needs.are_met())
    }

    /// Returns from when on a group may take back what its queue deserves.
    pub fn may_reclaim_at(&self, asks: &Asks<'_>) -> Time {
        let delay = self.of_queue(asks.account, |queue| queue.reclaim_delay_ms).unwrap_or(0);
        self.cluster.groups.get(asks.slot).waiting_since().unwrap_or(self.now).plus_millis(delay)
    }

    /// Returns what a queue says, or the next one above it that says something.
    fn of_queue(&self, account: usize, field: impl Fn(&Queue) -> Option<i64>) -> Option<i64> {
        self.ledger.path(account).into_iter().find_map(|level| field(&self.ledger.accounts[level].queue))
    }

    /// Returns the end of the sentence of a group that waits for others to have run long enough.
    pub fn not_yet(&self, slot: usize) -> String {
        let Some(found) = self.not_yet.get(&slot) else { return String::new() };
        let verb = match found.cause {
            Cause::Preemption => "preempt",
            Cause::Reclaim => "reclaim from",
            Cause::Move => "move pods of",
        };
        format!("; may {verb} `{}` at {}", self.cluster.groups.get(found.victim).id, found.until)
    }
}
