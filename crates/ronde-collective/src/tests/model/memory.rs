//! Memory as loom sees it, in the shape of the crate's own.
//!
//! Bytes lie in real memory; who looks at them is noted, eight at a time, and a look that nothing orders after or
//! before a change of them is a failure. All members of a model are one thread of the machine, so the fault that is
//! put in is that thread's.

use std::{
    cell::Cell,
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use loom::{
    cell::UnsafeCell,
    sync::{self, Condvar, atomic},
};

pub(crate) use loom::sync::atomic::Ordering;

/// So small that a few steps use every place again.
pub(crate) const DEPTH: usize = 2;
pub(crate) const BLOCK: usize = 64;
pub(crate) const BLOCK_MIN: usize = 64;
pub(crate) const RING_MAX: usize = 16;
pub(crate) const RING_MIN: usize = 16;
/// What one note about bytes is for.
const GRAIN: usize = 8;

/// What the protocol may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// What is published may be seen before what was written.
    Release,
    /// What was published may be read too early.
    Acquire,
    /// Sleepers and those who ring may miss each other.
    Fence,
    /// Nobody is woken.
    Wake,
}

thread_local! {
    static FAULT: Cell<Option<Fault>> = const { Cell::new(None) };
}

/// Puts a fault into all that this thread models from now on.
pub(crate) fn put_in(fault: Fault) {
    FAULT.set(Some(fault));
}

fn is_put_in(fault: Fault) -> bool {
    FAULT.get() == Some(fault)
}

/// None: where members are is no part of the model.
pub(crate) fn processor() -> u32 {
    0
}

pub(crate) fn fence(order: Ordering) {
    if !is_put_in(Fault::Fence) {
        atomic::fence(order);
    }
}

/// A counter of the model; weaker than asked for if that is the fault.
#[derive(Debug, Default)]
pub(crate) struct Counter(atomic::AtomicU64);

impl Counter {
    pub(crate) fn load(&self, order: Ordering) -> u64 {
        self.0.load(if is_put_in(Fault::Acquire) { Ordering::Relaxed } else { order })
    }

    pub(crate) fn store(&self, value: u64, order: Ordering) {
        self.0.store(value, if is_put_in(Fault::Release) { Ordering::Relaxed } else { order });
    }

    pub(crate) fn compare_exchange(&self, old: u64, new: u64, done: Ordering, not: Ordering) -> Result<u64, u64> {
        self.0.compare_exchange(old, new, done, not)
    }
}

/// Places by their offsets. They are made before the members begin, and get their offsets when they are first used.
#[derive(Debug)]
struct Places<T>(Mutex<Shelf<T>>);

#[derive(Debug)]
struct Shelf<T> {
    used: BTreeMap<usize, Arc<T>>,
    rest: Vec<Arc<T>>,
}

impl<T: Default> Places<T> {
    /// More than three members use.
    const COUNT: usize = 40;

    fn new() -> Self {
        let rest = (0..Self::COUNT).map(|_| Arc::default()).collect();
        Self(Mutex::new(Shelf { used: BTreeMap::new(), rest }))
    }

    fn at(&self, offset: usize) -> Arc<T> {
        let Shelf { used, rest } = &mut *lock(&self.0);
        Arc::clone(used.entry(offset).or_insert_with(|| rest.pop().expect("there are more than enough")))
    }
}

#[derive(Debug)]
pub(crate) struct Segment {
    bytes: crate::memory::Segment,
    notes: Mutex<BTreeMap<usize, UnsafeCell<()>>>,
    words: Places<atomic::AtomicU32>,
    counters: Places<Counter>,
    /// Held by who goes to sleep or wakes others, as the kernel does it.
    kernel: sync::Mutex<()>,
    beds: Places<Condvar>,
}

impl Segment {
    pub(crate) fn new(len: usize) -> Self {
        let (bytes, _) = crate::memory::Segment::create(len).unwrap();
        Self {
            bytes,
            notes: Mutex::default(),
            words: Places::new(),
            counters: Places::new(),
            kernel: sync::Mutex::default(),
            beds: Places::new(),
        }
    }

    pub(crate) fn word(&self, offset: usize) -> Arc<atomic::AtomicU32> {
        self.words.at(offset)
    }

    pub(crate) fn counter(&self, offset: usize) -> Arc<Counter> {
        self.counters.at(offset)
    }

    /// Without a limit: who is not woken sleeps for ever.
    pub(crate) fn sleep(&self, offset: usize, heard: u32, _limit: Duration) -> bool {
        let kernel = self.kernel.lock().unwrap();
        if self.word(offset).load(Ordering::Acquire) == heard {
            drop(self.beds.at(offset).wait(kernel).unwrap());
        }
        false
    }

    pub(crate) fn wake(&self, offset: usize) {
        let _kernel = self.kernel.lock().unwrap();
        if !is_put_in(Fault::Wake) {
            self.beds.at(offset).notify_all();
        }
    }

    pub(crate) fn bytes(&self, offset: usize, len: usize) -> &[u8] {
        self.note(offset, len, |note| note.with(|_| ()));
        self.bytes.bytes(offset, len)
    }

    pub(crate) fn bytes_mut(&self, offset: usize, len: usize) -> &mut [u8] {
        self.note(offset, len, |note| note.with_mut(|_| ()));
        self.bytes.bytes_mut(offset, len)
    }

    fn note(&self, offset: usize, len: usize, write: impl Fn(&UnsafeCell<()>)) {
        let mut notes = lock(&self.notes);
        for grain in offset / GRAIN..(offset + len).div_ceil(GRAIN) {
            write(notes.entry(grain).or_insert_with(|| UnsafeCell::new(())));
        }
    }
}

/// A race that was found in between has not spoilt it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
