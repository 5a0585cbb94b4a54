//! The garbage collector: deletes what its owners leave behind.
//!
//! [`graph`] decides; this loop tells it what the store holds and carries out what it asks for. Nothing is remembered
//! across a restart: the graph is built anew from the store.

pub mod graph;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde_json::Value;

use self::graph::{Action, Event, Graph, Kind, Step};
use crate::{
    api::Api,
    error::ApiError,
    registry::Registry,
    store::{self, EventKind, Key, Object, Range, Revision, TooOld},
    verbs::{Call, delete::DeleteOptions, meta, update::Next},
};

/// How many events are read from a collection at a time.
const BATCH: usize = 1024;
/// Between two looks at the store, so that a burst of writes is looked at once.
const PACE: Duration = Duration::from_millis(5);
/// After an action that failed.
const RETRY: Duration = Duration::from_millis(200);

/// The collector's view of the store.
#[derive(Default)]
struct Collector {
    graph: Graph,
    /// Up to where each collection has been read.
    seen: BTreeMap<Arc<str>, Revision>,
    /// What was served at the last look; kinds are learnt only when that has changed.
    registry: Option<Arc<Registry>>,
}

/// Collects garbage until the server stops.
pub async fn run(api: Api) {
    let mut changed = api.store().any_change();
    let mut collector = Collector::default();
    loop {
        changed.mark_unchanged();
        collector.observe(&api);
        let actions = collector.graph.next_actions();
        let mut failed = false;
        for action in &actions {
            if let Err(error) = carry_out(&api, action).await {
                failed |= !matches!(error.reason, "NotFound" | "Conflict");
                tracing::debug!(key = %action.key, %error, "cannot collect an object, retrying");
            }
        }
        let wait = if failed { RETRY } else { PACE };
        tokio::select! {
            () = api.stopping().cancelled() => return,
            change = changed.changed(), if !failed => if change.is_err() { return },
            () = std::future::ready(()), if failed => {}
        }
        tokio::time::sleep(wait).await;
    }
}

impl Collector {
    /// Reads what has happened since the last look.
    fn observe(&mut self, api: &Api) {
        let registry = api.registry();
        if self.registry.as_ref().is_none_or(|known| !Arc::ptr_eq(known, &registry)) {
            for resource in registry.all() {
                let info = &resource.info;
                let kind = Kind { collection: resource.collection.clone(), is_namespaced: info.namespaced };
                self.graph.learn_kind(&info.api_version(), &info.kind, kind);
            }
            self.registry = Some(registry);
        }
        // All collections are read up to the same revision. Else a dependent might be seen before its owner.
        let cut = api.store().revision();
        let read = api.store().counts().into_keys().try_for_each(|collection| self.read_to(api, &collection, cut));
        if read.is_err() {
            // Too far behind: start over with what is there.
            *self = Self::default();
            self.observe(api);
        }
    }

    fn read_to(&mut self, api: &Api, collection: &Arc<str>, cut: Revision) -> Result<(), TooOld> {
        let Some(mut since) = self.seen.get(collection).copied() else { return self.list(api, collection, cut) };
        while since < cut {
            let batch = api.store().events(collection, since, BATCH)?;
            for event in batch.events.iter().filter(|event| event.revision() <= cut) {
                self.graph.observe(observed(collection, event));
            }
            since = batch.complete_to.min(cut);
        }
        self.seen.insert(collection.clone(), cut);
        Ok(())
    }

    fn list(&mut self, api: &Api, collection: &Arc<str>, cut: Revision) -> Result<(), TooOld> {
        let page = api.store().list(collection, &Range { at: Some(cut), ..Range::default() })?;
        for object in &page.objects {
            self.graph.observe(Event::Present(present(collection, object)));
        }
        self.seen.insert(collection.clone(), cut);
        Ok(())
    }
}

fn observed(collection: &Arc<str>, event: &store::Event) -> Event {
    match event.kind {
        EventKind::Deleted => Event::Gone(event.object.meta.uid.clone()),
        EventKind::Added | EventKind::Modified => Event::Present(present(collection, &event.object)),
    }
}

fn present(collection: &Arc<str>, object: &Object) -> graph::Object {
    let has = |finalizer: &str| object.meta.finalizers.iter().any(|found| found == finalizer);
    graph::Object {
        key: Key { collection: collection.clone(), place: object.place.clone() },
        uid: object.meta.uid.clone(),
        revision: object.revision,
        owners: object.meta.owners.clone(),
        is_deleting: object.is_deleting(),
        has_foreground: has(meta::FOREGROUND),
        has_orphan: has(meta::ORPHAN),
    }
}

async fn carry_out(api: &Api, action: &Action) -> Result<(), ApiError> {
    let registry = api.registry();
    let Some(resource) = registry.stored().find(|resource| resource.collection == action.key.collection) else {
        return Ok(());
    };
    let place = (&*action.key.place.namespace, &*action.key.place.name);
    let mut call = Call::on(api, resource.clone(), place, "");
    match &action.step {
        Step::Delete { revision, propagation } => {
            let options = DeleteOptions {
                propagation: Some(*propagation),
                uid: Some(action.uid.to_string()),
                resource_version: Some(revision.to_string()),
                ..DeleteOptions::default()
            };
            call.delete(&options).await.map(drop)
        }
        step => call.change(|old| changed(old, &action.uid, step)).await.map(drop),
    }
}

/// The object with the step taken, if it is still the one that was meant.
fn changed(old: &Value, uid: &str, step: &Step) -> Result<Next, ApiError> {
    let mut value = old.clone();
    if meta::text(old, "uid") == uid {
        take_step(&mut value, step);
    }
    Ok(Next::of_loop(value))
}

fn take_step(value: &mut Value, step: &Step) {
    match step {
        Step::Delete { .. } => {}
        Step::RemoveOwnerReferences(uids) => {
            let references = value["metadata"]["ownerReferences"].as_array_mut();
            let is_gone = |reference: &Value| reference["uid"].as_str().is_some_and(|uid| uids.contains(uid));
            let left = references.map_or(0, |references| {
                references.retain(|reference| !is_gone(reference));
                references.len()
            });
            if left == 0 {
                meta::remove(value, "ownerReferences");
            }
        }
        Step::UnblockOwners => {
            for reference in value["metadata"]["ownerReferences"].as_array_mut().into_iter().flatten() {
                reference["blockOwnerDeletion"] = false.into();
            }
        }
        Step::RemoveFinalizer(finalizer) => {
            let kept: Vec<String> =
                meta::finalizers(value).into_iter().filter(|found| found != finalizer).map(str::to_owned).collect();
            meta::set_finalizers(value, &kept.iter().map(String::as_str).collect::<Vec<_>>());
        }
    }
}
