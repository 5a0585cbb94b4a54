//! The words of an elastic job: what happens, what is done about it, and how it ends.

use std::{fmt, time::Duration};

use ronde_collective::control_channel::{Assignment, Join};

use crate::start::Ended;

/// A process that was started to be a rank. Numbers are never used again: a smaller one is older.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(pub u64);

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What users know a worker by: the number before its lines. The smallest that no other worker has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkerNumber(pub usize);

impl fmt::Display for WorkerNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A host and how many ranks it has room for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostSlots {
    pub host: String,
    pub slots: usize,
}

/// What a user may choose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub min: usize,
    pub max: usize,
    /// How long the job may go without a ring.
    pub elastic_timeout: Duration,
    /// How many rings may follow the first.
    pub reset_limit: Option<u32>,
    /// How long a host that failed is left alone: the first time, and at most.
    pub cooldown: (Duration, Duration),
    /// How long those who are ready wait for those who have been started with them.
    pub gather: Duration,
    /// How long a rank of a removed host may take to come to its next commit.
    pub leave_grace: Duration,
    /// Between a request to end and the end by force.
    pub stop_grace: Duration,
    /// How long a worker that hears no word goes on by itself, at most.
    pub fence: Duration,
}

impl Settings {
    pub const fn new(min: usize, max: usize) -> Self {
        Self {
            min,
            max,
            elastic_timeout: Duration::from_secs(600),
            reset_limit: None,
            cooldown: (Duration::from_secs(1), Duration::from_secs(60)),
            gather: Duration::from_secs(3),
            leave_grace: Duration::from_secs(60),
            stop_grace: Duration::from_secs(5),
            fence: Duration::from_secs(20),
        }
    }
}

/// What happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The hosts that the job may use now.
    Hosts(Vec<HostSlots>),
    DiscoveryFailed(String),
    Started(WorkerId),
    StartFailed(WorkerId, String),
    /// A worker has its control channel, for the first time or again.
    Connected(WorkerId),
    Joined(WorkerId, Join),
    Checked {
        worker: WorkerId,
        generation: u64,
        checks: u64,
    },
    Committed {
        worker: WorkerId,
        generation: u64,
    },
    /// A worker has not been heard of for so long that it counts as gone.
    Silent(WorkerId),
    Ended(WorkerId, Ended),
    /// The user wants the end; the second time at once.
    Quit,
    /// The time that the driver asked for has come.
    Tick,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    Start {
        worker: WorkerId,
        host: String,
        slot: usize,
        number: WorkerNumber,
        /// How many workers its host may have.
        local_size: usize,
    },
    /// Answers a worker that asked for a ring.
    Assign(WorkerId, Assignment),
    /// The other answer: it may go.
    Leave(WorkerId),
    Notice {
        worker: WorkerId,
        generation: u64,
        change: u8,
    },
    Interrupt {
        worker: WorkerId,
        generation: u64,
        at: u64,
    },
    /// Nobody needs to wait for the members of this generation any more.
    GiveUp(u64),
    /// Asks the process to end.
    Stop(WorkerId),
    Kill(WorkerId),
    /// A sentence for the user.
    Say(String),
    /// The last command: nothing runs any more.
    Finish(ElasticOutcome),
}

/// Some hosts went.
pub(super) const REMOVED: u8 = 1;
/// Some hosts came.
pub(super) const ADDED: u8 = 2;

/// How a job ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ElasticOutcome {
    Done,
    /// Workers fail by themselves, again and again or all at once.
    Failed(Failure),
    /// There were too few ranks for too long.
    Short {
        ready: usize,
        min: usize,
        waited: Duration,
    },
    ResetLimit(u32),
    /// The first look for hosts failed.
    Discovery(String),
    /// Nobody died, and yet no ring came together.
    NoRing(String),
    Interrupted,
}

/// The worker that is to be named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub worker: WorkerId,
    pub number: WorkerNumber,
    pub host: String,
    pub rank: Option<usize>,
    pub ended: Ended,
    pub why: &'static str,
}
