//! Shared memory among the members of a group that are on one host.
//!
//! `layout.rs` is what is where in a segment, `wait.rs` how a member waits and wakes others and notices that one is
//! gone, `rounds.rs` the exchange of small messages, `panels.rs` the large collectives and `ring.rs` the byte streams
//! between two members. Members are counted within the segment here, not as ranks.

mod layout;
pub(crate) mod panels;
mod ring;
mod rounds;
mod wait;

use std::{io, os::fd::OwnedFd, sync::Arc};

use rustix::process::{Pid, PidfdFlags};

use self::{layout::Layout, wait::Patience};
// Of the parent, not of the crate: the model has its own.
use super::{
    clock,
    memory::{self, Ordering, Segment},
};
use crate::{types::Rank, wait_context::WaitContext};

pub(crate) use self::{layout::SLOT, wait::Bell};

/// A member's view of the segment.
#[derive(Debug)]
pub(crate) struct Shm {
    segment: Arc<Segment>,
    layout: Layout,
    me: usize,
    ranks: Vec<Rank>,
    /// Handles of the peers' processes; none for this one.
    processes: Vec<Option<OwnedFd>>,
    patience: Patience,
    wait_context: Arc<WaitContext>,
    /// Rounds that we have spoken in.
    round: u64,
    /// Panels that all operations so far have used.
    panel: u64,
}

/// What a member must know of the others.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(crate) rank: Rank,
    pub(crate) pid: u32,
}

/// The bytes that a group of so many needs.
pub(crate) fn segment_len(members: usize) -> usize {
    Layout::new(members).len()
}

/// Marks a new segment as that of a group, so that nobody takes another for it.
pub(crate) fn mark(segment: &Segment, mark: u64) {
    segment.counter(Layout::MARK).store(mark, Ordering::Release);
}

pub(crate) fn is_marked(segment: &Segment, mark: u64) -> bool {
    segment.counter(Layout::MARK).load(Ordering::Acquire) == mark
}

impl Shm {
    pub(crate) fn new(
        segment: Arc<Segment>,
        me: usize,
        peers: &[Peer],
        wait_context: Arc<WaitContext>,
    ) -> io::Result<Self> {
        let own = peers[me].pid;
        let processes = peers.iter().map(|peer| if peer.pid == own { Ok(None) } else { process(peer.pid).map(Some) });
        Ok(Self {
            segment,
            layout: Layout::new(peers.len()),
            me,
            ranks: peers.iter().map(|peer| peer.rank).collect(),
            processes: processes.collect::<io::Result<_>>()?,
            patience: Patience::for_members(peers.len()),
            wait_context,
            round: 0,
            panel: 0,
        })
    }

    /// What other threads of this member wake it with.
    pub(crate) fn bell(&self) -> Bell {
        Bell::new(Arc::clone(&self.segment), self.me)
    }

    pub(crate) fn size(&self) -> usize {
        self.ranks.len()
    }

    fn peers(&self) -> impl Iterator<Item = usize> {
        let (me, size) = (self.me, self.size());
        (1..size).map(move |distance| (me + distance) % size)
    }

    /// The first peer whose counter has not come so far.
    fn behind(&self, place: fn(usize) -> usize, wanted: u64) -> Option<usize> {
        self.peers().find(|peer| self.load(place(*peer)) < wanted)
    }

    fn load(&self, offset: usize) -> u64 {
        self.segment.counter(offset).load(Ordering::Acquire)
    }

    /// Lets the others see everything that we wrote before.
    fn publish(&self, offset: usize, value: u64) {
        self.segment.counter(offset).store(value, Ordering::Release);
        self.ring_bells();
    }
}

fn process(pid: u32) -> io::Result<OwnedFd> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or_else(|| io::Error::other("no process id"))?;
    Ok(rustix::process::pidfd_open(pid, PidfdFlags::empty())?)
}
