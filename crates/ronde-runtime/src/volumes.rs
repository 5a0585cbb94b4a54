//! Which volume will do for which claim. Pure; shared by the controller of claims and by scheduling, which binds those that
//! wait for a node.

use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolume, PersistentVolumeClaim};
use kube::ResourceExt as _;
use ronde_text::quantity::Quantity;

use crate::pods::selects;

/// The annotation of volumes that a controller, not a user, has given to their claim.
pub const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// Returns the reference by which a volume names its claim.
pub fn reference(claim: &PersistentVolumeClaim) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("PersistentVolumeClaim".to_owned()),
        namespace: claim.namespace(),
        name: claim.metadata.name.clone(),
        uid: claim.uid(),
        resource_version: claim.resource_version(),
        ..ObjectReference::default()
    }
}

/// Tells whether a claim can have a volume: it is free and will do, or is kept for it.
pub fn may_take(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    volume.metadata.deletion_timestamp.is_none() && (is_meant(claim, volume) || is_free(claim, volume))
}

/// Tells whether a volume is kept for a claim, and is large enough.
pub fn is_meant(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    claim_ref(volume).is_some_and(|reference| is_for(reference, claim))
        && capacity(volume) >= requested(claim)
        && same_mode(claim, volume)
}

/// Tells whether a volume is nobody's and will do for a claim.
pub fn is_free(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
    claim_ref(volume).is_none()
        && phase == Some("Available")
        && mismatch(claim, volume).is_none()
        && is_selected(claim, volume)
}

/// Tells why a volume does not do for a claim.
pub fn mismatch(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Option<&'static str> {
    let class = |name: Option<&String>| name.cloned().unwrap_or_default();
    let wanted = claim.spec.as_ref();
    let offered = volume.spec.as_ref();
    let modes = offered.and_then(|spec| spec.access_modes.as_deref()).unwrap_or_default();
    if capacity(volume) < requested(claim) {
        Some("requested PV is too small")
    } else if class(wanted.and_then(|spec| spec.storage_class_name.as_ref()))
        != class(offered.and_then(|spec| spec.storage_class_name.as_ref()))
    {
        Some("storageClassName does not match")
    } else if !same_mode(claim, volume) {
        Some("incompatible volumeMode")
    } else if !wanted.iter().flat_map(|spec| spec.access_modes.iter().flatten()).all(|mode| modes.contains(mode)) {
        Some("incompatible accessMode")
    } else {
        None
    }
}

fn is_selected(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    let selector = claim.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    selector.is_none_or(|selector| selects(selector, volume.labels()))
}

fn same_mode(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    let wanted = claim.spec.as_ref().and_then(|spec| spec.volume_mode.as_ref());
    let offered = volume.spec.as_ref().and_then(|spec| spec.volume_mode.as_ref());
    mode(wanted) == mode(offered)
}

/// Returns a volume mode; what names none is a file system.
pub fn mode(mode: Option<&String>) -> &str {
    mode.map_or("Filesystem", String::as_str)
}

/// Returns how much a claim asks for, as it is written.
pub fn requested_text(claim: &PersistentVolumeClaim) -> Option<&str> {
    let requests = claim.spec.as_ref()?.resources.as_ref()?.requests.as_ref()?;
    requests.get("storage").map(|text| text.0.as_str())
}

fn requested(claim: &PersistentVolumeClaim) -> Quantity {
    requested_text(claim).and_then(|text| Quantity::parse(text).ok()).unwrap_or(Quantity::ZERO)
}

/// Returns how much a volume holds.
pub fn capacity(volume: &PersistentVolume) -> Quantity {
    let text = volume.spec.as_ref().and_then(|spec| spec.capacity.as_ref()?.get("storage"));
    text.and_then(|text| Quantity::parse(&text.0).ok()).unwrap_or(Quantity::ZERO)
}

/// Returns the volume that a claim names; empty if it names none.
pub fn volume_name(claim: &PersistentVolumeClaim) -> &str {
    claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).unwrap_or_default()
}

/// Returns the claim that a volume is kept for.
pub fn claim_ref(volume: &PersistentVolume) -> Option<&ObjectReference> {
    volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref())
}

/// A reference without a uid reserves a volume for a claim to come.
pub fn is_for(reference: &ObjectReference, claim: &PersistentVolumeClaim) -> bool {
    reference.name == claim.metadata.name
        && reference.namespace == claim.metadata.namespace
        && (reference.uid.is_none() || reference.uid == claim.uid())
}
