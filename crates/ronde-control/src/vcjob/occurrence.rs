//! What has happened to a job, read from what is there and what its status remembers.
//!
//! Pure. Nothing is heard of by chance: an event is a state of the world that the status has not answered yet. Pods say
//! themselves that they failed, wait or were evicted, for as long as they are of the present; tasks and the group say it
//! for as long as it is so, and the memory says whether it was answered; what leaves no trace is noted in the memory.

use jiff::Timestamp;
use kube::ResourceExt as _;
use ronde_api::{Action, Event, PodGroupPhase, TaskSpec};
use ronde_runtime::pods::{state::PodState, trouble};

use super::{
    member::Member,
    memory::{Memory, Occasion, Scope},
    observed::{Observed, is_past_group, max_retry},
};

/// Something that has happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Occurrence {
    pub occasion: Occasion,
    /// The index of the pod that it happened to.
    pub index: Option<i32>,
    pub exit_codes: Vec<i32>,
    /// Since when, if the pod says so; else from when it is noted.
    pub since: Option<Timestamp>,
    /// When the pod was made that it happened to, if that is there.
    pub pod_since: Option<Timestamp>,
    /// It was done to the pod, which did nothing wrong.
    pub is_disruption: bool,
    /// For people.
    pub message: String,
}

impl Occurrence {
    /// Tells whether it stays true after it was answered.
    pub fn is_lasting(&self) -> bool {
        is_lasting(self.occasion.event)
    }

    pub fn task(&self) -> Option<&str> {
        Some(self.occasion.task.as_str()).filter(|task| !task.is_empty())
    }

    /// Returns what an action on it restarts; none if it restarts nothing or all.
    pub fn scope(&self, seen: &Observed<'_>, action: Action) -> Option<Scope> {
        let task = self.task()?;
        // What happened to a whole task has no pod.
        let Some(index) = self.index else { return Some(Scope::Task(task.to_owned())) };
        let partition = seen.task(task).and_then(|task| partition_of(task, index));
        Some(match (action, partition) {
            (Action::RestartTask, _) => Scope::Task(task.to_owned()),
            (Action::RestartPartition, Some(partition)) => Scope::Partition(task.to_owned(), partition),
            _ => Scope::Pod(self.occasion.pod.clone()),
        })
    }

    fn of_task(event: Event, task: &TaskSpec, message: String) -> Self {
        Self::new(Occasion::of_task(event, &task.name), message)
    }

    fn of_job(event: Event, message: &str) -> Self {
        Self::new(Occasion::of_job(event), message.to_owned())
    }

    fn new(occasion: Occasion, message: String) -> Self {
        Self {
            occasion,
            index: None,
            exit_codes: Vec::new(),
            since: None,
            pod_since: None,
            is_disruption: false,
            message,
        }
    }
}

/// Tells whether something stays true after it was answered.
pub fn is_lasting(event: Event) -> bool {
    matches!(event, Event::TaskCompleted | Event::TaskFailed | Event::Unknown)
}

/// Returns the partition of an index.
pub fn partition_of(task: &TaskSpec, index: i32) -> Option<i32> {
    let size = task.partition_policy.as_ref()?.partition_size;
    (size > 0).then(|| index / size)
}

/// Returns everything that has happened, in the order of the pods.
pub fn all(seen: &Observed<'_>, memory: &Memory) -> Vec<Occurrence> {
    let present = seen.members.iter().filter(|member| seen.is_present(memory, member));
    let mut all: Vec<Occurrence> = present.filter_map(of_member).collect();
    for task in &seen.spec().tasks {
        all.extend(of_task(seen, memory, task));
    }
    all.extend(of_group(seen, memory));
    if memory.generation.is_some() && memory.generation != seen.job.metadata.generation {
        all.push(Occurrence::of_job(Event::JobUpdated, "the job was changed"));
    }
    let noted: Vec<Occurrence> = memory
        .seen
        .keys()
        .filter(|occasion| !is_lasting(occasion.event))
        .map(|occasion| noted(seen, occasion))
        .collect();
    let is_new = |noted: &Occurrence| !all.iter().any(|other| other.occasion == noted.occasion);
    let noted: Vec<Occurrence> = noted.into_iter().filter(is_new).collect();
    all.extend(noted);
    all
}

fn of_member(member: &Member) -> Option<Occurrence> {
    let name = &member.name;
    let disruption = member.disruption();
    let disrupted = disruption.as_ref().map(|it| format!("pod {name} was {}", it.why));
    let (event, since, message) = if member.is_evicted() {
        (Event::PodEvicted, None, disrupted.unwrap_or_else(|| format!("pod {name} was evicted or deleted")))
    } else {
        match member.state {
            PodState::Failed => {
                let message = disrupted.unwrap_or_else(|| failure(member));
                (Event::PodFailed, Some(member.ended_at()), message)
            }
            PodState::Pending => {
                (Event::PodPending, Some(member.created_at()), format!("pod {name} has been pending for too long"))
            }
            _ => return None,
        }
    };
    let exit_codes = if event == Event::PodFailed { bad_codes(member) } else { Vec::new() };
    Some(Occurrence {
        index: Some(member.index),
        exit_codes,
        since,
        pod_since: Some(member.created_at()),
        is_disruption: disruption.is_some(),
        ..Occurrence::new(Occasion::of_pod(event, member), message)
    })
}

/// Says how a pod has failed.
pub fn failure(member: &Member) -> String {
    match trouble::of_failed(&member.pod) {
        Some(why) if why.starts_with("exit code") => format!("pod {} failed with {why}", member.name),
        Some(why) => format!("pod {} failed: {why}", member.name),
        None => format!("pod {} failed", member.name),
    }
}

fn bad_codes(member: &Member) -> Vec<i32> {
    member.exit_codes().into_iter().filter(|code| *code != 0).collect()
}

fn of_task(seen: &Observed<'_>, memory: &Memory, task: &TaskSpec) -> Vec<Occurrence> {
    let mut all = Vec::new();
    if is_completed(memory, task) {
        let message = format!("task {} has completed: {} of its pods succeeded", task.name, task.replicas);
        all.push(Occurrence::of_task(Event::TaskCompleted, task, message));
    }
    let restarts = restarts(seen, memory, task);
    if restarts >= max_retry(task.max_retry) {
        let message = format!("task {} failed: number of container restarts: {restarts}", task.name);
        all.push(Occurrence::of_task(Event::TaskFailed, task, message));
    }
    all
}

fn is_completed(memory: &Memory, task: &TaskSpec) -> bool {
    task.replicas > 0 && memory.succeeded_of(&task.name) >= task.replicas
}

fn restarts(seen: &Observed<'_>, memory: &Memory, task: &TaskSpec) -> i32 {
    let runs = |member: &&Member| {
        member.task == task.name
            && matches!(member.state, PodState::Pending | PodState::Running)
            && seen.is_present(memory, member)
    };
    seen.members.iter().filter(runs).map(Member::restarts).fold(0, i32::saturating_add)
}

fn of_group(seen: &Observed<'_>, memory: &Memory) -> Option<Occurrence> {
    let group = seen.group.as_ref().filter(|group| !is_past_group(memory, group))?;
    let is_unknown = group.phase() == Some(PodGroupPhase::Unknown);
    is_unknown.then(|| Occurrence::of_job(Event::Unknown, "only part of the pod group is running"))
}

/// What left no other trace than its note.
fn noted(seen: &Observed<'_>, occasion: &Occasion) -> Occurrence {
    let index = occasion.pod.rsplit('-').next().and_then(|index| index.parse().ok());
    let message = match occasion.event {
        Event::PodEvicted => format!("pod {} was evicted or deleted", occasion.pod),
        event => format!("{event} of job {}", seen.job.name_any()),
    };
    Occurrence { index, ..Occurrence::new(occasion.clone(), message) }
}

/// Tells whether an occasion that was noted is of no more interest: it has mended itself, or is not true any more.
pub fn is_over(seen: &Observed<'_>, memory: &Memory, occasion: &Occasion) -> bool {
    let task = seen.task(&occasion.task);
    match occasion.event {
        Event::TaskCompleted => task.is_none_or(|task| !is_completed(memory, task)),
        Event::TaskFailed => task.is_none_or(|task| restarts(seen, memory, task) < max_retry(task.max_retry)),
        Event::Unknown => of_group(seen, memory).is_none(),
        Event::PodEvicted => {
            let runs = |member: &Member| {
                member.name == occasion.pod && matches!(member.state, PodState::Running | PodState::Succeeded)
            };
            task.is_none() || seen.members.iter().any(runs)
        }
        _ => false,
    }
}
