//! Writes of the workload controllers that are alike: making and deleting pods, adopting and releasing objects.
//!
//! Every write names the uid it is about, so that a look at an old state cannot hit a newer object of the same name; its
//! answer goes into the cache, so that the next look knows of it.

use std::sync::Arc;

use futures::future::join_all;
use k8s_openapi::{NamespaceResourceScope, api::core::v1::Pod};
use kube::{
    Api, Resource, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
};
use serde_json::{Value, json};

use super::{Claim, claim, controller_ref};
use crate::{refusal::Refusal, runner::Ctx, watch::Cached};

/// An owner of pods.
pub trait Owner: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Cached {}

impl<K> Owner for K where K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Cached {}

/// Returns the API of the objects of the namespace of an owner.
pub fn api<K: Owner>(ctx: &Ctx, namespace: &str) -> Api<K> {
    Api::namespaced(ctx.client.clone(), namespace)
}

/// Makes pods, one at first, then twice as many at a time while all goes well: what refuses one refuses all.
pub async fn create_all<O: Owner>(ctx: &Ctx, owner: &O, mut pods: Vec<Pod>) -> Result<(), kube::Error> {
    let mut batch = 1;
    while !pods.is_empty() {
        let rest = pods.split_off(batch.min(pods.len()));
        let made = join_all(pods.iter().map(|pod| create(ctx, owner, pod))).await;
        made.into_iter().collect::<Result<(), _>>()?;
        pods = rest;
        batch *= 2;
    }
    Ok(())
}

async fn create<O: Owner>(ctx: &Ctx, owner: &O, pod: &Pod) -> Result<(), kube::Error> {
    let pods: Api<Pod> = api(ctx, &owner.namespace().unwrap_or_default());
    match pods.create(&PostParams::default(), pod).await {
        Ok(made) => {
            ctx.events.normal(owner, "SuccessfulCreate", format!("Created pod: {}", made.name_any()));
            ctx.caches.assume(made);
            Ok(())
        }
        // Nothing can be made there any more, and what is there goes by itself.
        Err(error) if Refusal::of_error(&error) == Some(Refusal::NamespaceTerminating) => Ok(()),
        Err(error) => {
            ctx.events.warning(owner, "FailedCreate", format!("Error creating: {}", text(&error)));
            Err(error)
        }
    }
}

/// Deletes a pod on behalf of its owner.
pub async fn delete<O: Owner>(ctx: &Ctx, owner: &O, pod: &Pod) -> Result<(), kube::Error> {
    match remove(ctx, pod).await {
        Ok(Removed::Now) => {
            ctx.events.normal(owner, "SuccessfulDelete", format!("Deleted pod: {}", pod.name_any()));
            Ok(())
        }
        Ok(Removed::Before) => Ok(()),
        Err(error) => {
            ctx.events.warning(owner, "FailedDelete", format!("Error deleting: {}", text(&error)));
            Err(error)
        }
    }
}

/// Deletes pods side by side; the first failure is told after all have been tried.
pub async fn delete_all<O: Owner>(ctx: &Ctx, owner: &O, pods: &[Arc<Pod>]) -> Result<(), kube::Error> {
    let deleted = join_all(pods.iter().map(|pod| delete(ctx, owner, pod))).await;
    deleted.into_iter().collect()
}

/// Who has deleted an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removed {
    Now,
    Before,
}

/// Deletes this very object, not a later one of the same name.
pub async fn remove<K: Owner>(ctx: &Ctx, object: &K) -> Result<Removed, kube::Error> {
    remove_within(ctx, object, None).await
}

/// Deletes this very object with so many seconds of grace; its own if none.
pub async fn remove_within<K: Owner>(ctx: &Ctx, object: &K, grace: Option<u32>) -> Result<Removed, kube::Error> {
    let objects: Api<K> = api(ctx, &object.namespace().unwrap_or_default());
    let only = Preconditions { uid: object.uid(), resource_version: None };
    let params = DeleteParams { preconditions: Some(only), grace_period_seconds: grace, ..DeleteParams::default() };
    match objects.delete(&object.name_any(), &params).await {
        Ok(answer) => {
            match answer.left().filter(is_still_there) {
                Some(left) => ctx.caches.assume(left),
                None => ctx.caches.assume_gone(object),
            }
            Ok(Removed::Now)
        }
        Err(error) if is_gone(&objects, object, &error).await? => {
            ctx.caches.assume_gone(object);
            Ok(Removed::Before)
        }
        Err(error) => Err(error),
    }
}

/// Tells whether an object that was asked to go has to wait for something.
fn is_still_there<K: Resource>(object: &K) -> bool {
    let meta = object.meta();
    let has_grace = meta.deletion_grace_period_seconds.is_some_and(|seconds| seconds > 0);
    meta.deletion_timestamp.is_some() && (has_grace || meta.finalizers.as_ref().is_some_and(|list| !list.is_empty()))
}

/// What an owner wants of the objects that could be its own.
pub struct Wants<'a, K> {
    pub selects: &'a (dyn Fn(&K) -> bool + Sync),
    /// Put on what is adopted, taken off what is released.
    pub finalizer: Option<&'a str>,
}

/// Returns the objects that are an owner's or nobody's.
pub fn candidates<O: Owner, K: Owner>(ctx: &Ctx, owner: &O) -> Vec<Arc<K>> {
    let mut candidates = ctx.caches.controlled_by::<K>(&owner.uid().unwrap_or_default());
    candidates.extend(ctx.caches.uncontrolled::<K>(&owner.namespace().unwrap_or_default()));
    candidates
}

/// Returns those of the candidates that are an owner's, after adopting and releasing what has to be.
pub async fn claim_all<O: Owner, K: Owner>(
    ctx: &Ctx,
    owner: &O,
    candidates: Vec<Arc<K>>,
    wants: Wants<'_, K>,
) -> Result<Vec<Arc<K>>, kube::Error> {
    let mut may_adopt = None;
    let mut own = Vec::new();
    for object in candidates {
        match claim(owner.meta(), (wants.selects)(&object), object.meta()) {
            Claim::Own => own.push(object),
            Claim::Release => {
                patch(ctx, &*object, &release_patch(owner, &*object, wants.finalizer)).await?;
            }
            Claim::Adopt => {
                if may_adopt.is_none() {
                    may_adopt = Some(still_wants(ctx, owner).await?);
                }
                if may_adopt == Some(true)
                    && let Some(adopted) = patch(ctx, &*object, &adopt_patch(owner, &*object, wants.finalizer)).await?
                {
                    own.push(Arc::new(adopted));
                }
            }
            Claim::Ignore => {}
        }
    }
    Ok(own)
}

/// Asks the server whether an owner still is there: one that is going must not take what its deletion leaves behind.
async fn still_wants<O: Owner>(ctx: &Ctx, owner: &O) -> Result<bool, kube::Error> {
    let owners: Api<O> = api(ctx, &owner.namespace().unwrap_or_default());
    let fresh = owners.get_opt(&owner.name_any()).await?;
    Ok(fresh.is_some_and(|fresh| fresh.uid() == owner.uid() && fresh.meta().deletion_timestamp.is_none()))
}

fn adopt_patch<O: Owner, K: Resource>(owner: &O, object: &K, finalizer: Option<&str>) -> Value {
    let mut meta = json!({"uid": object.meta().uid, "ownerReferences": [controller_ref(owner)]});
    if let Some(finalizer) = finalizer {
        meta["finalizers"] = json!([finalizer]);
    }
    json!({"metadata": meta})
}

fn release_patch<O: Owner, K: Resource>(owner: &O, object: &K, finalizer: Option<&str>) -> Value {
    let gone = json!({"$patch": "delete", "uid": owner.meta().uid});
    let mut meta = json!({"uid": object.meta().uid, "ownerReferences": [gone]});
    if let Some(finalizer) = finalizer {
        meta["$deleteFromPrimitiveList/finalizers"] = json!([finalizer]);
    }
    json!({"metadata": meta})
}

/// Takes a finalizer off a pod.
pub async fn remove_finalizer(ctx: &Ctx, pod: &Pod, finalizer: &str) -> Result<(), kube::Error> {
    let meta = json!({"uid": pod.metadata.uid, "$deleteFromPrimitiveList/finalizers": [finalizer]});
    patch(ctx, pod, &json!({"metadata": meta})).await.map(drop)
}

/// Takes a finalizer off the version of a pod that was looked at: a later one may be somebody's again.
pub async fn let_go(ctx: &Ctx, pod: &Pod, finalizer: &str) -> Result<(), kube::Error> {
    let version = pod.resource_version();
    let meta = json!({"resourceVersion": version, "$deleteFromPrimitiveList/finalizers": [finalizer]});
    let pods = api::<Pod>(ctx, &pod.namespace().unwrap_or_default());
    let patch = Patch::Strategic(json!({"metadata": meta}));
    ctx.caches.assume(pods.patch(&pod.name_any(), &PatchParams::default(), &patch).await?);
    Ok(())
}

/// Patches this very object; returns none if it is gone.
pub async fn patch<K: Owner>(ctx: &Ctx, object: &K, patch: &Value) -> Result<Option<K>, kube::Error> {
    let objects: Api<K> = api(ctx, &object.namespace().unwrap_or_default());
    match objects.patch(&object.name_any(), &PatchParams::default(), &Patch::Strategic(patch)).await {
        Ok(patched) => {
            ctx.caches.assume(patched.clone());
            Ok(Some(patched))
        }
        Err(error) if is_gone(&objects, object, &error).await? => {
            ctx.caches.assume_gone(object);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Tells whether a write failed because the object that it named by its uid is not there any more. A conflict may also be
/// a lost race, which says nothing about the object: then the server is asked.
async fn is_gone<K: Owner>(objects: &Api<K>, object: &K, error: &kube::Error) -> Result<bool, kube::Error> {
    match Refusal::of_error(error) {
        Some(Refusal::NotFound) => Ok(true),
        Some(Refusal::Conflict) => {
            Ok(objects.get_opt(&object.name_any()).await?.is_none_or(|it| it.uid() != object.uid()))
        }
        _ => Ok(false),
    }
}

/// Tells whether a name is taken already.
pub fn is_taken(error: &kube::Error) -> bool {
    Refusal::of_error(error) == Some(Refusal::AlreadyExists)
}

/// Returns what a server says of its refusal, as events and conditions repeat it.
pub fn text(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}
