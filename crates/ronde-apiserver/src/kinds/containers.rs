//! The rules for containers: regular, init and ephemeral ones.
//!
//! Called by [`super::podspec`]. Environment variables are in [`super::env`], probes in [`super::probes`], amounts in
//! [`super::resources`], rights in [`super::security`].

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    env,
    errors::Errors,
    path::Path,
    probes,
    read::{is_empty, items, number, text},
    resources, security,
    volumes::relative_path,
};
use crate::names::{is_dns1123_label, is_valid_port_name, is_valid_port_num};

/// The protocols of ports.
pub const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const NO_PROBES: &str = "may not be set for init containers without restartPolicy=Always";
const NOT_EPHEMERAL: &str = "cannot be set for an Ephemeral Container";
/// What an ephemeral container may not have, in the order of the real server's type.
const NOT_EPHEMERAL_FIELDS: [&str; 9] = [
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];

/// What the rules for containers need to know of the pod.
pub struct Pod<'a> {
    pub spec: &'a Value,
    /// The volumes without mistakes.
    pub volumes: Vec<&'a Value>,
    /// The names of resource claims.
    pub claims: Vec<&'a str>,
}

/// Checks all containers of a pod spec.
pub fn containers(pod: &Pod<'_>, path: &Path<'_>, errors: &mut Errors) {
    regular(pod, &path.child("containers"), errors);
    init(pod, &path.child("initContainers"), errors);
    ephemeral(pod, &path.child("ephemeralContainers"), errors);
}

/// Returns all containers of a spec with their paths, in the order in which the real server visits them.
pub fn visit(spec: &Value, path: &Path<'_>, mut each: impl FnMut(&Value, &Path<'_>)) {
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        let at = path.child(list);
        for (index, container) in items(&spec[list]).iter().enumerate() {
            each(container, &at.index(index));
        }
    }
}

fn regular(pod: &Pod<'_>, path: &Path<'_>, errors: &mut Errors) {
    let list = items(&pod.spec["containers"]);
    if list.is_empty() {
        errors.required(path, "");
        return;
    }
    let mut names = BTreeSet::new();
    for (index, container) in list.iter().enumerate() {
        let at = path.index(index);
        common(container, pod, &at, errors);
        let name = text(&container["name"]);
        if !names.insert(name) {
            errors.duplicate(&at.child("name"), name);
        }
        probes::all(container, pod.spec, &at, errors);
    }
    host_port_conflicts(list, path, errors);
}

fn init(pod: &Pod<'_>, path: &Path<'_>, errors: &mut Errors) {
    let mut names: BTreeSet<&str> = items(&pod.spec["containers"]).iter().map(|c| text(&c["name"])).collect();
    for (index, container) in items(&pod.spec["initContainers"]).iter().enumerate() {
        let at = path.index(index);
        common(container, pod, &at, errors);
        let name = text(&container["name"]);
        if !name.is_empty() && !names.insert(name) {
            errors.duplicate(&at.child("name"), name);
        }
        host_port_conflicts(std::slice::from_ref(container), path, errors);
        if text(&container["restartPolicy"]) == "Always" {
            probes::all(container, pod.spec, &at, errors);
            continue;
        }
        for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if !container[field].is_null() {
                errors.forbidden(&at.child(field), NO_PROBES);
            }
        }
    }
}

fn ephemeral(pod: &Pod<'_>, path: &Path<'_>, errors: &mut Errors) {
    let others: BTreeSet<&str> = ["containers", "initContainers"]
        .iter()
        .flat_map(|list| items(&pod.spec[*list]))
        .map(|container| text(&container["name"]))
        .collect();
    let mut names = others.clone();
    for (index, container) in items(&pod.spec["ephemeralContainers"]).iter().enumerate() {
        let at = path.index(index);
        common(container, pod, &at, errors);
        image_without_spaces(container, &at, errors);
        let (name, target) = (text(&container["name"]), text(&container["targetContainerName"]));
        if !names.insert(name) {
            errors.duplicate(&at.child("name"), name);
        }
        if !target.is_empty() && !others.contains(target) {
            errors.not_found(&at.child("targetContainerName"), target, "");
        }
        for field in NOT_EPHEMERAL_FIELDS {
            if !is_unset(&container[field]) {
                errors.forbidden(&at.child(field), NOT_EPHEMERAL);
            }
        }
        let mounts = at.child("volumeMounts");
        for (index, mount) in items(&container["volumeMounts"]).iter().enumerate() {
            for field in ["subPath", "subPathExpr"] {
                if !text(&mount[field]).is_empty() {
                    errors.forbidden(&mounts.index(index).child(field), NOT_EPHEMERAL);
                }
            }
        }
    }
}

fn is_unset(value: &Value) -> bool {
    value.is_null() || (value.is_object() && is_empty(value))
}

fn common(container: &Value, pod: &Pod<'_>, path: &Path<'_>, errors: &mut Errors) {
    let name = text(&container["name"]);
    if name.is_empty() {
        errors.required(&path.child("name"), "");
    } else {
        errors.names(&path.child("name"), name, is_dns1123_label(name));
    }
    if text(&container["image"]).is_empty() {
        errors.required(&path.child("image"), "");
    }
    let policy = text(&container["terminationMessagePolicy"]);
    errors.one_of(&path.child("terminationMessagePolicy"), policy, &["File", "FallbackToLogsOnError"]);
    ports(&container["ports"], &path.child("ports"), errors);
    env::variables(&container["env"], &path.child("env"), errors);
    env::sources(&container["envFrom"], &path.child("envFrom"), errors);
    mounts(container, pod, &path.child("volumeMounts"), errors);
    devices(container, pod, &path.child("volumeDevices"), errors);
    pull_policy(&container["imagePullPolicy"], &path.child("imagePullPolicy"), errors);
    let at = path.child("resources");
    resources::requirements(&container["resources"], resources::container_resource_name, &pod.claims, &at, errors);
    resize_policy(&container["resizePolicy"], text(&pod.spec["restartPolicy"]), &path.child("resizePolicy"), errors);
    security::container(&container["securityContext"], pod.spec, &path.child("securityContext"), errors);
}

/// Checks when an image is pulled.
pub fn pull_policy(policy: &Value, path: &Path<'_>, errors: &mut Errors) {
    errors.one_of(path, text(policy), &["Always", "IfNotPresent", "Never"]);
}

/// Checks what only pods check, not templates.
pub fn image_without_spaces(container: &Value, path: &Path<'_>, errors: &mut Errors) {
    let image = text(&container["image"]);
    if image.trim() != image {
        errors.invalid(&path.child("image"), image, "must not have leading or trailing whitespace");
    }
}

fn ports(list: &Value, path: &Path<'_>, errors: &mut Errors) {
    let mut names = BTreeSet::new();
    for (index, port) in items(list).iter().enumerate() {
        let at = path.index(index);
        let name = text(&port["name"]);
        if !name.is_empty() {
            let messages = is_valid_port_name(name);
            if messages.is_empty() && !names.insert(name) {
                errors.duplicate(&at.child("name"), name);
            }
            errors.names(&at.child("name"), name, messages);
        }
        let (inside, outside) = (number(&port["containerPort"]), number(&port["hostPort"]));
        if inside == 0 {
            errors.required(&at.child("containerPort"), "");
        } else {
            errors.numbers(&at.child("containerPort"), inside, is_valid_port_num(inside));
        }
        if outside != 0 {
            errors.numbers(&at.child("hostPort"), outside, is_valid_port_num(outside));
        }
        errors.one_of(&at.child("protocol"), text(&port["protocol"]), &PROTOCOLS);
    }
}

fn host_port_conflicts(containers: &[Value], path: &Path<'_>, errors: &mut Errors) {
    let mut taken = BTreeSet::new();
    for (index, container) in containers.iter().enumerate() {
        let at = path.index(index);
        let list = at.child("ports");
        for (index, port) in items(&container["ports"]).iter().enumerate() {
            let number = number(&port["hostPort"]);
            if number == 0 {
                continue;
            }
            let place = format!("{}/{}/{number}", text(&port["protocol"]), text(&port["hostIP"]));
            if taken.contains(&place) {
                errors.duplicate(&list.index(index).child("hostPort"), place);
            } else {
                taken.insert(place);
            }
        }
    }
}

fn mounts(container: &Value, pod: &Pod<'_>, path: &Path<'_>, errors: &mut Errors) {
    let devices = items(&container["volumeDevices"]);
    let mut points = BTreeSet::new();
    for (index, mount) in items(&container["volumeMounts"]).iter().enumerate() {
        let at = path.index(index);
        let (name, point) = (text(&mount["name"]), text(&mount["mountPath"]));
        if name.is_empty() {
            errors.required(&at.child("name"), "");
        }
        if !pod.volumes.iter().any(|volume| text(&volume["name"]) == name) {
            errors.not_found(&at.child("name"), name, "");
        }
        if point.is_empty() {
            errors.required(&at.child("mountPath"), "");
        }
        if !points.insert(point) {
            errors.invalid(&at.child("mountPath"), point, "must be unique");
        }
        if devices.iter().any(|device| text(&device["name"]) == name) {
            errors.invalid(&at.child("name"), name, "must not already exist in volumeDevices");
        }
        if devices.iter().any(|device| text(&device["devicePath"]) == point) {
            errors.invalid(&at.child("mountPath"), point, "must not already exist as a path in volumeDevices");
        }
        sub_paths(mount, &at, path, errors);
        propagation(mount, container, path, errors);
    }
}

fn sub_paths(mount: &Value, path: &Path<'_>, list: &Path<'_>, errors: &mut Errors) {
    let (plain, expression) = (text(&mount["subPath"]), text(&mount["subPathExpr"]));
    if !plain.is_empty() {
        relative_path(plain, &list.child("subPath"), errors);
    }
    if !expression.is_empty() {
        if !plain.is_empty() {
            let detail = "subPathExpr and subPath are mutually exclusive";
            errors.invalid(&path.child("subPathExpr"), expression, detail);
        }
        relative_path(expression, &list.child("subPathExpr"), errors);
    }
}

fn propagation(mount: &Value, container: &Value, list: &Path<'_>, errors: &mut Errors) {
    let at = list.child("mountPropagation");
    errors.one_of_optional(&at, &mount["mountPropagation"], &["Bidirectional", "HostToContainer", "None"]);
    let mode = text(&mount["mountPropagation"]);
    if mode == "Bidirectional" && container["securityContext"]["privileged"] != true {
        errors.forbidden(&at, "Bidirectional mount propagation is available only to privileged containers");
    }
    let at = list.child("recursiveReadOnly");
    match text(&mount["recursiveReadOnly"]) {
        "" | "Disabled" => {}
        "Enabled" | "IfPossible" => {
            if mount["readOnly"] != true {
                errors.forbidden(&at, "may only be specified when readOnly is true");
            }
            if !matches!(mode, "" | "None") {
                errors.forbidden(&at, "may only be specified when mountPropagation is None or not specified");
            }
        }
        other => errors.not_supported(&at, other, &["Disabled", "Enabled", "IfPossible"]),
    }
}

fn devices(container: &Value, pod: &Pod<'_>, path: &Path<'_>, errors: &mut Errors) {
    let mounts = items(&container["volumeMounts"]);
    let (mut names, mut places) = (BTreeSet::new(), BTreeSet::new());
    for (index, device) in items(&container["volumeDevices"]).iter().enumerate() {
        let at = path.index(index);
        let (name, place) = (text(&device["name"]), text(&device["devicePath"]));
        if name.is_empty() {
            errors.required(&at.child("name"), "");
        } else if !names.insert(name) {
            errors.invalid(&at.child("name"), name, "must be unique");
        }
        match pod.volumes.iter().find(|volume| text(&volume["name"]) == name) {
            None => errors.not_found(&at.child("name"), name, ""),
            Some(volume) if volume["persistentVolumeClaim"].is_null() && volume["ephemeral"].is_null() => {
                let detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                errors.invalid(&at.child("name"), name, detail);
            }
            Some(_) => {}
        }
        device_path(place, &mut places, &at.child("devicePath"), errors);
        if mounts.iter().any(|mount| text(&mount["name"]) == name) {
            errors.invalid(&at.child("name"), name, "must not already exist in volumeMounts");
        }
        if mounts.iter().any(|mount| text(&mount["mountPath"]) == place) {
            errors.invalid(&at.child("devicePath"), place, "must not already exist as a path in volumeMounts");
        }
    }
}

fn device_path<'a>(place: &'a str, places: &mut BTreeSet<&'a str>, path: &Path<'_>, errors: &mut Errors) {
    if place.is_empty() {
        errors.required(path, "");
    }
    if places.contains(place) {
        errors.invalid(path, place, "must be unique");
    }
    if place.split('/').any(|part| part == "..") {
        errors.invalid(path, place, "can not contain backsteps ('..')");
    } else {
        places.insert(place);
    }
}

fn resize_policy(list: &Value, restart_policy: &str, path: &Path<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, policy) in items(list).iter().enumerate() {
        let (resource, restart) = (text(&policy["resourceName"]), text(&policy["restartPolicy"]));
        if !seen.insert(resource) {
            errors.duplicate(&path.index(index), resource);
        }
        errors.one_of(path, resource, &["cpu", "memory"]);
        errors.one_of(path, restart, &["NotRequired", "RestartContainer"]);
        if restart_policy == "Never" && restart != "NotRequired" {
            errors.invalid(path, restart, "must be 'NotRequired' when `restartPolicy` is 'Never'");
        }
    }
}
