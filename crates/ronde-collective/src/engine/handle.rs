//! The caller's end of a request: asks whether it is done, waits for it, takes the result.

use std::{
    fmt,
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use super::{
    group::{Group, lock},
    work::Done,
};
use crate::{
    clock,
    error::{Error, Result},
    wait_context,
};

/// Where the engine puts a result.
#[derive(Debug, Default)]
pub(super) struct Completion {
    is_done: AtomicBool,
    /// It has been agreed, and somebody else does it.
    is_elsewhere: AtomicBool,
    /// The caller has asked, and was told that it is done.
    was_seen_done: AtomicBool,
    slot: Mutex<Slot>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Slot {
    result: Option<Result<Done>>,
    /// Who gets it instead of somebody who waits.
    callback: Option<Callback>,
    /// Who hears that it is there.
    notice: Option<Notice>,
    /// Who sleeps until it is there: waking nobody would cost a system call for every operation.
    sleepers: usize,
}

/// What is called with a result, once, by the thread that drives.
pub(super) struct Callback(pub(super) Box<dyn FnOnce(Result<Done>) + Send>);

impl fmt::Debug for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Callback")
    }
}

/// What is called once a result is there, by the thread that drives.
struct Notice(Box<dyn FnOnce() + Send>);

impl fmt::Debug for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notice")
    }
}

impl Completion {
    pub(super) fn with_callback(callback: Callback) -> Self {
        Self { slot: Mutex::new(Slot { callback: Some(callback), ..Slot::default() }), ..Self::default() }
    }

    /// Calls who wanted to be called. Not under a lock: the callee may put new work in.
    pub(super) fn call_back(&self) {
        let mut slot = lock(&self.slot);
        if let Some(notice) = slot.notice.take() {
            drop(slot);
            return notice.0();
        }
        if let Some(callback) = slot.callback.take() {
            let result = slot.result.take().unwrap_or(Err(Error::Shutdown(None)));
            drop(slot);
            callback.0(result);
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.is_done.load(Ordering::Acquire)
    }

    /// Driving the group does not bring it nearer to its end.
    pub(super) fn is_elsewhere(&self) -> bool {
        self.is_elsewhere.load(Ordering::Acquire)
    }

    pub(super) fn goes_elsewhere(&self) {
        self.is_elsewhere.store(true, Ordering::Release);
    }

    /// As [`Completion::is_done`], for the caller.
    pub(super) fn see_done(&self) -> bool {
        let is_done = self.is_done();
        if is_done {
            self.was_seen_done.store(true, Ordering::Release);
        }
        is_done
    }

    pub(super) fn was_seen_done(&self) -> bool {
        self.was_seen_done.load(Ordering::Acquire)
    }

    fn notify(&self, notice: Notice) {
        let mut slot = lock(&self.slot);
        if self.is_done() {
            drop(slot);
            return notice.0();
        }
        slot.notice = Some(notice);
    }

    pub(super) fn finish(&self, result: Result<Done>) {
        let mut slot = lock(&self.slot);
        slot.result = Some(result);
        self.is_done.store(true, Ordering::Release);
        if slot.sleepers > 0 {
            self.changed.notify_all();
        }
    }

    /// Waits without helping; tells whether it is done.
    pub(super) fn wait(&self, deadline: Option<Instant>) -> bool {
        let mut slot = lock(&self.slot);
        slot.sleepers += 1;
        while !self.is_done() {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(clock::now()));
            slot = match left {
                Some(Duration::ZERO) => break,
                Some(left) => self.changed.wait_timeout(slot, left).unwrap_or_else(PoisonError::into_inner).0,
                None => self.changed.wait(slot).unwrap_or_else(PoisonError::into_inner),
            };
        }
        slot.sleepers -= 1;
        self.is_done()
    }

    fn take_result(&self) -> Result<Done> {
        let result = lock(&self.slot).result.take();
        result.unwrap_or_else(|| Err(Error::Invalid("the result has already been taken".to_owned())))
    }
}

/// A request in flight. Its name is taken until the work is done and the caller knows: it has asked, has taken the
/// result or has dropped the handle; or a moment has passed.
#[derive(Debug)]
pub struct Handle {
    pub(super) name: Arc<str>,
    pub(super) completion: Arc<Completion>,
    pub(super) group: Arc<Group>,
}

impl Handle {
    /// Whether waiting would return at once.
    pub fn is_done(&self) -> bool {
        self.completion.see_done()
    }

    /// Waits for the result and takes it; nothing if the time is over before.
    pub fn wait(&self, timeout: Option<Duration>) -> Option<Result<Done>> {
        let begun = clock::now();
        let is_done = self.group.wait(&self.completion, timeout.map(|timeout| begun + timeout));
        self.group.metrics.waited(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
        if !is_done {
            return None;
        }
        self.group.release(&self.name, &self.completion);
        Some(self.completion.take_result())
    }
}

impl Handle {
    /// Calls `notice` once waiting would return at once: in this thread if it would already, else in the thread that
    /// drives. The engine stands still meanwhile, so it must not wait for anything. A second notice replaces the first.
    pub fn when_done(&self, notice: impl FnOnce() + Send + 'static) {
        self.completion.notify(Notice(Box::new(notice)));
    }

    /// As [`Handle::wait`], for a caller that can be interrupted: in the middle of an operation `is_interrupted` is
    /// asked now and then, in this thread, and the engine fails if it says so. Elsewhere the timeout is soon enough.
    pub fn wait_unless(&self, is_interrupted: fn() -> bool, timeout: Option<Duration>) -> Option<Result<Done>> {
        wait_context::unless(is_interrupted, || self.wait(timeout))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.group.abandon(&self.name, &self.completion);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_notice_comes_once_whether_it_was_asked_for_before_the_end_or_after() {
        let (sender, receiver) = mpsc::channel();
        let notice = |word: &'static str| {
            let sender = sender.clone();
            Notice(Box::new(move || sender.send(word).unwrap()))
        };
        let completion = Completion::default();
        completion.notify(notice("before"));
        assert!(receiver.try_recv().is_err(), "a notice of what is not done");
        completion.finish(Ok(Done::default()));
        completion.call_back();
        completion.call_back();
        completion.notify(notice("after"));
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), ["before", "after"]);
        assert!(completion.take_result().is_ok(), "a notice takes no result");
    }
}
