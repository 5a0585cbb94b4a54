//! What a cycle decides: steps in the order in which they are to be done, and why the others wait.

use std::fmt;

use crate::model::ids::{GroupId, NodeName, PodId, Time};

/// The decision of one cycle.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// The binds of a gang follow each other; a caller may do them at once.
    pub steps: Vec<Step>,
    /// Groups whose minimum is complete with this plan.
    pub ready: Vec<GroupId>,
    /// Groups that wait, if that or the reason is news. Those of earlier plans that are not told again wait as before.
    pub waiting: Vec<Waiting>,
    /// Groups that run and have more pods, which only the limits of their queues hold back; all that there are.
    pub limited: Vec<GroupId>,
    /// When to ask again even if nothing changes.
    pub look_again: Option<Time>,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Let a group into its queue: its pods may be created.
    Admit(GroupId),
    Bind {
        pod: PodId,
        node: NodeName,
    },
    Evict {
        pod: PodId,
        why: Eviction,
    },
    /// Hold room on a node for a pod that has to wait, or hold it no longer.
    Nominate {
        pod: PodId,
        node: Option<NodeName>,
    },
}

/// Why a pod has to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Eviction {
    /// For a group of higher priority in the same queue.
    Preempted { by: GroupId },
    /// For a group of a queue that has less than it deserves.
    Reclaimed { by: GroupId },
    /// To find room elsewhere, for a group that then has room.
    Moved { by: GroupId },
    /// Its gang cannot be completed, and half a gang is of no use.
    Incomplete,
}

/// A group that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    pub group: GroupId,
    pub reason: Reason,
    /// One sentence without a full stop: what binds, and how much is missing.
    pub message: String,
}

/// Why a group waits, as one stable word for conditions and events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// Nodes that would do lack room.
    NotEnoughResources,
    /// Fewer pods exist than the minimum.
    NotEnoughPods,
    /// Fewer pods of a task exist than its minimum.
    NotEnoughPodsOfTask,
    /// No node will do, however empty.
    NoNodeMatches,
    /// No part of the network that is close enough has room.
    TopologyNotSatisfied,
    /// A volume of its pods is not there.
    VolumeMissing,
    QueueLimit,
    QueueClosed,
    QueueMissing,
    /// The queue has child queues: only leaves run groups.
    QueueNotLeaf,
    /// Another group of its queue goes first.
    BehindInQueue,
    /// Room is being made: pods that are leaving will free it.
    WaitingForRoom,
    /// Room is held for others that have waited longer.
    HeldForOthers,
}

impl Reason {
    /// Every reason, in the order of their declaration.
    pub const ALL: [Self; 13] = [
        Self::NotEnoughResources,
        Self::NotEnoughPods,
        Self::NotEnoughPodsOfTask,
        Self::NoNodeMatches,
        Self::TopologyNotSatisfied,
        Self::VolumeMissing,
        Self::QueueLimit,
        Self::QueueClosed,
        Self::QueueMissing,
        Self::QueueNotLeaf,
        Self::BehindInQueue,
        Self::WaitingForRoom,
        Self::HeldForOthers,
    ];

    /// Tells whether nodes are all that is lacking, so that more of them could help.
    pub fn is_of_nodes(self) -> bool {
        match self {
            Self::NotEnoughResources
            | Self::NoNodeMatches
            | Self::TopologyNotSatisfied
            | Self::WaitingForRoom
            | Self::HeldForOthers => true,
            Self::NotEnoughPods
            | Self::NotEnoughPodsOfTask
            | Self::VolumeMissing
            | Self::QueueLimit
            | Self::QueueClosed
            | Self::QueueMissing
            | Self::QueueNotLeaf
            | Self::BehindInQueue => false,
        }
    }

    /// Returns the word for conditions and events.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotEnoughResources => "NotEnoughResources",
            Self::NotEnoughPods => "NotEnoughPods",
            Self::NotEnoughPodsOfTask => "NotEnoughPodsOfTask",
            Self::NoNodeMatches => "NoNodeMatches",
            Self::TopologyNotSatisfied => "TopologyNotSatisfied",
            Self::VolumeMissing => "VolumeMissing",
            Self::QueueLimit => "QueueLimit",
            Self::QueueClosed => "QueueClosed",
            Self::QueueMissing => "QueueMissing",
            Self::QueueNotLeaf => "QueueNotLeaf",
            Self::BehindInQueue => "BehindInQueue",
            Self::WaitingForRoom => "WaitingForRoom",
            Self::HeldForOthers => "HeldForOthers",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Eviction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Preempted { by } => write!(f, "preempted by {by}"),
            Self::Reclaimed { by } => write!(f, "reclaimed for {by}"),
            Self::Moved { by } => write!(f, "moved for {by}"),
            Self::Incomplete => f.write_str("its gang is incomplete"),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Admit(group) => write!(f, "admit {group}"),
            Self::Bind { pod, node } => write!(f, "bind {pod} to {node}"),
            Self::Evict { pod, why } => write!(f, "evict {pod}: {why}"),
            Self::Nominate { pod, node: Some(node) } => write!(f, "nominate {pod} for {node}"),
            Self::Nominate { pod, node: None } => write!(f, "hold no room for {pod}"),
        }
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} waits ({}): {}", self.group, self.reason, self.message)
    }
}

/// One line for each step and each group that waits.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.steps.iter().try_for_each(|step| writeln!(f, "{step}"))?;
        self.waiting.iter().try_for_each(|waiting| writeln!(f, "{waiting}"))
    }
}
