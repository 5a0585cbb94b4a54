//! The words of the system: the kinds of batch work, their names and labels, their defaults and rules, their CRDs.
//!
//! Everything here is pure: no clock, no randomness, no environment, nothing asynchronous. The kinds are those of
//! Volcano and of et-operator, field for field, so that existing manifests and clients keep working. Controllers, the scheduler's shell,
//! the command line and the one-machine API server all say these things in the words of this crate.
//!
//! The types are raw: what a user may write, also if it is wrong. Fields with a fixed set of words are texts in them;
//! the methods beside them answer in enums.
//!
//! Inside: one file per kind with its raw types; `names.rs` is every label and name that users rely on; `flags.rs`
//! reads the arguments of plugins; `schedule.rs` says when CronJobs are due; `history.rs` bounds what a status remembers; `rules/` are defaults and faults, one file per kind; `crd/` makes the definitions
//! in `crds/`, which are also embedded in the program.

#[macro_use]
mod kind;
#[macro_use]
mod words;

mod command;
pub mod crd;
mod cron_job;
mod duration;
pub mod flags;
pub mod history;
mod hyper_node;
mod job;
mod job_flow;
pub mod names;
mod pod_group;
mod queue;
pub mod rules;
mod scaler;
pub mod schedule;
mod training_job;

pub use self::{
    command::Command,
    cron_job::{ConcurrencyPolicy, CronJob, CronJobSpec, CronJobStatus, CronJobTemplate},
    duration::{Duration, DurationError},
    history::PhaseRecord,
    hyper_node::{
        ExactMatch, HyperNode, HyperNodeMember, HyperNodeMemberSelector, HyperNodeSpec, HyperNodeStatus, MemberType,
        RegexMatch,
    },
    job::{
        Action, DependsOn, Event, Iteration, Job, JobCondition, JobPhase, JobSpec, JobState, JobStatus, JobVolume,
        LifecyclePolicy, NetworkTopology, PartitionPolicy, PodPhase, TaskSpec, TaskStatus, TopologyMode,
        TopologyPolicy,
    },
    job_flow::{
        Flow, FlowDependsOn, FlowHttpGet, FlowJobCondition, FlowJobStatus, FlowPatch, FlowProbe, FlowTaskStatus,
        FlowTcpSocket, JobFlow, JobFlowPhase, JobFlowSpec, JobFlowState, JobFlowStatus, JobRunningHistory, JobTemplate,
        JobTemplateStatus, RetainPolicy,
    },
    pod_group::{
        PodGroup, PodGroupCondition, PodGroupConditionType, PodGroupPhase, PodGroupSpec, PodGroupStatus, SubGroupPolicy,
    },
    queue::{
        Affinity, DequeueStrategy, ExtendCluster, Guarantee, NodeGroupAffinity, Queue, QueueSpec, QueueState,
        QueueStatus, Reservation, ResourceList,
    },
    scaler::{
        ElasticCondition, JobSelector, ScaleIn, ScaleInSpec, ScaleOut, ScaleOutSpec, Scaler, ScalerStatus, Scaling,
        ScalingOutcome, ScalingWay, ScriptVariable, ToAdd, ToDelete,
    },
    training_job::{
        AttachMode, CleanPodPolicy, ElasticMemory, EtReplicaSpecs, LauncherSpec, LeavingWorker, ReplicaBound,
        ReplicaStatus, RestartPolicy, SizeChange, TrainingJob, TrainingJobDisruption, TrainingJobPhase,
        TrainingJobSpec, TrainingJobStatus, WorkerSpec,
    },
    words::UnknownWord,
};
