//! What the scheduler has to look at again because something has changed.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::api::{
    core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod},
    policy::v1::PodDisruptionBudget,
    scheduling::v1::PriorityClass,
    storage::v1::StorageClass,
};
use ronde_api::{HyperNode, PodGroup, Queue};
use ronde_runtime::watch::{Cached, Caches, Change, Key, Kinds};

use super::objects::volumes::claim_names;

/// An object that is new, different or gone; they are told in this order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mark {
    Namespace(Key),
    Node(Key),
    /// All parts of the network: their members are found by patterns.
    HyperNodes,
    Queue(Key),
    Group(Key),
    Budget(Key),
    Pod(Key),
    /// All pods whose claims may take any of several volumes.
    Choosing,
}

/// Names the kinds that marks are made of.
pub fn kinds(kinds: &mut Kinds) {
    kinds.add::<Namespace>().add::<Node>().add::<HyperNode>().add::<Queue>().add::<PodGroup>().add::<Pod>();
    kinds.add::<PriorityClass>().add::<PodDisruptionBudget>();
    kinds.add::<PersistentVolumeClaim>().add::<PersistentVolume>().add::<StorageClass>();
}

/// Returns the marks of a change.
pub fn marks_of(change: &Change, caches: &Caches) -> Vec<Mark> {
    let key = change.key.clone();
    if change.is::<Pod>() {
        vec![Mark::Pod(key)]
    } else if change.is::<PodGroup>() {
        vec![Mark::Group(key)]
    } else if change.is::<Node>() {
        let [old, new] = [&change.old, &change.new].map(|mark| mark.as_ref().map(|mark| &mark.labels));
        if old == new { vec![Mark::Node(key)] } else { vec![Mark::Node(key), Mark::HyperNodes] }
    } else if change.is::<Queue>() {
        vec![Mark::Queue(key)]
    } else if change.is::<Namespace>() {
        vec![Mark::Namespace(key)]
    } else if change.is::<HyperNode>() {
        // Groups may name tiers by names that parts of the network give them.
        std::iter::once(Mark::HyperNodes).chain(all_of::<PodGroup>(caches).map(Mark::Group)).collect()
    } else if change.is::<PriorityClass>() {
        all_of::<PodGroup>(caches).map(Mark::Group).collect()
    } else if change.is::<PersistentVolumeClaim>() {
        users(caches, &key)
    } else if change.is::<PersistentVolume>() {
        let volume = caches.get::<PersistentVolume>(&key);
        let claim = volume.and_then(|volume| volume.spec.as_ref()?.claim_ref.clone());
        let claim = claim.map(|claim| Key::new(claim.namespace.unwrap_or_default(), claim.name.unwrap_or_default()));
        let mut marks = claim.map(|claim| users(caches, &claim)).unwrap_or_default();
        marks.push(Mark::Choosing);
        marks
    } else if change.is::<PodDisruptionBudget>() {
        vec![Mark::Budget(key)]
    } else {
        let pods = caches.list::<Pod>(None).into_iter();
        pods.filter(|pod| !claim_names(pod).is_empty()).map(|pod| Mark::Pod(Key::of(&*pod))).collect()
    }
}

/// Returns the marks of everything.
pub fn all(caches: &Caches) -> BTreeSet<Mark> {
    let mut marks: BTreeSet<Mark> = all_of::<Namespace>(caches).map(Mark::Namespace).collect();
    marks.extend(all_of::<Node>(caches).map(Mark::Node));
    marks.extend(all_of::<Queue>(caches).map(Mark::Queue));
    marks.extend(all_of::<PodGroup>(caches).map(Mark::Group));
    marks.extend(all_of::<PodDisruptionBudget>(caches).map(Mark::Budget));
    marks.extend(all_of::<Pod>(caches).map(Mark::Pod));
    marks.insert(Mark::HyperNodes);
    marks
}

fn all_of<K: Cached>(caches: &Caches) -> impl Iterator<Item = Key> + use<K> {
    caches.list::<K>(None).into_iter().map(|object| Key::of(&*object))
}

/// Returns the pods that use a claim.
fn users(caches: &Caches, claim: &Key) -> Vec<Mark> {
    let pods = caches.list::<Pod>(Some(&claim.namespace)).into_iter();
    let uses = |pod: &Arc<Pod>| claim_names(pod).contains(&claim.name);
    pods.filter(uses).map(|pod| Mark::Pod(Key::of(&*pod))).collect()
}
