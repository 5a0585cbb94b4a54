//! The agent: opens its door, runs its own command if it has one, and ends when it should.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    signal::unix::{Signal, SignalKind, signal},
    sync::{Semaphore, mpsc, oneshot},
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{
    channel::{ChannelError, Listening},
    dial::Dialer,
    mirror::Mirror,
    names::Names,
    programs::Programs,
    roster::Roster,
    secret::Secret,
    serve::serve,
};
use crate::start::{Ended, Order, StartError};

/// Connections at a time: the programs, and as many that do not say yet what they want.
const CONNECTIONS_MAX: usize = 2048;
/// After a failed accept: there are no descriptors left, for example.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Time to end after SIGTERM; Kubernetes gives 30 s to a pod.
const GRACE: Duration = Duration::from_secs(25);
/// Time to end for what has no purpose any more: the command is over, or the host has left the job.
const GRACE_SHORT: Duration = Duration::from_secs(5);
const SIGTERM: i32 = 15;

/// What an agent is to do.
pub struct Options {
    pub listen: SocketAddr,
    pub secret: Secret,
    /// Its own command with its arguments; empty: none.
    pub command: Vec<String>,
    pub mirror: Option<Mirror>,
    /// Where the agents of the other hosts listen, if not at the same port.
    pub port: Option<u16>,
}

/// Why an agent cannot work.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error("cannot listen on {address}")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("cannot create a key")]
    Key { source: ChannelError },
    #[error("cannot copy the host list")]
    Hosts { source: io::Error },
    #[error("cannot listen for signals")]
    Signals { source: io::Error },
    #[error("cannot start the command")]
    Command { source: StartError },
}

/// An agent that listens.
pub struct Agent {
    options: Options,
    listener: TcpListener,
    address: SocketAddr,
}

impl Agent {
    pub async fn bind(options: Options) -> Result<Self, AgentError> {
        let wrong = |source| AgentError::Listen { address: options.listen, source };
        let listener = TcpListener::bind(options.listen).await.map_err(wrong)?;
        let address = listener.local_addr().map_err(wrong)?;
        Ok(Self { options, listener, address })
    }

    /// Returns where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns where the agents of this job listen.
    pub fn port(&self) -> u16 {
        self.options.port.unwrap_or(self.address.port())
    }

    /// Works until its command has ended, it is released, or a signal tells it to end; returns the exit code.
    pub async fn run(self, programs: Programs) -> Result<i32, AgentError> {
        let mut signals = Signals::new().map_err(|source| AgentError::Signals { source })?;
        let roster = Roster::new();
        // Dropped with this function: who is served then has nobody to serve it any more.
        let mut tasks = JoinSet::new();
        // 1. Copy the host list: the command may read it at once.
        if let Some(mirror) = self.options.mirror.clone() {
            let list = mirror.copy().map_err(|source| AgentError::Hosts { source })?;
            let port = self.port();
            let dialer = Dialer { names: Names::default(), port, secret: self.options.secret.clone() };
            tasks.spawn(mirror.follow(list, dialer));
        }
        // 2. Open the door.
        let listening = Listening::new(self.options.secret).map_err(|source| AgentError::Key { source })?;
        tasks.spawn(accept_all(self.listener, listening, programs.clone(), roster.clone()));
        // 3. Start the command.
        let mut command = OwnCommand::start(self.options.command, &programs)?;
        // 4. Wait for whatever ends this, and end the rest.
        let code = tokio::select! {
            ended = command.ended() => {
                stop(&roster, &mut command, Stop { signal: SIGTERM, grace: GRACE_SHORT }, &mut signals).await;
                ended
            }
            () = roster.released_and_idle() => {
                stop(&roster, &mut command, Stop { signal: SIGTERM, grace: GRACE_SHORT }, &mut signals).await;
                0
            }
            signal = signals.recv() => {
                let ended = stop(&roster, &mut command, Stop { signal, grace: GRACE }, &mut signals).await;
                ended.unwrap_or(128 + signal)
            }
        };
        Ok(code)
    }
}

struct Stop {
    signal: i32,
    grace: Duration,
}

/// Ends all programs, in time or by force; returns the exit code of the command if there is one.
async fn stop(roster: &Roster, command: &mut OwnCommand, stop: Stop, signals: &mut Signals) -> Option<i32> {
    let orders = command.orders.clone();
    let tell = async |order| {
        roster.order(order);
        if let Some(orders) = &orders {
            // One that has ended takes none.
            let _ = orders.send(order).await;
        }
    };
    roster.release();
    tell(Order::Signal(stop.signal)).await;
    let over = async {
        roster.idle().await;
        if orders.is_some() { Some(command.ended().await) } else { None }
    };
    tokio::pin!(over);
    tokio::select! {
        ended = timeout(stop.grace, &mut over) => if let Ok(ended) = ended { return ended },
        _ = signals.recv() => {}
    }
    tell(Order::Kill).await;
    over.await
}

async fn accept_all(listener: TcpListener, listening: Listening, programs: Programs, roster: Roster) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut serving = JoinSet::new();
    loop {
        while serving.try_join_next().is_some() {}
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
        let Some(connection) = accept(&listener).await else { continue };
        let served = serve(connection, listening.clone(), programs.clone(), roster.clone());
        serving.spawn(async move {
            served.await;
            drop(place);
        });
    }
}

async fn accept(listener: &TcpListener) -> Option<TcpStream> {
    match listener.accept().await {
        Ok((connection, _)) => Some(connection),
        Err(error) => {
            tracing::warn!(%error, "cannot accept a connection");
            sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

/// The agent's own command, or none.
#[derive(Default)]
struct OwnCommand {
    orders: Option<mpsc::Sender<Order>>,
    end: Option<oneshot::Receiver<Ended>>,
    code: Option<i32>,
}

impl OwnCommand {
    fn start(words: Vec<String>, programs: &Programs) -> Result<Self, AgentError> {
        if words.is_empty() {
            return Ok(Self::default());
        }
        let started = programs.start_command(words).map_err(|source| AgentError::Command { source })?;
        Ok(Self { orders: Some(started.orders), end: Some(started.ended), code: None })
    }

    /// Waits for its end, for ever if there is none, and returns its exit code.
    async fn ended(&mut self) -> i32 {
        if let (Some(end), None) = (&mut self.end, self.code) {
            let ended = end.await.unwrap_or_else(|_| Ended::Lost("nobody watched it".to_owned()));
            self.code = Some(ended.exit_code());
        }
        match self.code {
            Some(code) => code,
            None => std::future::pending().await,
        }
    }
}

/// What asks an agent to end.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn recv(&mut self) -> i32 {
        tokio::select! {
            _ = self.terminate.recv() => SignalKind::terminate().as_raw_value(),
            _ = self.interrupt.recv() => SignalKind::interrupt().as_raw_value(),
        }
    }
}
