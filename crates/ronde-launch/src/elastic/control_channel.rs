//! The launcher's end of the control channel: holds a connection to every worker, passes on what they say, and knows who is silent.
//!
//! A thread per connection reads; whoever has something to say writes, in a few bytes and not for long. That a
//! connection breaks means nothing by itself: the worker calls again, or its process has ended, or it falls silent.

use std::{
    collections::BTreeMap,
    io,
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use ronde_collective::{
    Secret, Side,
    control_channel::{FromRank, ToRank, read_frame, write_frame},
    greet,
};
use tokio::{sync::mpsc, time::Instant};

use super::model::{Event, WorkerId};

/// Connections at once; more are hung up on, and call again.
const CONNECTIONS_MAX: usize = 8192;
/// Between two looks for who is silent there is a second; if it was so long, the launcher itself has been away.
const AWAY: Duration = Duration::from_secs(3);
/// Who does not take a few bytes in this time is cut off, and may call again.
const WRITE_WITHIN: Duration = Duration::from_secs(1);

/// A running control channel; it ends when dropped.
#[derive(Debug)]
pub(super) struct ControlChannel {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// The last look for who is silent.
    looked: Option<Instant>,
    thread: Option<JoinHandle<()>>,
}

/// What a look for silent workers finds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) silent: Vec<WorkerId>,
    /// How long the launcher itself was away: nobody could be heard then, so nobody counts as silent.
    pub(super) away: Option<Duration>,
}

#[derive(Debug)]
struct Shared {
    secret: Secret,
    events: mpsc::Sender<Event>,
    /// Owned by the driver's loop and the threads of the connections, each for a moment.
    workers: Mutex<BTreeMap<WorkerId, Connection>>,
    connections: AtomicUsize,
    is_closing: AtomicBool,
}

/// What is known of a worker.
#[derive(Debug, Default)]
struct Connection {
    /// None before its first call, and while the connection is broken.
    stream: Option<TcpStream>,
    heard: Option<Instant>,
}

impl ControlChannel {
    /// Listens on an address; what workers say goes to `events`.
    pub(super) fn start(address: SocketAddr, secret: Secret, events: mpsc::Sender<Event>) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            secret,
            events,
            workers: Mutex::default(),
            connections: AtomicUsize::new(0),
            is_closing: AtomicBool::new(false),
        });
        let for_thread = Arc::clone(&shared);
        let thread = thread::Builder::new().name("control".to_owned()).spawn(move || serve(&listener, &for_thread))?;
        Ok(Self { address, shared, looked: None, thread: Some(thread) })
    }

    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// A worker may call from now on; others are hung up on.
    pub(super) fn expect(&self, worker: WorkerId) {
        self.shared.lock().entry(worker).or_default();
    }

    /// Says something to a worker; if it cannot hear now, it will ask again.
    pub(super) fn send(&self, worker: WorkerId, word: &ToRank) {
        if let Some(connection) = self.shared.lock().get_mut(&worker) {
            connection.send(word);
        }
    }

    /// Forgets a worker that has ended or is given up. If it lives, it hears no word any more, and leaves its ring.
    pub(super) fn forget(&self, worker: WorkerId) {
        if let Some(connection) = self.shared.lock().remove(&worker) {
            connection.hang_up();
        }
    }

    /// Asks everybody for a sign of life, and finds those who have given none for so long.
    pub(super) fn look(&mut self, limit: Duration, now: Instant) -> Look {
        let pause = self.looked.map_or(Duration::ZERO, |looked| now.saturating_duration_since(looked));
        self.looked = Some(now);
        let mut workers = self.shared.lock();
        workers.values_mut().for_each(|connection| connection.send(&ToRank::Ping));
        let heard = workers.values_mut().filter_map(|connection| connection.heard.as_mut());
        if pause >= AWAY {
            heard.for_each(|heard| *heard = now);
            return Look { silent: Vec::new(), away: Some(pause) };
        }
        let is_silent = |connection: &Connection| {
            connection.heard.is_some_and(|heard| now.saturating_duration_since(heard) >= limit)
        };
        let silent = workers.iter().filter(|(_, connection)| is_silent(connection)).map(|(worker, _)| *worker);
        Look { silent: silent.collect(), away: None }
    }
}

impl Drop for ControlChannel {
    fn drop(&mut self) {
        self.shared.is_closing.store(true, Ordering::SeqCst);
        std::mem::take(&mut *self.shared.lock()).into_values().for_each(|connection| connection.hang_up());
        // A call wakes the listener.
        let _ = TcpStream::connect_timeout(&self.address, WRITE_WITHIN);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Connection {
    fn send(&mut self, word: &ToRank) {
        if let Some(stream) = &mut self.stream
            && write_frame(stream, &word.to_bytes()).is_err()
        {
            let _ = stream.shutdown(Shutdown::Both);
            self.stream = None;
        }
    }

    fn hang_up(&self) {
        if let Some(stream) = &self.stream {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<WorkerId, Connection>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hears a worker out.
    fn listen(&self, mut stream: TcpStream) -> io::Result<()> {
        greet(&mut stream, &self.secret, Side::Called)?;
        stream.set_write_timeout(Some(WRITE_WITHIN))?;
        let Some(FromRank::Hello { worker }) = FromRank::read(&read_frame(&mut stream)?) else {
            return Err(io::Error::other("a client did not identify itself"));
        };
        let worker = WorkerId(worker);
        let connection = Connection { stream: Some(stream.try_clone()?), heard: Some(Instant::now()) };
        match self.lock().get_mut(&worker) {
            Some(known) => std::mem::replace(known, connection).hang_up(),
            None => return Err(io::Error::other("an unexpected worker connected")),
        }
        self.pass_on(Event::Connected(worker))?;
        loop {
            let frame = read_frame(&mut stream)?;
            let word = FromRank::read(&frame).ok_or_else(|| io::Error::other("a worker sent a malformed message"))?;
            if let Some(connection) = self.lock().get_mut(&worker) {
                connection.heard = Some(Instant::now());
            }
            match word {
                FromRank::Join(join) => self.pass_on(Event::Joined(worker, join))?,
                FromRank::Checked { generation, checks } => {
                    self.pass_on(Event::Checked { worker, generation, checks })?;
                }
                FromRank::Committed { generation } => self.pass_on(Event::Committed { worker, generation })?,
                FromRank::Hello { .. } | FromRank::Pong => {}
            }
        }
    }

    fn pass_on(&self, event: Event) -> io::Result<()> {
        self.events.blocking_send(event).map_err(|_| io::Error::other("the job has ended"))
    }
}

fn serve(listener: &TcpListener, shared: &Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept() {
        if shared.is_closing.load(Ordering::SeqCst) {
            return;
        }
        if shared.connections.fetch_add(1, Ordering::SeqCst) >= CONNECTIONS_MAX {
            shared.connections.fetch_sub(1, Ordering::SeqCst);
            continue;
        }
        let for_thread = Arc::clone(shared);
        let spawned = thread::Builder::new().name("control-call".to_owned()).spawn(move || {
            if let Err(error) = for_thread.listen(stream) {
                tracing::debug!(%error, "a worker disconnected");
            }
            for_thread.connections.fetch_sub(1, Ordering::SeqCst);
        });
        if spawned.is_err() {
            shared.connections.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        net::TcpStream,
        time::Duration,
    };

    use ronde_collective::{
        Secret, Side,
        control_channel::{Assignment, Client, FromRank, Join, JoinReply, ToRank, write_frame},
        greet,
    };
    use tokio::sync::mpsc;

    use super::{AWAY, ControlChannel, Event, Instant, Look, WorkerId};

    const WAIT: Duration = Duration::from_secs(10);

    fn control() -> (ControlChannel, mpsc::Receiver<Event>) {
        let (sender, events) = mpsc::channel(16);
        (ControlChannel::start("127.0.0.1:0".parse().unwrap(), Secret::new(b"job"), sender).unwrap(), events)
    }

    fn call(control: &ControlChannel, events: &mut mpsc::Receiver<Event>) -> Client {
        control.expect(WorkerId(3));
        let client = Client::connect(&control.address().to_string(), Secret::new(b"job"), 3).unwrap();
        assert_eq!(events.blocking_recv(), Some(Event::Connected(WorkerId(3))));
        client
    }

    #[test]
    fn a_worker_asks_and_is_answered() {
        let (mut control, mut events) = control();
        let client = call(&control, &mut events);
        client.join(Join::default());
        assert_eq!(events.blocking_recv(), Some(Event::Joined(WorkerId(3), Join::default())));
        let place = Assignment { generation: 1, size: 1, ..Assignment::default() };
        control.send(WorkerId(3), &ToRank::Assign(place));
        assert_eq!(client.answer(WAIT), Some(Ok(JoinReply::Assigned(place))));
        assert_eq!(control.look(WAIT, Instant::now()), Look::default());
        assert_eq!(control.look(Duration::ZERO, Instant::now()).silent, [WorkerId(3)]);
    }

    #[test]
    fn a_launcher_that_was_away_takes_nobody_for_silent() {
        let (mut control, mut events) = control();
        control.expect(WorkerId(3));
        // One that does not answer: what a client says is heard at the real time, and not at that of this test.
        let mut stream = TcpStream::connect(control.address()).unwrap();
        greet(&mut stream, &Secret::new(b"job"), Side::Caller).unwrap();
        write_frame(&mut stream, &FromRank::Hello { worker: 3 }.to_bytes()).unwrap();
        assert_eq!(events.blocking_recv(), Some(Event::Connected(WorkerId(3))));
        let limit = Duration::from_secs(20);
        let begun = Instant::now();
        assert_eq!(control.look(limit, begun), Look::default());
        let (mut now, away) = (begun + 2 * limit, Some(2 * limit));
        assert_eq!(control.look(limit, now), Look { silent: Vec::new(), away }, "it was stopped for so long");
        assert_eq!(control.look(limit, now), Look::default());
        while now < begun + 3 * limit {
            assert_eq!(control.look(limit, now), Look::default(), "the time begins anew");
            now += AWAY / 2;
        }
        assert_eq!(control.look(limit, now).silent, [WorkerId(3)], "and ends for who says nothing");
    }

    #[test]
    fn who_was_given_up_hears_no_word_any_more() {
        let (control, mut events) = control();
        let _client = call(&control, &mut events);
        control.forget(WorkerId(3));
        let mut stream = TcpStream::connect(control.address()).unwrap();
        greet(&mut stream, &Secret::new(b"job"), Side::Caller).unwrap();
        write_frame(&mut stream, &FromRank::Hello { worker: 3 }.to_bytes()).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0, "it is hung up on");
        assert!(events.try_recv().is_err());
    }

    #[test]
    fn who_has_another_secret_or_talks_nonsense_is_not_heard() {
        let (control, mut events) = control();
        let client = Client::connect(&control.address().to_string(), Secret::new(b"other"), 3).unwrap();
        client.join(Join::default());
        client.answer(WAIT).unwrap().unwrap_err();
        let mut stranger = TcpStream::connect(control.address()).unwrap();
        stranger.write_all(b"GET / HTTP/1.1\r\nHost: ronde\r\n\r\n").unwrap();
        // It is told our own first words at most, and hung up on.
        let mut rest = Vec::new();
        let _ = stranger.read_to_end(&mut rest);
        assert!(events.try_recv().is_err());
    }
}
