//! How many jobs run in a queue, and whether one more may.
//!
//! A job is a group; it runs from its first pod on a node until its last has left, also while it is short of pods. So the
//! count follows from the objects alone. A limit is kept by waiting only: nobody is pushed out for it, and nobody is who
//! runs already when it is lowered. Cost: the queues below one with a limit.

use super::Cycle;
use crate::model::ids::QueueName;

/// A limit that is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Full {
    pub queue: QueueName,
    pub limit: u32,
}

impl Cycle<'_> {
    /// Returns the first limit on the way to the root that keeps a group from beginning to run.
    pub fn full(&self, account: usize, slot: usize) -> Option<Full> {
        if self.cluster.groups.get(slot).bound > 0 {
            return None;
        }
        self.ledger.path(account).into_iter().find_map(|index| {
            let queue = &self.ledger.accounts[index].queue;
            let limit = queue.jobs_max.filter(|limit| self.count_jobs(index) >= *limit as usize)?;
            Some(Full { queue: queue.name.clone(), limit })
        })
    }

    /// Counts the groups of a queue and of those below it that run, and those that are about to.
    fn count_jobs(&self, account: usize) -> usize {
        let queue = &self.ledger.accounts[account];
        let running = self.cluster.demand.get(&queue.queue.name).map_or(0, |demand| demand.running.len());
        let coming = self.coming_jobs.iter().filter(|other| **other == account).count();
        running + coming + queue.children.iter().map(|child| self.count_jobs(*child)).sum::<usize>()
    }
}
