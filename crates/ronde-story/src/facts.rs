//! A job of either kind, as far as its story needs it.

use jiff::Timestamp;
use k8s_openapi::{Resource, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use ronde_api::{
    Job, JobCondition, JobPhase, PhaseRecord, TrainingJob, TrainingJobPhase,
    history::{PHASES_MAX, SIZES_MAX},
    names,
    names::elastic::conditions,
};

use crate::{Subject, story::counted};

/// A job.
pub struct Facts {
    pub kind: &'static str,
    pub namespace: String,
    pub name: String,
    pub queue: String,
    pub phase: String,
    pub message: String,
    pub unit: &'static str,
    pub submitted: Timestamp,
    /// When its status says that it ended.
    pub ended: Option<Timestamp>,
    /// What it asked for.
    pub asked: String,
    pub records: Vec<PhaseRecord>,
    pub gaps: Vec<String>,
}

/// Where a phase is in the life of a job, of whatever kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Waiting,
    Running,
    Restarting,
    Suspended,
    Ending,
    Ended,
}

impl Stage {
    pub fn of(phase: &str) -> Self {
        if let Ok(phase) = phase.parse::<JobPhase>() {
            return match phase {
                JobPhase::Pending => Self::Waiting,
                JobPhase::Running => Self::Running,
                JobPhase::Restarting => Self::Restarting,
                JobPhase::Aborting | JobPhase::Aborted => Self::Suspended,
                JobPhase::Completing | JobPhase::Terminating => Self::Ending,
                JobPhase::Completed | JobPhase::Terminated | JobPhase::Failed => Self::Ended,
            };
        }
        match phase.parse::<TrainingJobPhase>() {
            Ok(TrainingJobPhase::Running | TrainingJobPhase::Scaling) => Self::Running,
            Ok(TrainingJobPhase::Suspended) => Self::Suspended,
            Ok(TrainingJobPhase::Succeeded | TrainingJobPhase::Failed) => Self::Ended,
            Ok(TrainingJobPhase::Created | TrainingJobPhase::Waiting) | Err(_) => Self::Waiting,
        }
    }
}

impl Facts {
    pub fn of(job: Subject<'_>) -> Self {
        match job {
            Subject::Training(job) => of_training(job),
            Subject::Batch(job) => of_batch(job),
        }
    }
}

fn of_training(job: &TrainingJob) -> Facts {
    let status = job.status.clone().unwrap_or_default();
    let worker = job.spec.worker();
    let notes = job.metadata.annotations.as_ref();
    let queue = queue(notes.and_then(|notes| notes.get(names::GROUP_QUEUE)).map_or("", String::as_str));
    let mut gaps = gap_of_phases(&status.phases);
    if let Some(first) = status.sizes.first().filter(|_| status.sizes.len() >= SIZES_MAX) {
        gaps.push(format!("sizes before {} are not kept", first.time.0.strftime("%F %T")));
    }
    let bounds = match worker.max_replicas {
        Some(max) => format!("from {} to {max}", worker.min_replicas()),
        None => format!("at least {}", worker.min_replicas()),
    };
    Facts {
        asked: format!("submitted to queue {queue}: {}, {bounds}", counted(worker.replicas(), "worker")),
        queue,
        phase: status.phase.unwrap_or(TrainingJobPhase::Created).to_string(),
        message: if status.message.is_empty() { status.reason.clone() } else { status.message.clone() },
        unit: "worker",
        ended: status.completion_time.as_ref().map(|time| time.0),
        records: if status.phases.is_empty() { phases_of_conditions(&status) } else { status.phases },
        gaps,
        ..bare::<TrainingJob>(&job.metadata)
    }
}

fn of_batch(job: &Job) -> Facts {
    let status = job.status.clone().unwrap_or_default();
    let queue = queue(&job.spec.queue);
    let total = i32::try_from(job.spec.total_replicas()).unwrap_or(i32::MAX);
    let phase = status.state.phase.unwrap_or(JobPhase::Pending);
    let since = status.state.last_transition_time.as_ref().map(|time| time.0);
    let gaps = gap_of_phases(&status.phases);
    Facts {
        asked: format!("submitted to queue {queue}: {}, at least {}", counted(total, "pod"), job.spec.min_available),
        queue,
        phase: phase.to_string(),
        message: if status.state.message.is_empty() {
            status.state.reason.clone()
        } else {
            status.state.message.clone()
        },
        unit: "pod",
        ended: since.filter(|_| phase.is_final()),
        records: if status.phases.is_empty() { phases_of_times(&status.conditions) } else { status.phases },
        gaps,
        ..bare::<Job>(&job.metadata)
    }
}

fn bare<K: Resource>(metadata: &ObjectMeta) -> Facts {
    Facts {
        kind: K::KIND,
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
        queue: String::new(),
        phase: String::new(),
        message: String::new(),
        unit: "",
        submitted: metadata.creation_timestamp.as_ref().map(|time| time.0).unwrap_or_default(),
        ended: None,
        asked: String::new(),
        records: Vec::new(),
        gaps: Vec::new(),
    }
}

fn queue(named: &str) -> String {
    if named.is_empty() { names::DEFAULT_QUEUE.to_owned() } else { named.to_owned() }
}

fn gap_of_phases(records: &[PhaseRecord]) -> Vec<String> {
    let second = records.get(1).filter(|_| records.len() >= PHASES_MAX);
    let said = |record: &PhaseRecord| format!("phases before {} are not all kept", record.since.0.strftime("%F %T"));
    second.map(said).into_iter().collect()
}

/// What is known of a job of another controller, or of one that was begun by an earlier program.
fn phases_of_times(conditions: &[JobCondition]) -> Vec<PhaseRecord> {
    let record = |one: &JobCondition| Some(bare_record(one.status.to_string(), one.last_transition_time.clone()?.0));
    let mut records: Vec<PhaseRecord> = conditions.iter().filter_map(record).collect();
    records.sort_by_key(|record| record.since.0);
    records
}

fn phases_of_conditions(status: &ronde_api::TrainingJobStatus) -> Vec<PhaseRecord> {
    let phase = |type_: &str| match type_ {
        conditions::CREATED => Some(TrainingJobPhase::Created),
        conditions::RUNNING => Some(TrainingJobPhase::Running),
        conditions::SUSPENDED => Some(TrainingJobPhase::Suspended),
        conditions::SUCCEEDED => Some(TrainingJobPhase::Succeeded),
        conditions::FAILED => Some(TrainingJobPhase::Failed),
        _ => None,
    };
    let true_ones = status.conditions.iter().filter(|condition| condition.status == "True");
    let record = |one: &ronde_api::ElasticCondition| {
        let since = one.last_transition_time.clone()?.0;
        let message = one.message.clone();
        Some(PhaseRecord { message, ..bare_record(phase(&one.type_)?.to_string(), since) })
    };
    let mut records: Vec<PhaseRecord> = true_ones.filter_map(record).collect();
    records.sort_by_key(|record| record.since.0);
    records
}

fn bare_record(phase: String, since: Timestamp) -> PhaseRecord {
    let [reason, message, obstacle] = [const { String::new() }; 3];
    let since = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(since);
    PhaseRecord { phase, since, reason, message, obstacle, pods: 0 }
}
