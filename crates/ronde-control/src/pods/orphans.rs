//! Lets go of pods that nobody will count any more: their owner has gone, has done with them, or is another of its name.
//!
//! Without this the finalizer of such a pod would keep it for ever, and its name from the next owner.

use std::marker::PhantomData;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

use super::{
    act::{self, Owner},
    controller_of,
};
use crate::{
    runner::{Controller, Ctx},
    watch::{Caches, Change, Key, Kinds},
};

/// A kind whose pods wait to be counted before they go.
pub trait Counts: Owner {
    /// The name of the controller that lets go of its orphans.
    const ORPHANS: &'static str;
    /// What keeps a pod until it is counted.
    const FINALIZER: &'static str;

    /// Tells whether it will count no more.
    fn has_done(&self) -> bool;
}

/// The controller of pods that such an owner has left behind.
#[derive(Debug)]
pub struct Orphans<O>(PhantomData<fn() -> O>);

impl<O> Default for Orphans<O> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<O: Counts> Controller for Orphans<O> {
    const NAME: &'static str = O::ORPHANS;

    fn kinds(&self, kinds: &mut Kinds) {
        kinds.add::<O>().add::<Pod>();
    }

    fn affected(&self, change: &Change, caches: &Caches) -> Vec<Key> {
        if change.is::<Pod>() {
            let pod = caches.get::<Pod>(&change.key);
            pod.filter(|pod| is_orphan::<O>(caches, pod)).map(|_| change.key.clone()).into_iter().collect()
        } else if change.is::<O>() {
            let pods = change.marks().flat_map(|mark| caches.controlled_by::<Pod>(&mark.uid));
            pods.filter(|pod| is_orphan::<O>(caches, pod)).map(|pod| Key::of(&*pod)).collect()
        } else {
            Vec::new()
        }
    }

    async fn reconcile(&self, ctx: &Ctx, key: &Key) -> Result<Option<SignedDuration>, kube::Error> {
        let pod = ctx.caches.get::<Pod>(key);
        let Some(pod) = pod.filter(|pod| is_orphan::<O>(&ctx.caches, pod)) else { return Ok(None) };
        if is_really_orphan::<O>(ctx, &pod).await? {
            act::let_go(ctx, &pod, O::FINALIZER).await?;
        }
        Ok(None)
    }
}

fn is_orphan<O: Counts>(caches: &Caches, pod: &Pod) -> bool {
    let is_kept = pod.finalizers().iter().any(|finalizer| finalizer == O::FINALIZER);
    is_kept && owner::<O>(pod).is_none_or(|(key, uid)| is_left(caches.get::<O>(&key).as_deref(), &uid))
}

/// Asks the server: the caches of owners and pods may be of different times.
async fn is_really_orphan<O: Counts>(ctx: &Ctx, pod: &Pod) -> Result<bool, kube::Error> {
    let Some((key, uid)) = owner::<O>(pod) else { return Ok(true) };
    let found = act::api::<O>(ctx, &key.namespace).get_opt(&key.name).await?;
    Ok(is_left(found.as_ref(), &uid))
}

fn owner<O: Counts>(pod: &Pod) -> Option<(Key, String)> {
    let owner = controller_of(&pod.metadata)
        .filter(|owner| owner.kind == O::kind(&()) && owner.api_version == O::api_version(&()))?;
    Some((Key::new(pod.namespace().unwrap_or_default(), &owner.name), owner.uid.clone()))
}

fn is_left<O: Counts>(found: Option<&O>, uid: &str) -> bool {
    found.filter(|owner| owner.meta().uid.as_deref() == Some(uid)).is_none_or(Counts::has_done)
}
