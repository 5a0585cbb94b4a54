//! What becomes of a job when something happens.

use kube::ResourceExt;
use ronde_api::{ElasticMemory, TrainingJobPhase as Phase, names::elastic as names};
use serde_json::json;

use super::super::{
    fixtures::{World, spec},
    observed::Capacity,
};

fn three() -> World {
    World::running(json!({"replicas": 3, "minReplicas": 1, "maxReplicas": 9}))
}

fn sizes(world: &World) -> Vec<i32> {
    world.status().sizes.iter().map(|size| size.workers).collect()
}

#[test]
fn a_job_is_created_runs_and_succeeds() {
    let mut world = three();
    let types: Vec<String> = world.status().conditions.iter().map(|condition| condition.type_.clone()).collect();
    assert_eq!(types, ["Created", "WorkersCreated", "WorkersReady", "LauncherCreated", "Running"]);
    assert_eq!(world.hostfile, "j-worker-0:1\nj-worker-1:1\nj-worker-2:1\n");
    assert_eq!(world.services.len(), 3);
    let group = world.group.clone().expect("a group");
    assert_eq!((group.spec.min_member, group.spec.min_task_member["worker"]), (2, 1));
    assert_eq!(sizes(&world), [3], "the ring is formed once");
    world.set_phase("j-launcher", "Succeeded", Some(0));
    world.live();
    let status = world.status();
    assert_eq!((status.phase, status.reason.as_str()), (Some(Phase::Succeeded), "TrainingJobSucceeded"));
    assert!(status.completion_time.is_some() && world.workers().is_empty() && world.group.is_none());
    assert_eq!(status.conditions.last().expect("one").type_, "Succeeded");
    assert_eq!(world.pods.len(), 1, "the launcher stays");
    assert!(world.services.is_empty());
}

/// Leaves of a job what et-operator would know.
fn begun_by_et_operator(world: &mut World) {
    let status = world.job.status.as_mut().expect("a status");
    status.elastic = ElasticMemory::default();
    for pod in world.pods.values_mut() {
        pod.metadata.annotations = None;
        pod.metadata.finalizers = None;
    }
}

#[test]
fn a_job_that_et_operator_has_begun_goes_on_with_its_pods() {
    let mut world = three();
    world.scale_out("more", 1, 60);
    world.pass(1);
    let pods = |world: &World| world.pods.values().map(ResourceExt::uid).collect::<Vec<_>>();
    let before = (pods(&world), world.hosts());
    assert_eq!(before.1, "0 1 2 3");
    begun_by_et_operator(&mut world);
    world.live();
    world.pass(60);
    assert_eq!((pods(&world), world.hosts()), before);
    assert_eq!((world.phase(), world.memory().next_index), (Some(Phase::Running), 4));
    world.set_phase("j-launcher", "Succeeded", Some(0));
    world.live();
    assert_eq!(world.phase(), Some(Phase::Succeeded));
}

#[test]
fn a_job_that_ended_under_et_operator_does_not_run_again() {
    let mut world = three();
    world.set_phase("j-launcher", "Succeeded", Some(0));
    world.live();
    begun_by_et_operator(&mut world);
    world.live();
    assert_eq!((world.phase(), world.pods.len()), (Some(Phase::Succeeded), 1));
}

#[test]
fn it_starts_with_the_least_and_grows_when_there_is_room() {
    let mut world = World::new(spec(json!({"replicas": 3, "minReplicas": 1})));
    world.room = 2;
    world.live();
    assert_eq!(world.phase(), Some(Phase::Created), "others may be on their way");
    world.pass(5);
    assert_eq!((world.phase(), world.hosts().as_str()), (Some(Phase::Running), "0"));
    assert_eq!(world.status().message, "1 of 3 workers are running");
    world.room = 4;
    world.live();
    assert_eq!((world.hosts().as_str(), sizes(&world)), ("0 1 2", vec![1, 3]));
}

#[test]
fn a_job_that_waits_too_long_is_given_up() {
    let mut world = World::new(spec(json!({"replicas": 3})));
    world.annotate(names::MAX_WAIT_TIME, Some("60"));
    world.job.spec.restart_policy = "OnFailure".to_owned();
    world.room = 2;
    world.live();
    world.pass(59);
    assert_eq!(world.phase(), Some(Phase::Created));
    assert_eq!(world.look_again, Some(jiff::SignedDuration::from_secs(1)), "it looks again in time");
    world.pass(1);
    let status = world.status();
    assert_eq!((status.phase, status.reason.as_str()), (Some(Phase::Failed), "MaxWaitTimeExceeded"));
    assert_eq!(status.message, "it did not start within 60 s: 1 of 3 workers are running");
    assert!(world.workers().is_empty() && world.group.is_none(), "it gives up its place");
    let mut world = three();
    world.annotate(names::MAX_WAIT_TIME, Some("60"));
    world.pass(100);
    assert_eq!(world.phase(), Some(Phase::Running), "one that has started goes on");
}

#[test]
fn nothing_is_counted_as_active_when_a_job_has_ended() {
    let active = |world: &World| {
        let status = world.status().replica_statuses;
        (status["Launcher"].active, status["Worker"].active, status["Launcher"].succeeded)
    };
    let mut world = three();
    assert_eq!(active(&world), (1, 3, 0));
    world.set_phase("j-launcher", "Succeeded", Some(0));
    world.look();
    world.live();
    assert_eq!(active(&world), (0, 0, 1));
    world.delete_now("j-launcher");
    world.live();
    assert_eq!(active(&world), (0, 0, 1), "how it ended stays known");
}

#[test]
fn pods_that_stay_follow_the_policy() {
    let rows = [
        ("All", vec!["j-launcher"]),
        ("Running", vec!["j-launcher", "j-worker-1"]),
        ("None", vec!["j-launcher", "j-worker-0", "j-worker-1", "j-worker-2", "j-worker-3"]),
    ];
    for (policy, expected) in rows {
        let mut world = three();
        world.job.spec.clean_pod_policy = policy.to_owned();
        world.set_phase("j-worker-1", "Failed", Some(1));
        world.live();
        world.pass(20);
        world.set_phase("j-launcher", "Succeeded", Some(0));
        world.live();
        assert_eq!(world.pods.keys().collect::<Vec<_>>(), expected, "{policy}");
    }
}

#[test]
fn more_workers_come_all_together() {
    let mut world = three();
    world.room = 5;
    world.scale_out("more", 2, 60);
    world.live();
    assert_eq!((world.phase(), world.hosts().as_str()), (Some(Phase::Scaling), "0 1 2"), "one of two is not enough");
    assert_eq!(world.status().current_scaler, "ScaleOut:ns/more");
    assert_eq!(world.outcome("more").0, "Scaling");
    world.room = 6;
    world.live();
    assert_eq!((world.phase(), world.hosts().as_str()), (Some(Phase::Running), "0 1 2 3 4"));
    assert_eq!(world.outcome("more").0, "ScaleSucceeded");
    assert_eq!(world.outs["more"].status.as_ref().expect("a status").add_pods, ["j-worker-3", "j-worker-4"]);
    assert_eq!((sizes(&world), world.status().current_scaler.as_str()), (vec![3, 5], ""));
    assert_eq!(world.status().conditions.last().expect("one").type_, "ScaleSucceeded");
    assert!(world.outs["more"].metadata.owner_references.is_some(), "it goes with the job");
}

#[test]
fn more_workers_than_fit_are_rolled_back_in_time() {
    let mut world = three();
    world.room = 5;
    world.scale_out("more", 2, 60);
    world.live();
    world.pass(59);
    assert_eq!(world.phase(), Some(Phase::Scaling));
    world.pass(1);
    let (outcome, why) = world.outcome("more");
    assert_eq!(outcome, "ScaleFailed");
    assert_eq!(why, "execution timeout after 60 s: j-worker-4 is not running: its pod has not started");
    assert_eq!((world.phase(), world.hosts().as_str()), (Some(Phase::Running), "0 1 2"));
    assert_eq!(world.workers(), ["j-worker-0", "j-worker-1", "j-worker-2"]);
    world.room = 9;
    world.scale_out("again", 1, 60);
    world.pass(3);
    assert_eq!(world.hosts(), "0 1 2 5", "a name is used once");
}

#[test]
fn fewer_workers_are_those_of_the_highest_index_or_those_named() {
    let mut world = three();
    world.scale_in("less", json!({"count": 1}), 60);
    world.live();
    assert_eq!((world.outcome("less").0.as_str(), world.hosts().as_str()), ("ScaleSucceeded", "0 1"));
    assert_eq!((world.workers(), world.services.len()), (vec!["j-worker-0", "j-worker-1"], 2));
    world.seconds += 3;
    world.scale_in("first", json!({"podNames": ["j-worker-0"]}), 60);
    world.live();
    assert_eq!((world.outcome("first").0.as_str(), world.hosts().as_str()), ("ScaleSucceeded", "1"));
    assert_eq!(sizes(&world), [3, 2, 1]);
    world.seconds += 3;
    world.scale_out("more", 1, 60);
    world.live();
    assert_eq!(world.hosts(), "1 3");
}

#[test]
fn a_scale_in_that_times_out_gives_back_workers_and_not_names() {
    for policy in ["Always", "Never"] {
        let mut world = three();
        policy.clone_into(&mut world.job.spec.et_replica_specs.worker.restart_policy);
        world.obedient = false;
        world.scale_in("less", json!({"count": 2}), 60);
        world.live();
        assert_eq!((world.phase(), world.hosts().as_str()), (Some(Phase::Scaling), "0"));
        world.set_phase("j-worker-1", "Succeeded", Some(0));
        world.pass(60);
        let (outcome, why) = world.outcome("less");
        assert_eq!(
            (outcome.as_str(), why.as_str()),
            ("ScaleFailed", "execution timeout after 60 s: j-worker-2 did not leave")
        );
        assert_eq!(
            (world.phase(), world.hosts().as_str()),
            (Some(Phase::Running), "0 3 4"),
            "{policy}: who was asked to leave will leave, so others take the place"
        );
        assert_eq!(world.workers(), ["j-worker-0", "j-worker-2", "j-worker-3", "j-worker-4"], "it has time");
        world.pass(120);
        assert_eq!((world.workers().len(), world.hosts().as_str()), (3, "0 3 4"));
    }
}

#[test]
fn without_an_agent_workers_get_a_time_to_leave_that_fits_in_the_timeout() {
    for (timeout, patience) in [(60, 30), (20, 10), (600, 30)] {
        let mut spec = spec(json!({"replicas": 2, "minReplicas": 1}));
        spec["launcherAttachMode"] = "ssh".into();
        let mut world = World::new(spec);
        world.live();
        (world.obedient, world.stubborn) = (false, true);
        world.seconds += 3;
        world.scale_in("less", json!({"count": 1}), timeout);
        world.live();
        world.pass(patience - 1);
        assert_eq!(world.workers().len(), 2, "{timeout}");
        world.pass(1);
        assert_eq!(world.outcome("less").0, "Scaling", "its pod is still there");
        world.pass(1);
        assert_eq!((world.outcome("less").0.as_str(), world.workers()), ("ScaleSucceeded", vec!["j-worker-0"]));
    }
}

#[test]
fn requests_that_cannot_be_met_fail_with_a_reason() {
    let check = |what: &str, ask: &dyn Fn(&mut World), expected: &str| {
        let mut world = World::running(json!({"replicas": 2, "minReplicas": 1, "maxReplicas": 3}));
        ask(&mut world);
        world.live();
        let (outcome, why) = world.outcome("ask");
        assert_eq!((outcome.as_str(), why.as_str()), ("ScaleFailed", expected), "{what}");
        assert_eq!((world.phase(), world.hosts().as_str()), (Some(Phase::Running), "0 1"), "{what}");
    };
    let above = "2 more than 2 workers is above maxReplicas, which is 3";
    check("too many", &|world| world.scale_out("ask", 2, 60), above);
    let below = "2 fewer than 2 workers is below minReplicas, which is 1";
    check("too few", &|world| world.scale_in("ask", json!({"count": 2}), 60), below);
    check("more than there are", &|world| world.scale_in("ask", json!({"count": 5}), 60), "the job has only 2 workers");
    let nobody = json!({"podNames": ["j-worker-7", "j-worker-0", "x"]});
    check("nobody", &|world| world.scale_in("ask", nobody.clone(), 60), "the job has no worker j-worker-7, x");
    check("none", &|world| world.scale_out("ask", 0, 60), "spec.toAdd.count: 0 should be greater than or equal to 1");
}

#[test]
fn requests_are_met_in_the_order_of_their_creation() {
    let mut world = three();
    world.room = 4;
    world.scale_out("z-first", 1, 60);
    world.seconds += 1;
    world.scale_out("a-second", 1, 60);
    world.scale_in("b-third", json!({"count": 1}), 60);
    world.live();
    assert_eq!(world.status().current_scaler, "ScaleOut:ns/z-first");
    assert_eq!((world.outcome("a-second").0.as_str(), world.outcome("b-third").0.as_str()), ("Created", "Created"));
    world.room = 9;
    for _ in 0..3 {
        world.pass(3);
    }
    assert_eq!(world.hosts(), "0 1 2 3", "3 and 4 came, 4 has left again");
    assert_eq!(sizes(&world), [3, 4, 5, 4]);
}

#[test]
fn who_asks_a_job_that_has_ended_is_told() {
    let mut world = three();
    world.set_phase("j-launcher", "Succeeded", Some(0));
    world.live();
    world.scale_out("late", 1, 60);
    world.live();
    assert_eq!(world.outcome("late"), ("ScaleFailed".to_owned(), "the job has ended: it is Succeeded".to_owned()));
}

#[test]
fn a_job_that_ends_while_it_is_scaled_says_so() {
    let mut world = three();
    world.room = 4;
    world.scale_out("more", 1, 60);
    world.live();
    world.set_phase("j-launcher", "Failed", Some(1));
    world.live();
    assert_eq!(world.outcome("more"), ("ScaleFailed".to_owned(), "the job has ended".to_owned()));
    assert_eq!(
        (world.phase(), world.status().message.as_str()),
        (Some(Phase::Failed), "the launcher failed with exit code 1",)
    );
}

#[test]
fn lost_workers_are_replaced_as_the_policy_says() {
    let failed = |code| move |world: &mut World| world.set_phase("j-worker-1", "Failed", Some(code));
    let ended = |world: &mut World| world.set_phase("j-worker-1", "Succeeded", Some(0));
    let deleted = |world: &mut World| world.delete("j-worker-1");
    let gone = |world: &mut World| drop(world.pods.remove("j-worker-1"));
    let check = |policy: &str, what: &str, lose: &dyn Fn(&mut World), expected: &str| {
        let mut world = three();
        policy.clone_into(&mut world.job.spec.et_replica_specs.worker.restart_policy);
        lose(&mut world);
        world.live();
        world.pass(20);
        assert_eq!(world.hosts(), expected, "{policy}: {what}");
        assert_eq!(world.phase(), Some(Phase::Running));
    };
    for policy in ["", "Always"] {
        check(policy, "failed", &failed(1), "0 2 3");
        check(policy, "ended", &ended, "0 2 3");
        check(policy, "deleted", &deleted, "0 2 3");
        check(policy, "gone", &gone, "0 2 3");
    }
    check("OnFailure", "failed", &failed(1), "0 2 3");
    check("OnFailure", "ended", &ended, "0 2");
    check("ExitCode", "by a signal", &failed(137), "0 2 3");
    check("ExitCode", "by its own", &failed(1), "0 2");
    check("ExitCode", "gone", &gone, "0 2 3");
    check("Never", "failed", &failed(137), "0 2");
    check("Never", "gone", &gone, "0 2");
}

#[test]
fn a_worker_that_fails_again_and_again_is_given_up() {
    let mut world = World::running(json!({"replicas": 1}));
    for failure in 0..6_i64 {
        let worker = world.workers()[0].to_owned();
        world.set_phase(&worker, "Failed", Some(1));
        world.live();
        assert_eq!(world.phase(), Some(Phase::Waiting), "{failure}");
        let pause = 10 << failure.min(5);
        world.pass(pause - 1);
        assert!(world.workers().is_empty(), "not so soon: {failure}");
        world.pass(1);
        assert_eq!(world.phase(), Some(Phase::Running), "{failure}");
    }
    let worker = world.workers()[0].to_owned();
    world.set_phase(&worker, "Failed", Some(1));
    world.live();
    assert_eq!((world.phase(), world.status().reason.as_str()), (Some(Phase::Failed), "WorkerFailuresExceeded"));
}

#[test]
fn old_failures_do_not_end_a_job_that_loses_a_worker_for_another_reason() {
    let mut world = World::running(json!({"replicas": 2, "minReplicas": 1}));
    let fail = |world: &mut World| {
        let worker = world.workers().pop().expect("a worker").to_owned();
        world.set_phase(&worker, "Failed", Some(1));
        world.live();
        world.pass(600);
    };
    for _ in 0..7 {
        fail(&mut world);
    }
    assert_eq!((world.phase(), world.memory().wanted), (Some(Phase::Running), 1), "the last one was not replaced");
    let delete = |world: &mut World| {
        let worker = world.workers()[0].to_owned();
        world.delete(&worker);
        world.live();
        assert_eq!((world.phase(), world.workers().len()), (Some(Phase::Running), 1), "{:?}", world.status());
    };
    delete(&mut world);
    world.pass(24 * 3600);
    delete(&mut world);
    fail(&mut world);
    assert_eq!(
        (world.phase(), world.memory().failures),
        (Some(Phase::Running), 1),
        "a day later the count begins anew"
    );
}

#[test]
fn replacements_for_workers_that_never_started_are_made_with_pauses() {
    let mut world = three();
    world.room = 1;
    world.vanishing.insert("n1".to_owned(), "node n1 is shutting down: SpotTermination".to_owned());
    world.live();
    let made = world.made.len();
    assert_eq!(made, 7, "the launcher, three workers, and three in their place");
    // A scheduler that knows nothing of the notice puts them on the same node.
    let place = |world: &mut World| {
        for name in world.workers().into_iter().map(str::to_owned).collect::<Vec<_>>() {
            world.pods.get_mut(&name).expect("it is there").spec.get_or_insert_default().node_name =
                Some("n1".to_owned());
        }
    };
    for round in 1..=3 {
        place(&mut world);
        world.live();
        world.pass(9);
        assert_eq!(world.made.len(), made + 3 * (round - 1), "not at the speed of the API");
        world.pass(1);
        assert_eq!(world.made.len(), made + 3 * round);
    }
}

#[test]
fn a_job_says_that_its_launcher_is_on_a_node_that_goes() {
    let mut world = three();
    world.launcher_vanishing = Some("node n1 is shutting down: SpotTermination".to_owned());
    world.live();
    let warning = "the launcher cannot be moved: node n1 is shutting down: SpotTermination";
    assert_eq!((world.phase(), world.status().message.as_str()), (Some(Phase::Running), warning));
    world.pass(60);
    let told = world.events.iter().filter(|event| event.starts_with("LauncherVanishing")).count();
    assert_eq!(told, 1, "{:?}", world.events);
}

#[test]
fn below_the_minimum_a_job_waits_and_says_so() {
    let mut world = World::running(json!({"replicas": 3, "minReplicas": 3}));
    world.room = 3;
    world.delete("j-worker-1");
    world.live();
    let status = world.status();
    assert_eq!((status.phase, status.reason.as_str()), (Some(Phase::Waiting), "TooFewWorkers"));
    assert_eq!(status.message, "2 of at least 3 workers are running; 2 of 3 workers are running");
    assert_eq!(status.conditions.last().expect("one").type_, "WorkersNotReady");
    world.room = 4;
    world.live();
    assert_eq!((world.phase(), world.hosts().as_str()), (Some(Phase::Running), "0 2 3"));
}

#[test]
fn workers_leave_a_node_before_it_goes() {
    let mut world = three();
    world.obedient = false;
    world.vanishing.insert("n1".to_owned(), "node n1 is shutting down: taint spot".to_owned());
    world.look();
    world.vanishing.clear();
    assert_eq!((world.hosts().as_str(), world.memory().leaving.len()), ("", 3));
    world.live();
    assert_eq!(world.hosts(), "3 4 5", "others take their place");
    assert_eq!(world.workers().len(), 6, "they have time");
    world.obedient = true;
    world.live();
    assert_eq!((world.workers().len(), world.services.len(), world.memory().leaving.len()), (3, 3, 0));
    let told = &world.status().sizes[1];
    assert_eq!((told.workers, told.reason.as_str()), (0, "NodeVanishing"));
}

#[test]
fn a_worker_that_does_not_leave_a_node_is_ended() {
    let mut world = three();
    world.obedient = false;
    world.vanishing.insert("n1".to_owned(), "node n1 is shutting down".to_owned());
    world.look();
    world.vanishing.clear();
    world.pass(119);
    assert_eq!(world.workers().len(), 6);
    world.pass(1);
    assert_eq!(world.workers().len(), 3);
}

#[test]
fn a_suspended_job_gives_everything_up_and_begins_anew_when_it_is_resumed() {
    let mut world = three();
    world.scale_out("more", 1, 60);
    world.live();
    world.annotate(names::SUSPENDED, Some("true"));
    world.live();
    assert_eq!((world.phase(), world.pods.len(), world.services.len()), (Some(Phase::Suspended), 0, 0));
    assert!(world.group.is_none(), "its room is free");
    world.annotate(names::SUSPENDED, None);
    world.live();
    assert_eq!((world.phase(), world.hosts().as_str()), (Some(Phase::Running), "0 1 2 3"), "as large as it was");
    assert_eq!(world.memory().run, 2);
}

#[test]
fn a_job_that_fails_runs_again_as_often_as_it_may() {
    let mut world = three();
    world.job.spec.restart_policy = "OnFailure".to_owned();
    world.job.spec.backoff_limit = Some(2);
    for restarts in 1..=2 {
        world.set_phase("j-launcher", "Failed", Some(1));
        world.live();
        assert_eq!((world.phase(), world.status().restart_count), (Some(Phase::Running), restarts));
        assert_eq!(world.hosts(), "0 1 2", "with the names it began with");
    }
    world.set_phase("j-launcher", "Failed", Some(1));
    world.live();
    assert_eq!((world.phase(), world.status().restart_count), (Some(Phase::Failed), 2));
    assert_eq!(world.pods.keys().collect::<Vec<_>>(), ["j-launcher"]);
}

#[test]
fn a_launcher_that_is_gone_is_made_again_or_the_job_fails() {
    let mut world = three();
    world.pods.remove("j-launcher");
    world.live();
    assert_eq!((world.phase(), world.hosts().as_str()), (Some(Phase::Running), "0 1 2"));
    assert!(world.pods.contains_key("j-launcher"));
    world.job.spec.et_replica_specs.launcher.restart_policy = "Never".to_owned();
    world.pods.remove("j-launcher");
    world.live();
    assert_eq!((world.phase(), world.status().reason.as_str()), (Some(Phase::Failed), "LauncherGone"));
}

#[test]
fn a_launcher_that_ended_and_was_deleted_while_nobody_looked_is_not_run_again() {
    let check = |phase: &str, code: i32, expected: Phase| {
        let mut world = three();
        world.set_phase("j-launcher", phase, Some(code));
        world.delete_now("j-launcher");
        world.node();
        assert!(world.pods.contains_key("j-launcher"), "it is kept");
        world.live();
        assert_eq!(world.phase(), Some(expected));
        assert!(!world.pods.contains_key("j-launcher"), "it may go");
    };
    check("Succeeded", 0, Phase::Succeeded);
    check("Failed", 1, Phase::Failed);
}

#[test]
fn a_launcher_that_ends_because_it_was_deleted_is_made_again() {
    let mut world = three();
    world.delete_now("j-launcher");
    world.seconds += 1;
    world.set_phase("j-launcher", "Succeeded", Some(0));
    world.live();
    assert_eq!(world.phase(), Some(Phase::Running));
    assert!(world.pods["j-launcher"].metadata.deletion_timestamp.is_none(), "another one");
}

#[test]
fn a_job_in_auto_mode_grows_into_idle_room_and_gives_it_back() {
    let mut world = three();
    world.annotate(names::ELASTIC, Some(names::AUTO));
    world.capacity.room = 2;
    world.live();
    assert_eq!(world.hosts(), "0 1 2", "not at once");
    world.pass(60);
    assert_eq!(world.hosts(), "0 1 2 3 4");
    let soon = world.look_again.is_some_and(|wait| wait.as_secs() <= 5);
    assert!(soon, "it rests, but sees it if somebody needs the room: {:?}", world.look_again);
    world.seconds += 10;
    world.capacity = Capacity { room: 0, waits: Some(("gang".to_owned(), 1)) };
    world.live();
    assert_eq!(world.hosts(), "0 1 2 3", "as much as is needed");
    world.pass(10);
    assert_eq!(world.hosts(), "0 1 2", "and again while somebody waits");
    world.pass(10);
    assert_eq!(world.hosts(), "0 1 2", "what was asked for stays");
    world.capacity = Capacity { room: 99, waits: None };
    world.live();
    assert_eq!(world.hosts(), "0 1 2", "it does not flap");
    world.pass(60);
    assert_eq!(world.status().current_workers.len(), 9, "never above maxReplicas");
}

#[test]
fn a_job_in_auto_mode_rests_as_long_as_it_says() {
    let mut world = three();
    world.annotate(names::ELASTIC, Some(names::AUTO));
    world.annotate(names::COOLDOWN, Some("5s"));
    world.capacity.room = 1;
    world.pass(1);
    assert_eq!(world.hosts(), "0 1 2", "not at once");
    world.pass(1);
    assert_eq!(world.hosts(), "0 1 2 3");
    world.capacity = Capacity { room: 0, waits: Some(("gang".to_owned(), 1)) };
    world.pass(5);
    assert_eq!(world.hosts(), "0 1 2", "it gives as soon");
    world.capacity = Capacity { room: 1, waits: Some(("gang".to_owned(), 0)) };
    world.pass(60);
    assert_eq!(world.hosts(), "0 1 2", "what is free is for who waits");
}

#[test]
fn a_job_in_auto_mode_keeps_what_starts_of_what_seemed_to_fit() {
    let mut world = three();
    world.annotate(names::ELASTIC, Some(names::AUTO));
    world.capacity.room = 6;
    world.room = 6;
    world.pass(60);
    assert_eq!((world.phase(), world.hosts().as_str()), (Some(Phase::Scaling), "0 1 2"), "not all of them start");
    world.pass(60);
    assert_eq!((world.phase(), world.hosts().as_str()), (Some(Phase::Running), "0 1 2 3 4"), "{:?}", world.status());
    assert_eq!(world.workers().len(), 5, "the others are gone");
    let told = world.events.last().cloned().unwrap_or_default();
    assert!(told.contains("added j-worker-3, j-worker-4, but no more: execution timeout after 60 s"), "{told}");
    world.pass(60);
    assert_eq!(world.memory().scaling.expect("another try").workers.len(), 3, "with half as many");
    world.pass(60);
    assert_eq!((world.hosts().as_str(), world.memory().grow_step), ("0 1 2 3 4", 1));
    world.room = 9;
    for _ in 0..3 {
        world.pass(60);
    }
    assert_eq!(world.status().current_workers.len(), 8, "one, and then more again: {:?}", world.status());
}

#[test]
fn a_job_in_auto_mode_gives_room_back_also_if_nobody_leaves() {
    let mut world = three();
    world.annotate(names::ELASTIC, Some(names::AUTO));
    world.capacity.room = 2;
    world.pass(60);
    world.obedient = false;
    world.capacity = Capacity { room: 0, waits: Some(("gang".to_owned(), 2)) };
    world.pass(10);
    assert_eq!((world.phase(), world.hosts().as_str()), (Some(Phase::Scaling), "0 1 2"));
    world.pass(120);
    world.pass(120);
    assert_eq!(
        (world.hosts().as_str(), world.workers().len()),
        ("0 1 2", 3),
        "they are ended, and nobody comes instead"
    );
}
