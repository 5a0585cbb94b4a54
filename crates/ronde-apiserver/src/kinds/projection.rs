//! The rules for projected volumes and the downward API: files made of secrets, config maps, tokens, fields of the pod.
//!
//! Called by [`super::volumes`]; the rules for references to fields are shared with environment variables.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    errors::Errors,
    path::Path,
    read::{items, number, text},
    volumes::{file_mode, file_path, key_to_path, required},
};
use crate::{names::is_qualified_name, quantity::Quantity};

const VOLUME_FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
const ENV_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const SIZES: [&str; 13] = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
const TOKEN_SECONDS_MIN: i64 = 10 * 60;
const TOKEN_SECONDS_MAX: i64 = 1 << 32;
const TWICE: &str = "conflicting duplicate paths";

/// Who refers to a field or resource: the two may use different ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum User {
    Env,
    Volume,
}

/// Checks a projected volume.
pub fn projected(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    file_mode(&source["defaultMode"], &path.child("defaultMode"), errors);
    let list = path.child("sources");
    let mut files = BTreeSet::new();
    for (index, part) in items(&source["sources"]).iter().enumerate() {
        let at = list.index(index);
        for kind in ["secret", "configMap"] {
            let keyed = &part[kind];
            if !keyed.is_null() {
                projected_keys(keyed, &at.child(kind), path, &mut files, errors);
            }
        }
        projected_fields(&part["downwardAPI"], &at.child("downwardAPI"), path, &mut files, errors);
        if !part["serviceAccountToken"].is_null() {
            token(&part["serviceAccountToken"], &at.child("serviceAccountToken"), path, errors);
        }
        let kinds = part.as_object().map_or(0, |part| part.values().filter(|value| !value.is_null()).count());
        if kinds > 1 {
            errors.forbidden(&at, "may not specify more than 1 volume type per source");
        }
    }
}

/// Checks a volume of the downward API.
pub fn downward_api(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    file_mode(&source["defaultMode"], &path.child("defaultMode"), errors);
    for file in items(&source["items"]) {
        downward_file(file, path, errors);
    }
}

fn projected_keys<'a>(
    source: &'a Value,
    path: &Path<'_>,
    volume: &Path<'_>,
    files: &mut BTreeSet<&'a str>,
    errors: &mut Errors,
) {
    required(source, path, errors, &["name"]);
    let list = path.child("items");
    for (index, item) in items(&source["items"]).iter().enumerate() {
        key_to_path(item, &list.index(index), errors);
        let file = text(&item["path"]);
        if !file.is_empty() && !files.insert(file) {
            errors.invalid(volume, text(&source["name"]), TWICE);
        }
    }
}

fn projected_fields<'a>(
    source: &'a Value,
    path: &Path<'_>,
    volume: &Path<'_>,
    files: &mut BTreeSet<&'a str>,
    errors: &mut Errors,
) {
    for item in items(&source["items"]) {
        downward_file(item, path, errors);
        let file = text(&item["path"]);
        if !file.is_empty() && !files.insert(file) {
            errors.invalid(volume, file, TWICE);
        }
    }
}

fn token(source: &Value, path: &Path<'_>, volume: &Path<'_>, errors: &mut Errors) {
    let seconds = number(&source["expirationSeconds"]);
    let at = path.child("expirationSeconds");
    if seconds < TOKEN_SECONDS_MIN {
        errors.invalid(&at, seconds, "may not specify a duration less than 10 minutes");
    }
    if seconds > TOKEN_SECONDS_MAX {
        errors.invalid(&at, seconds, "may not specify a duration larger than 2^32 seconds");
    }
    let file = text(&source["path"]);
    if file.is_empty() {
        errors.required(&volume.child("path"), "");
    } else {
        file_path(file, &volume.child("path"), errors);
    }
}

fn downward_file(file: &Value, path: &Path<'_>, errors: &mut Errors) {
    required(file, path, errors, &["path"]);
    file_path(text(&file["path"]), &path.child("path"), errors);
    match (file["fieldRef"].is_null(), file["resourceFieldRef"].is_null()) {
        (false, only) => {
            field_ref(&file["fieldRef"], User::Volume, &path.child("fieldRef"), errors);
            if !only {
                let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
                errors.invalid(path, "resource", detail);
            }
        }
        (true, false) => {
            resource_ref(&file["resourceFieldRef"], User::Volume, &path.child("resourceFieldRef"), errors);
        }
        (true, true) => errors.required(path, "one of fieldRef and resourceFieldRef is required"),
    }
    file_mode(&file["mode"], &path.child("mode"), errors);
}

/// Checks a reference to a field of the pod.
pub fn field_ref(reference: &Value, user: User, path: &Path<'_>, errors: &mut Errors) {
    let (version, field) = (text(&reference["apiVersion"]), text(&reference["fieldPath"]));
    if version.is_empty() || field.is_empty() {
        let missing = if version.is_empty() { "apiVersion" } else { "fieldPath" };
        errors.required(&path.child(missing), "");
        return;
    }
    let at = path.child("fieldPath");
    let subscript = field.strip_suffix("']").and_then(|rest| rest.split_once("['"));
    let problem = match subscript {
        _ if version != "v1" => Some(format!("unsupported pod version: {version}")),
        Some((known, _)) if !matches!(known, "metadata.annotations" | "metadata.labels") => {
            Some(format!("field label does not support subscript: {field}"))
        }
        None if !is_downward_field(field) => Some(format!("field label not supported: {field}")),
        _ => None,
    };
    if let Some(problem) = problem {
        errors.invalid(&at, field, format!("error converting fieldPath: {problem}"));
    } else if let Some((known, key)) = subscript {
        let checked = if known == "metadata.annotations" { key.to_lowercase() } else { key.to_owned() };
        errors.names(path, &checked, is_qualified_name(&checked));
    } else {
        let field = if field == "spec.host" { "spec.nodeName" } else { field };
        let supported = if user == User::Volume { &VOLUME_FIELDS[..] } else { &ENV_FIELDS[..] };
        if !supported.contains(&field) {
            errors.not_supported(&at, field, supported);
        }
    }
}

fn is_downward_field(field: &str) -> bool {
    VOLUME_FIELDS.contains(&field)
        || ENV_FIELDS.contains(&field)
        || matches!(field, "spec.host" | "spec.restartPolicy" | "spec.schedulerName" | "status.phase")
}

/// Checks a reference to a resource of a container.
pub fn resource_ref(reference: &Value, user: User, path: &Path<'_>, errors: &mut Errors) {
    let resource = text(&reference["resource"]);
    let is_hugepages = resource.starts_with("limits.hugepages-") || resource.starts_with("requests.hugepages-");
    if user == User::Volume && text(&reference["containerName"]).is_empty() {
        errors.required(&path.child("containerName"), "");
    } else if resource.is_empty() {
        errors.required(&path.child("resource"), "");
    } else if !RESOURCES.contains(&resource) && !is_hugepages {
        errors.not_supported(&path.child("resource"), resource, &RESOURCES);
    }
    divisor(resource, text(&reference["divisor"]), path, errors);
}

fn divisor(resource: &str, divisor: &str, path: &Path<'_>, errors: &mut Errors) {
    if Quantity::parse(divisor).is_ok_and(Quantity::is_zero) {
        return;
    }
    let (noun, supported) = match resource.split_once('.').map_or("", |(_, name)| name) {
        "cpu" => ("cpu", &["1m", "1"][..]),
        "memory" => ("memory", &SIZES[..]),
        "ephemeral-storage" => ("local ephemeral storage", &SIZES[..]),
        name if name.starts_with("hugepages-") => ("hugepages", &SIZES[..]),
        _ => return,
    };
    if !supported.contains(&divisor) {
        let values = if noun == "cpu" { "1m and 1".to_owned() } else { SIZES.join(", ") };
        let detail = format!("only divisor's values {values} are supported with the {noun} resource");
        errors.invalid(&path.child("divisor"), resource, detail);
    }
}
