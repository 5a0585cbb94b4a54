//! Tasks that wait for others, and restarts of parts of a job.

use serde_json::{Value, json};

use crate::vcjob::fixtures::{World, task};

fn play(spec: Value, script: &str) -> World {
    let mut world = World::new(spec);
    world.play(script);
    world
}

fn group_of(world: &World) -> (i32, Value) {
    let spec = world.group.clone().expect("a group").spec;
    (spec.min_member, serde_json::to_value(spec.min_task_member).unwrap())
}

#[test]
fn a_task_starts_when_those_it_depends_on_are_ready() {
    let master = task("m", 1, json!({"dependsOn": {"name": ["w"]}}));
    let spec = json!({"tasks": [master, task("w", 2, json!({}))]});
    let mut world = play(spec, "");
    assert_eq!(world.show_pods(), "w-0:Pending@0 w-1:Pending@0");
    assert_eq!(group_of(&world), (2, json!({"w": 2})), "the gang is those that may start: no deadlock");
    world.play("run:w-0");
    assert_eq!(world.show_pods(), "w-0:Running@0 w-1:Pending@0");
    world.play("run:w-1");
    assert_eq!(world.show_pods(), "m-0:Pending@0 w-0:Running@0 w-1:Running@0");
    assert_eq!(group_of(&world), (3, json!({"m": 1, "w": 2})));
    world.play("run evict:w-0 gone");
    assert_eq!(group_of(&world).0, 3, "what has begun is not held back any more");
    assert_eq!(world.show_pods(), "m-0:Running@0 w-0:Pending@0 w-1:Running@0");
}

#[test]
fn what_has_succeeded_and_is_gone_is_asked_for_no_more() {
    let check = |what: &str, tasks: Value, script: &str, expected: (i32, Value)| {
        assert_eq!(group_of(&play(tasks, script)), expected, "{what}");
    };
    let three = || json!({"tasks": [task("w", 3, json!({}))]});
    check("its pod is there", three(), "run ok:w-0", (3, json!({"w": 3})));
    check("it is gone", three(), "run ok:w-0 evict:w-0 gone", (2, json!({"w": 2})));
    let two = |least: i32| {
        let tasks = [task("a", 3, json!({"minAvailable": 1})), task("b", 2, json!({}))];
        json!({"minAvailable": least, "tasks": tasks})
    };
    let ended = "run ok:a-0 ok:a-1 evict:a-0 evict:a-1 gone";
    check("the other task keeps its minimum", two(3), ended, (2, json!({"a": 0, "b": 2})));
    check("the minimum of the job overrules those of the tasks", two(2), ended, (0, json!({"a": 0, "b": 2})));
}

#[test]
fn any_of_several_tasks_or_all_of_them() {
    let spec = |iteration: &str| {
        let depends = json!({"dependsOn": {"name": ["a", "b"], "iteration": iteration}});
        json!({"tasks": [task("a", 1, json!({})), task("b", 1, json!({})), task("c", 1, depends)]})
    };
    assert_eq!(play(spec("any"), "run:a-0").show_pods(), "a-0:Running@0 b-0:Pending@0 c-0:Pending@0");
    assert_eq!(play(spec("all"), "run:a-0").show_pods(), "a-0:Running@0 b-0:Pending@0");
    assert_eq!(play(spec("all"), "run:a-0 ok:a-0 run:b-0").show_pods(), "a-0:Succeeded@0 b-0:Running@0 c-0:Pending@0");
}

#[test]
fn the_least_of_a_gang_counts_what_may_start() {
    let check = |what: &str, least: i32, expected: i32| {
        let depends = json!({"dependsOn": {"name": ["a"]}, "minAvailable": 1});
        let spec = json!({
            "minAvailable": least,
            "tasks": [task("a", 3, json!({"minAvailable": 1})), task("b", 3, depends)],
        });
        assert_eq!(group_of(&play(spec, "")).0, expected, "{what}");
    };
    check("no more than the job asks for", 1, 1);
    check("what the tasks that may start ask for", 3, 1);
    check("what the others cannot make up for", 5, 2);
    check("all of them", 6, 3);
}

#[test]
fn a_part_is_restarted_and_the_rest_runs_on() {
    let spec = |action: &str| {
        let partitions = json!({"partitionPolicy": {"totalPartitions": 2, "partitionSize": 2}});
        json!({
            "policies": [{"event": "PodFailed", "action": action}],
            "tasks": [task("m", 1, json!({})), task("w", 4, partitions)],
        })
    };
    let check = |action: &str, pods: &str| {
        let world = play(spec(action), "run ok:w-3 fail:w-2=1 gone run");
        assert_eq!(world.show_pods(), pods, "{action}");
        assert_eq!(world.phases.join(" "), "Pending Running Restarting Pending Running", "{action}");
        assert_eq!(world.status().retry_count, 1, "{action}");
        assert!(world.group.is_some(), "{action}: the group stays");
    };
    check("RestartPod", "m-0:Running@0 w-0:Running@0 w-1:Running@0 w-2:Running@1 w-3:Succeeded@0");
    check("RestartPartition", "m-0:Running@0 w-0:Running@0 w-1:Running@0 w-2:Running@1 w-3:Running@1");
    check("RestartTask", "m-0:Running@0 w-0:Running@1 w-1:Running@1 w-2:Running@1 w-3:Running@1");
}

#[test]
fn several_pods_that_fail_at_once_are_one_restart() {
    let spec = json!({
        "policies": [{"event": "PodFailed", "action": "RestartPod"}],
        "tasks": [task("w", 3, json!({}))],
    });
    let mut world = play(spec, "run");
    world.happen("fail:w-0=1");
    world.happen("fail:w-2=1");
    world.play("gone run");
    assert_eq!(world.show_pods(), "w-0:Running@1 w-1:Running@0 w-2:Running@1");
    assert_eq!(world.status().retry_count, 1);
    let kept = world.status().controlled_resources;
    assert!(!kept.keys().any(|key| key.starts_with("ronde.restart.pod")), "what is over is forgotten: {kept:?}");
}

#[test]
fn the_pods_of_a_partition_carry_its_number() {
    let partitions = json!({"partitionPolicy": {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1}});
    let world = play(json!({"tasks": [task("w", 4, partitions)]}), "");
    let label = |name: &str| world.pods[name].metadata.labels.clone().unwrap()["volcano.sh/partition-id"].clone();
    assert_eq!([label("j-w-0"), label("j-w-1"), label("j-w-2")], ["0", "0", "1"]);
    let group = world.group.unwrap().spec;
    assert_eq!(group.min_member, 2);
    let expected = json!([{
        "name": "w", "subGroupSize": 2, "minSubGroups": 1, "matchLabelKeys": ["volcano.sh/partition-id"],
        "labelSelector": {"matchLabels": {"volcano.sh/task-spec": "w"}},
    }]);
    assert_eq!(serde_json::to_value(group.sub_group_policy).unwrap(), expected);
}

#[test]
fn the_least_resources_are_those_of_the_least_pods() {
    let with = |cpu: &str, class: &str, limits: Value| {
        let resources = json!({"requests": {"cpu": cpu, "memory": "1Gi"}, "limits": limits});
        let container = json!({"name": "c", "image": "x", "resources": resources});
        json!({"template": {"spec": {"priorityClassName": class, "containers": [container]}}, "minAvailable": 1})
    };
    let check = |what: &str, least: i32, expected: Value| {
        let spec = json!({"minAvailable": least, "tasks": [
            task("a", 2, with("500m", "", json!({"nvidia.com/gpu": "1"}))),
            task("b", 2, with("2", "high", json!({}))),
        ]});
        let group = play(spec, "").group.unwrap().spec.min_resources.unwrap();
        let mut shown = serde_json::to_value(group).unwrap();
        let shown = shown.as_object_mut().unwrap();
        shown.retain(|key, _| {
            ["cpu", "requests.memory", "count/pods", "requests.nvidia.com/gpu"].contains(&key.as_str())
        });
        assert_eq!(Value::Object(shown.clone()), expected, "{what}");
    };
    check("the highest priority first", 1, json!({"cpu": "2", "requests.memory": "1Gi", "count/pods": "1"}));
    let one_each = json!({"cpu": "2500m", "requests.memory": "2Gi", "count/pods": "2", "requests.nvidia.com/gpu": "1"});
    check("one of each task", 2, one_each);
    let filled = json!({"cpu": "4500m", "requests.memory": "3Gi", "count/pods": "3", "requests.nvidia.com/gpu": "1"});
    check("filled up by priority", 3, filled);
}
