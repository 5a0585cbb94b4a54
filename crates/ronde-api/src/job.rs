//! Job: tasks that run together, what ties them to each other, and what happens when one of their pods ends.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{PersistentVolumeClaimSpec, PodTemplateSpec},
    apimachinery::pkg::apis::meta::v1::Time,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Duration, PhaseRecord};

kind! {
    /// A batch job: a gang of pods in one or more tasks.
    Job: NamespaceResourceScope "jobs" in "batch.volcano.sh" / "v1alpha1" {
        #[serde(default)]
        spec: JobSpec,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<JobStatus>,
    }
}

/// What a job shall be.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct JobSpec {
    /// The scheduler of the pods that name none themselves.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub scheduler_name: String,
    /// How many pods must be able to run for any to start. 0 at creation stands for the sum over the tasks.
    pub min_available: i32,
    /// Volumes that every container of every pod gets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<JobVolume>,
    /// The groups of like pods that the job consists of.
    pub tasks: Vec<TaskSpec>,
    /// What to do on events of pods, for tasks whose own policies do not say.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<LifecyclePolicy>,
    /// Plugins that wire the pods, each with its arguments in the form of command line flags.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub plugins: BTreeMap<String, Vec<String>>,
    /// How long the job is expected to run; shown, not acted on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running_estimate: Option<Duration>,
    /// The queue that the job waits in and whose share it uses.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub queue: String,
    /// How often the job may run in all. 0 stands for 3.
    pub max_retry: i32,
    /// Seconds after its end when the job is deleted; kept for good if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<i32>,
    /// The priority class of the job and of the pods that name none themselves.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub priority_class_name: String,
    /// How many pods must succeed for the job to be complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_success: Option<i32>,
    /// How close to each other in the network the pods must be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_topology: Option<NetworkTopology>,
}

/// A claim of storage, mounted in every container.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct JobVolume {
    /// Where containers find it.
    pub mount_path: String,
    /// A claim that exists.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub volume_claim_name: String,
    /// A claim to be made for the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_claim: Option<PersistentVolumeClaimSpec>,
}

/// A group of like pods.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TaskSpec {
    /// Part of the pods' names; `default<index>` if not set.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// How many pods.
    pub replicas: i32,
    /// How many of them must be able to run; all if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_available: Option<i32>,
    /// The pods.
    pub template: PodTemplateSpec,
    /// What to do on events of these pods; looked at before the policies of the job.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<LifecyclePolicy>,
    /// How CPUs and devices of one pod must lie on a machine.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub topology_policy: String,
    /// How often containers of the task may restart before the task counts as failed. 0 stands for 3.
    pub max_retry: i32,
    /// The tasks that must be ready before pods of this one are made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depends_on: Option<DependsOn>,
    /// Cuts the pods into partitions of equal size that are placed and restarted together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition_policy: Option<PartitionPolicy>,
}

/// The tasks that another waits for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DependsOn {
    /// Names of tasks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub name: Vec<String>,
    /// Whether `any` of them suffices or `all` must be ready; all if not set.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub iteration: String,
}

/// How a task is cut into partitions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PartitionPolicy {
    /// How many partitions.
    pub total_partitions: i32,
    /// How many pods in each.
    pub partition_size: i32,
    /// How many partitions must be able to run; 0 leaves it to `minAvailable`.
    pub min_partitions: i32,
    /// How close to each other the pods of one partition must be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_topology: Option<NetworkTopology>,
}

/// How close to each other in the network pods must be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkTopology {
    /// `hard`: else they wait; `soft`: if it can be had.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mode: String,
    /// The highest tier of HyperNodes that they may spread over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub highest_tier_allowed: Option<i32>,
    /// The same by name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub highest_tier_name: String,
}

/// What to do when something happens to a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LifecyclePolicy {
    /// What to do.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub action: String,
    /// On which event.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub event: String,
    /// On which events.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
    /// On which exit code of a failed container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// How long to wait before the action; things may mend themselves in that time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
}

/// What a job is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct JobStatus {
    /// The phase that the job is in.
    pub state: JobState,
    /// `spec.minAvailable` as last acted on.
    pub min_available: i32,
    /// How many pods of each task are in which phase.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub task_status_count: BTreeMap<String, TaskStatus>,
    /// Pods that wait.
    pub pending: i32,
    /// Pods that run.
    pub running: i32,
    /// Pods that have ended well.
    pub succeeded: i32,
    /// Pods that have failed.
    pub failed: i32,
    /// Pods that are being deleted.
    pub terminating: i32,
    /// Pods that nothing is known of.
    pub unknown: i32,
    /// Grows each time all pods are killed: what older pods do no longer matters.
    pub version: i32,
    /// How often the job was restarted.
    pub retry_count: i32,
    /// From creation to the last change of phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running_duration: Option<Duration>,
    /// What was made for the job: `plugin-<name>` and `volume-pvc-<claim>`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub controlled_resources: BTreeMap<String, String>,
    /// When the job was last in which phase, the newest at the end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<JobCondition>,
    /// The phases the job was in lately, the newest at the end. Not Volcano's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseRecord>,
}

/// The phase of a job, and why.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct JobState {
    /// None before a controller has seen the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<JobPhase>,
    /// Why, in one word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why, for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
}

/// The pods of one task by phase.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TaskStatus {
    /// How many pods are in which phase.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, i32>")]
    pub phase: BTreeMap<PodPhase, i32>,
}

/// When a job was last in a phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobCondition {
    /// The phase.
    pub status: JobPhase,
    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
}

words! {
    /// Where a job is in its life.
    JobPhase {
        Pending = "Pending",
        Aborting = "Aborting",
        Aborted = "Aborted",
        Running = "Running",
        Restarting = "Restarting",
        Completing = "Completing",
        Completed = "Completed",
        Terminating = "Terminating",
        Terminated = "Terminated",
        Failed = "Failed",
    }
}

impl JobPhase {
    /// Tells whether nothing leads out of it; a job that was aborted may be resumed.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Terminated)
    }
}

words! {
    /// The phases of pods, as the status of a job counts them.
    PodPhase {
        Pending = "Pending",
        Running = "Running",
        Succeeded = "Succeeded",
        Failed = "Failed",
        Unknown = "Unknown",
    }
}

words! {
    /// What happens to a job, a task or a pod.
    Event {
        /// Every event.
        Any = "*",
        PodFailed = "PodFailed",
        PodEvicted = "PodEvicted",
        PodPending = "PodPending",
        Unknown = "Unknown",
        TaskCompleted = "TaskCompleted",
        TaskFailed = "TaskFailed",
        /// The spec of the job was changed; `*` does not mean it.
        JobUpdated = "JobUpdated",
        OutOfSync = "OutOfSync",
        CommandIssued = "CommandIssued",
        PodRunning = "PodRunning",
    }
}

impl Event {
    /// Whether a user may name it in a policy.
    pub fn is_for_users(self) -> bool {
        !matches!(self, Self::OutOfSync | Self::CommandIssued | Self::PodRunning)
    }
}

words! {
    /// What a controller can do to a job or a queue.
    Action {
        AbortJob = "AbortJob",
        RestartJob = "RestartJob",
        RestartTask = "RestartTask",
        RestartPod = "RestartPod",
        RestartPartition = "RestartPartition",
        TerminateJob = "TerminateJob",
        CompleteJob = "CompleteJob",
        ResumeJob = "ResumeJob",
        SyncJob = "SyncJob",
        EnqueueJob = "EnqueueJob",
        SyncQueue = "SyncQueue",
        OpenQueue = "OpenQueue",
        CloseQueue = "CloseQueue",
    }
}

impl Action {
    /// Whether a user may name it in a policy.
    pub fn is_for_users(self) -> bool {
        use Action::{CloseQueue, EnqueueJob, OpenQueue, SyncJob, SyncQueue};
        !matches!(self, SyncJob | EnqueueJob | SyncQueue | OpenQueue | CloseQueue)
    }
}

words! {
    /// How many of the tasks that a task depends on must be ready.
    Iteration {
        Any = "any",
        All = "all",
    }
}

words! {
    /// Whether a wish for closeness is an order.
    TopologyMode {
        Hard = "hard",
        Soft = "soft",
    }
}

words! {
    /// How CPUs and devices of one pod must lie on a machine.
    TopologyPolicy {
        None = "none",
        BestEffort = "best-effort",
        Restricted = "restricted",
        SingleNumaNode = "single-numa-node",
    }
}

impl JobSpec {
    /// The pods of all tasks together.
    pub fn total_replicas(&self) -> i64 {
        self.tasks.iter().map(|task| i64::from(task.replicas)).sum()
    }
}

impl TaskSpec {
    /// How many pods of the task must be able to run.
    pub fn min_available(&self) -> i32 {
        let of_partitions = self.partition_policy.as_ref().map_or(0, PartitionPolicy::min_pods);
        let unset = if of_partitions > 0 { of_partitions } else { self.replicas };
        self.min_available.unwrap_or(unset)
    }
}

impl PartitionPolicy {
    /// The pods of the least partitions that must be able to run; 0 if that is not said.
    pub fn min_pods(&self) -> i32 {
        self.min_partitions.saturating_mul(self.partition_size)
    }
}

impl DependsOn {
    pub fn iteration(&self) -> Iteration {
        self.iteration.parse().unwrap_or(Iteration::All)
    }
}

impl NetworkTopology {
    pub fn mode(&self) -> TopologyMode {
        self.mode.parse().unwrap_or(TopologyMode::Hard)
    }
}

impl LifecyclePolicy {
    /// The action; none if it is not one.
    pub fn action(&self) -> Option<Action> {
        self.action.parse().ok()
    }

    /// The events of `event` and `events`, in that order.
    pub fn events(&self) -> impl Iterator<Item = Event> {
        let single = Some(&self.event).filter(|event| !event.is_empty());
        single.into_iter().chain(&self.events).filter_map(|event| event.parse().ok())
    }
}
