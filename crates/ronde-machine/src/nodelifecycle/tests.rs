//! When a node counts as lost, and what follows, row by row.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};

use super::plan::{pulse, silent_conditions, taints, time_left};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn node(spec: Value, conditions: Value) -> Node {
    serde_json::from_value(json!({"metadata": {"name": "n"}, "spec": spec, "status": {"conditions": conditions}}))
        .unwrap()
}

fn ready(status: &str) -> Value {
    json!({"type": "Ready", "status": status, "lastHeartbeatTime": at(0).to_string()})
}

#[test]
fn a_node_is_lost_when_nothing_moves() {
    let alive = node(json!({}), json!([ready("True")]));
    let first = pulse(None, &alive, Some(at(-500)), at(0));
    assert_eq!(first.seen, at(0), "an old lease is news to one who has just started");
    let same = pulse(Some(&first), &alive, Some(at(-500)), at(30));
    assert_eq!(same.seen, at(0));
    assert_eq!(time_left(&same, &alive, at(30)).map(|left| left.as_secs()), Some(10));
    assert_eq!(time_left(&same, &alive, at(41)), None);
    let renewed = pulse(Some(&same), &alive, Some(at(35)), at(35));
    assert_eq!(time_left(&renewed, &alive, at(41)).map(|left| left.as_secs()), Some(34));
    let fresh = node(json!({}), json!([]));
    let begin = pulse(None, &fresh, None, at(0));
    assert!(time_left(&begin, &fresh, at(59)).is_some(), "a new node gets more time");
    assert!(time_left(&begin, &fresh, at(61)).is_none());
}

#[test]
fn what_is_not_known_is_unknown() {
    let silent = node(json!({}), json!([ready("True"), {"type": "DiskPressure", "status": "Unknown"}]));
    let conditions = silent_conditions(&silent, at(0)).unwrap();
    let seen: Vec<_> = conditions
        .iter()
        .map(|c| format!("{} {} {}", c.type_, c.status, c.reason.as_deref().unwrap_or_default()))
        .collect();
    assert_eq!(
        seen,
        [
            "Ready Unknown NodeStatusUnknown",
            "MemoryPressure Unknown NodeStatusNeverUpdated",
            "PIDPressure Unknown NodeStatusNeverUpdated",
        ]
    );
    let said = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];
    let said: Vec<_> = said.iter().map(|kind| json!({"type": kind, "status": "Unknown"})).collect();
    assert_eq!(silent_conditions(&node(json!({}), json!(said)), at(0)), None);
}

#[track_caller]
fn check(what: &str, spec: Value, conditions: Value, expected: Option<&[&str]>) {
    let seen = taints(&node(spec, conditions), at(0));
    let shown: Option<Vec<String>> =
        seen.map(|taints| taints.iter().map(|taint| format!("{}:{}", taint.key, taint.effect)).collect());
    let expected = expected.map(|list| list.iter().map(|text| (*text).to_owned()).collect());
    assert_eq!(shown, expected, "{what}");
}

#[test]
fn taints_follow_conditions() {
    const UNREACHABLE: [&str; 2] =
        ["node.kubernetes.io/unreachable:NoSchedule", "node.kubernetes.io/unreachable:NoExecute"];
    const NOT_READY: [&str; 2] = ["node.kubernetes.io/not-ready:NoSchedule", "node.kubernetes.io/not-ready:NoExecute"];
    let taint = |key: &str, effect: &str| json!({"key": key, "effect": effect});
    check("a healthy node", json!({}), json!([ready("True")]), None);
    check("a lost one", json!({}), json!([ready("Unknown")]), Some(&UNREACHABLE));
    check("one that is not ready", json!({}), json!([ready("False")]), Some(&NOT_READY));
    let lost = json!({"taints": [taint("node.kubernetes.io/unreachable", "NoSchedule"),
        taint("mine", "NoExecute"), taint("node.kubernetes.io/unreachable", "NoExecute")]});
    check(
        "one that is back keeps the taints of others",
        lost.clone(),
        json!([ready("True")]),
        Some(&["mine:NoExecute"]),
    );
    check("what is there already is left", lost, json!([ready("Unknown")]), None);
    check(
        "cordoned",
        json!({"unschedulable": true}),
        json!([ready("True")]),
        Some(&["node.kubernetes.io/unschedulable:NoSchedule"]),
    );
    let cordoned = json!({"taints": [taint("node.kubernetes.io/unschedulable", "NoSchedule")]});
    check("no longer cordoned", cordoned, json!([ready("True")]), Some(&[]));
    check(
        "short of memory",
        json!({}),
        json!([ready("True"), {"type": "MemoryPressure", "status": "True"}]),
        Some(&["node.kubernetes.io/memory-pressure:NoSchedule"]),
    );
}
