//! The wire: bytes from member to member of a group, whatever lies between them.
//!
//! Each pair has shared memory or TCP, chosen when the group was formed. [`Wire::exchange`] moves a set of messages
//! at once, so that algorithms need no threads and cannot lock each other out. There is no framing: both ends of a
//! pair ask for the same messages in the same order. A large message is cut over the streams of its pair.
//! `flow.rs` knows how far each message is.

mod flow;

use std::{
    hint, io,
    os::fd::BorrowedFd,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use self::flow::{Flow, What};
use crate::{
    clock,
    error::{Error, Result},
    shm::Shm,
    tcp::{Farewell, Link},
    types::Rank,
    wait_context::{Stillness, WaitContext},
};

pub(crate) use self::flow::{LETTER_MIN, Letter, Message};

/// Below this a message goes over one stream: a second one costs more system calls than it wins.
pub(crate) const CUT_MIN: usize = 256 * 1024;
/// What is sent at once before we look whether something has come, so that neither end fills buffers that nobody
/// empties. Not tuned: it was only tried on a busy machine.
const SEND_MAX: usize = 128 * 1024;
/// Looks before the processor is given away after each. Not tuned either.
const TRIES_ALONE: u32 = 20;
/// Looks before going to sleep: about 50 µs, what a sleep and a wake-up take.
const TRIES: u32 = 50;
/// How long a wait on sockets is at most before we look whether all are alive.
const NAP: Duration = Duration::from_millis(50);
/// The same while shared memory is awaited too, which does not wake a poll.
const NAP_MIXED: Duration = Duration::from_micros(200);
/// How long data may be overtaken by a goodbye: as long as an unacknowledged word counts as no loss.
const OVERTAKEN_MAX: Timespec = Timespec { tv_sec: 4, tv_nsec: 0 };

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
    pub(crate) wait_context: Arc<WaitContext>,
    /// Whether every member on this machine has a processor: then none needs ours while we look.
    pub(crate) is_roomy: bool,
}

impl Wire {
    /// Moves all messages; returns when they are sent and received.
    pub(crate) fn exchange(&self, messages: Vec<Message<'_>>) -> Result<()> {
        self.exchange_until(None, messages).map(|_| ())
    }

    /// The same; false if the time is over before. Then the rest must be asked for again, so they must be letters.
    pub(crate) fn exchange_until(&self, deadline: Option<Instant>, messages: Vec<Message<'_>>) -> Result<bool> {
        let mut flows = self.flows(messages);
        let mut tries = 0;
        let mut stillness: Option<Stillness> = None;
        loop {
            let has_moved = self.move_all(&mut flows)?;
            flows.retain(|flow| !flow.is_done());
            if flows.is_empty() {
                return Ok(true);
            }
            tries = if has_moved { 0 } else { tries + 1 };
            if let Some(stillness) = stillness.as_mut().filter(|_| has_moved) {
                stillness.moved();
            }
            if self.wait_context.are_waiting() && self.is_worth_trying(tries) {
                continue;
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(clock::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(false);
            }
            self.wait(&flows, left)?;
            // Who has a deadline looks for stalls by itself.
            if deadline.is_none() {
                let stillness = stillness.get_or_insert_with(Stillness::begin);
                self.wait_context.look(stillness, || self.awaited(&flows))?;
            }
        }
    }

    /// The ranks on which messages depend.
    fn awaited(&self, flows: &[Flow<'_>]) -> Vec<Rank> {
        let mut ranks: Vec<Rank> = flows.iter().map(|flow| self.ranks[flow.peer]).collect();
        ranks.sort_unstable();
        ranks.dedup();
        ranks
    }

    /// Whether to look again rather than sleep; lets others run before, the awaited peer perhaps.
    fn is_worth_trying(&self, tries: u32) -> bool {
        if self.is_roomy && tries < TRIES_ALONE {
            hint::spin_loop();
        } else {
            thread::yield_now();
        }
        tries < TRIES
    }

    /// Moves what can be moved now; tells whether that was anything.
    fn move_all(&self, flows: &mut [Flow<'_>]) -> Result<bool> {
        let mut has_moved = false;
        for index in 0..flows.len() {
            let is_first = !flows[..index].iter().any(|flow| flow.is_same_lane(&flows[index]));
            has_moved |= is_first && self.advance(&mut flows[index])?;
        }
        Ok(has_moved)
    }

    fn flows<'a>(&self, messages: Vec<Message<'a>>) -> Vec<Flow<'a>> {
        let mut flows = Vec::with_capacity(messages.len());
        for message in messages {
            match message {
                Message::Send { to, bytes } => {
                    flows.extend(on_streams(to, bytes.chunks(self.cut(to, bytes.len())).map(What::Out)));
                }
                Message::Receive { from, bytes } => {
                    let cut = self.cut(from, bytes.len());
                    flows.extend(on_streams(from, bytes.chunks_mut(cut).map(What::In)));
                }
                Message::Combine { from, bytes, how } => {
                    let cut = self.cut(from, bytes.len());
                    flows.extend(on_streams(from, bytes.chunks_mut(cut).map(|bytes| What::sum(bytes, how))));
                }
                Message::Post { to, letter } => flows.extend(on_streams(to, [What::Post(letter)])),
                Message::Collect { from, letter } => flows.extend(on_streams(from, [What::Collect(letter)])),
            }
        }
        flows
    }

    /// The length of what goes over one stream, the same for both ends; whole elements of any type.
    fn cut(&self, peer: usize, len: usize) -> usize {
        match &self.ways[peer] {
            Way::Tcp(link) if len >= CUT_MIN => len.div_ceil(link.streams()).next_multiple_of(64),
            _ => len.max(1),
        }
    }

    /// Moves what can be moved of one message.
    fn advance(&self, flow: &mut Flow<'_>) -> Result<bool> {
        let (peer, stream) = (flow.peer, flow.stream);
        let moved = match (&self.ways[peer], flow.outgoing()) {
            (Way::Own, _) => Err(io::Error::other("a message to oneself")),
            (Way::Memory(local), Some(bytes)) => Ok(self.memory().push(*local, sendable(bytes))),
            (Way::Memory(local), None) => Ok(self.memory().pull(*local, flow.room())),
            (Way::Tcp(link), Some(bytes)) => link.send(stream, sendable(bytes)),
            (Way::Tcp(link), None) => link.receive(stream, flow.room()),
        };
        let moved = moved.map_err(|error| self.lost(peer, &error))?;
        if !flow.advance(moved) {
            return Err(self.lost(peer, &io::Error::other("it sent a malformed message")));
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
            Some(Farewell::Lost(rank)) => Error::Lost { rank, reason: "another rank lost it".to_owned() },
            None if error.kind() == io::ErrorKind::UnexpectedEof => {
                Error::Lost { rank, reason: "the connection was closed".to_owned() }
            }
            None => Error::Lost { rank, reason: error.to_string() },
        }
    }

    /// Waits until something can move, or a while.
    fn wait(&self, flows: &[Flow<'_>], limit: Option<Duration>) -> Result<()> {
        if self.wait_context.is_closing() {
            return Err(Error::Shutdown(None));
        }
        let local = |flow: &Flow<'_>| if let Way::Memory(local) = self.ways[flow.peer] { Some(local) } else { None };
        let pick = |wants_in: bool| {
            let wanted = flows.iter().filter(move |flow| flow.is_in() == wants_in);
            wanted.filter_map(local).collect::<Vec<usize>>()
        };
        let (reads, writes) = (pick(true), pick(false));
        if reads.len() + writes.len() == flows.len() {
            return self.memory().wait_for_rings(&reads, &writes, limit);
        }
        let mut fds = Vec::new();
        for flow in flows {
            if let Way::Tcp(link) = &self.ways[flow.peer] {
                let events = if flow.is_in() { PollFlags::IN } else { PollFlags::OUT };
                fds.push((flow.peer, link.stream(flow.stream), events));
                fds.push((flow.peer, link.guard(), PollFlags::IN));
            }
        }
        let nap = if reads.is_empty() && writes.is_empty() { NAP } else { NAP_MIXED };
        let is_quiet = self.poll(&fds, limit.map_or(nap, |limit| limit.min(nap)))?;
        match reads.first().or(writes.first()) {
            Some(peer) if is_quiet => self.memory().check(*peer),
            _ => Ok(()),
        }
    }

    /// Sleeps until one of the sockets can be used; tells whether none can. Fails if a guard has something to say
    /// and the data has nothing, and nothing more will come.
    fn poll(&self, fds: &[(usize, BorrowedFd<'_>, PollFlags)], nap: Duration) -> Result<bool> {
        let mut polled: Vec<PollFd<'_>> =
            fds.iter().map(|(_, fd, events)| PollFd::from_borrowed_fd(*fd, *events)).collect();
        let nap = Timespec::try_from(nap).unwrap_or(Timespec { tv_sec: 0, tv_nsec: 1_000_000 });
        // An interrupted sleep is a short one.
        let ready = poll(&mut polled, Some(&nap)).unwrap_or(1);
        let is_up = |index: usize| !polled[index].revents().is_empty();
        let guards = (1..polled.len()).step_by(2);
        match guards.into_iter().find(|guard| is_up(*guard) && !is_up(guard - 1)) {
            Some(guard) if self.is_overtaken(&fds[guard - 1]) => Ok(false),
            Some(guard) => Err(self.lost(fds[guard].0, &failure(fds[guard].1))),
            None => Ok(ready == 0),
        }
    }

    /// Whether data comes after all from a peer that has said goodbye: it has sent everything before, but where packets
    /// are lost the goodbye is faster. The end of the stream counts too: who reads it knows that there is no more.
    fn is_overtaken(&self, (peer, stream, events): &(usize, BorrowedFd<'_>, PollFlags)) -> bool {
        let has_left = matches!(&self.ways[*peer], Way::Tcp(link) if link.has_left());
        let mut polled = [PollFd::from_borrowed_fd(*stream, *events)];
        *events == PollFlags::IN && has_left && !matches!(poll(&mut polled, Some(&OVERTAKEN_MAX)), Ok(0))
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
                link.send_farewell(farewell);
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

fn sendable(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(SEND_MAX)]
}

/// One piece on each stream.
fn on_streams<'a>(peer: usize, pieces: impl IntoIterator<Item = What<'a>>) -> impl Iterator<Item = Flow<'a>> {
    pieces.into_iter().enumerate().map(move |(stream, what)| Flow { peer, stream, what })
}

/// Why a guard can be read: its host does not answer any more, or it was closed.
fn failure(guard: BorrowedFd<'_>) -> io::Error {
    match rustix::net::sockopt::socket_error(guard) {
        Ok(Err(error)) => error.into(),
        _ => io::ErrorKind::UnexpectedEof.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        net::{TcpListener, TcpStream},
        thread,
        time::Duration,
    };

    use super::*;

    /// Both ends of a pair, with one stream for data.
    fn pair() -> (Link, Link) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = || {
            let called = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            (called, listener.accept().unwrap().0)
        };
        let (own, other): (Vec<TcpStream>, Vec<TcpStream>) = [connect(), connect()].into_iter().unzip();
        (Link::new(own).unwrap(), Link::new(other).unwrap())
    }

    /// What comes of the wait for a few bytes of the only peer, rank 7.
    fn receive(link: Link) -> Result<Vec<u8>> {
        let ways = vec![Way::Own, Way::Tcp(link)];
        let ranks = vec![Rank(3), Rank(7)];
        let wire = Wire { ways, ranks, shm: None, wait_context: Arc::default(), is_roomy: false };
        let mut bytes = vec![0; 5];
        wire.exchange(vec![Message::Receive { from: 1, bytes: &mut bytes }]).map(|()| bytes)
    }

    #[test]
    fn a_goodbye_that_is_faster_than_the_data_before_it_ends_nothing() {
        let (own, other) = pair();
        let peer = thread::spawn(move || {
            other.send_farewell(Farewell::Left);
            // As long as TCP takes to send a lost packet again.
            thread::sleep(Duration::from_millis(300));
            assert_eq!(other.send(0, b"hello").unwrap(), 5);
        });
        assert_eq!(receive(own).unwrap(), b"hello");
        peer.join().unwrap();
    }

    #[test]
    fn a_peer_that_leaves_without_a_word_more_is_not_awaited() {
        let (own, other) = pair();
        other.send_farewell(Farewell::Left);
        drop(other);
        assert!(matches!(receive(own), Err(Error::Shutdown(Some(Rank(7))))));
    }
}
