//! The supervisor's loop: wait for anything, handle it, go back.
//!
//! It ends when it is told to quit, or its folder is deleted, and everything has ended.

use std::{
    collections::BTreeMap,
    io,
    os::{
        fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd},
        unix::net::UnixListener,
    },
};

use fs_err as fs;
use jiff::Timestamp;
use ronde_process::{
    Alone, Child, Fork, Namespaces,
    fork::{fork, keep_only},
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{
    connection::{Connection, Purpose},
    container::Container,
    control::{Order, SupervisorAnswer},
    folder::PodFolder,
    record::Unwritten,
};
use crate::{
    presence::Presence,
    sandbox::{
        init::rustix_exit,
        spec::{ContainerSpec, Pids},
    },
    start::instance,
    sweep::remove_cgroups,
};

/// The daemon has a few connections, and each attached client one.
const CONNECTIONS_MAX: usize = 256;
/// How often a client that reads nothing, or a disk that takes nothing, is looked at while there is one.
const STALL_CHECK: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// How often the pod's folder is looked for: two system calls.
const FOLDER_CHECK: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };

pub struct Supervisor {
    alone: Alone,
    folder: PodFolder,
    listener: UnixListener,
    containers: BTreeMap<String, Container>,
    connections: Vec<Connection>,
    /// Holds the pid namespace that the containers share, if they do.
    pause: Option<Child>,
    unwritten: Unwritten,
    quitting: bool,
    /// Whether the folder is gone.
    is_orphan: bool,
    /// The lock, which is in the pod's folder.
    presence: Presence,
    /// When the folder was last looked for.
    looked_at: Timestamp,
    _lock: OwnedFd,
}

/// What a descriptor in the poll set belongs to.
#[derive(Debug, Clone)]
enum Token {
    Listener,
    Connection(usize),
    Report(String),
    Output(String, usize),
    Init(String),
}

impl Supervisor {
    pub fn new(alone: Alone, folder: PodFolder, lock: OwnedFd) -> io::Result<Self> {
        let listener = listen(&folder)?;
        let (containers, connections) = (BTreeMap::new(), Vec::new());
        let unwritten = Unwritten::default();
        let presence = Presence::new(&lock, &folder.lock())?;
        Ok(Self {
            alone,
            folder,
            listener,
            containers,
            connections,
            pause: None,
            unwritten,
            quitting: false,
            is_orphan: false,
            presence,
            looked_at: now(),
            _lock: lock,
        })
    }

    /// Serves until told to quit, or until the folder is gone.
    pub fn run(&mut self) {
        while !(self.quitting && self.containers.is_empty()) {
            // 1. Wait for something to happen.
            let (ready, now) = match self.wait() {
                Ok(ready) => ready,
                Err(error) => {
                    complain("cannot wait", &error);
                    return;
                }
            };
            // 2. Handle it.
            for (token, flags) in ready {
                self.handle(&token, flags, now);
            }
            // 3. Forget what has ended.
            self.finish_ended(now);
            if self.unwritten.retry() {
                self.tell_watchers();
            }
            self.connections.retain_mut(|connection| connection.is_alive(now));
            // 4. Nobody can reach a pod whose folder is gone.
            self.look_for_folder(now);
        }
        if let Some(pause) = &self.pause {
            let _ = pause.signal(rustix::process::Signal::KILL);
            let _ = pause.wait();
        }
        if self.is_orphan {
            self.remove_groups();
        }
    }

    /// The last pod of an instance that is gone takes the control groups with it; nobody else knows of them.
    fn remove_groups(&self) {
        if let Some(data_dir) = self.folder.data_dir() {
            remove_cgroups(&instance(data_dir));
        }
    }

    fn wait(&self) -> io::Result<(Vec<(Token, PollFlags)>, Timestamp)> {
        let tokens = self.tokens();
        let mut set: Vec<PollFd<'_>> =
            tokens.iter().map(|(_, fd, flags)| PollFd::from_borrowed_fd(*fd, *flags)).collect();
        let waits = self.connections.iter().any(Connection::has_pending) || !self.unwritten.is_empty();
        match poll(&mut set, Some(if waits { &STALL_CHECK } else { &FOLDER_CHECK })) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let happened = tokens.iter().zip(&set).filter(|(_, poll)| !poll.revents().is_empty());
        Ok((happened.map(|((token, ..), poll)| (token.clone(), poll.revents())).collect(), now()))
    }

    fn tokens(&self) -> Vec<(Token, BorrowedFd<'_>, PollFlags)> {
        let mut tokens = vec![(Token::Listener, self.listener.as_fd(), PollFlags::IN)];
        for (index, connection) in self.connections.iter().enumerate() {
            tokens.push((Token::Connection(index), connection.as_fd(), connection.interest()));
        }
        for (name, container) in &self.containers {
            tokens.push((Token::Report(name.clone()), container.report(), PollFlags::IN));
            tokens.push((Token::Init(name.clone()), container.init(), PollFlags::IN));
            // A client that is slow to read holds the container back, as a terminal would.
            let held = self.connections.iter().any(|connection| connection.holds_back(name));
            for (index, output) in container.outputs().filter(|_| !held) {
                tokens.push((Token::Output(name.clone(), index), output, PollFlags::IN));
            }
        }
        tokens
    }

    fn handle(&mut self, token: &Token, flags: PollFlags, now: Timestamp) {
        match token {
            Token::Listener => self.accept(),
            Token::Connection(index) => self.serve(*index, flags, now),
            Token::Report(name) => {
                if let Some(container) = self.containers.get_mut(name)
                    && container.take_reports(now, &mut self.unwritten)
                {
                    self.tell_watchers();
                }
            }
            Token::Output(name, index) => {
                if let Some(container) = self.containers.get_mut(name) {
                    container.pump(*index, now, &mut self.connections);
                }
            }
            Token::Init(name) => {
                if let Some(container) = self.containers.get_mut(name) {
                    container.note_end();
                }
            }
        }
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            if self.connections.len() < CONNECTIONS_MAX
                && let Ok(connection) = Connection::new(stream)
            {
                self.connections.push(connection);
            }
        }
    }

    fn serve(&mut self, index: usize, flags: PollFlags, now: Timestamp) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        connection.flush(now);
        if !flags.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            return;
        }
        connection.fill();
        if let Purpose::Attached { container } = connection.purpose().clone() {
            let container = self.containers.get_mut(&container);
            self.connections[index].pass_input(container);
            return;
        }
        while let Some(line) = self.connections.get_mut(index).and_then(Connection::take_line) {
            let answer = match serde_json::from_slice(&line) {
                Ok(order) => self.carry_out(order, index, now),
                Err(error) => Err(io::Error::other(error)),
            };
            let answer = match answer {
                Ok(()) => SupervisorAnswer::Done,
                Err(error) => SupervisorAnswer::Failed { message: error.to_string() },
            };
            self.connections[index].send(&answer, now);
        }
    }

    fn carry_out(&mut self, order: Order, index: usize, now: Timestamp) -> io::Result<()> {
        match order {
            Order::Start(spec) => self.start(*spec, now),
            Order::Signal { container, signal, all } => match self.containers.get(&container) {
                Some(container) => container.signal(signal, all),
                None => Ok(()),
            },
            Order::Watch => {
                self.connections[index].become_purpose(Purpose::Watching);
                Ok(())
            }
            Order::Attach { container } if self.containers.contains_key(&container) => {
                self.connections[index].become_purpose(Purpose::Attached { container });
                Ok(())
            }
            Order::Attach { container } => Err(io::Error::other(format!("container {container} is not running"))),
            Order::Quit => {
                self.quitting = true;
                self.containers.values().try_for_each(|container| container.signal(9, true))
            }
        }
    }

    fn start(&mut self, spec: ContainerSpec, now: Timestamp) -> io::Result<()> {
        if self.quitting {
            return Err(io::Error::other("the pod is being stopped"));
        }
        if self.folder.record(&spec.name, spec.attempt).exists() {
            return Ok(());
        }
        if self.containers.contains_key(&spec.name) {
            return Err(io::Error::other(format!("container {} is still running", spec.name)));
        }
        if spec.pids == Pids::Pod && self.pause.is_none() {
            self.pause = Some(pause(self.alone)?);
        }
        let pids = self.pause.as_ref().filter(|_| spec.pids == Pids::Pod);
        let name = spec.name.clone();
        let started = Container::start(self.alone, &self.folder, spec, pids, &mut self.unwritten, now);
        self.tell_watchers();
        self.containers.insert(name, started?);
        Ok(())
    }

    /// Ends the pod when its folder was deleted or moved away.
    fn look_for_folder(&mut self, now: Timestamp) {
        // The clock of the machine may be set back.
        if self.quitting || now.duration_since(self.looked_at).abs().as_secs() < FOLDER_CHECK.tv_sec {
            return;
        }
        self.looked_at = now;
        if self.presence.is_gone() {
            complain("ending the pod", &io::Error::other("its folder is gone"));
            self.quitting = true;
            self.is_orphan = true;
            for container in self.containers.values() {
                let _ = container.signal(9, true);
            }
        }
    }

    fn finish_ended(&mut self, now: Timestamp) {
        let ended: Vec<String> = self
            .containers
            .iter()
            .filter(|(_, container)| container.has_ended())
            .map(|(name, _)| name.clone())
            .collect();
        for name in ended {
            if let Some(container) = self.containers.remove(&name) {
                container.finish(now, &mut self.connections, &mut self.unwritten);
                for connection in &mut self.connections {
                    connection.end_if_attached(&name);
                }
                self.tell_watchers();
            }
        }
    }

    fn tell_watchers(&mut self) {
        let now = now();
        for connection in self.connections.iter_mut().filter(|one| *one.purpose() == Purpose::Watching) {
            connection.send(&SupervisorAnswer::Done, now);
        }
    }
}

/// Binds the control socket by a short name, however long the folder's is.
fn listen(folder: &PodFolder) -> io::Result<UnixListener> {
    let path = folder.path().join(PodFolder::SOCKET);
    if path.exists() {
        fs::remove_file(&path)?;
    }
    let place = rustix::fs::open(
        folder.path(),
        rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )?;
    let short = format!("/proc/self/fd/{}/{}", place.as_raw_fd(), PodFolder::SOCKET);
    let listener = UnixListener::bind(short)?;
    rustix::fs::chmod(&path, rustix::fs::Mode::from_raw_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Starts the first process of a pid namespace that containers share; it only reaps.
fn pause(alone: Alone) -> io::Result<Child> {
    match fork(alone, Namespaces { pid: true, ..Namespaces::default() })? {
        Fork::Parent(child) => Ok(child),
        Fork::Child => {
            let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
            let _ = rustix::thread::set_name(c"pause");
            keep_only(&[]);
            loop {
                if matches!(ronde_process::fork::wait_for_any(), Ok(None) | Err(_)) {
                    // Nothing to reap: sleep until a signal, or for a while.
                    let a_while = Timespec { tv_sec: 1, tv_nsec: 0 };
                    if poll(&mut [], Some(&a_while)).is_err() {
                        rustix_exit(0);
                    }
                }
            }
        }
    }
}

/// The one place where the supervisor reads the clock.
#[expect(clippy::disallowed_methods, reason = "this is the rim of the supervisor")]
fn now() -> Timestamp {
    Timestamp::now()
}

/// Writes into the supervisor's own log.
pub fn complain(what: &str, error: &io::Error) {
    let line = format!("{} {what}: {error}\n", now());
    let _ = rustix::io::write(rustix::stdio::stderr(), line.as_bytes());
}
