//! PodGroup: the gang as the scheduler sees it.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{NetworkTopology, ResourceList};

kind! {
    /// Pods that are placed together or not at all.
    PodGroup: NamespaceResourceScope "podgroups" in "scheduling.volcano.sh" / "v1beta1" {
        #[serde(default)]
        spec: PodGroupSpec,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<PodGroupStatus>,
    }
}

/// What a group needs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PodGroupSpec {
    /// How many pods must be able to run for any to start.
    pub min_member: i32,
    /// The same for each task.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub min_task_member: BTreeMap<String, i32>,
    /// The queue that the group waits in.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub queue: String,
    /// The priority class of the group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub priority_class_name: String,
    /// What the least pods need together; the queue admits the group by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_resources: Option<ResourceList>,
    /// How close to each other in the network the pods must be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_topology: Option<NetworkTopology>,
    /// Groups within the group.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sub_group_policy: Vec<SubGroupPolicy>,
}

/// Cuts some pods of a group into smaller groups.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SubGroupPolicy {
    /// The name of the policy.
    pub name: String,
    /// How close to each other the pods of one subgroup must be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_topology: Option<NetworkTopology>,
    /// How many pods in each subgroup; 1 if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sub_group_size: Option<i32>,
    /// How many subgroups must be able to run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_sub_groups: Option<i32>,
    /// The pods that the policy is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// Pods with the same values of these labels are one subgroup.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_label_keys: Vec<String>,
}

/// What a group is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PodGroupStatus {
    /// None before a scheduler has seen the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<PodGroupPhase>,
    /// What keeps the group waiting, or that nothing does.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<PodGroupCondition>,
    /// Pods that run.
    pub running: i32,
    /// Pods that have ended well.
    pub succeeded: i32,
    /// Pods that have failed.
    pub failed: i32,
}

/// Something about a group that is so or not, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodGroupCondition {
    /// What.
    #[serde(rename = "type")]
    pub type_: PodGroupConditionType,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Changes with every pass of the scheduler that wrote it.
    #[serde(rename = "transitionID", default, skip_serializing_if = "String::is_empty")]
    pub transition_id: String,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// Why, in one word.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

words! {
    /// Where a group is on its way to machines.
    PodGroupPhase {
        /// Waits for its queue.
        Pending = "Pending",
        /// Admitted by its queue; its pods may be made.
        Inqueue = "Inqueue",
        Running = "Running",
        /// Runs in part only.
        Unknown = "Unknown",
        Completed = "Completed",
    }
}

words! {
    /// What a condition of a group is about.
    PodGroupConditionType {
        Unschedulable = "Unschedulable",
        Scheduled = "Scheduled",
    }
}

impl PodGroup {
    /// The phase; none before a scheduler has seen the group.
    pub fn phase(&self) -> Option<PodGroupPhase> {
        self.status.as_ref().and_then(|status| status.phase)
    }
}

impl SubGroupPolicy {
    pub fn sub_group_size(&self) -> i32 {
        self.sub_group_size.unwrap_or(1)
    }

    pub fn min_sub_groups(&self) -> i32 {
        self.min_sub_groups.unwrap_or(0)
    }
}
