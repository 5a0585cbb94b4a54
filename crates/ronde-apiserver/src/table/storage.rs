//! Rows of volumes, claims and storage classes.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    column::{AGE, Column, NAME, text_column, wide_column},
    field::{UNSET, age, cells, flag, is_being_deleted, joined, list, name, quantity, text, text_or},
};

/// Where the class was named before it had a field.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// Marks the default class; the second is the older spelling.
const DEFAULT_CLASS_ANNOTATIONS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

/// The access modes in the order of the cell, with their short names.
const ACCESS_MODES: [(&str, &str); 4] =
    [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];

pub(super) static VOLUME: [Column; 11] = [
    NAME,
    text_column("Capacity", "The size of the volume."),
    text_column("Access Modes", "The ways in which the volume can be mounted."),
    text_column("Reclaim Policy", "What becomes of the volume when its claim is gone."),
    text_column("Status", "Whether the volume is available, bound or released."),
    text_column("Claim", "The claim that the volume is bound to."),
    text_column("StorageClass", "The storage class of the volume."),
    text_column("VolumeAttributesClass", "The volume attributes class of the volume."),
    text_column("Reason", "Why the volume failed, in a word."),
    AGE,
    wide_column("VolumeMode", "Filesystem or Block."),
];

pub(super) fn volume(volume: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&volume["spec"], &volume["status"]);
    let claim = match &spec["claimRef"] {
        Value::Null => String::new(),
        claim => format!("{}/{}", text(&claim["namespace"]), text(&claim["name"])),
    };
    cells![
        name(volume),
        quantity(&spec["capacity"]["storage"]),
        access_modes(&spec["accessModes"]),
        text(&spec["persistentVolumeReclaimPolicy"]),
        phase(volume),
        claim,
        class(volume),
        set_text(&spec["volumeAttributesClassName"]),
        text(&status["reason"]),
        age(volume, now),
        set_text(&spec["volumeMode"]),
    ]
}

pub(super) static CLAIM: [Column; 9] = [
    NAME,
    text_column("Status", "Whether the claim is pending, bound or lost."),
    text_column("Volume", "The volume that the claim is bound to."),
    text_column("Capacity", "The size of the volume behind the claim."),
    text_column("Access Modes", "The ways in which the volume can be mounted."),
    text_column("StorageClass", "The storage class of the claim."),
    text_column("VolumeAttributesClass", "The volume attributes class of the claim."),
    AGE,
    wide_column("VolumeMode", "Filesystem or Block."),
];

pub(super) fn claim(claim: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&claim["spec"], &claim["status"]);
    let volume = text(&spec["volumeName"]);
    let (capacity, modes) = if volume.is_empty() {
        (String::new(), String::new())
    } else {
        (quantity(&status["capacity"]["storage"]), access_modes(&status["accessModes"]))
    };
    cells![
        name(claim),
        phase(claim),
        volume,
        capacity,
        modes,
        class(claim),
        set_text(&spec["volumeAttributesClassName"]),
        age(claim, now),
        set_text(&spec["volumeMode"]),
    ]
}

pub(super) static STORAGE_CLASS: [Column; 6] = [
    NAME,
    text_column("Provisioner", "Who makes volumes of this class."),
    text_column("ReclaimPolicy", "What becomes of a volume when its claim is gone."),
    text_column("VolumeBindingMode", "When volumes are made and bound."),
    text_column("AllowVolumeExpansion", "Whether volumes can grow."),
    AGE,
];

pub(super) fn storage_class(class: &Value, now: Timestamp) -> Vec<Value> {
    let annotations = &class["metadata"]["annotations"];
    let is_default = DEFAULT_CLASS_ANNOTATIONS.iter().any(|key| annotations[*key] == "true");
    let suffix = if is_default { " (default)" } else { "" };
    cells![
        format!("{}{suffix}", name(class)),
        text(&class["provisioner"]),
        text_or(&class["reclaimPolicy"], "Delete"),
        text_or(&class["volumeBindingMode"], "Immediate"),
        flag(&class["allowVolumeExpansion"]),
        age(class, now),
    ]
}

fn phase(object: &Value) -> &str {
    if is_being_deleted(object) { "Terminating" } else { text(&object["status"]["phase"]) }
}

fn class(object: &Value) -> &str {
    let annotation = object["metadata"]["annotations"][CLASS_ANNOTATION].as_str();
    annotation.unwrap_or_else(|| text(&object["spec"]["storageClassName"]))
}

/// An empty text is a value here; only an absent one is unset.
fn set_text(value: &Value) -> &str {
    value.as_str().unwrap_or(UNSET)
}

fn access_modes(modes: &Value) -> String {
    let given = list(modes);
    let short = ACCESS_MODES.iter().filter(|(mode, _)| given.iter().any(|m| m == mode)).map(|(_, short)| *short);
    joined(short, ",")
}
