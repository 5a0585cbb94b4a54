//! What is done to the pods of a job is not held against it: every cause with every policy, and what the job says.

use ronde_api::{Action, JobPhase};
use serde_json::{Value, json};

use crate::vcjob::fixtures::{World, task};
use ronde_runtime::pods::disruption;

/// Who ends a pod; a person is the only one who leaves no mark.
const CAUSES: [(&str, Option<&str>); 6] = [
    ("person", None),
    ("scheduler", Some(disruption::BY_SCHEDULER)),
    ("taint", Some(disruption::BY_TAINT)),
    ("drain", Some(disruption::BY_EVICTION_API)),
    ("node is gone", Some(disruption::BY_POD_GC)),
    ("node is full", Some(disruption::BY_NODE)),
];

fn end(world: &mut World, pod: &str, mark: Option<&str>) {
    if mark == Some(disruption::BY_NODE) {
        world.report(pod, "Failed", 137);
    }
    if let Some(mark) = mark {
        world.mark(pod, mark, "told");
    }
    if mark != Some(disruption::BY_NODE) {
        world.delete(pod);
    }
}

fn job(policies: Value) -> World {
    World::new(json!({"maxRetry": 1, "policies": policies, "tasks": [task("w", 2, json!({}))]}))
}

/// Ends one pod three times and tells what becomes of the job, which may run once.
fn fate(policies: Value, mark: Option<&str>) -> String {
    let mut world = job(policies);
    world.play("run");
    for _ in 0..3 {
        if world.pods.contains_key("j-w-0") && world.status().state.phase == Some(JobPhase::Running) {
            end(&mut world, "j-w-0", mark);
        }
        world.play("gone wait:5 gone run wait:5");
    }
    let status = world.status();
    format!("{}+{}", status.state.phase.expect("a phase"), status.retry_count)
}

#[test]
fn every_cause_with_every_policy() {
    let mut shown = String::new();
    let actions: Vec<&Action> = Action::ALL.iter().filter(|action| action.is_for_users()).collect();
    let policies = actions.iter().map(|action| {
        let policy = json!([{"events": ["PodEvicted", "PodFailed"], "action": action.as_str()}]);
        (format!("both: {action}"), policy)
    });
    let none = [
        ("no policy".to_owned(), json!([])),
        ("failed: RestartJob".to_owned(), json!([{"event": "PodFailed", "action": "RestartJob"}])),
        ("evicted: RestartJob".to_owned(), json!([{"event": "PodEvicted", "action": "RestartJob"}])),
        ("any: RestartJob".to_owned(), json!([{"event": "*", "action": "RestartJob"}])),
        ("137: RestartJob".to_owned(), json!([{"exitCode": 137, "action": "RestartJob"}])),
        ("later".to_owned(), json!([{"event": "PodEvicted", "action": "RestartJob", "timeout": "1s"}])),
    ];
    for (name, policy) in none.into_iter().chain(policies) {
        let fates = CAUSES.map(|(cause, mark)| format!("{cause}={}", fate(policy.clone(), mark)));
        shown.push_str(&format!("{name:<23} {}\n", fates.join(" ")));
    }
    insta::assert_snapshot!(shown, @r"
    no policy               person=Running+0 scheduler=Running+0 taint=Running+0 drain=Running+0 node is gone=Running+0 node is full=Running+0
    failed: RestartJob      person=Running+0 scheduler=Running+0 taint=Running+0 drain=Running+0 node is gone=Running+0 node is full=Running+0
    evicted: RestartJob     person=Failed+1 scheduler=Running+0 taint=Running+0 drain=Running+0 node is gone=Running+0 node is full=Running+0
    any: RestartJob         person=Failed+1 scheduler=Running+0 taint=Running+0 drain=Running+0 node is gone=Running+0 node is full=Running+0
    137: RestartJob         person=Running+0 scheduler=Running+0 taint=Running+0 drain=Running+0 node is gone=Running+0 node is full=Running+0
    later                   person=Failed+1 scheduler=Running+0 taint=Running+0 drain=Running+0 node is gone=Running+0 node is full=Running+0
    both: AbortJob          person=Aborted+0 scheduler=Aborted+0 taint=Aborted+0 drain=Aborted+0 node is gone=Aborted+0 node is full=Aborted+0
    both: RestartJob        person=Failed+1 scheduler=Running+0 taint=Running+0 drain=Running+0 node is gone=Running+0 node is full=Running+0
    both: RestartTask       person=Failed+1 scheduler=Running+0 taint=Running+0 drain=Running+0 node is gone=Running+0 node is full=Running+0
    both: RestartPod        person=Failed+1 scheduler=Running+0 taint=Running+0 drain=Running+0 node is gone=Running+0 node is full=Running+0
    both: RestartPartition  person=Failed+1 scheduler=Running+0 taint=Running+0 drain=Running+0 node is gone=Running+0 node is full=Running+0
    both: TerminateJob      person=Terminated+0 scheduler=Terminated+0 taint=Terminated+0 drain=Terminated+0 node is gone=Terminated+0 node is full=Terminated+0
    both: CompleteJob       person=Completed+0 scheduler=Completed+0 taint=Completed+0 drain=Completed+0 node is gone=Completed+0 node is full=Completed+0
    both: ResumeJob         person=Running+0 scheduler=Running+0 taint=Running+0 drain=Running+0 node is gone=Running+0 node is full=Running+0
    ");
}

#[test]
fn a_job_that_is_preempted_more_often_than_it_may_fail_lives_and_says_who_it_was() {
    let mut world = job(json!([{"events": ["PodEvicted", "PodFailed"], "action": "RestartJob"}]));
    world.play("run");
    for _ in 0..5 {
        world.play("wait:1 preempt:w-0=hi");
        assert_eq!(world.status().state.message, "RestartJob: pod j-w-0 was preempted by hi (priority high)");
        world.admits = false;
        world.play("gone");
        let condition = json!({"type": "Unschedulable", "status": "True", "message": "needs 2 cpu"});
        let status = json!({"phase": "Pending", "conditions": [condition], "running": 0, "succeeded": 0, "failed": 0});
        world.group.as_mut().expect("a group").status = serde_json::from_value(status).expect("a status");
        world.play("wait:1");
        assert_eq!(world.status().state.message, "preempted by hi (priority high); needs 2 cpu");
        world.admits = true;
        world.group = None;
        world.play("run");
        assert_eq!(world.status().state.message, "2 of 2 pods started, 2 required");
    }
    world.play("ok:w-0 ok:w-1");
    let told =
        world.events.iter().filter(|event| event.cause.reason == "Preempted").map(|event| event.cause.message.as_str());
    assert_eq!(told.collect::<Vec<_>>(), ["pod j-w-0 was preempted by hi (priority high)"; 5]);
    assert_eq!(world.status().retry_count, 0);
    assert_eq!(world.phases.last().map(String::as_str), Some("Completed"));
    let phases = world.status().phases;
    let known: Vec<&str> = phases.iter().map(|phase| phase.phase.as_str()).collect();
    assert_eq!(known[..5], ["Pending", "Running", "Restarting", "Pending", "Running"]);
    assert_eq!((known.len(), known[17]), (18, "Completed"), "the status remembers all of it");
    assert_eq!(phases[2].message, "RestartJob: pod j-w-0 was preempted by hi (priority high)");
    assert_eq!((phases[3].obstacle.as_str(), phases[4].pods), ("needs 2 cpu", 2));
}

/// The others fail because one of them is gone; those that are made afterwards have no such excuse.
#[test]
fn what_fails_because_another_was_preempted_is_excused_and_nothing_after() {
    for action in ["RestartJob", "RestartPod"] {
        let mut world = World::new(json!({
            "maxRetry": 1, "tasks": [task("w", 3, json!({}))],
            "policies": [{"event": "PodFailed", "action": action}],
        }));
        world.play("run wait:5 preempt:w-0=hi gone wait:5 fail:w-1=1 wait:1 fail:w-2=1");
        assert_eq!(world.status().retry_count, 0, "{action}");
        world.play("gone run wait:5");
        assert_eq!(world.phases.last().map(String::as_str), Some("Running"), "{action}");
        world.play("fail:w-1=1 gone");
        assert_eq!(world.phases.last().map(String::as_str), Some("Failed"), "{action}: it fails by itself");
    }
}

#[test]
fn a_pod_that_went_beyond_its_own_limits_has_failed() {
    let mut world = job(json!([{"event": "PodFailed", "action": "RestartJob"}]));
    world.play("run");
    world.report("j-w-0", "Failed", 137);
    let status = world.pods.get_mut("j-w-0").and_then(|pod| pod.status.as_mut()).expect("a status");
    (status.reason, status.message) = (Some("Evicted".to_owned()), Some("exceeds the limit \"1Mi\".".to_owned()));
    world.play("gone");
    let state = world.status().state;
    assert_eq!(state.phase, Some(JobPhase::Failed));
    let last =
        "failed after 1 run, the limit of maxRetry; last: RestartJob: pod j-w-0 failed: exceeds the limit \"1Mi\"";
    assert_eq!(state.message, last);
}

#[test]
fn a_job_that_runs_says_which_of_its_pods_are_missing_and_then_no_more() {
    let mut world = World::new(json!({"minAvailable": 1, "tasks": [task("w", 2, json!({"minAvailable": 1}))]}));
    world.play("run wait:5 preempt:w-1=hi gone wait:5");
    let state = world.status().state;
    assert_eq!((state.phase, state.message.as_str()), (Some(JobPhase::Running), "preempted by hi (priority high)"));
    world.play("run");
    assert_eq!(world.status().state.message, "2 of 2 pods started, 1 required");
}
