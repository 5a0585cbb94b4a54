//! Queues: who gets how much.

use super::{
    amounts::Amounts,
    ids::{QueueName, Time},
};

/// A queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    pub name: QueueName,
    /// None, or `root`: directly under the root.
    pub parent: Option<QueueName>,
    /// Its part of what no queue claims with `deserved`, relative to its siblings.
    pub weight: u32,
    /// Queues with a higher one are served first.
    pub priority: i32,
    pub state: QueueState,
    /// Whether others may take back what it uses above its deserved amount.
    pub reclaimable: bool,
    pub dequeue: Dequeue,
    /// How many groups in it and below have pods on nodes at once.
    pub jobs_max: Option<u32>,
    /// How long its groups run at least before others may push them out; if it does not say, the queue above it does.
    pub min_run_ms: Option<i64>,
    /// How long its groups wait before it takes back what it deserves; if it does not say, the queue above it does.
    pub reclaim_delay_ms: Option<i64>,
    /// Until when its groups may have pods of elastic groups moved to find room.
    pub defragments_until: Option<Time>,
    /// What it never exceeds; a resource that is not named is not limited.
    pub capability: Amounts,
    /// What it can take back from others; a resource that is not named is shared by weight.
    pub deserved: Amounts,
    /// What is kept for it even while it is unused.
    pub guarantee: Amounts,
}

impl Queue {
    /// Makes an open queue of weight 1 without limits.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            parent: None,
            weight: 1,
            priority: 0,
            state: QueueState::Open,
            reclaimable: true,
            dequeue: Dequeue::Traverse,
            jobs_max: None,
            min_run_ms: None,
            reclaim_delay_ms: None,
            defragments_until: None,
            capability: Amounts::default(),
            deserved: Amounts::default(),
            guarantee: Amounts::default(),
        }
    }
}

/// Whether a queue takes new work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueState {
    Open,
    /// What has started goes on; nothing else starts.
    Closing,
    Closed,
}

/// What happens behind a group that has to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dequeue {
    /// The others wait too.
    Fifo,
    /// The others may go first.
    Traverse,
}

/// What a queue has and may have, for its status.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueUsage {
    /// What its bound pods request, with those of the queues below it.
    pub allocated: Amounts,
    /// What it would get if everybody asked for their part.
    pub deserved: Amounts,
}
