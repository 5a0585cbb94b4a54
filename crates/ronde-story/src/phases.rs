//! What the phases of a job tell: waits and what they were for, starts, restarts, suspensions, the end.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use ronde_api::{PhaseRecord, TrainingJobPhase};

use crate::{
    Moment, Size, What,
    facts::{Facts, Stage},
    sizes,
    story::{because, counted, span},
};

/// A shorter wait is none.
const WAIT_MIN: SignedDuration = SignedDuration::from_secs(2);

/// When a job began to run, and when it ended.
pub struct Times {
    pub started: Option<Timestamp>,
    pub ended: Option<Timestamp>,
}

impl Times {
    pub fn of(facts: &Facts) -> Self {
        let first = facts.records.iter().find(|record| stage(record) == Stage::Running);
        let last = facts.records.last().filter(|record| stage(record) == Stage::Ended);
        Self { started: first.map(|it| it.since.0), ended: facts.ended.or(last.map(|it| it.since.0)) }
    }
}

fn stage(record: &PhaseRecord) -> Stage {
    Stage::of(&record.phase)
}

/// Tells what the phases of a job were.
pub fn moments(facts: &Facts, sizes: &[Size], now: Timestamp) -> Vec<Moment> {
    let mut moments = Vec::new();
    let mut has_run = false;
    let waited = now.duration_since(facts.submitted);
    if facts.records.is_empty() && waited >= WAIT_MIN {
        let text = format!("has waited {}: no controller has looked at it yet", span(waited));
        return vec![Moment::new(facts.submitted, What::Waited, text)];
    }
    for (at, record) in facts.records.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| facts.records.get(at));
        let next = facts.records.get(at + 1).map(|next| next.since.0);
        // Who has not been seen by a controller waits too.
        let since = if at == 0 { facts.submitted } else { record.since.0 };
        match stage(record) {
            Stage::Waiting => {
                moments.extend(before.and_then(|before| begun_anew(before, record)));
                moments.extend(wait(record, since, next, now));
            }
            Stage::Running => {
                moments.push(start(facts, record, sizes, has_run));
                has_run = true;
            }
            Stage::Restarting => {
                moments.push(Moment::new(since, What::Restarted, because("restarted", &record.message)));
            }
            // `Aborted` is the end of `Aborting`.
            Stage::Suspended if before.is_none_or(|before| stage(before) != Stage::Suspended) => {
                moments.push(Moment::new(since, What::Suspended, because("suspended", &record.message)));
            }
            Stage::Suspended | Stage::Ending => {}
            Stage::Ended => {
                let after = span(since.duration_since(facts.submitted));
                let text = because(format!("{} after {after}", record.phase.to_lowercase()), &record.message);
                moments.push(Moment::new(since, What::Ended, text));
            }
        }
    }
    moments
}

/// Says why a job that was further waits again.
fn begun_anew(before: &PhaseRecord, record: &PhaseRecord) -> Option<Moment> {
    let is_created = record.phase == TrainingJobPhase::Created.as_str();
    match stage(before) {
        Stage::Suspended => Some(Moment::new(record.since.0, What::Resumed, "resumed")),
        Stage::Running | Stage::Waiting | Stage::Ended if is_created => {
            Some(Moment::new(record.since.0, What::Restarted, because("restarted", &record.message)))
        }
        _ => None,
    }
}

fn wait(record: &PhaseRecord, since: Timestamp, next: Option<Timestamp>, now: Timestamp) -> Option<Moment> {
    let duration = next.unwrap_or(now).duration_since(since);
    if next.is_some() && duration < WAIT_MIN {
        return None;
    }
    let is_short = record.phase == TrainingJobPhase::Waiting.as_str();
    let why = match record.obstacle.as_str() {
        "" if is_short => &record.message,
        obstacle => obstacle,
    };
    let did = if next.is_some() { "waited" } else { "has waited" };
    Some(Moment::new(since, What::Waited, because(format!("{did} {}", span(duration)), why)))
}

fn start(facts: &Facts, record: &PhaseRecord, sizes: &[Size], has_run: bool) -> Moment {
    let since = record.since.0;
    let count = sizes::at(sizes, since, facts.unit).unwrap_or(record.pods);
    let with = if count > 0 { format!(" with {}", counted(count, facts.unit)) } else { String::new() };
    let text = if has_run { format!("ran again{with}") } else { format!("started{with}") };
    Moment::new(since, What::Started, text)
}

/// Says when the last of the pods that are there got its node, and which nodes they have.
pub fn placing(facts: &Facts, pods: &[Pod]) -> Option<Moment> {
    let placed = |pod: &Pod| {
        let conditions = pod.status.as_ref()?.conditions.as_ref()?;
        let placed = conditions.iter().find(|it| it.type_ == "PodScheduled" && it.status == "True")?;
        Some((placed.last_transition_time.as_ref()?.0, pod.spec.as_ref()?.node_name.clone()?))
    };
    let placed: Vec<(Timestamp, String)> = pods.iter().filter_map(placed).collect();
    let last = placed.iter().map(|(time, _)| *time).max()?.max(facts.submitted);
    let mut nodes: BTreeMap<&str, i32> = BTreeMap::new();
    placed.iter().for_each(|(_, node)| *nodes.entry(node).or_default() += 1);
    let list = nodes.iter().take(NODES_MAX).map(|(node, count)| format!("{node} ({count})")).collect::<Vec<_>>();
    let more = nodes.len().saturating_sub(NODES_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Some(Moment::new(last, What::Placed, format!("placed on {}{more}", list.join(", "))))
}

/// More nodes than a person reads.
const NODES_MAX: usize = 6;
