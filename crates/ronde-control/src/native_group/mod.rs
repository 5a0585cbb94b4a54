//! Gangs that are PodGroups of Kubernetes (`scheduling.k8s.io`): each gets a group of ours by the same name, which the
//! scheduler knows, and the conditions that follow from it.
//!
//! Only if a pod of our schedulers is in it; all others are the business of Kubernetes' own. `podgroup/` ties the pods to the
//! group, [`plan`] says what it is and what is told; this file makes and writes. Where the cluster does not serve the kind,
//! nothing happens here.

pub mod plan;
#[cfg(test)]
mod tests;

use std::{marker::PhantomData, sync::Arc};

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use ronde_api::PodGroup;
use ronde_runtime::{
    pods::apply,
    runner::{Controller, Ctx},
    watch::{Caches, Change, Key, Kinds},
};
use serde_json::json;

use crate::{
    membership::{Membership, Schedulers, membership},
    native::{self, NativeGroup, Version},
};

/// The controller of the PodGroups of one version.
#[derive(Debug, Clone)]
pub struct NativeGroups<V> {
    /// The schedulers whose pods make a PodGroup our business.
    schedulers: Schedulers,
    version: PhantomData<V>,
}

impl<V> NativeGroups<V> {
    pub fn new(schedulers: Schedulers) -> Self {
        Self { schedulers, version: PhantomData }
    }

    /// Returns the group that a pod of ours is in.
    fn group_of(&self, pod: &Pod) -> Option<Key> {
        match membership(pod, &self.schedulers) {
            Membership::Of(group) => Some(Key::new(group.namespace(), group.name())),
            _ => None,
        }
    }

    /// Returns our pods of a group; looks at all pods of the namespace.
    fn members(&self, caches: &Caches, key: &Key) -> Vec<Arc<Pod>> {
        let mut pods = caches.list::<Pod>(Some(&key.namespace));
        pods.retain(|pod| self.group_of(pod).as_ref() == Some(key));
        pods
    }
}

impl<V: Version> Controller for NativeGroups<V> {
    const NAME: &'static str = V::CONTROLLER;

    fn kinds(&self, kinds: &mut Kinds) {
        native::kinds(kinds);
        kinds.add::<Pod>().add::<PodGroup>();
    }

    fn affected(&self, change: &Change, caches: &Caches) -> Vec<Key> {
        if change.is::<NativeGroup<V>>() {
            vec![change.key.clone()]
        } else if change.is::<PodGroup>() {
            change.owners(native::KIND)
        } else if change.is::<Pod>() && caches.is_served::<NativeGroup<V>>() {
            let Some(pod) = caches.get::<Pod>(&change.key) else { return Vec::new() };
            let group = self.group_of(&pod).filter(|group| caches.get::<NativeGroup<V>>(group).is_some());
            let matters = |group: &Key| plan::is_evicted(&pod) || caches.get::<PodGroup>(group).is_none();
            group.filter(matters).into_iter().collect()
        } else {
            Vec::new()
        }
    }

    async fn reconcile(&self, ctx: &Ctx, key: &Key) -> Result<Option<SignedDuration>, kube::Error> {
        let Some(native) = ctx.caches.get::<NativeGroup<V>>(key).filter(|it| it.metadata.deletion_timestamp.is_none())
        else {
            return Ok(None);
        };
        let Some(group) = ctx.caches.get::<PodGroup>(key) else { return self.make(ctx, key, &native).await };
        if !plan::is_of(&group, &native) {
            // Of a PodGroup that is gone, or somebody's own. When it has gone, this is looked at again.
            if group.metadata.deletion_timestamp.is_none() && !self.members(&ctx.caches, key).is_empty() {
                let why = format!("its pods are in podgroups.scheduling.volcano.sh/{}, which is another one", key.name);
                ctx.events.warning(&*native, "PodGroupExists", why);
            }
            return Ok(None);
        }
        if group.spec.min_member != native.spec.min_member() {
            let patch = json!({"metadata": {"uid": group.uid()}, "spec": {"minMember": native.spec.min_member()}});
            let groups = apply::api::<PodGroup>(ctx, &key.namespace);
            ctx.caches.assume(groups.patch(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await?);
        }
        self.tell(ctx, key, &native, &group).await
    }
}

impl<V: Version> NativeGroups<V> {
    /// Makes the group, as soon as one of our pods is in it.
    async fn make(&self, ctx: &Ctx, key: &Key, native: &NativeGroup<V>) -> Result<Option<SignedDuration>, kube::Error> {
        if let Some(pod) = self.members(&ctx.caches, key).first() {
            let groups = apply::api::<PodGroup>(ctx, &key.namespace);
            ctx.caches.assume(groups.create(&PostParams::default(), &plan::build(native, pod)).await?);
        }
        Ok(None)
    }

    /// Writes what has become of the group.
    async fn tell(
        &self,
        ctx: &Ctx,
        key: &Key,
        native: &NativeGroup<V>,
        group: &PodGroup,
    ) -> Result<Option<SignedDuration>, kube::Error> {
        let pods = if native.spec.leaves_whole() { self.members(&ctx.caches, key) } else { Vec::new() };
        let conditions = plan::next_conditions(native, group, &pods, ctx.clock.now());
        if conditions != native.status.conditions {
            // Of this very version: others may write conditions too.
            let meta = json!({"uid": native.uid(), "resourceVersion": native.resource_version()});
            let patch = Patch::Merge(json!({"metadata": meta, "status": {"conditions": conditions}}));
            let groups: Api<NativeGroup<V>> = Api::namespaced(ctx.client.clone(), &key.namespace);
            ctx.caches.assume(groups.patch_status(&key.name, &PatchParams::default(), &patch).await?);
        }
        Ok(None)
    }
}
