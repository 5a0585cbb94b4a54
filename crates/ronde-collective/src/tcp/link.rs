//! The connections of a pair of ranks.

use std::{
    collections::BTreeSet,
    io::{self, Read as _, Write as _},
    net::{Shutdown, TcpStream},
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, RawFd},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use rustix::net::sockopt;

use crate::types::Rank;

/// With these a host that is gone is noticed in about four seconds, while a slow one is left alone.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(1);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
const KEEPALIVE_PROBES: u32 = 3;
/// The same while a last word is not acknowledged: then there are no probes, and TCP itself tries for a quarter hour.
const UNACKNOWLEDGED_MAX_MS: u32 = 4000;
/// How long we wait for the reason of a hang-up; it was sent before.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Why a peer hung up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Farewell {
    /// It shut down in good order.
    Left,
    /// It lost a rank, and gives up.
    Lost(Rank),
}

/// The descriptors of all links of this process, which own them.
static OPEN: Mutex<BTreeSet<RawFd>> = Mutex::new(BTreeSet::new());

/// The descriptors of all connections with other ranks, for a child that was forked a moment ago and will use no
/// engine: it should close its copies. A connection of which a copy lives on does not end with its rank, and the peers
/// would go on waiting for a rank that is dead.
pub fn link_descriptors() -> Vec<RawFd> {
    // In a child it may be held, for ever, by a thread that is not there; it keeps its copies then.
    OPEN.try_lock().map_or_else(|_| Vec::new(), |open| open.iter().copied().collect())
}

/// Streams for data, and the guard.
#[derive(Debug)]
pub(crate) struct Link {
    streams: Vec<TcpStream>,
    guard: TcpStream,
}

impl Link {
    /// The last of the connections becomes the guard.
    pub(crate) fn new(mut streams: Vec<TcpStream>) -> io::Result<Self> {
        let guard = streams.pop().ok_or_else(|| io::Error::other("no connections"))?;
        for stream in streams.iter().chain([&guard]) {
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
        }
        sockopt::set_socket_keepalive(&guard, true)?;
        sockopt::set_tcp_keepidle(&guard, KEEPALIVE_IDLE)?;
        sockopt::set_tcp_keepintvl(&guard, KEEPALIVE_INTERVAL)?;
        sockopt::set_tcp_keepcnt(&guard, KEEPALIVE_PROBES)?;
        sockopt::set_tcp_user_timeout(&guard, UNACKNOWLEDGED_MAX_MS)?;
        let link = Self { streams, guard };
        OPEN.lock().unwrap_or_else(PoisonError::into_inner).extend(link.descriptors());
        Ok(link)
    }

    fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        self.streams.iter().chain([&self.guard]).map(TcpStream::as_raw_fd)
    }

    pub(crate) fn streams(&self) -> usize {
        self.streams.len()
    }

    pub(crate) fn stream(&self, number: usize) -> BorrowedFd<'_> {
        self.streams[number].as_fd()
    }

    pub(crate) fn guard(&self) -> BorrowedFd<'_> {
        self.guard.as_fd()
    }

    /// Sends what the kernel takes now.
    pub(crate) fn send(&self, number: usize, bytes: &[u8]) -> io::Result<usize> {
        would_block((&self.streams[number]).write(bytes))
    }

    /// Receives what is there now.
    pub(crate) fn receive(&self, number: usize, bytes: &mut [u8]) -> io::Result<usize> {
        match (&self.streams[number]).read(bytes) {
            Ok(0) if !bytes.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
            read => would_block(read),
        }
    }

    /// Tells the peer why we hang up.
    pub(crate) fn send_farewell(&self, farewell: Farewell) {
        let rank = match farewell {
            Farewell::Left => 0,
            Farewell::Lost(rank) => rank.0 as u64 + 1,
        };
        // Who cannot hear it sees the end of the connection.
        let _ = (&self.guard).write_all(&rank.to_le_bytes());
        let _ = self.guard.shutdown(Shutdown::Write);
    }

    /// Whether the peer has said that it leaves in good order; it can still be heard from [`Self::last_words`].
    pub(crate) fn has_left(&self) -> bool {
        let mut rank = [0; 8];
        matches!(self.guard.peek(&mut rank), Ok(8)) && rank == [0; 8]
    }

    /// What the peer said when it hung up, if it did.
    pub(crate) fn last_words(&self) -> Option<Farewell> {
        self.guard.set_nonblocking(false).ok()?;
        self.guard.set_read_timeout(Some(LAST_WORDS)).ok()?;
        let mut rank = [0; 8];
        (&self.guard).read_exact(&mut rank).ok()?;
        match u64::from_le_bytes(rank).checked_sub(1) {
            None => Some(Farewell::Left),
            Some(rank) => Some(Farewell::Lost(Rank(usize::try_from(rank).ok()?))),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Before they are closed: then the numbers may become somebody else's.
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        self.descriptors().for_each(|descriptor| {
            open.remove(&descriptor);
        });
    }
}

fn would_block(result: io::Result<usize>) -> io::Result<usize> {
    match result {
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(0),
        other => other,
    }
}
