//! WebSockets: streams as channels in the messages of one, or another protocol tunnelled through it.

use std::{
    collections::BTreeMap,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf as _, Bytes};
use futures::{
    Sink, SinkExt as _, Stream, StreamExt as _,
    stream::{SplitSink, SplitStream},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::mpsc,
    time::timeout,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Error, Message,
        protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode},
    },
};

use super::{
    channels::{Channels, Incoming},
    pipe::{Inlet, Outbox, Outgoing, PIECE_BYTES, deliver, inlet, outbox},
};

/// Some clients send all of their input in one message; the real servers take as much.
const MESSAGE_BYTES_MAX: usize = 32 << 20;
/// What is written to the connection at once, and what may wait to be.
const WRITE_BYTES: usize = 64 << 10;
const WRITE_BYTES_MAX: usize = 1 << 20;
/// Clients take a connection for dead that has been silent for a minute, also while it waits for them.
const HEARTBEAT: Duration = Duration::from_secs(20);

/// Takes the server's part of WebSocket on a connection that has been upgraded to it.
pub async fn accept<Io: AsyncRead + AsyncWrite + Unpin>(io: Io) -> WebSocketStream<Io> {
    let config = WebSocketConfig::default()
        .read_buffer_size(PIECE_BYTES)
        .write_buffer_size(WRITE_BYTES)
        .max_write_buffer_size(WRITE_BYTES_MAX)
        .max_message_size(Some(MESSAGE_BYTES_MAX))
        .max_frame_size(Some(MESSAGE_BYTES_MAX));
    WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await
}

/// The two directions of a WebSocket with channels; both have to be run.
pub struct Connection<Io> {
    pub reader: Reader<Io>,
    pub writer: Writer<Io>,
    pub outbox: Outbox,
}

pub struct Reader<Io> {
    messages: SplitStream<WebSocketStream<Io>>,
    channels: Channels,
    open: BTreeMap<u8, mpsc::Sender<Bytes>>,
}

pub struct Writer<Io> {
    messages: SplitSink<WebSocketStream<Io>, Message>,
    channels: Channels,
    outgoing: mpsc::Receiver<Outgoing>,
}

impl<Io: AsyncRead + AsyncWrite + Unpin> Connection<Io> {
    pub fn new(socket: WebSocketStream<Io>, channels: Channels) -> Self {
        let (write, read) = socket.split();
        let (outbox, outgoing) = outbox();
        let reader = Reader { messages: read, channels, open: BTreeMap::new() };
        Self { reader, writer: Writer { messages: write, channels, outgoing }, outbox }
    }
}

impl<Io: AsyncRead + AsyncWrite + Unpin> Reader<Io> {
    /// Opens a channel that the client may send on; what comes on others is dropped.
    pub fn open(&mut self, channel: u8) -> Inlet {
        let (sender, inlet) = inlet();
        self.open.insert(channel, sender);
        inlet
    }

    /// Reads until the client closes or is gone.
    pub async fn run(mut self) {
        while let Some(Ok(message)) = self.messages.next().await {
            match self.channels.decode(message) {
                Incoming::Data(channel, data) => {
                    if let Some(reader) = self.open.get(&channel) {
                        deliver(reader, data).await;
                    }
                }
                Incoming::Close(channel) => drop(self.open.remove(&channel)),
                Incoming::Nothing => {}
            }
        }
    }
}

impl<Io: AsyncRead + AsyncWrite + Unpin> Writer<Io> {
    /// Writes until there is nothing more to come, then closes.
    pub async fn run(mut self) {
        if let Err(error) = self.write().await {
            tracing::debug!(%error, "cannot write to a client");
        }
    }

    async fn write(&mut self) -> Result<(), Error> {
        loop {
            match timeout(HEARTBEAT, self.outgoing.recv()).await {
                Ok(Some(Outgoing::Data(channel, data))) => {
                    let channel = u8::try_from(channel).unwrap_or(u8::MAX);
                    self.messages.feed(self.channels.encode(channel, &data)).await?;
                }
                // The rest has no form here: channels are there from the start, and end with the connection.
                Ok(Some(_)) => {}
                Ok(None) => break,
                // Nobody has asked for it, but it shows that we are there, and clients wait for nothing else.
                Err(_) => self.messages.feed(Message::Pong(Bytes::new())).await?,
            }
            if self.outgoing.is_empty() {
                self.messages.flush().await?;
            }
        }
        let farewell = CloseFrame { code: CloseCode::Normal, reason: "".into() };
        self.messages.send(Message::Close(Some(farewell))).await
    }
}

/// A WebSocket as a stream of bytes: what is in its messages, one after the other.
pub struct Tunnel<Io> {
    socket: WebSocketStream<Io>,
    current: Bytes,
}

impl<Io> Tunnel<Io> {
    pub fn new(socket: WebSocketStream<Io>) -> Self {
        Self { socket, current: Bytes::new() }
    }
}

impl<Io: AsyncRead + AsyncWrite + Unpin> AsyncRead for Tunnel<Io> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.current.is_empty() {
            match ready!(Pin::new(&mut self.socket).poll_next(context)) {
                Some(Ok(Message::Binary(bytes))) => self.current = bytes,
                Some(Ok(_)) => {}
                Some(Err(Error::ConnectionClosed)) | None => return Poll::Ready(Ok(())),
                Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
            }
        }
        let count = self.current.len().min(buffer.remaining());
        buffer.put_slice(&self.current[..count]);
        self.current.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl<Io: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Tunnel<Io> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        ready!(Pin::new(&mut self.socket).poll_ready(context)).map_err(io::Error::other)?;
        let message = Message::Binary(Bytes::copy_from_slice(data));
        Pin::new(&mut self.socket).start_send(message).map_err(io::Error::other)?;
        Poll::Ready(Ok(data.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context).map_err(io::Error::other)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_close(context).map_err(io::Error::other)
    }
}
