//! Follows one kind: lists it, watches it from there, and goes on where a watch has ended.
//!
//! Not by kube's watcher, which does nearly the same, for three reasons. It does not tell of which version a list is, so
//! that what one's own write has put on the cache cannot be told from what has gone meanwhile. It asks for ever from a
//! version that the server refuses with a status. And it asks again at once when a server ends every watch at once.

use std::{pin::pin, time::Duration};

use futures::StreamExt as _;
use kube::{
    Api, Client, Error,
    api::{ListParams, WatchEvent, WatchParams},
};
use parking_lot::RwLock;
use tokio::time::{Instant, error::Elapsed, sleep, timeout};

use super::{
    Cached, Caches, ListNotes, Selection,
    cache::{Cache, Trim, without_managers},
    kind_name,
};
use crate::{
    causes::Causes,
    telemetry::{
        Telemetry,
        metrics::{CACHED_OBJECTS, WATCH_INTERRUPTIONS},
    },
    work_queue::backoff,
};

/// How many objects one answer may bring: a few megabytes.
const PAGE: u32 = 500;
/// How long an answer may take to begin; servers themselves give up after as long.
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// How long a watch may be silent: the server says every minute how far it is, and ends it after five.
const SILENCE_MAX: Duration = Duration::from_secs(320);
/// How often a kind that the server does not serve is asked for: as often as a quiet watch is renewed.
const ABSENCE: Duration = Duration::from_secs(300);
/// What has lasted so long went well, even if nothing has happened, and its repetition is no haste.
const LASTING: Duration = Duration::from_secs(10);

/// Keeps the cache of one kind current, for as long as it is polled; counts up when it has been listed for the first time.
pub(super) async fn list_watch<K: Cached>(client: Client, caches: Caches, notes: ListNotes, selection: Selection) {
    let ListNotes { listed, telemetry } = notes;
    let api = Api::<K>::all(client);
    let mut list_watch = ListWatch { api, selection, caches, telemetry, version: None, has_heard: false };
    let mut listed = Some(listed);
    let mut failures = 0;
    loop {
        let begun = Instant::now();
        let ended = list_watch.go_on().await;
        let is_absent = ended.as_ref().is_err_and(|error| list_watch.is_absence(error));
        if (list_watch.version.is_some() || is_absent)
            && let Some(listed) = listed.take()
        {
            list_watch.telemetry.health.note_list(&kind_name::<K>());
            listed.send_modify(|count| *count += 1);
        }
        if is_absent {
            list_watch.forget_all();
            sleep(ABSENCE).await;
            continue;
        }
        if list_watch.has_heard || begun.elapsed() >= LASTING {
            failures = 0;
        }
        if let Err(error) = ended {
            tracing::warn!(kind = %K::kind(&()), error = %Causes(&error), "a watch is interrupted");
            list_watch.telemetry.metrics.count(&WATCH_INTERRUPTIONS, [kind_name::<K>()]);
            failures += 1;
            sleep(backoff(failures)).await;
        }
    }
}

struct ListWatch<K> {
    api: Api<K>,
    selection: Selection,
    caches: Caches,
    telemetry: Telemetry,
    /// Up to where everything is on the cache; none if that is not known.
    version: Option<String>,
    /// Whether the last watch has told anything new. A list proves nothing: its version may be refused again.
    has_heard: bool,
}

impl<K: Cached> ListWatch<K> {
    /// Lists, or watches until that ends.
    async fn go_on(&mut self) -> Result<(), Error> {
        self.has_heard = false;
        let Some(version) = self.version.clone() else { return self.list().await };
        let ended = self.watch(&version).await;
        if ended.as_ref().is_err_and(is_refusal) {
            self.version = None;
        }
        ended
    }

    async fn list(&mut self) -> Result<(), Error> {
        self.cache().write().begin_list();
        let trim = self.cache().read().trim;
        let mut objects = Vec::new();
        let mut params = ListParams::default().limit(PAGE);
        params.label_selector = self.selector();
        let version = loop {
            let page = timeout(ANSWER_MAX, self.api.list(&params)).await.map_err(too_late)??;
            objects.extend(page.items.into_iter().map(|object| trimmed(object, trim)));
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => break page.metadata.resource_version.filter(|version| !version.is_empty()),
            }
        };
        let version = version.ok_or_else(|| Error::Service("a list has no version".into()))?;
        self.telemetry.metrics.set(&CACHED_OBJECTS, [kind_name::<K>()], objects.len());
        let changes = {
            let mut cache = self.cache().write();
            cache.is_served = true;
            cache.replace(objects, version.parse().unwrap_or_default())
        };
        self.caches.tell(changes);
        self.version = Some(version);
        Ok(())
    }

    /// Tells whether a refused list means that the cluster has no such kind. That its rights are missing means the same: a
    /// program that is newer than its role must not wait for them.
    fn is_absence(&self, error: &Error) -> bool {
        let is_missing = |error: &Error| matches!(error, Error::Api(status) if matches!(status.code, 403 | 404));
        self.selection.may_be_absent && self.version.is_none() && is_missing(error)
    }

    fn forget_all(&self) {
        let changes = {
            let mut cache = self.cache().write();
            cache.is_served = false;
            cache.replace(Vec::new(), 0)
        };
        self.caches.tell(changes);
    }

    fn selector(&self) -> Option<String> {
        Some(self.selection.labels.to_owned()).filter(|labels| !labels.is_empty())
    }

    async fn watch(&mut self, from: &str) -> Result<(), Error> {
        let begun = Instant::now();
        let params = WatchParams { label_selector: self.selector(), ..WatchParams::default() };
        let mut events = pin!(timeout(ANSWER_MAX, self.api.watch(&params, from)).await.map_err(too_late)??);
        while let Ok(Some(event)) = timeout(SILENCE_MAX, events.next()).await {
            match event {
                // Passed over: from the same version it would be the first again, for ever.
                Err(error) if is_unreadable(&error) => {
                    tracing::warn!(kind = %K::kind(&()), error = %Causes(&error), "an object cannot be read");
                }
                event => self.hear(event?)?,
            }
        }
        let in_haste = !self.has_heard && begun.elapsed() < LASTING;
        if in_haste { Err(Error::Service("the server ends it at once".into())) } else { Ok(()) }
    }

    fn hear(&mut self, event: WatchEvent<K>) -> Result<(), Error> {
        let (version, change) = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                let object = trimmed(object, self.cache().read().trim);
                (object.meta().resource_version.clone(), self.cache().write().apply(object))
            }
            WatchEvent::Deleted(object) => {
                (object.meta().resource_version.clone(), self.cache().write().remove(&object))
            }
            WatchEvent::Bookmark(bookmark) => (Some(bookmark.metadata.resource_version), None),
            WatchEvent::Error(status) => return Err(Error::Api(status)),
        };
        self.caches.tell(change);
        if version.is_some() && version != self.version {
            (self.version, self.has_heard) = (version, true);
        }
        Ok(())
    }

    fn cache(&self) -> &RwLock<Cache<K>> {
        self.caches.cache()
    }
}

/// Tells whether the server will not go on from this version, whatever its reason: then only a list helps.
fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::Api(status) if !matches!(status.code, 429 | 503))
}

/// Tells whether a line of a watch is none of its kind. kube takes what it cannot read for a status, one without a code.
fn is_unreadable(error: &Error) -> bool {
    matches!(error, Error::SerdeError(_)) || matches!(error, Error::Api(status) if status.code == 0)
}

fn too_late(elapsed: Elapsed) -> Error {
    Error::Service(elapsed.into())
}

/// Returns what is kept of an object.
fn trimmed<K: Cached>(mut object: K, trim: Trim<K>) -> K {
    without_managers(&mut object);
    trim(&mut object);
    object
}
