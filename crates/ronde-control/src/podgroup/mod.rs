//! Groups for plain pods: a pod that asks for our scheduler and belongs to no group gets one.
//!
//! [`plan`] says what the group is; this file finds the owner of the pod, makes the group and ties the pod to it. Pods
//! of Volcano's jobs have theirs already. One that names a PodGroup of Kubernetes is tied to the group of that name, which
//! `native_group/` makes.

pub mod plan;
#[cfg(test)]
mod tests;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use ronde_api::{PodGroup, names, rules::budget};
use ronde_runtime::{
    pods::{apply, controller_of},
    runner::{Controller, Ctx},
    watch::{Caches, Change, Key, Kinds},
};
use serde_json::json;

use self::plan::{build, needs_group};
use crate::{membership::Schedulers, native};

/// The reason of events about annotations that mean nothing.
const INVALID_ANNOTATION: &str = "InvalidAnnotation";

/// The controller of groups for plain pods.
#[derive(Debug, Clone)]
pub struct PodGroups {
    /// The schedulers whose pods are to be in groups; those of the default one need none.
    pub schedulers: Schedulers,
}

impl Controller for PodGroups {
    const NAME: &'static str = "vc-podgroup-controller";

    fn kinds(&self, kinds: &mut Kinds) {
        native::kinds(kinds);
        kinds.add::<Pod>().add::<PodGroup>();
    }

    fn affected(&self, change: &Change, caches: &Caches) -> Vec<Key> {
        if !change.is::<Pod>() {
            return Vec::new();
        }
        let pod = caches.get::<Pod>(&change.key).filter(|pod| needs_group(pod, &self.schedulers));
        pod.map(|_| change.key.clone()).into_iter().collect()
    }

    async fn reconcile(&self, ctx: &Ctx, key: &Key) -> Result<Option<SignedDuration>, kube::Error> {
        let Some(pod) = ctx.caches.get::<Pod>(key).filter(|pod| needs_group(pod, &self.schedulers)) else {
            return Ok(None);
        };
        // Where admission has not refused them, people are told of them.
        for fault in budget::validate(pod.annotations()) {
            ctx.events.warning(&*pod, INVALID_ANNOTATION, fault.to_string());
        }
        if let Some(native) = native::group_of_pod(ctx, &pod).await? {
            join(ctx, &pod, &native).await?;
            return Ok(None);
        }
        let name = plan::name(&pod);
        if ctx.caches.get::<PodGroup>(&Key::new(&key.namespace, &name)).is_none() {
            let group = build(&pod, owner_of(ctx, &pod).await.as_ref());
            let groups = apply::api::<PodGroup>(ctx, &key.namespace);
            match groups.create(&PostParams::default(), &group).await {
                Ok(made) => ctx.caches.assume(made),
                // Another pod of the same owner was first.
                Err(error) if apply::is_taken(&error) => {}
                Err(error) => return Err(error),
            }
        }
        join(ctx, &pod, &name).await?;
        Ok(None)
    }
}

/// Ties this very pod to a group.
async fn join(ctx: &Ctx, pod: &Pod, group: &str) -> Result<(), kube::Error> {
    let meta = json!({"uid": pod.metadata.uid, "annotations": {names::GROUP_NAME: group}});
    let pods = apply::api::<Pod>(ctx, &pod.namespace().unwrap_or_default());
    let patch = Patch::Merge(json!({"metadata": meta}));
    ctx.caches.assume(pods.patch(&pod.name_any(), &PatchParams::default(), &patch).await?);
    Ok(())
}

/// Returns the object that controls a pod, of whatever kind; one that cannot be read has nothing to say.
async fn owner_of(ctx: &Ctx, pod: &Pod) -> Option<DynamicObject> {
    let owner = controller_of(&pod.metadata)?;
    let (group, version) = owner.api_version.split_once('/').unwrap_or(("", &owner.api_version));
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &owner.kind));
    let owners: Api<DynamicObject> =
        Api::namespaced_with(ctx.client.clone(), &pod.namespace().unwrap_or_default(), &kind);
    owners.get_opt(&owner.name).await.ok().flatten().filter(|found| found.metadata.uid.as_ref() == Some(&owner.uid))
}
