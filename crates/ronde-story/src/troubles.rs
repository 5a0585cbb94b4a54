//! What went wrong and is not told by phases and sizes: scale operations that failed, warnings.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use ronde_api::{Scaler, names::elastic::conditions};

use crate::{
    Moment, Seen, What,
    story::{because, counted},
};

/// How many scale operations that failed are told, and how many warnings: the last ones.
const SCALERS_MAX: usize = 10;
const WARNINGS_MAX: usize = 10;
/// These say what a job waits for, which its phases do in one sentence.
const OF_WAITS: [&str; 5] = ["FailedScheduling", "Unschedulable", "PodGroupPending", "TooFewWorkers", "ScaleFailed"];

/// Tells of the scale operations that failed, of this job and not of an earlier one of its name.
pub fn of_scalers(seen: &Seen<'_>, submitted: Timestamp) -> Vec<Moment> {
    let outs = seen.scale_outs.iter().filter_map(failed);
    let mut moments: Vec<Moment> = outs.chain(seen.scale_ins.iter().filter_map(failed)).collect();
    moments.retain(|moment| moment.time >= submitted);
    moments.sort_by_key(|moment| moment.time);
    moments.split_off(moments.len().saturating_sub(SCALERS_MAX))
}

fn failed<T: Scaler + k8s_openapi::Resource>(scaler: &T) -> Option<Moment> {
    let last = scaler.status()?.conditions.last().filter(|last| last.type_ == conditions::SCALE_FAILED)?;
    let name = scaler.metadata().name.clone().unwrap_or_default();
    let time = last.last_transition_time.as_ref()?.0;
    Some(Moment::new(time, What::Trouble, because(format!("{} {name} failed", T::KIND), &last.message)))
}

/// Tells of warnings that say something new, each sentence once.
pub fn of_events(events: &[Event], told: &[Moment]) -> Vec<Moment> {
    let mut sentences: BTreeMap<String, (Timestamp, i32)> = BTreeMap::new();
    for event in events.iter().filter(|event| is_telling(event)) {
        let Some((first, count)) = seen(event) else { continue };
        let sentence = sentence(event);
        if told.iter().any(|moment| moment.text.contains(&sentence)) {
            continue;
        }
        let known = sentences.entry(sentence).or_insert((first, 0));
        *known = (known.0.min(first), known.1.saturating_add(count));
    }
    let moment = |(sentence, (time, count)): (String, (Timestamp, i32))| {
        let times = if count > 1 { format!(" ({})", counted(count, "time")) } else { String::new() };
        Moment::new(time, What::Trouble, format!("{sentence}{times}"))
    };
    let mut moments: Vec<Moment> = sentences.into_iter().map(moment).collect();
    moments.sort_by_key(|moment| moment.time);
    moments.split_off(moments.len().saturating_sub(WARNINGS_MAX))
}

fn is_telling(event: &Event) -> bool {
    let reason = event.reason.as_deref().unwrap_or_default();
    event.type_.as_deref() == Some("Warning") && !OF_WAITS.contains(&reason)
}

/// Says whose trouble it is, if it is a pod's.
fn sentence(event: &Event) -> String {
    let message = event.message.as_deref().unwrap_or_default().trim();
    let object = &event.involved_object;
    match object.name.as_deref().filter(|_| object.kind.as_deref() == Some("Pod")) {
        Some(pod) => because(format!("{pod}: {}", event.reason.as_deref().unwrap_or_default()), message),
        None => message.to_owned(),
    }
}

/// Returns when an event was first seen, and how often.
fn seen(event: &Event) -> Option<(Timestamp, i32)> {
    let first = event.first_timestamp.as_ref().map(|time| time.0);
    let time = first.or(event.event_time.as_ref().map(|time| time.0));
    let time = time.or(event.metadata.creation_timestamp.as_ref().map(|time| time.0))?;
    let series = event.series.as_ref().and_then(|series| series.count);
    Some((time, series.or(event.count).unwrap_or(1).max(1)))
}
