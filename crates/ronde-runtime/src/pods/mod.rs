//! What the workload controllers know of pods: building one from a template, owning them, reading their state.
//!
//! Everything in this file is pure. Writing pods to the cluster is in [`apply`], who ended a pod in [`disruption`], names from
//! contents in [`hash`], letting go of pods without an owner in [`orphans`], the order in which pods are given up in [`rank`],
//! how one fares in [`state`], what a quota counts in [`quota`], what is wrong with containers in [`trouble`].

pub mod apply;
pub mod backoff;
pub mod disruption;
pub mod hash;
pub mod orphans;
pub mod quota;
pub mod rank;
pub mod resources;
pub mod state;
pub mod trouble;

use std::{collections::BTreeMap, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::core::v1::{Pod, PodCondition, PodTemplateSpec},
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference, Time},
};
use kube::{
    Resource, ResourceExt as _,
    core::{Selector, SelectorExt as _},
};

use self::apply::Owner;
use crate::watch::{Caches, Change, Key};

const NAME_MAX: usize = 253;

/// Returns the reference by which an object controls others.
pub fn controller_ref<K: Resource<DynamicType = ()>>(owner: &K) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: owner.name_any(),
        uid: owner.uid().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// Returns the reference of the owner that controls an object.
pub fn controller_of(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// Builds the pod of a template; its name is for the API server to make up.
pub fn build<K: Resource<DynamicType = ()>>(template: &PodTemplateSpec, owner: &K) -> Pod {
    let meta = template.metadata.clone().unwrap_or_default();
    let prefix = format!("{}-", owner.name_any());
    let prefix = if prefix.len() > NAME_MAX { owner.name_any() } else { prefix };
    Pod {
        metadata: ObjectMeta {
            namespace: owner.namespace(),
            generate_name: Some(prefix),
            labels: meta.labels,
            annotations: meta.annotations,
            finalizers: meta.finalizers,
            owner_references: Some(vec![controller_ref(owner)]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}

/// Tells whether a selector picks these labels; one that cannot be read picks nothing.
pub fn selects(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    Selector::try_from(selector.clone()).is_ok_and(|selector| selector.matches(labels))
}

/// What an owner has to do to have, or not to have, an object that could be its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// It is the owner's already.
    Own,
    /// Nothing controls it, and the owner selects it.
    Adopt,
    /// It is the owner's, which does not select it any more.
    Release,
    /// It is none of the owner's business.
    Ignore,
}

/// Decides whether an owner has, takes or releases an object.
pub fn claim(owner: &ObjectMeta, is_selected: bool, object: &ObjectMeta) -> Claim {
    let is_deleted = owner.deletion_timestamp.is_some();
    match controller_of(object) {
        Some(controller) if owner.uid.as_ref() != Some(&controller.uid) => Claim::Ignore,
        Some(_) if is_selected => Claim::Own,
        Some(_) if is_deleted => Claim::Ignore,
        Some(_) => Claim::Release,
        None if is_selected && !is_deleted && object.deletion_timestamp.is_none() => Claim::Adopt,
        None => Claim::Ignore,
    }
}

/// Returns the owners that a change of something they own concerns: its controller, or all that could adopt it.
pub fn owners_of_change<O: Owner>(
    change: &Change,
    caches: &Caches,
    selector: fn(&O) -> Option<&LabelSelector>,
) -> Vec<Key> {
    let mut keys = change.owners(&O::kind(&()));
    if let Some(orphan) = change.new.as_ref().filter(|mark| mark.owner.is_none()) {
        let owners = caches.list::<O>(Some(&change.key.namespace)).into_iter();
        let could_adopt = |owner: &Arc<O>| selector(owner).is_some_and(|selector| selects(selector, &orphan.labels));
        keys.extend(owners.filter(could_adopt).map(|owner| Key::of(&*owner)));
    }
    keys
}

/// Returns the phase of a pod; one that has just been built has none.
pub fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// Tells whether a pod has ended, and whether it is being deleted or not.
pub fn is_finished(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Tells whether a pod runs or may run, and nobody wants it gone.
pub fn is_active(pod: &Pod) -> bool {
    !is_finished(pod) && !is_deleted(pod)
}

/// Tells whether a pod is being deleted and has not ended yet.
pub fn is_terminating(pod: &Pod) -> bool {
    !is_finished(pod) && is_deleted(pod)
}

/// Tells whether the deletion of a pod has begun.
pub fn is_deleted(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// Returns a condition of a pod.
pub fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a PodCondition> {
    pod.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == kind)
}

/// Tells whether a pod is ready.
pub fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready").is_some_and(|ready| ready.status == "True")
}

/// Returns since when a pod has been ready.
pub fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let ready = condition(pod, "Ready").filter(|ready| ready.status == "True")?;
    ready.last_transition_time.as_ref().map(|time| time.0)
}

/// Tells whether a pod has been ready for long enough.
pub fn is_available(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> bool {
    is_ready(pod) && (min_ready_seconds <= 0 || available_in(pod, min_ready_seconds, now) == Some(SignedDuration::ZERO))
}

/// Returns how long a ready pod still has to be ready to count as available.
pub fn available_in(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> Option<SignedDuration> {
    let left = ready_since(pod)?.duration_since(now) + SignedDuration::from_secs(i64::from(min_ready_seconds));
    Some(left.max(SignedDuration::ZERO))
}

/// Returns when the next of these pods becomes available, if one is ready but not available yet.
pub fn next_available_in<'a>(
    pods: impl IntoIterator<Item = &'a Pod>,
    min_ready_seconds: i32,
    now: Timestamp,
) -> Option<SignedDuration> {
    let waits = pods.into_iter().filter_map(|pod| available_in(pod, min_ready_seconds, now));
    waits.filter(SignedDuration::is_positive).min()
}

/// Returns a time as objects carry it, in whole seconds.
pub fn time(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).expect("the whole seconds of a time are a time"))
}

/// Returns a count as a status carries it: zero is left out.
pub fn count(number: usize) -> Option<i32> {
    i32::try_from(number).ok().filter(|number| *number > 0)
}

#[cfg(test)]
mod tests;
