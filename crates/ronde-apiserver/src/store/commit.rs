//! Group commit: writes that arrive while the disk is busy share the next sync.
//!
//! The first writer to find nobody at work becomes the leader: on a blocking thread it takes what has queued up, checks
//! each change against what is visible plus what stands before it in the batch, gives each its revision, syncs once,
//! makes all of it visible, answers, and goes on until the queue is empty. A blocking task (rather than a thread of our
//! own) keeps a paused tokio clock still while a write is under way.

use std::{
    collections::{BTreeMap, BTreeSet},
    panic::{self, AssertUnwindSafe},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use parking_lot::{Mutex, RwLock, RwLockWriteGuard};
use tokio::sync::oneshot;

use super::{
    State,
    disk::{Disk, Row},
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
    #[error("the object already exists")]
    Exists,
    #[error("the object does not exist")]
    Missing,
    #[error("the object has changed")]
    Changed,
    #[error("the disk is full")]
    Full,
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
    /// What the last batch was about, if it failed: the file may have it or not. Touched by the leader only.
    doubtful: Mutex<Vec<Key>>,
    /// How many batches were made durable.
    transactions: AtomicU64,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Request>,
    /// Who wants to know whether the disk can be written to.
    probes: Vec<oneshot::Sender<()>>,
    led: bool,
}

struct Request {
    change: Change,
    answer: oneshot::Sender<Result<Written, CommitError>>,
}

impl Committer {
    pub(super) fn new(disk: Disk, state: Arc<RwLock<State>>) -> Self {
        let (failed, transactions) = (AtomicBool::new(false), AtomicU64::new(0));
        Self { disk, state, queue: Mutex::default(), failed, doubtful: Mutex::default(), transactions }
    }

    /// Whether writes can be made durable. After a failure this tries to.
    pub(super) async fn is_writable(self: Arc<Self>) -> bool {
        if !self.failed.load(Ordering::Relaxed) {
            return true;
        }
        let (answer, answered) = oneshot::channel();
        let committer = self.clone();
        committer.ask(|queue| queue.probes.push(answer));
        let _ = answered.await;
        !self.failed.load(Ordering::Relaxed)
    }

    pub(super) fn transactions(&self) -> u64 {
        self.transactions.load(Ordering::Relaxed)
    }

    pub(super) fn file_bytes(&self) -> Option<u64> {
        self.disk.file_bytes()
    }

    pub(super) async fn commit(self: Arc<Self>, change: Change) -> Result<Written, CommitError> {
        let (answer, answered) = oneshot::channel();
        self.ask(|queue| queue.waiting.push(Request { change, answer }));
        answered.await.unwrap_or(Err(CommitError::Closing))
    }

    /// Puts something into the queue, and sees to it that somebody works on it.
    fn ask(self: Arc<Self>, put: impl FnOnce(&mut Queue)) {
        let leads = {
            let mut queue = self.queue.lock();
            put(&mut queue);
            !std::mem::replace(&mut queue.led, true)
        };
        if leads {
            tokio::task::spawn_blocking(move || self.lead());
        }
    }

    /// Writes batches until nothing waits.
    fn lead(&self) {
        while let Some((batch, probes)) = self.next_batch() {
            // A bug below must leave nobody waiting: who was in the batch is answered by being dropped, and whoever
            // came meanwhile has a try of their own.
            if panic::catch_unwind(AssertUnwindSafe(|| self.work_on(batch, probes))).is_err() {
                self.failed.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Takes what waits; if nothing does, the next to come leads.
    fn next_batch(&self) -> Option<(Vec<Request>, Vec<oneshot::Sender<()>>)> {
        let mut queue = self.queue.lock();
        let count = queue.waiting.len().min(BATCH_MAX);
        if count == 0 && queue.probes.is_empty() {
            queue.led = false;
            return None;
        }
        Some((queue.waiting.drain(..count).collect(), std::mem::take(&mut queue.probes)))
    }

    fn work_on(&self, batch: Vec<Request>, probes: Vec<oneshot::Sender<()>>) {
        if !probes.is_empty() {
            let revision = self.state.read().revision;
            self.note(&self.make_durable(&[], revision));
        }
        for answer in probes {
            let _ = answer.send(());
        }
        self.write_batch(batch);
    }

    fn write_batch(&self, batch: Vec<Request>) {
        // 1. Check every change and give it its revision.
        let mut plan = CommitPlan::new(&self.state);
        let is_full = self.disk.is_full();
        let mut accepted = Vec::with_capacity(batch.len());
        for Request { change, answer } in batch {
            // On a full disk everything that is there can be changed and removed, and nothing is added.
            let is_refused = is_full && change.expect == Expect::Absent;
            let planned = if is_refused { Err(CommitError::Full) } else { plan.accept(change) };
            match planned {
                Ok(write) => accepted.push((write, answer)),
                Err(error) => drop(answer.send(Err(error))),
            }
        }
        if accepted.is_empty() {
            return;
        }
        // 2. Make them durable.
        let rows: Vec<_> = accepted.iter().map(|(write, _)| write.row()).collect();
        let durable = self.make_durable(&rows, plan.revision);
        self.note(&durable);
        if let Err(error) = durable {
            let error = Arc::new(error);
            for (_, answer) in accepted {
                let _ = answer.send(Err(CommitError::Disk(error.clone())));
            }
            return;
        }
        self.transactions.fetch_add(1, Ordering::Relaxed);
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

impl Committer {
    /// Writes rows. What a failed write may have left in the file is put right before.
    fn make_durable(&self, rows: &[Row<'_>], revision: Revision) -> Result<(), redb::Error> {
        let mut doubtful = self.doubtful.lock();
        if !doubtful.is_empty() {
            let state = self.state.read();
            let as_it_is: Vec<Row<'_>> =
                doubtful.iter().map(|key| (key, state.get(key).map(|object| &**object.raw()))).collect();
            self.disk.write(&as_it_is, state.revision)?;
        }
        doubtful.clear();
        let written = self.disk.write(rows, revision);
        if written.is_err() {
            doubtful.extend(rows.iter().map(|(key, _)| (*key).clone()));
        }
        written
    }

    /// Notes whether the disk can be written to, and says when that changes.
    fn note(&self, durable: &Result<(), redb::Error>) {
        let had_failed = self.failed.swap(durable.is_err(), Ordering::Relaxed);
        match durable {
            Err(error) => tracing::error!(%error, "cannot write to the store"),
            Ok(()) if had_failed => tracing::info!("the store can be written to again"),
            Ok(()) => {}
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
struct CommitPlan<'a> {
    state: &'a RwLock<State>,
    revision: Revision,
    /// Keys touched in this batch, with their revision, or none if removed.
    touched: BTreeMap<Key, Option<Revision>>,
}

impl<'a> CommitPlan<'a> {
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
