//! Bringing a group together: who is where, who shares memory with whom, and connections among the rest.
//!
//! 1. Everybody shows a card: host, process, addresses.
//! 2. The first member of each host makes a segment; the others open it, and say whether they could.
//! 3. Members without a segment in common connect over TCP.

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, TcpListener},
    sync::{Arc, atomic::AtomicBool},
    thread,
    time::Instant,
};

use super::{Bell, Comm};
use crate::{
    algorithms::{Gathering, Topology},
    codec::{Reader, Writer},
    error::{Error, Result},
    handshake::{self, Secret},
    memory::{self, Segment},
    shm::{self, Peer, Shm},
    tcp::{Link, addresses, connect},
    types::Rank,
    wait_context::WaitContext,
    wire::{Way, Wire},
};

/// What a rank knows of itself.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    pub(crate) rank: Rank,
    /// Ranks with the same key may share memory.
    pub(crate) host: String,
    /// Ranks with the same key may use loopback.
    pub(crate) boot: String,
    /// Where peers may find us; empty: every address of this machine.
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) secret: Secret,
    pub(crate) deadline: Instant,
    /// Nobody wants the group any more.
    pub(crate) is_given_up: Arc<AtomicBool>,
}

/// Hands a card in and returns everybody's.
pub(crate) type Exchange<'a> = dyn FnMut(&str, Vec<u8>) -> Result<Vec<Vec<u8>>> + 'a;

#[derive(Debug)]
struct Card {
    rank: Rank,
    host: String,
    boot: String,
    pid: u32,
    port: u16,
    addresses: Vec<IpAddr>,
    mark: u64,
}

/// Forms a group of the ranks that exchange cards here; the order of the cards is that of the members.
pub(crate) fn form(site: &Site, me: usize, exchange: &mut Exchange<'_>) -> Result<Comm> {
    let failed = |error: io::Error| Error::Bootstrap(error.to_string());
    let listener = connect::listen().map_err(failed)?;
    let card = own_card(site, &listener).map_err(failed)?;
    let cards = exchange("card", card)?;
    let cards: Vec<Card> = cards.iter().map(|card| Card::read(card).ok_or_else(nonsense)).collect::<Result<_>>()?;
    let wait_context = Arc::new(WaitContext::default());
    let (shm, hosts) = share_memory(&cards, (me, &wait_context), exchange)?;
    let ways = connect_rest(site, &listener, &cards, (me, &hosts)).map_err(failed)?;
    let bell = match &shm {
        Some(shm) if hosts.len() == 1 => Bell::Memory(shm.bell()),
        _ => Bell::event().map_err(failed)?,
    };
    let ranks: Vec<Rank> = cards.iter().map(|card| card.rank).collect();
    Ok(Comm {
        me,
        everybody: (0..ranks.len()).collect(),
        topology: Topology { hosts },
        wire: Wire { ways, ranks: ranks.clone(), shm, wait_context, is_roomy: is_roomy(&cards, me) },
        ranks,
        bell,
        gathering: Gathering::default(),
        notes: Vec::new(),
    })
}

fn nonsense() -> Error {
    Error::Bootstrap("a rank sent malformed connection details".to_owned())
}

fn own_card(site: &Site, listener: &TcpListener) -> io::Result<Vec<u8>> {
    let addresses = if site.addresses.is_empty() { addresses::of_this_machine() } else { site.addresses.clone() };
    let mut card = Writer::default();
    card.size(site.rank.0).text(&site.host).text(&site.boot);
    card.number(u64::from(std::process::id())).number(u64::from(listener.local_addr()?.port()));
    card.size(addresses.len());
    addresses.iter().for_each(|address| {
        card.text(&address.to_string());
    });
    card.number(u64::from_le_bytes(handshake::random_bytes()?));
    Ok(card.0)
}

impl Card {
    fn read(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        Some(Self {
            rank: Rank(reader.size()?),
            host: reader.text()?.to_owned(),
            boot: reader.text()?.to_owned(),
            pid: u32::try_from(reader.number()?).ok()?,
            port: u16::try_from(reader.number()?).ok()?,
            addresses: reader.list(|reader| reader.text()?.parse().ok())?,
            mark: reader.number()?,
        })
    }
}

/// Members by host, in the order of their first members.
fn by_host(cards: &[Card]) -> Vec<Vec<usize>> {
    let mut hosts: Vec<Vec<usize>> = Vec::new();
    for (member, card) in cards.iter().enumerate() {
        match hosts.iter_mut().find(|host| cards[host[0]].host == card.host) {
            Some(host) => host.push(member),
            None => hosts.push(vec![member]),
        }
    }
    hosts
}

/// Returns our view of the segment, and which members share one: a host where it did not work counts as many.
fn share_memory(
    cards: &[Card],
    (me, wait_context): (usize, &Arc<WaitContext>),
    exchange: &mut Exchange<'_>,
) -> Result<(Option<Shm>, Vec<Vec<usize>>)> {
    let hosts = by_host(cards);
    let own = hosts.iter().find(|host| host.contains(&me)).cloned().unwrap_or_default();
    let len = shm::segment_len(own.len());
    let mark = cards[own[0]].mark;
    let made = if own[0] == me && own.len() > 1 { Segment::create(len).ok() } else { None };
    if let Some((segment, _)) = &made {
        shm::mark(segment, mark);
    }
    let number = made.as_ref().map_or(u64::MAX, |(_, fd)| memory::number(fd).cast_unsigned().into());
    let numbers = exchange("segment", number.to_le_bytes().to_vec())?;
    let number = i32::try_from(read_number(&numbers[own[0]])?).ok();
    let opened = match (made, number) {
        (Some((segment, fd)), _) => Some((segment, Some(fd))),
        (None, Some(number)) if own.len() > 1 => {
            let segment = Segment::open(cards[own[0]].pid, number, len).ok();
            segment.filter(|segment| shm::is_marked(segment, mark)).map(|segment| (segment, None))
        }
        _ => None,
    };
    let local = own.iter().position(|member| *member == me).unwrap_or(0);
    let peers: Vec<Peer> =
        own.iter().map(|member| Peer { rank: cards[*member].rank, pid: cards[*member].pid }).collect();
    // The descriptor stays open until all have said whether they could open it.
    let (shm, _descriptor) = match opened {
        Some((segment, fd)) => (Shm::new(Arc::new(segment), local, &peers, Arc::clone(wait_context)).ok(), fd),
        None => (None, None),
    };
    let opened = exchange("opened", u64::from(shm.is_some()).to_le_bytes().to_vec())?;
    let opened = opened.iter().map(|note| Ok(read_number(note)? == 1)).collect::<Result<Vec<bool>>>()?;
    let works = |host: &Vec<usize>| host.len() == 1 || host.iter().all(|member| opened[*member]);
    let shm = if works(&own) { shm } else { None };
    let split =
        |host: Vec<usize>| if works(&host) { vec![host] } else { host.into_iter().map(|it| vec![it]).collect() };
    Ok((shm, hosts.into_iter().flat_map(split).collect()))
}

/// Whether every member on our machine can have a processor.
fn is_roomy(cards: &[Card], me: usize) -> bool {
    let near = cards.iter().filter(|card| card.boot == cards[me].boot).count();
    near <= thread::available_parallelism().map_or(1, usize::from)
}

fn read_number(note: &[u8]) -> Result<u64> {
    note.try_into().map(u64::from_le_bytes).map_err(|_| nonsense())
}

fn connect_rest(
    site: &Site,
    listener: &TcpListener,
    cards: &[Card],
    (me, hosts): (usize, &[Vec<usize>]),
) -> io::Result<Vec<Way>> {
    let own: &[usize] = hosts.iter().find(|host| host.contains(&me)).map_or(&[], Vec::as_slice);
    let strangers: Vec<usize> = (0..cards.len()).filter(|member| !own.contains(member)).collect();
    let callees = strangers.iter().filter(|member| **member < me).map(|member| connect::Callee {
        member: *member,
        addresses: reachable(&cards[*member], &cards[me]),
        port: cards[*member].port,
    });
    let callees: Vec<connect::Callee> = callees.collect();
    let calls = connect::Calls {
        secret: site.secret.clone(),
        mark: cards[0].mark,
        me,
        deadline: site.deadline,
        is_given_up: Arc::clone(&site.is_given_up),
    };
    let mut links: BTreeMap<usize, Link> =
        connect::connect(&calls, listener, &callees, strangers.len() - callees.len())?;
    let way = |member: usize| {
        if member == me {
            return Ok(Way::Own);
        }
        match (own.iter().position(|each| *each == member), links.remove(&member)) {
            (Some(local), _) => Ok(Way::Memory(local)),
            (None, Some(link)) => Ok(Way::Tcp(link)),
            (None, None) => Err(io::Error::other(format!("rank {} did not connect", cards[member].rank))),
        }
    };
    (0..cards.len()).map(way).collect()
}

/// Loopback leads to a peer only on its own machine.
fn reachable(callee: &Card, caller: &Card) -> Vec<IpAddr> {
    let is_near = callee.boot == caller.boot;
    callee.addresses.iter().filter(|address| is_near || !address.is_loopback()).copied().collect()
}
