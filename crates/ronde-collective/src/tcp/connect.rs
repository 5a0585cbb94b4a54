//! Making the connections of a rank: it calls the ranks below it and is called by those above.
//!
//! The address of a peer is found by trying all that it has at once; the first that answers with our secret and the
//! right name is the one. So ranks need neither equal interface names nor equal networks.

use std::{
    collections::BTreeMap,
    io::{self, Read as _, Write as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream},
    os::fd::{AsFd as _, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    net::{AddressFamily, SocketFlags, SocketType},
};

use super::Link;
use crate::{
    clock,
    handshake::{self, Secret, Side},
};

/// Data streams of a pair: one fills the machine's own network; the second helps where one core limits a stream.
pub(crate) const STREAMS: usize = 2;
/// Between two tries of a peer that cannot be reached yet.
const PAUSE: Duration = Duration::from_millis(20);
/// How long it may go unnoticed that the ring was given up.
const SLICE: Duration = Duration::from_millis(50);
/// The length of the words after the greeting: mark, who calls, which stream.
const NAME: usize = 8 + 4 + 2;

/// What is needed to find a peer.
#[derive(Debug, Clone)]
pub(crate) struct Callee {
    pub(crate) member: usize,
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) port: u16,
}

/// What all connections of one group have in common.
#[derive(Debug, Clone)]
pub(crate) struct Calls {
    pub(crate) secret: Secret,
    /// Tells this group's calls from those of any other.
    pub(crate) mark: u64,
    pub(crate) me: usize,
    pub(crate) deadline: Instant,
    pub(crate) is_given_up: Arc<AtomicBool>,
}

impl Calls {
    fn check(&self) -> io::Result<()> {
        let is_given_up = self.is_given_up.load(Ordering::Relaxed);
        if is_given_up { Err(io::Error::other("the ring was given up")) } else { Ok(()) }
    }
}

/// Listens on all addresses of both families, or of one where there is only one.
pub(crate) fn listen() -> io::Result<TcpListener> {
    TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)))
}

/// Connects with everybody: calls `callees`, and waits for calls of as many members as said.
pub(crate) fn connect(
    calls: &Calls,
    listener: &TcpListener,
    callees: &[Callee],
    callers: usize,
) -> io::Result<BTreeMap<usize, Link>> {
    thread::scope(|scope| {
        let accepted = scope.spawn(|| accept_all(calls, listener, callers));
        let called = callees.iter().map(|callee| Ok((callee.member, call(calls, callee)?)));
        let called = called.collect::<io::Result<BTreeMap<usize, Link>>>();
        let accepted = accepted.join().map_err(|_| io::Error::other("the listener failed"))?;
        let mut links = called?;
        links.extend(accepted?);
        Ok(links)
    })
}

fn call(calls: &Calls, callee: &Callee) -> io::Result<Link> {
    let (first, address) = call_any(calls, callee)?;
    let mut streams = vec![first];
    for number in 1..=STREAMS {
        let mut stream = TcpStream::connect(address)?;
        introduce(calls, &mut stream, number)?;
        streams.push(stream);
    }
    Link::new(streams)
}

/// Tries all addresses at once, and again until the deadline.
fn call_any(calls: &Calls, callee: &Callee) -> io::Result<(TcpStream, SocketAddr)> {
    let mut last = io::Error::other("it has no address");
    // On one machine loopback is tried alone first: other addresses may go away with what they were made for.
    let near: Vec<IpAddr> = callee.addresses.iter().filter(|address| address.is_loopback()).copied().collect();
    let mut addresses = if near.is_empty() { &callee.addresses } else { &near };
    loop {
        calls.check()?;
        for (mut stream, address) in dial(addresses, callee.port, calls.deadline)? {
            match introduce(calls, &mut stream, 0) {
                Ok(()) => return Ok((stream, address)),
                Err(error) => last = error,
            }
        }
        if clock::now() >= calls.deadline {
            let addresses: Vec<String> = callee.addresses.iter().map(ToString::to_string).collect();
            let all = addresses.join(", ");
            return Err(io::Error::new(last.kind(), format!("no way to any of {all}, port {}: {last}", callee.port)));
        }
        thread::sleep(PAUSE);
        addresses = &callee.addresses;
    }
}

/// Returns the connections that could be made within a second, the quickest first.
fn dial(addresses: &[IpAddr], port: u16, deadline: Instant) -> io::Result<Vec<(TcpStream, SocketAddr)>> {
    let mut open: Vec<(OwnedFd, SocketAddr)> = Vec::new();
    for address in addresses {
        let address = SocketAddr::new(*address, port);
        // An address family that this machine does not have is no way.
        open.extend(start(address).map(|fd| (fd, address)));
    }
    let limit = deadline.saturating_duration_since(clock::now()).min(Duration::from_secs(1));
    let limit = clock::now() + limit;
    while !open.is_empty() && clock::now() < limit {
        let ready = wait_for(&open, limit.saturating_duration_since(clock::now()))?;
        let (done, waiting): (Vec<_>, Vec<_>) = open.into_iter().zip(ready).partition(|(_, ready)| *ready);
        open = waiting.into_iter().map(|(each, _)| each).collect();
        let connected: Vec<(TcpStream, SocketAddr)> = done
            .into_iter()
            .filter(|((fd, _), _)| matches!(rustix::net::sockopt::socket_error(fd), Ok(Ok(()))))
            .map(|((fd, address), _)| (TcpStream::from(fd), address))
            .collect();
        if !connected.is_empty() {
            return Ok(connected);
        }
    }
    Ok(Vec::new())
}

fn start(address: SocketAddr) -> Option<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = rustix::net::socket_with(family, SocketType::STREAM, flags, None).ok()?;
    match rustix::net::connect(&fd, &address) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Some(fd),
        Err(_) => None,
    }
}

fn wait_for(open: &[(OwnedFd, SocketAddr)], limit: Duration) -> io::Result<Vec<bool>> {
    let mut fds: Vec<PollFd<'_>> =
        open.iter().map(|(fd, _)| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::OUT)).collect();
    let limit = Timespec::try_from(limit).map_err(io::Error::other)?;
    poll(&mut fds, Some(&limit))?;
    Ok(fds.iter().map(|fd| !fd.revents().is_empty()).collect())
}

/// Greets, and says who calls; the other side answers with our mark.
fn introduce(calls: &Calls, stream: &mut TcpStream, number: usize) -> io::Result<()> {
    handshake::greet(stream, &calls.secret, Side::Caller)?;
    let me = u32::try_from(calls.me).map_err(io::Error::other)?;
    let number = u16::try_from(number).map_err(io::Error::other)?;
    stream.write_all(&[&calls.mark.to_le_bytes()[..], &me.to_le_bytes(), &number.to_le_bytes()].concat())?;
    let mut mark = [0; 8];
    stream.read_exact(&mut mark)?;
    if u64::from_le_bytes(mark) == calls.mark { Ok(()) } else { Err(io::Error::other("it belongs to another ring")) }
}

fn accept_all(calls: &Calls, listener: &TcpListener, callers: usize) -> io::Result<BTreeMap<usize, Link>> {
    listener.set_nonblocking(true)?;
    let mut streams: BTreeMap<usize, BTreeMap<u16, TcpStream>> = BTreeMap::new();
    let are_complete = |streams: &BTreeMap<usize, BTreeMap<u16, TcpStream>>| {
        streams.values().filter(|one| one.len() > STREAMS).count()
    };
    while are_complete(&streams) < callers {
        calls.check()?;
        let limit = calls.deadline.saturating_duration_since(clock::now()).min(SLICE);
        if limit.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "some ranks did not call"));
        }
        let mut fds = [PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::try_from(limit).map_err(io::Error::other)?))?;
        // A stranger is hung up on, and somebody who gives up halfway calls again.
        if let Ok((stream, _)) = listener.accept()
            && let Ok((member, number, stream)) = welcome(calls, stream)
        {
            streams.entry(member).or_default().insert(number, stream);
        }
    }
    streams.into_iter().map(|(member, streams)| Ok((member, Link::new(streams.into_values().collect())?))).collect()
}

fn welcome(calls: &Calls, mut stream: TcpStream) -> io::Result<(usize, u16, TcpStream)> {
    handshake::greet(&mut stream, &calls.secret, Side::Called)?;
    let mut name = [0; NAME];
    stream.read_exact(&mut name)?;
    stream.write_all(&calls.mark.to_le_bytes())?;
    let (mark, rest) = name.split_at(8);
    if mark != calls.mark.to_le_bytes() {
        return Err(io::Error::other("a call for another ring"));
    }
    let member = u32::from_le_bytes([rest[0], rest[1], rest[2], rest[3]]);
    let number = u16::from_le_bytes([rest[4], rest[5]]);
    Ok((usize::try_from(member).map_err(io::Error::other)?, number, stream))
}
