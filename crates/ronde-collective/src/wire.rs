//! The wire: bytes from member to member of a group, whatever lies between them.
//!
//! Each pair has shared memory or TCP, chosen when the group was formed. [`Wire::exchange`] moves a set of messages
//! at once, so that algorithms need no threads and cannot lock each other out. There is no framing: both ends of a
//! pair ask for the same messages in the same order. A large message is cut over the streams of its pair.

use std::{
    io::{self, IoSlice},
    os::fd::BorrowedFd,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{
    error::{Error, Result},
    shm::Shm,
    tcp::{Farewell, Link},
    types::Rank,
};

/// Below this a message goes over one stream: a second one costs more system calls than it wins.
const CUT_MIN: usize = 256 * 1024;
/// Looks before going to sleep: about 50 µs, what a sleep and a wake-up take.
const TRIES: u32 = 50;
/// How long a wait on sockets is at most before we look whether all are alive.
const NAP: Duration = Duration::from_millis(50);
/// The same while shared memory is awaited too, which does not wake a poll.
const NAP_MIXED: Duration = Duration::from_micros(200);

/// How a member is reached.
#[derive(Debug)]
pub(crate) enum Way {
    /// It is us.
    Own,
    /// By its number in the segment.
    Memory(usize),
    Tcp(Link),
}

/// All ways of a member.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) ways: Vec<Way>,
    pub(crate) ranks: Vec<Rank>,
    pub(crate) shm: Option<Shm>,
    /// Set by another thread of this process: give up.
    pub(crate) is_closing: Arc<AtomicBool>,
}

/// What is done while a wait takes long, given the ranks that are waited for.
pub(crate) type Tick<'a> = dyn FnMut(&[Rank]) -> Result<()> + 'a;

/// A message to move.
#[derive(Debug)]
pub(crate) enum Message<'a> {
    Send { to: usize, bytes: &'a [u8] },
    Receive { from: usize, bytes: &'a mut [u8] },
}

/// A part of a message on one stream.
struct Flow<'a> {
    peer: usize,
    stream: usize,
    what: What<'a>,
}

enum What<'a> {
    Out(&'a [u8]),
    In(&'a mut [u8]),
}

impl Flow<'_> {
    fn is_done(&self) -> bool {
        match &self.what {
            What::Out(bytes) => bytes.is_empty(),
            What::In(bytes) => bytes.is_empty(),
        }
    }

    fn is_same_lane(&self, other: &Self) -> bool {
        let same_way = matches!((&self.what, &other.what), (What::Out(_), What::Out(_)) | (What::In(_), What::In(_)));
        same_way && self.peer == other.peer && self.stream == other.stream
    }
}

impl Wire {
    /// Moves all messages; returns when they are sent and received.
    pub(crate) fn exchange(&self, messages: Vec<Message<'_>>) -> Result<()> {
        self.exchange_with(messages, &mut |_| Ok(()))
    }

    /// The same, for messages that may take long to come: `tick` is called while nothing moves.
    pub(crate) fn exchange_with(&self, messages: Vec<Message<'_>>, tick: &mut Tick<'_>) -> Result<()> {
        let mut flows = self.flows(messages);
        let mut tries = 0;
        loop {
            let mut has_moved = false;
            for index in 0..flows.len() {
                let is_first = !flows[..index].iter().any(|flow| flow.is_same_lane(&flows[index]));
                while is_first && self.advance(&mut flows[index])? {
                    has_moved = true;
                    if flows[index].is_done() {
                        break;
                    }
                }
            }
            flows.retain(|flow| !flow.is_done());
            if flows.is_empty() {
                return Ok(());
            }
            tries = if has_moved { 0 } else { tries + 1 };
            if tries < TRIES {
                thread::yield_now();
            } else if self.wait(&flows)? {
                let peers: Vec<Rank> = flows.iter().map(|flow| self.ranks[flow.peer]).collect();
                tick(&peers)?;
            }
        }
    }

    fn flows<'a>(&self, messages: Vec<Message<'a>>) -> Vec<Flow<'a>> {
        let mut flows = Vec::with_capacity(messages.len());
        for message in messages {
            match message {
                Message::Send { to, bytes } => {
                    let cut = self.cut(to, bytes.len());
                    let pieces = bytes.chunks(cut).enumerate();
                    flows.extend(pieces.map(|(stream, bytes)| Flow { peer: to, stream, what: What::Out(bytes) }));
                }
                Message::Receive { from, bytes } => {
                    let cut = self.cut(from, bytes.len());
                    let pieces = bytes.chunks_mut(cut).enumerate();
                    flows.extend(pieces.map(|(stream, bytes)| Flow { peer: from, stream, what: What::In(bytes) }));
                }
            }
        }
        flows
    }

    /// The length of what goes over one stream, the same for both ends.
    fn cut(&self, peer: usize, len: usize) -> usize {
        match &self.ways[peer] {
            Way::Tcp(link) if len >= CUT_MIN => len.div_ceil(link.streams()),
            _ => len.max(1),
        }
    }

    /// Moves what can be moved now; tells whether that was anything.
    fn advance(&self, flow: &mut Flow<'_>) -> Result<bool> {
        let (peer, stream) = (flow.peer, flow.stream);
        let moved = match (&self.ways[peer], &mut flow.what) {
            (Way::Own, _) => Err(io::Error::other("a message to oneself")),
            (Way::Memory(local), What::Out(bytes)) => Ok(self.memory().push(*local, bytes)),
            (Way::Memory(local), What::In(bytes)) => Ok(self.memory().pull(*local, bytes)),
            (Way::Tcp(link), What::Out(bytes)) => link.send(stream, &[IoSlice::new(bytes)]),
            (Way::Tcp(link), What::In(bytes)) => link.receive(stream, bytes),
        };
        let moved = moved.map_err(|error| self.lost(peer, &error))?;
        match &mut flow.what {
            What::Out(bytes) => *bytes = &bytes[moved..],
            What::In(bytes) => *bytes = &mut std::mem::take(bytes)[moved..],
        }
        Ok(moved > 0)
    }

    fn memory(&self) -> &Shm {
        self.shm.as_ref().expect("a way through memory exists only with a segment")
    }

    fn lost(&self, peer: usize, error: &io::Error) -> Error {
        let rank = self.ranks[peer];
        let words = match &self.ways[peer] {
            Way::Tcp(link) => link.last_words(),
            _ => None,
        };
        match words {
            Some(Farewell::Left) => Error::Shutdown(Some(rank)),
            Some(Farewell::Lost(rank)) => Error::Lost { rank, reason: "another rank has lost it".to_owned() },
            None if error.kind() == io::ErrorKind::UnexpectedEof => {
                Error::Lost { rank, reason: "the connection was closed".to_owned() }
            }
            None => Error::Lost { rank, reason: error.to_string() },
        }
    }

    /// Waits until something can move, or a while; tells whether that was in vain.
    fn wait(&self, flows: &[Flow<'_>]) -> Result<bool> {
        if self.is_closing.load(Ordering::Relaxed) {
            return Err(Error::Shutdown(None));
        }
        let local = |flow: &Flow<'_>| if let Way::Memory(local) = self.ways[flow.peer] { Some(local) } else { None };
        let pick = |wants_in: bool| {
            let wanted = flows.iter().filter(move |flow| matches!(flow.what, What::In(_)) == wants_in);
            wanted.filter_map(local).collect::<Vec<usize>>()
        };
        let (reads, writes) = (pick(true), pick(false));
        if reads.len() + writes.len() == flows.len() {
            return self.memory().wait_for_rings(&reads, &writes).map(|has_come| !has_come);
        }
        let mut fds = Vec::new();
        for flow in flows {
            if let Way::Tcp(link) = &self.ways[flow.peer] {
                let events = if matches!(flow.what, What::In(_)) { PollFlags::IN } else { PollFlags::OUT };
                fds.push((flow.peer, link.stream(flow.stream), events));
                fds.push((flow.peer, link.guard(), PollFlags::IN));
            }
        }
        let nap = if reads.is_empty() && writes.is_empty() { NAP } else { NAP_MIXED };
        let is_quiet = self.poll(&fds, nap)?;
        match reads.first().or(writes.first()) {
            Some(peer) if is_quiet => self.memory().check(*peer)?,
            _ => {}
        }
        Ok(is_quiet)
    }

    /// Sleeps until one of the sockets can be used; tells whether none can. Fails if a guard has something to say
    /// and the data has nothing: then nothing more will come.
    fn poll(&self, fds: &[(usize, BorrowedFd<'_>, PollFlags)], nap: Duration) -> Result<bool> {
        let mut polled: Vec<PollFd<'_>> =
            fds.iter().map(|(_, fd, events)| PollFd::from_borrowed_fd(*fd, *events)).collect();
        let nap = Timespec::try_from(nap).unwrap_or(Timespec { tv_sec: 0, tv_nsec: 1_000_000 });
        // An interrupted sleep is a short one.
        let ready = poll(&mut polled, Some(&nap)).unwrap_or(1);
        let is_up = |index: usize| !polled[index].revents().is_empty();
        let guards = (1..polled.len()).step_by(2);
        match guards.into_iter().find(|guard| is_up(*guard) && !is_up(guard - 1)) {
            Some(guard) => Err(self.lost(fds[guard].0, &failure(fds[guard].1))),
            None => Ok(ready == 0),
        }
    }

    /// Whether a peer has begun to say something that nobody has asked for yet.
    pub(crate) fn is_awaited(&self) -> bool {
        self.ways.iter().any(|way| matches!(way, Way::Memory(local) if self.memory().has_bytes(*local)))
            || self.poll_first_streams(None, Duration::ZERO)
    }

    /// Waits until a peer begins to say something, or `bell` can be read, or a moment is over.
    pub(crate) fn listen(&self, bell: BorrowedFd<'_>) -> Result<()> {
        if !self.is_awaited() {
            let nap = if self.shm.is_some() { NAP_MIXED * 5 } else { NAP };
            self.poll_first_streams(Some(bell), nap);
        }
        let mut peers =
            self.ways.iter().filter_map(|way| if let Way::Memory(local) = way { Some(*local) } else { None });
        peers.next().map_or(Ok(()), |peer| self.memory().check(peer))
    }

    fn poll_first_streams(&self, bell: Option<BorrowedFd<'_>>, nap: Duration) -> bool {
        let links =
            self.ways.iter().filter_map(|way| if let Way::Tcp(link) = way { Some(link.stream(0)) } else { None });
        let mut fds: Vec<PollFd<'_>> =
            links.chain(bell).map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let nap = Timespec::try_from(nap).unwrap_or(Timespec { tv_sec: 0, tv_nsec: 0 });
        matches!(poll(&mut fds, Some(&nap)), Ok(1..))
    }

    /// Says goodbye to all, or why we give up.
    pub(crate) fn part(&self, farewell: Farewell) {
        for way in &self.ways {
            if let Way::Tcp(link) = way {
                link.say(farewell);
            }
        }
        if let Some(shm) = &self.shm {
            match farewell {
                Farewell::Left => shm.leave(),
                Farewell::Lost(rank) => shm.abort(rank),
            }
        }
    }
}

/// Why a guard can be read: its host does not answer any more, or it was closed.
fn failure(guard: BorrowedFd<'_>) -> io::Error {
    match rustix::net::sockopt::socket_error(guard) {
        Ok(Err(error)) => error.into(),
        _ => io::ErrorKind::UnexpectedEof.into(),
    }
}
