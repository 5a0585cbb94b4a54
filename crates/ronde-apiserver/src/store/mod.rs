//! The objects of the cluster: durable in redb, read from memory, watched by revision.
//!
//! [`Store`] is the only owner of state that must survive. A write is a [`Change`] with an expectation on the current
//! revision; changes that arrive together share one disk sync (see `commit`), and each gets a revision of its own. A
//! change is answered only when it is on disk, and readers see it only then. Reads hold the lock for as long as it takes
//! to clone some `Arc`s. History for watches and consistent pages is a bounded log in memory (see `history`).
//!
//! Knows nothing of kinds, schemas or HTTP.

mod commit;
mod disk;
mod file;
mod history;
mod import;
mod object;
#[cfg(test)]
pub(crate) mod power_loss;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, ops::Bound, path::Path, sync::Arc};

use parking_lot::RwLock;
use tokio::sync::watch;

use self::{commit::Committer, disk::Disk, history::History};
pub use self::{
    commit::{Change, CommitError, Expect, Written},
    disk::OpenError,
    history::{Event, EventKind},
    import::Import,
    object::{Draft, Key, Meta, NamespacedName, Object, Owner, Revision},
};

/// A handle on the store; clones share it.
#[derive(Clone)]
pub struct Store {
    /// Written by the committer only.
    state: Arc<RwLock<State>>,
    committer: Arc<Committer>,
}

/// Everything readers see.
#[derive(Default)]
struct State {
    revision: Revision,
    /// The revision at which this process started: the log knows nothing from before.
    start: Revision,
    collections: BTreeMap<Arc<str>, Collection>,
    /// When a collection was last forgotten: of one that is not there, nothing is known up to here.
    forgotten: Revision,
    /// The newest revision of all; the loops of the server wait on it.
    changed: watch::Sender<Revision>,
}

/// All objects of one resource, in list order, and what happened to them lately.
struct Collection {
    objects: BTreeMap<NamespacedName, Arc<Object>>,
    history: History,
    /// A revision not older than this collection's newest; watchers wait on it.
    changed: watch::Sender<Revision>,
}

/// A part of a collection as it was at one revision.
#[derive(Debug)]
pub struct Page {
    pub revision: Revision,
    pub objects: Vec<Arc<Object>>,
}

/// Everything at one revision.
#[derive(Debug)]
pub struct Snapshot {
    pub revision: Revision,
    /// Each with its collection.
    pub objects: Vec<(Arc<str>, Arc<Object>)>,
}

/// Which part of a collection is asked for.
#[derive(Debug, Clone, Default)]
pub struct Range {
    /// All namespaces when absent.
    pub namespace: Option<Arc<str>>,
    /// Only what stands after this place.
    pub after: Option<NamespacedName>,
    /// As it was at this revision; the newest when absent.
    pub at: Option<Revision>,
}

/// The log no longer reaches back to the revision that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooOld {
    pub asked: Revision,
    pub oldest: Revision,
}

/// What happened after a revision.
#[derive(Debug)]
pub struct Events {
    /// Oldest first.
    pub events: Vec<Arc<Event>>,
    /// The revision up to which nothing is missing.
    pub complete_to: Revision,
}

impl Store {
    /// Opens the store in a file, or makes it.
    ///
    /// # Errors
    /// If the file cannot be opened, is in use, or is damaged.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        Self::with_disk(Disk::open(path)?)
    }

    /// A store that forgets everything when dropped; the same code without a file.
    ///
    /// # Errors
    /// If the memory backend cannot be set up.
    pub fn in_memory() -> Result<Self, OpenError> {
        Self::with_disk(Disk::in_memory()?)
    }

    fn with_disk(disk: Disk) -> Result<Self, OpenError> {
        let (revision, objects) = disk.load()?;
        let mut state = State { revision, start: revision, ..State::default() };
        for (key, object) in objects {
            state.collection(&key.collection).objects.insert(key.place, Arc::new(object));
        }
        let state = Arc::new(RwLock::new(state));
        Ok(Self { committer: Arc::new(Committer::new(disk, state.clone())), state })
    }

    /// Makes a change durable and visible, and returns the object as written.
    ///
    /// # Errors
    /// If the expectation does not hold, or the disk refuses. Nothing has changed then.
    pub async fn commit(&self, change: Change) -> Result<Written, CommitError> {
        self.committer.clone().commit(change).await
    }

    pub fn revision(&self) -> Revision {
        self.state.read().revision
    }

    pub fn get(&self, key: &Key) -> Option<Arc<Object>> {
        self.state.read().get(key).cloned()
    }

    /// Returns the objects of a collection in `range`.
    ///
    /// # Errors
    /// If they are asked for at a revision that the log no longer covers.
    pub fn list(&self, collection: &str, range: &Range) -> Result<Page, TooOld> {
        let state = self.state.read();
        let revision = range.at.unwrap_or(state.revision);
        let Some(contents) = state.collections.get(collection) else {
            History::after_forgetting(state.forgotten).reaches(revision, state.start)?;
            return Ok(Page { revision, objects: Vec::new() });
        };
        let objects = if revision >= state.revision {
            contents.range(range).map(|(_, object)| object.clone()).collect()
        } else {
            contents.range_before(range, revision, state.start)?
        };
        Ok(Page { revision, objects })
    }

    /// Returns everything as it is at this moment; writes go on meanwhile.
    pub fn snapshot(&self) -> Snapshot {
        let state = self.state.read();
        let of = |(name, contents): (&Arc<str>, &Collection)| {
            contents.objects.values().map(|object| (name.clone(), object.clone())).collect::<Vec<_>>()
        };
        Snapshot { revision: state.revision, objects: state.collections.iter().flat_map(of).collect() }
    }

    /// Returns how many objects each collection holds.
    pub fn counts(&self) -> BTreeMap<Arc<str>, usize> {
        self.state.read().collections.iter().map(|(name, c)| (name.clone(), c.objects.len())).collect()
    }

    /// Returns how many watches wait for changes.
    pub fn watches(&self) -> usize {
        self.state.read().collections.values().map(|contents| contents.changed.receiver_count()).sum()
    }

    /// Returns how many transactions were made durable since the start.
    pub fn transactions(&self) -> u64 {
        self.committer.transactions()
    }

    /// Returns the size of the file; none in memory.
    pub fn file_bytes(&self) -> Option<u64> {
        self.committer.file_bytes()
    }

    /// Returns what happened to a collection after `since`, at most `limit` events.
    ///
    /// # Errors
    /// If some of it has already been forgotten.
    pub fn events(&self, collection: &str, since: Revision, limit: usize) -> Result<Events, TooOld> {
        let state = self.state.read();
        let events = match state.collections.get(collection) {
            Some(contents) => contents.history.after(since, state.start, limit)?,
            None => History::after_forgetting(state.forgotten).after(since, state.start, limit)?,
        };
        let newest = events.last().map_or(since, |event| event.revision());
        let complete_to = if events.len() < limit { state.revision.max(since) } else { newest };
        Ok(Events { events, complete_to })
    }

    /// Frees what is kept of a collection that will not be asked for any more. Its watches end.
    pub fn forget(&self, collection: &str) {
        let mut state = self.state.write();
        if state.collections.get(collection).is_some_and(|contents| contents.objects.is_empty()) {
            state.collections.remove(collection);
            state.forgotten = state.revision;
        }
    }

    /// Whether writes can be made durable; after one that could not, this tries to.
    pub async fn is_writable(&self) -> bool {
        self.committer.clone().is_writable().await
    }

    /// Returns a signal that carries the newest revision of all collections.
    pub fn any_change(&self) -> watch::Receiver<Revision> {
        self.state.read().changed.subscribe()
    }

    /// Returns a signal that changes after every change of a collection.
    pub fn changes(&self, collection: &Arc<str>) -> watch::Receiver<Revision> {
        if let Some(contents) = self.state.read().collections.get(collection) {
            return contents.changed.subscribe();
        }
        self.state.write().collection(collection).changed.subscribe()
    }
}

impl State {
    fn get(&self, key: &Key) -> Option<&Arc<Object>> {
        self.collections.get(&key.collection)?.objects.get(&key.place)
    }

    fn collection(&mut self, name: &Arc<str>) -> &mut Collection {
        self.collections.entry(name.clone()).or_insert_with(|| Collection::new(self.forgotten))
    }

    /// Makes one durable write visible: the object and the log.
    fn publish(&mut self, key: &Key, kind: EventKind, object: Arc<Object>) {
        self.revision = object.revision;
        let contents = self.collection(&key.collection);
        let before = match kind {
            EventKind::Deleted => contents.objects.remove(&key.place),
            EventKind::Added | EventKind::Modified => contents.objects.insert(key.place.clone(), object.clone()),
        };
        contents.history.push(Event::new(kind, object, before));
    }

    /// Wakes those who wait for changes of some collections.
    fn announce<'a>(&self, collections: impl Iterator<Item = &'a Arc<str>>) {
        for contents in collections.filter_map(|name| self.collections.get(name)) {
            contents.changed.send_replace(self.revision);
        }
        self.changed.send_replace(self.revision);
    }
}

impl Collection {
    fn new(forgotten: Revision) -> Self {
        let history = History::after_forgetting(forgotten);
        Self { objects: BTreeMap::new(), history, changed: watch::Sender::new(0) }
    }

    fn range<'a>(&'a self, range: &'a Range) -> impl Iterator<Item = (&'a NamespacedName, &'a Arc<Object>)> {
        let from = match (&range.after, &range.namespace) {
            (Some(place), _) => Bound::Excluded(place.clone()),
            (None, Some(namespace)) => Bound::Included(NamespacedName::new(namespace, "")),
            (None, None) => Bound::Unbounded,
        };
        let within =
            |place: &NamespacedName| range.namespace.as_ref().is_none_or(|namespace| *namespace == place.namespace);
        self.objects.range((from, Bound::Unbounded)).take_while(move |(place, _)| within(place))
    }

    /// The same as [`Collection::range`], as it was at an earlier revision.
    fn range_before(&self, range: &Range, revision: Revision, start: Revision) -> Result<Vec<Arc<Object>>, TooOld> {
        let undo = self.history.undo(revision, start)?;
        let mut then: BTreeMap<&NamespacedName, &Arc<Object>> = self.range(range).collect();
        for (place, before) in &undo {
            match before {
                Some(object) if range.contains(place) => drop(then.insert(place, object)),
                _ => drop(then.remove(place)),
            }
        }
        Ok(then.into_values().cloned().collect())
    }
}

impl Range {
    fn contains(&self, place: &NamespacedName) -> bool {
        self.namespace.as_ref().is_none_or(|namespace| *namespace == place.namespace)
            && self.after.as_ref().is_none_or(|after| place > after)
    }
}
