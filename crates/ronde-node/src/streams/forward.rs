//! Forwarded ports: each connection of a client to a pod is a pair of streams, one for data and one for errors.

use std::{collections::VecDeque, io, time::Duration};

use futures::{StreamExt as _, future::join_all, stream::FuturesUnordered};
use ronde_apiserver::error::ApiError;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader, copy_buf},
    time::Instant,
};

use super::{
    Line,
    channels::Channels,
    drive,
    pipe::{Inlet, Outbox, Outgoing, Outlet, PIECE_BYTES},
    spdy::{self, connection::NewStream},
    upgrade::Protocol,
    websocket,
};

/// Channels are numbered by one byte, and a port has two.
const CHANNEL_PORTS_MAX: usize = 127;
/// How long half of a pair waits for the other, and how many may.
const PAIR_TIMEOUT: Duration = Duration::from_secs(30);
const HALVES_MAX: usize = 256;

/// Which ports of which pod are forwarded.
#[derive(Debug, Clone)]
pub struct Forward {
    /// Named in errors.
    pub pod: String,
    /// As the query names them; only clients that use channels do.
    pub ports: Vec<u16>,
}

impl Forward {
    /// # Errors
    /// If the protocol needs ports to be named, and they are not as it needs them.
    pub(super) fn check(&self, protocol: Protocol) -> Result<(), ApiError> {
        match (protocol, self.ports.as_slice()) {
            (Protocol::Spdy(_) | Protocol::Tunnel, _) => Ok(()),
            (_, []) => Err(ApiError::bad_request("query parameter \"ports\" is required")),
            (_, ports) if ports.contains(&0) => Err(ApiError::bad_request("port \"0\" must be > 0")),
            (_, ports) if ports.len() > CHANNEL_PORTS_MAX => {
                Err(ApiError::bad_request("too many ports for one connection"))
            }
            _ => Ok(()),
        }
    }
}

/// Forwards ports through the channels of a WebSocket: one connection each, made at once.
pub async fn over_channels<Io, C, R, S>(line: Line<Io>, channels: Channels, forward: &Forward, connect: &C)
where
    Io: AsyncRead + AsyncWrite + Unpin,
    C: Fn(u16) -> R,
    R: Future<Output = io::Result<S>>,
    S: AsyncRead + AsyncWrite,
{
    let websocket::Connection { mut reader, writer, outbox } =
        websocket::Connection::new(websocket::accept(line.io).await, channels);
    let pairs: Vec<Pair> = forward
        .ports
        .iter()
        .zip((0_u8..).step_by(2))
        .map(|(port, channel)| Pair {
            port: *port,
            data: reader.open(channel),
            out: outbox.outlet(channel.into()),
            errors: outbox.outlet(u32::from(channel) + 1),
        })
        .collect();
    drop(outbox);
    let work = async {
        let forwarding = pairs.into_iter().map(|mut pair| async {
            // Each channel begins with the number of its port.
            let port = pair.port.to_le_bytes();
            if pair.out.write_all(&port).await.is_ok() && pair.errors.write_all(&port).await.is_ok() {
                pair.forward(forward, connect).await;
            }
        });
        join_all(forwarding).await;
    };
    drive(&line.stop, reader.run(), writer.run(), work).await;
}

/// Forwards ports through streams of SPDY: a pair for each connection, whenever the client makes one.
pub async fn over_spdy<Io, C, R, S>(line: Line<Io>, forward: &Forward, connect: &C)
where
    Io: AsyncRead + AsyncWrite,
    C: Fn(u16) -> R,
    R: Future<Output = io::Result<S>>,
    S: AsyncRead + AsyncWrite,
{
    let spdy::connection::Connection { reader, writer, mut streams, outbox } =
        spdy::connection::Connection::new(line.io);
    let work = async {
        let mut halves = Halves::default();
        let mut forwarding = FuturesUnordered::new();
        loop {
            tokio::select! {
                stream = streams.recv() => match stream {
                    Some(stream) => {
                        if let Some(pair) = halves.accept(stream, &outbox).await {
                            forwarding.push(pair.forward(forward, connect));
                        }
                    }
                    None => break,
                },
                Some(()) = forwarding.next() => {}
            }
        }
    };
    drive(&line.stop, reader.run(), writer.run(), work).await;
}

/// Streams that wait for the other one of their pair, oldest first.
#[derive(Default)]
struct Halves(VecDeque<Half>);

struct Half {
    stream: NewStream,
    port: u16,
    request: String,
    is_data: bool,
    since: Instant,
}

impl Halves {
    /// Accepts a stream, and returns the pair that it completes.
    async fn accept(&mut self, stream: NewStream, outbox: &Outbox) -> Option<Pair> {
        let new = Half::new(stream, outbox).await?;
        self.0.retain(|half| half.since.elapsed() < PAIR_TIMEOUT);
        let other = self.0.iter().position(|half| half.request == new.request && half.is_data != new.is_data);
        let Some(other) = other.and_then(|index| self.0.remove(index)) else {
            if self.0.len() >= HALVES_MAX {
                self.0.pop_front();
            }
            self.0.push_back(new);
            return None;
        };
        let (data, error) = if new.is_data { (new, other) } else { (other, new) };
        let (out, errors) = (outbox.outlet(data.stream.id), outbox.outlet(error.stream.id));
        Some(Pair { port: data.port, data: data.stream.data, out, errors })
    }
}

impl Half {
    /// Looks at a new stream and accepts it, or not.
    async fn new(stream: NewStream, outbox: &Outbox) -> Option<Self> {
        let header = |name: &str| stream.headers.get(name).map_or("", String::as_str);
        let port = header("port").parse::<u16>().ok().filter(|port| *port > 0);
        let (Some(port), is_data @ ("data" | "error")) = (port, header("streamtype")) else {
            outbox.send(Outgoing::Reset(stream.id)).await;
            return None;
        };
        let is_data = is_data == "data";
        // Very old clients do not number their requests; the stream for data follows the one for errors.
        let request = match header("requestid") {
            "" => stream.id.saturating_sub(if is_data { 2 } else { 0 }).to_string(),
            request => request.to_owned(),
        };
        outbox.send(Outgoing::Accept(stream.id)).await;
        Some(Self { port, request, is_data, since: Instant::now(), stream })
    }
}

/// One connection of the client to a port.
struct Pair {
    port: u16,
    data: Inlet,
    out: Outlet,
    errors: Outlet,
}

impl Pair {
    /// Connects to the port and moves data until the pod closes the connection; says so if it cannot.
    async fn forward<C, R, S>(mut self, forward: &Forward, connect: &C)
    where
        C: Fn(u16) -> R,
        R: Future<Output = io::Result<S>>,
        S: AsyncRead + AsyncWrite,
    {
        match connect(self.port).await {
            Ok(stream) => exchange(stream, self.data, &mut self.out).await,
            Err(error) => {
                let (port, pod) = (self.port, &forward.pod);
                let text = format!("error forwarding port {port} to pod {pod}: {error}");
                let _ = self.errors.write_all(text.as_bytes()).await;
            }
        }
        let _ = self.out.shutdown().await;
        let _ = self.errors.shutdown().await;
    }
}

async fn exchange(stream: impl AsyncRead + AsyncWrite, mut data: Inlet, out: &mut Outlet) {
    let (from_pod, mut to_pod) = tokio::io::split(stream);
    let upload = async {
        if copy_buf(&mut data, &mut to_pod).await.is_ok() {
            let _ = to_pod.shutdown().await;
        }
        // The client has said all; the pod may still answer.
        std::future::pending::<()>().await;
    };
    let mut from_pod = BufReader::with_capacity(PIECE_BYTES, from_pod);
    let download = copy_buf(&mut from_pod, out);
    tokio::select! {
        downloaded = download => {
            if let Err(error) = downloaded {
                tracing::debug!(%error, "a forwarded connection broke");
            }
        }
        () = upload => {}
    }
}

#[cfg(test)]
mod tests;
