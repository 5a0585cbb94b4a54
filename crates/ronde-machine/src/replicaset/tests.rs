//! Tests of what a replica set decides and reports.

use std::sync::Arc;

use jiff::SignedDuration;
use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Pod};
use kube::ResourceExt as _;
use ronde_sim::pods::{Making, at, pod};
use serde_json::json;

use super::plan::{BURST_MAX, Failure, Observed, ReplicaPlan, look_again, plan, status};

fn set(replicas: usize) -> ReplicaSet {
    let template = json!({"metadata": {"labels": {"app": "a", "tier": "b"}}});
    let spec = json!({
        "replicas": replicas, "minReadySeconds": 10, "selector": {"matchLabels": {"app": "a"}}, "template": template,
    });
    let meta = json!({"name": "set", "generation": 3});
    serde_json::from_value(json!({"metadata": meta, "spec": spec})).expect("a replica set")
}

fn observed<'a>(set: &'a ReplicaSet, pods: &[Making]) -> Observed<'a> {
    let pods: Vec<Arc<Pod>> = pods.iter().map(|pod| pod.clone().build()).collect();
    Observed { set, related: pods.clone(), pods }
}

#[test]
fn as_many_pods_as_asked_for() {
    fn check(name: &str, replicas: usize, pods: &[Making], expected: &str) {
        let set = set(replicas);
        let shown = match plan(&observed(&set, pods), at(100)) {
            ReplicaPlan::Keep => "keep".to_owned(),
            ReplicaPlan::Create(number) => format!("create {number}"),
            ReplicaPlan::Delete(pods) => pods.iter().map(|pod| format!("delete {} ", pod.name_any())).collect(),
        };
        assert_eq!(shown.trim_end(), expected, "{name}");
    }
    let ready = |name: &str, node: &str| pod(name).on(node).ready(10);
    check("none yet", 2, &[], "create 2");
    check("too few", 3, &[pod("a")], "create 2");
    check("just enough", 1, &[pod("a")], "keep");
    check("many at once are made in batches", BURST_MAX + 7, &[], &format!("create {BURST_MAX}"));
    check("the one without a node goes", 1, &[ready("a", "n"), pod("b")], "delete b");
    check("of two on one node one goes", 2, &[ready("a", "n"), ready("b", "m"), ready("c", "m")], "delete b");
    check("all go", 0, &[ready("a", "n"), pod("b")], "delete b delete a");
}

#[test]
fn a_set_that_goes_does_nothing() {
    let mut set = set(3);
    set.metadata.deletion_timestamp = Some(ronde_runtime::pods::time(at(0)));
    assert_eq!(plan(&observed(&set, &[]), at(0)), ReplicaPlan::Keep);
}

#[test]
fn the_status_counts_pods() {
    let set = set(3);
    let pods = [pod("a").ready(0).label("app", "a").label("tier", "b"), pod("b").ready(15).label("app", "a"), pod("c")];
    let observed = observed(&set, &pods);
    let status = status(&observed, None, at(20));
    assert_eq!(status.replicas, 3);
    assert_eq!(status.fully_labeled_replicas, Some(1));
    assert_eq!(status.ready_replicas, Some(2));
    assert_eq!(status.available_replicas, Some(1));
    assert_eq!(status.observed_generation, Some(3));
    assert_eq!(look_again(&observed, at(20)), Some(SignedDuration::from_secs(5)));
}

#[test]
fn a_failure_is_told_until_it_is_over() {
    let mut set = set(1);
    let failure = |message| Some(Failure { reason: "FailedCreate", message });
    set.status = Some(status(&observed(&set, &[]), failure("no room"), at(1)));
    set.status = Some(status(&observed(&set, &[]), failure("still no room"), at(2)));
    let conditions = set.status.clone().and_then(|status| status.conditions).expect("a condition");
    let [condition] = conditions.as_slice() else { panic!("one condition: {conditions:?}") };
    assert_eq!((condition.type_.as_str(), condition.message.as_deref()), ("ReplicaFailure", Some("no room")));
    assert_eq!(status(&observed(&set, &[pod("a")]), None, at(3)).conditions, None);
}
