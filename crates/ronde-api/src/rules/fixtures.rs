//! Objects and checks for the tests of the rules.

use serde_json::{Value, json};

use super::{Fault, Queues};
use crate::{Job, Queue};

/// Compares faults with the lines expected.
pub(super) fn check(what: &str, faults: &[Fault], expected: &[&str]) {
    let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
    assert_eq!(lines, expected, "{what}");
}

/// A queue of the given name and spec.
pub(super) fn queue(name: &str, spec: &Value) -> Queue {
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).expect("a queue")
}

/// `root`, `default`, `team-a`, the closed `shut`, and `dept` with `dept-x` below it.
pub(super) fn some_queues() -> Queues {
    let mut shut = queue("shut", &json!({}));
    shut.status = serde_json::from_value(json!({"state": "Closed"})).expect("a status");
    let open = ["root", "default", "team-a", "dept"].map(|name| queue(name, &json!({})));
    open.into_iter().chain([shut, queue("dept-x", &json!({"parent": "dept"}))]).collect()
}

/// A job called `mnist` of the given spec.
pub(super) fn job(spec: &Value) -> Job {
    serde_json::from_value(json!({"metadata": {"name": "mnist"}, "spec": spec})).expect("a job")
}

/// A task of the given name and replicas with a template that is as good as any.
pub(super) fn task(name: &str, replicas: i32) -> Value {
    json!({"name": name, "replicas": replicas, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}})
}
