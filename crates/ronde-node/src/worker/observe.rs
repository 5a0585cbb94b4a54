//! What is known of a pod's containers, from the supervisor's records and the worker's own notes. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::{
    lifecycle::{ContainerSeen, Exit, HookState, Run, RunState, crashes_after},
    probes::Health,
    supervisor::record::{End, Record},
};

/// What the worker itself knows of the newest attempt of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notes {
    pub attempt: u32,
    /// Why it could not be started, and since when.
    pub blocked: Option<(String, String, Timestamp)>,
    pub hook: Option<HookState>,
    pub stopping: Option<Timestamp>,
    /// What the probes say; nothing if there are none.
    pub health: Option<Health>,
    /// What the container said about its own end.
    pub message: Option<String>,
}

/// Puts together what is seen of each container. `made_at` is when the present sandbox was made.
pub fn containers(
    uid: &str,
    records: &BTreeMap<String, Vec<Record>>,
    notes: &BTreeMap<String, Notes>,
    made_at: Option<Timestamp>,
) -> BTreeMap<String, ContainerSeen> {
    let names = records.keys().chain(notes.keys());
    let mut seen = BTreeMap::new();
    for name in names {
        if seen.contains_key(name) {
            continue;
        }
        let records = records.get(name).map_or(&[][..], Vec::as_slice);
        if let Some(container) = container(uid, name, records, notes.get(name), made_at) {
            seen.insert(name.clone(), container);
        }
    }
    seen
}

fn container(
    uid: &str,
    name: &str,
    records: &[Record],
    notes: Option<&Notes>,
    made_at: Option<Timestamp>,
) -> Option<ContainerSeen> {
    let own = notes.cloned().unwrap_or_default();
    let mut exits: Vec<Exit> = records.iter().filter_map(|record| exit(uid, name, record, &own)).collect();
    let crashes = exits.iter().fold(0, crashes_after);
    let is_blocked = own.blocked.is_some() && records.last().is_none_or(|record| record.attempt < own.attempt);
    let (attempt, current, state) = match (records.last(), &own.blocked) {
        (_, Some((reason, message, at))) if is_blocked => {
            let state = RunState::Blocked { reason: reason.clone(), message: message.clone(), at: *at };
            (own.attempt, true, state)
        }
        (Some(record), _) => {
            let current = made_at.is_some_and(|made_at| record.asked_at >= made_at);
            let state = match (exit(uid, name, record, &own), record.started_at) {
                (Some(_), _) => RunState::Exited(exits.pop()?),
                (None, Some(started_at)) => {
                    RunState::Running(Run { container_id: id(uid, name, record.attempt), started_at })
                }
                (None, None) => being_started(record),
            };
            (record.attempt, current, state)
        }
        (None, _) => return None,
    };
    let is_noted = own.attempt == attempt;
    let health = own.health.filter(|_| is_noted);
    Some(ContainerSeen {
        attempt,
        current,
        state,
        previous: exits.pop(),
        crashes,
        post_start: own.hook.filter(|_| is_noted).unwrap_or(HookState::Done),
        stopping: own.stopping.filter(|_| is_noted),
        started: health.is_none_or(|health| health.started),
        ready: health.is_none_or(|health| health.ready),
        unhealthy: health.and_then(|health| health.unhealthy),
    })
}

fn id(uid: &str, name: &str, attempt: u32) -> String {
    format!("{uid}/{name}/{attempt}")
}

/// An attempt that was ordered and has not been reported yet waits, as one that cannot be started does.
fn being_started(record: &Record) -> RunState {
    RunState::Blocked { reason: "ContainerCreating".to_owned(), message: String::new(), at: record.asked_at }
}

fn exit(uid: &str, name: &str, record: &Record, own: &Notes) -> Option<Exit> {
    let end = record.end.as_ref()?;
    let message = own.message.clone().filter(|_| own.attempt == record.attempt);
    Some(Exit {
        container_id: id(uid, name, record.attempt),
        code: end.code,
        reason: reason(end).to_owned(),
        message: end.failed.clone().map(|words| format!("failed to start container: {words}")).or(message),
        started_at: record.started_at,
        finished_at: end.at,
    })
}

fn reason(end: &End) -> &'static str {
    match end {
        End { lost: true, .. } => "ContainerStatusUnknown",
        End { failed: Some(_), .. } => "StartError",
        End { out_of_memory: true, .. } => "OOMKilled",
        End { code: 0, .. } => "Completed",
        _ => "Error",
    }
}
