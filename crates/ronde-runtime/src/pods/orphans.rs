//! Lets go of pods that nobody will count any more: their owner has gone, has done with them, or is another of its name.
//!
//! Without this the finalizer of such a pod would keep it for ever, and its name from the next owner.

use std::marker::PhantomData;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use kube::{Resource as _, ResourceExt as _};

use super::{
    apply::{self, Owner},
    controller_of,
};
use crate::{
    runner::{Controller, Ctx},
    watch::{Caches, Change, Key, Kinds},
};

/// A controller whose pods wait to be counted before they go.
pub trait Counts: 'static {
    /// The kind that has the pods.
    type Owner: Owner;
    /// The name of the controller that lets go of its orphans.
    const ORPHANS: &'static str;
    /// What keeps a pod until it is counted.
    const FINALIZER: &'static str;

    /// Tells whether an owner will count no more.
    fn has_done(owner: &Self::Owner) -> bool;
}

/// The controller of pods that an owner of such a controller has left behind.
#[derive(Debug)]
pub struct Orphans<C>(PhantomData<fn() -> C>);

impl<C> Default for Orphans<C> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<C: Counts> Controller for Orphans<C> {
    const NAME: &'static str = C::ORPHANS;

    fn kinds(&self, kinds: &mut Kinds) {
        kinds.add::<C::Owner>().add::<Pod>();
    }

    fn affected(&self, change: &Change, caches: &Caches) -> Vec<Key> {
        if change.is::<Pod>() {
            let pod = caches.get::<Pod>(&change.key);
            pod.filter(|pod| is_orphan::<C>(caches, pod)).map(|_| change.key.clone()).into_iter().collect()
        } else if change.is::<C::Owner>() {
            let pods = change.marks().flat_map(|mark| caches.controlled_by::<Pod>(&mark.uid));
            pods.filter(|pod| is_orphan::<C>(caches, pod)).map(|pod| Key::of(&*pod)).collect()
        } else {
            Vec::new()
        }
    }

    async fn reconcile(&self, ctx: &Ctx, key: &Key) -> Result<Option<SignedDuration>, kube::Error> {
        let pod = ctx.caches.get::<Pod>(key);
        let Some(pod) = pod.filter(|pod| is_orphan::<C>(&ctx.caches, pod)) else { return Ok(None) };
        if is_really_orphan::<C>(ctx, &pod).await? {
            apply::let_go(ctx, &pod, C::FINALIZER).await?;
        }
        Ok(None)
    }
}

fn is_orphan<C: Counts>(caches: &Caches, pod: &Pod) -> bool {
    let is_kept = pod.finalizers().iter().any(|finalizer| finalizer == C::FINALIZER);
    is_kept && owner::<C>(pod).is_none_or(|(key, uid)| is_left::<C>(caches.get::<C::Owner>(&key).as_deref(), &uid))
}

/// Asks the server: the caches of owners and pods may be of different times.
async fn is_really_orphan<C: Counts>(ctx: &Ctx, pod: &Pod) -> Result<bool, kube::Error> {
    let Some((key, uid)) = owner::<C>(pod) else { return Ok(true) };
    let found = apply::api::<C::Owner>(ctx, &key.namespace).get_opt(&key.name).await?;
    Ok(is_left::<C>(found.as_ref(), &uid))
}

fn owner<C: Counts>(pod: &Pod) -> Option<(Key, String)> {
    let owner = controller_of(&pod.metadata)
        .filter(|owner| owner.kind == C::Owner::kind(&()) && owner.api_version == C::Owner::api_version(&()))?;
    Some((Key::new(pod.namespace().unwrap_or_default(), &owner.name), owner.uid.clone()))
}

fn is_left<C: Counts>(found: Option<&C::Owner>, uid: &str) -> bool {
    found.filter(|owner| owner.meta().uid.as_deref() == Some(uid)).is_none_or(C::has_done)
}
