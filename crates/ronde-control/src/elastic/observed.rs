//! A training job and everything that a decision about it is made from. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use ronde_api::{
    ElasticMemory, PodGroup, PodGroupPhase, ScaleIn, ScaleOut, ScalerStatus, ScalingOutcome, ScalingWay, TrainingJob,
    TrainingJobSpec, WorkerSpec,
    names::{SCHEDULERS, elastic as names},
    rules,
};
use ronde_runtime::{
    pods::{
        self, condition, controller_of,
        disruption::Disruption,
        is_deleted,
        state::{PodState, ended_before_deletion},
        trouble::{self, Trouble},
    },
    podstatus::node_of,
};

/// The finalizer of a launcher: it stays until its job knows how it ended, however long no controller looks.
pub const TRACKING: &str = "ronde.dev/training-job-tracking";

/// Pods that say nothing of their run were made by et-operator, and are of the first one.
pub const FIRST_RUN: i32 = 1;

/// What is there of a training job.
#[derive(Debug, Clone)]
pub struct Observed<'a> {
    pub job: &'a TrainingJob,
    /// The worker pods by name, of whatever run.
    pub workers: BTreeMap<String, Member>,
    pub launcher: Option<Member>,
    pub group: Option<Arc<PodGroup>>,
    /// The scale operations for this very job, the oldest first.
    pub requests: Vec<Request>,
    /// The nodes that are about to go, and why.
    pub vanishing: BTreeMap<String, String>,
    /// Why the node of the launcher is about to go, if it is.
    pub launcher_vanishing: Option<String>,
    /// What others leave free and wait for; looked at for jobs that grow by themselves only.
    pub capacity: Capacity,
    /// What was made for the job beside pods and group, as `Kind/name`; none if nobody has looked.
    pub objects: Option<BTreeSet<String>>,
    /// Why the API refuses to make something for the job.
    pub refusal: Option<String>,
    /// What is wrong with the job.
    pub faults: Vec<String>,
}

/// A pod of the job.
#[derive(Debug, Clone)]
pub struct Member {
    pub pod: Arc<Pod>,
    pub name: String,
    /// The run of the job that it was made for.
    pub run: i32,
    pub state: PodState,
}

/// How a pod has failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub exit_code: Option<i32>,
    pub why: Option<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.why {
            Some(why) if why.starts_with("exit code") => write!(f, "failed with {why}"),
            Some(why) => write!(f, "failed: {why}"),
            None => f.write_str("failed"),
        }
    }
}

/// A scale operation.
#[derive(Debug, Clone)]
pub struct Request {
    pub object: RequestObject,
    pub way: ScalingWay,
    pub name: String,
    pub uid: String,
    pub timeout: i32,
    /// How many workers; none if they are named.
    pub count: i32,
    pub pod_names: Vec<String>,
    pub status: ScalerStatus,
    pub outcome: Option<ScalingOutcome>,
    /// Whether it goes when the job does.
    pub is_owned: bool,
    pub faults: Vec<String>,
    /// What is taken and has no effect.
    pub warnings: Vec<String>,
}

/// The object of a scale operation.
#[derive(Debug, Clone)]
pub enum RequestObject {
    Out(Arc<ScaleOut>),
    In(Arc<ScaleIn>),
}

/// What others leave free and wait for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capacity {
    /// How many more workers there is room for.
    pub room: i32,
    /// A gang that waits for room, and how many of our workers it needs beside what is free.
    pub waits: Option<(String, i32)>,
}

impl Member {
    pub fn of_pod(pod: Arc<Pod>) -> Self {
        let run = pod.annotations().get(names::RUN).and_then(|run| run.parse().ok()).unwrap_or(FIRST_RUN);
        Self { name: pod.name_any(), run, state: known_state(&pod), pod }
    }

    /// Tells whether its job may not know yet how it ended.
    pub fn is_tracked(&self) -> bool {
        is_tracked(&self.pod)
    }

    pub fn is_finished(&self) -> bool {
        matches!(self.state, PodState::Succeeded | PodState::Failed)
    }

    pub fn is_running(&self) -> bool {
        self.state == PodState::Running
    }

    pub fn is_deleted(&self) -> bool {
        is_deleted(&self.pod)
    }

    /// Tells whether it runs or has run.
    pub fn has_started(&self) -> bool {
        !matches!(pods::phase(&self.pod), "" | "Pending")
    }

    pub fn node(&self) -> &str {
        node_of(&self.pod)
    }

    pub fn created_at(&self) -> Timestamp {
        self.pod.creation_timestamp().map(|time| time.0).unwrap_or_default()
    }

    /// Returns why somebody or something ended it that is not its program.
    pub fn disruption(&self) -> Option<Disruption> {
        Disruption::of_pod(&self.pod)
    }

    /// Returns the code that the first container to end has left.
    pub fn exit_code(&self) -> Option<i32> {
        let statuses = self.pod.status.as_ref()?.container_statuses.as_ref()?;
        let mut ended = statuses.iter().filter_map(|status| status.state.as_ref()?.terminated.as_ref());
        ended.next().map(|terminated| terminated.exit_code)
    }

    /// Returns how it has failed.
    pub fn failure(&self) -> Failure {
        Failure { exit_code: self.exit_code(), why: trouble::of_failed(&self.pod) }
    }

    /// Returns what keeps its containers from starting.
    pub fn trouble(&self) -> Option<Trouble> {
        trouble::of_pod(&self.pod)
    }

    /// Tells whether it was ended although it had done nothing wrong.
    pub fn is_evicted(&self) -> bool {
        matches!(self.state, PodState::Terminating | PodState::Failed) && self.disruption().is_some()
    }

    /// Returns why the scheduler has not placed it, if it has said so.
    pub fn unschedulable(&self) -> Option<&str> {
        let told = condition(&self.pod, "PodScheduled").filter(|told| told.status == "False")?;
        told.message.as_deref()
    }
}

impl Request {
    pub fn of_out(object: Arc<ScaleOut>) -> Self {
        let faults = rules::scaler::validate_out(&object);
        let count = object.spec.count();
        Self::build(&*object, RequestObject::Out(object.clone()), (count, Vec::new()), &faults)
    }

    pub fn of_in(object: Arc<ScaleIn>) -> Self {
        let faults = rules::scaler::validate_in(&object);
        let chosen = object.spec.to_delete.clone().unwrap_or_default();
        let which = (chosen.count.unwrap_or(0), chosen.pod_names);
        Self::build(&*object, RequestObject::In(object.clone()), which, &faults)
    }

    fn build<S: ronde_api::Scaler>(
        scaler: &S,
        object: RequestObject,
        (count, pod_names): (i32, Vec<String>),
        faults: &[rules::Fault],
    ) -> Self {
        let meta = scaler.metadata();
        Self {
            object,
            way: S::WAY,
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            timeout: scaler.timeout(),
            count,
            pod_names,
            status: scaler.status().cloned().unwrap_or_default(),
            outcome: scaler.outcome(),
            is_owned: controller_of(meta).is_some(),
            faults: faults.iter().map(ToString::to_string).collect(),
            warnings: rules::scaler::warnings(scaler),
        }
    }
}

impl Observed<'_> {
    pub fn spec(&self) -> &TrainingJobSpec {
        &self.job.spec
    }

    pub fn worker_spec(&self) -> &WorkerSpec {
        self.job.spec.worker()
    }

    pub fn name(&self) -> String {
        self.job.name_any()
    }

    /// Returns a worker of the run that goes on.
    pub fn worker(&self, memory: &ElasticMemory, name: &str) -> Option<&Member> {
        self.workers.get(name).filter(|worker| worker.run == memory.run)
    }

    /// Returns the launcher of the run that goes on.
    pub fn launcher(&self, memory: &ElasticMemory) -> Option<&Member> {
        self.launcher.as_ref().filter(|launcher| launcher.run == memory.run)
    }

    pub fn index(&self, name: &str) -> i32 {
        names::worker_index(&self.name(), name).unwrap_or(i32::MAX)
    }

    /// Tells whether the job is placed as a gang by a scheduler of ours.
    pub fn is_gang(&self) -> bool {
        is_gang(self.job)
    }

    /// Tells whether pods may be made.
    pub fn is_admitted(&self) -> bool {
        let phase = self.group.as_ref().and_then(|group| group.phase());
        !self.is_gang() || phase.is_some_and(|phase| phase != PodGroupPhase::Pending)
    }

    /// Returns why the gang waits, if the scheduler has said so.
    pub fn gang_waits(&self) -> Option<(&str, &str)> {
        let conditions = self.group.as_ref()?.status.as_ref()?.conditions.iter();
        let mut waits = conditions
            .filter(|told| told.type_ == ronde_api::PodGroupConditionType::Unschedulable && told.status == "True");
        waits.next().map(|told| (told.reason.as_str(), told.message.as_str()))
    }
}

fn is_tracked(pod: &Pod) -> bool {
    pod.finalizers().iter().any(|finalizer| finalizer == TRACKING)
}

/// Returns how a pod fares; one that is kept for it and had ended before it was deleted has ended.
fn known_state(pod: &Pod) -> PodState {
    match pods::phase(pod) {
        "Succeeded" if is_tracked(pod) && ended_before_deletion(pod) => PodState::Succeeded,
        "Failed" if is_tracked(pod) && ended_before_deletion(pod) => PodState::Failed,
        _ => PodState::of_pod(pod),
    }
}

/// Tells whether a job is placed as a gang by a scheduler of ours.
pub fn is_gang(job: &TrainingJob) -> bool {
    let template = &job.spec.worker().template;
    let scheduler = template.spec.as_ref().and_then(|spec| spec.scheduler_name.as_deref()).unwrap_or_default();
    scheduler.is_empty() || SCHEDULERS.contains(&scheduler)
}
