//! A group of ranks that can talk: its ways, its rounds, and the collectives chosen for its shape.
//!
//! `form.rs` brings a group together, `collectives.rs` chooses algorithms. A group on one host speaks its rounds
//! through slots in shared memory; others gather notes over the wire.

mod adasum;
mod collectives;
mod form;

use std::{
    io,
    os::fd::{AsFd as _, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use rustix::event::EventfdFlags;

use crate::{
    algorithms::{Gathering, Team, Topology},
    error::{Error, Result},
    negotiate::fuse::Limits,
    shm::{self, Shm},
    tcp::Farewell,
    types::Rank,
    wait_context::WaitContext,
    wire::Wire,
};

pub(crate) use self::form::{Site, form};

/// The longest thing a member may say in one round.
pub(crate) const ROUND_MESSAGE_MAX: usize = shm::SLOT - 8;

/// Up to here one latency for everybody's whole data beats several for parts of it. For P members and S bytes a round
/// carries (P - 1) S bytes to each, and an agreement with a reduction after it 2 S (P - 1) / P, but 1 + 2 log2 P
/// latencies more; with two members the bytes are the same.
pub(crate) const DATA_MAX: usize = 128 * 1024;
const MEGABYTE: usize = 1024 * 1024;

/// A member of a group.
#[derive(Debug)]
pub(crate) struct Comm {
    pub(crate) me: usize,
    pub(crate) ranks: Vec<Rank>,
    everybody: Vec<usize>,
    topology: Topology,
    wire: Wire,
    bell: Bell,
    /// What is being said in this round, where there are no slots.
    gathering: Gathering,
    /// What was said in it.
    notes: Vec<Vec<u8>>,
}

/// Wakes the thread that drives a group, from other threads of the process.
#[derive(Debug, Clone)]
pub(crate) enum Bell {
    Memory(shm::Bell),
    Event(Arc<Event>),
}

/// Wakes a sleep on sockets.
#[derive(Debug)]
pub(crate) struct Event {
    descriptor: OwnedFd,
    /// Whether somebody sleeps, or is about to: else ringing costs nothing.
    is_listened: AtomicBool,
}

impl Bell {
    fn event() -> io::Result<Self> {
        let descriptor = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self::Event(Arc::new(Event { descriptor, is_listened: AtomicBool::new(false) })))
    }

    /// Called after what the listener looks at has changed.
    pub(crate) fn ring(&self) {
        match self {
            Self::Memory(bell) => bell.ring(),
            // Full means that it has been rung already.
            Self::Event(event) if event.is_listened.load(Ordering::SeqCst) => {
                let _ = rustix::io::write(&event.descriptor, &1_u64.to_ne_bytes());
            }
            Self::Event(_) => {}
        }
    }
}

impl Comm {
    pub(crate) fn size(&self) -> usize {
        self.ranks.len()
    }

    /// Through which other threads tell the one that drives.
    pub(crate) fn wait_context(&self) -> Arc<WaitContext> {
        Arc::clone(&self.wire.wait_context)
    }

    pub(crate) fn bell(&self) -> Bell {
        self.bell.clone()
    }

    /// The segment, if all members are in it: then the rounds are there.
    fn slots(&self) -> Option<&Shm> {
        self.wire.shm.as_ref().filter(|_| self.topology.is_one_host())
    }

    /// Whether what members say does not leave this host.
    fn is_near(&self) -> bool {
        self.size() == 1 || self.slots().is_some()
    }

    /// Bytes of tensors that are worth saying along with a round: everybody gets and combines all of them.
    pub(crate) fn data_max(&self) -> usize {
        DATA_MAX / self.size().next_power_of_two()
    }

    /// What fusion is good for here: in memory a batch should stay in the caches.
    pub(crate) fn fusion_limits(&self, threshold: usize) -> Limits {
        let alone = if self.is_near() { MEGABYTE / 4 } else { 4 * MEGABYTE };
        Limits { threshold: threshold.min(self.fusion_max()), alone, device_threshold: threshold }
    }

    /// A threshold above this is the same as this.
    pub(crate) fn fusion_max(&self) -> usize {
        if self.is_near() { 2 * MEGABYTE } else { 32 * MEGABYTE }
    }

    /// Says our part of the next round, given in pieces of at most [`ROUND_MESSAGE_MAX`] bytes together.
    pub(crate) fn send_round<'a>(&mut self, pieces: impl Iterator<Item = &'a [u8]>) {
        if self.topology.is_one_host()
            && let Some(shm) = &mut self.wire.shm
        {
            return shm.send_round(pieces);
        }
        let mut note = Vec::new();
        pieces.for_each(|piece| note.extend_from_slice(piece));
        self.gathering = Gathering::with_own(note);
    }

    /// Waits until all have spoken in our round; false if the time is over. Any thread may go on with it then.
    pub(crate) fn hear(&mut self, deadline: Option<Instant>) -> Result<bool> {
        if let Some(shm) = self.slots() {
            return shm.hear(deadline);
        }
        let team = Team { wire: &self.wire, members: &self.everybody, me: self.me };
        let has_heard = team.go_on(&mut self.gathering, deadline)?;
        if has_heard {
            self.notes = team.in_order(std::mem::take(&mut self.gathering));
        }
        Ok(has_heard)
    }

    /// What a member said in our round; everybody has spoken.
    pub(crate) fn said(&self, member: usize) -> &[u8] {
        match self.slots() {
            Some(shm) => shm.said(member),
            None => &self.notes[member],
        }
    }

    /// Members that have not spoken in our round, as far as that can be known.
    pub(crate) fn silent(&self) -> Vec<Rank> {
        let Some(shm) = self.slots() else {
            return self.team().awaited(&self.gathering).map(|member| self.ranks[member]).into_iter().collect();
        };
        (0..self.size()).filter(|member| !shm.has_spoken(*member)).map(|member| self.ranks[member]).collect()
    }

    /// Whether a peer has begun the round after ours.
    pub(crate) fn is_awaited(&self) -> bool {
        self.size() > 1 && self.slots().map_or_else(|| self.wire.is_awaited(), Shm::is_awaited)
    }

    /// Waits until a peer begins the next round, or the bell is rung, or a while is over.
    pub(crate) fn listen(&self, deadline: Option<Instant>, is_called: impl Fn() -> bool) -> Result<()> {
        match (self.slots(), &self.bell) {
            (Some(shm), _) => shm.listen(deadline, is_called).map(|_| ()),
            (None, Bell::Event(event)) => {
                event.is_listened.store(true, Ordering::SeqCst);
                let listened = if is_called() { Ok(()) } else { self.wire.listen(event.descriptor.as_fd()) };
                event.is_listened.store(false, Ordering::SeqCst);
                let _ = rustix::io::read(&event.descriptor, &mut [0_u8; 8]);
                listened
            }
            (None, Bell::Memory(_)) => Ok(()),
        }
    }

    /// Says goodbye, or tells the others whom we have lost.
    pub(crate) fn part(&self, error: Option<&Error>) {
        self.wire.part(match error {
            Some(Error::Lost { rank, .. }) => Farewell::Lost(*rank),
            // Others could wait in the same operation for ever.
            Some(Error::Device(_)) => Farewell::Lost(self.ranks[self.me]),
            _ => Farewell::Left,
        });
    }
}
