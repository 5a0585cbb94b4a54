//! How many pods may be evicted, row by row.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{core::v1::Pod, policy::v1::PodDisruptionBudget},
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use serde_json::{Value, json};

use super::plan::{BudgetPlan, Unknown, failed, plan};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

/// `a/4` is a ready pod of a set that wants 4; `?` after the name: not ready, `-`: being deleted; `a`: nobody's.
fn pods(text: &str) -> Vec<Arc<Pod>> {
    let pod = |text: &str| {
        let (name, set) = text.split_once('/').unwrap_or((text, ""));
        let owner =
            json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": set, "uid": set, "controller": true}]);
        let ready = if name.contains('?') { "False" } else { "True" };
        let mut pod = json!({
            "metadata": {"name": name[..1], "namespace": "n", "ownerReferences": if set.is_empty() { json!([]) } else { owner }},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        });
        if name.contains('-') {
            pod["metadata"]["deletionTimestamp"] = at(0).to_string().into();
        }
        Arc::new(serde_json::from_value(pod).unwrap())
    };
    text.split_whitespace().map(pod).collect()
}

fn budget(spec: Value, disrupted: Value) -> PodDisruptionBudget {
    let status = json!({"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0,
        "disruptedPods": disrupted});
    serde_json::from_value(json!({"metadata": {"name": "b", "namespace": "n", "generation": 3}, "spec": spec,
        "status": status}))
    .unwrap()
}

fn planned(spec: Value, text: &str, disrupted: Value) -> Result<BudgetPlan, Unknown> {
    let scale = |owner: &OwnerReference| Some((owner.uid.clone(), owner.name.parse().ok()?));
    plan(&budget(spec, disrupted), &pods(text), &scale, at(0))
}

/// Expected: `allowed of healthy, wants desired of expected`.
#[track_caller]
fn check(what: &str, spec: Value, text: &str, expected: &str) {
    let status = planned(spec, text, json!({})).unwrap().status;
    let seen = format!(
        "{} of {}, wants {} of {}",
        status.disruptions_allowed, status.current_healthy, status.desired_healthy, status.expected_pods
    );
    assert_eq!(seen, expected, "{what}");
    let reason = if status.disruptions_allowed > 0 { "SufficientPods" } else { "InsufficientPods" };
    assert_eq!(status.conditions.unwrap()[0].reason, reason, "{what}");
    assert_eq!(status.observed_generation, Some(3));
}

#[test]
fn budgets_are_computed_as_in_kubernetes() {
    let least = |n: Value| json!({"minAvailable": n});
    let most = |n: Value| json!({"maxUnavailable": n});
    check("no pods", least(json!(1)), "", "0 of 0, wants 1 of 0");
    check("one more than needed", least(json!(2)), "a/3 b/3 c/3", "1 of 3, wants 2 of 3");
    check("a pod that is not ready does not count", least(json!(2)), "a/3 b/3 c?/3", "0 of 2, wants 2 of 3");
    check("nor one that goes", least(json!(1)), "a/3 b-/3", "0 of 1, wants 1 of 2");
    check("a percentage is rounded up", least(json!("50%")), "a/3 b/3 c/3", "1 of 3, wants 2 of 3");
    check("of what the set wants, not of what is there", least(json!("50%")), "a/4 b/4", "0 of 2, wants 2 of 4");
    check("at most one down", most(json!(1)), "a/3 b/3 c/3", "1 of 3, wants 2 of 3");
    check("a third, rounded up", most(json!("33%")), "a/4 b/4 c/4 d/4", "2 of 4, wants 2 of 4");
    check("more than there are", most(json!(10)), "a/2 b/2", "2 of 2, wants 0 of 2");
    check("two sets", most(json!(1)), "a/2 b/2 c/1", "1 of 3, wants 2 of 3");
    check("a number needs no owner", least(json!(1)), "a b", "1 of 2, wants 1 of 2");
    check("pods of nobody are not expected", most(json!(1)), "a b/2 c/2", "2 of 3, wants 1 of 2");
}

#[test]
fn an_eviction_that_was_allowed_counts_until_it_is_done() {
    let since = |ago: i64| json!({"a": at(-ago).to_string(), "gone": at(0).to_string()});
    let pending = planned(json!({"minAvailable": 1}), "a/3 b/3 c/3", since(30)).unwrap();
    assert_eq!((pending.status.current_healthy, pending.status.disruptions_allowed), (2, 1));
    assert_eq!(pending.status.disrupted_pods.unwrap().into_keys().collect::<Vec<_>>(), ["a"]);
    assert_eq!(pending.look_again, Some(SignedDuration::from_secs(90)));
    let late = planned(json!({"minAvailable": 1}), "a/3 b/3 c/3", since(121)).unwrap();
    assert_eq!((late.status.current_healthy, late.not_deleted.len()), (3, 1));
    assert_eq!((late.status.disrupted_pods, late.look_again), (None, None));
    let gone = planned(json!({"minAvailable": 1}), "a-/3 b/3", since(30)).unwrap();
    assert_eq!((gone.status.disrupted_pods, gone.not_deleted.len()), (None, 0));
}

#[test]
fn what_cannot_be_computed_allows_nothing() {
    let why = planned(json!({"maxUnavailable": 1}), "a/x", json!({})).unwrap_err();
    assert_eq!(why.to_string(), "found no controllers for pod \"a\"");
    let status = failed(&budget(json!({}), json!({})), &why, at(0));
    assert_eq!((status.disruptions_allowed, status.conditions.unwrap()[0].reason.as_str()), (0, "SyncFailed"));
    assert!(planned(json!({"maxUnavailable": "x"}), "a/1", json!({})).is_err());
}
