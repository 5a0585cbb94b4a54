//! What is to be done next about a claim. Pure: one step at a time, each a single write.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use k8s_openapi::{
    api::{
        core::v1::{
            HostPathVolumeSource, PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimStatus,
            PersistentVolumeSpec,
        },
        storage::v1::StorageClass,
    },
    apimachinery::pkg::{api::resource::Quantity as Text, apis::meta::v1::ObjectMeta},
};
use kube::ResourceExt as _;
use ronde_runtime::volumes::{
    BOUND_BY_CONTROLLER, capacity, claim_ref, is_for, is_free, is_meant, mismatch, mode, reference, requested_text,
    volume_name,
};

use super::{BIND_COMPLETED, CLAIM_PROTECTION, PROVISIONED_BY, PROVISIONER, VOLUME_PROTECTION};

const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

/// What is known when a claim is looked at.
pub struct Observed<'a> {
    pub claim: &'a PersistentVolumeClaim,
    pub volumes: &'a [Arc<PersistentVolume>],
    pub classes: &'a [Arc<StorageClass>],
    /// Whether a pod uses it.
    pub is_used: bool,
    /// Where the directories of volumes are made.
    pub root: &'a Path,
}

/// Something to tell about a claim or a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimEvent {
    pub is_warning: bool,
    pub reason: &'static str,
    pub message: String,
}

/// The next write.
#[derive(Debug, PartialEq)]
pub enum Step {
    Nothing,
    /// Write the claim as it is given here.
    Update(Box<PersistentVolumeClaim>),
    /// Write the status, and tell why if it changes.
    Status(Box<PersistentVolumeClaimStatus>, Option<ClaimEvent>),
    /// It stays pending.
    Wait(Option<ClaimEvent>),
    /// Write the volume, which gets this claim.
    BindVolume(Box<PersistentVolume>),
    Provision(Box<PersistentVolume>),
}

/// Decides what is next.
pub fn next(observed: &Observed<'_>) -> Step {
    let claim = observed.claim;
    let is_protected = claim.finalizers().iter().any(|finalizer| finalizer == CLAIM_PROTECTION);
    if claim.metadata.deletion_timestamp.is_some() {
        let may_go = is_protected && !observed.is_used;
        return if may_go { unprotect(claim) } else { Step::Nothing };
    }
    if !is_protected {
        let mut claim = claim.clone();
        claim.finalizers_mut().push(CLAIM_PROTECTION.to_owned());
        return Step::Update(Box::new(claim));
    }
    if claim.annotations().contains_key(BIND_COMPLETED) { bound(observed) } else { unbound(observed) }
}

fn unprotect(claim: &PersistentVolumeClaim) -> Step {
    let mut claim = claim.clone();
    claim.finalizers_mut().retain(|finalizer| finalizer != CLAIM_PROTECTION);
    Step::Update(Box::new(claim))
}

fn bound(observed: &Observed<'_>) -> Step {
    let claim = observed.claim;
    let name = volume_name(claim);
    if name.is_empty() {
        let message = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!";
        return lost(claim, "ClaimLost", message);
    }
    let Some(volume) = observed.volumes.iter().find(|volume| volume.name_any() == name) else {
        return lost(claim, "ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!");
    };
    match claim_ref(volume) {
        None => bind_volume(claim, volume),
        Some(reference) if reference.uid == claim.uid() => bound_status(claim, volume),
        Some(_) => {
            let message = "Two claims are bound to the same volume, this one is bound incorrectly";
            lost(claim, "ClaimMisbound", message)
        }
    }
}

fn lost(claim: &PersistentVolumeClaim, reason: &'static str, message: &str) -> Step {
    let status = PersistentVolumeClaimStatus { phase: Some("Lost".to_owned()), ..Default::default() };
    set_status(claim, status, Some(ClaimEvent { is_warning: true, reason, message: message.to_owned() }))
}

fn bound_status(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Step {
    let spec = volume.spec.as_ref();
    let status = PersistentVolumeClaimStatus {
        phase: Some("Bound".to_owned()),
        access_modes: spec.and_then(|spec| spec.access_modes.clone()),
        capacity: spec.and_then(|spec| spec.capacity.clone()),
        ..claim.status.clone().unwrap_or_default()
    };
    set_status(claim, status, None)
}

fn set_status(claim: &PersistentVolumeClaim, status: PersistentVolumeClaimStatus, tell: Option<ClaimEvent>) -> Step {
    let phase = claim.status.as_ref().and_then(|status| status.phase.as_ref());
    let is_same = claim.status.as_ref() == Some(&status);
    let tell = tell.filter(|_| phase != status.phase.as_ref());
    if is_same { Step::Nothing } else { Step::Status(Box::new(status), tell) }
}

fn unbound(observed: &Observed<'_>) -> Step {
    let claim = observed.claim;
    let name = volume_name(claim);
    if name.is_empty() {
        return match best_match(claim, observed.volumes) {
            Some(volume) => bind(claim, volume),
            None => without_volume(observed),
        };
    }
    let Some(volume) = observed.volumes.iter().find(|volume| volume.name_any() == name) else {
        return Step::Wait(None);
    };
    if claim_ref(volume).is_some_and(|reference| !is_for(reference, claim)) {
        return wait(true, "FailedBinding", format!("volume {name:?} already bound to a different claim."));
    }
    match mismatch(claim, volume).filter(|_| claim_ref(volume).is_none()) {
        Some(why) => wait(true, "VolumeMismatch", format!("Cannot bind to requested volume {name:?}: {why}")),
        None => bind(claim, volume),
    }
}

fn wait(is_warning: bool, reason: &'static str, message: String) -> Step {
    Step::Wait(Some(ClaimEvent { is_warning, reason, message }))
}

fn bind(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Step {
    if claim_ref(volume).and_then(|reference| reference.uid.as_ref()).is_none() {
        return bind_volume(claim, volume);
    }
    let mut claim = claim.clone();
    let mut marks = vec![BIND_COMPLETED];
    if volume_name(&claim).is_empty() {
        marks.push(BOUND_BY_CONTROLLER);
    }
    claim.spec.get_or_insert_default().volume_name.clone_from(&volume.metadata.name);
    claim.annotations_mut().extend(marks.into_iter().map(|mark| (mark.to_owned(), "yes".to_owned())));
    Step::Update(Box::new(claim))
}

fn bind_volume(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Step {
    let mut volume = volume.clone();
    if claim_ref(&volume).is_none() {
        volume.annotations_mut().insert(BOUND_BY_CONTROLLER.to_owned(), "yes".to_owned());
    }
    volume.spec.get_or_insert_default().claim_ref = Some(reference(claim));
    Step::BindVolume(Box::new(volume))
}

/// No volume is there: a class may say who makes one.
fn without_volume(observed: &Observed<'_>) -> Step {
    let claim = observed.claim;
    let Some(name) = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref()) else {
        return match default_class(observed.classes) {
            Some(class) => {
                let mut claim = claim.clone();
                claim.spec.get_or_insert_default().storage_class_name.clone_from(&class.metadata.name);
                Step::Update(Box::new(claim))
            }
            None => no_class(),
        };
    };
    if name.is_empty() {
        return no_class();
    }
    let Some(class) = observed.classes.iter().find(|class| class.name_any() == name) else {
        return wait(true, "ProvisioningFailed", format!("storageclass.storage.k8s.io {name:?} not found"));
    };
    if class.provisioner != PROVISIONER {
        let message = format!(
            "Waiting for a volume to be created either by the external provisioner '{}' or manually by the system \
             administrator. If volume creation is delayed, please verify that the provisioner is running and \
             correctly registered.",
            class.provisioner
        );
        return wait(false, "ExternalProvisioning", message);
    }
    if claim.spec.as_ref().is_some_and(|spec| spec.selector.is_some()) {
        let message = format!("claim.Spec.Selector is not supported for dynamic provisioning on {PROVISIONER:?}");
        return wait(true, "ProvisioningFailed", message);
    }
    if mode(claim.spec.as_ref().and_then(|spec| spec.volume_mode.as_ref())) != "Filesystem" {
        let message = format!("{PROVISIONER} does not support block volume provisioning");
        return wait(true, "ProvisioningFailed", message);
    }
    Step::Provision(Box::new(provision(claim, class, observed.root)))
}

fn no_class() -> Step {
    let message = "no persistent volumes available for this claim and no storage class is set";
    wait(false, "FailedBinding", message.to_owned())
}

/// The newest of those that say they are the default.
fn default_class(classes: &[Arc<StorageClass>]) -> Option<&Arc<StorageClass>> {
    let is_default = |class: &&Arc<StorageClass>| class.annotations().get(DEFAULT_CLASS).is_some_and(|v| v == "true");
    classes
        .iter()
        .filter(is_default)
        .max_by_key(|class| (class.creation_timestamp(), std::cmp::Reverse(class.name_any())))
}

fn provision(claim: &PersistentVolumeClaim, class: &StorageClass, root: &Path) -> PersistentVolume {
    let name = format!("pvc-{}", claim.uid().unwrap_or_default());
    let path = root.join(&name).to_string_lossy().into_owned();
    let storage = Text(requested_text(claim).unwrap_or("0").to_owned());
    PersistentVolume {
        spec: Some(PersistentVolumeSpec {
            access_modes: claim.spec.as_ref().and_then(|spec| spec.access_modes.clone()),
            capacity: Some(BTreeMap::from([("storage".to_owned(), storage)])),
            claim_ref: Some(reference(claim)),
            host_path: Some(HostPathVolumeSource { path, type_: Some("DirectoryOrCreate".to_owned()) }),
            persistent_volume_reclaim_policy: class.reclaim_policy.clone().or_else(|| Some("Delete".to_owned())),
            storage_class_name: class.metadata.name.clone(),
            volume_mode: Some("Filesystem".to_owned()),
            ..PersistentVolumeSpec::default()
        }),
        metadata: ObjectMeta {
            name: Some(name),
            annotations: Some(BTreeMap::from([(PROVISIONED_BY.to_owned(), PROVISIONER.to_owned())])),
            finalizers: Some(vec![VOLUME_PROTECTION.to_owned()]),
            ..ObjectMeta::default()
        },
        status: None,
    }
}

/// Returns the volume that is meant for a claim, or else the smallest free one that will do.
fn best_match<'a>(
    claim: &PersistentVolumeClaim,
    volumes: &'a [Arc<PersistentVolume>],
) -> Option<&'a Arc<PersistentVolume>> {
    let present = || volumes.iter().filter(|volume| volume.metadata.deletion_timestamp.is_none());
    let free = || present().filter(|volume| is_free(claim, volume));
    present()
        .find(|volume| is_meant(claim, volume))
        .or_else(|| free().min_by_key(|volume| (capacity(volume), volume.name_any())))
}
