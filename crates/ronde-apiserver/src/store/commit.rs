//! Group commit: writes that arrive while the disk is busy share the next sync.
//!
//! The first writer to find nobody at work becomes the leader: on a blocking thread it takes what has queued up, checks
//! each change against what is visible plus what stands before it in the batch, gives each its revision, syncs once,
//! makes all of it visible, answers, and goes on until the queue is empty. A blocking task (rather than a thread of our
//! own) keeps a paused tokio clock still while a write is under way.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::{Mutex, RwLock, RwLockWriteGuard};
use tokio::sync::oneshot;

use super::{
    State,
    disk::Disk,
    history::EventKind,
    object::{Draft, Key, Object, Revision},
};

/// A sync takes about as long as preparing this many rows; larger batches only add latency.
const BATCH_MAX: usize = 256;

/// What a write expects to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    Absent,
    Revision(Revision),
}

/// A write to one object.
#[derive(Debug)]
pub struct Change {
    pub key: Key,
    pub expect: Expect,
    /// The new content; for a removal, the last state that watches will see.
    pub draft: Draft,
    pub removes: bool,
}

/// A write that is durable: the object as written or, for a removal, as it was last.
pub type Written = Arc<Object>;

/// Why a write did not happen. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    #[error("the object exists already")]
    Exists,
    #[error("the object does not exist")]
    Missing,
    #[error("the object has changed")]
    Changed,
    #[error("cannot write to the store")]
    Disk(#[source] Arc<redb::Error>),
    #[error("the store is closing or has failed")]
    Closing,
}

pub(super) struct Committer {
    disk: Disk,
    /// Shared with readers; only [`Committer::write_batch`] writes to it.
    state: Arc<RwLock<State>>,
    queue: Mutex<Queue>,
    /// Whether the last batch could not be made durable.
    failed: AtomicBool,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Request>,
    led: bool,
}

struct Request {
    change: Change,
    answer: oneshot::Sender<Result<Written, CommitError>>,
}

impl Committer {
    pub(super) fn new(disk: Disk, state: Arc<RwLock<State>>) -> Self {
        Self { disk, state, queue: Mutex::default(), failed: AtomicBool::new(false) }
    }

    pub(super) fn is_writable(&self) -> bool {
        !self.failed.load(Ordering::Relaxed)
    }

    pub(super) async fn commit(self: Arc<Self>, change: Change) -> Result<Written, CommitError> {
        let (answer, answered) = oneshot::channel();
        let leads = {
            let mut queue = self.queue.lock();
            queue.waiting.push(Request { change, answer });
            !std::mem::replace(&mut queue.led, true)
        };
        if leads {
            tokio::task::spawn_blocking(move || self.lead());
        }
        answered.await.unwrap_or(Err(CommitError::Closing))
    }

    /// Writes batches until nothing waits.
    fn lead(&self) {
        let _guard = Leading(self);
        loop {
            let batch = {
                let mut queue = self.queue.lock();
                let count = queue.waiting.len().min(BATCH_MAX);
                if count == 0 {
                    queue.led = false;
                    return;
                }
                queue.waiting.drain(..count).collect::<Vec<_>>()
            };
            self.write_batch(batch);
        }
    }

    fn write_batch(&self, batch: Vec<Request>) {
        // 1. Check every change and give it its revision.
        let mut plan = Plan::new(&self.state);
        let mut accepted = Vec::with_capacity(batch.len());
        for Request { change, answer } in batch {
            match plan.accept(change) {
                Ok(write) => accepted.push((write, answer)),
                Err(error) => drop(answer.send(Err(error))),
            }
        }
        if accepted.is_empty() {
            return;
        }
        // 2. Make them durable.
        let rows: Vec<_> = accepted.iter().map(|(write, _)| write.row()).collect();
        let durable = self.disk.write(&rows, plan.revision);
        self.failed.store(durable.is_err(), Ordering::Relaxed);
        if let Err(error) = durable {
            let error = Arc::new(error);
            tracing::error!(error = %error, "the store refuses to write");
            for (_, answer) in accepted {
                let _ = answer.send(Err(CommitError::Disk(error.clone())));
            }
            return;
        }
        // 3. Make them visible, then answer.
        let mut state = self.state.write();
        for (write, _) in &accepted {
            state.publish(&write.key, write.kind, write.object.clone());
        }
        let state = RwLockWriteGuard::downgrade(state);
        let mut collections = BTreeSet::new();
        for (write, answer) in accepted {
            let _ = answer.send(Ok(write.object));
            collections.insert(write.key.collection);
        }
        // 4. Wake the watchers; not sooner, for all of them want to read at once.
        state.announce(collections.iter());
    }
}

/// Held by the leader: if it panics, those who wait are answered, and the next writer leads.
struct Leading<'a>(&'a Committer);

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.failed.store(true, Ordering::Relaxed);
            let mut queue = self.0.queue.lock();
            queue.led = false;
            queue.waiting.clear();
        }
    }
}

/// A change that will happen when the batch is synced.
struct Write {
    key: Key,
    kind: EventKind,
    object: Arc<Object>,
}

/// The state as it will be after the changes accepted so far.
struct Plan<'a> {
    state: &'a RwLock<State>,
    revision: Revision,
    /// Keys touched in this batch, with their revision, or none if removed.
    touched: BTreeMap<Key, Option<Revision>>,
}

impl<'a> Plan<'a> {
    fn new(state: &'a RwLock<State>) -> Self {
        Self { state, revision: state.read().revision, touched: BTreeMap::new() }
    }

    fn accept(&mut self, change: Change) -> Result<Write, CommitError> {
        let current = self.current(&change.key);
        let kind = match (change.expect, current) {
            (Expect::Absent, None) => EventKind::Added,
            (Expect::Absent, Some(_)) => return Err(CommitError::Exists),
            (Expect::Revision(_), None) => return Err(CommitError::Missing),
            (Expect::Revision(expected), Some(found)) if expected != found => return Err(CommitError::Changed),
            (Expect::Revision(_), Some(_)) if change.removes => EventKind::Deleted,
            (Expect::Revision(_), Some(_)) => EventKind::Modified,
        };
        self.revision += 1;
        let object = Arc::new(change.draft.at(self.revision));
        self.touched.insert(change.key.clone(), (!change.removes).then_some(self.revision));
        Ok(Write { key: change.key, kind, object })
    }

    fn current(&self, key: &Key) -> Option<Revision> {
        match self.touched.get(key) {
            Some(touched) => *touched,
            None => self.state.read().get(key).map(|object| object.revision),
        }
    }
}

impl Write {
    fn row(&self) -> (&Key, Option<&[u8]>) {
        (&self.key, (self.kind != EventKind::Deleted).then(|| &**self.object.raw()))
    }
}
