//! Tests of what a stateful set does next. Pods are written `ordinal:state@revision`.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::{
    apps::v1::{ControllerRevision, StatefulSet},
    core::v1::{PersistentVolumeClaim, Pod},
};
use kube::ResourceExt as _;
use ronde_sim::pods::{at, pod};
use serde_json::{Value, json};

use super::{
    claims,
    plan::{Action, Observed, Revision, plan, status},
    pod::{POD_INDEX_LABEL, POD_NAME_LABEL, REVISION_LABEL, build, ordinal},
    revisions::{self, Choice},
};

fn set(change: Value) -> StatefulSet {
    let template =
        json!({"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "c", "image": "x:1"}]}});
    let mut spec = json!({
        "replicas": 3, "serviceName": "db", "podManagementPolicy": "OrderedReady",
        "selector": {"matchLabels": {"app": "db"}}, "template": template,
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
    });
    for (key, value) in change.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    let meta = json!({"name": "db", "namespace": "default", "uid": "db", "generation": 1});
    serde_json::from_value(json!({"metadata": meta, "spec": spec})).expect("a stateful set")
}

fn revision(set: &StatefulSet, name: &str) -> Revision {
    let template = set.spec.as_ref().map(|spec| spec.template.clone()).expect("a template");
    Revision { name: name.to_owned(), template }
}

/// Builds the pod that `ordinal:state@revision` describes; `r`unning, `p`ending, `f`ailed, `d`eleted.
fn one(text: &str) -> Arc<Pod> {
    let (ordinal, rest) = text.split_once(':').expect("an ordinal");
    let (state, revision) = rest.split_once('@').expect("a revision");
    let name = format!("db-{ordinal}");
    let made = pod(&name).label("app", "db").label(POD_NAME_LABEL, &name).label(REVISION_LABEL, revision);
    let made = match state {
        "r" => made.ready(0),
        "p" => made,
        "f" => made.phase("Failed"),
        "d" => made.ready(0).deleted(50),
        other => panic!("no such state: {other}"),
    };
    made.build()
}

fn observed<'a>(set: &'a StatefulSet, pods: &str, claims: &[PersistentVolumeClaim]) -> Observed<'a> {
    Observed {
        set,
        spec: set.spec.as_ref().expect("a spec"),
        pods: pods.split_whitespace().map(one).collect(),
        claims: claims.iter().map(|claim| (claim.name_any(), Arc::new(claim.clone()))).collect::<BTreeMap<_, _>>(),
        current: revision(set, "old"),
        update: revision(set, "new"),
        collisions: 0,
    }
}

fn shown(actions: &[Action]) -> String {
    actions.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[test]
fn pods_come_and_go_in_order() {
    fn check(name: &str, change: Value, pods: &str, expected: &str) {
        let set = set(change);
        assert_eq!(shown(&plan(&observed(&set, pods, &[]), at(100))), expected, "{name}");
    }
    let none = || json!({});
    check("the first", none(), "", "create db-0 at new");
    check("it is waited for", none(), "0:p@new", "");
    check("the second", none(), "0:r@new", "create db-1 at new");
    check("all there", none(), "0:r@new 1:r@new 2:r@new", "");
    check("a hole is filled first", none(), "0:r@new 2:r@new", "create db-1 at new");
    check("a failed pod goes", none(), "0:r@new 1:f@new 2:r@new", "delete db-1");
    check("a pod on its way out is waited for", none(), "0:r@new 1:d@new", "");
    let one = || json!({"replicas": 1});
    check("the last goes first", one(), "0:r@new 1:r@new 2:r@new", "delete db-2");
    check("one at a time", one(), "0:r@new 1:r@new 2:d@new", "");
    check("not while a wanted one is unwell", one(), "0:p@new 1:r@new", "");
    check("the first that is unwell may go", one(), "0:r@new 1:r@new 2:p@new", "delete db-2");
    check("one that is unwell behind another stays", one(), "0:r@new 1:p@new 2:p@new", "");
    check("an update goes from the end", none(), "0:r@old 1:r@old 2:r@old", "delete db-2");
    check("it waits for each", none(), "0:r@old 1:r@old 2:p@new", "");
    check("and goes on", none(), "0:r@old 1:r@old 2:r@new", "delete db-1");
    let partition = || json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}});
    check("below the partition nothing changes", partition(), "0:r@old 1:r@old 2:r@new", "");
    check("a lost pod below it comes back as it was", partition(), "0:r@old 2:r@new", "create db-1 at old");
    let on_delete = || json!({"updateStrategy": {"type": "OnDelete"}});
    check("on delete: nothing by itself", on_delete(), "0:r@old 1:r@old 2:r@old", "");
    check("on delete: the next one is new", on_delete(), "0:r@old 1:r@old", "create db-2 at new");
    check("ordinals may start elsewhere", json!({"replicas": 1, "ordinals": {"start": 5}}), "", "create db-5 at new");
    check(
        "and what is before them goes",
        json!({"replicas": 1, "ordinals": {"start": 1}}),
        "0:r@new 1:r@new",
        "delete db-0",
    );
}

#[test]
fn parallel_pods_do_not_wait_for_each_other() {
    fn check(name: &str, replicas: i32, pods: &str, expected: &str) {
        let set = set(json!({"podManagementPolicy": "Parallel", "replicas": replicas}));
        assert_eq!(shown(&plan(&observed(&set, pods, &[]), at(100))), expected, "{name}");
    }
    check("all at once", 2, "", "create db-0 at new; create db-1 at new");
    check("all go at once", 0, "0:r@new 1:p@new", "delete db-1; delete db-0");
    check("failed ones too", 2, "0:f@new 1:f@new", "delete db-0; delete db-1");
    check("updates still one by one", 2, "0:r@old 1:r@old", "delete db-1");
    check("and they wait", 2, "0:r@old 1:p@new", "");
}

#[test]
fn availability_takes_time() {
    let set = set(json!({"minReadySeconds": 30}));
    assert_eq!(shown(&plan(&observed(&set, "0:r@new", &[]), at(29))), "");
    assert_eq!(shown(&plan(&observed(&set, "0:r@new", &[]), at(30))), "create db-1 at new");
}

#[test]
fn the_status_counts_revisions() {
    fn check(name: &str, pods: &str, expected: (i32, Option<i32>, Option<i32>, Option<i32>, &str)) {
        let set = set(json!({}));
        let status = status(&observed(&set, pods, &[]), at(100));
        let seen = (status.replicas, status.ready_replicas, status.current_replicas, status.updated_replicas);
        let current = status.current_revision.unwrap_or_default();
        assert_eq!((seen.0, seen.1, seen.2, seen.3, current.as_str()), expected, "{name}");
    }
    check("in the middle", "0:r@old 1:r@old 2:p@new", (3, Some(2), Some(2), Some(1), "old"));
    check("a pod on its way out is of no revision", "0:r@old 1:d@old", (2, Some(2), Some(1), None, "old"));
    check("complete", "0:r@new 1:r@new 2:r@new", (3, Some(3), Some(3), Some(3), "new"));
}

fn with_claims(change: Value) -> StatefulSet {
    let mut all = json!({"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {}}], "replicas": 1});
    for (key, value) in change.as_object().into_iter().flatten() {
        all[key] = value.clone();
    }
    set(all)
}

#[test]
fn a_pod_has_a_name_a_place_and_claims() {
    let set = with_claims(json!({}));
    let made = build(&set, 4, &revision(&set, "new").template, "new");
    let spec = made.spec.clone().unwrap_or_default();
    assert_eq!(
        (made.name_any().as_str(), spec.hostname.as_deref(), spec.subdomain.as_deref()),
        ("db-4", Some("db-4"), Some("db"))
    );
    assert_eq!((made.labels()[POD_NAME_LABEL].as_str(), made.labels()[POD_INDEX_LABEL].as_str()), ("db-4", "4"));
    let volumes = spec.volumes.unwrap_or_default();
    let claim = volumes[0].persistent_volume_claim.as_ref().map(|claim| claim.claim_name.as_str());
    assert_eq!((volumes[0].name.as_str(), claim), ("data", Some("data-db-4")));
    assert_eq!(ordinal(&set, "db-12"), Some(12));
    assert_eq!(ordinal(&set, "db-x-1"), None);
    assert_eq!(ordinal(&set, "db-"), None);
}

#[test]
fn claims_come_before_their_pods_and_outlive_them() {
    fn check(name: &str, change: Value, pods: &str, claims: &[PersistentVolumeClaim], expected: &str) {
        let set = with_claims(change);
        assert_eq!(shown(&plan(&observed(&set, pods, claims), at(100))), expected, "{name}");
    }
    let plain = with_claims(json!({}));
    let template = super::pod::templates(&plain).next().expect("a template");
    let claim = claims::build(&plain, template, 0);
    let none = || json!({});
    check("both", none(), "", &[], "create claim data-db-0; create db-0 at new");
    check("the claim is there", none(), "", std::slice::from_ref(&claim), "create db-0 at new");
    check("a pending pod has lost its claim", none(), "0:p@new", &[], "create claim data-db-0");
    let mut going = claim.clone();
    going.metadata.deletion_timestamp = Some(ronde_runtime::pods::time(at(0)));
    check("a claim on its way out is waited for", none(), "", &[going], "");
    let delete = |when: &str| json!({"persistentVolumeClaimRetentionPolicy": {when: "Delete"}});
    check(
        "to go with the set",
        delete("whenDeleted"),
        "0:r@new",
        std::slice::from_ref(&claim),
        "update claim data-db-0",
    );
    let mut scaled = delete("whenScaled");
    check("not to go while wanted", scaled.clone(), "0:r@new", std::slice::from_ref(&claim), "");
    scaled["replicas"] = 0.into();
    check("to go with the pod", scaled, "0:r@new", &[claim], "update claim data-db-0; delete db-0");
}

#[test]
fn a_template_that_comes_back_is_the_same_revision() {
    let first = set(json!({}));
    let mut second = first.clone();
    let spec = second.spec.as_mut().and_then(|spec| spec.template.spec.as_mut()).expect("a spec");
    spec.containers[0].image = Some("x:2".to_owned());
    let make = |set: &StatefulSet, number: i64| Arc::new(revisions::build(set, number, 0));
    let history: [Arc<ControllerRevision>; 2] = [make(&first, 1), make(&second, 2)];
    assert_eq!(revisions::template(&history[0]), first.spec.as_ref().map(|spec| spec.template.clone()));
    assert_ne!(history[0].name_any(), history[1].name_any());
    assert_eq!(revisions::choose(&second, &history, 0), Choice::Use(history[1].clone()));
    let Choice::Renumber(back) = revisions::choose(&first, &history, 0) else { panic!("an old revision") };
    assert_eq!((back.name_any(), back.revision), (history[0].name_any(), 3));
    let Choice::Create(new) = revisions::choose(&first, &history[1..], 0) else { panic!("a new revision") };
    assert_eq!(new.revision, 3);
}
