//! The loop behind CustomResourceDefinitions: says in their status what is served, and cleans up after them.
//!
//! What is served follows the stored CRDs at once (see [`Api::written`]); this loop only keeps their status true and,
//! when one is deleted, deletes its objects before it lets the CRD go.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{
    api::{Api, CRDS},
    error::ApiError,
    kinds,
    store::Range,
    verbs::{
        Call,
        delete::{DeleteOptions, Propagation},
        meta,
        update::Next,
    },
};

/// Holds a CRD back until its objects are gone.
pub const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Keeps CRDs in order until the server stops.
pub async fn run(api: Api) {
    let mut changed = api.store().any_change();
    let mut known = BTreeSet::new();
    loop {
        changed.mark_unchanged();
        let crds = stored(&api);
        forget_gone(&api, &mut known, &crds);
        for crd in &crds {
            let step = if meta::is_deleting(crd) {
                clean_up(&api, crd).await.map(|()| Names::AsBefore)
            } else {
                keep_status(&api, crd, &crds).await
            };
            match step {
                // The next one must know them.
                Ok(Names::Given) => break,
                Ok(Names::AsBefore) => {}
                Err(error) if error.reason == "NotFound" => {}
                Err(error) => tracing::warn!(crd = meta::text(crd, "name"), %error, "cannot reconcile a CRD, retrying"),
            }
        }
        // Instances that go away matter only while a CRD waits for them.
        let waiting = crds.iter().any(meta::is_deleting);
        let mut crds_changed = api.store().changes(&CRDS.into());
        crds_changed.mark_unchanged();
        let settled = crds == stored(&api);
        tokio::select! {
            () = api.stopping().cancelled() => return,
            () = std::future::ready(()), if !settled => {}
            change = changed.changed(), if waiting => if change.is_err() { return },
            change = crds_changed.changed() => if change.is_err() { return },
        }
    }
}

/// All CRDs, those first that were written first: who was there before gets the names.
fn stored(api: &Api) -> Vec<Value> {
    let Ok(mut page) = api.store().list(CRDS, &Range::default()) else { return Vec::new() };
    page.objects.sort_by_key(|object| object.revision);
    page.objects.iter().map(|object| object.value()).collect()
}

/// Frees what the store keeps of the past of resources whose CRDs have gone.
fn forget_gone(api: &Api, known: &mut BTreeSet<String>, crds: &[Value]) {
    let present: BTreeSet<String> = crds.iter().map(|crd| meta::text(crd, "name").to_owned()).collect();
    for gone in known.difference(&present) {
        api.store().forget(gone);
    }
    *known = present;
}

fn call(api: &Api, name: &str, subresource: &str) -> Result<Call, ApiError> {
    Call::internal(api, "apiextensions.k8s.io/v1", "CustomResourceDefinition", ("", name), subresource)
}

/// What became of the names of a CRD.
enum Names {
    AsBefore,
    Given,
}

async fn keep_status(api: &Api, crd: &Value, all: &[Value]) -> Result<Names, ApiError> {
    let now = api.clock_and_ids().now_text();
    let status = kinds::crd::accepted_status(crd, all, &now);
    if status == crd["status"] {
        return Ok(Names::AsBefore);
    }
    let call = call(api, meta::text(crd, "name"), "status")?;
    let write = |old: &Value| {
        let mut value = old.clone();
        value["status"] = kinds::crd::accepted_status(old, all, &now);
        Ok(Next::of_loop(value))
    };
    call.change(write).await.map(|_| Names::Given)
}

/// Deletes the objects of a CRD; when none is left, lets the CRD go.
async fn clean_up(api: &Api, crd: &Value) -> Result<(), ApiError> {
    let name = meta::text(crd, "name");
    if !meta::finalizers(crd).contains(&CLEANUP) || objects_remain(api, name).await? {
        return Ok(());
    }
    let write = |old: &Value| {
        let mut value = old.clone();
        let kept: Vec<&str> = meta::finalizers(old).into_iter().filter(|finalizer| *finalizer != CLEANUP).collect();
        meta::set_finalizers(&mut value, &kept);
        Ok(Next::of_loop(value))
    };
    call(api, name, "")?.change(write).await.map(drop)
}

/// Starts the deletion of everything in a collection; returns whether something is left.
async fn objects_remain(api: &Api, collection: &str) -> Result<bool, ApiError> {
    let options = DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
    let registry = api.registry();
    let Some(resource) = registry.stored().find(|resource| *resource.collection == *collection) else {
        return Ok(false);
    };
    let page = api.store().list(collection, &Range::default()).map_err(|_| ApiError::internal("no newest revision"))?;
    for object in page.objects.iter().filter(|object| !object.is_deleting()) {
        let place = (&*object.place.namespace, &*object.place.name);
        match Call::on(api, resource.clone(), place, "").delete(&options).await {
            Err(error) if error.reason == "NotFound" => {}
            other => drop(other?),
        }
    }
    let left = api.store().list(collection, &Range::default()).map_err(|_| ApiError::internal("no newest revision"))?;
    Ok(!left.objects.is_empty())
}

/// The condition of a CRD whose deletion has begun.
pub fn terminating(now: &str) -> Value {
    json!({
        "type": "Terminating", "status": "True", "reason": "InstanceDeletionPending",
        "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        "lastTransitionTime": now,
    })
}
