//! Room for gangs that begin anew: their pods end before those that follow them can be made, and less important gangs do not
//! get the room in between.
//!
//! It is kept for [`Policy::admission_ms`](crate::Policy) after the group of the new run was made, as long as pods of a group
//! that was admitted have to come.

use super::Cycle;
use crate::{
    cluster::table::{Request, Row},
    model::ids::GroupId,
};

impl Cycle<'_> {
    /// Looks for groups that begin anew and are not whole yet.
    pub fn find_reruns(&mut self) {
        for slot in self.cluster.groups.open() {
            let state = self.cluster.groups.get(slot);
            let Some(group) = state.group.as_ref().filter(|group| group.reruns) else { continue };
            let until = group.created.plus_millis(self.cluster.policy.admission_ms);
            if self.now < until && !state.has_minimum() && self.account(slot).is_ok() {
                self.look_again(until);
                let minimum = self.minimum(slot);
                self.reruns.push((slot, minimum));
            }
        }
    }

    /// Returns a more important group that begins anew, if a request does not fit beside what is kept for such groups.
    pub fn kept_for(&self, slot: usize, request: &Request) -> Option<GroupId> {
        let (groups, nodes) = (&self.cluster.groups, &self.cluster.nodes);
        let own = groups.get(slot).priority();
        let ahead = || self.reruns.iter().filter(|(other, _)| groups.get(*other).priority() > own);
        let mut kept = Row::default();
        for (other, minimum) in ahead() {
            // What its pods still have, also those that are leaving, nobody else can take.
            let has = |id: usize| groups.get(*other).allocated.get(id);
            minimum.iter().for_each(|(id, amount)| kept.add(*id, (amount - has(*id)).max(0)));
        }
        let room = |id: usize| nodes.total.get(id) - nodes.used.get(id) - kept.get(id);
        let fits = request.iter().all(|(id, amount)| kept.get(*id) == 0 || *amount <= room(*id));
        ahead().next().filter(|_| !fits).map(|(other, _)| groups.get(*other).id.clone())
    }
}
