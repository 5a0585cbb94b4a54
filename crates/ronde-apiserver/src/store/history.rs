//! What happened lately in one collection: a bounded log that watches read and consistent pages rewind.
//!
//! The log is a cache, not state: after a restart it is empty, and clients with an older revision are told to list anew.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use super::{
    TooOld,
    object::{Object, Place, Revision},
};

/// A reflector that reconnects within a minute at 100 writes a second still finds its place.
const EVENTS_MAX: usize = 10_000;

/// The same bound in bytes, for collections of large objects: 16 MiB is five objects of the largest size allowed.
const BYTES_MAX: usize = 16 << 20;

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
    pub fn revision(&self) -> Revision {
        self.object.revision
    }
}

impl History {
    pub(super) fn push(&mut self, event: Event) {
        self.bytes += event.object.raw().len();
        self.events.push_back(Arc::new(event));
        while self.events.len() > EVENTS_MAX || (self.bytes > BYTES_MAX && self.events.len() > 1) {
            let Some(oldest) = self.events.pop_front() else { break };
            self.bytes -= oldest.object.raw().len();
            self.forgotten = oldest.revision();
        }
    }

    /// Returns the events after `since`, at most `limit`. The log knows nothing from before `start`.
    pub(super) fn after(&self, since: Revision, start: Revision, limit: usize) -> Result<Vec<Arc<Event>>, TooOld> {
        self.reaches(since, start)?;
        let first = self.events.partition_point(|event| event.revision() <= since);
        Ok(self.events.range(first..).take(limit).cloned().collect())
    }

    /// Undoes all events after `revision` on the keys they touched: absent means the key did not exist then.
    pub(super) fn undo(
        &self,
        revision: Revision,
        start: Revision,
    ) -> Result<BTreeMap<Place, Option<Arc<Object>>>, TooOld> {
        self.reaches(revision, start)?;
        let later = self.events.iter().rev().take_while(|event| event.revision() > revision);
        Ok(later.map(|event| (event.object.place.clone(), event.before.clone())).collect())
    }

    fn reaches(&self, since: Revision, start: Revision) -> Result<(), TooOld> {
        let oldest = self.forgotten.max(start);
        if since < oldest { Err(TooOld { asked: since, oldest }) } else { Ok(()) }
    }
}
