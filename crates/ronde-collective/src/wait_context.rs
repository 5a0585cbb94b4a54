//! What the threads of this process tell the one that drives a group: that it must end, whether somebody waits, and
//! what is to be done about a wait in the middle of an operation that lasts too long.

use std::{
    cell::Cell,
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{
    clock,
    error::{Error, Result},
    types::Rank,
};

/// How often a wait looks up in the middle of an operation: Ctrl-C and stalls may go unheard for so long.
const LOOK_EVERY: Duration = Duration::from_millis(50);

thread_local! {
    /// Whether this thread's caller wants its waits to end.
    static IS_INTERRUPTED: Cell<Option<fn() -> bool>> = const { Cell::new(None) };
}

/// Does something whose waits end when `is_interrupted`, which is asked in this thread.
pub(crate) fn unless<T>(is_interrupted: fn() -> bool, act: impl FnOnce() -> T) -> T {
    struct Before(Option<fn() -> bool>);
    impl Drop for Before {
        fn drop(&mut self) {
            IS_INTERRUPTED.set(self.0);
        }
    }
    let _before = Before(IS_INTERRUPTED.replace(Some(is_interrupted)));
    act()
}

/// Shared by a group's callers and its connections.
#[derive(Debug, Default)]
pub(crate) struct WaitContext {
    is_closing: AtomicBool,
    waiting: AtomicUsize,
    /// None until the group is at work.
    overseer: OnceLock<Arc<dyn Overseer>>,
}

/// Who judges a wait in the middle of an operation.
pub(crate) trait Overseer: fmt::Debug + Send + Sync {
    /// Nothing has moved for so long, and these are waited for; an error ends the wait.
    fn look(&self, still_for: Duration, awaited: &[Rank]) -> Result<()>;
}

/// A wait in the middle of an operation, where no round is heard in which stalls could be looked for.
#[derive(Debug)]
pub(crate) struct Stillness {
    since: Instant,
    looked: Instant,
    has_moved: bool,
}

impl Stillness {
    pub(crate) fn begin() -> Self {
        let now = clock::now();
        Self { since: now, looked: now, has_moved: false }
    }

    pub(crate) fn moved(&mut self) {
        self.has_moved = true;
    }

    /// Whether it is time to look up.
    fn is_due(&mut self) -> bool {
        let now = clock::now();
        if now.saturating_duration_since(self.looked) < LOOK_EVERY {
            return false;
        }
        self.looked = now;
        if std::mem::take(&mut self.has_moved) {
            self.since = now;
        }
        true
    }
}

impl WaitContext {
    /// Every wait of the group ends.
    pub(crate) fn close(&self) {
        self.is_closing.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::SeqCst)
    }

    /// Says who judges long waits; the first one stays.
    pub(crate) fn oversee(&self, overseer: Arc<dyn Overseer>) {
        let _ = self.overseer.set(overseer);
    }

    /// Called by a wait whenever it wakes up; fails if there is no point in going on.
    pub(crate) fn look(&self, stillness: &mut Stillness, awaited: impl FnOnce() -> Vec<Rank>) -> Result<()> {
        if !stillness.is_due() {
            return Ok(());
        }
        if IS_INTERRUPTED.get().is_some_and(|is_interrupted| is_interrupted()) {
            return Err(Error::Interrupted);
        }
        let still_for = stillness.looked.saturating_duration_since(stillness.since);
        self.overseer.get().map_or(Ok(()), |overseer| overseer.look(still_for, &awaited()))
    }

    /// Whether a caller has nothing else to do than to wait: only then is it worth staying awake for the others.
    /// While callers compute, the processor is theirs.
    pub(crate) fn are_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Says that a caller waits, until what is returned is dropped.
    pub(crate) fn begin_to_wait(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(self)
    }
}

/// A caller that waits.
pub(crate) struct Waiting<'a>(&'a WaitContext);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}
