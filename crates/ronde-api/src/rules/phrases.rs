//! Sentences that others look for: each phrase of Volcano that its own suite of admission and scripts rely on, and that
//! can be true here, is in what is said of the same mistake.
//!
//! Which phrases differ, and why, is in `docs/jobs.md`.

use serde_json::{Value, json};

use super::{budget, fixtures::*, hyper_node, job as jobs, job_flow, queue as queues};
use crate::{
    HyperNode, JobFlow,
    names::{JDB_MIN_AVAILABLE, QUEUE_NAME},
    rules::{Fault, Stage},
};

fn check_phrase(phrase: &str, faults: &[Fault]) {
    assert!(faults.iter().any(|fault| fault.to_string().contains(phrase)), "{phrase}: {faults:?}");
}

fn of_job(change: impl FnOnce(&mut Value)) -> Vec<Fault> {
    let mut spec = json!({"tasks": [task("ps", 1), task("worker", 2)]});
    change(&mut spec);
    let mut made = job(&spec);
    jobs::default(&mut made, Stage::Create, None);
    jobs::validate(&made, &some_queues())
}

#[test]
fn jobs_are_refused_in_words_that_scripts_know() {
    let policies = |list: Value| move |spec: &mut Value| spec["policies"] = list;
    let rows: [(&str, Vec<Fault>); 22] = [
        ("duplicated task name", of_job(|spec| spec["tasks"][1]["name"] = "ps".into())),
        (
            "spec.minAvailable: -1 should be greater than or equal to 0",
            of_job(|spec| spec["minAvailable"] = (-1).into()),
        ),
        ("spec.maxRetry: -1 should be greater than or equal to 0", of_job(|spec| spec["maxRetry"] = (-1).into())),
        ("should be greater than or equal to 0", of_job(|spec| spec["ttlSecondsAfterFinished"] = (-1).into())),
        ("No task specified in job spec", of_job(|spec| spec["tasks"] = json!([]))),
        (
            "spec.tasks[0].replicas: -1 should be greater than",
            of_job(|spec| spec["tasks"][0]["replicas"] = (-1).into()),
        ),
        (
            "'minAvailable' is greater than 'replicas' in task",
            of_job(|spec| spec["tasks"][0]["minAvailable"] = 2.into()),
        ),
        (
            "job 'minAvailable' should not be greater than total replicas in tasks",
            of_job(|spec| spec["minAvailable"] = 9.into()),
        ),
        ("should match", of_job(|spec| spec["tasks"][0]["name"] = "A_b".into())),
        (
            "duplicate event PodFailed",
            of_job(policies(
                json!([{"event": "PodFailed", "action": "AbortJob"}, {"event": "PodFailed", "action": "AbortJob"}]),
            )),
        ),
        (
            "must not specify event and exitCode simultaneously",
            of_job(policies(json!([{"event": "PodFailed", "exitCode": 1, "action": "AbortJob"}]))),
        ),
        ("invalid policy action", of_job(policies(json!([{"event": "PodFailed", "action": "Explode"}])))),
        ("invalid policy event", of_job(policies(json!([{"event": "Explode", "action": "AbortJob"}])))),
        ("0 is not a valid error code", of_job(policies(json!([{"exitCode": 0, "action": "AbortJob"}])))),
        (
            "duplicate exitCode 3",
            of_job(policies(json!([{"exitCode": 3, "action": "AbortJob"}, {"exitCode": 3, "action": "AbortJob"}]))),
        ),
        (
            "if there's * here, no other policy should be here",
            of_job(policies(json!([{"event": "*", "action": "AbortJob"}, {"event": "Unknown", "action": "AbortJob"}]))),
        ),
        (
            "duplicated mountPath",
            of_job(|spec| {
                spec["volumes"] = json!([
                    {"mountPath": "/a", "volumeClaimName": "x"}, {"mountPath": "/a", "volumeClaimName": "y"},
                ]);
            }),
        ),
        (
            "either VolumeClaim or VolumeClaimName must be specified",
            of_job(|spec| spec["volumes"] = json!([{"mountPath": "/a"}])),
        ),
        ("unable to find job plugin", of_job(|spec| spec["plugins"] = json!({"magic": []}))),
        ("can only submit job to queue with state `Open`", of_job(|spec| spec["queue"] = "shut".into())),
        ("can not submit job to root queue", of_job(|spec| spec["queue"] = "root".into())),
        (
            "job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG)",
            of_job(|spec| spec["tasks"][0]["dependsOn"] = json!({"name": ["ps"]})),
        ),
    ];
    for (phrase, faults) in rows {
        check_phrase(phrase, &faults);
    }
}

#[test]
fn changes_of_jobs_are_refused_in_words_that_scripts_know() {
    let old = job(&json!({"queue": "default", "tasks": [task("ps", 1)]}));
    let changed = |change: fn(&mut crate::Job)| {
        let mut new = old.clone();
        change(&mut new);
        jobs::validate_update(&old, &new)
    };
    check_phrase("job updates may not add or remove tasks", &changed(|job| job.spec.tasks.clear()));
    check_phrase("job updates may not change fields other than", &changed(|job| job.spec.queue = "team-a".to_owned()));
    check_phrase("not be greater than total replicas", &changed(|job| job.spec.min_available = 2));
}

#[test]
fn queues_flows_domains_and_budgets_are_refused_in_words_that_scripts_know() {
    let of_queue = |spec: Value| queues::validate(&queue("q", &spec), &some_queues());
    check_phrase("spec.weight: -1 should be greater than or equal to 1", &of_queue(json!({"weight": -1})));
    let guarantee = json!({"resource": {"cpu": "4"}});
    check_phrase("must be >= guarantee", &of_queue(json!({"guarantee": guarantee})));
    check_phrase("must be >= guarantee", &of_queue(json!({"guarantee": guarantee, "deserved": {"cpu": "2"}})));
    check_phrase("must be <= capability", &of_queue(json!({"deserved": {"cpu": "2"}, "capability": {"cpu": "1"}})));
    let mut flattened = queue("q", &json!({"weight": 1}));
    let notes = [("volcano.sh/hierarchy", "root/a/b"), ("volcano.sh/hierarchy-weights", "1/-2")];
    flattened.metadata.annotations = Some(notes.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
    check_phrase("must have the same length", &queues::validate(&flattened, &some_queues()));
    check_phrase("larger than 0", &queues::validate(&flattened, &some_queues()));
    let flow: JobFlow = serde_json::from_value(json!({
        "metadata": {"name": "f"}, "spec": {"flows": [{"name": "a", "dependsOn": {"targets": ["a"]}}]},
    }))
    .expect("a flow");
    check_phrase("jobflow Flow is not DAG", &job_flow::validate(&flow));
    let members = json!([{"type": "Node", "selector": {"regexMatch": {"pattern": "["}}}]);
    let domain: HyperNode = serde_json::from_value(json!({"spec": {"members": members}})).expect("a HyperNode");
    check_phrase("member regexMatch pattern is invalid", &hyper_node::validate(&domain));
    check_phrase("member must have at least one member", &hyper_node::validate(&HyperNode::default()));
    let notes = [(JDB_MIN_AVAILABLE.to_owned(), "-1".to_owned()), (QUEUE_NAME.to_owned(), "q".to_owned())];
    check_phrase("must be a positive integer", &budget::validate(&notes.into()));
}
