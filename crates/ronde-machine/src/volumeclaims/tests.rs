//! What happens to claims and volumes, row by row.

use std::{path::Path, sync::Arc};

use k8s_openapi::api::{
    core::v1::{PersistentVolume, PersistentVolumeClaim},
    storage::v1::StorageClass,
};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::{claim, volume};

const ROOT: &str = "/data/volumes";

/// Puts the fields of one JSON object over those of another, deeply.
fn over(base: &mut Value, more: Value) {
    match (base, more) {
        (Value::Object(base), Value::Object(more)) => {
            more.into_iter().for_each(|(key, value)| over(base.entry(key).or_insert(Value::Null), value));
        }
        (base, more) => *base = more,
    }
}

fn claim(more: Value) -> PersistentVolumeClaim {
    let mut value = json!({
        "metadata": {"name": "c", "namespace": "n", "uid": "u", "finalizers": ["kubernetes.io/pvc-protection"]},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}, "storageClassName": ""},
    });
    over(&mut value, more);
    serde_json::from_value(value).unwrap()
}

fn volume(name: &str, more: Value) -> Arc<PersistentVolume> {
    let mut value = json!({
        "metadata": {"name": name, "finalizers": ["kubernetes.io/pv-protection"]},
        "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "10Gi"}, "persistentVolumeReclaimPolicy": "Retain"},
        "status": {"phase": "Available"},
    });
    over(&mut value, more);
    Arc::new(serde_json::from_value(value).unwrap())
}

fn class(name: &str, more: Value) -> Arc<StorageClass> {
    let mut value = json!({"metadata": {"name": name}, "provisioner": super::PROVISIONER});
    over(&mut value, more);
    Arc::new(serde_json::from_value(value).unwrap())
}

fn show(step: claim::Step) -> String {
    let told = |tell: Option<claim::ClaimEvent>| tell.map(|tell| format!(" {}", tell.reason)).unwrap_or_default();
    match step {
        claim::Step::Nothing => "nothing".to_owned(),
        claim::Step::Update(claim) => {
            let spec = claim.spec.clone().unwrap_or_default();
            let marks: Vec<_> = claim.annotations().keys().filter_map(|key| key.split('/').next_back()).collect();
            format!(
                "claim volume={} class={} {} {}",
                spec.volume_name.unwrap_or_default(),
                spec.storage_class_name.unwrap_or_default(),
                claim.finalizers().len(),
                marks.join(",")
            )
        }
        claim::Step::Status(status, tell) => format!("status {}{}", status.phase.unwrap_or_default(), told(tell)),
        claim::Step::Wait(tell) => format!("wait{}", told(tell)),
        claim::Step::BindVolume(volume) => {
            let reference = volume.spec.as_ref().and_then(|spec| spec.claim_ref.clone()).unwrap_or_default();
            format!("volume {} for {}", volume.name_any(), reference.uid.unwrap_or_default())
        }
        claim::Step::Provision(volume) => {
            let spec = volume.spec.clone().unwrap_or_default();
            let path = spec.host_path.map(|path| path.path).unwrap_or_default();
            format!("make {} {path} {}", volume.name_any(), spec.persistent_volume_reclaim_policy.unwrap_or_default())
        }
    }
}

#[track_caller]
fn check(what: &str, of: Value, volumes: &[Arc<PersistentVolume>], classes: &[Arc<StorageClass>], expected: &str) {
    let claim = claim(of);
    let root = Path::new(ROOT);
    let observed = claim::Observed { claim: &claim, volumes, classes, is_used: false, root };
    assert_eq!(show(claim::next(&observed)), expected, "{what}");
}

fn bound_to(name: &str) -> Value {
    json!({"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": name}})
}

fn taken_by(uid: Value) -> Value {
    json!({"spec": {"claimRef": {"namespace": "n", "name": "c", "uid": uid}}})
}

#[test]
fn a_claim_takes_the_smallest_volume_that_will_do() {
    let v = |name: &str, size: &str| volume(name, json!({"spec": {"capacity": {"storage": size}}}));
    check("the smallest", json!({}), &[v("a", "100Gi"), v("b", "6Gi"), v("c", "7Gi")], &[], "volume b for u");
    check("none is large enough", json!({}), &[v("a", "1Gi")], &[], "wait FailedBinding");
    check("the unit does not matter", json!({}), &[v("a", "5368709120")], &[], "volume a for u");
    let with = |more: Value| [volume("a", more)];
    check("another class", json!({}), &with(json!({"spec": {"storageClassName": "x"}})), &[], "wait FailedBinding");
    check(
        "other modes",
        json!({"spec": {"accessModes": ["ReadWriteMany"]}}),
        &with(json!({})),
        &[],
        "wait FailedBinding",
    );
    check("a block device", json!({}), &with(json!({"spec": {"volumeMode": "Block"}})), &[], "wait FailedBinding");
    check(
        "released ones are not free",
        json!({}),
        &with(json!({"status": {"phase": "Released"}})),
        &[],
        "wait FailedBinding",
    );
    check("taken by another", json!({}), &with(taken_by(json!("other"))), &[], "wait FailedBinding");
    check("reserved for it by name", json!({}), &with(taken_by(Value::Null)), &[], "volume a for u");
    let picky = json!({"spec": {"selector": {"matchLabels": {"disk": "fast"}}}});
    check("a selector", picky.clone(), &with(json!({})), &[], "wait FailedBinding");
    check(
        "a selector that finds one",
        picky,
        &with(json!({"metadata": {"labels": {"disk": "fast"}}})),
        &[],
        "volume a for u",
    );
}

#[test]
fn binding_is_done_in_steps() {
    let taken = [volume("a", taken_by(json!("u")))];
    check("first it is protected", json!({"metadata": {"finalizers": []}}), &[], &[], "claim volume= class= 1 ");
    check(
        "the volume has it: now the claim",
        json!({}),
        &taken,
        &[],
        "claim volume=a class= 1 bind-completed,bound-by-controller",
    );
    check("the claim has it: now its status", bound_to("a"), &taken, &[], "status Bound");
    let mut done = bound_to("a");
    over(
        &mut done,
        json!({"status": {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "10Gi"}}}),
    );
    check("done", done, &taken, &[], "nothing");
}

#[test]
fn a_claim_may_name_its_volume() {
    let named = || json!({"spec": {"volumeName": "a"}});
    check("not there yet", named(), &[], &[], "wait");
    check("there and free", named(), &[volume("a", json!({}))], &[], "volume a for u");
    check("reserved for it", named(), &[volume("a", taken_by(Value::Null))], &[], "volume a for u");
    check("its own", named(), &[volume("a", taken_by(json!("u")))], &[], "claim volume=a class= 1 bind-completed");
    check("taken", named(), &[volume("a", taken_by(json!("x")))], &[], "wait FailedBinding");
    let small = volume("a", json!({"spec": {"capacity": {"storage": "1Gi"}}}));
    check("too small", named(), &[small], &[], "wait VolumeMismatch");
}

#[test]
fn a_claim_that_was_bound_can_only_be_lost() {
    check("its volume is gone", bound_to("a"), &[], &[], "status Lost ClaimLost");
    check(
        "its volume is another's",
        bound_to("a"),
        &[volume("a", taken_by(json!("x")))],
        &[],
        "status Lost ClaimMisbound",
    );
    check("its volume forgot it", bound_to("a"), &[volume("a", json!({}))], &[], "volume a for u");
    let mut lost = bound_to("a");
    over(&mut lost, json!({"status": {"phase": "Lost"}}));
    check("nothing more to say", lost, &[], &[], "nothing");
}

#[test]
fn classes_make_volumes() {
    let named = |name: &str| json!({"spec": {"storageClassName": name}});
    let unnamed = || json!({"spec": {"storageClassName": null}});
    let default =
        class("d", json!({"metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}}));
    check("no class and no default", unnamed(), &[], &[class("x", json!({}))], "wait FailedBinding");
    check("the default class", unnamed(), &[], &[default], "claim volume= class=d 1 ");
    check("no such class", named("x"), &[], &[], "wait ProvisioningFailed");
    check(
        "somebody else's",
        named("x"),
        &[],
        &[class("x", json!({"provisioner": "a/b"}))],
        "wait ExternalProvisioning",
    );
    check("ours", named("x"), &[], &[class("x", json!({}))], "make pvc-u /data/volumes/pvc-u Delete");
    check(
        "its policy",
        named("x"),
        &[],
        &[class("x", json!({"reclaimPolicy": "Retain"}))],
        "make pvc-u /data/volumes/pvc-u Retain",
    );
    check(
        "blocks cannot be made",
        json!({"spec": {"storageClassName": "x", "volumeMode": "Block"}}),
        &[],
        &[class("x", json!({}))],
        "wait ProvisioningFailed",
    );
}

#[test]
fn a_claim_in_use_is_not_let_go() {
    let going = json!({"metadata": {"deletionTimestamp": "2027-01-01T00:00:00Z"}});
    check("nobody uses it", going.clone(), &[], &[], "claim volume= class= 0 ");
    let used = claim(going);
    let observed = claim::Observed { claim: &used, volumes: &[], classes: &[], is_used: true, root: Path::new(ROOT) };
    assert_eq!(claim::next(&observed), claim::Step::Nothing);
}

#[track_caller]
fn check_volume(what: &str, more: Value, claim: Option<PersistentVolumeClaim>, expected: &str) {
    let volume = volume("v", more);
    let step = volume::next(&volume, claim.as_ref(), Path::new(ROOT));
    let seen = match step {
        volume::Step::Nothing => "nothing".to_owned(),
        volume::Step::Update(volume) => {
            let reference = volume.spec.as_ref().and_then(|spec| spec.claim_ref.clone());
            let reference = reference.map(|reference| reference.uid.unwrap_or_else(|| "reserved".to_owned()));
            format!("write {} {}", reference.unwrap_or_else(|| "free".to_owned()), volume.finalizers().len())
        }
        volume::Step::Phase(phase, tell) => {
            format!("{phase}{}", tell.map(|tell| format!(" {}", tell.reason)).unwrap_or_default())
        }
        volume::Step::Delete(directory) => format!("delete {}", directory.display()),
    };
    assert_eq!(seen, expected, "{what}");
}

#[test]
fn a_volume_follows_its_claim() {
    let own = |policy: &str, phase: &str| {
        let mut value = taken_by(json!("u"));
        over(
            &mut value,
            json!({
                "metadata": {"annotations": {"pv.kubernetes.io/provisioned-by": super::PROVISIONER}},
                "spec": {"persistentVolumeReclaimPolicy": policy, "hostPath": {"path": "/data/volumes/v"}},
                "status": {"phase": phase},
            }),
        );
        value
    };
    let elsewhere = |path: &str| {
        let mut value = own("Delete", "Released");
        over(&mut value, json!({"spec": {"hostPath": {"path": path}}}));
        value
    };
    check_volume("new", json!({"status": {"phase": ""}}), None, "Available");
    check_volume("unprotected", json!({"metadata": {"finalizers": []}}), None, "write free 1");
    check_volume("bound", taken_by(json!("u")), Some(claim(bound_to("v"))), "Bound");
    check_volume("about to be bound", taken_by(json!("u")), Some(claim(json!({}))), "nothing");
    check_volume("its claim is gone", own("Retain", "Bound"), None, "Released");
    check_volume("and so is another of that name", taken_by(json!("old")), Some(claim(json!({}))), "Released");
    check_volume("kept", own("Retain", "Released"), None, "nothing");
    check_volume("removed", own("Delete", "Released"), None, "delete /data/volumes/v");
    check_volume("tried again", own("Delete", "Failed"), None, "delete /data/volumes/v");
    check_volume("never anything outside", elsewhere("/etc"), None, "Failed VolumeFailedDelete");
    check_volume("nor above", elsewhere("/data/volumes/v/../x"), None, "Failed VolumeFailedDelete");
    let mut chosen = taken_by(json!("u"));
    over(&mut chosen, json!({"metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}}}));
    check_volume("the claim took another: free", chosen, Some(claim(bound_to("w"))), "write free 1");
    check_volume("or still reserved", taken_by(json!("u")), Some(claim(bound_to("w"))), "write reserved 1");
    let going = |phase: &str| {
        let mut value = own("Retain", phase);
        over(&mut value, json!({"metadata": {"deletionTimestamp": "2027-01-01T00:00:00Z"}}));
        value
    };
    check_volume("deleted in use", going("Bound"), Some(claim(bound_to("v"))), "nothing");
    check_volume("deleted after use", going("Released"), None, "write u 0");
}
