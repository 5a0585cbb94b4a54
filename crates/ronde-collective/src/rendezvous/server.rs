//! The rendezvous server: gathers the cards of a scope and gives them to all who brought one.
//!
//! A connection asks one question. What all ranks have fetched is forgotten, so a server that forms rings for weeks
//! does not grow.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use super::{Reader, Secret, Side, Writer, handshake, read_frame, write_frame};
use crate::{clock, tcp::addresses};

/// Ranks that ask at once; more are hung up on, and call again.
const CALLERS_MAX: usize = 8192;
/// Nobody waits longer, whatever was asked.
const PATIENCE_MAX: Duration = Duration::from_secs(24 * 3600);
/// Scopes that are remembered as given up; only ranks that are very late ask for older ones.
const GIVEN_UP_MAX: usize = 64;
/// Names of missing ranks in a message; the others are counted.
const NAMED_MAX: usize = 16;

/// A running server; it ends when dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    secret: Secret,
    /// Owned by the threads of the connections, each for one question.
    gatherings: Mutex<BTreeMap<String, Gathering>>,
    /// What the names of scopes that were given up begin with, the latest last.
    given_up: Mutex<VecDeque<String>>,
    changed: Condvar,
    callers: AtomicUsize,
    is_closing: AtomicBool,
}

#[derive(Debug, Default)]
struct Gathering {
    size: usize,
    cards: BTreeMap<usize, Vec<u8>>,
    fetched: usize,
}

impl Server {
    /// Listens on an address; port 0 takes any that is free.
    pub fn start(address: SocketAddr, secret: Secret) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            secret,
            gatherings: Mutex::default(),
            given_up: Mutex::default(),
            changed: Condvar::new(),
            callers: AtomicUsize::new(0),
            is_closing: AtomicBool::new(false),
        });
        let for_thread = Arc::clone(&shared);
        let thread =
            thread::Builder::new().name("rendezvous".to_owned()).spawn(move || serve(&listener, &for_thread))?;
        Ok(Self { address, shared, thread: Some(thread) })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Every address where ranks may find it: those of this machine if it listens on all of them.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        if self.address.ip().is_unspecified() {
            addresses::of_this_machine().into_iter().map(|ip| SocketAddr::new(ip, self.address.port())).collect()
        } else {
            vec![self.address]
        }
    }

    /// Lets nobody wait any more for ranks of this scope: whoever does, or comes later, hears that it was given up.
    pub fn give_up(&self, scope: &str) {
        let prefix = format!("{scope}/");
        let mut gatherings = self.shared.lock();
        gatherings.retain(|name, _| !name.starts_with(&prefix));
        let mut given_up = self.shared.given_up.lock().unwrap_or_else(PoisonError::into_inner);
        given_up.push_back(prefix);
        if given_up.len() > GIVEN_UP_MAX {
            given_up.pop_front();
        }
        drop((gatherings, given_up));
        self.shared.changed.notify_all();
    }

    /// How many scopes are not complete or not fetched by all.
    pub fn open_scopes(&self) -> usize {
        self.shared.lock().len()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.is_closing.store(true, Ordering::SeqCst);
        self.shared.changed.notify_all();
        // A call wakes the listener.
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_secs(1));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(listener: &TcpListener, shared: &Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept() {
        if shared.is_closing.load(Ordering::SeqCst) {
            return;
        }
        if shared.callers.load(Ordering::SeqCst) >= CALLERS_MAX {
            continue;
        }
        shared.callers.fetch_add(1, Ordering::SeqCst);
        let for_thread = Arc::clone(shared);
        let spawned = thread::Builder::new().name("rendezvous-call".to_owned()).spawn(move || {
            if let Err(error) = answer(&for_thread, stream) {
                tracing::debug!(%error, "rejected a client");
            }
            for_thread.callers.fetch_sub(1, Ordering::SeqCst);
        });
        if spawned.is_err() {
            shared.callers.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

fn answer(shared: &Shared, mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    handshake::greet(&mut stream, &shared.secret, Side::Called)?;
    let request = read_frame(&mut stream)?;
    let mut answer = Writer::default();
    match Question::read(&request).ok_or_else(|| "malformed request".to_owned()).and_then(|it| shared.gather(it)) {
        Ok(cards) => {
            answer.number(0).size(cards.len());
            cards.iter().for_each(|card| {
                answer.bytes(card);
            });
        }
        Err(error) => {
            answer.number(1).text(&error);
        }
    }
    write_frame(&mut stream, &answer.0)
}

struct Question {
    scope: String,
    rank: usize,
    size: usize,
    patience: Duration,
    card: Vec<u8>,
}

impl Question {
    fn read(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let scope = reader.text()?.to_owned();
        let (rank, size) = (reader.size()?, reader.size()?);
        let patience = Duration::from_millis(reader.number()?).min(PATIENCE_MAX);
        let card = reader.bytes()?.to_vec();
        (rank < size).then_some(Self { scope, rank, size, patience, card })
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Gathering>> {
        self.gatherings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_given_up(&self, scope: &str) -> bool {
        let given_up = self.given_up.lock().unwrap_or_else(PoisonError::into_inner);
        given_up.iter().any(|prefix| scope.starts_with(prefix))
    }

    fn gather(&self, Question { scope, rank, size, patience, card }: Question) -> Result<Vec<Vec<u8>>, String> {
        let deadline = clock::now() + patience;
        let mut gatherings = self.lock();
        if self.is_given_up(&scope) {
            return Err("the ring was given up".to_owned());
        }
        let gathering = gatherings.entry(scope.clone()).or_default();
        if !gathering.cards.is_empty() && gathering.size != size {
            return Err(format!("rank {rank} expects {size} ranks, another rank {}", gathering.size));
        }
        gathering.size = size;
        gathering.cards.insert(rank, card);
        self.changed.notify_all();
        loop {
            let left = deadline.saturating_duration_since(clock::now());
            let Some(gathering) = gatherings.get_mut(&scope) else { return Err("the ring was given up".to_owned()) };
            if gathering.cards.len() == size {
                let cards: Vec<Vec<u8>> = gathering.cards.values().cloned().collect();
                gathering.fetched += 1;
                if gathering.fetched == size {
                    gatherings.remove(&scope);
                }
                return Ok(cards);
            }
            if left.is_zero() || self.is_closing.load(Ordering::SeqCst) {
                let error = missing(gathering);
                gathering.cards.remove(&rank);
                if gathering.cards.is_empty() {
                    gatherings.remove(&scope);
                }
                return Err(error);
            }
            gatherings = self.changed.wait_timeout(gatherings, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

fn missing(gathering: &Gathering) -> String {
    let missing: Vec<usize> = (0..gathering.size).filter(|rank| !gathering.cards.contains_key(rank)).collect();
    let named: Vec<String> = missing.iter().take(NAMED_MAX).map(ToString::to_string).collect();
    let more = missing.len().saturating_sub(NAMED_MAX);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("timed out waiting for ranks {}{more}", named.join(", "))
}
