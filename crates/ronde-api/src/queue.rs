//! Queue: a share of the cluster that groups wait for.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Duration;

kind! {
    /// A share of the cluster.
    Queue: ClusterResourceScope "queues" in "scheduling.volcano.sh" / "v1beta1" {
        #[serde(default)]
        spec: QueueSpec,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<QueueStatus>,
    }
}

/// Amounts by name of the resource.
pub type ResourceList = BTreeMap<String, Quantity>;

/// What a queue shall be.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueSpec {
    /// The queue's share beside its siblings; 0 stands for 1.
    pub weight: i32,
    /// What the queue may use at most; what is not named is not limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capability: Option<ResourceList>,
    /// What the queue may count on; what it uses beyond can be reclaimed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deserved: Option<ResourceList>,
    /// What is kept for the queue also while it does not use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guarantee: Option<Guarantee>,
    /// Whether other queues may take back what this one uses beyond its share; yes if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reclaimable: Option<bool>,
    /// The queue that this one is a part of; `root` if not set.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub parent: String,
    /// Queues of a higher priority come first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// The groups of nodes that the queue's pods go to or keep away from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// How many jobs of the queue and of those below it run at once; without a limit if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_running_jobs: Option<i32>,
    /// How long a job of the queue or of those below it runs at least before another job may preempt it or reclaim its
    /// room; what the queue above says if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_runtime: Option<Duration>,
    /// How long a job waits at least before the queue reclaims what it deserves for it; what the queue above says if not
    /// set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reclaim_delay: Option<Duration>,
    /// A label for people.
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub type_: String,
    /// Other clusters that jobs of the queue may be sent to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extend_clusters: Vec<ExtendCluster>,
    /// `fifo`: who waits first goes first; `traverse`: who fits goes first.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub dequeue_strategy: String,
}

/// What is kept for a queue.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Guarantee {
    /// The amounts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<ResourceList>,
}

/// Which nodes a queue's pods go to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Affinity {
    /// Groups to go to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_group_affinity: Option<NodeGroupAffinity>,
    /// Groups to keep away from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_group_anti_affinity: Option<NodeGroupAffinity>,
}

/// Names of groups of nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeGroupAffinity {
    /// An order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub required_during_scheduling_ignored_during_execution: Vec<String>,
    /// A wish.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub preferred_during_scheduling_ignored_during_execution: Vec<String>,
}

/// Another cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ExtendCluster {
    /// Its name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its share beside the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
    /// What it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<ResourceList>,
}

/// What a queue is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueStatus {
    /// Whether the queue takes new groups. None before a controller has seen it, which counts as open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<QueueState>,
    /// Groups that wait.
    pub pending: i32,
    /// Groups that run.
    pub running: i32,
    /// Groups that are admitted and do not run yet.
    pub inqueue: i32,
    /// Groups that run in part only.
    pub unknown: i32,
    /// Groups that have ended.
    pub completed: i32,
    /// What is wrong with the queue, where nothing has refused it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// What the queue uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocated: Option<ResourceList>,
    /// What is held for the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reservation: Option<Reservation>,
}

/// Nodes held for a queue.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Reservation {
    /// Their names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// What they have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<ResourceList>,
}

words! {
    /// Whether a queue takes new groups.
    QueueState {
        Open = "Open",
        Closed = "Closed",
        /// Takes none, and some are still in it.
        Closing = "Closing",
        Unknown = "Unknown",
    }
}

words! {
    /// Which of the waiting groups is tried.
    DequeueStrategy {
        Fifo = "fifo",
        Traverse = "traverse",
    }
}

impl Queue {
    /// Whether the queue takes new groups. One that no controller has seen yet does, one that is being deleted does not.
    pub fn is_open(&self) -> bool {
        let state = self.status.as_ref().and_then(|status| status.state);
        matches!(state, None | Some(QueueState::Open)) && self.metadata.deletion_timestamp.is_none()
    }
}

impl QueueSpec {
    pub fn weight(&self) -> i32 {
        self.weight.max(1)
    }

    pub fn is_reclaimable(&self) -> bool {
        self.reclaimable.unwrap_or(true)
    }

    pub fn dequeue_strategy(&self) -> DequeueStrategy {
        self.dequeue_strategy.parse().unwrap_or(DequeueStrategy::Traverse)
    }
}
