//! Groups of pods that start together.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    amounts::Amounts,
    ids::{GroupId, QueueName, Time},
    selector::LabelSelector,
};

/// A group: a gang of `min_member` pods, and whatever it has above that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    pub id: GroupId,
    pub queue: QueueName,
    /// The value of its priority class.
    pub priority: i32,
    /// May push others out (false for `preemptionPolicy: Never`).
    pub preempts: bool,
    pub created: Time,
    /// How many pods start together or not at all.
    pub min_member: u32,
    /// How many of each task; heeded only if `min_member` is at least their sum.
    pub min_task_member: BTreeMap<Arc<str>, u32>,
    /// What the minimum will take: asked before the pods exist.
    pub min_resources: Option<Amounts>,
    /// When it was let into its queue (phase `Inqueue` or later); the moment may be that of its creation if unknown.
    pub admitted: Option<Time>,
    /// Its minimum has run at least once (phase `Running` or later).
    pub started: bool,
    /// Since when its minimum has nodes: the time of the condition that says so.
    pub whole_since: Option<Time>,
    /// Since when it waits with its pods there: the time of the condition that says so.
    pub waiting_since: Option<Time>,
    /// A pod above its minimum that is evicted is made again, and nothing else happens to it.
    pub elastic: bool,
    pub topology: Option<Topology>,
    pub subgroups: Vec<SubGroups>,
    /// Its pods are evicted together or not at all, also those above its minimum.
    pub leaves_whole: bool,
}

impl Group {
    /// Makes a group that has not been admitted.
    pub fn new(id: GroupId, queue: &str, min_member: u32) -> Self {
        Self {
            id,
            queue: queue.into(),
            priority: 0,
            preempts: true,
            created: Time::default(),
            min_member,
            min_task_member: BTreeMap::new(),
            min_resources: None,
            admitted: None,
            started: false,
            whole_since: None,
            waiting_since: None,
            elastic: false,
            topology: None,
            subgroups: Vec::new(),
            leaves_whole: false,
        }
    }
}

/// How close pods are to be in the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    pub strictness: Strictness,
    pub within: Within,
}

/// What is one part of the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Within {
    /// A part of this tier or a closer one.
    Tier(u32),
    /// The nodes with one value of this label.
    Label(Arc<str>),
}

/// Whether closeness is a must.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strictness {
    Hard,
    Soft,
}

/// Splits pods of a group into smaller gangs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubGroups {
    pub name: Arc<str>,
    /// Which pods of the group it is about.
    pub selector: LabelSelector,
    /// Pods with the same values of these labels are one subgroup.
    pub match_label_keys: Vec<String>,
    /// How many pods of a subgroup start together or not at all.
    pub size: u32,
    /// How many subgroups the gang needs.
    pub min_subgroups: u32,
    pub topology: Option<Topology>,
}
