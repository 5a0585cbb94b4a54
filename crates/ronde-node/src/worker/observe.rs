//! What is known of a pod's containers, from the supervisor's records and the worker's own notes. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::{
    lifecycle::{Cause, ContainerSeen, Exit, HookState, Run, RunState, blocked_until, crashes_after},
    probes::Health,
    supervisor::record::{End, Record},
};

/// What the worker itself knows of the newest attempt of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notes {
    pub attempt: u32,
    /// Why it could not be started, and when it is tried again.
    pub blocked: Option<Blocked>,
    pub hook: Option<HookState>,
    pub stopping: Option<Timestamp>,
    /// What the probes say; nothing if there are none.
    pub health: Option<Health>,
    /// What the container said about its own end.
    pub message: Option<String>,
}

/// Why a container does not start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    pub cause: Cause,
    pub until: Timestamp,
}

impl Blocked {
    /// Nothing is wrong: it is being made.
    pub fn creating(until: Timestamp) -> Self {
        Self { cause: Cause { reason: "ContainerCreating".to_owned(), message: String::new() }, until }
    }

    fn state(&self) -> RunState {
        let Cause { reason, message } = self.cause.clone();
        RunState::Blocked { reason, message, until: self.until }
    }
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
        (_, Some(blocked)) if is_blocked => (own.attempt, true, blocked.state()),
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
        image_id: None,
    })
}

fn id(uid: &str, name: &str, attempt: u32) -> String {
    format!("{uid}/{name}/{attempt}")
}

/// An attempt that was ordered and has not been reported yet waits, as one that cannot be started does.
fn being_started(record: &Record) -> RunState {
    Blocked::creating(blocked_until(record.asked_at)).state()
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use jiff::Timestamp;

    use super::{Blocked, Notes, containers};
    use crate::{
        lifecycle::{Cause, RunState},
        supervisor::record::{End, Record},
    };

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn asked(attempt: u32, second: i64) -> Record {
        Record::new(attempt, at(second))
    }

    fn running(attempt: u32, second: i64) -> Record {
        Record { started_at: Some(at(second)), pid: Some(7), ..asked(attempt, second) }
    }

    fn ended(attempt: u32, second: i64, code: i32) -> Record {
        let end = End { at: at(second + 1), code, signal: None, out_of_memory: false, failed: None, lost: false };
        Record { end: Some(end), ..running(attempt, second) }
    }

    fn check(what: &str, records: Vec<Record>, notes: Option<Notes>, expected: &str) {
        let records = BTreeMap::from([("c".to_owned(), records)]);
        let notes = notes.map(|notes| ("c".to_owned(), notes)).into_iter().collect();
        let seen = containers("uid", &records, &notes, Some(at(100)));
        let shown = seen.get("c").map_or_else(
            || "nothing".to_owned(),
            |seen| {
                let state = match &seen.state {
                    RunState::Blocked { reason, .. } => format!("waits: {reason}"),
                    RunState::Running(run) => format!("runs since {}", run.started_at.as_second()),
                    RunState::Exited(exit) => format!("ended {} {}", exit.code, exit.reason),
                };
                let before = seen.previous.as_ref().map_or("first".to_owned(), |exit| format!("before {}", exit.code));
                let when = if seen.current { "now" } else { "earlier" };
                format!("#{} {state}, {before}, {} crashes, {when}", seen.attempt, seen.crashes)
            },
        );
        assert_eq!(shown, expected, "{what}");
    }

    #[test]
    fn records_and_notes_make_one_picture() {
        let blocked = |attempt| Notes {
            attempt,
            blocked: Some(Blocked {
                cause: Cause { reason: "CreateContainerConfigError".to_owned(), message: "no".to_owned() },
                until: at(160),
            }),
            ..Notes::default()
        };
        check("no record", vec![], None, "nothing");
        check("ordered", vec![asked(0, 120)], None, "#0 waits: ContainerCreating, first, 0 crashes, now");
        check("running", vec![running(0, 120)], None, "#0 runs since 120, first, 0 crashes, now");
        check("ended", vec![ended(0, 120, 3)], None, "#0 ended 3 Error, first, 1 crashes, now");
        check("ended well", vec![ended(0, 120, 0)], None, "#0 ended 0 Completed, first, 1 crashes, now");
        check("again", vec![ended(0, 120, 3), running(1, 130)], None, "#1 runs since 130, before 3, 1 crashes, now");
        check("before this sandbox", vec![ended(0, 50, 0)], None, "#0 ended 0 Completed, first, 1 crashes, earlier");
        let waits = "#0 waits: CreateContainerConfigError, first, 0 crashes, now";
        check("cannot be started", vec![], Some(blocked(0)), waits);
        let waits = "#1 waits: CreateContainerConfigError, before 3, 1 crashes, now";
        check("cannot be started again", vec![ended(0, 120, 3)], Some(blocked(1)), waits);
        check(
            "could not, but has",
            vec![running(1, 160)],
            Some(blocked(1)),
            "#1 runs since 160, first, 0 crashes, now",
        );
    }

    #[test]
    fn the_reason_of_an_end_is_told_as_users_know_it() {
        let with = |change: fn(&mut End)| {
            let mut record = ended(0, 120, 137);
            change(record.end.as_mut().unwrap());
            record
        };
        check("killed", vec![with(|_| {})], None, "#0 ended 137 Error, first, 1 crashes, now");
        let killed = "#0 ended 137 OOMKilled, first, 1 crashes, now";
        check("out of memory", vec![with(|end| end.out_of_memory = true)], None, killed);
        let lost = "#0 ended 137 ContainerStatusUnknown, first, 1 crashes, now";
        check("lost", vec![with(|end| end.lost = true)], None, lost);
        let failed = "#0 ended 137 StartError, first, 1 crashes, now";
        check("never ran", vec![with(|end| end.failed = Some("no such file".to_owned()))], None, failed);
    }
}
