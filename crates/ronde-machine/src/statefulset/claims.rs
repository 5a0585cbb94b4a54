//! The claims of a stateful pod, and what becomes of them when it or its set goes.
//!
//! Pure. A claim that is to go with something has it as its owner; the garbage collector does the rest. Claims that
//! somebody else manages are left alone.

use k8s_openapi::{
    api::{
        apps::v1::StatefulSet,
        core::v1::{PersistentVolumeClaim, Pod},
    },
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{Resource, ResourceExt as _};
use ronde_runtime::pods::controller_ref;

use super::pod::{ordinal, ordinals};

/// When claims are deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Policy {
    with_set: bool,
    with_scaled_pod: bool,
}

impl Policy {
    fn of(set: &StatefulSet) -> Self {
        let policy = set.spec.as_ref().and_then(|spec| spec.persistent_volume_claim_retention_policy.as_ref());
        let is_delete = |when: Option<&String>| when.is_some_and(|when| when == "Delete");
        Self {
            with_set: is_delete(policy.and_then(|policy| policy.when_deleted.as_ref())),
            with_scaled_pod: is_delete(policy.and_then(|policy| policy.when_scaled.as_ref())),
        }
    }
}

/// Returns the name of the claim of an ordinal.
pub fn name(set: &StatefulSet, template: &PersistentVolumeClaim, ordinal: i32) -> String {
    format!("{}-{}-{ordinal}", template.name_any(), set.name_any())
}

/// Builds the claim of an ordinal that the set wants.
pub fn build(set: &StatefulSet, template: &PersistentVolumeClaim, ordinal: i32) -> PersistentVolumeClaim {
    let mut claim = template.clone();
    claim.metadata.name = Some(name(set, template, ordinal));
    claim.metadata.namespace = set.namespace();
    claim.status = None;
    let selected = set.spec.as_ref().and_then(|spec| spec.selector.match_labels.clone());
    claim.labels_mut().extend(selected.into_iter().flatten());
    claim.metadata.owner_references = Policy::of(set).with_set.then(|| vec![controller_ref(set)]);
    claim
}

/// Tells whether a claim is that of an earlier pod of the same name and about to go with it: a new pod must not use it.
pub fn is_stale(set: &StatefulSet, claim: &PersistentVolumeClaim, pod: &str) -> bool {
    let is_of_pod = |owner: &&OwnerReference| owner.api_version == "v1" && owner.kind == "Pod" && owner.name == pod;
    Policy::of(set).with_scaled_pod && claim.owner_references().iter().any(|owner| is_of_pod(&owner))
}

/// Returns a claim with the owners that the policy of the set asks for, if it has others.
pub fn corrected(set: &StatefulSet, pod: &Pod, claim: &PersistentVolumeClaim) -> Option<PersistentVolumeClaim> {
    let owners = claim.owner_references();
    let has_stale =
        owners.iter().any(|owner| refers(owner, set) && !is(owner, set) || refers(owner, pod) && !is(owner, pod));
    if has_stale {
        return None;
    }
    let policy = Policy::of(set);
    let is_ours = |owner: &OwnerReference| refers(owner, set) || refers(owner, pod);
    let mut wanted: Vec<OwnerReference> = owners.iter().filter(|owner| !is_ours(owner)).cloned().collect();
    let has_other = wanted.iter().any(|owner| owner.controller == Some(true));
    if !has_other {
        let is_scaled_down = set
            .spec
            .as_ref()
            .is_none_or(|spec| ordinal(set, &pod.name_any()).is_none_or(|ordinal| !ordinals(spec).contains(&ordinal)));
        if policy.with_scaled_pod && is_scaled_down {
            wanted.push(controller_ref(pod));
        } else if policy.with_set {
            wanted.push(controller_ref(set));
        }
    }
    if wanted == owners {
        return None;
    }
    let mut claim = claim.clone();
    claim.metadata.owner_references = Some(wanted);
    Some(claim)
}

/// Tells whether a reference names an object of this kind and name, perhaps an earlier one.
fn refers<K: Resource<DynamicType = ()>>(owner: &OwnerReference, object: &K) -> bool {
    owner.kind == K::kind(&()) && owner.api_version == K::api_version(&()) && owner.name == object.name_any()
}

fn is<K: Resource<DynamicType = ()>>(owner: &OwnerReference, object: &K) -> bool {
    Some(&owner.uid) == object.meta().uid.as_ref()
}
