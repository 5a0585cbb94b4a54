//! Another number of `replicas` in the spec, as `kubectl scale` and autoscalers write it.

use kube::ResourceExt as _;
use ronde_api::{TrainingJobPhase as Phase, names::elastic as names};
use serde_json::json;

use super::super::{
    fixtures::{World, spec},
    observed::Capacity,
};

fn three() -> World {
    World::running(json!({"replicas": 3, "minReplicas": 1, "maxReplicas": 9}))
}

/// Returns why the last change of size ended as it did.
fn told(world: &World) -> String {
    let conditions = world.status().conditions;
    conditions.last().map(|last| format!("{} {}", last.type_, last.message)).unwrap_or_default()
}

#[test]
fn a_job_goes_to_the_number_of_workers_that_it_is_scaled_to() {
    let mut world = three();
    assert_eq!((world.status().replicas, world.memory().asked), (3, 3));
    assert_eq!(world.status().selector, "group-name=kai.alibabacloud.com,training-job-name=j,training-job-role=worker");
    let worker = &world.pods["j-worker-0"];
    let has = |label: &str| {
        label.split_once('=').is_some_and(|(key, value)| worker.labels().get(key).is_some_and(|it| it == value))
    };
    assert!(world.status().selector.split(',').all(has), "{:?}", worker.labels());
    world.room = 5;
    world.scale(5);
    world.live();
    assert_eq!((world.phase(), world.hosts().as_str()), (Some(Phase::Scaling), "0 1 2"), "one of two is not enough");
    assert_eq!(world.status().message, "scale to 5 waits for j-worker-3, j-worker-4");
    world.room = 9;
    world.live();
    assert_eq!((world.phase(), world.hosts().as_str()), (Some(Phase::Running), "0 1 2 3 4"));
    assert_eq!(told(&world), "ScaleSucceeded scale to 5: added j-worker-3, j-worker-4");
    assert_eq!((world.status().replicas, world.replicas()), (5, 5));
    world.scale(2);
    world.pass(3);
    assert_eq!((world.hosts().as_str(), world.workers().len()), ("0 1", 2), "the highest indexes leave");
    assert_eq!(told(&world), "ScaleSucceeded scale to 2: removed j-worker-2, j-worker-3, j-worker-4");
    let before = world.job.clone();
    world.pass(600);
    assert_eq!(world.job, before, "and rests");
}

#[test]
fn a_number_that_does_not_fit_is_taken_back() {
    let mut world = three();
    world.room = 5;
    world.scale(5);
    world.live();
    world.pass(60);
    assert_eq!((world.phase(), world.hosts().as_str(), world.replicas()), (Some(Phase::Running), "0 1 2", 3));
    let why = "execution timeout after 60 s: j-worker-4 is not running: its pod has not started";
    assert_eq!(told(&world), format!("ScaleFailed scale to 5: {why}"));
    assert!(world.events.iter().any(|event| event.starts_with("ScalingOutFailed: scale to 5")), "{:?}", world.events);
    world.room = 9;
    world.scale(4);
    world.pass(3);
    assert_eq!((world.hosts().as_str(), world.replicas()), ("0 1 2 5", 4), "the next one is heard");
}

#[test]
fn a_number_beyond_the_bounds_is_taken_back() {
    let mut world = three();
    world.scale(10);
    world.live();
    assert_eq!(
        (told(&world), world.replicas()),
        ("ScaleFailed scale to 10: 10 workers is above maxReplicas, which is 9".to_owned(), 3)
    );
    // Without an admission nobody fills in the least: it is that of the beginning.
    assert_eq!(World::running(json!({"replicas": 3})).memory().least, 3);
    let mut world = World::new(spec(json!({"replicas": 3})));
    world.room = 0;
    world.live();
    world.scale(2);
    world.live();
    assert_eq!((world.workers().len(), world.replicas()), (3, 3));
    let why = "ScalingInFailed: scale to 2: 2 workers is below minReplicas, which is 3";
    assert_eq!(world.events.iter().filter(|event| *event == why).count(), 1, "{:?}", world.events);
}

#[test]
fn who_changes_their_mind_is_heard() {
    let mut world = three();
    world.room = 5;
    world.scale(6);
    world.live();
    world.scale(4);
    world.live();
    world.pass(3);
    assert_eq!((world.hosts().as_str(), world.replicas()), ("0 1 2 6", 4));
    assert!(world.events.iter().any(|event| event.ends_with("scale to 6: replicas is 4 now")), "{:?}", world.events);
    world.scale(6);
    world.pass(3);
    world.scale(4);
    world.live();
    assert_eq!((world.phase(), world.hosts().as_str(), world.replicas()), (Some(Phase::Running), "0 1 2 6", 4));
}

#[test]
fn scale_operations_go_first_and_replicas_follows_them() {
    let mut world = three();
    world.scale_out("more", 2, 60);
    world.live();
    assert_eq!((world.hosts().as_str(), world.replicas()), ("0 1 2 3 4", 5));
    world.seconds += 3;
    world.scale(4);
    world.scale_in("less", json!({"podNames": ["j-worker-0"]}), 60);
    world.live();
    world.pass(3);
    world.pass(3);
    assert_eq!((world.hosts().as_str(), world.replicas(), world.status().replicas), ("1 2 3 4", 4, 4));
    world.scale(6);
    world.scale_out("again", 1, 60);
    world.live();
    world.pass(3);
    assert_eq!((world.status().replicas, world.replicas()), (6, 6), "what was asked for by number holds");
}

#[test]
fn a_job_that_does_not_run_yet_or_not_at_all_takes_the_number_at_once() {
    let mut world = World::new(spec(json!({"replicas": 3, "minReplicas": 1})));
    world.room = 0;
    world.live();
    assert_eq!((world.phase(), world.workers().len()), (Some(Phase::Created), 3));
    world.scale(5);
    world.live();
    assert_eq!(world.workers().len(), 5);
    world.scale(2);
    world.live();
    assert_eq!(world.workers(), ["j-worker-0", "j-worker-1"]);
    world.room = 9;
    world.live();
    assert_eq!((world.phase(), world.hosts().as_str()), (Some(Phase::Running), "0 1"));
    world.annotate(names::SUSPENDED, Some("true"));
    world.live();
    world.scale(3);
    world.live();
    world.annotate(names::SUSPENDED, None);
    world.live();
    assert_eq!((world.phase(), world.hosts().as_str(), world.replicas()), (Some(Phase::Running), "0 1 2", 3));
    world.set_phase("j-launcher", "Succeeded", Some(0));
    world.live();
    world.scale(5);
    world.live();
    assert_eq!((world.phase(), world.workers().len()), (Some(Phase::Succeeded), 0));
    let expected = "ScalingOutFailed: scale to 5: the job has ended: it is Succeeded";
    assert_eq!(world.events.iter().filter(|event| *event == expected).count(), 1, "{:?}", world.events);
}

#[test]
fn a_job_that_grows_by_itself_has_the_number_as_what_it_gives_back_down_to() {
    let mut world = three();
    world.annotate(names::ELASTIC, Some(names::AUTO));
    world.capacity = Capacity { room: 3, waits: None };
    world.pass(60);
    assert_eq!((world.status().replicas, world.replicas()), (6, 3));
    world.capacity = Capacity::default();
    world.scale(5);
    world.pass(3);
    assert_eq!((world.status().replicas, world.memory().asked), (6, 5), "it has more already");
    world.scale(2);
    world.pass(3);
    assert_eq!((world.status().replicas, world.replicas()), (6, 2), "it gives back when others need it");
    world.scale(8);
    world.pass(3);
    assert_eq!((world.status().replicas, world.replicas()), (8, 8));
    world.scale(3);
    world.pass(3);
    world.capacity.waits = Some(("g".to_owned(), 9));
    world.pass(60);
    assert_eq!(world.status().replicas, 3);
}
