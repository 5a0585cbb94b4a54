//! The rank's end of the control channel: a connection to the launcher, kept up in a thread of its own.
//!
//! Questions of the rank wait in slices, so that its own thread can hear signals. A rank that has not heard a word of
//! the launcher for [`FENCE`] counts as cut off: its ring is given up, its questions fail, and it must not go on by
//! itself, because the launcher will go on without it.

use std::{
    fmt,
    io::{self, Write as _},
    net::{Shutdown, TcpStream, ToSocketAddrs as _},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use super::messages::{Assignment, FromRank, Join, ToRank, read_frame, write_frame};
use crate::{
    clock,
    handshake::{self, Secret, Side},
};

/// How long a rank goes on without a word of the launcher. It gives up only after a call that brought none: one that is
/// under way then takes 7 s more at most, and the launcher gives the rank up later than that, 20 s after its last word.
///
/// A rank that stood still itself finds the time over when it wakes. The launcher may have stood still with it, and
/// waits for it then; so it makes that call too. Who stood still alone for more than 13 s, and cannot reach the launcher
/// just then, goes on for up to 7 s although it may be given up; a launcher that is reached hangs up at once.
pub const FENCE: Duration = Duration::from_secs(10);
/// From the beginning of a call to the launcher's first word.
const WORD_WITHIN: Duration = Duration::from_secs(7);
/// The launcher says something every second: one that is silent for so long is called again.
const SILENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(50);
const CALL_WITHIN: Duration = Duration::from_secs(2);

/// How long a silent launcher is borne.
#[derive(Debug, Clone, Copy)]
struct Limits {
    fence: Duration,
    silence: Duration,
    word: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { fence: FENCE, silence: SILENCE, word: WORD_WITHIN }
    }
}

/// What comes of asking for a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinReply {
    Assigned(Assignment),
    /// There is none any more.
    Leave,
}

/// The launcher is out of reach for good.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot reach the launcher at `{address}`: {why}")]
pub struct ClientError {
    address: String,
    why: String,
}

/// A rank's connection to its launcher; it ends when dropped.
#[derive(Debug)]
pub struct Client {
    shared: Arc<Shared>,
}

struct Shared {
    address: String,
    secret: Secret,
    worker: u64,
    /// Owned by the connection's thread and whoever asks; nobody holds it while waiting for the network but to write.
    state: Mutex<State>,
    changed: Condvar,
}

/// What is done when a ring is given up.
type Act = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    limits: Limits,
    /// To write; none while there is no connection.
    stream: Option<TcpStream>,
    lost: Option<ClientError>,
    is_closed: bool,
    /// The last place and what has happened since.
    generation: u64,
    checks: u64,
    change: Option<u8>,
    at: Option<u64>,
    is_released: Arc<AtomicBool>,
    on_release: Vec<Act>,
    /// An open question, and its answer.
    question: Option<Join>,
    answer: Option<JoinReply>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("address", &self.address).field("worker", &self.worker).finish_non_exhaustive()
    }
}

impl Client {
    /// Calls the launcher at `host:port`, again and again for as long as [`FENCE`] allows.
    pub fn connect(address: &str, secret: Secret, worker: u64) -> io::Result<Self> {
        Self::connect_within(Limits::default(), address, secret, worker)
    }

    fn connect_within(limits: Limits, address: &str, secret: Secret, worker: u64) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            address: address.to_owned(),
            secret,
            worker,
            state: Mutex::new(State { limits, ..State::default() }),
            changed: Condvar::new(),
        });
        let weak = Arc::downgrade(&shared);
        thread::Builder::new().name("control-channel".to_owned()).spawn(move || keep_up(&weak))?;
        Ok(Self { shared })
    }

    /// Asks for a place in the next ring; [`Client::answer`] has it.
    pub fn join(&self, mut join: Join) {
        let mut state = self.shared.lock();
        join.seen = state.generation;
        state.answer = None;
        state.send(&FromRank::Join(join.clone()));
        state.question = Some(join);
    }

    /// Waits a while for the answer.
    pub fn answer(&self, wait: Duration) -> Option<Result<JoinReply, ClientError>> {
        self.wait(wait, |state| state.answer.take())
    }

    /// Says that the rank has come to a point where all ranks could leave their ring; [`Client::verdict`] says whether
    /// they do.
    pub fn check(&self) {
        let mut state = self.shared.lock();
        state.checks += 1;
        if state.checks == 1 {
            let generation = state.generation;
            state.send(&FromRank::Committed { generation });
        }
    }

    /// Waits a while for what follows from the last check: to go on, or what has changed.
    pub fn verdict(&self, wait: Duration) -> Option<Result<Option<u8>, ClientError>> {
        self.wait(wait, |state| match (state.change, state.at) {
            (None, None) => Some(None),
            (Some(_), None) => None,
            (change, Some(at)) if state.checks >= at => Some(Some(change.unwrap_or(0))),
            _ => Some(None),
        })
    }

    /// Whether a change was announced in this generation.
    pub fn is_noticed(&self) -> bool {
        let state = self.shared.lock();
        state.change.is_some() || state.at.is_some()
    }

    /// Becomes true when the launcher gives the ring of the last place up.
    pub fn release_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.shared.lock().is_released)
    }

    /// Does something when the launcher gives the ring of the last place up; at once if it has.
    pub fn on_release(&self, act: impl FnOnce() + Send + 'static) {
        let mut state = self.shared.lock();
        if state.is_released.load(Ordering::SeqCst) {
            drop(state);
            act();
        } else {
            state.on_release.push(Box::new(act));
        }
    }

    fn wait<T>(&self, wait: Duration, take: impl Fn(&mut State) -> Option<T>) -> Option<Result<T, ClientError>> {
        let deadline = clock::now() + wait;
        let mut state = self.shared.lock();
        loop {
            if let Some(lost) = &state.lost {
                return Some(Err(lost.clone()));
            }
            if let Some(found) = take(&mut state) {
                return Some(Ok(found));
            }
            let left = deadline.saturating_duration_since(clock::now());
            if left.is_zero() {
                return None;
            }
            state = self.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.is_closed = true;
        if let Some(stream) = state.stream.take() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl State {
    /// What cannot be said now is said again when there is a connection.
    fn send(&mut self, word: &FromRank) {
        if let Some(stream) = &mut self.stream
            && write_frame(stream, &word.to_bytes()).and_then(|()| stream.flush()).is_err()
        {
            self.stream = None;
        }
    }

    fn hear(&mut self, word: ToRank) -> Vec<Act> {
        match word {
            ToRank::Assign(place) if self.question.is_some() => {
                self.question = None;
                (self.generation, self.checks) = (place.generation, 0);
                (self.change, self.at) = (None, None);
                self.on_release.clear();
                self.is_released = Arc::default();
                self.answer = Some(JoinReply::Assigned(place));
            }
            ToRank::Leave if self.question.is_some() => {
                self.question = None;
                self.answer = Some(JoinReply::Leave);
            }
            ToRank::Notice { generation, change } if self.is_in(generation) => {
                self.change = Some(change);
                let checks = self.checks;
                self.send(&FromRank::Checked { generation, checks });
            }
            ToRank::Interrupt { generation, at } if self.is_in(generation) => {
                self.at = Some(self.at.map_or(at, |before| before.min(at)));
                if at == 0 {
                    return self.release();
                }
            }
            ToRank::Ping => self.send(&FromRank::Pong),
            ToRank::Assign(_) | ToRank::Leave | ToRank::Notice { .. } | ToRank::Interrupt { .. } => {}
        }
        Vec::new()
    }

    /// Gives the ring up; returns what is to be done about it, by who holds no lock.
    fn release(&mut self) -> Vec<Act> {
        self.is_released.store(true, Ordering::SeqCst);
        std::mem::take(&mut self.on_release)
    }

    fn is_in(&self, generation: u64) -> bool {
        self.generation == generation && self.question.is_none()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn call(&self, deadline: Instant) -> io::Result<TcpStream> {
        let mut addresses = self.address.to_socket_addrs()?;
        let first = addresses.next().ok_or_else(|| io::Error::other("the host name has no address"))?;
        let mut stream = TcpStream::connect_timeout(&first, CALL_WITHIN)?;
        handshake::greet_until(deadline, &mut stream, &self.secret, Side::Caller)?;
        stream.set_write_timeout(Some(CALL_WITHIN))?;
        write_frame(&mut stream, &FromRank::Hello { worker: self.worker }.to_bytes())?;
        Ok(stream)
    }

    /// Hears what the launcher says until the connection breaks; `heard` is when it said the last word. The first must come
    /// by the deadline.
    fn listen(self: &Arc<Self>, mut stream: TcpStream, deadline: Instant, heard: &mut Instant) -> io::Result<()> {
        {
            let mut state = self.lock();
            state.stream = Some(stream.try_clone()?);
            if let Some(question) = state.question.clone() {
                state.send(&FromRank::Join(question));
            }
        }
        let mut first = deadline.saturating_duration_since(clock::now()).max(handshake::MOMENT);
        loop {
            // Packets may be lost without a word: then nothing but the time tells.
            stream.set_read_timeout(Some(self.lock().limits.silence.min(first)))?;
            let frame = read_frame(&mut stream).map_err(told)?;
            first = Duration::MAX;
            let word = ToRank::read(&frame).ok_or_else(|| io::Error::other("the launcher sent a malformed message"))?;
            *heard = clock::now();
            let mut state = self.lock();
            let acts = state.hear(word);
            self.changed.notify_all();
            drop(state);
            acts.into_iter().for_each(|act| act());
        }
    }
}

/// What a read that took too long means here.
fn told(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => io::Error::other("it does not respond"),
        _ => error,
    }
}

/// Keeps the connection up for as long as anybody holds the client.
fn keep_up(weak: &Weak<Shared>) {
    // A greeting is no word: threads that greet may outlive the loop that decides.
    let mut heard = clock::now();
    loop {
        let Some(shared) = weak.upgrade() else { return };
        let (before, deadline) = (heard, clock::now() + shared.lock().limits.word);
        let called = shared.call(deadline).and_then(|stream| shared.listen(stream, deadline, &mut heard));
        let mut state = shared.lock();
        state.stream = None;
        if state.is_closed {
            return;
        }
        // Silence alone is not enough: all may have stood still, and a call shows it.
        let is_cut_off = heard == before && heard.elapsed() >= state.limits.fence;
        let error = called.err().filter(|error| is_cut_off || handshake::is_final(error));
        if let Some(why) = error.map(|error| error.to_string()) {
            state.lost = Some(ClientError { address: shared.address.clone(), why });
            let acts = state.release();
            shared.changed.notify_all();
            drop(state);
            acts.into_iter().for_each(|act| act());
            return;
        }
        drop(state);
        drop(shared);
        thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, sync::mpsc, thread, time::Duration};

    use super::{
        Assignment, Client, FromRank, Join, JoinReply, Limits, Secret, Side, ToRank, handshake, read_frame, write_frame,
    };

    const WAIT: Duration = Duration::from_secs(60);
    /// A test may stand still itself: its launcher says nothing by itself.
    const PATIENT: Limits = Limits { fence: WAIT, silence: WAIT, word: WAIT };

    /// A launcher for one rank: what the rank says comes out of a channel, what is put in is said to it.
    struct Launcher {
        heard: mpsc::Receiver<FromRank>,
        stream: std::net::TcpStream,
    }

    fn accept(listener: &TcpListener) -> Launcher {
        listener.set_nonblocking(true).unwrap();
        let (mut stream, _) = ronde_sim::wait_until("a call", WAIT, || listener.accept().ok());
        handshake::greet(&mut stream, &Secret::new(b"launcher"), Side::Called).unwrap();
        let (sender, heard) = mpsc::channel();
        let mut reader = stream.try_clone().unwrap();
        thread::spawn(move || {
            while let Ok(frame) = read_frame(&mut reader) {
                let _ = sender.send(FromRank::read(&frame).unwrap());
            }
        });
        Launcher { heard, stream }
    }

    impl Launcher {
        fn send(&mut self, word: ToRank) {
            write_frame(&mut self.stream, &word.to_bytes()).unwrap();
        }

        fn hear(&self) -> FromRank {
            self.heard.recv_timeout(WAIT).unwrap()
        }

        fn hang_up(self) {
            self.stream.shutdown(std::net::Shutdown::Both).unwrap();
        }
    }

    fn pair() -> (Client, TcpListener, Launcher) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let client = Client::connect_within(PATIENT, &address, Secret::new(b"launcher"), 7).unwrap();
        let launcher = accept(&listener);
        assert_eq!(launcher.hear(), FromRank::Hello { worker: 7 });
        (client, listener, launcher)
    }

    fn placed(client: &Client, launcher: &mut Launcher, generation: u64) {
        client.join(Join::default());
        assert!(matches!(launcher.hear(), FromRank::Join(_)));
        let place = Assignment { generation, size: 1, ..Assignment::default() };
        launcher.send(ToRank::Assign(place));
        assert_eq!(client.answer(WAIT), Some(Ok(JoinReply::Assigned(place))));
    }

    #[test]
    fn nobody_passes_the_check_that_ends_the_ring() {
        let (client, _listener, mut launcher) = pair();
        placed(&client, &mut launcher, 1);
        client.check();
        assert_eq!(client.verdict(WAIT), Some(Ok(None)));
        assert_eq!(launcher.hear(), FromRank::Committed { generation: 1 });
        launcher.send(ToRank::Notice { generation: 1, change: 2 });
        assert_eq!(launcher.hear(), FromRank::Checked { generation: 1, checks: 1 });
        client.check();
        assert_eq!(client.verdict(Duration::from_millis(20)), None, "it waits for the name of the check");
        launcher.send(ToRank::Interrupt { generation: 1, at: 3 });
        assert_eq!(client.verdict(WAIT), Some(Ok(None)), "another rank is one check ahead");
        client.check();
        assert_eq!(client.verdict(WAIT), Some(Ok(Some(2))));
        placed(&client, &mut launcher, 2);
        launcher.send(ToRank::Notice { generation: 1, change: 2 });
        client.check();
        assert_eq!(launcher.hear(), FromRank::Committed { generation: 2 });
        assert_eq!(client.verdict(WAIT), Some(Ok(None)), "what concerns an old ring is forgotten");
    }

    #[test]
    fn a_ring_that_is_given_up_is_left() {
        let (client, _listener, mut launcher) = pair();
        placed(&client, &mut launcher, 1);
        let flag = client.release_flag();
        let (sender, released) = mpsc::channel();
        // A rank may be in several rings: that of all ranks, and those of process groups.
        for _ in 0..2 {
            let sender = sender.clone();
            client.on_release(move || sender.send(()).unwrap());
        }
        launcher.send(ToRank::Interrupt { generation: 1, at: 0 });
        for _ in 0..2 {
            released.recv_timeout(WAIT).unwrap();
        }
        assert!(flag.load(std::sync::atomic::Ordering::SeqCst));
        placed(&client, &mut launcher, 2);
        assert!(!client.release_flag().load(std::sync::atomic::Ordering::SeqCst));
    }

    #[test]
    fn a_question_outlives_its_connection() {
        let (client, listener, launcher) = pair();
        client.join(Join { commits: Some(4), ..Join::default() });
        assert!(matches!(launcher.hear(), FromRank::Join(_)));
        launcher.hang_up();
        let mut again = accept(&listener);
        assert_eq!(again.hear(), FromRank::Hello { worker: 7 });
        assert!(matches!(again.hear(), FromRank::Join(Join { commits: Some(4), .. })));
        again.send(ToRank::Ping);
        assert_eq!(again.hear(), FromRank::Pong);
        again.send(ToRank::Leave);
        assert_eq!(client.answer(WAIT), Some(Ok(JoinReply::Leave)));
    }

    /// Packets that get lost without a word: nothing is ever heard, and nothing breaks.
    #[test]
    fn a_rank_that_is_cut_off_silently_leaves_its_ring_and_does_not_go_on() {
        let (client, listener, mut launcher) = pair();
        placed(&client, &mut launcher, 1);
        let (sender, released) = mpsc::channel();
        client.on_release(move || sender.send(()).unwrap());
        // Only now: a pause before would be the silence.
        let soon = Duration::from_millis(100);
        client.shared.lock().limits = Limits { fence: soon, silence: soon, word: WAIT };
        launcher.send(ToRank::Ping);
        // It calls again, and the greeting alone does not make it go on.
        let again = accept(&listener);
        released.recv_timeout(WAIT).unwrap();
        client.check();
        let error = client.verdict(WAIT).unwrap().unwrap_err().to_string();
        assert!(error.contains("it does not respond"), "{error}");
        drop((launcher, again));
    }

    #[test]
    fn a_rank_that_stood_still_for_too_long_calls_once_before_it_gives_up() {
        let (client, listener, mut launcher) = pair();
        placed(&client, &mut launcher, 1);
        let (sender, released) = mpsc::channel();
        client.on_release(move || sender.send(()).unwrap());
        client.shared.lock().limits.fence = Duration::ZERO;
        launcher.hang_up();
        let mut again = accept(&listener);
        assert_eq!(again.hear(), FromRank::Hello { worker: 7 });
        again.send(ToRank::Ping);
        assert_eq!(again.hear(), FromRank::Pong);
        assert!(!client.release_flag().load(std::sync::atomic::Ordering::SeqCst), "its ring goes on");
        drop(listener);
        again.hang_up();
        released.recv_timeout(WAIT).unwrap();
    }

    #[test]
    fn another_secret_is_refused_at_once() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let limits = Limits { fence: 2 * WAIT, ..PATIENT };
        let client = Client::connect_within(limits, &address, Secret::new(b"other"), 7).unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                handshake::greet(&mut stream.unwrap(), &Secret::new(b"launcher"), Side::Called).unwrap_err();
            }
        });
        client.join(Join::default());
        let error = client.answer(WAIT).unwrap().unwrap_err().to_string();
        assert!(error.contains("secret"), "{error}");
    }
}
