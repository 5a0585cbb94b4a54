//! Places pods above the minimum of their groups, one after the other, whoever has least first.

use std::{collections::BTreeMap, sync::Arc};

use super::{Cycle, gang::Gang, lines::Lines, place::try_surplus, request_of};
use crate::cluster::nodes::Mode;

impl Cycle<'_> {
    pub fn place_surplus(&mut self, mut groups: Vec<(usize, usize)>) {
        groups.append(&mut self.completed);
        let mut lines = Lines::new(&self.ledger, false);
        let mut progress: BTreeMap<usize, Progress> = BTreeMap::new();
        for (account, slot) in groups.into_iter().filter(|(account, _)| !self.blocked.contains(account)) {
            // It may have been pushed out a moment ago.
            if let Some(gang) = self.cluster.gang(slot).filter(|gang| gang.needs.are_met()) {
                lines.join(self.cluster, &self.ledger, account, slot);
                progress.insert(slot, Progress { gang, next: 0, is_limited: false, lacks_room: false });
            }
        }
        while let Some((account, slot)) = lines.next_group(&self.ledger) {
            let Some(progress) = progress.get_mut(&slot) else { continue };
            if self.place_next(account, slot, progress) {
                lines.join(self.cluster, &self.ledger, account, slot);
            }
        }
        let limited = progress.iter().filter(|(_, progress)| progress.is_limited && !progress.lacks_room);
        self.plan.limited = limited.map(|(slot, _)| self.cluster.groups.get(*slot).id.clone()).collect();
        self.plan.limited.sort();
    }

    /// Places the next bundle of a group that finds room; returns whether there was one.
    fn place_next(&mut self, account: usize, slot: usize, progress: &mut Progress) -> bool {
        // One without a minimum begins here.
        if self.full(account, slot).is_some() {
            progress.is_limited = true;
            return false;
        }
        while let Some(bundle) = progress.gang.bundles.get(progress.next) {
            progress.next += 1;
            let class = self.cluster.pods.get(bundle.pods[0]).class;
            let request = request_of(self.cluster, bundle.pods.iter());
            if self.exceeded(account, slot, &request, true).is_some() {
                progress.is_limited = true;
                continue;
            }
            if self.cluster.capacity(class, Mode::Now) > 0
                && let Some(placement) = try_surplus(self.cluster, slot, &progress.gang, bundle)
            {
                self.commit(account, slot, &placement);
                return true;
            }
            progress.lacks_room = true;
        }
        false
    }
}

/// How far a group has come with its bundles.
struct Progress {
    gang: Arc<Gang>,
    next: usize,
    /// Limits hold some of them back.
    is_limited: bool,
    /// Some find no room.
    lacks_room: bool,
}
