//! What the node may report about a pod.

use serde_json::Value;

use super::{
    addresses::ip_unless_known,
    errors::Errors,
    meta,
    path::Path,
    pod_update::annotation_changes,
    read::{items, number, text},
};
use crate::{
    error::{FieldError, FieldErrorKind},
    names::{is_dns1123_subdomain, is_qualified_name, parse_ip},
};

/// Checks a change of the status of a pod.
pub fn validate(new: &Value, old: &Value, errors: &mut Errors) {
    meta::updated(new, old, errors);
    meta::standard_finalizers(new, errors);
    annotation_changes(new, old, errors);
    let path = Path::new("status");
    let (spec, new, old) = (&old["spec"], &new["status"], &old["status"]);
    conditions(&new["conditions"], &path.child("conditions"), errors);
    let nominated = text(&new["nominatedNodeName"]);
    if !nominated.is_empty() && nominated != text(&old["nominatedNodeName"]) {
        errors.names(&path.child("nominatedNodeName"), nominated, is_dns1123_subdomain(nominated));
    }
    if number(&new["observedGeneration"]) < 0 {
        let detail = "must be a non-negative integer";
        errors.invalid(&path.child("observedGeneration"), number(&new["observedGeneration"]), detail);
    }
    if new["qosClass"] != old["qosClass"] {
        errors.invalid(&path.child("qosClass"), text(&new["qosClass"]), super::errors::IMMUTABLE);
    }
    for list in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
        transitions(list, (&new[list], &old[list]), spec, &path.child(list), errors);
    }
    addresses("podIPs", (new, old), &path, errors);
    if let Some(first) = items(&new["hostIPs"]).first()
        && first["ip"] != new["hostIP"]
    {
        let at = path.child("hostIPs");
        errors.invalid(&at.index(0).child("ip"), text(&first["ip"]), "must be equal to `hostIP`");
    }
    addresses("hostIPs", (new, old), &path, errors);
}

fn conditions(list: &Value, path: &Path<'_>, errors: &mut Errors) {
    for (index, condition) in items(list).iter().enumerate() {
        let at = path.index(index);
        if number(&condition["observedGeneration"]) < 0 {
            let detail = "must be a non-negative integer";
            errors.invalid(&at.child("observedGeneration"), number(&condition["observedGeneration"]), detail);
        }
        let kind = text(&condition["type"]);
        if !matches!(kind, "PodScheduled" | "Ready" | "Initialized") {
            errors.names(&at.child("Type"), kind, is_qualified_name(kind));
        }
    }
}

/// A container that ended for good does not run again.
fn transitions(list: &str, (new, old): (&Value, &Value), spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let policy = text(&spec["restartPolicy"]);
    let is_ephemeral = list == "ephemeralContainerStatuses";
    if policy == "Always" && !is_ephemeral {
        return;
    }
    for (index, before) in items(old).iter().enumerate() {
        let ended = &before["state"]["terminated"];
        let restarts = policy == "OnFailure" && number(&ended["exitCode"]) != 0 && !is_ephemeral;
        let is_sidecar = list == "initContainerStatuses" && is_sidecar(spec, &before["name"]);
        if ended.is_null() || restarts || is_sidecar {
            continue;
        }
        let runs_again = |now: &&Value| now["name"] == before["name"] && now["state"]["terminated"].is_null();
        for _ in items(new).iter().filter(runs_again) {
            errors.forbidden(&path.index(index).child("state"), "may not be transitioned to non-terminated state");
        }
    }
}

fn is_sidecar(spec: &Value, name: &Value) -> bool {
    items(&spec["initContainers"])
        .iter()
        .any(|container| container["name"] == *name && text(&container["restartPolicy"]) == "Always")
}

fn addresses(field: &str, (new, old): (&Value, &Value), path: &Path<'_>, errors: &mut Errors) {
    let list = items(&new[field]);
    let at = path.child(field);
    let known: Vec<&str> = items(&old[field]).iter().map(|address| text(&address["ip"])).collect();
    for (index, address) in list.iter().map(|address| text(&address["ip"])).enumerate() {
        ip_unless_known(address, &known, &at.index(index), errors);
    }
    if list.len() > 1 {
        let invalid = |(_, address): &(usize, &Value)| parse_ip(text(&address["ip"])).is_none();
        if let Some((index, address)) = list.iter().enumerate().find(invalid) {
            let why =
                format!("failed to check for dual stack with error:invalid IP[{index}]: {}", text(&address["ip"]));
            errors.push(FieldError::new(FieldErrorKind::Internal, &at, Value::Null, why));
        }
        let is_v4 = |address: &Value| parse_ip(text(&address["ip"])).is_some_and(|ip| ip.is_ipv4());
        let is_pair = list.len() == 2
            && !list.iter().enumerate().any(|entry| invalid(&entry))
            && is_v4(&list[0]) != is_v4(&list[1]);
        if !is_pair {
            let detail = "may specify no more than one IP for each IP family";
            errors.invalid(&at, new[field].clone(), detail);
        }
    }
}
