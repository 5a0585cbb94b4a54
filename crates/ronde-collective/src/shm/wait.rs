//! How a member waits for others: first awake, then asleep, and never for somebody who is gone.
//!
//! Every member has a bell. Whoever publishes something rings the bells of those who sleep; who is awake costs
//! nobody a system call. A sleeper looks up from time to time, whether a peer has died or left.

use std::{
    hint,
    os::fd::AsFd as _,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{
    Layout, Shm, clock,
    memory::{self, Ordering, Segment, fence},
};
use crate::{
    error::{Error, Result},
    types::Rank,
    wait_context::Stillness,
};

/// How long a sleeper sleeps at most before it looks whether all are alive: a tenth of the second that is promised.
const NAP: Duration = Duration::from_millis(50);
/// Looks at memory before giving up the processor; about 50 µs, the time of a sleep and a wake-up.
const SPINS: u32 = 2000;
/// Where members share a processor a peer can run only if we let it.
const YIELDS: u32 = 50;

/// What is worth trying before going to sleep.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    spins: u32,
    yields: u32,
}

impl Patience {
    const NONE: Self = Self { spins: 0, yields: 1 };
    const ALONE: Self = Self { spins: SPINS, yields: 1 };
    const CROWDED: Self = Self { spins: 0, yields: YIELDS };

    pub(super) fn for_members(members: usize) -> Self {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        if members <= processors { Self::ALONE } else { Self::CROWDED }
    }
}

impl Shm {
    /// Waits until nobody is missing; `missing` names one who is.
    pub(super) fn wait(&self, missing: impl Fn() -> Option<usize>) -> Result<()> {
        self.wait_until(None, missing).map(|_| ())
    }

    /// Waits until nobody is missing, or the time is over; tells which.
    pub(super) fn wait_until(&self, deadline: Option<Instant>, missing: impl Fn() -> Option<usize>) -> Result<bool> {
        let patience = self.patience();
        for _ in 0..patience.spins {
            if missing().is_none() {
                return Ok(true);
            }
            hint::spin_loop();
        }
        for _ in 0..patience.yields {
            if missing().is_none() {
                return Ok(true);
            }
            thread::yield_now();
        }
        self.sleep_until(deadline, missing)
    }

    fn patience(&self) -> Patience {
        if !self.wait_context.are_waiting() {
            Patience::NONE
        } else if self.patience.spins > 0 && self.shares_processor() {
            Patience::CROWDED
        } else {
            self.patience
        }
    }

    /// Notes which processor this member is on, and tells whether a peer was last seen there. On a busy machine that
    /// happens even with as many processors as members, and to stay awake is then to keep the peer from working.
    pub(crate) fn shares_processor(&self) -> bool {
        let here = memory::processor();
        let seen = |member: usize| self.segment.word(Layout::processor(member)).load(Ordering::Relaxed);
        // Peers have the line in their caches, for the bell: only news is worth a store.
        if seen(self.me) != here {
            self.segment.word(Layout::processor(self.me)).store(here, Ordering::Relaxed);
        }
        self.peers().any(|peer| seen(peer) == here)
    }

    fn sleep_until(&self, deadline: Option<Instant>, missing: impl Fn() -> Option<usize>) -> Result<bool> {
        let sleeping = self.segment.word(Layout::sleeping(self.me));
        let mut rested = false;
        // Who has a deadline looks for stalls by itself.
        let mut stillness = deadline.is_none().then(Stillness::begin);
        loop {
            let heard = self.segment.word(Layout::bell(self.me)).load(Ordering::Acquire);
            sleeping.store(1, Ordering::Relaxed);
            // Either we see what others publish now, or they see that we sleep: each has a fence between its two steps.
            fence(Ordering::SeqCst);
            let Some(peer) = missing() else {
                sleeping.store(0, Ordering::Relaxed);
                return Ok(true);
            };
            if self.wait_context.is_closing() {
                return Err(Error::Shutdown(None));
            }
            let alive = self.check_words(peer).and_then(|()| if rested { self.check_processes() } else { Ok(()) });
            if let Err(error) = alive {
                // It may have gone after its last word, which is all that we wait for.
                return if missing().is_none() { Ok(true) } else { Err(error) };
            }
            let nap = deadline.map_or(NAP, |deadline| NAP.min(deadline.saturating_duration_since(clock::now())));
            if nap.is_zero() {
                return Ok(false);
            }
            if let Some(stillness) = &mut stillness {
                self.wait_context.look(stillness, || self.laggards())?;
            }
            rested = self.nap(heard, nap);
        }
    }

    /// The peers that are furthest behind. Who waits for them is behind, too, but less.
    fn laggards(&self) -> Vec<Rank> {
        let steps = [Layout::staged, Layout::reduced, Layout::taken];
        let progress = |peer: usize| steps.iter().map(|step| self.load(step(peer))).sum::<u64>();
        let least = self.peers().map(progress).min();
        self.peers().filter(|peer| Some(progress(*peer)) == least).map(|peer| self.ranks[peer]).collect()
    }

    /// Sleeps until the bell rings, or a while; tells whether nobody rang.
    fn nap(&self, heard: u32, limit: Duration) -> bool {
        let is_over = self.segment.sleep(Layout::bell(self.me), heard, limit);
        self.segment.word(Layout::sleeping(self.me)).store(0, Ordering::Relaxed);
        is_over
    }

    /// Wakes the members that sleep.
    pub(super) fn ring_bells(&self) {
        fence(Ordering::SeqCst);
        for peer in self.peers() {
            ring(&self.segment, peer);
        }
    }

    /// Says goodbye: nobody waits for us any more.
    pub(crate) fn leave(&self) {
        self.publish(Layout::left(self.me), 1);
    }

    /// Tells all members that the group is of no more use, since a rank is lost.
    pub(crate) fn abort(&self, lost: Rank) {
        let word = self.segment.counter(Layout::ABORT);
        let _ = word.compare_exchange(0, lost.0 as u64 + 1, Ordering::Release, Ordering::Relaxed);
        self.ring_bells();
    }

    /// Fails if there is no point in waiting for a peer, by what the members have written.
    fn check_words(&self, awaited: usize) -> Result<()> {
        if let Some(lost) = self.load(Layout::ABORT).checked_sub(1) {
            let rank = Rank(usize::try_from(lost).unwrap_or(usize::MAX));
            return Err(Error::Lost { rank, reason: "it was reported lost".to_owned() });
        }
        if self.load(Layout::left(awaited)) != 0 {
            return Err(Error::Shutdown(Some(self.ranks[awaited])));
        }
        Ok(())
    }

    /// Fails if the process of a peer has ended without a goodbye.
    fn check_processes(&self) -> Result<()> {
        let has_left = |peer: usize| self.load(Layout::left(peer)) != 0;
        // It may say goodbye between the two looks.
        match self.peers().find(|peer| !has_left(*peer) && self.has_ended(*peer) && !has_left(*peer)) {
            Some(peer) => {
                self.abort(self.ranks[peer]);
                Err(lost_rank(self.ranks[peer]))
            }
            None => Ok(()),
        }
    }

    /// Fails if there is no point in waiting for a peer.
    pub(crate) fn check(&self, awaited: usize) -> Result<()> {
        self.check_words(awaited)?;
        self.check_processes()
    }

    fn has_ended(&self, member: usize) -> bool {
        let Some(process) = &self.processes[member] else { return false };
        let mut fds = [PollFd::from_borrowed_fd(process.as_fd(), PollFlags::IN)];
        matches!(poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(1..))
    }
}

/// A member's bell, for other threads of its process: there is something new to do.
#[derive(Debug, Clone)]
pub(crate) struct Bell {
    segment: Arc<Segment>,
    member: usize,
}

impl Bell {
    pub(super) fn new(segment: Arc<Segment>, member: usize) -> Self {
        Self { segment, member }
    }

    pub(crate) fn ring(&self) {
        fence(Ordering::SeqCst);
        ring(&self.segment, self.member);
    }
}

/// Wakes a member if it sleeps. What it waits for was written before, and a fence lies between.
fn ring(segment: &Segment, member: usize) {
    let sleeping = segment.word(Layout::sleeping(member));
    if sleeping.load(Ordering::Relaxed) != 0 && sleeping.swap(0, Ordering::Relaxed) != 0 {
        segment.word(Layout::bell(member)).fetch_add(1, Ordering::Release);
        segment.wake(Layout::bell(member));
    }
}

fn lost_rank(rank: Rank) -> Error {
    Error::Lost { rank, reason: "its process has ended".to_owned() }
}
