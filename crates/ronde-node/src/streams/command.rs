//! Commands: the streams of a terminal, and the result at the end.

use std::time::Duration;

use ronde_apiserver::nodes::TerminalOptions;
use serde::Deserialize;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite},
    sync::{mpsc, watch},
    time::timeout,
};

use super::{
    Line,
    channels::Channels,
    drive,
    pipe::{Inlet, Outbox, Outgoing, Outlet},
    spdy::{self, connection::NewStream},
    status::{Ended, StatusForm},
    upgrade::Spdy,
    websocket,
};

/// How long a client may take to open the streams that it has announced.
const STREAMS_TIMEOUT: Duration = Duration::from_secs(30);
/// A report of a window's size is some 30 bytes.
const SIZE_BYTES_MAX: usize = 1024;

/// The channels of a WebSocket.
const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;

/// What a command is connected to, at the client's end.
pub struct Terminal {
    pub stdin: Option<Inlet>,
    pub stdout: Option<Outlet>,
    pub stderr: Option<Outlet>,
    /// The size of the client's window, whenever it changes; there is none before the first change.
    pub resize: Option<watch::Receiver<Size>>,
    /// Whether the command is to have a terminal of its own.
    pub tty: bool,
}

/// The size of a terminal window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct Size {
    #[serde(rename = "Width")]
    pub columns: u16,
    #[serde(rename = "Height")]
    pub rows: u16,
}

/// The streams of a command, whatever carries them.
struct Wires {
    outbox: Outbox,
    stdin: Option<Inlet>,
    stdout: Option<u32>,
    stderr: Option<u32>,
    error: u32,
    resize: Option<Inlet>,
    status: StatusForm,
}

/// Connects a command through the channels of a WebSocket.
pub async fn over_channels<Io, F, R>(line: Line<Io>, channels: Channels, options: TerminalOptions, run: F)
where
    Io: AsyncRead + AsyncWrite + Unpin,
    F: FnOnce(Terminal) -> R,
    R: Future<Output = Ended>,
{
    let websocket::Connection { mut reader, writer, outbox } =
        websocket::Connection::new(websocket::accept(line.io).await, channels);
    let wires = Wires {
        stdin: options.stdin.then(|| reader.open(STDIN)),
        stdout: options.stdout.then_some(STDOUT.into()),
        stderr: options.stderr.then_some(STDERR.into()),
        error: ERROR.into(),
        resize: options.tty.then(|| reader.open(RESIZE)),
        status: channels.status,
        outbox,
    };
    let work = async {
        // Tells the client that the connection stands, though there is no output yet.
        let first = wires.stdout.or(wires.stderr).unwrap_or(wires.error);
        wires.outbox.send(Outgoing::Data(first, bytes::Bytes::new())).await;
        wires.run(options.tty, run).await;
    };
    drive(&line.stop, reader.run(), writer.run(), work).await;
}

/// Connects a command through streams of SPDY, once the client has opened them.
pub async fn over_spdy<Io, F, R>(line: Line<Io>, version: Spdy, options: TerminalOptions, run: F)
where
    Io: AsyncRead + AsyncWrite,
    F: FnOnce(Terminal) -> R,
    R: Future<Output = Ended>,
{
    let spdy::connection::Connection { reader, writer, streams, outbox } = spdy::connection::Connection::new(line.io);
    let work = async {
        match timeout(STREAMS_TIMEOUT, collect(streams, outbox, version, options)).await {
            Ok(Some(wires)) => wires.run(options.tty, run).await,
            Ok(None) => {}
            Err(_) => tracing::debug!("a client did not open the streams that it had announced"),
        }
    };
    drive(&line.stop, reader.run(), writer.run(), work).await;
}

/// Waits for the streams of a command; none if the client goes away before.
async fn collect(
    mut streams: mpsc::Receiver<NewStream>,
    outbox: Outbox,
    version: Spdy,
    options: TerminalOptions,
) -> Option<Wires> {
    let [mut stdin, mut stdout, mut stderr, mut error, mut resize] = [const { None }; 5];
    let wants_resize = options.tty && version.can_resize;
    loop {
        let is_complete = error.is_some()
            && options.stdin <= stdin.is_some()
            && options.stdout <= stdout.is_some()
            && options.stderr <= stderr.is_some()
            && wants_resize <= resize.is_some();
        if is_complete {
            break;
        }
        let stream: NewStream = streams.recv().await?;
        let place = match stream.headers.get("streamtype").map(String::as_str) {
            Some("stdin") => &mut stdin,
            Some("stdout") => &mut stdout,
            Some("stderr") => &mut stderr,
            Some("error") => &mut error,
            Some("resize") => &mut resize,
            _ => {
                outbox.send(Outgoing::Reset(stream.id)).await;
                continue;
            }
        };
        outbox.send(Outgoing::Accept(stream.id)).await;
        *place = Some(stream);
    }
    Some(Wires {
        outbox,
        stdin: stdin.filter(|_| options.stdin).map(|stream| stream.data),
        stdout: stdout.filter(|_| options.stdout).map(|stream| stream.id),
        stderr: stderr.filter(|_| options.stderr).map(|stream| stream.id),
        error: error?.id,
        resize: resize.filter(|_| wants_resize).map(|stream| stream.data),
        status: version.status,
    })
}

impl Wires {
    /// Runs a command on the streams, and tells the client how it ended.
    async fn run<F, R>(self, tty: bool, run: F)
    where
        F: FnOnce(Terminal) -> R,
        R: Future<Output = Ended>,
    {
        let (sizes, resize) = watch::channel(Size::default());
        let terminal = Terminal {
            stdin: self.stdin,
            stdout: self.stdout.map(|stream| self.outbox.outlet(stream)),
            stderr: self.stderr.map(|stream| self.outbox.outlet(stream)),
            resize: self.resize.is_some().then_some(resize),
            tty,
        };
        let ended = {
            let mut running = std::pin::pin!(run(terminal));
            let following = async {
                if let Some(reports) = self.resize {
                    follow_size(reports, &sizes).await;
                }
                std::future::pending::<()>().await;
            };
            tokio::select! {
                ended = &mut running => ended,
                () = following => return,
            }
        };
        self.outbox.send(Outgoing::Data(self.error, ended.encode(self.status).into())).await;
        for stream in self.stdout.into_iter().chain(self.stderr).chain([self.error]) {
            self.outbox.send(Outgoing::Close(stream)).await;
        }
    }
}

/// Reads the reports of a window's size: JSON objects, one after the other.
async fn follow_size(mut reports: Inlet, sizes: &watch::Sender<Size>) {
    let mut unread = Vec::new();
    while let Ok(bytes) = reports.fill_buf().await {
        let count = bytes.len();
        if count == 0 || unread.len() + count > SIZE_BYTES_MAX {
            return;
        }
        unread.extend_from_slice(bytes);
        reports.consume(count);
        let mut objects = serde_json::Deserializer::from_slice(&unread).into_iter::<Size>();
        let mut newest = None;
        while let Some(Ok(size)) = objects.next() {
            newest = Some(size);
        }
        let read = objects.byte_offset();
        unread.drain(..read);
        if let Some(size) = newest {
            sizes.send_replace(size);
        }
    }
}

#[cfg(test)]
mod tests;
