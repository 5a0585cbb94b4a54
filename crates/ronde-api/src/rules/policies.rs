//! Lifecycle policies, of jobs and of tasks.

use std::collections::BTreeSet;

use super::fault::Faults;
use crate::{Action, Event, LifecyclePolicy};

/// Checks the list of policies at `path`.
pub(super) fn check(policies: &[LifecyclePolicy], path: &str, faults: &mut Faults) {
    for (at, policy) in policies.iter().enumerate() {
        check_one(policy, &format!("{path}[{at}]"), faults);
    }
    check_events(policies, path, faults);
    check_exit_codes(policies, path, faults);
}

fn check_one(policy: &LifecyclePolicy, path: &str, faults: &mut Faults) {
    let actions = Action::ALL.iter().filter(|action| action.is_for_users()).map(|action| action.as_str());
    if policy.action.is_empty() {
        faults.required(format!("{path}.action"), "must be an action, such as RestartJob");
    }
    faults.word("invalid policy action", format!("{path}.action"), &policy.action, actions);
    let has_event = !policy.event.is_empty() || !policy.events.is_empty();
    match (has_event, policy.exit_code) {
        (false, None) => faults.required(format!("{path}.event"), "set event, events or exitCode"),
        (true, Some(_)) => {
            let why = "must not specify event and exitCode simultaneously: set one of them";
            faults.invalid(format!("{path}.exitCode"), why);
        }
        (false, Some(0)) => faults.invalid(format!("{path}.exitCode"), "0 is not a valid error code: it means success"),
        (false, Some(_)) | (true, None) => {}
    }
    if let Some(timeout) = policy.timeout.filter(|timeout| timeout.is_negative()) {
        faults.invalid(format!("{path}.timeout"), format!("{timeout} is negative"));
    }
}

fn check_events(policies: &[LifecyclePolicy], path: &str, faults: &mut Faults) {
    let mut seen = BTreeSet::new();
    for (place, event) in events(policies, path) {
        let words = Event::ALL.iter().filter(|event| event.is_for_users()).map(|event| event.as_str());
        faults.word("invalid policy event", &place, event, words);
        if !seen.insert(event) {
            faults.duplicate(place, format!("duplicate event {event}: an earlier policy has it"));
        }
    }
    let any = events(policies, path).find(|(_, event)| *event == Event::Any.as_str());
    if let Some((place, _)) = any.filter(|_| seen.len() > 1) {
        faults.invalid(place, "if there's * here, no other policy should be here: it matches every event");
    }
}

/// All events of a list with their paths.
fn events<'a>(policies: &'a [LifecyclePolicy], path: &'a str) -> impl Iterator<Item = (String, &'a str)> {
    policies.iter().enumerate().flat_map(move |(at, policy)| {
        let single =
            Some((format!("{path}[{at}].event"), policy.event.as_str())).filter(|(_, event)| !event.is_empty());
        let many = policy.events.iter().enumerate();
        single
            .into_iter()
            .chain(many.map(move |(index, event)| (format!("{path}[{at}].events[{index}]"), event.as_str())))
    })
}

fn check_exit_codes(policies: &[LifecyclePolicy], path: &str, faults: &mut Faults) {
    let mut seen = BTreeSet::new();
    for (at, policy) in policies.iter().enumerate() {
        if let Some(code) = policy.exit_code.filter(|code| !seen.insert(*code)) {
            faults.duplicate(
                format!("{path}[{at}].exitCode"),
                format!("duplicate exitCode {code}: an earlier policy has it"),
            );
        }
    }
}

/// What is said of policies of a task that are taken and have no effect.
pub(super) fn warnings(policies: &[LifecyclePolicy], path: &str) -> Vec<String> {
    let updated = events(policies, path).filter(|(_, event)| *event == Event::JobUpdated.as_str());
    updated
        .map(|(place, _)| format!("{place}: JobUpdated happens to jobs, so this policy of a task never acts"))
        .collect()
}
