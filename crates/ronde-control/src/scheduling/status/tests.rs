//! What users are told, row by row.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use ronde_api::{PodGroup, PodGroupStatus, Queue};
use ronde_scheduler::{Amounts, Reason, Waiting};
use ronde_sim::pods::{at, pod};
use serde_json::{Value, json};

use super::{
    groups::{self, GroupFacts, is_rewording},
    pods, queues,
};

fn group(minimum: i32, phase: &str) -> PodGroup {
    let status = if phase.is_empty() { json!(null) } else { json!({"phase": phase}) };
    let meta = json!({"name": "g", "namespace": "default"});
    serde_json::from_value(json!({"metadata": meta, "spec": {"minMember": minimum}, "status": status})).unwrap()
}

/// `p` waits, `b` has a node, `r` runs, `l` runs and is being deleted, `s` and `f` have ended.
fn pods(text: &str) -> Vec<Arc<Pod>> {
    let make = |(index, letter): (usize, char)| {
        let pod = pod(&format!("p{index}"));
        match letter {
            'p' => pod,
            'b' => pod.on("a"),
            'r' => pod.on("a").phase("Running"),
            'l' => pod.on("a").phase("Running").deleted(1),
            's' => pod.on("a").phase("Succeeded"),
            _ => pod.on("a").phase("Failed"),
        }
        .build()
    };
    text.chars().enumerate().map(make).collect()
}

fn wait(reason: Reason, message: &str) -> Waiting {
    Waiting { group: "default/g".into(), reason, message: message.to_owned() }
}

fn next(group: &PodGroup, pods: &[Arc<Pod>], wait: Option<&Waiting>, is_admitted: bool) -> PodGroupStatus {
    groups::next_status(&GroupFacts { group, pods, wait, is_admitted, now: at(5) })
}

#[test]
fn the_phase_follows_the_pods() {
    let check = |what: &str, before: &str, members: &str, wait: Option<Reason>, expected: &str| {
        let wait = wait.map(|reason| self::wait(reason, "w"));
        let next = next(&group(3, before), &pods(members), wait.as_ref(), false);
        assert_eq!(next.phase.unwrap().as_str(), expected, "{what}");
    };
    let room = Some(Reason::NotEnoughResources);
    check("nobody has seen it", "", "", None, "Pending");
    check("waiting for its queue", "Pending", "", room, "Pending");
    check("admitted, its pods come", "Inqueue", "pp", None, "Inqueue");
    check("admitted, no room", "Inqueue", "ppp", room, "Inqueue");
    check("half of the binds are seen", "Inqueue", "rbp", None, "Inqueue");
    check("the minimum has nodes", "Inqueue", "bbb", None, "Running");
    check("with one above the minimum that waits", "Running", "rrrp", None, "Running");
    check("one has failed", "Running", "rrf", None, "Running");
    check("some are going", "Running", "lll", None, "Running");
    check("one is lost and comes again", "Running", "rrp", None, "Running");
    check("one is lost and not made yet", "Running", "rr", Some(Reason::NotEnoughPods), "Running");
    check("one is lost and finds no room", "Running", "rrp", room, "Unknown");
    check("it still finds none", "Unknown", "rrp", None, "Unknown");
    check("it has found some", "Unknown", "rrb", None, "Running");
    check("nothing is left", "Running", "ppp", room, "Pending");
    check("nothing is left but an end", "Running", "f", None, "Pending");
    check("all have ended", "Running", "ssf", None, "Completed");
    check("all have ended but one above the minimum", "Running", "sssp", None, "Running");
    check("it begins again", "Completed", "ppp", None, "Pending");
}

#[test]
fn a_group_that_is_let_in_says_so() {
    let admitted = next(&group(3, "Pending"), &[], None, true);
    assert_eq!(admitted.phase.unwrap().as_str(), "Inqueue");
    let condition = &admitted.conditions[0];
    assert_eq!(
        (condition.type_.as_str(), &*condition.status, &*condition.reason),
        ("Unschedulable", "False", "Admitted")
    );
    let wait = wait(Reason::NotEnoughResources, "needs more");
    let waits = next(&group(3, "Pending"), &pods("ppp"), Some(&wait), true);
    assert_eq!(
        (waits.phase.unwrap().as_str(), &*waits.conditions[0].status),
        ("Inqueue", "True"),
        "with pods it waits on"
    );
}

#[test]
fn tasks_have_minimums_of_their_own() {
    let member = |task: &str| pod(task).annotation("volcano.sh/task-spec", task).phase("Running").on("a").build();
    let check = |what: &str, minimums: Value, expected: bool| {
        let mut group = group(2, "Inqueue");
        group.spec.min_task_member = serde_json::from_value(minimums).unwrap();
        assert_eq!(groups::is_whole(&group, &[member("a"), member("b")]), expected, "{what}");
    };
    check("one of each", json!({"a": 1, "b": 1}), true);
    check("two of one", json!({"a": 2}), false);
    check("more than the group wants is not heeded", json!({"a": 2, "b": 2}), true);
}

/// A group with the status that it should have.
fn written(mut group: PodGroup, members: &[Arc<Pod>], wait: Option<&Waiting>) -> PodGroup {
    group.status = Some(next(&group, members, wait, false));
    group
}

#[test]
fn conditions_keep_their_time_until_they_turn() {
    let few = wait(Reason::NotEnoughResources, "2 free");
    let waits = written(group(3, "Inqueue"), &pods("ppp"), Some(&few));
    let later = |group: &PodGroup, members: &[Arc<Pod>], wait: Option<&Waiting>| {
        groups::next_status(&GroupFacts { group, pods: members, wait, is_admitted: false, now: at(60) })
    };
    assert_eq!(later(&waits, &pods("ppp"), Some(&few)), waits.status.clone().unwrap(), "nothing is new");
    let fewer = wait(Reason::NotEnoughResources, "1 free");
    let again = later(&waits, &pods("ppp"), Some(&fewer));
    assert_eq!(again.conditions[0].message, "1 free");
    assert_eq!(again.conditions[0].last_transition_time.as_ref().unwrap().0, at(5), "it has waited all the time");
    assert!(is_rewording(&waits, &again));
    let limit = later(&waits, &pods("ppp"), Some(&wait(Reason::QueueLimit, "6")));
    assert!(!is_rewording(&waits, &limit), "another reason is news");
    assert!(!is_rewording(&group(3, "Inqueue"), waits.status.as_ref().unwrap()), "and so is the first one");
    let placed = later(&waits, &pods("bbb"), Some(&few));
    let told: Vec<_> = placed.conditions.iter().map(|c| (c.type_.as_str(), &*c.status)).collect();
    assert_eq!(told, [("Unschedulable", "False"), ("Scheduled", "True")]);
    let mut runs = waits.clone();
    runs.status = Some(placed);
    let lost = later(&runs, &pods("bbp"), Some(&few));
    let told: Vec<_> = lost.conditions.iter().map(|c| (c.type_.as_str(), &*c.status)).collect();
    assert_eq!(told, [("Unschedulable", "True"), ("Scheduled", "False")]);
}

#[test]
fn pods_are_counted() {
    let status = next(&group(1, "Running"), &pods("prrlssf"), None, false);
    assert_eq!((status.running, status.succeeded, status.failed), (2, 2, 1));
}

#[test]
fn a_pod_that_waits_says_why() {
    let named = pod("p").annotation("scheduling.k8s.io/group-name", "g").build();
    let sentence = wait(Reason::NotEnoughResources, "needs more");
    let check =
        |what: &str, group: Option<&PodGroup>, members: &str, wait: Option<&Waiting>, seconds: i64, expected: &str| {
            let members = self::pods(members);
            let seen = pods::PodFacts { group, pods: &members, wait, is_limited: false, now: at(seconds) };
            let why = pods::why(&seen, &named).map(|(_, message)| message);
            assert_eq!(why.unwrap_or_default(), expected, "{what}");
        };
    let group = group(2, "Inqueue");
    check("as its group", Some(&group), "pp", Some(&sentence), 1, "needs more");
    check("not known yet", Some(&group), "pp", None, 1, "");
    let surplus = "exceeds the minimum of its group and is scheduled when there is room";
    check("the others run", Some(&group), "rrp", None, 1, surplus);
    check("its group may come", None, "p", None, 4, "");
    check("its group does not come", None, "p", None, 5, "pod group `g` does not exist");
    let alone = pods::PodFacts { group: None, pods: &[], wait: Some(&sentence), is_limited: false, now: at(1) };
    let why = pods::why(&alone, &pod("q").build()).map(|(_, message)| message);
    assert_eq!(why.as_deref(), Some("needs more"), "a pod without a group");
}

#[test]
fn autoscalers_hear_only_of_pods_that_nodes_would_help() {
    let named = pod("p").annotation("scheduling.k8s.io/group-name", "g").build();
    let group = group(2, "Inqueue");
    let reason = |members: &str, wait: Option<&Waiting>, is_limited: bool| {
        let members = self::pods(members);
        let seen = pods::PodFacts { group: Some(&group), pods: &members, wait, is_limited, now: at(9) };
        let why = pods::why(&seen, &named).expect("it waits");
        pods::waiting(&named, &why, at(9)).reason.expect("it says why")
    };
    let rows = [
        (Reason::NotEnoughResources, "Unschedulable"),
        (Reason::NotEnoughPods, "NotEnoughPods"),
        (Reason::NotEnoughPodsOfTask, "NotEnoughPodsOfTask"),
        (Reason::NoNodeMatches, "Unschedulable"),
        (Reason::TopologyNotSatisfied, "Unschedulable"),
        (Reason::VolumeMissing, "VolumeMissing"),
        (Reason::QueueLimit, "QueueLimit"),
        (Reason::QueueClosed, "QueueClosed"),
        (Reason::QueueMissing, "QueueMissing"),
        (Reason::QueueNotLeaf, "QueueNotLeaf"),
        (Reason::BehindInQueue, "BehindInQueue"),
        (Reason::WaitingForRoom, "Unschedulable"),
        (Reason::HeldForOthers, "Unschedulable"),
    ];
    assert_eq!(rows.map(|(reason, _)| reason), Reason::ALL, "every reason is decided");
    for (why, expected) in rows {
        assert_eq!(reason("pp", Some(&wait(why, "w")), false), expected);
    }
    assert_eq!(reason("rrp", None, false), "Unschedulable", "surplus without room");
    assert_eq!(reason("rrp", None, true), "QueueLimit", "surplus above a limit");
    let group_missing = pods::PodFacts { group: None, pods: &[], wait: None, is_limited: false, now: at(9) };
    assert_eq!(pods::why(&group_missing, &named).expect("it waits").0, "PodGroupMissing");
}

#[test]
fn queues_say_what_they_use() {
    let check = |what: &str, before: Value, now: &[(&str, i64)], expected: Value| {
        let queue: Queue = serde_json::from_value(json!({"status": {"allocated": before}})).unwrap();
        let change = queues::change(&queue, &Amounts::of(now.iter().copied()));
        assert_eq!(change.map_or(Value::Null, |change| change["status"]["allocated"].clone()), expected, "{what}");
    };
    check("nothing", json!(null), &[], json!(null));
    check("something", json!(null), &[("cpu", 1500), ("memory", 1 << 30)], json!({"cpu": "1500m", "memory": "1Gi"}));
    check("the same", json!({"cpu": "1500m"}), &[("cpu", 1500)], json!(null));
    check(
        "less",
        json!({"cpu": "2", "nvidia.com/gpu": "1"}),
        &[("cpu", 1000)],
        json!({"cpu": "1", "nvidia.com/gpu": null}),
    );
}
