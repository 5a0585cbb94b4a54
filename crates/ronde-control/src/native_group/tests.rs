//! PodGroups of Kubernetes as groups of ours, and what they are told, in both versions.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use ronde_api::PodGroup;
use ronde_sim::pods::at;
use serde_json::{Value, json};

use super::plan::{build, is_of, next_conditions};
use crate::native::{NativeGroup, V1Alpha2, V1Beta1, Version};

fn native<V: Version>(spec: Value, conditions: Value) -> NativeGroup<V> {
    let meta = json!({"name": "g", "namespace": "ns", "uid": "gu", "generation": 2,
        "annotations": {"scheduling.volcano.sh/queue-name": "gpu"}});
    serde_json::from_value(json!({"metadata": meta, "spec": spec, "status": {"conditions": conditions}})).unwrap()
}

fn pod(conditions: Value) -> Pod {
    let container = json!({"name": "c", "resources": {"requests": {"cpu": "500m"}}});
    let spec = json!({"containers": [container], "priorityClassName": "of-the-pod"});
    let meta = json!({"name": "p", "namespace": "ns"});
    serde_json::from_value(json!({"metadata": meta, "spec": spec, "status": {"conditions": conditions}})).unwrap()
}

/// Returns minimum, priority class and annotations of the group that is made.
fn made<V: Version>(spec: Value) -> (i32, String, Value) {
    let group = build(&native::<V>(spec, json!([])), &pod(json!([])));
    let shown = serde_json::to_value(&group).unwrap();
    (group.spec.min_member, group.spec.priority_class_name, shown["metadata"]["annotations"].clone())
}

#[test]
fn a_group_asks_for_what_the_pod_group_asks_for() {
    let all = |mode: Value| {
        json!({
            "schedulingPolicy": {"gang": {"minCount": 4}}, "disruptionMode": mode, "priorityClassName": "high",
            "schedulingConstraints": {"topology": [{"key": "example.com/rack"}]},
        })
    };
    let wishes = json!({"ronde.dev/topology-key": "example.com/rack", "ronde.dev/disruption-mode": "all"});
    assert_eq!(made::<V1Alpha2>(all(json!("PodGroup"))), (4, "high".to_owned(), wishes.clone()));
    assert_eq!(made::<V1Beta1>(all(json!({"all": {}}))), (4, "high".to_owned(), wishes));
    let basic = |mode: Value| json!({"schedulingPolicy": {"basic": {}}, "disruptionMode": mode});
    assert_eq!(made::<V1Alpha2>(basic(json!("Pod"))), (1, "of-the-pod".to_owned(), json!(null)));
    assert_eq!(made::<V1Beta1>(basic(json!({"single": {}}))), (1, "of-the-pod".to_owned(), json!(null)));
    assert_eq!(made::<V1Beta1>(json!({"schedulingPolicy": {"later": {}}})).0, 1, "a policy that is not known yet");
}

#[test]
fn a_group_has_the_name_queue_and_resources_and_goes_with_its_owner() {
    let gang = native::<V1Beta1>(json!({"schedulingPolicy": {"gang": {"minCount": 2}}}), json!([]));
    let group = build(&gang, &pod(json!([])));
    let shown = serde_json::to_value(&group).unwrap();
    let owner = json!({"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "name": "g", "uid": "gu",
        "controller": true});
    let expected = (&json!("g"), &json!([owner]), &json!("gpu"), &json!("1"), &json!("Pending"));
    let (meta, spec) = (&shown["metadata"], &shown["spec"]);
    let found = (
        &meta["name"],
        &meta["ownerReferences"],
        &spec["queue"],
        &spec["minResources"]["cpu"],
        &shown["status"]["phase"],
    );
    assert_eq!(found, expected);
    assert!(is_of(&group, &gang));
    let mut other = group;
    other.metadata.owner_references.as_mut().unwrap()[0].uid = "another".to_owned();
    assert!(!is_of(&other, &gang), "of a PodGroup of the same name that is gone");
}

/// Checks conditions, as `Type=Status Reason: message`, with `@` and the second of their last transition.
#[track_caller]
fn check<V: Version>(what: &str, before: Value, group: Value, pods: &[Pod], expected: &str) {
    let spec = json!({"schedulingPolicy": {"gang": {"minCount": 2}}, "disruptionMode": {"all": {}}});
    let group: PodGroup = serde_json::from_value(json!({
        "metadata": {"name": "g"}, "spec": {"minMember": 2}, "status": {"conditions": group},
    }))
    .unwrap();
    let pods: Vec<_> = pods.iter().cloned().map(Arc::new).collect();
    let next = next_conditions(&native::<V>(spec, before), &group, &pods, at(60));
    let shown = next.iter().map(|found| {
        let since = found.last_transition_time.0.duration_since(at(0)).as_secs();
        format!("{}={} {}: {} @{since}", found.type_, found.status, found.reason, found.message)
    });
    assert_eq!(shown.collect::<Vec<_>>().join("; "), expected, "{what}");
    assert!(next.iter().all(|found| found.reason == "R" || found.observed_generation == Some(2)), "{what}");
}

fn waits(reason: &str) -> Value {
    json!([{"type": "Unschedulable", "status": "True", "reason": reason, "message": "why"}])
}

fn told(kind: &str, status: &str) -> Value {
    let time = at(0).to_string();
    json!({"type": kind, "status": status, "reason": "R", "message": "", "lastTransitionTime": time})
}

#[test]
fn conditions_tell_whether_a_group_was_scheduled() {
    let scheduled = json!([{"type": "Scheduled", "status": "True", "reason": "r"}]);
    let (old, new) = ("PodGroupScheduled", "PodGroupInitiallyScheduled");
    let found = |kind: &str| format!("{kind}=True Scheduled: all pods of the minimum have nodes @60");
    check::<V1Alpha2>("it has nodes", json!([]), scheduled.clone(), &[], &found(old));
    check::<V1Beta1>("by its other name", json!([]), scheduled.clone(), &[], &found(new));
    check::<V1Beta1>("after it had none", json!([told(new, "False")]), scheduled.clone(), &[], &found(new));
    let lacks = |reason: &str| format!("{new}=False {reason}: why @60");
    check::<V1Beta1>("it lacks room", json!([]), waits("NotEnoughResources"), &[], &lacks("Unschedulable"));
    check::<V1Beta1>("nodes would not help", json!([]), waits("QueueLimit"), &[], &lacks("QueueLimit"));
    let since = json!([told(new, "False")]);
    check::<V1Beta1>("still", since, waits("QueueClosed"), &[], &format!("{new}=False QueueClosed: why @0"));
    check::<V1Beta1>("nothing is known yet", json!([]), json!([]), &[], "");
    let once = json!([told(new, "True"), told("Other", "True")]);
    let kept = format!("{new}=True R:  @0; Other=True R:  @0");
    check::<V1Beta1>("it lost its pods, and others write too", once, waits("NotEnoughResources"), &[], &kept);
}

#[test]
fn conditions_tell_of_an_eviction() {
    let marked = |reason: &str| {
        let mark =
            json!({"type": "DisruptionTarget", "status": "True", "reason": reason, "message": "preempted by hi"});
        [pod(json!([])), pod(json!([mark]))]
    };
    let evicted = "DisruptionTarget=True PreemptionByScheduler: preempted by hi @60";
    check::<V1Beta1>("by us", json!([]), json!([]), &marked("PreemptionByScheduler"), evicted);
    check::<V1Beta1>("by others", json!([]), json!([]), &marked("EvictionByEvictionAPI"), "");
    let (old, scheduled) = (told("DisruptionTarget", "True"), json!([{"type": "Scheduled", "status": "True"}]));
    let again = "DisruptionTarget=False Scheduled: it is on nodes again @60; \
                 PodGroupScheduled=True Scheduled: all pods of the minimum have nodes @60";
    check::<V1Alpha2>("it is whole again", json!([old]), scheduled, &[pod(json!([]))], again);
}
