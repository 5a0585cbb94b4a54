//! What is to be done next about a volume. Pure: one step at a time, each a single write.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolume, PersistentVolumeClaim};
use kube::ResourceExt as _;

use ronde_runtime::volumes::BOUND_BY_CONTROLLER;

use super::{PROVISIONED_BY, PROVISIONER, VOLUME_PROTECTION, claim::ClaimEvent};

/// The next write.
#[derive(Debug, PartialEq)]
pub enum Step {
    Nothing,
    /// Write the volume as it is given here.
    Update(Box<PersistentVolume>),
    Phase(&'static str, Option<ClaimEvent>),
    /// Remove the directory, then the volume.
    Delete(PathBuf),
}

/// Decides what is next; `claim` is the one that the volume names, by its name.
pub fn next(volume: &PersistentVolume, claim: Option<&PersistentVolumeClaim>, root: &Path) -> Step {
    let is_protected = volume.finalizers().iter().any(|finalizer| finalizer == VOLUME_PROTECTION);
    if volume.metadata.deletion_timestamp.is_some() {
        let may_go = is_protected && phase(volume) != "Bound";
        return if may_go { unprotect(volume) } else { use_of(volume, claim, root) };
    }
    if !is_protected {
        let mut volume = volume.clone();
        volume.finalizers_mut().push(VOLUME_PROTECTION.to_owned());
        return Step::Update(Box::new(volume));
    }
    use_of(volume, claim, root)
}

/// Returns the claim that a volume names, by namespace and name.
pub fn claim_key(volume: &PersistentVolume) -> Option<(&str, &str)> {
    let reference = claim_ref(volume)?;
    Some((reference.namespace.as_deref()?, reference.name.as_deref()?))
}

fn unprotect(volume: &PersistentVolume) -> Step {
    let mut volume = volume.clone();
    volume.finalizers_mut().retain(|finalizer| finalizer != VOLUME_PROTECTION);
    Step::Update(Box::new(volume))
}

/// Follows the claim of a volume.
fn use_of(volume: &PersistentVolume, claim: Option<&PersistentVolumeClaim>, root: &Path) -> Step {
    let Some(uid) = claim_ref(volume).and_then(|reference| reference.uid.as_ref()) else {
        return set_phase(volume, "Available", None);
    };
    let Some(claim) = claim.filter(|claim| claim.uid().as_ref() == Some(uid)) else {
        return released(volume, root);
    };
    let bound_to = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).unwrap_or_default();
    if bound_to == volume.name_any() {
        set_phase(volume, "Bound", None)
    } else if bound_to.is_empty() {
        // The claim takes it next.
        Step::Nothing
    } else if is_ours(volume) && policy(volume) == "Delete" {
        released(volume, root)
    } else {
        unbind(volume)
    }
}

/// The claim took another volume: this one is free again, or kept for the claim that it was reserved for.
fn unbind(volume: &PersistentVolume) -> Step {
    let mut volume = volume.clone();
    let was_chosen_here = volume.annotations_mut().remove(BOUND_BY_CONTROLLER).is_some();
    let spec = volume.spec.get_or_insert_default();
    spec.claim_ref = spec.claim_ref.take().filter(|_| !was_chosen_here);
    if let Some(reference) = &mut spec.claim_ref {
        (reference.uid, reference.resource_version) = (None, None);
    }
    Step::Update(Box::new(volume))
}

/// The claim is gone: the policy says what becomes of the volume.
fn released(volume: &PersistentVolume, root: &Path) -> Step {
    if !matches!(phase(volume), "Released" | "Failed") {
        return set_phase(volume, "Released", None);
    }
    match policy(volume) {
        "Delete" if is_ours(volume) => match own_directory(volume, root) {
            Some(directory) => Step::Delete(directory),
            None => failed(volume, "VolumeFailedDelete", "the directory is not one of this machine's volumes"),
        },
        "Delete" if volume.annotations().contains_key(PROVISIONED_BY) => Step::Nothing,
        "Delete" => failed(volume, "VolumeFailedDelete", "no deletable volume plugin matched"),
        "Recycle" => failed(volume, "VolumeFailedRecycle", "No recycler plugin found for the volume!"),
        _ => Step::Nothing,
    }
}

fn failed(volume: &PersistentVolume, reason: &'static str, message: &str) -> Step {
    set_phase(volume, "Failed", Some(ClaimEvent { is_warning: true, reason, message: message.to_owned() }))
}

fn set_phase(volume: &PersistentVolume, wanted: &'static str, tell: Option<ClaimEvent>) -> Step {
    if phase(volume) == wanted { Step::Nothing } else { Step::Phase(wanted, tell) }
}

/// Returns the directory of a volume if it is where such directories are made: nothing else is ever removed.
fn own_directory(volume: &PersistentVolume, root: &Path) -> Option<PathBuf> {
    let path = &volume.spec.as_ref()?.host_path.as_ref()?.path;
    let expected = root.join(volume.metadata.name.as_ref()?);
    (Path::new(path) == expected).then_some(expected)
}

fn is_ours(volume: &PersistentVolume) -> bool {
    volume.annotations().get(PROVISIONED_BY).is_some_and(|provisioner| provisioner == PROVISIONER)
}

fn policy(volume: &PersistentVolume) -> &str {
    let policy = volume.spec.as_ref().and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
    policy.unwrap_or("Retain")
}

fn phase(volume: &PersistentVolume) -> &str {
    volume.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

fn claim_ref(volume: &PersistentVolume) -> Option<&ObjectReference> {
    volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref())
}
