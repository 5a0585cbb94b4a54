//! Persistent volumes.
//!
//! The finalizer that protects volumes in use is not added here: the controller that removes it does not run on one
//! machine.

use serde_json::{Value, json};

use super::{
    Rules,
    claim::{VOLUME_MODES, access_modes, amounts_not_negative},
    errors::{Errors, IMMUTABLE},
    meta,
    path::Path,
    pod_defaults,
    read::{changed_fields, default, default_optional, entries, is_empty, items, keep_field, object, text},
    resources, scheduling, volumes,
};
use crate::{
    names::{is_dns1123_label, is_dns1123_subdomain},
    quantity::Quantity,
};

/// What is particular about persistent volumes.
pub const RULES: Rules = Rules {
    namespaced: false,
    default: default_volume,
    prepare_create: |volume, now| {
        if let Some(volume) = volume.as_object_mut() {
            volume.insert("status".to_owned(), json!({"phase": "Pending", "lastPhaseTransitionTime": now}));
        }
    },
    prepare_status: prepare_volume_status,
    validate: validate_volume,
    ..Rules::WITH_STATUS
};

const SPEC: Path<'static> = Path::new("spec");
const DRIVER_NAME_MAX: usize = 63;

/// A rule for one source of a persistent volume.
type Rule = fn(&Value, &Path<'_>, &mut Errors);

/// The sources of persistent volumes in the order in which they are checked; the second name is shown with mistakes.
const SOURCES: [(&str, &str, Rule); 22] = [
    ("hostPath", "hostPath", volumes::host_path),
    ("gcePersistentDisk", "persistentDisk", |v, p, e| volumes::required(v, p, e, &["pdName"])),
    ("awsElasticBlockStore", "awsElasticBlockStore", |v, p, e| volumes::required(v, p, e, &["volumeID"])),
    ("glusterfs", "glusterfs", |v, p, e| volumes::required(v, p, e, &["endpoints", "path"])),
    ("flocker", "flocker", volumes::flocker),
    ("nfs", "nfs", volumes::nfs),
    ("rbd", "rbd", |v, p, e| volumes::required(v, p, e, &["monitors", "image"])),
    ("quobyte", "quobyte", volumes::quobyte),
    ("cephfs", "cephfs", |v, p, e| volumes::required(v, p, e, &["monitors"])),
    ("iscsi", "iscsi", volumes::iscsi),
    ("cinder", "cinder", |v, p, e| volumes::required(v, p, e, &["volumeID"])),
    ("fc", "fc", volumes::fibre_channel),
    ("flexVolume", "flexVolume", volumes::flex_volume),
    ("azureFile", "azureFile", |v, p, e| volumes::required(v, p, e, &["secretName", "shareName"])),
    ("vsphereVolume", "vsphereVolume", |v, p, e| volumes::required(v, p, e, &["volumePath"])),
    ("photonPersistentDisk", "photonPersistentDisk", |v, p, e| volumes::required(v, p, e, &["pdID"])),
    ("portworxVolume", "portworxVolume", |v, p, e| volumes::required(v, p, e, &["volumeID"])),
    ("azureDisk", "azureDisk", volumes::azure_disk),
    ("scaleIO", "scaleIO", |v, p, e| volumes::required(v, p, e, &["gateway", "system", "volumeName"])),
    ("local", "local", local),
    ("storageos", "storageos", |v, p, e| volumes::required(v, p, e, &["volumeName"])),
    ("csi", "csi", csi),
];

fn default_volume(volume: &mut Value) {
    let Some(volume) = volume.as_object_mut() else { return };
    if let Some(spec) = object(volume, "spec") {
        default(spec, "persistentVolumeReclaimPolicy", "Retain");
        default_optional(spec, "volumeMode", "Filesystem");
        spec.get_mut("capacity").map(resources::round_up);
        for (source, value) in spec.iter_mut() {
            let Some(value) = value.as_object_mut() else { continue };
            if source == "hostPath" {
                default_optional(value, "type", "");
            } else {
                pod_defaults::network_volume(source, value);
            }
        }
    }
    if let Some(status) = object(volume, "status") {
        default(status, "phase", "Pending");
    }
}

fn prepare_volume_status(new: &mut Value, old: &Value, now: &str) {
    keep_field(new, old, "spec");
    let field = "lastPhaseTransitionTime";
    let before = &old["status"];
    let Some(status) = new.as_object_mut().and_then(|new| object(new, "status")) else { return };
    let is_same_phase = status.get("phase") == before.get("phase");
    let time = status.get(field).filter(|time| !time.is_null());
    let is_old_time = time.is_none() || time == before.get(field);
    if is_same_phase && time.is_none() {
        if let Some(time) = before.get(field) {
            status.insert(field.to_owned(), time.clone());
        }
    } else if !is_same_phase && is_old_time {
        status.insert(field.to_owned(), now.into());
    }
}

fn validate_volume(volume: &Value, old: Option<&Value>, errors: &mut Errors) {
    let alone = |errors: &mut Errors| {
        meta::created(volume, false, is_dns1123_subdomain, errors);
        meta::standard_finalizers(volume, errors);
        volume_spec(&volume["spec"], errors);
    };
    alone(errors);
    if let Some(old) = old {
        alone(errors);
        volume_changes(&volume["spec"], &old["spec"], errors);
    }
}

fn volume_spec(spec: &Value, errors: &mut Errors) {
    let modes = SPEC.child("accessModes");
    if items(&spec["accessModes"]).is_empty() {
        errors.required(&modes, "");
    }
    access_modes(&spec["accessModes"], &modes, errors);
    capacity(&spec["capacity"], &SPEC.child("capacity"), errors);
    let policies = ["Delete", "Recycle", "Retain"];
    let policy = text(&spec["persistentVolumeReclaimPolicy"]);
    let policy_path = SPEC.child("persistentVolumeReclaimPolicy");
    errors.one_of_optional(&policy_path, &spec["persistentVolumeReclaimPolicy"], &policies);
    node_affinity(&spec["nodeAffinity"], &SPEC.child("nodeAffinity"), errors);
    sources(spec, errors);
    let is_root = text(&spec["hostPath"]["path"]).split('/').all(|part| matches!(part, "" | "."));
    if !spec["hostPath"].is_null() && is_root && policy == "Recycle" {
        errors.forbidden(&policy_path, "may not be 'recycle' for a hostPath mount of '/'");
    }
    let class = text(&spec["storageClassName"]);
    if !class.is_empty() {
        errors.names(&SPEC.child("storageClassName"), class, is_dns1123_subdomain(class));
    }
    errors.one_of_optional(&SPEC.child("volumeMode"), &spec["volumeMode"], &VOLUME_MODES);
}

fn capacity(capacity: &Value, path: &Path<'_>, errors: &mut Errors) {
    if is_empty(capacity) {
        errors.required(path, "");
    }
    if capacity.get("storage").is_none() || capacity.as_object().is_some_and(|list| list.len() > 1) {
        errors.not_supported(path, capacity.clone(), &["storage"]);
    }
    amounts_not_negative(capacity, path, errors);
    for (name, amount) in entries(capacity) {
        if Quantity::parse(text(amount)).is_ok_and(|amount| amount <= Quantity::ZERO) {
            errors.invalid(&path.key(name), amount.clone(), "must be greater than zero");
        }
    }
}

fn node_affinity(affinity: &Value, path: &Path<'_>, errors: &mut Errors) {
    if affinity.is_null() {
        return;
    }
    if affinity["required"].is_null() {
        errors.required(&path.child("required"), "must specify required node constraints");
    } else {
        scheduling::node_selector(&affinity["required"], &path.child("required"), errors);
    }
}

fn sources(spec: &Value, errors: &mut Errors) {
    let mut has_source = false;
    for (field, shown, rule) in SOURCES {
        let value = &spec[field];
        if value.is_null() {
            continue;
        }
        if has_source {
            errors.forbidden(&SPEC.child(field), "may not specify more than 1 volume type");
            continue;
        }
        has_source = true;
        rule(value, &SPEC.child(shown), errors);
        if field == "local" && spec["nodeAffinity"].is_null() {
            errors.required(&SPEC.child("nodeAffinity"), "Local volume requires node affinity");
        }
    }
    if !has_source {
        errors.required(&SPEC, "must specify a volume type");
    }
}

fn local(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    let target = text(&source["path"]);
    if target.is_empty() {
        errors.required(&path.child("path"), "");
    } else {
        volumes::no_backsteps(target, &path.child("path"), errors);
    }
}

fn csi(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    csi_driver_name(text(&source["driver"]), &path.child("driver"), errors);
    volumes::required(source, path, errors, &["volumeHandle"]);
    let secrets =
        ["controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef"];
    for field in secrets.iter().filter(|field| !source[**field].is_null()) {
        let at = path.child(field);
        for (part, rule) in [("name", is_dns1123_subdomain as meta::NameRule), ("namespace", is_dns1123_label)] {
            let value = text(&source[*field][part]);
            if value.is_empty() {
                errors.required(&at.child(part), "");
            } else {
                errors.names(&at.child(part), value, rule(value));
            }
        }
    }
}

/// Checks the name of a storage driver.
pub fn csi_driver_name(name: &str, path: &Path<'_>, errors: &mut Errors) {
    if name.is_empty() {
        errors.required(path, "");
    }
    if name.len() > DRIVER_NAME_MAX {
        errors.too_long(path, DRIVER_NAME_MAX);
    }
    errors.names(path, name, is_dns1123_subdomain(&name.to_lowercase()));
}

fn volume_changes(new: &Value, old: &Value, errors: &mut Errors) {
    let source = |spec: &Value| -> Value {
        let fields = SOURCES.iter().filter_map(|(field, ..)| Some(((*field).to_owned(), spec.get(*field)?.clone())));
        Value::Object(fields.collect())
    };
    let (mut new_source, old_source) = (source(new), source(old));
    let secret = "controllerExpandSecretRef";
    if old["csi"].get(secret).is_none()
        && let Some(csi) = new_source.get_mut("csi").and_then(Value::as_object_mut)
    {
        csi.remove(secret);
    }
    if new_source != old_source {
        let changed = changed_fields(&old_source, &new_source);
        let detail = format!("the source of a volume is immutable after creation (changed: {changed})");
        errors.forbidden(&SPEC.child("persistentvolumesource"), detail);
    }
    errors.immutable(&Path::new("volumeMode"), &new["volumeMode"], &old["volumeMode"]);
    if !old["nodeAffinity"].is_null() && new["nodeAffinity"] != old["nodeAffinity"] {
        let detail = format!("{IMMUTABLE}, except for updating from beta label to GA");
        errors.invalid(&Path::new("nodeAffinity"), new["nodeAffinity"].clone(), detail);
    }
}
