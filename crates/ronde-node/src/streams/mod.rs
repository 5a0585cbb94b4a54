//! Terminals and ports of pods for clients far away: what `kubectl exec`, `attach`, `cp` and `port-forward` speak.
//!
//! A client asks for its HTTP connection to become something else: a WebSocket whose messages carry several streams,
//! SPDY, or SPDY inside a WebSocket. Whichever it is, the node sees a [`Terminal`], or a request to connect to a port.
//! How a command is run or a port is reached is not known here.

mod channels;
mod command;
mod forward;
mod pipe;
mod spdy;
mod status;
mod upgrade;
mod websocket;

use std::{pin::pin, sync::Arc, time::Duration};

use axum::{extract::Request, response::Response};
use futures::{FutureExt as _, future::FusedFuture as _};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use ronde_apiserver::{error::ApiError, nodes::TerminalOptions};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::upgrade::{Agreed, Protocol};
pub use self::{
    command::{Size, Terminal},
    forward::Forward,
    pipe::{Inlet, Outlet},
    status::Ended,
    upgrade::refusal,
};

/// Terminals and forwarded ports that may be open at once; each holds up to a few megabytes.
const SESSIONS_MAX: usize = 1024;
/// How long the work for a client may go on after the client is gone: to the end of what it has sent.
const GONE_GRACE: Duration = Duration::from_secs(5);
/// How long a client may take to read what is left for it at the end; the kubelet's limit for idle connections.
const FAREWELL: Duration = Duration::from_secs(4 * 60 * 60);
/// How long a client may take to close its side, after ours is, and for all of it when we are to stop.
const LINGER: Duration = Duration::from_secs(2);

/// A connection that is ours to use.
struct Line<Io> {
    io: Io,
    stop: CancellationToken,
}

/// The connections that clients use for terminals and ports.
#[derive(Clone)]
pub struct Sessions {
    tasks: TaskTracker,
    stop: CancellationToken,
    places: Arc<Semaphore>,
}

impl Sessions {
    /// All sessions end when `stop` is cancelled.
    pub fn new(stop: CancellationToken) -> Self {
        Self { tasks: TaskTracker::new(), stop, places: Arc::new(Semaphore::new(SESSIONS_MAX)) }
    }

    /// Waits until all sessions have ended; to be called after `stop`.
    pub async fn finish(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Connects a client with a command; its streams are there when `run` is called, and are gone when it is dropped.
    ///
    /// What `run` returns is what the client is told. Everything that is written to the terminal before is sent before.
    /// If the client goes away, input ends, output fails, and after a while `run` is dropped.
    pub fn serve_command<F, R>(&self, request: Request, options: TerminalOptions, run: F) -> Response
    where
        F: FnOnce(Terminal) -> R + Send + 'static,
        R: Future<Output = Ended> + Send,
    {
        let agreed = upgrade::for_command(request.headers());
        self.serve(request, agreed, move |protocol, line| async move {
            match protocol {
                Protocol::Channels(channels) => command::over_channels(line, channels, options, run).await,
                Protocol::Spdy(version) => command::over_spdy(line, version, options, run).await,
                Protocol::Tunnel => {}
            }
        })
    }

    /// Connects a client with ports of a pod.
    pub fn serve_port_forward<C, R, S>(&self, request: Request, forward: Forward, connect: C) -> Response
    where
        C: Fn(u16) -> R + Send + Sync + 'static,
        R: Future<Output = std::io::Result<S>> + Send,
        S: AsyncRead + AsyncWrite + Send,
    {
        let agreed = upgrade::for_ports(request.headers());
        let agreed = agreed.and_then(|agreed| forward.check(agreed.protocol).map(|()| agreed));
        self.serve(request, agreed, move |protocol, line| async move {
            match protocol {
                Protocol::Channels(channels) => forward::over_channels(line, channels, &forward, &connect).await,
                Protocol::Spdy(_) => forward::over_spdy(line, &forward, &connect).await,
                Protocol::Tunnel => {
                    let io = websocket::Tunnel::new(websocket::accept(line.io).await);
                    forward::over_spdy(Line { io, stop: line.stop }, &forward, &connect).await;
                }
            }
        })
    }

    /// Answers a request with an upgrade, and uses the connection for what follows.
    fn serve<F, R>(&self, mut request: Request, agreed: Result<Agreed, ApiError>, work: F) -> Response
    where
        F: FnOnce(Protocol, Line<TokioIo<Upgraded>>) -> R + Send + 'static,
        R: Future<Output = ()> + Send,
    {
        let Agreed { protocol, answer } = match agreed {
            Ok(agreed) => agreed,
            Err(error) => return refusal(&error),
        };
        // There is none in process, nor in HTTP/2.
        let Some(upgrade) = request.extensions_mut().remove::<OnUpgrade>() else {
            return refusal(&ApiError::bad_request("Upgrade request required"));
        };
        let Ok(place) = self.places.clone().try_acquire_owned() else {
            return refusal(&ApiError::new(429, "TooManyRequests", "too many terminals and ports are open already"));
        };
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            match stop.run_until_cancelled(upgrade).await {
                Some(Ok(upgraded)) => work(protocol, Line { io: TokioIo::new(upgraded), stop }).await,
                Some(Err(error)) => tracing::debug!(%error, "a client went away before its connection was upgraded"),
                None => {}
            }
            drop(place);
        });
        answer
    }
}

/// Runs the two directions of a connection and the work that it is for, to the end of all three.
async fn drive(
    stop: &CancellationToken,
    reader: impl Future<Output = ()>,
    writer: impl Future<Output = ()>,
    work: impl Future<Output = ()>,
) {
    let mut reader = pin!(reader.fuse());
    let gone = async {
        reader.as_mut().await;
        sleep(GONE_GRACE).await;
    };
    // The work and all its streams are dropped when it is done: that is what the writer takes for the end.
    let work = async {
        tokio::select! {
            () = work => {}
            () = gone => {}
            () = stop.cancelled() => {}
        }
    };
    let writer = async {
        tokio::select! {
            () = writer => {}
            () = sleep(FAREWELL) => {}
            () = async { stop.cancelled().await; sleep(LINGER).await } => {}
        }
    };
    tokio::join!(work, writer);
    // Closing a connection on which something is unread would make the client lose what it has not read yet.
    if !reader.is_terminated() {
        let _ = timeout(LINGER, reader).await;
    }
}

#[cfg(test)]
mod tests;
