//! The sizes that a job had: of a training job from its status; of a job of Volcano from its pods, and from its phases
//! where those are gone.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use ronde_api::{SizeChange, TrainingJob};

use crate::{
    Moment, Seen, Size, Subject, What,
    facts::{Facts, Stage},
    story::{because, counted},
};

/// The pods of a gang start within so long of each other, and status and pods differ by a second.
const TOGETHER: SignedDuration = SignedDuration::from_secs(2);
/// The words of losses in the sizes of training jobs.
const LOSSES: [&str; 3] = ["TrainingJobWorkerFailed", "NodeVanishing", "WorkersLeft"];

/// Returns the sizes of a job since its beginning.
pub fn of(seen: &Seen<'_>, facts: &Facts) -> Vec<Size> {
    match seen.job {
        Subject::Training(job) => {
            changes(job).iter().map(|change| Size { time: change.time.0, count: change.workers }).collect()
        }
        Subject::Batch(_) => of_pods(seen.pods, facts),
    }
}

fn changes(job: &TrainingJob) -> &[SizeChange] {
    job.status.as_ref().map_or(&[], |status| &status.sizes)
}

/// Returns the size that a job had at a time; of a job of Volcano when the pods that start together had.
pub fn at(sizes: &[Size], time: Timestamp, unit: &str) -> Option<i32> {
    let margin = if unit == "pod" { TOGETHER } else { SignedDuration::ZERO };
    let so_far = sizes.iter().take_while(|size| size.time.duration_since(time) <= margin);
    so_far.last().map(|size| size.count).filter(|count| *count > 0)
}

fn of_pods(pods: &[Pod], facts: &Facts) -> Vec<Size> {
    let mut changes: Vec<(Timestamp, i32)> = Vec::new();
    for (from, to) in pods.iter().filter_map(ran) {
        changes.push((from, 1));
        changes.extend(to.map(|to| (to, -1)));
    }
    // Of those of one second the starts come first: a pod may have run for less.
    changes.sort_by_key(|(time, change)| (*time, -change));
    let first = changes.first().map(|(time, _)| *time);
    let is_earlier = |time: Timestamp| first.is_none_or(|first| time < first);
    let mut sizes: Vec<Size> = Vec::new();
    for record in facts.records.iter().filter(|record| is_earlier(record.since.0)) {
        let count = if Stage::of(&record.phase) == Stage::Running { record.pods } else { 0 };
        push(&mut sizes, Size { time: record.since.0, count });
    }
    let mut count = 0;
    for (time, change) in changes {
        count += change;
        push(&mut sizes, Size { time, count });
    }
    sizes
}

/// Adds a size, unless it is the last one; of several of one second the last counts.
fn push(sizes: &mut Vec<Size>, size: Size) {
    if sizes.last().is_some_and(|last| last.time == size.time) {
        sizes.pop();
    }
    if sizes.last().map_or(0, |last| last.count) != size.count {
        sizes.push(size);
    }
}

/// Returns from when to when a pod ran.
fn ran(pod: &Pod) -> Option<(Timestamp, Option<Timestamp>)> {
    let containers = pod.status.as_ref()?.container_statuses.as_deref()?;
    let start = containers.iter().filter_map(started).min()?;
    let ends: Option<Vec<Timestamp>> = containers.iter().map(finished).collect();
    Some((start, ends.and_then(|ends| ends.into_iter().max()).map(|end| end.max(start))))
}

fn started(container: &ContainerStatus) -> Option<Timestamp> {
    let state = container.state.as_ref()?;
    let running = state.running.as_ref().and_then(|it| it.started_at.as_ref());
    running.or(state.terminated.as_ref().and_then(|it| it.started_at.as_ref())).map(|time| time.0)
}

fn finished(container: &ContainerStatus) -> Option<Timestamp> {
    container.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref().map(|time| time.0)
}

/// Tells of the changes of size, and of pods that failed.
pub fn moments(seen: &Seen<'_>, facts: &Facts, sizes: &[Size]) -> Vec<Moment> {
    match seen.job {
        Subject::Training(job) => of_changes(changes(job)),
        Subject::Batch(_) => {
            let failures = seen.pods.iter().filter_map(failure);
            failures.chain(of_new_pods(seen.pods, facts, sizes)).collect()
        }
    }
}

/// The first size is the start; one of none is told by the phase that follows.
fn of_changes(changes: &[SizeChange]) -> Vec<Moment> {
    let mut before_loss = None;
    let mut moments = Vec::new();
    for pair in changes.windows(2) {
        let [before, change] = pair else { continue };
        if before.workers == 0 || change.workers == 0 {
            before_loss = None;
            continue;
        }
        let is_loss = change.workers < before.workers && LOSSES.contains(&change.reason.as_str());
        let size = counted(change.workers, "worker");
        let (what, text) = match before_loss {
            _ if is_loss => (What::Lost, format!("down to {size}")),
            _ if change.workers < before.workers => (What::Shrank, format!("shrank to {size}")),
            Some(whole) if change.workers <= whole => (What::Grew, format!("back to {size}")),
            _ => (What::Grew, format!("grew to {size}")),
        };
        before_loss = if is_loss { before_loss.or(Some(before.workers)) } else { before_loss };
        before_loss = before_loss.filter(|whole| change.workers < *whole);
        moments.push(Moment::new(change.time.0, what, because(text, &why(change))));
    }
    moments
}

fn why(change: &SizeChange) -> String {
    match (change.reason.as_str(), change.message.as_str()) {
        ("WorkersJoined" | "WorkersLeft", "") => String::new(),
        (reason, "") => reason.to_owned(),
        (_, message) => message.to_owned(),
    }
}

/// Says of a pod of a job of Volcano how it failed.
fn failure(pod: &Pod) -> Option<Moment> {
    let status = pod.status.as_ref().filter(|status| status.phase.as_deref() == Some("Failed"))?;
    let containers = status.container_statuses.as_deref().unwrap_or_default();
    let ends = containers.iter().filter_map(|it| it.state.as_ref()?.terminated.as_ref());
    let failed = ends.clone().find(|end| end.exit_code != 0);
    let time = ends.filter_map(|end| end.finished_at.as_ref()).map(|time| time.0).max()?;
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let text = match (status.reason.as_deref(), failed) {
        (Some(reason), _) if !reason.is_empty() => format!("{name} failed: {reason}"),
        (_, Some(end)) => format!("{name} failed with exit code {}", end.exit_code),
        _ => format!("{name} failed"),
    };
    Some(Moment::new(time, What::Lost, text))
}

/// Pods that were made while the job ran have made it greater, or took the place of others.
fn of_new_pods(pods: &[Pod], facts: &Facts, sizes: &[Size]) -> Vec<Moment> {
    let Some(running) = facts.records.iter().rfind(|record| Stage::of(&record.phase) == Stage::Running) else {
        return Vec::new();
    };
    let is_new = |pod: &&Pod| {
        let created = pod.metadata.creation_timestamp.as_ref();
        created.is_some_and(|created| created.0.duration_since(running.since.0) > TOGETHER)
    };
    let mut starts: Vec<Timestamp> = pods.iter().filter(is_new).filter_map(ran).map(|(start, _)| start).collect();
    starts.sort_unstable();
    starts.dedup_by(|later, earlier| later.duration_since(*earlier) <= TOGETHER);
    let told = |start: &Timestamp| {
        let count = at(sizes, *start, facts.unit)?;
        Some(Moment::new(*start, What::Grew, format!("grew to {}", counted(count, facts.unit))))
    };
    starts.iter().filter_map(told).collect()
}
