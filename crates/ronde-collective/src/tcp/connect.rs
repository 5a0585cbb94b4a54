//! Making the connections of a rank: it calls the ranks below it and is called by those above.
//!
//! The address of a peer is found by trying all that it has at once; the first that answers with our secret and the
//! right name is the one. So ranks need neither equal interface names nor equal networks. An address may lead
//! elsewhere from here than from there (that of a bridge is the same on every host), even to another member: so both
//! sides say who they are, and whom they mean.

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
/// The length of the words after the greeting: mark, who calls, who is meant, which stream.
const NAME: usize = 8 + 4 + 4 + 2;
/// The length of the answer: mark, who was called.
const ANSWER: usize = 8 + 4;

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
        let mut stream = call_again(calls, address)?;
        introduce(calls, callee.member, &mut stream, number)?;
        streams.push(stream);
    }
    Link::new(streams)
}

/// Calls a peer that has answered before, until it greets; it may be busy with others. Only who says a name counts as
/// a caller there, so nothing is left of a greeting that failed. What fails after it is final: the peer may be content
/// with that stream.
fn call_again(calls: &Calls, address: SocketAddr) -> io::Result<TcpStream> {
    loop {
        let mut stream = TcpStream::connect(address)?;
        match handshake::greet(&mut stream, &calls.secret, Side::Caller) {
            Ok(()) => return Ok(stream),
            Err(error) if handshake::is_final(&error) || clock::now() >= calls.deadline => return Err(error),
            Err(_) => thread::sleep(PAUSE),
        }
        calls.check()?;
    }
}

/// Tries all addresses at once, and again until the deadline.
fn call_any(calls: &Calls, callee: &Callee) -> io::Result<(TcpStream, SocketAddr)> {
    let mut last = io::Error::other("it has no address");
    // On one machine loopback is tried alone first: other addresses may go away with what they were made for.
    let near: Vec<IpAddr> = callee.addresses.iter().filter(|address| address.is_loopback()).copied().collect();
    let mut addresses = if near.is_empty() { callee.addresses.clone() } else { near };
    // Those where somebody else answered, perhaps quicker than the right one ever will.
    let mut wrong: Vec<IpAddr> = Vec::new();
    loop {
        calls.check()?;
        match dial(&addresses, callee.port, calls.deadline)? {
            Some((mut stream, address)) => {
                let greeted = handshake::greet(&mut stream, &calls.secret, Side::Caller);
                match greeted.and_then(|()| introduce(calls, callee.member, &mut stream, 0)) {
                    Ok(()) => return Ok((stream, address)),
                    Err(error) => last = error,
                }
                wrong.push(address.ip());
            }
            None => wrong.clear(),
        }
        if clock::now() >= calls.deadline {
            let addresses: Vec<String> = callee.addresses.iter().map(ToString::to_string).collect();
            let all = addresses.join(", ");
            return Err(io::Error::new(
                last.kind(),
                format!("cannot connect to any of {all}, port {}: {last}", callee.port),
            ));
        }
        thread::sleep(PAUSE);
        addresses = callee.addresses.iter().filter(|address| !wrong.contains(address)).copied().collect();
    }
}

/// Returns the quickest connection, if one could be made within a second. The others are hung up on: who is called waits
/// for our first word, and we may wait long for that of somebody who has enough callers.
fn dial(addresses: &[IpAddr], port: u16, deadline: Instant) -> io::Result<Option<(TcpStream, SocketAddr)>> {
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
        let is_connected = |fd: &OwnedFd| matches!(rustix::net::sockopt::socket_error(fd), Ok(Ok(())));
        let mut connected = done.into_iter().map(|(each, _)| each).filter(|(fd, _)| is_connected(fd));
        if let Some((fd, address)) = connected.next() {
            return Ok(Some((TcpStream::from(fd), address)));
        }
    }
    Ok(None)
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

/// Says who calls whom; the other side answers with our mark and its own name.
fn introduce(calls: &Calls, callee: usize, stream: &mut TcpStream, number: usize) -> io::Result<()> {
    let (me, callee) = (name(calls.me)?, name(callee)?);
    let number = u16::try_from(number).map_err(io::Error::other)?.to_le_bytes();
    stream.write_all(&[&calls.mark.to_le_bytes()[..], &me, &callee, &number].concat())?;
    let mut answer = [0; ANSWER];
    stream.read_exact(&mut answer)?;
    let (mark, member) = answer.split_at(8);
    if mark != calls.mark.to_le_bytes() {
        return Err(io::Error::other("it belongs to another ring"));
    }
    if member == callee { Ok(()) } else { Err(io::Error::other("another rank of this ring answers there")) }
}

/// A member as it is said.
fn name(member: usize) -> io::Result<[u8; 4]> {
    u32::try_from(member).map(u32::to_le_bytes).map_err(io::Error::other)
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
            return Err(io::Error::new(io::ErrorKind::TimedOut, "some ranks did not connect"));
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
    let me = name(calls.me)?;
    let mut words = [0; NAME];
    stream.read_exact(&mut words)?;
    stream.write_all(&[&calls.mark.to_le_bytes()[..], &me].concat())?;
    let (mark, rest) = words.split_at(8);
    let (caller, rest) = rest.split_at(4);
    let (callee, number) = rest.split_at(4);
    if mark != calls.mark.to_le_bytes() || callee != me {
        return Err(io::Error::other("a connection meant for another ring"));
    }
    let member = u32::from_le_bytes([caller[0], caller[1], caller[2], caller[3]]);
    let number = u16::from_le_bytes([number[0], number[1]]);
    Ok((usize::try_from(member).map_err(io::Error::other)?, number, stream))
}

#[cfg(test)]
mod tests {
    use std::{
        net::{IpAddr, Ipv4Addr, TcpListener},
        sync::Arc,
        thread,
        time::Duration,
    };

    use super::{Callee, Calls, Link, call_again, clock, connect};
    use crate::handshake::{self, Secret, Side};

    fn calls(me: usize) -> Calls {
        let deadline = clock::now() + Duration::from_secs(60);
        Calls { secret: Secret::new(b"of the ring"), mark: 7, me, deadline, is_given_up: Arc::default() }
    }

    /// Two listeners at one port, as on two hosts; members find the other one's first at an address of their own.
    fn at_one_port() -> (TcpListener, TcpListener, u16) {
        loop {
            let one = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = one.local_addr().unwrap().port();
            if let Ok(other) = TcpListener::bind(("127.0.0.2", port)) {
                return (one, other, port);
            }
        }
    }

    fn received(link: &Link) -> u8 {
        let mut byte = [0];
        while link.receive(0, &mut byte).unwrap() == 0 {
            thread::yield_now();
        }
        byte[0]
    }

    #[test]
    fn a_peer_that_has_no_time_to_greet_is_called_again() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                drop(listener.accept().unwrap());
                handshake::greet(&mut listener.accept().unwrap().0, &calls(0).secret, Side::Called).unwrap();
            });
            call_again(&calls(1), listener.local_addr().unwrap()).unwrap();
        });
    }

    #[test]
    fn an_address_that_leads_to_another_member_is_not_taken_for_the_right_one() {
        let (zero, one, port) = at_one_port();
        let callee = |member: usize| {
            let addresses = [1, 2].map(|last| IpAddr::from(Ipv4Addr::new(127, 0, 0, last))).to_vec();
            Callee { member, addresses, port }
        };
        thread::scope(|scope| {
            for (me, listener) in [(0, &zero), (1, &one)] {
                scope.spawn(move || {
                    let links = connect(&calls(me), listener, &[], 1).unwrap();
                    assert_eq!(usize::from(received(&links[&2])), me, "a word for another came to {me}");
                });
            }
            let links = connect(&calls(2), &TcpListener::bind("127.0.0.1:0").unwrap(), &[callee(0), callee(1)], 0);
            for (member, link) in links.unwrap() {
                assert_eq!(link.send(0, &[u8::try_from(member).unwrap()]).unwrap(), 1);
            }
        });
    }
}
