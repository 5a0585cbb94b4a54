//! TrainingJob: a launcher and workers whose number may change while they train.
//!
//! The kinds and fields are those of et-operator. What is ours beside them is in the status only: `reason` and `message`, the
//! `sizes` and `phases` the job has had, and `elastic`, what the controller must know again after a `kill -9`.

use std::collections::BTreeMap;

use k8s_openapi::{api::core::v1::PodTemplateSpec, apimachinery::pkg::apis::meta::v1::Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Duration, DurationError, ElasticCondition, PhaseRecord, Scaling, ScalingWay, names, rules::PODS_MAX};

kind! {
    /// A training job whose number of workers may change while it runs.
    TrainingJob: NamespaceResourceScope "trainingjobs" in "kai.alibabacloud.com" / "v1alpha1" {
        #[serde(default)]
        spec: TrainingJobSpec,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<TrainingJobStatus>,
    }
}

/// What a training job shall be.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TrainingJobSpec {
    /// Which worker pods go when the job has ended: `All`, `Running` (those that still run; the default) or `None`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub clean_pod_policy: String,
    /// The launcher and the workers.
    pub et_replica_specs: EtReplicaSpecs,
    /// How the launcher reaches the workers: `kubexec`, by the agent in their pods (the default), or `ssh`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub launcher_attach_mode: String,
    /// How many ranks a worker has; as many as it has GPUs, or 1, if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slots_per_worker: Option<i32>,
    /// Whether a job that has failed runs again: `Never` or `OnFailure`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub restart_policy: String,
    /// How often a job that has failed runs again; 6 if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_limit: Option<i32>,
}

/// The launcher and the workers of a job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EtReplicaSpecs {
    /// The pod that starts the training on the workers.
    pub launcher: LauncherSpec,
    /// The pods that train.
    pub worker: WorkerSpec,
}

/// The pod that starts the training on the workers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LauncherSpec {
    /// There is one launcher.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The pod.
    pub template: PodTemplateSpec,
    /// What happens if the launcher pod is gone: made again, or with `Never` the job fails.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub restart_policy: String,
}

/// The pods that train.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkerSpec {
    /// How many workers the job asks for; 1 if not set. `kubectl scale` changes it, and so do ScaleOut and ScaleIn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// How many it may have at most; without a limit if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_replicas: Option<i32>,
    /// With how many it can start and go on; as many as it asks for if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_replicas: Option<i32>,
    /// The pods.
    pub template: PodTemplateSpec,
    /// Which lost workers are replaced: `Always` (the default), `OnFailure`, `ExitCode` or `Never`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub restart_policy: String,
}

/// What a training job is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TrainingJobStatus {
    /// None before a controller has seen the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<TrainingJobPhase>,
    /// Why the job is in this phase, in one word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The same for people: what it waits for, why it has failed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// What has been reached, the newest at the end; one of each type.
    pub conditions: Vec<ElasticCondition>,
    /// How many workers are in the list of hosts.
    #[serde(skip_serializing_if = "is_zero")]
    pub replicas: i32,
    /// Selects the worker pods, for who scales the job by what they use.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub selector: String,
    /// How the pods of `Launcher` and `Worker` fare.
    pub replica_statuses: BTreeMap<String, ReplicaStatus>,
    /// When a controller first saw the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When the job ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// When the status was last written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_reconcile_time: Option<Time>,
    /// The scale operation that is under way, as `ScaleOut:<namespace>/<name>`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub current_scaler: String,
    /// How often the whole job was started again after a failure.
    pub restart_count: i32,
    /// The workers that the job shall have, by index.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub target_workers: Vec<String>,
    /// The workers that are in the list of hosts, by index.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub current_workers: Vec<String>,
    /// The sizes the job has had lately and why they changed, the newest at the end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<SizeChange>,
    /// The phases the job was in lately, the newest at the end; a change of size is none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseRecord>,
    /// What the controller must know and cannot see.
    pub elastic: ElasticMemory,
}

/// The pods of one role by how they fare.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaStatus {
    /// Pods that run.
    #[serde(skip_serializing_if = "is_zero")]
    pub active: i32,
    /// Pods that have ended well.
    #[serde(skip_serializing_if = "is_zero")]
    pub succeeded: i32,
    /// Pods that have failed.
    #[serde(skip_serializing_if = "is_zero")]
    pub failed: i32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(number: &i32) -> bool {
    *number == 0
}

/// A change of the number of workers in the list of hosts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SizeChange {
    /// When.
    pub time: Time,
    /// How many there are since.
    pub workers: i32,
    /// Why, in one word.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// What the controller must know after a `kill -9` and cannot see in the cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ElasticMemory {
    /// Grows with every start of the whole job: pods of an earlier run are of the past.
    pub run: i32,
    /// How many workers the job shall have now.
    pub wanted: i32,
    /// The `replicas` that was last acted upon; another one in the spec is a request.
    #[serde(skip_serializing_if = "is_zero")]
    pub asked: i32,
    /// What `replicas` is to be after a change of size that did not come from it, or that could not be made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas_due: Option<i32>,
    /// The `minReplicas` of a job that says none: the `replicas` of its beginning.
    #[serde(skip_serializing_if = "is_zero")]
    pub least: i32,
    /// The index of the next worker: none is used twice in a run, because launchers avoid hosts that have failed.
    pub next_index: i32,
    /// Workers that have been asked to leave and are not gone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub leaving: Vec<LeavingWorker>,
    /// How many workers have failed lately.
    pub failures: i32,
    /// When the last of them failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_failure_time: Option<Time>,
    /// When a worker was last lost that had not started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_unstarted_time: Option<Time>,
    /// The change of size that is under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scaling: Option<Scaling>,
    /// The uid of the scale operation that ended last.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_scaler: String,
    /// Stands for the contents of the objects that were made for the job.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub applied: String,
    /// When they were last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub applied_time: Option<Time>,
    /// When the number of workers was last changed, or could not be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_scale_time: Option<Time>,
    /// How many workers a job that grows by itself takes in its next step, after one that did not fit; 0 if all do.
    #[serde(skip_serializing_if = "is_zero")]
    pub grow_step: i32,
    /// That pods were ended which had done nothing wrong; until the job is whole again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disruption: Option<TrainingJobDisruption>,
}

/// Something that was done to the pods of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrainingJobDisruption {
    /// When it was seen last.
    pub since: Time,
    /// What it was, as `preempted by hi (priority high)`.
    pub why: String,
}

/// A worker that is no host any more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LeavingWorker {
    /// Its pod.
    pub name: String,
    /// Since when.
    pub since: Time,
}

words! {
    /// Where a training job is in its life.
    TrainingJobPhase {
        /// Its pods are being made, or wait for room.
        Created = "Created",
        Running = "Running",
        /// Ours: it has begun, and has fewer workers than it can go on with.
        Waiting = "Waiting",
        Scaling = "Scaling",
        Suspended = "Suspended",
        Succeeded = "Succeeded",
        Failed = "Failed",
    }
}

words! {
    /// Which worker pods go when the job has ended.
    CleanPodPolicy {
        /// Every one.
        All = "All",
        /// Those that still run; what has ended stays for its output.
        Running = "Running",
        None = "None",
    }
}

words! {
    /// How a launcher reaches its workers.
    AttachMode {
        /// By the agent in their pods; the word is et-operator's.
        Agent = "kubexec",
        /// By the sshd of the image.
        Ssh = "ssh",
    }
}

words! {
    /// Whether something that ended is started again.
    RestartPolicy {
        Always = "Always",
        OnFailure = "OnFailure",
        /// After exit codes that a signal leaves behind: 129 to 254.
        ExitCode = "ExitCode",
        Never = "Never",
    }
}

const BACKOFF_LIMIT: i32 = 6;
/// How short and how long a job in auto mode may rest, in seconds.
const COOLDOWN_LIMITS: [i64; 2] = [1, 24 * 3600];
const GPU: &str = "nvidia.com/gpu";

impl TrainingJobSpec {
    pub fn launcher(&self) -> &LauncherSpec {
        &self.et_replica_specs.launcher
    }

    pub fn worker(&self) -> &WorkerSpec {
        &self.et_replica_specs.worker
    }

    pub fn clean_pod_policy(&self) -> CleanPodPolicy {
        self.clean_pod_policy.parse().unwrap_or(CleanPodPolicy::Running)
    }

    pub fn attach_mode(&self) -> AttachMode {
        self.launcher_attach_mode.parse().unwrap_or(AttachMode::Agent)
    }

    /// How often the whole job may be started again.
    pub fn restarts_max(&self) -> i32 {
        let restarts = self.restart_policy.parse() == Ok(RestartPolicy::OnFailure);
        if restarts { self.backoff_limit.unwrap_or(BACKOFF_LIMIT) } else { 0 }
    }

    /// How many ranks a worker has.
    pub fn slots(&self) -> i32 {
        let container = self.worker().template.spec.as_ref().and_then(|pod| pod.containers.first());
        let limits = container.and_then(|container| container.resources.as_ref()?.limits.as_ref());
        let gpus = limits.and_then(|limits| limits.get(GPU)?.0.parse::<i32>().ok()).filter(|gpus| *gpus > 0);
        self.slots_per_worker.or(gpus).unwrap_or(1)
    }
}

/// The bound that a scaling operation would break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplicaBound {
    Min(i32),
    Max(i32),
}

impl WorkerSpec {
    pub fn replicas(&self) -> i32 {
        self.replicas.unwrap_or(1)
    }

    pub fn min_replicas(&self) -> i32 {
        self.min_replicas.unwrap_or(self.replicas())
    }

    pub fn max_replicas(&self) -> i32 {
        self.max_replicas.unwrap_or(PODS_MAX).min(PODS_MAX)
    }

    /// Checks that so many workers more, or fewer, are within the bounds.
    pub fn check_scaling(&self, way: ScalingWay, current: i32, count: i32) -> Result<(), ReplicaBound> {
        let (min, max) = (self.min_replicas(), self.max_replicas());
        match way {
            ScalingWay::Out if current.saturating_add(count) > max => Err(ReplicaBound::Max(max)),
            ScalingWay::In if current.saturating_sub(count) < min => Err(ReplicaBound::Min(min)),
            _ => Ok(()),
        }
    }

    pub fn restart_policy(&self) -> RestartPolicy {
        self.restart_policy.parse().unwrap_or(RestartPolicy::Always)
    }
}

impl TrainingJob {
    /// The phase; none before a controller has seen the job.
    pub fn phase(&self) -> Option<TrainingJobPhase> {
        self.status.as_ref().and_then(|status| status.phase)
    }

    /// Whether the job is asked to give up all it has, until it is asked to go on.
    pub fn is_suspended(&self) -> bool {
        self.has_note(names::elastic::SUSPENDED, "true")
    }

    /// Whether the job grows into room that nobody needs.
    pub fn is_auto(&self) -> bool {
        self.has_note(names::elastic::ELASTIC, names::elastic::AUTO)
    }

    /// How many seconds the job may wait for its start, if it says so.
    pub fn max_wait_seconds(&self) -> Option<i64> {
        let text = self.metadata.annotations.as_ref()?.get(names::elastic::MAX_WAIT_TIME)?;
        text.parse().ok().filter(|seconds| *seconds > 0)
    }

    /// How long a job in auto mode stays as it is after a change before it grows again, if it says so.
    ///
    /// # Errors
    /// If the job says something that is no such time.
    pub fn cooldown(&self) -> Result<Option<Duration>, String> {
        let notes = self.metadata.annotations.as_ref();
        let Some(text) = notes.and_then(|notes| notes.get(names::elastic::COOLDOWN)) else { return Ok(None) };
        let cooldown: Duration = text.parse().map_err(|error: DurationError| error.to_string())?;
        let [least, most] = COOLDOWN_LIMITS.map(Duration::from_seconds);
        if (least..=most).contains(&cooldown) {
            return Ok(Some(cooldown));
        }
        Err(format!("{text} is not between {least} and {most}"))
    }

    fn has_note(&self, key: &str, value: &str) -> bool {
        self.metadata.annotations.as_ref().and_then(|notes| notes.get(key)).is_some_and(|found| found == value)
    }
}

impl TrainingJobPhase {
    /// Whether nothing leads out of it but a restart of the whole job.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}
