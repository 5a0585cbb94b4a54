//! Watches: a stream of events from a revision on.
//!
//! A watcher holds no queue of its own: it keeps a place in the collection's log and reads on when it is polled. So a
//! client that reads slowly costs nothing, and one that falls out of the log is told so (410) and ends.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::Stream;
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use super::filter::Filter;
use crate::{
    api::Api,
    error::ApiError,
    http::{
        query::{ListOptions, VersionRule},
        reply::Encoder,
    },
    registry::Resource,
    store::{Event, EventKind, Object, Range, Revision, TooOld},
};

/// How many events are looked at in one go.
const CHUNK_EVENTS: usize = 256;
/// A chunk of the answer is closed when it has this size, so that a client which does not read costs no more.
const CHUNK_BYTES: usize = 256 << 10;
/// How often a quiet watch says how far it is, as the real server does.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// A watch without a time limit ends after this; clients then open another.
const DURATION_DEFAULT: Duration = Duration::from_secs(45 * 60);
/// How long a watch from a future version waits for it.
const FUTURE_MAX: Duration = Duration::from_secs(3);

/// An open watch.
struct Watcher {
    api: Api,
    resource: Arc<Resource>,
    filter: Filter,
    encoder: Encoder,
    /// Everything up to here has been sent.
    seen: Revision,
    changed: watch::Receiver<Revision>,
    ends: Instant,
    /// When the next bookmark is due, if the client wants them.
    bookmark_due: Option<Instant>,
    /// Chunks ready to be sent, made when the watch was opened.
    ready: VecDeque<Bytes>,
    over: bool,
}

/// Opens a watch and returns the chunks of its answer.
///
/// # Errors
/// If the version asked for is too old or does not come in time.
pub async fn watch(
    api: Api,
    resource: Arc<Resource>,
    filter: Filter,
    options: &ListOptions,
    encoder: Encoder,
) -> Result<impl Stream<Item = Result<Bytes, std::convert::Infallible>> + Send + use<>, ApiError> {
    let changed = api.store().changes(&resource.collection);
    let now = Instant::now();
    let duration = options.timeout_seconds.map_or(DURATION_DEFAULT, Duration::from_secs);
    let mut watcher = Watcher {
        seen: 0,
        changed,
        ends: now + duration,
        bookmark_due: options.bookmarks.then(|| now + BOOKMARK_EVERY),
        ready: VecDeque::new(),
        over: false,
        api,
        resource,
        filter,
        encoder,
    };
    watcher.start(options).await?;
    Ok(futures::stream::unfold(watcher, |mut watcher| async move {
        let chunk = watcher.next_chunk().await?;
        Some((Ok(chunk), watcher))
    }))
}

impl Watcher {
    async fn start(&mut self, options: &ListOptions) -> Result<(), ApiError> {
        if let VersionRule::NotOlderThan(revision) | VersionRule::Exact(revision) = options.version {
            wait_for(&self.api, revision).await?;
        }
        let from = match (options.version, options.send_initial_events) {
            (VersionRule::NotOlderThan(revision) | VersionRule::Exact(revision), None | Some(false)) => Some(revision),
            (VersionRule::Any, Some(false)) => Some(self.api.store().revision()),
            _ => None,
        };
        match from {
            Some(revision) => {
                self.seen = revision;
                // A stale version is refused in the stream, as the real server does: clients look for it there.
                Ok(())
            }
            None => self.send_present(options),
        }
    }

    /// Sends what exists now as if it had just been added.
    fn send_present(&mut self, options: &ListOptions) -> Result<(), ApiError> {
        let range = Range { namespace: self.filter.namespace.clone(), ..Range::default() };
        let page = self.api.store().list(&self.resource.collection, &range).map_err(|_| expired(0, 0))?;
        let mut chunk = Vec::new();
        for object in page.objects.iter().filter(|object| self.filter.matches(object)) {
            self.encoder.event("ADDED", &self.resource, object, &mut chunk);
        }
        self.seen = page.revision;
        if options.send_initial_events == Some(true) && options.bookmarks {
            self.bookmark(true, &mut chunk);
        }
        self.ready.extend((!chunk.is_empty()).then(|| chunk.into()));
        Ok(())
    }

    /// Waits for the next chunk; none when the watch is over.
    async fn next_chunk(&mut self) -> Option<Bytes> {
        loop {
            if let Some(chunk) = self.ready.pop_front() {
                return Some(chunk);
            }
            if self.over {
                return None;
            }
            self.changed.mark_unchanged();
            match self.read_on() {
                Ok(chunk) if !chunk.is_empty() => return Some(chunk.into()),
                Ok(_) => self.wait().await,
                Err(TooOld { asked, oldest }) => {
                    self.over = true;
                    return Some(error_event(&expired(asked, oldest)));
                }
            }
        }
    }

    fn read_on(&mut self) -> Result<Vec<u8>, TooOld> {
        let batch = self.api.store().events(&self.resource.collection, self.seen, CHUNK_EVENTS)?;
        let mut chunk = Vec::new();
        for event in &batch.events {
            if let Some((kind, object)) = visible(event, &self.filter) {
                self.encoder.event(kind, &self.resource, &object, &mut chunk);
            }
            if chunk.len() > CHUNK_BYTES {
                self.seen = event.revision();
                return Ok(chunk);
            }
        }
        let caught_up = batch.events.len() < CHUNK_EVENTS;
        self.seen = batch.complete_to;
        if !caught_up && chunk.is_empty() {
            return self.read_on();
        }
        Ok(chunk)
    }

    /// Waits until something may have happened: a change, a bookmark that is due, the end.
    async fn wait(&mut self) {
        let wake = self.bookmark_due.map_or(self.ends, |due| due.min(self.ends));
        let stopping = self.api.stopping().clone();
        tokio::select! {
            changed = self.changed.changed() => self.over |= changed.is_err(),
            () = stopping.cancelled() => self.over = true,
            () = sleep_until(wake) => {
                self.over |= Instant::now() >= self.ends;
                if !self.over {
                    let mut chunk = Vec::new();
                    self.bookmark(false, &mut chunk);
                    self.ready.push_back(chunk.into());
                    self.bookmark_due = Some(wake + BOOKMARK_EVERY);
                }
            }
        }
    }

    fn bookmark(&mut self, initial_events_end: bool, out: &mut Vec<u8>) {
        let info = &self.resource.info;
        let mut metadata = json!({"resourceVersion": self.seen.to_string()});
        if initial_events_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = json!({"apiVersion": info.api_version(), "kind": info.kind, "metadata": metadata});
        self.encoder.bookmark(&self.resource, object, out);
    }
}

/// What a watch with a filter sees of an event: objects come into view and leave it.
fn visible(event: &Event, filter: &Filter) -> Option<(&'static str, Arc<Object>)> {
    let before = event.before.as_ref().filter(|object| filter.matches(object));
    let after = event.kind != EventKind::Deleted && filter.matches(&event.object);
    match (before, after) {
        (None, true) => Some(("ADDED", event.object.clone())),
        (Some(_), true) => Some(("MODIFIED", event.object.clone())),
        (Some(_), false) if event.kind == EventKind::Deleted => Some(("DELETED", event.object.clone())),
        // It is still there but out of sight: what was last seen of it, at the revision of the change.
        (Some(seen), false) => Some(("DELETED", Arc::new(seen.at_revision(event.revision())))),
        (None, false) => None,
    }
}

/// Waits until the store has reached a revision that a client has seen elsewhere.
///
/// # Errors
/// If it does not within a few seconds.
pub async fn wait_for(api: &Api, revision: Revision) -> Result<(), ApiError> {
    let deadline = Instant::now() + FUTURE_MAX;
    while api.store().revision() < revision {
        if Instant::now() >= deadline {
            return Err(too_large(revision, api.store().revision()));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

fn too_large(asked: Revision, current: Revision) -> ApiError {
    let message = format!("Too large resource version: {asked}, current: {current}");
    ApiError::new(504, "Timeout", format!("Timeout: {message}")).with_details(json!({
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }))
}

/// The version a watch or an exact list asked for is no longer kept.
pub fn expired(asked: Revision, oldest: Revision) -> ApiError {
    ApiError::expired(format!("too old resource version: {asked} ({oldest})"))
}

fn error_event(error: &ApiError) -> Bytes {
    let mut text = json!({"type": "ERROR", "object": error.status()}).to_string();
    text.push('\n');
    text.into()
}

/// Wraps a value as a watch event line.
pub fn event_line(kind: &str, object: &Value, out: &mut Vec<u8>) {
    out.extend_from_slice(json!({"type": kind, "object": object}).to_string().as_bytes());
    out.push(b'\n');
}
