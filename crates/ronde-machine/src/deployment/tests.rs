//! Tests of what a deployment does next. Sets are written `name:replicas/available`, the one of the template is `new`.

use std::{fmt::Write as _, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::{Deployment, DeploymentStatus, ReplicaSet, ReplicaSetStatus},
    core::v1::Pod,
};
use kube::ResourceExt as _;
use proptest::prelude::{ProptestConfig, Strategy as _, any, proptest};
use ronde_sim::pods::{at, pod};
use serde_json::{Value, json};

use super::{
    limits::{Limits, replicas},
    plan::{Observed, RolloutPlan, RolloutStep, plan},
    status::{AVAILABLE, PROGRESSING},
    template,
};

fn deployment(replicas: i32, change: Value) -> Deployment {
    let template =
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "x:1"}]}});
    let rolling = json!({"maxSurge": 3, "maxUnavailable": 2});
    let mut spec = json!({
        "replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
        "progressDeadlineSeconds": 600, "revisionHistoryLimit": 10,
    });
    for (key, value) in change.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    let meta = json!({"name": "web", "namespace": "default", "uid": "web", "generation": 2});
    serde_json::from_value(json!({"metadata": meta, "spec": spec})).expect("a deployment")
}

/// Builds the set that `name:replicas/available` describes, made for a deployment of `desired` replicas.
fn set(owner: &Deployment, text: &str, desired: i32, age: i64) -> ReplicaSet {
    let (name, numbers) = text.split_once(':').expect("a name");
    let (size, available) = numbers.split_once('/').expect("two numbers");
    let mut set = template::build(owner);
    let size = size.parse().expect("a number");
    set.metadata.name = Some(name.to_owned());
    set.metadata.uid = Some(name.to_owned());
    set.metadata.creation_timestamp = Some(ronde_runtime::pods::time(at(age)));
    let annotations = set.annotations_mut();
    annotations.insert(template::REVISION.to_owned(), age.to_string());
    annotations.insert(template::DESIRED_REPLICAS.to_owned(), desired.to_string());
    annotations.insert(template::MAX_REPLICAS.to_owned(), (desired + 3).to_string());
    let spec = set.spec.get_or_insert_default();
    spec.replicas = Some(size);
    if name != "new" {
        let pod = spec.template.as_mut().and_then(|template| template.spec.as_mut()).expect("a template");
        pod.containers[0].image = Some(format!("x:{name}"));
    }
    let available: i32 = available.parse().expect("a number");
    let (available_replicas, ready_replicas) = (Some(available), Some(available));
    set.status = Some(ReplicaSetStatus { replicas: size, available_replicas, ready_replicas, ..Default::default() });
    set
}

fn sets(owner: &Deployment, text: &str, desired: i32) -> Vec<Arc<ReplicaSet>> {
    let parts = text.split_whitespace().zip(1..);
    parts.map(|(part, age)| Arc::new(set(owner, part, desired, age))).collect()
}

fn shown(plan: &RolloutPlan) -> String {
    let mut shown = String::new();
    for step in plan.steps.iter().filter(|step| !step.to_string().starts_with("annotate")) {
        let text = match step {
            RolloutStep::Create(set) => format!("create {}", replicas(set)),
            other => other.to_string(),
        };
        write!(shown, "{text}; ").expect("a string takes everything");
    }
    shown.trim_end_matches("; ").to_owned()
}

#[test]
fn a_rollout_goes_step_by_step() {
    fn check(name: &str, change: Value, text: &str, expected: &str) {
        let owner = deployment(10, change);
        let plan = plan(&Observed { deployment: &owner, sets: sets(&owner, text, 10), pods: Vec::new() }, at(100));
        assert_eq!(shown(&plan), expected, "{name}");
    }
    let none = || json!({});
    check("the first set gets all", none(), "", "create 10");
    check("a new template starts with the surge", none(), "old:10/10", "create 3; scale old from 10 to 8");
    check("no room: nothing", none(), "old:8/8 new:5/0", "");
    check("no room: even unhealthy old pods stay", none(), "old:8/6 new:5/0", "");
    check("room below: the new set grows", none(), "old:8/8 new:3/0", "scale new from 3 to 5");
    check("available new pods replace old ones", none(), "old:8/8 new:5/5", "scale old from 8 to 3");
    check("the rest", none(), "old:3/3 new:5/5", "scale new from 5 to 10");
    check("the last old ones go", none(), "old:3/3 new:10/10", "scale old from 3 to 0");
    check("done", none(), "old:0/0 new:10/10", "");
    check("unhealthy old pods go first", none(), "old:10/4 new:3/3", "scale old from 10 to 5");
    check("too large a new set shrinks", none(), "new:12/12", "scale new from 12 to 10");
    check("the oldest set shrinks first", none(), "a:3/3 b:5/5 new:5/5", "scale a from 3 to 0; scale b from 5 to 3");
    let slow = json!({"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}});
    check("without surge an old one goes first", slow, "old:10/10", "create 0; scale old from 10 to 9");
    let percent = json!({"strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}});
    check("surge rounds up, slack down", percent, "old:10/10", "create 3; scale old from 10 to 8");
    let recreate = json!({"strategy": {"type": "Recreate"}});
    check("recreate: all old ones go first", recreate.clone(), "old:10/10", "scale old from 10 to 0");
    check("recreate: then all new ones come", recreate.clone(), "old:0/0", "create 10");
    check("recreate: going back", recreate, "old:0/0 new:0/0", "scale new from 0 to 10");
    check("paused: nothing new", json!({"paused": true}), "old:10/10", "");
}

#[test]
fn recreation_waits_for_the_last_old_pod() {
    fn check(name: &str, pods: Vec<Arc<Pod>>, expected: &str) {
        let owner = deployment(2, json!({"strategy": {"type": "Recreate"}}));
        let plan = plan(&Observed { deployment: &owner, sets: sets(&owner, "old:0/0", 2), pods }, at(100));
        assert_eq!(shown(&plan), expected, "{name}");
    }
    check("a pod on its way out", vec![pod("p").owner("old").ready(0).deleted(50).build()], "");
    check("a pod that has ended", vec![pod("p").owner("old").phase("Failed").build()], "create 2");
}

#[test]
fn a_new_size_is_shared_by_all_sets() {
    fn check(name: &str, replicas: i32, change: Value, text: &str, expected: &str) {
        let owner = deployment(replicas, change);
        let plan = plan(&Observed { deployment: &owner, sets: sets(&owner, text, 10), pods: Vec::new() }, at(100));
        assert_eq!(shown(&plan), expected, "{name}");
    }
    let none = || json!({});
    check("one set takes it", 15, none(), "new:10/10", "scale new from 10 to 15");
    check("to nothing", 0, none(), "new:10/10", "scale new from 10 to 0");
    check("two sets share a growth", 20, none(), "old:8/8 new:5/5", "scale new from 5 to 9; scale old from 8 to 14");
    check("two sets share a loss", 5, none(), "old:8/8 new:5/5", "scale new from 5 to 3; scale old from 8 to 5");
    check("both to nothing", 0, none(), "old:8/8 new:5/5", "scale new from 5 to 0; scale old from 8 to 0");
    let paused = json!({"paused": true});
    check("paused too", 20, paused, "old:8/8 new:5/5", "scale new from 5 to 9; scale old from 8 to 14");
}

#[test]
fn limits_follow_the_strategy() {
    fn check(name: &str, replicas: i32, strategy: Value, expected: (i32, i32)) {
        let limits = Limits::of_deployment(&deployment(replicas, json!({"strategy": strategy})));
        assert_eq!((limits.most(), limits.least_available()), expected, "{name}");
    }
    let rolling = |surge: Value, slack: Value| json!({"rollingUpdate": {"maxSurge": surge, "maxUnavailable": slack}});
    check("numbers", 10, rolling(3.into(), 2.into()), (13, 8));
    check("percentages", 10, rolling("25%".into(), "25%".into()), (13, 8));
    check("one of one by surge", 1, rolling("25%".into(), "25%".into()), (2, 1));
    check("both round to nothing: one may miss", 4, rolling("0%".into(), "1%".into()), (4, 3));
    check("no more may miss than there are", 1, rolling(0.into(), 5.into()), (1, 0));
    check("recreate", 5, json!({"type": "Recreate"}), (5, 5));
}

fn condition(status: &DeploymentStatus, kind: &str) -> String {
    let found = status.conditions.iter().flatten().find(|condition| condition.type_ == kind);
    found.map_or("none".to_owned(), |one| format!("{} {}", one.status, one.reason.clone().unwrap_or_default()))
}

/// Plans again and again with the status of the time before.
fn statuses(owner: &mut Deployment, rounds: &[(&str, i64)]) -> Vec<String> {
    let mut seen = Vec::new();
    for (text, seconds) in rounds {
        let sets = sets(owner, text, Limits::of_deployment(owner).replicas);
        let plan = plan(&Observed { deployment: owner, sets, pods: Vec::new() }, at(*seconds));
        seen.push(condition(&plan.status, PROGRESSING));
        owner.status = Some(plan.status);
    }
    seen
}

#[test]
fn progress_is_told_as_kubectl_waits_for_it() {
    fn check(name: &str, change: Value, rounds: &[(&str, i64)], expected: &[&str]) {
        assert_eq!(statuses(&mut deployment(3, change), rounds), expected, "{name}");
    }
    let none = || json!({});
    let (created, updated, complete) =
        ("True NewReplicaSetCreated", "True ReplicaSetUpdated", "True NewReplicaSetAvailable");
    let timed_out = "False ProgressDeadlineExceeded";
    check(
        "a rollout",
        none(),
        &[("", 0), ("new:3/0", 1), ("new:3/2", 2), ("new:3/3", 3)],
        &[created, updated, updated, complete],
    );
    check(
        "a rollout that hangs",
        none(),
        &[("", 0), ("new:3/0", 1), ("new:3/0", 600), ("new:3/0", 602)],
        &[created, updated, updated, timed_out],
    );
    check(
        "late progress",
        none(),
        &[("new:3/0", 0), ("new:3/0", 700), ("new:3/3", 800)],
        &[updated, timed_out, complete],
    );
    check("a pod fails after the rollout", none(), &[("new:3/3", 0), ("new:3/2", 9000)], &[complete, complete]);
    check("a set that was there", json!({"paused": true}), &[("new:3/3", 0)], &["Unknown DeploymentPaused"]);
    check("no deadline, no progress", json!({"progressDeadlineSeconds": i32::MAX}), &[("new:3/3", 0)], &["none"]);
}

#[test]
fn a_pause_does_not_count_as_a_hang() {
    let mut owner = deployment(3, json!({"paused": true}));
    assert_eq!(statuses(&mut owner, &[("new:3/1", 0)]), ["Unknown DeploymentPaused"]);
    owner.spec.as_mut().expect("a spec").paused = Some(false);
    assert_eq!(
        statuses(&mut owner, &[("new:3/1", 5000), ("new:3/1", 5601)]),
        ["Unknown DeploymentResumed", "False ProgressDeadlineExceeded"]
    );
}

#[test]
fn availability_is_told() {
    fn check(name: &str, text: &str, expected: &str) {
        let owner = deployment(10, json!({}));
        let plan = plan(&Observed { deployment: &owner, sets: sets(&owner, text, 10), pods: Vec::new() }, at(0));
        assert_eq!(condition(&plan.status, AVAILABLE), expected, "{name}");
    }
    check("enough", "new:10/8", "True MinimumReplicasAvailable");
    check("too few", "new:10/7", "False MinimumReplicasUnavailable");
}

#[test]
fn a_failure_of_a_set_is_the_deployments() {
    let owner = deployment(3, json!({}));
    let mut sets = sets(&owner, "new:3/0", 3);
    let failure = json!({"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "no"});
    let status = Arc::make_mut(&mut sets[0]).status.as_mut().expect("a status");
    status.conditions = Some(vec![serde_json::from_value(failure).expect("a condition")]);
    let plan = plan(&Observed { deployment: &owner, sets, pods: Vec::new() }, at(0));
    assert_eq!(condition(&plan.status, "ReplicaFailure"), "True FailedCreate");
}

#[test]
fn revisions_go_up_and_remember() {
    let owner = deployment(3, json!({}));
    // The template of `new` is the oldest: the deployment goes back to it.
    let plan =
        plan(&Observed { deployment: &owner, sets: sets(&owner, "new:0/0 b:0/0 c:3/3", 3), pods: Vec::new() }, at(0));
    assert_eq!(plan.revision.as_deref(), Some("4"));
    let Some(RolloutStep::Update(set, _)) = plan.steps.iter().find(|step| step.to_string().contains("new")) else {
        panic!("the set is annotated: {plan:?}");
    };
    assert_eq!(set.annotations()[template::REVISION_HISTORY], "1");
}

#[test]
fn old_sets_are_forgotten_after_the_rollout() {
    let mut owner = deployment(3, json!({"revisionHistoryLimit": 1}));
    let status = json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "availableReplicas": 3});
    owner.status = serde_json::from_value(status).expect("a status");
    let plan =
        plan(&Observed { deployment: &owner, sets: sets(&owner, "a:0/0 b:0/0 new:3/3", 3), pods: Vec::new() }, at(0));
    assert_eq!(shown(&plan), "delete a");
}

/// Carries the steps of a plan out on sets; `ready` tells how many of the missing pods become available meanwhile.
fn carry_out(owner: &Deployment, sets: &mut Vec<Arc<ReplicaSet>>, now: Timestamp, ready: u8) {
    let observed = Observed { deployment: owner, sets: sets.clone(), pods: Vec::new() };
    for step in plan(&observed, now).steps {
        match step {
            RolloutStep::Create(mut set) => {
                set.metadata.uid = set.metadata.name.clone();
                set.metadata.creation_timestamp = Some(ronde_runtime::pods::time(now));
                sets.push(Arc::new(*set));
            }
            RolloutStep::Update(set, _) => {
                let known = sets.iter_mut().find(|known| known.metadata.uid == set.metadata.uid).expect("it is there");
                *known = Arc::new(*set);
            }
            RolloutStep::Delete(set) => sets.retain(|known| known.metadata.uid != set.metadata.uid),
        }
    }
    for set in sets {
        let size = replicas(set);
        let set = Arc::make_mut(set);
        let observed = set.metadata.generation;
        let status = set.status.get_or_insert_default();
        let missing = size - status.available_replicas.unwrap_or(0);
        status.available_replicas = Some(status.available_replicas.unwrap_or(0) + missing.min(i32::from(ready)));
        (status.replicas, status.ready_replicas) = (size, status.available_replicas);
        status.observed_generation = observed;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Whatever the limits and however slowly pods become available: a rollout keeps within them, and ends.
    #[test]
    fn a_rollout_keeps_within_its_limits_and_ends(
        (size, surge, slack) in (1..8_i32, 0..5_i32, 0..5_i32).prop_filter("one may move", |(_, up, down)| up + down > 0),
        pace in proptest::collection::vec(any::<bool>(), 8),
    ) {
        let owner = deployment(size, json!({"strategy": {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": slack}}}));
        let mut sets = sets(&owner, &format!("old:{size}/{size}"), size);
        let limits = Limits::of_deployment(&owner);
        for round in 0..90 {
            let ready = u8::from(pace[round % pace.len()] || round % 4 == 0);
            carry_out(&owner, &mut sets, at(i64::try_from(round).expect("small")), ready);
            let total: i32 = sets.iter().map(|set| replicas(set)).sum();
            let available: i32 = sets.iter().map(|set| super::status::available_replicas(set).min(replicas(set))).sum();
            assert!(total <= limits.most(), "{total} pods, {} allowed", limits.most());
            assert!(available >= limits.least_available(), "{available} available, {} wanted", limits.least_available());
        }
        let new = sets.iter().find(|set| template::has_template(&owner, set)).expect("the new set");
        assert_eq!((replicas(new), super::status::available_replicas(new)), (size, size));
        assert!(sets.iter().filter(|set| set.name_any() == "old").all(|set| replicas(set) == 0));
    }
}
