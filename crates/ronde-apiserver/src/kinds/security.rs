//! The rules for security contexts of pods and containers.
//!
//! Privileged containers are allowed: it is one machine, and its owner runs them. Options for Windows are checked only
//! for where they may stand.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    containers::visit,
    errors::Errors,
    path::Path,
    read::{is_true, items, number, text},
    volumes::relative_path,
};
use crate::names::is_valid_user_or_group_id;

const SYSCTL_MAX: usize = 253;
const SYSCTL_DETAIL: &str = "must have at most 253 characters and match regex \
     ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
const LOCALHOST_PROFILE_MAX: usize = 4095;
const PROFILES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];

/// Checks the security context of a pod.
pub fn pod(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let context = &spec["securityContext"];
    for field in ["fsGroup", "runAsUser", "runAsGroup"] {
        id(&context[field], &path.child(field), errors);
    }
    let groups = path.child("supplementalGroups");
    for (index, group) in items(&context["supplementalGroups"]).iter().enumerate() {
        id(group, &groups.index(index), errors);
    }
    if is_true(&spec["shareProcessNamespace"]) && is_true(&spec["hostPID"]) {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.invalid(&path.child("shareProcessNamespace"), true, detail);
    }
    sysctls(spec, &path.child("sysctls"), errors);
    let policy = &context["fsGroupChangePolicy"];
    errors.one_of_optional(&path.child("fsGroupChangePolicy"), policy, &["Always", "OnRootMismatch"]);
    seccomp(&context["seccompProfile"], &path.child("seccompProfile"), errors);
    app_armor(&context["appArmorProfile"], &path.child("appArmorProfile"), errors);
    let policy = &context["supplementalGroupsPolicy"];
    errors.one_of_optional(&path.child("supplementalGroupsPolicy"), policy, &["Merge", "Strict"]);
    let policy = &context["seLinuxChangePolicy"];
    errors.one_of_optional(&path.child("seLinuxChangePolicy"), policy, &["Recursive"]);
}

/// Checks the security context of a container.
pub fn container(context: &Value, spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    if context.is_null() {
        return;
    }
    for field in ["runAsUser", "runAsGroup"] {
        id(&context[field], &path.child(field), errors);
    }
    let proc_mount = path.child("procMount");
    errors.one_of_optional(&proc_mount, &context["procMount"], &["Default", "Unmasked"]);
    if text(&context["procMount"]) == "Unmasked" && spec["hostUsers"] != false {
        errors.invalid(&proc_mount, "Unmasked", "`hostUsers` must be false to use `Unmasked`");
    }
    seccomp(&context["seccompProfile"], &path.child("seccompProfile"), errors);
    if context["allowPrivilegeEscalation"] == false {
        let prefix = "cannot set `allowPrivilegeEscalation` to false and";
        if is_true(&context["privileged"]) {
            let detail = format!("{prefix} `privileged` to true");
            errors.invalid(path, context.clone(), detail);
        }
        if items(&context["capabilities"]["add"]).iter().any(|capability| text(capability) == "CAP_SYS_ADMIN") {
            let detail = format!("{prefix} `capabilities.Add` CAP_SYS_ADMIN");
            errors.invalid(path, context.clone(), detail);
        }
    }
    app_armor(&context["appArmorProfile"], &path.child("appArmorProfile"), errors);
}

/// Checks what a pod with users of its own may not have.
pub fn host_users(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    if spec["hostUsers"] != false {
        return;
    }
    for (field, name) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if is_true(&spec[field]) {
            errors.forbidden(&path.child(name), "when `hostUsers` is false");
        }
    }
    visit(spec, path, |container, at| {
        if !items(&container["volumeDevices"]).is_empty() {
            errors.forbidden(&at.child("volumeDevices"), "when `hostUsers` is false");
        }
    });
}

/// Checks the operating system that a pod asks for.
pub fn os(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let os = &spec["os"];
    if os.is_null() {
        return;
    }
    match text(&os["name"]) {
        "" => errors.required(&path.child("os").child("name"), ""),
        "linux" => no_windows_options(spec, path, errors),
        "windows" => {}
        other => errors.not_supported(&path.child("os"), other, &["linux", "windows"]),
    }
}

fn no_windows_options(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let detail = "windows options cannot be set for a linux pod";
    if !spec["securityContext"]["windowsOptions"].is_null() {
        errors.forbidden(&path.child("securityContext").child("windowsOptions"), detail);
    }
    visit(spec, path, |container, at| {
        if !container["securityContext"]["windowsOptions"].is_null() {
            errors.forbidden(&at.child("securityContext").child("windowsOptions"), detail);
        }
    });
}

fn id(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    if !value.is_null() {
        errors.numbers(path, number(value), is_valid_user_or_group_id(number(value)));
    }
}

fn seccomp(profile: &Value, path: &Path<'_>, errors: &mut Errors) {
    if profile.is_null() {
        return;
    }
    let (kind, file) = (text(&profile["type"]), profile["localhostProfile"].as_str());
    if kind.is_empty() {
        errors.required(&path.child("type"), "type is required when seccompProfile is set");
    } else if !PROFILES.contains(&kind) {
        errors.not_supported(&path.child("type"), kind, &PROFILES);
    }
    let at = path.child("localhostProfile");
    match (kind == "Localhost", file) {
        (true, None) => errors.required(&at, "must be set when seccomp type is Localhost"),
        (true, Some(file)) => relative_path(file, &at, errors),
        (false, Some(_)) => {
            let detail = "can only be set when seccomp type is Localhost";
            errors.invalid(&at, profile.clone(), detail);
        }
        (false, None) => {}
    }
}

fn app_armor(profile: &Value, path: &Path<'_>, errors: &mut Errors) {
    if profile.is_null() {
        return;
    }
    let at = path.child("localhostProfile");
    match (text(&profile["type"]), profile["localhostProfile"].as_str()) {
        ("Localhost", None | Some("")) => errors.required(&at, "must be set when AppArmor type is Localhost"),
        ("Localhost", Some(name)) => {
            if name.trim() != name {
                errors.invalid(&at, name, "must not be padded with whitespace");
            }
            if name.len() > LOCALHOST_PROFILE_MAX {
                errors.too_long(&at, LOCALHOST_PROFILE_MAX);
            }
        }
        ("RuntimeDefault" | "Unconfined", Some(name)) => {
            errors.invalid(&at, name, "can only be set when AppArmor type is Localhost");
        }
        ("RuntimeDefault" | "Unconfined", None) => {}
        ("", _) => errors.required(&path.child("type"), "type is required when appArmorProfile is set"),
        (kind, _) => errors.not_supported(&path.child("type"), kind, &PROFILES),
    }
}

fn sysctls(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let mut names = BTreeSet::new();
    for (index, sysctl) in items(&spec["securityContext"]["sysctls"]).iter().enumerate() {
        let entry = path.index(index);
        let at = entry.child("name");
        let name = text(&sysctl["name"]);
        if name.is_empty() {
            errors.required(&at, "");
        } else if !is_sysctl(name) {
            errors.invalid(&at, name, SYSCTL_DETAIL);
        } else if names.contains(name) {
            errors.duplicate(&at, name);
        }
        names.insert(name);
        let dotted = name.replace('/', ".");
        if is_true(&spec["hostNetwork"]) && dotted.starts_with("net.") {
            errors.invalid(&at, name, "may not be specified when 'hostNetwork' is true");
        } else if is_true(&spec["hostIPC"]) && is_ipc_sysctl(&dotted) {
            errors.invalid(&at, name, "may not be specified when 'hostIPC' is true");
        }
    }
}

fn is_sysctl(name: &str) -> bool {
    let is_edge = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let is_segment = |segment: &str| {
        let bytes = segment.as_bytes();
        bytes.first().is_some_and(|b| is_edge(*b))
            && bytes.last().is_some_and(|b| is_edge(*b))
            && bytes.iter().all(|b| is_edge(*b) || matches!(b, b'-' | b'_'))
    };
    name.len() <= SYSCTL_MAX && name.split(['.', '/']).all(is_segment)
}

fn is_ipc_sysctl(name: &str) -> bool {
    name == "kernel.sem" || ["kernel.shm", "kernel.msg", "fs.mqueue."].iter().any(|prefix| name.starts_with(prefix))
}
