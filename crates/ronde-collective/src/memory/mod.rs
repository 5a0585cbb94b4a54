//! The machine's part of shared memory: where it lies, its atomics, how one sleeps on them, and sizes that suit its
//! caches.
//!
//! The protocol is in `shm/` and knows nothing else of the machine. So the tests can compile that a second time over
//! a model of this module, which tries many orders of events (`tests/model/`).

mod segment;

pub(crate) use std::sync::atomic::{Ordering, fence};

pub(crate) use self::segment::{Segment, number};

/// Blocks in flight; with three the next is filled while one is combined and one is taken.
pub(crate) const DEPTH: usize = 4;
/// A block: those of a panel, ours and a peer's and the result's, fit into a small second-level cache. Measured with
/// two members: 32 KB and 64 KB are equal, 16 KB and 128 KB a tenth slower.
pub(crate) const BLOCK: usize = 64 * 1024;
/// Below this a block is all overhead.
pub(crate) const BLOCK_MIN: usize = 8 * 1024;
/// The bytes that a ring holds.
pub(crate) const RING_MAX: usize = 1024 * 1024;
/// The same where there are many members.
pub(crate) const RING_MIN: usize = 16 * 1024;

/// The processor that this thread is on, counted from one: a word that nobody has written is none.
pub(crate) fn processor() -> u32 {
    u32::try_from(rustix::thread::sched_getcpu()).map_or(0, |number| number.wrapping_add(1))
}
