//! A job of either kind, as the verbs of arena see it: its type, its state, its pods, since when and until when.
//!
//! The states are arena's words. What is asked of the API stands first; the rest is pure.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::core::v1::Pod,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::{Client, ResourceExt as _};
use ronde_api::{
    Action, Job, JobPhase, TaskSpec, TrainingJob, TrainingJobPhase,
    names::{self, elastic},
};

use super::{MissingError, instances::gpus_of, is_controlled_by, is_final, phase};
use crate::{
    arena::{Caller, JobType},
    client::ClientError,
    failure::{Blame, Failure},
    objects::{self, watch_one},
    watch::Watch,
};

/// A job that trains.
#[derive(Debug, Clone)]
pub enum AnyJob {
    Training(Box<TrainingJob>),
    Batch(Box<Job>),
}

/// Where a job is in its life, in arena's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Pending,
    Running,
    Scaling,
    Succeeded,
    Failed,
    /// Not arena's: it knows no jobs that wait for their owner.
    Suspended,
}

/// A name alone is not enough.
#[derive(Debug, thiserror::Error)]
#[error("there are {types} jobs named `{name}` in namespace `{namespace}`")]
pub struct AmbiguousError {
    namespace: String,
    name: String,
    types: String,
}

impl Failure for AmbiguousError {
    fn blame(&self) -> Blame {
        Blame::User
    }

    fn hint(&self) -> Option<String> {
        Some(format!("say which one with `--type`; `ronde list | grep {}` shows them", self.name))
    }
}

/// Looks for a job of any type, or of one.
pub async fn find(
    client: &Client,
    namespace: &str,
    name: &str,
    wanted: Option<JobType>,
) -> Result<Option<AnyJob>, Box<dyn Failure>> {
    let mut found = find_all(client, namespace, name).await?;
    found.retain(|job| wanted.is_none_or(|wanted| job.job_type() == wanted));
    if found.len() > 1 {
        let types: Vec<&str> = found.iter().map(|job| job.job_type().name()).collect();
        let (namespace, name, types) = (namespace.to_owned(), name.to_owned(), types.join(" and "));
        return Err(AmbiguousError { namespace, name, types }.into());
    }
    Ok(found.pop())
}

/// Returns a job of any type, or of one, which has to be there.
pub async fn fetch(
    client: &Client,
    namespace: &str,
    name: &str,
    wanted: Option<JobType>,
) -> Result<AnyJob, Box<dyn Failure>> {
    let missing = || MissingError::Training { namespace: namespace.to_owned(), name: name.to_owned() };
    Ok(find(client, namespace, name, wanted).await?.ok_or_else(missing)?)
}

/// Returns the jobs of both kinds of this name.
pub async fn find_all(client: &Client, namespace: &str, name: &str) -> Result<Vec<AnyJob>, ClientError> {
    let training = objects::find_if_served::<TrainingJob>(client, Some(namespace), name).await?;
    let batch = objects::find_if_served::<Job>(client, Some(namespace), name).await?;
    Ok(training.map(AnyJob::from).into_iter().chain(batch.map(AnyJob::from)).collect())
}

/// Returns all jobs, as far as the cluster has their kinds, the newest first.
pub async fn list(client: &Client, namespace: Option<&str>) -> Result<Vec<AnyJob>, ClientError> {
    let mut jobs: Vec<AnyJob> = Vec::new();
    if let Some(watch) = objects::watch_if_served::<TrainingJob>(client, namespace).await? {
        jobs.extend(watch.all::<TrainingJob>()?.into_iter().map(AnyJob::from));
    }
    if let Some(watch) = objects::watch_if_served::<Job>(client, namespace).await? {
        jobs.extend(watch.all::<Job>()?.into_iter().map(AnyJob::from));
    }
    jobs.sort_by_key(|job| (std::cmp::Reverse(job.created()), job.name()));
    Ok(jobs)
}

/// Follows a job.
pub async fn watch(client: &Client, job: &AnyJob) -> Result<Watch, Box<dyn Failure>> {
    let (namespace, name) = (Some(job.namespace()), job.name());
    match job {
        AnyJob::Training(_) => watch_one::<TrainingJob>(client, namespace, &name).await,
        AnyJob::Batch(_) => watch_one::<Job>(client, namespace, &name).await,
    }
}

/// Returns what a watch has of a job.
pub fn of_watch(job: &AnyJob, watch: &Watch) -> Result<Option<AnyJob>, ClientError> {
    Ok(match job {
        AnyJob::Training(_) => watch.one::<TrainingJob>()?.map(AnyJob::from),
        AnyJob::Batch(_) => watch.one::<Job>()?.map(AnyJob::from),
    })
}

impl From<TrainingJob> for AnyJob {
    fn from(job: TrainingJob) -> Self {
        Self::Training(Box::new(job))
    }
}

impl From<Job> for AnyJob {
    fn from(job: Job) -> Self {
        Self::Batch(Box::new(job))
    }
}

impl AnyJob {
    pub fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Training(job) => &job.metadata,
            Self::Batch(job) => &job.metadata,
        }
    }

    pub fn name(&self) -> String {
        self.metadata().name.clone().unwrap_or_default()
    }

    pub fn namespace(&self) -> &str {
        self.metadata().namespace.as_deref().unwrap_or_default()
    }

    pub fn uid(&self) -> &str {
        self.metadata().uid.as_deref().unwrap_or_default()
    }

    pub fn created(&self) -> Option<Timestamp> {
        self.metadata().creation_timestamp.as_ref().map(|time| time.0)
    }

    pub fn job_type(&self) -> JobType {
        match self {
            Self::Training(job) => JobType::of_training(job),
            Self::Batch(job) => JobType::of_batch(job),
        }
    }

    /// Returns `trainingjob.kai.alibabacloud.com/mnist`.
    pub fn title(&self) -> String {
        match self {
            Self::Training(_) => objects::title::<TrainingJob>(&self.name()),
            Self::Batch(_) => objects::title::<Job>(&self.name()),
        }
    }

    /// Returns the path of the job itself.
    pub fn path(&self) -> String {
        let (namespace, name) = (Some(self.namespace()), self.name());
        match self {
            Self::Training(_) => objects::path::<TrainingJob>(namespace, Some(&name)),
            Self::Batch(_) => objects::path::<Job>(namespace, Some(&name)),
        }
    }

    pub fn state(&self) -> State {
        match self {
            Self::Training(job) => match job.phase() {
                None | Some(TrainingJobPhase::Created | TrainingJobPhase::Waiting) => State::Pending,
                Some(TrainingJobPhase::Running) => State::Running,
                Some(TrainingJobPhase::Scaling) => State::Scaling,
                Some(TrainingJobPhase::Succeeded) => State::Succeeded,
                Some(TrainingJobPhase::Failed) => State::Failed,
                Some(TrainingJobPhase::Suspended) => State::Suspended,
            },
            Self::Batch(job) => match phase(job) {
                JobPhase::Pending | JobPhase::Restarting => State::Pending,
                JobPhase::Running | JobPhase::Completing | JobPhase::Terminating => State::Running,
                JobPhase::Completed => State::Succeeded,
                JobPhase::Failed | JobPhase::Terminated => State::Failed,
                JobPhase::Aborting | JobPhase::Aborted => State::Suspended,
            },
        }
    }

    /// Returns the word of its own kind for where it is.
    pub fn phase_word(&self) -> String {
        match self {
            Self::Training(job) => job.phase().map_or_else(|| "Pending".to_owned(), |phase| phase.to_string()),
            Self::Batch(job) => phase(job).to_string(),
        }
    }

    /// Returns the word for where it is that a caller knows: for arena arena's, else that of its kind, as in `list`.
    pub fn phase_for(&self, caller: Caller) -> String {
        if caller.is_arena { self.state().to_string() } else { self.phase_word() }
    }

    /// Says why a training job is where it is; of jobs of Volcano their groups know, see [`super::reason`].
    pub fn message(&self) -> Option<String> {
        let job = match self {
            Self::Training(job) => job,
            Self::Batch(job) => return super::reason(job, None),
        };
        let Some(status) = &job.status else { return Some("no controller has looked at it yet".to_owned()) };
        [&status.message, &status.reason].into_iter().find(|text| !text.is_empty()).cloned()
    }

    /// Returns how many pods it starts with at least.
    pub fn min_available(&self) -> i32 {
        match self {
            Self::Training(job) => job.spec.worker().min_replicas().saturating_add(1),
            Self::Batch(job) => job.status.as_ref().map_or(job.spec.min_available, |status| status.min_available),
        }
    }

    /// Says how many of its pods run: `1 of 4 pods run`.
    pub fn pods_in_words(&self) -> String {
        let (running, wanted) = (self.running(), self.wanted());
        format!("{running} of {wanted} pods run")
    }

    /// Returns how many of its pods run.
    pub fn running(&self) -> i64 {
        match self {
            Self::Training(job) => {
                let roles = job.status.iter().flat_map(|status| status.replica_statuses.values());
                roles.map(|role| i64::from(role.active)).sum()
            }
            Self::Batch(job) => job.status.as_ref().map_or(0, |status| i64::from(status.running)),
        }
    }

    /// Returns how many pods it asks for.
    fn wanted(&self) -> i64 {
        match self {
            Self::Training(job) => i64::from(job.spec.worker().replicas()) + 1,
            Self::Batch(job) => job.spec.total_replicas(),
        }
    }

    /// When it ended, if it has.
    pub fn ended(&self) -> Option<Timestamp> {
        match self {
            Self::Training(job) => job.status.as_ref()?.completion_time.as_ref().map(|time| time.0),
            Self::Batch(job) => {
                let state = &job.status.as_ref()?.state;
                state.last_transition_time.as_ref().filter(|_| is_final(phase(job))).map(|time| time.0)
            }
        }
    }

    /// From its creation to its end or to now.
    pub fn duration(&self, now: Timestamp) -> SignedDuration {
        let ended = self.ended().unwrap_or(now);
        self.created().map_or(SignedDuration::ZERO, |created| ended.duration_since(created))
    }

    /// Selects its pods, and those of an earlier job of its name.
    pub fn selector(&self) -> String {
        let label = match self {
            Self::Training(_) => elastic::JOB,
            Self::Batch(_) => names::JOB_NAME,
        };
        format!("{label}={}", self.name())
    }

    pub fn owns(&self, pod: &Pod) -> bool {
        is_controlled_by(&pod.metadata, self.uid())
    }

    /// Tells whether a pod is the one whose output is the job's.
    pub fn is_chief(&self, pod: &str) -> bool {
        pod == self.chief()
    }

    /// Returns the name of the pod whose output is the job's.
    pub fn chief(&self) -> String {
        match self {
            Self::Training(_) => elastic::launcher(&self.name()),
            Self::Batch(job) => {
                let task = deciding_task(&job.spec.tasks).map(|task| task.name.as_str()).unwrap_or_default();
                names::pod(&self.name(), task, 0)
            }
        }
    }

    /// Orders pods: the chief, then by task and index.
    pub fn place(&self, pod: &Pod) -> (usize, i64, String) {
        let name = pod.name_any();
        let number = |text: &str| text.rsplit('-').next().and_then(|number| number.parse().ok()).unwrap_or(0);
        let task = match self {
            Self::Training(_) => usize::from(!self.is_chief(&name)),
            Self::Batch(job) => {
                let task = pod.labels().get(names::TASK_SPEC);
                let place = job.spec.tasks.iter().position(|one| Some(&one.name) == task);
                place.unwrap_or(job.spec.tasks.len())
            }
        };
        (task, number(&name), name)
    }

    /// Returns the priority class, if it has one.
    pub fn priority(&self) -> Option<&str> {
        let class = match self {
            Self::Training(job) => job.spec.worker().template.spec.as_ref()?.priority_class_name.as_deref(),
            Self::Batch(job) => Some(job.spec.priority_class_name.as_str()),
        };
        class.filter(|class| !class.is_empty())
    }

    /// Returns the GPUs that it asks for, at the size that it shall have.
    pub fn requested_gpus(&self) -> i64 {
        match self {
            Self::Training(job) => {
                let target = job.status.as_ref().map_or(0, |status| status.target_workers.len());
                let size = i64::try_from(target).unwrap_or(i64::MAX).max(0);
                let size = if size == 0 { i64::from(job.spec.worker().replicas()) } else { size };
                size * gpus_of(job.spec.worker().template.spec.as_ref())
                    + gpus_of(job.spec.launcher().template.spec.as_ref())
            }
            Self::Batch(job) => {
                let tasks = job.spec.tasks.iter();
                tasks.map(|task| i64::from(task.replicas) * gpus_of(task.template.spec.as_ref())).sum()
            }
        }
    }

    pub fn queue(&self) -> &str {
        let named = match self {
            Self::Training(job) => {
                let notes = job.metadata.annotations.as_ref();
                notes.and_then(|notes| notes.get(names::GROUP_QUEUE)).map(String::as_str).unwrap_or_default()
            }
            Self::Batch(job) => &job.spec.queue,
        };
        super::queue(named)
    }

    /// Makes what is made for the job go with it.
    pub fn reference(&self) -> OwnerReference {
        fn of<T: k8s_openapi::Resource>(metadata: &ObjectMeta) -> OwnerReference {
            OwnerReference {
                api_version: T::API_VERSION.to_owned(),
                kind: T::KIND.to_owned(),
                name: metadata.name.clone().unwrap_or_default(),
                uid: metadata.uid.clone().unwrap_or_default(),
                ..OwnerReference::default()
            }
        }
        match self {
            Self::Training(job) => of::<TrainingJob>(&job.metadata),
            Self::Batch(job) => of::<Job>(&job.metadata),
        }
    }
}

/// Returns the task whose end is that of the job, else the first: of a job with parameter servers the workers.
fn deciding_task(tasks: &[TaskSpec]) -> Option<&TaskSpec> {
    let completes = |task: &&TaskSpec| task.policies.iter().any(|one| one.action == Action::CompleteJob.as_str());
    tasks.iter().find(completes).or(tasks.first())
}

impl State {
    /// Whether nothing leads out of it.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }

    /// Whether a person who sees it asks why.
    pub fn wants_reason(self) -> bool {
        matches!(self, Self::Pending | Self::Failed)
    }

    /// Whether its sentence says what is wrong: a job that runs may be in a crash loop, or lack a part of its pods.
    pub fn shows_reason(self) -> bool {
        self.wants_reason() || matches!(self, Self::Running | Self::Scaling)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pending => "PENDING",
            Self::Running => "RUNNING",
            Self::Scaling => "SCALING",
            Self::Succeeded => "SUCCEEDED",
            Self::Failed => "FAILED",
            Self::Suspended => "SUSPENDED",
        })
    }
}
