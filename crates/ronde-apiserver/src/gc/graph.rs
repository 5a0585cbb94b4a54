//! Who owns whom, and what follows from it: the pure core of the garbage collector.
//!
//! The loop in `gc` tells the graph what the store holds ([`Graph::observe`]) and carries out what it asks for
//! ([`Graph::next_actions`]). The graph remembers nothing but the newest state, so a loop that dies between any two
//! actions loses nothing: a graph built from a fresh listing asks for the rest. It must have seen the whole listing
//! before it is asked, because an owner that is not there counts as gone.
//!
//! The rules are those of Kubernetes. An object all of whose owners are gone is deleted; if one owner lives, only the
//! references to the others go. An owner deleted in the foreground waits for the dependents that block it, an owner
//! that is to orphan its dependents waits until none refers to it. An owner is looked up by kind, namespace and name,
//! and must have the uid as well; a reference that cannot be looked up (unknown kind, or a namespaced owner of a
//! cluster-scoped object) makes the collector leave the object alone.
//!
//! Two objects that own and block each other, both deleted in the foreground, wait for ever, as in Kubernetes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    store::{Key, Owner, Revision},
    verbs::{
        delete::Propagation,
        meta::{FOREGROUND, ORPHAN},
    },
};

#[cfg(test)]
mod tests;

/// Events have owners only by accident, and there are many of them; the real collector does not look at them either.
const UNCOLLECTED: &str = "events";

pub type Uid = Arc<str>;

/// A change in the store.
#[derive(Debug, Clone)]
pub enum Event {
    /// An object was added or changed, or stood in the listing.
    Present(Object),
    Gone(Uid),
}

/// What the collector looks at in an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    pub key: Key,
    pub uid: Uid,
    pub revision: Revision,
    pub owners: Vec<Owner>,
    /// It has a `deletionTimestamp`.
    pub is_deleting: bool,
    /// It has the finalizer [`FOREGROUND`].
    pub has_foreground: bool,
    /// It has the finalizer [`ORPHAN`].
    pub has_orphan: bool,
}

/// Where the objects of a kind are found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    pub collection: Arc<str>,
    pub is_namespaced: bool,
}

/// Something to be done to one object. Nothing is to be done if the object with this key has another uid by now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Action {
    pub key: Key,
    pub uid: Uid,
    pub step: Step,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Delete it, unless it has changed since `revision`: it may have got an owner in the meantime.
    Delete { revision: Revision, propagation: Propagation },
    /// Remove the references to these owners.
    RemoveOwnerReferences(BTreeSet<Uid>),
    /// Set `blockOwnerDeletion` to false in all references, so that a circle of owners can be deleted.
    UnblockOwners,
    /// Remove [`FOREGROUND`] or [`ORPHAN`].
    RemoveFinalizer(&'static str),
}

/// The owners and dependents of all objects.
#[derive(Debug, Default)]
pub struct Graph {
    nodes: BTreeMap<Uid, Node>,
    /// By `apiVersion` and `kind`. Never forgotten: objects may outlive the definition of their owner's kind.
    kinds: BTreeMap<Arc<str>, BTreeMap<Arc<str>, Kind>>,
    /// What may have something else to do than at the last look.
    dirty: BTreeSet<Uid>,
    pending: BTreeMap<Uid, Action>,
    /// Objects that are left alone because an owner's kind is not known.
    undecided: BTreeSet<Uid>,
}

#[derive(Debug, Default)]
struct Node {
    /// None for an owner that others refer to but that does not exist.
    object: Option<Object>,
    /// With whether they block the deletion of this one.
    dependents: BTreeMap<Uid, bool>,
    /// The number of dependents that do.
    blocking: usize,
}

/// What an owner is to its dependents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// It keeps them alive.
    Solid,
    /// It is being deleted and takes them with it.
    Waiting,
    /// It is being deleted and lets go of them.
    Orphaning,
}

/// The owners of an object, sorted by what they are to it.
#[derive(Debug, Default)]
struct Owners {
    solid: BTreeSet<Uid>,
    gone: BTreeSet<Uid>,
    waiting: BTreeSet<Uid>,
    orphaning: BTreeSet<Uid>,
    has_undecidable: bool,
}

impl Graph {
    /// Tells what the objects of a kind are called in owner references; more often than once does no harm.
    pub fn learn_kind(&mut self, api_version: &str, kind: &str, found: Kind) {
        let known = self.kinds.get(api_version).and_then(|kinds| kinds.get(kind));
        if known != Some(&found) {
            self.kinds.entry(api_version.into()).or_default().insert(kind.into(), found);
            self.dirty.append(&mut self.undecided);
        }
    }

    /// Takes note of a change in the store. Costs as much as the object has owners, and dependents if it came to them.
    pub fn observe(&mut self, event: Event) {
        match event {
            Event::Present(object) => self.put(object),
            Event::Gone(uid) => self.remove(&uid),
        }
    }

    /// Returns all that is to be done now, in the order of the uids, at most one action for an object.
    ///
    /// What was not carried out, or not observed yet, is asked for again: carry out all before asking anew.
    pub fn next_actions(&mut self) -> Vec<Action> {
        self.refresh();
        self.pending.values().cloned().collect()
    }

    fn refresh(&mut self) {
        while let Some(uid) = self.dirty.pop_first() {
            self.look_at(&uid);
        }
    }

    fn put(&mut self, mut object: Object) {
        if &*object.key.collection == UNCOLLECTED {
            object.owners.clear();
        }
        let uid = object.uid.clone();
        let old = self.nodes.get_mut(&uid).and_then(|node| node.object.take());
        let old_owners = old.as_ref().map_or(&[][..], |old| &old.owners);
        if old_owners != object.owners {
            self.unlink(&uid, old_owners);
            self.link(&uid, &object.owners);
        }
        if old.as_ref().map(Object::role) != Some(object.role()) {
            self.role_changed(&uid);
            // Owners look at their dependents to find circles.
            self.dirty.extend(object.owners.iter().map(|owner| owner.uid.clone()));
        }
        self.nodes.entry(uid.clone()).or_default().object = Some(object);
        self.dirty.insert(uid);
    }

    fn remove(&mut self, uid: &Uid) {
        let Some(old) = self.nodes.get_mut(uid).and_then(|node| node.object.take()) else { return };
        self.role_changed(uid);
        self.unlink(uid, &old.owners);
        self.forget_if_unused(uid);
        self.dirty.insert(uid.clone());
    }

    fn role_changed(&mut self, uid: &Uid) {
        if let Some(node) = self.nodes.get(uid) {
            self.dirty.extend(node.dependents.keys().cloned());
        }
    }

    fn link(&mut self, uid: &Uid, owners: &[Owner]) {
        for owner in owners {
            let node = self.nodes.entry(owner.uid.clone()).or_default();
            let blocks = node.dependents.entry(uid.clone()).or_default();
            // One object may refer to an owner twice.
            if owner.blocks && !*blocks {
                *blocks = true;
                node.blocking += 1;
            }
            self.dirty.insert(owner.uid.clone());
        }
    }

    fn unlink(&mut self, uid: &Uid, owners: &[Owner]) {
        for owner in owners {
            let Some(node) = self.nodes.get_mut(&owner.uid) else { continue };
            if node.dependents.remove(uid) == Some(true) {
                node.blocking -= 1;
            }
            self.forget_if_unused(&owner.uid);
            self.dirty.insert(owner.uid.clone());
        }
    }

    fn forget_if_unused(&mut self, uid: &Uid) {
        if self.nodes.get(uid).is_some_and(|node| node.object.is_none() && node.dependents.is_empty()) {
            self.nodes.remove(uid);
        }
    }

    fn look_at(&mut self, uid: &Uid) {
        self.pending.remove(uid);
        self.undecided.remove(uid);
        let Some(Node { object: Some(object), .. }) = self.nodes.get(uid) else { return };
        let owners = self.owners_of(object);
        if owners.has_undecidable {
            self.undecided.insert(uid.clone());
        }
        if let Some(step) = self.step(object, owners) {
            let action = Action { key: object.key.clone(), uid: uid.clone(), step };
            self.pending.insert(uid.clone(), action);
        }
    }

    fn owners_of(&self, object: &Object) -> Owners {
        let mut owners = Owners::default();
        for reference in &object.owners {
            let uid = reference.uid.clone();
            let owner = self.nodes.get(&uid).and_then(|node| node.object.as_ref());
            match (owner.map(Object::role), self.refers_to(object, reference, owner)) {
                // Whatever else is wrong with the reference: the owner cannot go before it is removed.
                (Some(Role::Orphaning), _) => drop(owners.orphaning.insert(uid)),
                (_, None) => owners.has_undecidable = true,
                (None, _) | (_, Some(false)) => drop(owners.gone.insert(uid)),
                (Some(Role::Waiting), _) => drop(owners.waiting.insert(uid)),
                (Some(Role::Solid), _) => drop(owners.solid.insert(uid)),
            }
        }
        owners
    }

    /// Whether the owner is where the reference looks for it; none if there is no telling where that is.
    fn refers_to(&self, object: &Object, reference: &Owner, owner: Option<&Object>) -> Option<bool> {
        let kind = self.kinds.get(&reference.api_version)?.get(&reference.kind)?;
        let namespace: &str = match (kind.is_namespaced, &*object.key.place.namespace) {
            (true, "") => return None,
            (true, namespace) => namespace,
            (false, _) => "",
        };
        Some(owner.is_some_and(|owner| {
            owner.key.collection == kind.collection
                && &*owner.key.place.namespace == namespace
                && owner.key.place.name == reference.name
        }))
    }

    fn step(&self, object: &Object, owners: Owners) -> Option<Step> {
        let mut removed = owners.orphaning;
        let is_kept = !owners.solid.is_empty() || !removed.is_empty();
        if is_kept && !object.is_deleting && !owners.has_undecidable {
            // Owners that wait for their dependents would wait for this one, which stays. A second, wrong reference to
            // a living owner cannot be removed alone, because references go by uid.
            let idle = owners.gone.iter().chain(&owners.waiting).filter(|uid| !owners.solid.contains(*uid));
            removed.extend(idle.cloned());
        }
        if !removed.is_empty() {
            return Some(Step::RemoveOwnerReferences(removed));
        }
        if object.is_deleting {
            return self.finalize(object).map(Step::RemoveFinalizer);
        }
        if is_kept || object.owners.is_empty() || owners.has_undecidable {
            return None;
        }
        Some(self.collect(object, !owners.waiting.is_empty()))
    }

    /// The finalizer that an object being deleted no longer needs.
    fn finalize(&self, object: &Object) -> Option<&'static str> {
        let node = self.nodes.get(&object.uid)?;
        match object.role() {
            Role::Orphaning if node.dependents.is_empty() => Some(ORPHAN),
            Role::Waiting if node.blocking == 0 => Some(FOREGROUND),
            _ => None,
        }
    }

    /// How an object without a living owner goes.
    fn collect(&self, object: &Object, an_owner_waits: bool) -> Step {
        let delete = |propagation| Step::Delete { revision: object.revision, propagation };
        let has_dependents = self.nodes.get(&object.uid).is_some_and(|node| !node.dependents.is_empty());
        if an_owner_waits && has_dependents {
            return if self.may_be_in_a_circle(object) { Step::UnblockOwners } else { delete(Propagation::Foreground) };
        }
        delete(match object {
            Object { has_orphan: true, .. } => Propagation::Orphan,
            Object { has_foreground: true, .. } => Propagation::Foreground,
            _ => Propagation::Background,
        })
    }

    /// Whether it blocks an owner while a dependent of its own waits already, maybe for the same circle to open.
    fn may_be_in_a_circle(&self, object: &Object) -> bool {
        let waits = |uid: &Uid| {
            let dependent = self.nodes.get(uid).and_then(|node| node.object.as_ref());
            dependent.is_some_and(|dependent| dependent.role() == Role::Waiting)
        };
        object.owners.iter().any(|owner| owner.blocks)
            && self.nodes.get(&object.uid).is_some_and(|node| node.dependents.keys().any(waits))
    }
}

impl Object {
    fn role(&self) -> Role {
        match (self.is_deleting, self.has_orphan, self.has_foreground) {
            (true, true, _) => Role::Orphaning,
            (true, false, true) => Role::Waiting,
            _ => Role::Solid,
        }
    }
}
