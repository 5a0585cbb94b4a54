//! How jobs begin, run, restart, wait and end.

use kube::ResourceExt as _;
use ronde_api::JobPhase;
use ronde_sim::pods::at;
use serde_json::{Value, json};

use crate::vcjob::{
    fixtures::{World, task},
    memory::Memory,
    observed::Observed,
    plan::plan,
};

fn play(spec: Value, script: &str) -> World {
    let mut world = World::new(spec);
    world.play(script);
    world
}

/// Plays a script and compares the phases that the job went through.
fn check(what: &str, spec: Value, script: &str, phases: &str) -> World {
    let world = play(spec, script);
    assert_eq!(world.phases.join(" "), phases, "{what}");
    world
}

fn gang(number: i32) -> Value {
    json!({"maxRetry": 3, "tasks": [task("w", number, json!({}))]})
}

fn gang_with(policy: Value) -> Value {
    let mut spec = gang(2);
    spec["policies"] = json!([policy]);
    spec
}

fn counters(world: &World) -> String {
    let status = world.status();
    let numbers = [
        ("pending", status.pending),
        ("running", status.running),
        ("succeeded", status.succeeded),
        ("failed", status.failed),
        ("terminating", status.terminating),
        ("retries", status.retry_count),
    ];
    let shown = numbers.iter().filter(|(_, number)| *number > 0).map(|(name, number)| format!("{name} {number}"));
    shown.collect::<Vec<_>>().join(", ")
}

#[test]
fn a_job_runs_and_ends() {
    let world = check("all succeed", gang(2), "run ok:w-0 ok:w-1", "Pending Running Completed");
    assert_eq!(counters(&world), "succeeded 2");
    assert_eq!(world.status().state.message, "2 of 2 pods succeeded, 2 required");
    assert!(world.group.is_none(), "the group has gone");
    assert_eq!(world.show_pods(), "w-0:Succeeded@0 w-1:Succeeded@0", "finished pods stay");
    let world = check("one fails", gang(2), "run ok:w-0 fail:w-1=1", "Pending Running Failed");
    assert_eq!(counters(&world), "succeeded 1, failed 1");
    let spec = || json!({"minAvailable": 1, "tasks": [task("w", 2, json!({"minAvailable": 1}))]});
    check("one is enough to run", spec(), "run:w-0", "Pending Running");
    check("one success is enough", spec(), "run ok:w-0 fail:w-1=1", "Pending Running Completed");
    check("of no pods nothing ends", gang(0), "", "Running");
}

#[test]
fn counters_stay_right_after_the_end() {
    let mut world = play(gang(2), "run ok:w-0 fail:w-1=1");
    world.play("evict:w-0 evict:w-1 gone");
    assert_eq!(world.show_pods(), "");
    assert_eq!(counters(&world), "succeeded 1, failed 1");
    let shown = serde_json::to_value(world.status().task_status_count).unwrap();
    assert_eq!(shown, json!({"w": {"phase": {"Failed": 1, "Succeeded": 1}}}));
}

#[test]
fn numbers_alone_wait_for_half_a_second() {
    let mut world = play(json!({"minAvailable": 1, "tasks": [task("w", 3, json!({"minAvailable": 1}))]}), "run:w-0");
    assert_eq!(counters(&world), "pending 2, running 1");
    world.told = Some(at(world.seconds));
    world.happen("run:w-1");
    let wait = world.look_again().expect("a time");
    assert!(wait.is_positive() && wait.as_millis() <= 500, "{wait}");
    assert_eq!(counters(&world), "pending 2, running 1", "nothing is written yet");
    world.play("wait:1");
    assert_eq!(counters(&world), "pending 1, running 2");
    world.told = Some(at(world.seconds));
    world.play("ok:w-0");
    assert_eq!(counters(&world), "pending 1, running 1, succeeded 1", "what is remembered is written at once");
}

#[test]
fn tasks_have_their_own_minimum() {
    let spec = json!({"tasks": [task("a", 1, json!({})), task("b", 1, json!({}))]});
    let world = check("a task fails", spec, "run ok:a-0 fail:b-0=1", "Pending Running Failed");
    assert_eq!(
        world.status().state.message,
        "task b: 0 of 1 pods succeeded, 1 required; pod j-b-0 failed with exit code 1"
    );
    let least = json!({"minAvailable": 1});
    let spec = json!({"minAvailable": 1, "tasks": [task("a", 2, least.clone()), task("b", 1, least)]});
    check(
        "less is asked of the job than of its tasks",
        spec,
        "run ok:a-0 fail:a-1=1 fail:b-0=1",
        "Pending Running Completed",
    );
}

#[test]
fn enough_successes_complete_a_job() {
    let mut spec = gang(3);
    spec["minSuccess"] = json!(1);
    let world = check("one of three", spec.clone(), "run ok:w-1", "Pending Running Completed");
    assert_eq!(world.show_pods(), "w-0:Terminating@0 w-1:Succeeded@0 w-2:Terminating@0");
    spec["minSuccess"] = json!(2);
    spec["minAvailable"] = json!(1);
    spec["tasks"][0]["minAvailable"] = json!(1);
    check("too few", spec, "run ok:w-1 fail:w-0=1 fail:w-2=1", "Pending Running Failed");
}

#[test]
fn pods_wait_for_the_queue() {
    let mut world = World::new(gang(2));
    world.admits = false;
    world.play("");
    assert_eq!(world.show_pods(), "");
    let group = world.group.clone().expect("a group");
    assert_eq!((group.metadata.name.as_deref(), group.spec.min_member), (Some("j-u"), 2));
    world.play("group:Pending");
    assert_eq!(world.show_pods(), "");
    world.play("admit");
    assert_eq!(world.show_pods(), "w-0:Pending@0 w-1:Pending@0");
}

#[test]
fn a_running_job_whose_pods_wait_is_pending() {
    let spec = gang(2);
    check("an evicted pod comes back", spec, "run evict:w-0 gone", "Pending Running Pending");
}

#[test]
fn n_runs_are_all_there_are() {
    let policy = json!({"event": "PodFailed", "action": "RestartJob"});
    let script = "run fail:w-0=1 gone run fail:w-0=1 gone run";
    let phases = "Pending Running Restarting Pending Running Restarting Pending Running";
    check("the third run", gang_with(policy.clone()), script, phases);
    let script = format!("{script} ok:w-1 fail:w-0=7");
    let world = check("and no more", gang_with(policy.clone()), &script, &format!("{phases} Restarting Failed"));
    assert_eq!(world.show_pods(), "w-0:Failed@2 w-1:Succeeded@2", "the last pods stay for their output");
    assert_eq!(counters(&world), "succeeded 1, failed 1, retries 3");
    let state = world.status().state;
    assert_eq!(state.reason, "RetryLimitReached");
    assert_eq!(
        state.message,
        "failed after 3 runs, the limit of maxRetry; last: RestartJob: pod j-w-0 failed with exit code 7"
    );
    let mut once = gang_with(policy);
    once["maxRetry"] = json!(1);
    check("one run", once, "run fail:w-0=1", "Pending Running Restarting Failed");
}

#[test]
fn a_restart_waits_for_the_old_pods() {
    let policy = json!({"event": "PodEvicted", "action": "RestartJob"});
    let world = check("they are still there", gang_with(policy.clone()), "run evict:w-1", "Pending Running Restarting");
    assert_eq!(world.show_pods(), "w-0:Terminating@0 w-1:Terminating@0");
    assert!(world.group.is_none(), "it goes back to its queue");
    let world =
        check("gone", gang_with(policy), "run evict:w-1 gone run", "Pending Running Restarting Pending Running");
    assert_eq!(world.show_pods(), "w-0:Running@1 w-1:Running@1");
    assert_eq!(counters(&world), "running 2, retries 1");
}

#[test]
fn suspending_and_resuming_loses_no_retry_volcano_3067() {
    let round = "cmd:AbortJob gone cmd:ResumeJob run ";
    let mut world =
        play(gang_with(json!({"event": "PodFailed", "action": "RestartJob"})), &format!("run {}", round.repeat(5)));
    let last: Vec<&str> = world.phases.iter().rev().take(5).map(String::as_str).collect();
    assert_eq!(last, ["Running", "Pending", "Restarting", "Aborted", "Aborting"]);
    assert_eq!(counters(&world), "running 2");
    assert!(world.commands.is_empty(), "commands are deleted when they are carried out");
    for retries in 1..=2 {
        world.play("fail:w-0=1 gone run");
        assert_eq!(counters(&world), format!("running 2, retries {retries}"), "all runs of maxRetry are left");
        world.play(round);
    }
    world.play("fail:w-0=1 gone");
    assert_eq!(world.phases.last().map(String::as_str), Some("Failed"), "the third run was the last");
}

#[test]
fn what_has_succeeded_is_not_run_again_after_a_resume() {
    let mut world = play(gang(3), "run ok:w-0 fail:w-1=1 cmd:AbortJob");
    assert_eq!(world.show_pods(), "w-0:Succeeded@0 w-1:Failed@0 w-2:Terminating@0");
    world.play("gone cmd:ResumeJob gone run");
    assert_eq!(world.show_pods(), "w-0:Succeeded@0 w-1:Running@1 w-2:Running@1");
    assert_eq!(counters(&world), "running 2, succeeded 1");
    world.play("ok:w-1 ok:w-2");
    assert_eq!(world.phases.last().map(String::as_str), Some("Completed"));
}

#[test]
fn a_succeeded_pod_that_is_removed_is_not_run_again() {
    let mut world = play(gang(2), "run ok:w-0 evict:w-0 gone");
    assert_eq!(world.show_pods(), "w-1:Running@0");
    assert_eq!(counters(&world), "running 1, succeeded 1");
    world.play("ok:w-1");
    assert_eq!(world.phases.join(" "), "Pending Running Completed");
}

#[test]
fn a_pod_that_answers_its_deletion_by_ending_well_has_not_succeeded() {
    let mut world = play(gang(2), "run");
    world.happen("evict:w-0");
    world.happen("ok:w-0");
    world.play("gone run");
    assert_eq!(counters(&world), "running 2");
}

#[test]
fn commands_are_carried_out_once_and_in_order() {
    let mut world = play(gang(2), "run");
    world.command("AbortJob");
    world.command("ResumeJob");
    world.work();
    world.play("gone run");
    assert_eq!(world.phases.join(" "), "Pending Running Aborting Restarting Pending Running");
    let mut world = play(gang(1), "run cmd:Dance cmd:RestartPod ok:w-0 cmd:RestartJob");
    assert_eq!(world.phases.join(" "), "Pending Running Completed");
    let warnings: Vec<String> =
        world.events.drain(..).filter(|event| event.is_warning).map(|event| event.cause.message).collect();
    let expected = [
        "Command Dance has no effect on a job that is Running",
        "Command RestartPod has no effect on a job that is Running",
        "Command RestartJob has no effect on a job that is Completed",
    ];
    assert_eq!(warnings, expected);
}

#[test]
fn an_abort_during_a_restart_is_not_lost() {
    let policy = json!({"event": "PodFailed", "action": "RestartJob"});
    let phases = "Pending Running Restarting Aborting Aborted";
    check("abort", gang_with(policy.clone()), "run fail:w-0=1 cmd:AbortJob gone", phases);
    let phases = "Pending Running Restarting Terminating Terminated";
    check("terminate", gang_with(policy), "run fail:w-0=1 cmd:TerminateJob gone", phases);
}

#[test]
fn scaling_makes_and_deletes_pods_without_events() {
    let policy = json!({"event": "*", "action": "RestartJob"});
    let mut world = play(gang_with(policy), "run scale:w=4 run");
    assert_eq!(world.show_pods(), "w-0:Running@0 w-1:Running@0 w-2:Running@0 w-3:Running@0");
    assert_eq!(world.group.as_ref().map(|group| group.spec.min_member), Some(4));
    world.play("scale:w=1 gone");
    assert_eq!(world.show_pods(), "w-0:Running@0");
    world.play("scale:w=0 gone scale:w=1 run");
    assert_eq!(world.show_pods(), "w-0:Running@0");
    assert_eq!(world.status().retry_count, 0);
}

#[test]
fn an_index_that_comes_back_runs_again() {
    let mut world = play(gang(2), "run ok:w-1 scale:w=1 gone scale:w=2 run");
    assert_eq!(world.show_pods(), "w-0:Running@0 w-1:Running@0");
    world.play("ok:w-0 ok:w-1");
    assert_eq!(counters(&world), "succeeded 2");
}

#[test]
fn timers_are_computed_from_the_objects() {
    let pending = || gang_with(json!({"event": "PodPending", "action": "RestartPod", "timeout": "5m"}));
    let mut world = play(pending(), "run:w-0");
    assert_eq!(world.look_again().map(|wait| wait.as_secs()), Some(300));
    world.play("wait:299");
    assert_eq!(world.show_pods(), "w-0:Running@0 w-1:Pending@0");
    world.play("wait:1");
    assert_eq!(world.show_pods(), "w-0:Running@0 w-1:Terminating@0");
    let world = play(pending(), "run wait:1000");
    assert_eq!(world.status().retry_count, 0, "pods that run do not wait");
    let failed = || gang_with(json!({"event": "PodFailed", "action": "RestartJob", "timeout": "60s"}));
    let world = play(failed(), "run fail:w-0=1 wait:59");
    assert_eq!(world.phases.join(" "), "Pending Running");
    let world = play(failed(), "run fail:w-0=1 wait:60");
    assert_eq!(world.phases.join(" "), "Pending Running Restarting");
}

#[test]
fn a_job_does_not_fail_before_its_policy_has_acted() {
    let failed = || gang_with(json!({"event": "PodFailed", "action": "RestartJob", "timeout": "60s"}));
    check("it waits", failed(), "run ok:w-0 fail:w-1=1 wait:59", "Pending Running");
    check("it restarts", failed(), "run ok:w-0 fail:w-1=1 wait:60 gone", "Pending Running Restarting Pending");
}

#[test]
fn an_eviction_with_a_timeout_is_forgiven_if_the_pod_comes_back() {
    let evicted = || gang_with(json!({"event": "PodEvicted", "action": "TerminateJob", "timeout": "60s"}));
    let mut world = play(evicted(), "run evict:w-0 gone wait:30 run wait:100");
    assert_eq!(world.status().running, 2);
    assert!(world.events.drain(..).any(|event| event.cause.message == "Execute action TerminateJob after 1m0s"));
    let world = play(evicted(), "run evict:w-0 gone wait:60 gone");
    assert_eq!(world.phases.join(" "), "Pending Running Pending Terminating Terminated");
    assert_eq!(world.status().state.reason, "PodEvicted");
}

#[test]
fn a_claim_that_is_named_must_exist_and_others_are_made() {
    let mut spec = gang(1);
    spec["volumes"] = json!([
        {"mountPath": "/in", "volumeClaimName": "data"},
        {"mountPath": "/out", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}},
    ]);
    let mut world = play(spec, "");
    assert_eq!(world.show_pods(), "");
    let state = world.status().state;
    assert_eq!(state.message, "waiting for PersistentVolumeClaim data, which does not exist");
    world.play("claim:data run");
    assert_eq!(world.show_pods(), "w-0:Running@0");
    let pod = &world.pods["j-w-0"].spec.clone().unwrap();
    let made = world.claims.iter().find(|name| name.starts_with("j-pvc-")).expect("a claim");
    assert_eq!(made.len(), "j-pvc-".len() + 12);
    let mounts: Vec<String> =
        pod.containers[0].volume_mounts.iter().flatten().map(|mount| mount.mount_path.clone()).collect();
    assert_eq!(mounts, ["/in", "/out"]);
    assert_eq!(world.status().controlled_resources.get(&format!("volume-pvc-{made}")), Some(made));
}

#[test]
fn a_job_says_what_it_waits_for() {
    let mut world = World::new(gang(2));
    world.admits = false;
    world.play("");
    let message = "queue team-a is at its limit";
    let condition = json!({"type": "Unschedulable", "status": "True", "message": message});
    let status = json!({"phase": "Pending", "conditions": [condition], "running": 0, "succeeded": 0, "failed": 0});
    world.group.as_mut().unwrap().status = serde_json::from_value(status).unwrap();
    world.play("wait:1 wait:1");
    assert_eq!(world.status().state.message, message);
    let told: Vec<&str> = world.events.iter().map(|event| event.cause.message.as_str()).collect();
    assert_eq!(told, ["PodGroup ns:j unschedulable, reason: queue team-a is at its limit"], "once");
}

#[test]
fn a_job_that_is_wrong_is_refused_until_it_is_not() {
    let mut world = World::new(gang(1));
    world.faults = vec!["spec.queue: `gpu` is closed".to_owned(), "spec.tasks: too few".to_owned()];
    world.play("wait:10");
    let state = world.status().state;
    assert_eq!(
        (state.reason.as_str(), state.message.as_str()),
        ("InvalidJob", "spec.queue: `gpu` is closed; spec.tasks: too few")
    );
    assert!(world.group.is_none() && world.events.len() == 1);
    assert_eq!(world.look_again().map(|wait| wait.as_secs()), Some(10));
    world.play("cmd:AbortJob");
    assert!(world.commands.is_empty(), "nobody waits for it");
    let told = world.events.last().map(|event| event.cause.message.as_str());
    assert_eq!(told, Some("Command AbortJob has no effect on an invalid job"));
    world.faults.clear();
    world.play("run");
    assert_eq!(world.phases.join(" "), "Pending Running");
}

#[test]
fn what_has_no_effect_and_what_may_not_change_is_told_once() {
    let mut spec = gang(2);
    (spec["minSuccess"], spec["queue"]) = (json!(9), json!("default"));
    let mut world = World::new(spec);
    world.play("run run");
    let told = |world: &mut World| {
        let events = std::mem::take(&mut world.events).into_iter().filter(|event| event.is_warning);
        events.map(|event| format!("{}: {}", event.cause.reason, event.cause.message)).collect::<Vec<_>>()
    };
    assert_eq!(told(&mut world), ["JobWarning: spec.minSuccess: 9 pods cannot succeed: the job has 2"]);
    world.play("scale:w=3 run");
    assert_eq!(told(&mut world), [""; 0], "replicas may change");
    let spec = &mut world.job.spec;
    spec.tasks[0].template.metadata.get_or_insert_default().generate_name = Some("other".to_owned());
    spec.tasks[0].depends_on = serde_json::from_value(json!({"name": ["w"]})).expect("it depends on itself");
    spec.volumes = serde_json::from_value(json!([{"mountPath": "/d", "volumeClaimName": "d"}])).expect("volumes");
    world.job.metadata.generation = Some(9);
    world.play("claim:d");
    let faults = told(&mut world);
    assert_eq!(faults.len(), 1, "{faults:?}");
    for part in [
        "InvalidJob: spec.volumes: job updates may not change them",
        "spec.tasks[0]: job updates may not change fields other than",
        "dependsOn",
    ] {
        assert!(faults[0].contains(part), "{part}: {faults:?}");
    }
    world.job.metadata.generation = Some(10);
    world.play("");
    let again = told(&mut world).join(" ");
    assert!(!again.contains("may not change fields") && again.contains("dependsOn"), "{again}");
}

#[test]
fn pods_of_a_queue_that_extends_to_other_clusters_are_marked() {
    let mut world = World::new(gang(1));
    world.play("");
    world.pods.clear();
    let memory = Memory::read(&world.status(), &world.job.spec);
    let label = |seen: &Observed<'_>| {
        let made = plan(seen, &memory, JobPhase::Pending).create.remove(0);
        made.labels().get("volcano.sh/job-forwarding").cloned()
    };
    let mut seen = world.observe();
    assert_eq!(label(&seen), None);
    seen.is_forwarded = true;
    assert_eq!(label(&seen).as_deref(), Some("true"));
}
