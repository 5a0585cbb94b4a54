//! Who has to leave when, row by row.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

use super::plan::{Fate, fate};

const NOW: i64 = 1_800_000_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(NOW + second).unwrap()
}

#[track_caller]
fn check(what: &str, taints: Value, tolerations: Value, expected: Fate) {
    let node: Node = serde_json::from_value(json!({"spec": {"taints": taints}})).unwrap();
    let pod: Pod = serde_json::from_value(json!({"spec": {"containers": [], "tolerations": tolerations}})).unwrap();
    assert_eq!(fate(&pod, &node, |_| at(-20), at(0)), expected, "{what}");
}

fn taint(key: &str, ago: i64) -> Value {
    json!({"key": key, "effect": "NoExecute", "timeAdded": at(-ago).to_string()})
}

fn tolerates(key: &str, seconds: Value) -> Value {
    json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds})
}

#[test]
fn pods_leave_when_they_do_not_tolerate_it() {
    let none = || json!([]);
    check("no taint", none(), none(), Fate::Stays);
    check("one that only keeps new pods off", json!([{"key": "a", "effect": "NoSchedule"}]), none(), Fate::Stays);
    check("not tolerated", json!([taint("a", 5)]), none(), Fate::LeavesNow);
    check("tolerated for ever", json!([taint("a", 5)]), json!([tolerates("a", Value::Null)]), Fate::Stays);
    check("tolerated for a while", json!([taint("a", 5)]), json!([tolerates("a", json!(30))]), Fate::LeavesAt(at(25)));
    check("for a while that is over", json!([taint("a", 30)]), json!([tolerates("a", json!(30))]), Fate::LeavesNow);
    check("for no time at all", json!([taint("a", 0)]), json!([tolerates("a", json!(0))]), Fate::LeavesNow);
    check("for less than none", json!([taint("a", 0)]), json!([tolerates("a", json!(-5))]), Fate::LeavesNow);
    check(
        "one of two is not tolerated",
        json!([taint("a", 0), taint("b", 0)]),
        json!([tolerates("a", Value::Null)]),
        Fate::LeavesNow,
    );
    check(
        "the shorter time counts",
        json!([taint("a", 10), taint("b", 10)]),
        json!([tolerates("a", json!(100)), tolerates("b", json!(60))]),
        Fate::LeavesAt(at(50)),
    );
    check(
        "without a time of its own it counts from when it was seen",
        json!([{"key": "a", "effect": "NoExecute"}]),
        json!([tolerates("a", json!(30))]),
        Fate::LeavesAt(at(10)),
    );
    check("longer than the calendar", json!([taint("a", 0)]), json!([tolerates("a", json!(i64::MAX))]), Fate::Stays);
}

#[test]
fn tolerations_match_as_they_do_in_kubernetes() {
    let with = |value: &str| json!([{"key": "a", "value": value, "effect": "NoExecute"}]);
    let equal = json!([{"key": "a", "operator": "Equal", "value": "x", "effect": "NoExecute"}]);
    check("the value", with("x"), equal.clone(), Fate::Stays);
    check("another value", with("y"), equal, Fate::LeavesNow);
    check("everything", with("y"), json!([{"operator": "Exists"}]), Fate::Stays);
    check("any effect", with("y"), json!([{"key": "a", "operator": "Exists"}]), Fate::Stays);
    check("equal is meant without an operator", with("x"), json!([{"key": "a", "value": "x"}]), Fate::Stays);
    check("another key", with("x"), json!([{"key": "b", "operator": "Exists"}]), Fate::LeavesNow);
    check(
        "another effect",
        with("x"),
        json!([{"key": "a", "operator": "Exists", "effect": "NoSchedule"}]),
        Fate::LeavesNow,
    );
}
