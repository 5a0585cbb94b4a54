//! What others do to the pods of a training job costs it nothing.

use ronde_api::TrainingJobPhase as Phase;
use ronde_runtime::pods::disruption;
use serde_json::json;

use crate::elastic::fixtures::World;

const WHY: &str = "preempted by hi (priority high)";

fn job() -> World {
    let mut world = World::running(json!({"replicas": 3, "minReplicas": 2, "restartPolicy": "Never"}));
    "Never".clone_into(&mut world.job.spec.et_replica_specs.launcher.restart_policy);
    world
}

fn preempt(world: &mut World, name: &str) {
    world.mark(name, disruption::BY_SCHEDULER, WHY);
    world.delete_now(name);
}

#[test]
fn workers_that_are_evicted_are_replaced_also_if_those_that_fail_are_not() {
    let mut world = job();
    for round in 0..10 {
        let name = format!("j-worker-{}", if round == 0 { 1 } else { 2 + round });
        preempt(&mut world, &name);
        world.look();
        assert_eq!(world.status().message, format!("{WHY}; 2 of 3 workers are running"));
        world.pass(20);
        assert_eq!((world.phase(), world.status().message.as_str()), (Some(Phase::Running), ""));
    }
    assert_eq!((world.memory().wanted, world.memory().failures), (3, 0));
    assert!(world.events.contains(&format!("TrainingJobWorkerFailed: j-worker-1 was {WHY}")), "{:?}", world.events);
}

#[test]
fn a_launcher_that_is_preempted_is_made_again_also_if_one_that_fails_is_not() {
    let mut world = job();
    for _ in 0..3 {
        preempt(&mut world, "j-launcher");
        world.look();
        assert!(world.status().message.starts_with(WHY), "{:?}", world.status());
        world.pass(20);
        assert_eq!((world.phase(), world.hosts().as_str()), (Some(Phase::Running), "0 1 2"));
        assert_eq!(world.memory().disruption, None);
    }
    assert_eq!((world.status().restart_count, world.memory().run), (0, 1));
    world.delete_now("j-launcher");
    world.pass(20);
    assert_eq!(world.phase(), Some(Phase::Failed), "a person has deleted it");
}

#[test]
fn a_launcher_that_its_node_has_ended_begins_anew() {
    let mut world = job();
    world.set_phase("j-launcher", "Failed", Some(137));
    world.mark("j-launcher", disruption::BY_NODE, "The node was low on resource: memory.");
    world.look();
    assert_eq!((world.memory().run, world.status().restart_count), (2, 0));
    let why = "evicted from node n1: The node was low on resource: memory";
    assert!(world.status().message.starts_with(why), "{:?}", world.status());
    world.pass(20);
    assert_eq!((world.phase(), world.hosts().as_str()), (Some(Phase::Running), "0 1 2"));
    let phases = world.status().phases;
    let known: Vec<&str> = phases.iter().map(|phase| phase.phase.as_str()).collect();
    assert_eq!(known, ["Created", "Running", "Created", "Running"]);
    assert_eq!(phases[2].message, format!("the launcher was {why}"), "the status remembers why it began anew");
}

#[test]
fn a_launcher_that_fails_for_want_of_evicted_workers_begins_anew() {
    let mut world = job();
    world.room = 2;
    preempt(&mut world, "j-worker-1");
    preempt(&mut world, "j-worker-2");
    world.live();
    world.set_phase("j-launcher", "Failed", Some(1));
    world.look();
    assert_eq!((world.memory().run, world.status().restart_count), (2, 0), "{:?}", world.status());
    world.room = 9;
    world.pass(20);
    assert_eq!(world.phase(), Some(Phase::Running));
    world.set_phase("j-launcher", "Failed", Some(1));
    world.pass(20);
    let state = (world.phase(), world.status().message);
    assert_eq!(state, (Some(Phase::Failed), "the launcher failed with exit code 1".to_owned()));
}
