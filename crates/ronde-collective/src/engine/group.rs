//! The ranks of a process set at work: callers put requests in, and one thread at a time drives them.
//!
//! A caller that waits drives the group itself if nobody else does, so that a synchronous operation needs no other
//! thread. What nobody waits for is driven by a helper thread, which sleeps while there is nothing to do.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use super::{
    device::{Batches, DeviceBatch},
    driver::{Driver, Entry},
    handle::{Callback, Completion, Handle},
    work::{Done, Work},
};
use crate::{
    clock,
    comm::Bell,
    error::{Error, Result},
    metrics::Metrics,
    types::{Rank, SetId},
    wait_context::WaitContext,
};

/// Requests that may be in flight at once; a training step has thousands at most.
const IN_FLIGHT_MAX: usize = 1 << 20;

/// For so long a name stays taken even if its operation is done, unless the caller has looked: two calls with one name,
/// one after the other, are a mistake that must not go unnoticed only because the first was quick. A cycle of Horovod.
const NAME_HELD: Duration = Duration::from_millis(1);

/// For so long a device's failure may turn out to be that of a peer, whose end is noticed once its process is gone.
const BROKEN_FOR: Duration = Duration::from_secs(1);

/// One process set, on one of its members.
#[derive(Debug)]
pub(crate) struct Group {
    pub(super) ranks: Vec<Rank>,
    /// Owned by callers for a moment each; the driver empties it.
    inbox: Mutex<Inbox>,
    has_new: AtomicBool,
    /// Requests that are not done.
    pending: AtomicUsize,
    /// Owned by the thread that drives.
    driver: Mutex<Driver>,
    bell: Bell,
    wait_context: Arc<WaitContext>,
    pub(super) metrics: Arc<Metrics>,
    helper: Helper,
    /// What is to be done on devices.
    batches: Batches,
    is_broken: AtomicBool,
    this: Weak<Self>,
}

#[derive(Debug, Default)]
struct Inbox {
    new: Vec<Entry>,
    /// Names that are taken, and some that have become free.
    names: BTreeMap<Arc<str>, Name>,
    failed: Option<Error>,
    /// Why operations on a device cannot go on, and since when.
    broken: Option<(Error, Instant)>,
}

#[derive(Debug)]
struct Name {
    completion: Arc<Completion>,
    since: Instant,
    /// Nobody will take the result.
    is_abandoned: bool,
}

impl Name {
    /// Whether another operation may have the name. The result may still wait for whoever holds the handle.
    fn is_free(&self, now: Instant) -> bool {
        let is_old = now.saturating_duration_since(self.since) >= NAME_HELD;
        self.completion.is_done() && (is_old || self.completion.was_seen_done())
    }
}

#[derive(Debug, Default)]
struct Helper {
    is_wanted: Mutex<bool>,
    called: Condvar,
    is_busy: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Group {
    pub(super) fn new(driver: Driver) -> Arc<Self> {
        let comm = driver.comm();
        let (ranks, bell, wait_context) = (comm.ranks.clone(), comm.bell(), comm.wait_context());
        Arc::new_cyclic(|this| Self {
            ranks,
            inbox: Mutex::default(),
            has_new: AtomicBool::new(false),
            pending: AtomicUsize::new(0),
            bell,
            wait_context,
            metrics: driver.metrics(),
            driver: Mutex::new(driver),
            helper: Helper::default(),
            batches: Batches::default(),
            is_broken: AtomicBool::new(false),
            this: Weak::clone(this),
        })
    }

    /// Puts work in. The caller will wait at once if `is_awaited`: then nobody else needs to be woken.
    pub(super) fn submit(self: &Arc<Self>, work: Work, is_awaited: bool) -> Result<Handle> {
        let request = Arc::new(work.request(&self.ranks)?);
        let completion = Arc::new(Completion::default());
        let name = Arc::clone(&request.name);
        let entry = Entry::new(request, work, Arc::clone(&completion));
        self.put(entry)?;
        if !is_awaited {
            self.call_helper();
        }
        Ok(Handle { name, completion, group: Arc::clone(self) })
    }

    /// Puts work in whose result is handed to a callback; a refusal is too.
    pub(super) fn submit_with_callback(&self, work: Work, callback: Callback) {
        let request = match work.request(&self.ranks) {
            Ok(request) => Arc::new(request),
            Err(error) => return callback.0(Err(error)),
        };
        let (completion, name) = (Arc::new(Completion::with_callback(callback)), Arc::clone(&request.name));
        let entry = Entry::new(request, work, Arc::clone(&completion));
        if let Err(error) = self.put(entry) {
            completion.finish(Err(error));
            return completion.call_back();
        }
        // Nobody holds a handle, so the name is free as soon as the work is done.
        self.abandon(&name, &completion);
        self.call_helper();
    }

    pub(super) fn put(&self, entry: Entry) -> Result<()> {
        entry.check()?;
        let mut inbox = lock(&self.inbox);
        if let Some(error) = &inbox.failed {
            return Err(error.clone());
        }
        let is_free = |known: &Name| known.is_free(clock::now());
        if inbox.names.get(&entry.request.name).is_some_and(|known| !is_free(known)) {
            return Err(Error::Invalid(format!(
                "Requested to {} a tensor with the same name as another tensor that is currently being processed: `{}`; \
                 wait for that one with synchronize(), or give this one another name",
                entry.request.kind.to_string().to_lowercase(),
                entry.request.name
            )));
        }
        if inbox.names.len() >= IN_FLIGHT_MAX {
            inbox.names.retain(|_, known| !is_free(known));
        }
        if inbox.names.len() >= IN_FLIGHT_MAX {
            return Err(Error::Invalid(format!("more than {IN_FLIGHT_MAX} operations are in flight")));
        }
        let name = Name { completion: Arc::clone(&entry.completion), since: entry.since, is_abandoned: false };
        inbox.names.insert(Arc::clone(&entry.request.name), name);
        inbox.new.push(entry);
        self.pending.fetch_add(1, Ordering::SeqCst);
        self.has_new.store(true, Ordering::SeqCst);
        drop(inbox);
        self.bell.ring();
        Ok(())
    }

    /// Forgets a name: its result has been taken.
    pub(super) fn release(&self, name: &str, completion: &Arc<Completion>) {
        let mut inbox = lock(&self.inbox);
        // It may be another's by now.
        if inbox.names.get(name).is_some_and(|known| Arc::ptr_eq(&known.completion, completion)) {
            inbox.names.remove(name);
        }
    }

    /// The handle is gone: the name is free as soon as the work is done.
    pub(super) fn abandon(&self, name: &str, completion: &Arc<Completion>) {
        let mut inbox = lock(&self.inbox);
        if let Some(known) = inbox.names.get_mut(name).filter(|known| Arc::ptr_eq(&known.completion, completion)) {
            known.is_abandoned = true;
            if completion.is_done() {
                inbox.names.remove(name);
            }
        }
    }

    /// Called for everything that is done: by the driver, and by whoever works on a device, whom it may have given up.
    pub(super) fn finished(&self, name: &str, completion: &Completion, result: Result<Done>) {
        let mut inbox = lock(&self.inbox);
        if completion.is_done() {
            return;
        }
        if inbox.failed.is_none() {
            self.pending.fetch_sub(1, Ordering::SeqCst);
        }
        completion.finish(result);
        if inbox.names.get(name).is_some_and(|known| known.is_abandoned) {
            inbox.names.remove(name);
        }
        drop(inbox);
        completion.call_back();
    }

    /// Gives operations to whoever takes them.
    pub(super) fn put_device_batch(&self, batch: DeviceBatch) {
        self.batches.put(batch);
    }

    /// Where a batch says that it is done.
    pub(super) fn this(&self) -> Weak<Self> {
        Weak::clone(&self.this)
    }

    pub(super) fn take_device_batch(&self, timeout: Duration) -> Result<Option<DeviceBatch>> {
        let failed = lock(&self.inbox).failed.clone();
        // Peers that are done with everything may leave before this rank is.
        let timeout = match failed {
            Some(Error::Shutdown(Some(_))) => Duration::ZERO,
            Some(error) => return Err(error),
            None => timeout,
        };
        let batch = self.batches.take(timeout);
        if batch.is_none() {
            return failed.map_or(Ok(None), Err);
        }
        Ok(batch)
    }

    /// Ends the group for what a device could not do, unless it ends by itself: the reason may be a peer that is lost,
    /// and who that is, its connections know.
    pub(super) fn break_off(&self, reason: &str) {
        lock(&self.inbox).broken.get_or_insert_with(|| (Error::Device(reason.to_owned()), clock::now()));
        self.is_broken.store(true, Ordering::SeqCst);
        self.call_helper();
    }

    /// Whether it has ended in the middle of something, and not because ranks left.
    pub(super) fn is_broken(&self) -> bool {
        let inbox = lock(&self.inbox);
        inbox.broken.is_some() || inbox.failed.as_ref().is_some_and(|error| !matches!(error, Error::Shutdown(_)))
    }

    /// What the group ends by, if it is time.
    pub(super) fn broken(&self) -> Option<Error> {
        if !self.is_broken.load(Ordering::Relaxed) {
            return None;
        }
        let inbox = lock(&self.inbox);
        let (error, since) = inbox.broken.as_ref()?;
        (clock::now().saturating_duration_since(*since) >= BROKEN_FOR).then(|| error.clone())
    }

    pub(super) fn has_new(&self) -> bool {
        self.has_new.load(Ordering::SeqCst)
    }

    pub(super) fn take_new(&self) -> Vec<Entry> {
        if !self.has_new() {
            return Vec::new();
        }
        let mut inbox = lock(&self.inbox);
        self.has_new.store(false, Ordering::SeqCst);
        std::mem::take(&mut inbox.new)
    }

    /// Refuses everything from now on; returns what nobody has looked at.
    pub(super) fn refuse(&self, error: &Error) -> Vec<Entry> {
        let mut inbox = lock(&self.inbox);
        inbox.failed.get_or_insert_with(|| error.clone());
        // What goes on elsewhere needs nobody to drive.
        self.pending.store(0, Ordering::SeqCst);
        std::mem::take(&mut inbox.new)
    }

    /// Waits until a request is done or the time is over; tells which. Drives if nobody else does.
    pub(super) fn wait(&self, completion: &Completion, deadline: Option<Instant>) -> bool {
        let _waiting = self.wait_context.begin_to_wait();
        let is_over = || deadline.is_some_and(|deadline| clock::now() >= deadline);
        // What is done elsewhere would end unseen while this thread drives.
        let is_ours = || !completion.is_done() && !completion.is_elsewhere() && !is_over();
        while is_ours() {
            let Some(mut driver) = try_lock(&self.driver) else { break };
            driver.drive(self, deadline, || !is_ours());
            drop(driver);
            self.hand_over();
        }
        completion.is_done() || completion.wait(deadline)
    }

    /// Somebody else must drive what is left.
    fn hand_over(&self) {
        if self.pending.load(Ordering::SeqCst) > 0 && !self.helper.is_busy.load(Ordering::SeqCst) {
            self.call_helper_now();
        }
    }

    pub(super) fn call_helper(&self) {
        if !self.helper.is_busy.load(Ordering::SeqCst) {
            self.call_helper_now();
        }
    }

    fn call_helper_now(&self) {
        *lock(&self.helper.is_wanted) = true;
        self.helper.called.notify_one();
    }

    /// Starts the helper; it ends when the group is closed.
    pub(super) fn start_helper(self: &Arc<Self>, set: SetId) -> Result<()> {
        let group = Arc::clone(self);
        let name = format!("ronde-set-{}", set.0);
        let thread = thread::Builder::new().name(name).spawn(move || group.help());
        let thread = thread.map_err(|error| Error::Bootstrap(format!("cannot start a thread: {error}")))?;
        *lock(&self.helper.thread) = Some(thread);
        Ok(())
    }

    fn help(&self) {
        while self.wait_for_call() {
            self.helper.is_busy.store(true, Ordering::SeqCst);
            while self.pending.load(Ordering::SeqCst) > 0 && !self.is_closing() {
                let mut driver = lock(&self.driver);
                driver.drive(self, None, || self.pending.load(Ordering::SeqCst) == 0);
            }
            self.helper.is_busy.store(false, Ordering::SeqCst);
            // Somebody may have come in between, and seen us busy.
            self.hand_over();
        }
    }

    /// Sleeps until there is work; false when the group closes.
    fn wait_for_call(&self) -> bool {
        let mut is_wanted = lock(&self.helper.is_wanted);
        while !*is_wanted && !self.is_closing() {
            is_wanted = self.helper.called.wait(is_wanted).unwrap_or_else(PoisonError::into_inner);
        }
        *is_wanted = false;
        !self.is_closing()
    }

    pub(super) fn is_closing(&self) -> bool {
        self.wait_context.is_closing()
    }

    /// Ends everything: pending requests fail, peers hear a goodbye, the helper is joined.
    pub(crate) fn close(&self, error: &Error) {
        {
            // Under its lock, so that the helper cannot fall asleep after its last look.
            let _is_wanted = lock(&self.helper.is_wanted);
            self.wait_context.close();
        }
        self.helper.called.notify_all();
        self.bell.ring();
        let thread = lock(&self.helper.thread).take();
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != thread::current().id()) {
            let _ = thread.join();
        }
        lock(&self.driver).fail(self, error);
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_free_when_its_operation_is_done_and_the_caller_knows_or_had_the_time_to() {
        let since = clock::now();
        let completion = Arc::new(Completion::default());
        let name = Name { completion: Arc::clone(&completion), since, is_abandoned: false };
        let (at_once, later) = (since + NAME_HELD / 2, since + NAME_HELD);
        let is_free = || (name.is_free(at_once), name.is_free(later));
        assert_eq!(is_free(), (false, false), "in flight");
        completion.finish(Ok(Done::default()));
        assert_eq!(is_free(), (false, true), "done, but nobody has looked");
        assert!(completion.see_done());
        assert_eq!(is_free(), (true, true), "polled as done");
    }
}
