//! The rules for the volumes of a pod spec.
//!
//! Called by [`super::podspec`]. A volume with a mistake is not known to the containers that mount it, as in the real
//! server. Sources of clouds and storage systems that went away have only their required fields checked.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    claim,
    errors::Errors,
    meta,
    path::Path,
    persistent_volume,
    projection::projected,
    read::{entries, is_true, items, number, text},
};
use crate::{
    names::{is_dns1123_label, is_dns1123_subdomain, is_in_range},
    quantity::Quantity,
};

/// A rule for one source of a volume.
type Rule = fn(&Value, &Path<'_>, &mut Errors);

/// The sources in the order in which they are checked; the second name is the one shown with mistakes inside.
const SOURCES: [(&str, &str, Rule); 30] = [
    ("emptyDir", "emptyDir", empty_dir),
    ("hostPath", "hostPath", host_path),
    ("gitRepo", "gitRepo", git_repo),
    ("gcePersistentDisk", "persistentDisk", |v, p, e| required(v, p, e, &["pdName"])),
    ("awsElasticBlockStore", "awsElasticBlockStore", |v, p, e| required(v, p, e, &["volumeID"])),
    ("secret", "secret", |v, p, e| keyed(v, "secretName", p, e)),
    ("nfs", "nfs", nfs),
    ("iscsi", "iscsi", iscsi),
    ("glusterfs", "glusterfs", |v, p, e| required(v, p, e, &["endpoints", "path"])),
    ("flocker", "flocker", flocker),
    ("persistentVolumeClaim", "persistentVolumeClaim", |v, p, e| required(v, p, e, &["claimName"])),
    ("rbd", "rbd", |v, p, e| required(v, p, e, &["monitors", "image"])),
    ("cinder", "cinder", |v, p, e| required(v, p, e, &["volumeID"])),
    ("cephfs", "cephfs", |v, p, e| required(v, p, e, &["monitors"])),
    ("quobyte", "quobyte", quobyte),
    ("downwardAPI", "downwardAPI", super::projection::downward_api),
    ("fc", "fc", fibre_channel),
    ("flexVolume", "flexVolume", flex_volume),
    ("configMap", "configMap", |v, p, e| keyed(v, "name", p, e)),
    ("azureFile", "azureFile", |v, p, e| required(v, p, e, &["secretName", "shareName"])),
    ("vsphereVolume", "vsphereVolume", |v, p, e| required(v, p, e, &["volumePath"])),
    ("photonPersistentDisk", "photonPersistentDisk", |v, p, e| required(v, p, e, &["pdID"])),
    ("portworxVolume", "portworxVolume", |v, p, e| required(v, p, e, &["volumeID"])),
    ("azureDisk", "azureDisk", azure_disk),
    ("storageos", "storageos", |v, p, e| required(v, p, e, &["volumeName"])),
    ("projected", "projected", projected),
    ("scaleIO", "scaleIO", |v, p, e| required(v, p, e, &["gateway", "system", "volumeName"])),
    ("csi", "csi", csi),
    ("ephemeral", "ephemeral", ephemeral),
    ("image", "image", image),
];

const FILE_MODE_MAX: i64 = 0o777;
const HOST_PATH_TYPES: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

/// Checks the volumes and returns those without mistakes. `pod_name` is empty in templates.
pub fn volumes<'a>(list: &'a Value, pod_name: &str, path: &Path<'_>, errors: &mut Errors) -> Vec<&'a Value> {
    let mut good: Vec<&Value> = Vec::new();
    let created: BTreeSet<String> = items(list)
        .iter()
        .filter(|volume| !pod_name.is_empty() && !volume["ephemeral"].is_null())
        .map(|volume| format!("{pod_name}-{}", text(&volume["name"])))
        .collect();
    for (index, volume) in items(list).iter().enumerate() {
        let at = path.index(index);
        let (name, before) = (text(&volume["name"]), errors.len());
        source(volume, pod_name, &at, errors);
        if name.is_empty() {
            errors.required(&at.child("name"), "");
        } else {
            errors.names(&at.child("name"), name, is_dns1123_label(name));
        }
        if good.iter().any(|other| text(&other["name"]) == name) {
            errors.duplicate(&at.child("name"), name);
        }
        if errors.len() == before {
            good.push(volume);
        }
        let claim = text(&volume["persistentVolumeClaim"]["claimName"]);
        if created.contains(claim) {
            let detail = "must not reference a PVC that gets created for an ephemeral volume";
            errors.invalid(&at.child("persistentVolumeClaim").child("claimName"), claim, detail);
        }
    }
    good
}

fn source(volume: &Value, pod_name: &str, path: &Path<'_>, errors: &mut Errors) {
    let mut has_source = false;
    for (field, shown, rule) in SOURCES {
        let value = &volume[field];
        if value.is_null() {
            continue;
        }
        if has_source {
            errors.forbidden(&path.child(field), "may not specify more than 1 volume type");
            continue;
        }
        has_source = true;
        rule(value, &path.child(shown), errors);
        if field == "ephemeral" {
            created_claim_name(text(&volume["name"]), pod_name, path, errors);
        }
    }
    if !has_source {
        errors.required(path, "must specify a volume type");
    }
}

fn created_claim_name(volume: &str, pod_name: &str, path: &Path<'_>, errors: &mut Errors) {
    if volume.is_empty() || pod_name.is_empty() {
        return;
    }
    let claim = format!("{pod_name}-{volume}");
    for message in is_dns1123_subdomain(&claim) {
        errors.invalid(&path.child("name"), volume, format!("PVC name \"{claim}\": {message}"));
    }
}

/// Checks that fields (text or lists) are there.
pub fn required(value: &Value, path: &Path<'_>, errors: &mut Errors, fields: &[&str]) {
    for field in fields {
        if super::read::is_empty(&value[field]) {
            errors.required(&path.child(field), "");
        }
    }
}

/// Checks the bits of a file mode, which may be left out.
pub fn file_mode(mode: &Value, path: &Path<'_>, errors: &mut Errors) {
    if let Some(mode) = mode.as_i64()
        && !(0..=FILE_MODE_MAX).contains(&mode)
    {
        errors.invalid(path, mode, "must be a number between 0 and 0777 (octal), both inclusive");
    }
}

/// Checks a path that has to stay below where it starts.
pub fn relative_path(target: &str, path: &Path<'_>, errors: &mut Errors) {
    if target.starts_with('/') {
        errors.invalid(path, target, "must be a relative path");
    }
    no_backsteps(target, path, errors);
}

/// Checks the path of a file in a volume: relative, and not hidden by the names that the node uses.
pub fn file_path(target: &str, path: &Path<'_>, errors: &mut Errors) {
    relative_path(target, path, errors);
    if target.starts_with("..") && !target.starts_with("../") {
        errors.invalid(path, target, "must not start with '..'");
    }
}

/// Checks that a path does not lead upwards.
pub fn no_backsteps(target: &str, path: &Path<'_>, errors: &mut Errors) {
    if target.split('/').any(|part| part == "..") {
        errors.invalid(path, target, "must not contain '..'");
    }
}

/// Checks which key goes to which file.
pub fn key_to_path(item: &Value, path: &Path<'_>, errors: &mut Errors) {
    required(item, path, errors, &["key", "path"]);
    file_path(text(&item["path"]), &path.child("path"), errors);
    file_mode(&item["mode"], &path.child("mode"), errors);
}

fn keyed(source: &Value, name: &str, path: &Path<'_>, errors: &mut Errors) {
    required(source, path, errors, &[name]);
    file_mode(&source["defaultMode"], &path.child("defaultMode"), errors);
    let list = path.child("items");
    for (index, item) in items(&source["items"]).iter().enumerate() {
        key_to_path(item, &list.index(index), errors);
    }
}

/// Checks a folder or file of the node.
pub fn host_path(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    let target = text(&source["path"]);
    if target.is_empty() {
        errors.required(&path.child("path"), "");
        return;
    }
    no_backsteps(target, &path.child("path"), errors);
    errors.one_of_optional(&path.child("type"), &source["type"], &HOST_PATH_TYPES);
}

/// Checks a folder of an NFS server.
pub fn nfs(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    required(source, path, errors, &["server", "path"]);
    let target = text(&source["path"]);
    if !target.starts_with('/') {
        errors.invalid(&path.child("path"), target, "must be an absolute path");
    }
}

/// Checks a disk reached by iSCSI.
pub fn iscsi(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    required(source, path, errors, &["targetPortal", "iqn"]);
    let name = text(&source["iqn"]);
    let is_known = ["iqn", "eui", "naa"].iter().any(|start| name.starts_with(start));
    if !name.is_empty() && !is_known {
        errors.invalid(&path.child("iqn"), name, "must be valid format starting with iqn, eui, or naa");
    } else if !name.is_empty() && !is_iscsi_name(name) {
        errors.invalid(&path.child("iqn"), name, "must be valid format");
    }
    let lun = number(&source["lun"]);
    errors.numbers(&path.child("lun"), lun, is_in_range(lun, 0, 255));
    let needs_secret = is_true(&source["chapAuthDiscovery"]) || is_true(&source["chapAuthSession"]);
    if needs_secret && source["secretRef"].is_null() {
        errors.required(&path.child("secretRef"), "");
    }
}

/// Tells whether a name is `iqn.2001-04.com.example:storage`, `eui.` with 16 or `naa.` with 32 letters and digits.
fn is_iscsi_name(name: &str) -> bool {
    let is_word = |word: &str, len: usize| word.len() == len && word.bytes().all(|b| b.is_ascii_alphanumeric());
    let is_date = |date: &str| {
        date.len() == 8
            && date.bytes().enumerate().all(|(at, b)| match at {
                4 => b == b'-',
                7 => b == b'.',
                _ => b.is_ascii_digit(),
            })
    };
    match name.split_at_checked(4) {
        Some(("eui.", rest)) => is_word(rest, 16),
        Some(("naa.", rest)) => is_word(rest, 32),
        Some(("iqn.", rest)) => rest.split_at_checked(8).is_some_and(|(date, rest)| {
            let (host, target) = rest.split_once(':').unwrap_or_default();
            let is_host = !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b));
            let is_target = !target.is_empty() && !target.contains([',', ';', '*', '&', '$', '|']);
            is_date(date) && is_host && is_target && !target.contains(char::is_whitespace)
        }),
        _ => false,
    }
}

/// Checks a disk reached by Fibre Channel.
pub fn fibre_channel(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (names, ids) = (items(&source["targetWWNs"]), items(&source["wwids"]));
    let at = path.child("targetWWNs");
    if names.is_empty() && ids.is_empty() {
        errors.required(&at, "must specify either targetWWNs or wwids, but not both");
    }
    if !names.is_empty() && !ids.is_empty() {
        let detail = "targetWWNs and wwids can not be specified simultaneously";
        errors.invalid(&at, source["targetWWNs"].clone(), detail);
    }
    match source["lun"].as_i64() {
        _ if names.is_empty() => {}
        None => errors.required(&path.child("lun"), "lun is required if targetWWNs is specified"),
        Some(lun) => errors.numbers(&path.child("lun"), lun, is_in_range(lun, 0, 255)),
    }
}

/// Checks a volume of a driver of the kind before CSI.
pub fn flex_volume(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    required(source, path, errors, &["driver"]);
    for (key, _) in entries(&source["options"]) {
        let domain = format!(".{}", key.split('/').next().unwrap_or_default().to_lowercase());
        if domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io") {
            let detail = "kubernetes.io and k8s.io namespaces are reserved";
            errors.invalid(&path.child("options").key(key), key, detail);
        }
    }
}

/// Checks a Flocker dataset.
pub fn flocker(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    let has = |field: &str| !text(&source[field]).is_empty();
    if !has("datasetName") && !has("datasetUUID") {
        errors.required(path, "one of datasetName and datasetUUID is required");
    }
    if has("datasetName") && has("datasetUUID") {
        errors.invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously");
    }
}

/// Checks a Quobyte volume.
pub fn quobyte(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    let registry = text(&source["registry"]);
    let detail = "must be a host:port pair or multiple pairs separated by commas";
    if registry.is_empty() {
        errors.required(&path.child("registry"), detail);
    } else if registry.split(',').any(|pair| !pair.contains(':')) {
        errors.invalid(&path.child("registry"), registry, detail);
    }
    required(source, path, errors, &["volume"]);
}

/// Checks an Azure disk.
pub fn azure_disk(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    required(source, path, errors, &["diskName", "diskURI"]);
    errors.one_of_optional(&path.child("cachingMode"), &source["cachingMode"], &["None", "ReadOnly", "ReadWrite"]);
    errors.one_of_optional(&path.child("kind"), &source["kind"], &["Dedicated", "Managed", "Shared"]);
    let (start, form) = if text(&source["kind"]) == "Managed" {
        let form = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
        ("/subscriptions/", form)
    } else {
        ("https://", "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd")
    };
    let address = text(&source["diskURI"]);
    if !source["kind"].is_null() && !address.starts_with(start) {
        errors.not_supported(&path.child("diskURI"), address, &[form]);
    }
}

fn empty_dir(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    if Quantity::parse(text(&source["sizeLimit"])).is_ok_and(|limit| limit < Quantity::ZERO) {
        errors.forbidden(&path.child("sizeLimit"), "SizeLimit field must be a valid resource quantity");
    }
}

fn git_repo(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    required(source, path, errors, &["repository"]);
    relative_path(text(&source["directory"]), &path.child("directory"), errors);
}

fn csi(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    persistent_volume::csi_driver_name(text(&source["driver"]), &path.child("driver"), errors);
    let secret = &source["nodePublishSecretRef"];
    if !secret.is_null() {
        required(secret, &path.child("nodePublishSecretRef"), errors, &["name"]);
    }
}

fn ephemeral(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    let template = &source["volumeClaimTemplate"];
    let at = path.child("volumeClaimTemplate");
    if template.is_null() {
        errors.required(&at, "");
        return;
    }
    let metadata = at.child("metadata");
    meta::annotations(&template["metadata"]["annotations"], &metadata.child("annotations"), errors);
    meta::labels(&template["metadata"]["labels"], &metadata.child("labels"), errors);
    for (field, _) in entries(&template["metadata"]) {
        if !matches!(field, "annotations" | "labels" | "creationTimestamp") {
            errors.forbidden(&metadata.child(field), "cannot be set");
        }
    }
    claim::claim_spec(&template["spec"], &at.child("spec"), errors);
}

fn image(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    super::containers::pull_policy(&source["pullPolicy"], &path.child("pullPolicy"), errors);
}
