//! What the group of a plain pod is. Pure.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::Pod,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::{ResourceExt as _, core::DynamicObject};
use ronde_api::{NetworkTopology, PodGroup, PodGroupPhase, PodGroupSpec, PodGroupStatus, names};
use ronde_runtime::pods::{
    controller_of, controller_ref, is_active,
    quota::{texts, times, usage_of},
};

use crate::membership::{Membership, Schedulers, membership};

/// Annotations that begin so are handed down from the owner of a pod to the group.
const INHERITED: &str = "volcano.sh/";

/// Tells whether a pod has to be given a group.
pub fn needs_group(pod: &Pod, schedulers: &Schedulers) -> bool {
    membership(pod, schedulers) == Membership::Unassigned && is_active(pod)
}

/// Returns the name of the group of a pod: pods of one owner share it.
pub fn name(pod: &Pod) -> String {
    let owner = controller_of(&pod.metadata).map(|owner| owner.uid.clone());
    format!("podgroup-{}", owner.or(pod.uid()).unwrap_or_default())
}

/// Builds the group of a pod, with what its owner says about it.
pub fn build(pod: &Pod, owner: Option<&DynamicObject>) -> PodGroup {
    let mut annotations = BTreeMap::new();
    for notes in owner.map(DynamicObject::annotations).into_iter().chain([pod.annotations()]) {
        let inherited = notes.iter().filter(|(key, _)| key.starts_with(INHERITED));
        annotations.extend(inherited.map(|(key, value)| (key.clone(), value.clone())));
    }
    let note = |key: &str| {
        let of_owner = owner.and_then(|owner| owner.annotations().get(key));
        pod.annotations().get(key).or(of_owner).filter(|text| !text.is_empty())
    };
    let min_member = note(names::GROUP_MIN_MEMBER).and_then(|text| text.parse().ok()).filter(|least| *least > 0);
    let min_member = min_member.unwrap_or(1);
    let spec = PodGroupSpec {
        min_member,
        queue: note(names::GROUP_QUEUE).map_or(names::DEFAULT_QUEUE, String::as_str).to_owned(),
        priority_class_name: pod.spec.as_ref().and_then(|spec| spec.priority_class_name.clone()).unwrap_or_default(),
        min_resources: Some(texts(times(&usage_of(pod), min_member))),
        network_topology: topology(note(names::NETWORK_TOPOLOGY_MODE), note(names::NETWORK_TOPOLOGY_HIGHEST_TIER)),
        ..PodGroupSpec::default()
    };
    let metadata = ObjectMeta {
        name: Some(name(pod)),
        namespace: pod.namespace(),
        annotations: Some(annotations).filter(|annotations| !annotations.is_empty()),
        owner_references: Some(vec![group_owner(pod)]),
        ..ObjectMeta::default()
    };
    let status = PodGroupStatus { phase: Some(PodGroupPhase::Pending), ..PodGroupStatus::default() };
    PodGroup { metadata, spec, status: Some(status) }
}

/// The group goes with the owner of the pod, or with the pod.
fn group_owner(pod: &Pod) -> OwnerReference {
    controller_of(&pod.metadata).cloned().unwrap_or_else(|| controller_ref(pod))
}

fn topology(mode: Option<&String>, tier: Option<&String>) -> Option<NetworkTopology> {
    (mode.is_some() || tier.is_some()).then(|| NetworkTopology {
        mode: mode.cloned().unwrap_or_default(),
        highest_tier_allowed: tier.and_then(|tier| tier.parse().ok()),
        ..NetworkTopology::default()
    })
}
