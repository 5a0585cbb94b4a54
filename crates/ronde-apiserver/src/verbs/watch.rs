//! Watches: a stream of events from a revision on.
//!
//! A watcher holds no queue of its own: it keeps a place in the collection's log and reads on when it is polled. So a
//! client that reads slowly costs nothing, and one that falls out of the log is told so (410) and ends.

use std::{pin::Pin, sync::Arc, time::Duration, vec};

use bytes::Bytes;
use futures::Stream;
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    time::{Instant, Sleep, sleep_until},
};
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::{
    filter::Filter,
    options::{ListOptions, VersionRule},
};
use crate::{
    api::Api,
    error::ApiError,
    registry::Resource,
    store::{Event, EventKind, Events, Object, Range, Revision, TooOld},
};

/// How many events are looked at in one go.
const CHUNK_EVENTS: usize = 256;
/// A chunk of the answer is closed once it has this size: a client that does not read costs this much and one object.
const CHUNK_BYTES: usize = 256 << 10;
/// How often a quiet watch says how far it is, as the real server does.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// A watch without a time limit ends after this; clients then open another.
const DURATION_DEFAULT: Duration = Duration::from_secs(45 * 60);
/// The longest time limit: a year is as good as none, and clocks can still be added up.
const DURATION_MAX: Duration = Duration::from_secs(365 * 24 * 3600);
/// How long a watch from a future version waits for it.
const FUTURE_MAX: Duration = Duration::from_secs(3);

/// Writes what a watch sees, in the form that its client asked for.
pub trait EventEncoder {
    /// Appends one event.
    fn event(&mut self, kind: &str, resource: &Resource, object: &Object, out: &mut Vec<u8>);
    /// Returns one event; watchers that get the same share the bytes.
    fn line(&mut self, kind: &str, resource: &Resource, event: &Event) -> Bytes;
    /// Appends a bookmark: an object of the kind with nothing but a version.
    fn bookmark(&mut self, resource: &Resource, object: Value, out: &mut Vec<u8>);
}

/// An open watch.
struct Watcher<E> {
    api: Api,
    resource: Arc<Resource>,
    filter: Filter,
    encoder: E,
    /// Everything up to here has been sent.
    seen: Revision,
    /// Whether the log may hold something that has not been sent.
    behind: bool,
    changed: watch::Receiver<Revision>,
    /// Done when the server stops. This and the alarm are kept from wait to wait: to set them up costs more than an event.
    stopping: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Done when the watch ends or, before, when a bookmark is due.
    alarm: Pin<Box<Sleep>>,
    ends: Instant,
    bookmarks: bool,
    bookmark_due: bool,
    /// What was there when the watch began and has not been sent yet. The store holds most of it anyway.
    present: vec::IntoIter<Arc<Object>>,
    /// Whether the end of it is to be marked.
    present_end_due: bool,
    over: bool,
}

/// Opens a watch and returns the chunks of its answer.
///
/// # Errors
/// If the version asked for is too old or does not come in time.
pub async fn watch<E: EventEncoder + Send>(
    api: Api,
    resource: Arc<Resource>,
    filter: Filter,
    options: &ListOptions,
    encoder: E,
) -> Result<impl Stream<Item = Result<Bytes, std::convert::Infallible>> + Send + use<E>, ApiError> {
    let changed = api.store().changes(&resource.collection);
    let now = Instant::now();
    let ends = now + options.timeout_seconds.map_or(DURATION_DEFAULT, Duration::from_secs).min(DURATION_MAX);
    // In a box, for it is handed over with every chunk.
    let mut watcher = Box::new(Watcher {
        seen: 0,
        behind: true,
        changed,
        stopping: Box::pin(api.stopping().clone().cancelled_owned()),
        alarm: Box::pin(sleep_until(alarm(now, ends, options.bookmarks))),
        ends,
        bookmarks: options.bookmarks,
        bookmark_due: false,
        present: Vec::new().into_iter(),
        present_end_due: false,
        over: false,
        api,
        resource,
        filter,
        encoder,
    });
    watcher.start(options).await?;
    Ok(futures::stream::unfold(watcher, |mut watcher| async move {
        let chunk = watcher.next_chunk().await?;
        Some((Ok(chunk), watcher))
    }))
}

impl<E: EventEncoder> Watcher<E> {
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
            None => self.begin_with_present(options),
        }
    }

    /// Lets the watch begin with what exists now, as if it had just been added.
    fn begin_with_present(&mut self, options: &ListOptions) -> Result<(), ApiError> {
        let range = Range { namespace: self.filter.namespace.clone(), ..Range::default() };
        let page = self.api.store().list(&self.resource.collection, &range).map_err(|_| expired(0, 0))?;
        self.seen = page.revision;
        self.present = page.objects.into_iter();
        self.present_end_due = options.send_initial_events == Some(true) && options.bookmarks;
        Ok(())
    }

    /// Waits for the next chunk; none when the watch is over.
    async fn next_chunk(&mut self) -> Option<Bytes> {
        loop {
            if self.over {
                return None;
            }
            let chunk = self.next_part();
            if !chunk.is_empty() {
                return Some(chunk);
            }
            if !self.behind {
                self.wait().await;
            }
        }
    }

    /// Returns what can be sent at once; empty if there is nothing.
    fn next_part(&mut self) -> Bytes {
        let present = self.read_present();
        if !present.is_empty() {
            return present.into();
        }
        let events = if self.behind { self.read_on() } else { Ok(Bytes::new()) };
        match events {
            Ok(events) if events.is_empty() && !self.behind => self.due_bookmark().into(),
            Ok(events) => events,
            Err(TooOld { asked, oldest }) => {
                self.over = true;
                error_event(&expired(asked, oldest))
            }
        }
    }

    fn due_bookmark(&mut self) -> Vec<u8> {
        let mut bookmark = Vec::new();
        if std::mem::take(&mut self.bookmark_due) {
            self.bookmark(false, &mut bookmark);
        }
        bookmark
    }

    /// Reads the next part of what was there at the beginning, and the mark at its end.
    fn read_present(&mut self) -> Vec<u8> {
        let mut chunk = Vec::new();
        for object in self.present.by_ref().filter(|object| self.filter.matches(object)) {
            self.encoder.event("ADDED", &self.resource, &object, &mut chunk);
            if chunk.len() > CHUNK_BYTES {
                return chunk;
            }
        }
        if std::mem::take(&mut self.present_end_due) {
            self.bookmark(true, &mut chunk);
        }
        chunk
    }

    /// Reads the next part of the log; empty if nothing of it is to be seen.
    fn read_on(&mut self) -> Result<Bytes, TooOld> {
        self.changed.mark_unchanged();
        let batch = self.api.store().events(&self.resource.collection, self.seen, CHUNK_EVENTS)?;
        let mut chunk = Vec::new();
        for event in &batch.events {
            match Sight::of_event(event, &self.filter) {
                None => {}
                // The usual case, and one line for all who watch.
                Some(Sight::Whole(kind)) if batch.events.len() == 1 => {
                    self.caught_up(&batch);
                    return Ok(self.encoder.line(kind, &self.resource, event));
                }
                Some(Sight::Whole(kind)) => self.encoder.event(kind, &self.resource, &event.object, &mut chunk),
                Some(Sight::Left(object)) => self.encoder.event("DELETED", &self.resource, &object, &mut chunk),
            }
            if chunk.len() > CHUNK_BYTES {
                self.seen = event.revision();
                return Ok(chunk.into());
            }
        }
        self.caught_up(&batch);
        Ok(chunk.into())
    }

    fn caught_up(&mut self, batch: &Events) {
        self.seen = batch.complete_to;
        self.behind = batch.events.len() == CHUNK_EVENTS;
    }

    /// Waits until something may have happened: a change, a bookmark that is due, the end.
    async fn wait(&mut self) {
        tokio::select! {
            changed = self.changed.changed() => {
                self.over |= changed.is_err();
                self.behind = true;
            }
            () = &mut self.stopping => self.over = true,
            () = &mut self.alarm => self.ring(),
        }
    }

    fn ring(&mut self) {
        let now = self.alarm.deadline();
        self.over |= now >= self.ends;
        if !self.over {
            // Reads on first: a bookmark says how far the store is, not when this collection last changed.
            (self.bookmark_due, self.behind) = (true, true);
            self.alarm.as_mut().reset(alarm(now, self.ends, self.bookmarks));
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
enum Sight {
    /// The event's object, and what happened to it.
    Whole(&'static str),
    /// It is still there but out of sight: what was last seen of it, at the revision of the change.
    Left(Object),
}

impl Sight {
    fn of_event(event: &Event, filter: &Filter) -> Option<Self> {
        let before = event.before.as_ref().filter(|object| filter.matches(object));
        let after = event.kind != EventKind::Deleted && filter.matches(&event.object);
        match (before, after) {
            (None, true) => Some(Self::Whole("ADDED")),
            (Some(_), true) => Some(Self::Whole("MODIFIED")),
            (Some(_), false) if event.kind == EventKind::Deleted => Some(Self::Whole("DELETED")),
            (Some(seen), false) => Some(Self::Left(seen.at_revision(event.revision()))),
            (None, false) => None,
        }
    }
}

/// When a watch next has something to do by itself.
fn alarm(now: Instant, ends: Instant, bookmarks: bool) -> Instant {
    if bookmarks { ends.min(now + BOOKMARK_EVERY) } else { ends }
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
