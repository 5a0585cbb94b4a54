//! What happened lately in one collection: a bounded log that watches read and consistent pages rewind.
//!
//! The log is a cache, not state: after a restart it is empty, and clients with an older revision are told to list anew.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use bytes::Bytes;
use parking_lot::Mutex;

use super::{
    TooOld,
    object::{NamespacedName, Object, Revision},
};

/// A reflector that reconnects within a minute at 100 writes a second still finds its place.
const EVENTS_MAX: usize = 10_000;

/// The same bound in bytes, for collections of large objects. An update counts with the state before it, so this is
/// five updates of objects of the largest size allowed.
const BYTES_MAX: usize = 32 << 20;

/// So many events from the end are looked at before the log is searched.
const NEAR_EVENTS: usize = 8;

/// What a write did to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    Added,
    Modified,
    Deleted,
}

/// One write, as watches see it.
#[derive(Debug)]
pub struct Event {
    pub kind: EventKind,
    /// The object after the write; for a deletion its last state, at the revision of the deletion.
    pub object: Arc<Object>,
    /// The object before the write; absent when it was added.
    pub before: Option<Arc<Object>>,
    /// What watchers are sent of it, made by the first of them for all. Kept while the event is the newest one.
    line: Mutex<Option<Bytes>>,
}

/// The log of a collection, oldest first.
#[derive(Default)]
pub(super) struct History {
    events: VecDeque<Arc<Event>>,
    bytes: usize,
    /// The newest revision that has been dropped.
    forgotten: Revision,
}

impl Event {
    pub(super) fn new(kind: EventKind, object: Arc<Object>, before: Option<Arc<Object>>) -> Self {
        Self { kind, object, before, line: Mutex::default() }
    }

    /// Returns the bytes that another watcher has made of this event if they fit, and makes them otherwise.
    pub fn line(&self, fits: impl FnOnce(&[u8]) -> bool, make: impl FnOnce() -> Bytes) -> Bytes {
        let mut line = self.line.lock();
        match &*line {
            Some(made) if fits(made) => made.clone(),
            _ => line.insert(make()).clone(),
        }
    }

    pub fn revision(&self) -> Revision {
        self.object.revision
    }

    /// How much memory the event may keep from being freed. Of two updates in a row both keep the state in between.
    fn bytes(&self) -> usize {
        self.object.raw().len() + self.before.as_ref().map_or(0, |before| before.raw().len())
    }
}

impl History {
    /// An empty log of a collection about which nothing is known up to a revision.
    pub(super) fn after_forgetting(forgotten: Revision) -> Self {
        Self { forgotten, ..Self::default() }
    }

    pub(super) fn push(&mut self, event: Event) {
        self.bytes += event.bytes();
        if let Some(newest) = self.events.back() {
            *newest.line.lock() = None;
        }
        self.events.push_back(Arc::new(event));
        while self.events.len() > EVENTS_MAX || (self.bytes > BYTES_MAX && self.events.len() > 1) {
            let Some(oldest) = self.events.pop_front() else { break };
            self.bytes -= oldest.bytes();
            self.forgotten = oldest.revision();
        }
    }

    /// Returns the events after `since`, at most `limit`. The log knows nothing from before `start`.
    pub(super) fn after(&self, since: Revision, start: Revision, limit: usize) -> Result<Vec<Arc<Event>>, TooOld> {
        self.reaches(since, start)?;
        // Most who ask have seen all but the last few.
        let new = self.events.iter().rev().take(NEAR_EVENTS).take_while(|event| event.revision() > since).count();
        let first = match new {
            NEAR_EVENTS => self.events.partition_point(|event| event.revision() <= since),
            _ => self.events.len() - new,
        };
        Ok(self.events.range(first..).take(limit).cloned().collect())
    }

    /// Undoes all events after `revision` on the keys they touched: absent means the key did not exist then.
    pub(super) fn undo(
        &self,
        revision: Revision,
        start: Revision,
    ) -> Result<BTreeMap<NamespacedName, Option<Arc<Object>>>, TooOld> {
        self.reaches(revision, start)?;
        let later = self.events.iter().rev().take_while(|event| event.revision() > revision);
        Ok(later.map(|event| (event.object.place.clone(), event.before.clone())).collect())
    }

    /// # Errors
    /// If something may have happened after `since` that has been forgotten.
    pub(super) fn reaches(&self, since: Revision, start: Revision) -> Result<(), TooOld> {
        let oldest = self.forgotten.max(start);
        if since < oldest { Err(TooOld { asked: since, oldest }) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Draft;

    fn object(revision: Revision, filler: usize) -> Arc<Object> {
        Arc::new(Draft::new(&serde_json::json!({"metadata": {"name": "a"}, "x": "x".repeat(filler)})).at(revision))
    }

    fn event(revision: Revision) -> Event {
        Event::new(EventKind::Modified, object(revision, 0), None)
    }

    #[test]
    fn what_an_event_replaced_counts_too() {
        let mut history = History::default();
        let (large, updates) = (1 << 20, 100);
        for revision in 1..=updates {
            let (before, after) = (object(revision, large), object(revision + updates, large));
            history.push(Event::new(EventKind::Modified, after, Some(before)));
        }
        let held: usize = history.events.iter().map(|event| event.bytes()).sum();
        assert!(held <= BYTES_MAX && held > BYTES_MAX / 2, "{} events hold {held} bytes", history.events.len());
        assert_eq!(history.bytes, held);
    }

    #[test]
    fn who_asks_gets_all_that_is_newer_from_wherever_it_stands() {
        let mut history = History::default();
        // Every other revision went to another collection.
        let revisions = || (1..=3 * NEAR_EVENTS as Revision).map(|number| 2 * number);
        revisions().for_each(|revision| history.push(event(revision)));
        for since in 0..=8 * NEAR_EVENTS as Revision {
            let found = history.after(since, 0, 5).expect("all of it is kept");
            let found: Vec<Revision> = found.iter().map(|event| event.revision()).collect();
            assert_eq!(found, revisions().filter(|revision| *revision > since).take(5).collect::<Vec<_>>(), "{since}");
        }
    }

    #[test]
    fn a_line_is_shared_by_all_it_fits_while_its_event_is_the_newest() {
        let mut history = History::default();
        history.push(event(2));
        let events = history.after(1, 1, 10).expect("it is kept");
        let ask = |form: &'static str| events[0].line(|made| made == form.as_bytes(), || form.into());
        let first = ask("a");
        assert_eq!(ask("a").as_ptr(), first.as_ptr(), "made once");
        assert_eq!(ask("b"), "b", "another form is made anew");
        history.push(event(3));
        assert_eq!(*events[0].line.lock(), None, "an older event costs nothing");
        assert_eq!(ask("a"), "a", "and can still be asked");
    }
}
