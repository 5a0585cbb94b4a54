//! A SPDY connection: finds the streams that a client opens, and moves data between them and the wire.

use std::{collections::BTreeMap, io};

use bytes::{Bytes, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadHalf, WriteHalf},
    sync::mpsc,
};

use super::{
    Headers,
    frame::{Decoder, Encoder, Frame, go_away},
};
use crate::streams::pipe::{Inlet, Outbox, Outgoing, deliver, inlet, outbox};

/// A forwarded port takes two per connection: enough for a browser that opens hundreds.
const STREAMS_MAX: usize = 1024;
/// Streams that are open but not yet looked at.
const NEW_STREAMS_MAX: usize = 16;
/// How much is read, and about how much is written, at once.
const BUFFER_BYTES: usize = 64 << 10;

/// A stream that the client has opened, and waits to have accepted.
pub struct NewStream {
    pub id: u32,
    pub headers: Headers,
    pub data: Inlet,
}

/// The two directions of a connection; both have to be run.
pub struct Connection<Io> {
    pub reader: Reader<Io>,
    pub writer: Writer<Io>,
    pub streams: mpsc::Receiver<NewStream>,
    pub outbox: Outbox,
}

pub struct Reader<Io> {
    io: ReadHalf<Io>,
    streams: mpsc::Sender<NewStream>,
    /// Answers pings; the end of the work ends the connection all the same.
    outbox: mpsc::WeakSender<Outgoing>,
    open: BTreeMap<u32, mpsc::Sender<Bytes>>,
    last: u32,
}

pub struct Writer<Io> {
    io: WriteHalf<Io>,
    outgoing: mpsc::Receiver<Outgoing>,
}

impl<Io: AsyncRead + AsyncWrite> Connection<Io> {
    pub fn new(io: Io) -> Self {
        let (read, write) = tokio::io::split(io);
        let (outbox, outgoing) = outbox();
        let (sender, streams) = mpsc::channel(NEW_STREAMS_MAX);
        let reader = Reader { io: read, streams: sender, outbox: outbox.downgrade(), open: BTreeMap::new(), last: 0 };
        Self { reader, writer: Writer { io: write, outgoing }, streams, outbox }
    }
}

impl<Io: AsyncRead> Reader<Io> {
    /// Reads until the client is gone, or says something that cannot be understood.
    pub async fn run(mut self) {
        if let Err(error) = self.read().await {
            tracing::debug!(%error, "a client's connection ended early");
        }
    }

    async fn read(&mut self) -> io::Result<()> {
        let mut decoder = Decoder::new();
        let mut buffer = BytesMut::with_capacity(BUFFER_BYTES);
        while self.io.read_buf(&mut buffer).await? > 0 {
            while let Some(frame) = decoder.decode(&mut buffer).map_err(io::Error::other)? {
                if frame == Frame::GoAway {
                    return Ok(());
                }
                self.handle_frame(frame).await;
            }
            buffer.reserve(BUFFER_BYTES);
        }
        Ok(())
    }

    async fn handle_frame(&mut self, frame: Frame) {
        match frame {
            Frame::Open { stream, headers } => self.open(stream, headers).await,
            Frame::Data { stream, data } => {
                if let Some(reader) = self.open.get(&stream) {
                    deliver(reader, data).await;
                }
            }
            Frame::Close { stream } | Frame::Reset { stream } => drop(self.open.remove(&stream)),
            Frame::Ping(id) => self.answer(Outgoing::Pong(id)).await,
            Frame::GoAway => {}
        }
    }

    async fn open(&mut self, stream: u32, headers: Headers) {
        if self.open.len() >= STREAMS_MAX {
            self.open.retain(|_, reader| !reader.is_closed());
        }
        let is_new = stream > self.last && stream % 2 == 1;
        if !is_new || self.open.len() >= STREAMS_MAX {
            return self.answer(Outgoing::Reset(stream)).await;
        }
        self.last = stream;
        let (sender, data) = inlet();
        self.open.insert(stream, sender);
        // If nobody waits for streams any more, the connection is about to end.
        let _ = self.streams.send(NewStream { id: stream, headers, data }).await;
    }

    async fn answer(&mut self, outgoing: Outgoing) {
        if let Some(outbox) = self.outbox.upgrade() {
            let _ = outbox.send(outgoing).await;
        }
    }
}

impl<Io: AsyncWrite> Writer<Io> {
    /// Writes until there is nothing more to come, then says goodbye.
    pub async fn run(mut self) {
        if let Err(error) = self.write().await {
            tracing::debug!(%error, "cannot write to a client");
        }
    }

    async fn write(&mut self) -> io::Result<()> {
        let mut encoder = Encoder::new();
        let mut buffer = BytesMut::with_capacity(BUFFER_BYTES);
        let mut last = 0;
        while let Some(outgoing) = self.outgoing.recv().await {
            if let Outgoing::Accept(stream) = outgoing {
                last = stream;
            }
            encoder.encode(&outgoing, &mut buffer);
            if self.outgoing.is_empty() || buffer.len() >= BUFFER_BYTES {
                self.io.write_all(&buffer).await?;
                self.io.flush().await?;
                buffer.clear();
            }
        }
        go_away(last, &mut buffer);
        self.io.write_all(&buffer).await?;
        self.io.shutdown().await
    }
}
