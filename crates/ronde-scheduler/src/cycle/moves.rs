//! Moves pods out of the way: those above the minimum of elastic groups, which have room elsewhere.
//!
//! On request of an administrator only ([`Queue::defragments_until`](crate::Queue)), and for one gang at a time: where the pods
//! of one go must not be counted as free for the next. A pod moves by being evicted and made again, so that nothing has
//! to be remembered: the room that it leaves is held for the gang, like all room that is made.

use super::{
    Cycle, minimum_request,
    place::{self, Placement},
    preempt::Cause,
    room::Asks,
};
use crate::{cluster::nodes::Mode, model::pod::Phase};

impl Cycle<'_> {
    /// Moves pods of elastic groups to where a gang has no use for the room.
    pub fn move_others(&mut self, asks: &Asks<'_>) -> bool {
        let is_asked = |account: usize| {
            self.ledger.accounts[account].queue.defragments_until.is_some_and(|until| self.now < until)
        };
        let is_moving = |slot: usize| {
            slot != asks.slot && self.cluster.groups.get(slot).claims > 0 && self.account(slot).is_ok_and(is_asked)
        };
        if asks.limited_by.is_some() || !is_asked(asks.account) || self.cluster.groups.open().into_iter().any(is_moving)
        {
            return false;
        }
        self.push_out(asks, Cause::Move)
    }

    /// Tells whether a group stays what it is if it loses a pod above its minimum: one that is on its way back to its size
    /// is left in peace.
    pub fn is_movable(&self, slot: usize) -> bool {
        let is_elastic = self.cluster.groups.get(slot).group.as_ref().is_some_and(|group| group.elastic);
        is_elastic && self.staying(slot).all(|pod| self.cluster.pods.get(pod).pod.phase == Phase::Running)
    }

    /// Returns where a gang fits if pods that were taken away have somewhere to go as well, and where these go. Whoever can
    /// stay where it was stays.
    pub fn fits_beside(&mut self, asks: &Asks<'_>, moved: &[(usize, usize)]) -> Option<(Placement, Placement)> {
        let request = minimum_request(self.cluster, asks.gang);
        if self.exceeded(asks.account, asks.slot, &request, false).is_some() {
            return None;
        }
        let placement = place::try_gang(self.cluster, asks.slot, asks.gang, Mode::Future).ok()?;
        let mut homes = Placement::new();
        let all_fit = moved.iter().all(|(pod, before)| {
            let found = place::try_again(self.cluster, *pod, *before);
            homes.extend(found.iter().flatten());
            found.is_some()
        });
        place::take_back(self.cluster, &homes);
        place::take_back(self.cluster, &placement);
        all_fit.then_some((placement, homes))
    }
}
