//! What has happened: the record of every job, and the state of the cluster over time.

use ronde_scheduler::{Amounts, GroupId, QueueName, Reason, ResourceName};

/// Everything that a simulation tells.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    pub begin: i64,
    /// When the last thing happened.
    pub end: i64,
    /// In the order of the scenario.
    pub records: Vec<Record>,
    pub preemptions: Vec<Preemption>,
    pub samples: Vec<Sample>,
    /// The names of the queues, in the order of the numbers in samples.
    pub queues: Vec<QueueName>,
    /// The resource that matters most: a device if there is one.
    pub resource: ResourceName,
    /// By resource: what was used and what there was, times milliseconds.
    pub usage: Vec<(ResourceName, i128, i128)>,
    /// By queue: what it had of the resource, and what it was entitled to while somebody waited, times milliseconds.
    pub shares: Vec<Share>,
    /// What there was at the beginning.
    pub nodes: usize,
    pub capacity: Amounts,
    /// The job with which the simulation was given up: it was pushed out again and again.
    pub circle: Option<usize>,
}

/// What a queue had.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Share {
    pub used: i128,
    /// What it had while somebody waited, and what it deserved and wanted then.
    pub had: i128,
    pub entitled: i128,
}

/// What became of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    pub arrival: i64,
    pub first_start: Option<i64>,
    pub end: Option<i64>,
    /// When it ran, and with how many pods.
    pub segments: Vec<Segment>,
    /// How often its gang was broken while it ran.
    pub breaks: u32,
    /// Work that was lost with that, in milliseconds of the whole job.
    pub lost: i64,
    /// How often it changed its size by itself.
    pub resizes: u32,
    /// Why it waits at the end, if it does.
    pub waits: Option<(Reason, String)>,
}

/// A time in which a job ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    pub from: i64,
    pub to: i64,
    pub pods: u32,
}

/// Pods that were pushed out for a gang.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preemption {
    pub at: i64,
    pub job: usize,
    pub by: GroupId,
    /// For a queue that had less than it deserves; otherwise for a gang of higher priority.
    pub reclaimed: bool,
    pub pods: u32,
}

/// The cluster at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    pub at: i64,
    /// How much of the resource each queue uses.
    pub used: Vec<i64>,
    pub capacity: i64,
    pub waiting: usize,
}

impl Record {
    /// How long it waited for its first start; none if it never started.
    pub fn wait(&self) -> Option<i64> {
        Some(self.first_start? - self.arrival)
    }

    /// How long it ran.
    pub fn ran(&self) -> i64 {
        self.segments.iter().map(|segment| segment.to - segment.from).sum()
    }
}
