//! Images, resources and priority change: at once where nothing has started, with the next restart where it has.

use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::vcjob::fixtures::{World, task};

fn gang(more: &Value) -> Value {
    let restart =
        json!([{"event": "PodFailed", "action": "RestartJob"}, {"event": "PodEvicted", "action": "AbortJob"}]);
    let mut spec = json!({"maxRetry": 9, "policies": restart, "tasks": [task("w", 2, json!({}))]});
    more.as_object().into_iter().flatten().for_each(|(key, value)| spec[key] = value.clone());
    spec
}

/// Plays a script; returns the images of the pods, the phases and what was told of the change.
fn played(script: &str) -> (World, String, Vec<String>) {
    let mut world = World::new(gang(&json!({})));
    world.play(script);
    let changed = world.events.iter().filter(|event| event.cause.reason == "PodsChanged");
    let told = changed.map(|event| event.cause.message.clone()).collect();
    let shown = format!("{} {}", world.show_images(), world.status().state.phase.expect("a phase"));
    (world, shown, told)
}

#[test]
fn a_change_applies_at_once_to_what_has_not_started_and_later_to_what_has() {
    const ANEW: &str = "task w was changed: 2 pods have not started and will be replaced";
    const ON: &str = "task w was changed: 2 pods run on as before, until a restart";
    let rows: [(&str, &str, &str, &[&str]); 9] = [
        ("it waits for its pods to start", "image:w=y gone", "w-0=y w-1=y Pending", &[ANEW]),
        ("and starts then", "image:w=y gone run", "w-0=y w-1=y Running", &[ANEW]),
        ("twice", "image:w=y image:w=z gone run", "w-0=z w-1=z Running", &[ANEW]),
        ("and back before the first are gone", "image:w=y image:w=x gone", "w-0=x w-1=x Pending", &[ANEW]),
        (
            "one of two has started",
            "run:w-0 image:w=y gone run",
            "w-0=x w-1=y Running",
            &[
                "task w was changed: 1 pod runs on as before, until a restart",
                "task w was changed: 1 pod has not started and will be replaced",
            ],
        ),
        ("it runs", "run image:w=y gone", "w-0=x w-1=x Running", &[ON]),
        ("it runs and restarts", "run image:w=y fail:w-0=1 gone run", "w-0=y w-1=y Running", &[ON]),
        (
            "it is suspended and resumed",
            "run cmd:AbortJob gone image:w=y cmd:ResumeJob run",
            "w-0=y w-1=y Running",
            &[],
        ),
        ("it has ended", "run cmd:TerminateJob image:w=y", "w-0=x w-1=x Terminating", &[]),
    ];
    for (what, script, expected, told) in rows {
        let (world, shown, said) = played(script);
        assert_eq!((shown.as_str(), said), (expected, told.iter().map(ToString::to_string).collect()), "{what}");
        let retries = i32::from(script.contains("fail"));
        assert_eq!(world.status().retry_count, retries, "{what}: a change costs no retry and is no eviction");
    }
}

#[test]
fn a_job_that_waits_in_its_queue_keeps_its_group_and_its_place() {
    let mut world = World::new(gang(&json!({})));
    world.admits = false;
    world.play("");
    let group = world.group.clone().expect("a group");
    let pod = world.job.spec.tasks[0].template.spec.as_mut().expect("a pod");
    pod.containers[0].resources = serde_json::from_value(json!({"requests": {"cpu": "3"}})).expect("resources");
    world.play("image:w=y");
    let changed = world.group.clone().expect("a group");
    assert_eq!(changed.annotations(), group.annotations(), "it is the same group");
    let asked = changed.spec.min_resources.expect("what it needs");
    assert_eq!(asked["requests.cpu"].0, "6", "{asked:?}");
    world.play("admit run");
    assert_eq!(world.show_images(), "w-0=y w-1=y");
    assert_eq!(world.phases, ["Pending", "Running"], "nothing was restarted");
}

#[test]
fn a_priority_that_changes_reaches_pods_that_wait() {
    let mut world = World::new(gang(&json!({})));
    world.play("");
    world.job.spec.priority_class_name = "high".to_owned();
    world.job.metadata.generation = Some(2);
    world.play("gone");
    let classes = world.pods.values().map(|pod| pod.spec.as_ref().and_then(|spec| spec.priority_class_name.clone()));
    assert_eq!(classes.collect::<Vec<_>>(), [Some("high".to_owned()), Some("high".to_owned())]);
    assert_eq!(world.group.expect("a group").spec.priority_class_name, "high");
}

#[test]
fn pods_that_somebody_else_has_made_are_left_alone() {
    let mut world = World::new(gang(&json!({})));
    world.play("");
    world.pods.values_mut().for_each(|pod| drop(pod.annotations_mut().remove("ronde.dev/template")));
    world.play("image:w=y gone");
    assert_eq!(world.show_images(), "w-0=x w-1=x");
}
