//! What plain pods get.

use k8s_openapi::api::core::v1::Pod;
use kube::core::DynamicObject;
use serde_json::{Value, json};

use super::plan::{build, needs_group};
use crate::membership::Schedulers;

fn pod(scheduler: &str, annotations: Value) -> Pod {
    let container = json!({"name": "c", "resources": {"requests": {"cpu": "500m"}}});
    let meta = json!({"name": "p", "namespace": "ns", "uid": "pu", "annotations": annotations});
    let spec = json!({"schedulerName": scheduler, "containers": [container]});
    serde_json::from_value(json!({"metadata": meta, "spec": spec, "status": {"phase": "Pending"}})).unwrap()
}

#[test]
fn pods_of_our_schedulers_need_a_group() {
    let schedulers = Schedulers::from(["volcano", "ronde"].map(str::to_owned));
    let check = |what: &str, pod: Pod, expected: bool| assert_eq!(needs_group(&pod, &schedulers), expected, "{what}");
    check("volcano's", pod("volcano", json!({})), true);
    check("our own", pod("ronde", json!({})), true);
    check("another scheduler's", pod("default-scheduler", json!({})), false);
    check("one that has a group", pod("volcano", json!({"scheduling.k8s.io/group-name": "g"})), false);
    let mut ended = pod("volcano", json!({}));
    ended.status.as_mut().unwrap().phase = Some("Succeeded".to_owned());
    check("one that has ended", ended, false);
}

#[test]
fn a_pod_alone_is_a_group_of_one() {
    let group = build(&pod("volcano", json!({"scheduling.volcano.sh/queue-name": "gpu"})), None);
    let mut shown = serde_json::to_value(&group).unwrap();
    let owner = shown["metadata"]["ownerReferences"][0].take();
    assert_eq!((owner["kind"].as_str(), owner["uid"].as_str()), (Some("Pod"), Some("pu")));
    assert_eq!(shown["metadata"]["name"], "podgroup-pu");
    let resources = json!({"pods": "1", "count/pods": "1", "cpu": "500m", "requests.cpu": "500m"});
    assert_eq!(shown["spec"], json!({"minMember": 1, "queue": "gpu", "minResources": resources}));
    assert_eq!(shown["status"]["phase"], "Pending");
}

#[test]
fn pods_of_an_owner_share_what_it_says() {
    let mut member = pod("volcano", json!({"volcano.sh/network-topology-mode": "soft"}));
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "ru", "controller": true});
    member.metadata.owner_references = Some(vec![serde_json::from_value(owner).unwrap()]);
    let notes = json!({
        "scheduling.volcano.sh/group-min-member": "3", "volcano.sh/preemptable": "true",
        "volcano.sh/network-topology-highest-tier": "2", "other": "x",
    });
    let owner: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "r", "uid": "ru", "annotations": notes},
    }))
    .unwrap();
    let group = build(&member, Some(&owner));
    assert_eq!(group.metadata.name.as_deref(), Some("podgroup-ru"));
    assert_eq!(group.metadata.owner_references.as_ref().unwrap()[0].kind, "ReplicaSet");
    let annotations: Vec<String> = group.metadata.annotations.unwrap().into_keys().collect();
    let expected =
        ["volcano.sh/network-topology-highest-tier", "volcano.sh/network-topology-mode", "volcano.sh/preemptable"];
    assert_eq!(annotations, expected);
    let spec = serde_json::to_value(group.spec).unwrap();
    assert_eq!((&spec["minMember"], &spec["minResources"]["cpu"]), (&json!(3), &json!("1500m")));
    assert_eq!(spec["networkTopology"], json!({"mode": "soft", "highestTierAllowed": 2}));
}
