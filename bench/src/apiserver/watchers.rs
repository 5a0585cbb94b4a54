//! Watchers that take little of the machine, for the server that is measured shares its processors with them.
//!
//! One thread serves them all, each with a connection of its own: HTTP/1.1 by hand over TLS, and of what comes only the
//! ends of the events are looked for.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use futures::future::try_join_all;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::{
        mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
        oneshot,
    },
};
use tokio_rustls::{TlsConnector, client::TlsStream, rustls::pki_types::ServerName};

use super::peer::{Access, Peer};

/// Far more than an event takes.
const SIGHT_TIMEOUT: Duration = Duration::from_secs(30);
/// Several events of a small object.
const BUFFER_BYTES: usize = 16 << 10;

/// Open watches of one path.
pub struct Watchers {
    /// When each event had been seen by all.
    sightings: UnboundedReceiver<Instant>,
    /// Dropped, it ends the watches.
    _open: oneshot::Sender<()>,
}

impl Watchers {
    pub async fn open(peer: &Peer, path: &str, count: usize) -> anyhow::Result<Self> {
        let access = peer.access().await?;
        let request = access.get(path);
        let (opened, is_open) = oneshot::channel();
        let (open_end, closed) = oneshot::channel::<()>();
        let (all_saw, sightings) = unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        thread::spawn(move || {
            runtime.block_on(async {
                let streams = try_join_all((0..count).map(|_| open(&access, &request))).await;
                let (streams, result) = streams.map_or_else(|error| (Vec::new(), Err(error)), |all| (all, Ok(())));
                let _ = opened.send(result);
                let crowd = Arc::new(Crowd { size: count, seen: AtomicUsize::new(0), all_saw });
                for stream in streams {
                    tokio::spawn(watch(stream, crowd.clone()));
                }
                let _ = closed.await;
            });
        });
        is_open.await??;
        Ok(Self { sightings, _open: open_end })
    }

    /// Waits until every watcher has seen one more event; returns when the last one did.
    pub async fn all_see(&mut self) -> anyhow::Result<Instant> {
        let seen = tokio::time::timeout(SIGHT_TIMEOUT, self.sightings.recv()).await;
        seen.context("not all watchers have seen the event")?.context("all watchers are gone")
    }
}

/// What the watchers have in common. There is never more than one event under way.
struct Crowd {
    size: usize,
    seen: AtomicUsize,
    all_saw: UnboundedSender<Instant>,
}

impl Crowd {
    fn one_saw(&self) {
        let seen = self.seen.fetch_add(1, Ordering::Relaxed) + 1;
        if seen.is_multiple_of(self.size) {
            let _ = self.all_saw.send(Instant::now());
        }
    }
}

/// Connects, asks, and reads the head of the answer.
async fn open(access: &Access, request: &str) -> anyhow::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(&access.address).await?;
    stream.set_nodelay(true)?;
    let name = ServerName::try_from(access.host.clone())?;
    let mut stream = TlsConnector::from(access.tls.clone()).connect(name, stream).await?;
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    anyhow::ensure!(head.starts_with(b"HTTP/1.1 200 "), "no watch: {}", String::from_utf8_lossy(&head));
    Ok(stream)
}

/// Reports every event. An event is a line of compact JSON: it ends, and nothing else in it does, with a brace.
async fn watch(mut stream: TlsStream<TcpStream>, crowd: Arc<Crowd>) {
    let (mut buffer, mut last) = (vec![0; BUFFER_BYTES], 0);
    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
        for byte in &buffer[..read] {
            if (last, *byte) == (b'}', b'\n') {
                crowd.one_saw();
            }
            last = *byte;
        }
    }
}
