//! What the threads of this process tell the one that drives a group: that it must end, and whether somebody waits.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Shared by a group's callers and its connections.
#[derive(Debug, Default)]
pub(crate) struct Callers {
    is_closing: AtomicBool,
    waiting: AtomicUsize,
}

impl Callers {
    /// Every wait of the group ends.
    pub(crate) fn close(&self) {
        self.is_closing.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::SeqCst)
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
pub(crate) struct Waiting<'a>(&'a Callers);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}
