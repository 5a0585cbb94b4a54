//! The controller is killed at every write of a story, and the story ends the same.

use serde_json::json;

use super::super::fixtures::World;

/// What counts at the end: phase, hosts, pods, services, outcomes.
fn result(world: &World) -> String {
    let outcomes = ["more", "less"].map(|name| world.outcome(name).0);
    let replicas = world.replicas();
    let pods: Vec<&String> = world.pods.keys().collect();
    let sizes: Vec<i32> = world.status().sizes.iter().map(|size| size.workers).collect();
    format!("{:?} {} {pods:?} {:?} {outcomes:?} {sizes:?} {replicas}", world.phase(), world.hostfile, world.services)
}

/// Plays a story, with a kill after so many writes of it; returns how it ended and whether the kill came.
fn play(story: &[fn(&mut World)], writes: usize) -> (String, bool) {
    let mut world = World::running(json!({"replicas": 3, "minReplicas": 1, "maxReplicas": 9}));
    world.fuse = writes;
    let mut was_killed = false;
    for act in story {
        act(&mut world);
        world.live();
        if world.fuse == 0 {
            was_killed = true;
            world.fuse = usize::MAX;
            world.live();
        }
    }
    (result(&world), was_killed)
}

/// Kills the controller at every write of a story.
fn check(what: &str, story: &[fn(&mut World)], least: usize) {
    let (expected, _) = play(story, usize::MAX);
    let mut writes = 1;
    loop {
        let (found, was_killed) = play(story, writes);
        assert_eq!(found, expected, "{what}, killed after {writes} writes");
        if !was_killed {
            break;
        }
        writes += 1;
    }
    assert!(writes > least, "{what} has more than {writes} writes");
}

#[test]
fn a_scale_out_ends_right() {
    check("a scale-out", &[|world| world.scale_out("more", 2, 60)], 8);
}

#[test]
fn a_scale_out_that_does_not_fit_is_rolled_back() {
    let story: [fn(&mut World); 2] = [
        |world| {
            world.room = 5;
            world.scale_out("more", 2, 60);
        },
        |world| world.seconds += 60,
    ];
    check("a rollback", &story, 10);
}

#[test]
fn a_scale_in_ends_right() {
    check("a scale-in", &[|world| world.scale_in("less", json!({"count": 2}), 60)], 8);
}

#[test]
fn a_scale_in_that_is_not_obeyed_is_restored() {
    let story: [fn(&mut World); 2] = [
        |world| {
            world.obedient = false;
            world.scale_in("less", json!({"count": 1}), 60);
        },
        |world| world.seconds += 60,
    ];
    check("a restored list", &story, 6);
}

#[test]
fn a_number_of_replicas_is_reached() {
    let story: [fn(&mut World); 3] = [
        |world| world.scale(5),
        |world| {
            world.seconds += 3;
            world.scale(2);
        },
        |world| {
            world.seconds += 3;
            world.scale_out("more", 1, 60);
        },
    ];
    check("a scale up and down", &story, 20);
}

#[test]
fn a_number_of_replicas_that_does_not_fit_is_taken_back() {
    let story: [fn(&mut World); 2] = [
        |world| {
            world.room = 5;
            world.scale(6);
        },
        |world| world.seconds += 60,
    ];
    check("replicas that are taken back", &story, 8);
}

#[test]
fn a_launcher_that_succeeded_and_was_deleted_is_not_run_again() {
    let story: [fn(&mut World); 1] = [|world| {
        world.set_phase("j-launcher", "Succeeded", Some(0));
        world.delete_now("j-launcher");
    }];
    check("an end that nobody saw", &story, 4);
}

#[test]
fn losses_suspension_and_the_end_are_survived() {
    let story: [fn(&mut World); 5] = [
        |world| world.delete("j-worker-1"),
        |world| world.annotate("job-supervisor.kube-ai.io/job-suspended", Some("true")),
        |world| world.annotate("job-supervisor.kube-ai.io/job-suspended", None),
        |world| {
            world.seconds += 3;
            world.scale_out("more", 1, 60);
        },
        |world| world.set_phase("j-launcher", "Succeeded", Some(0)),
    ];
    check("a life", &story, 30);
}
