//! The two ends of a stream to a client: what comes in is read, what is written goes out, both within bounds.
//!
//! All streams of a connection share one queue to its writer ([`Outbox`]), and each has a queue from its reader
//! ([`inlet`]). A reader or writer that is slow makes the other side wait; nothing piles up.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf as _, Bytes};
use tokio::{
    io::{AsyncBufRead, AsyncRead, AsyncWrite, ReadBuf},
    sync::mpsc,
};
use tokio_util::sync::PollSender;

/// What is moved at once.
pub const PIECE_BYTES: usize = 32 << 10;
/// Pieces that wait to be taken, per stream from the client and per connection to it: half a megabyte.
const QUEUE_PIECES: usize = 16;

/// Something to be sent to the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outgoing {
    /// A stream that the client has opened is accepted.
    Accept(u32),
    /// Or it is not.
    Reset(u32),
    Data(u32, Bytes),
    /// No more data follows on this stream.
    Close(u32),
    /// The answer to a ping.
    Pong(u32),
}

/// Where everything that is for the client goes.
#[derive(Clone)]
pub struct Outbox(mpsc::Sender<Outgoing>);

/// What a client sends on one stream, for someone to read.
pub struct Inlet {
    pieces: mpsc::Receiver<Bytes>,
    current: Bytes,
}

/// What someone writes for the client to get on one stream.
pub struct Outlet {
    sender: PollSender<Outgoing>,
    stream: u32,
}

/// Makes the way to the client, and its other end.
pub fn outbox() -> (Outbox, mpsc::Receiver<Outgoing>) {
    let (sender, receiver) = mpsc::channel(QUEUE_PIECES);
    (Outbox(sender), receiver)
}

/// Makes the way from the client, for one stream; it ends when the sender is dropped.
pub fn inlet() -> (mpsc::Sender<Bytes>, Inlet) {
    let (sender, pieces) = mpsc::channel(QUEUE_PIECES);
    (sender, Inlet { pieces, current: Bytes::new() })
}

/// Hands data of a stream to its reader, in pieces; a reader that is gone wants nothing.
pub async fn deliver(reader: &mpsc::Sender<Bytes>, mut data: Bytes) {
    while !data.is_empty() {
        let piece = data.split_to(data.len().min(PIECE_BYTES));
        if reader.send(piece).await.is_err() {
            return;
        }
    }
}

impl Outbox {
    /// Sends something; a client that is gone misses it.
    pub async fn send(&self, outgoing: Outgoing) {
        let _ = self.0.send(outgoing).await;
    }

    pub fn outlet(&self, stream: u32) -> Outlet {
        Outlet { sender: PollSender::new(self.0.clone()), stream }
    }

    /// A way to the client that does not keep the connection open.
    pub fn downgrade(&self) -> mpsc::WeakSender<Outgoing> {
        self.0.downgrade()
    }
}

impl AsyncBufRead for Inlet {
    fn poll_fill_buf(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let inlet = self.get_mut();
        while inlet.current.is_empty() {
            match ready!(inlet.pieces.poll_recv(context)) {
                Some(piece) => inlet.current = piece,
                None => break,
            }
        }
        Poll::Ready(Ok(&inlet.current))
    }

    fn consume(mut self: Pin<&mut Self>, count: usize) {
        self.current.advance(count);
    }
}

impl AsyncRead for Inlet {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let data = ready!(self.as_mut().poll_fill_buf(context))?;
        let count = data.len().min(buffer.remaining());
        buffer.put_slice(&data[..count]);
        self.consume(count);
        Poll::Ready(Ok(()))
    }
}

impl Outlet {
    fn poll_send(&mut self, context: &mut Context<'_>, outgoing: impl FnOnce(u32) -> Outgoing) -> Poll<io::Result<()>> {
        let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        ready!(self.sender.poll_reserve(context)).map_err(gone)?;
        Poll::Ready(self.sender.send_item(outgoing(self.stream)).map_err(gone))
    }
}

impl AsyncWrite for Outlet {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let count = data.len().min(PIECE_BYTES);
        if count > 0 {
            let piece = |stream| Outgoing::Data(stream, Bytes::copy_from_slice(&data[..count]));
            ready!(self.poll_send(context, piece))?;
        }
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_send(context, Outgoing::Close)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn what_is_delivered_is_read_to_its_end() {
        let (sender, mut inlet) = inlet();
        let data = Bytes::from(vec![7; 3 * PIECE_BYTES + 1]);
        let (expected, mut found) = (data.clone(), Vec::new());
        let delivered = async move { deliver(&sender, data).await };
        let (read, ()) = tokio::join!(inlet.read_to_end(&mut found), delivered);
        assert_eq!((read.expect("no error"), found), (expected.len(), expected.to_vec()));
    }

    #[tokio::test]
    async fn what_is_written_goes_out_in_pieces() {
        let (outbox, mut receiver) = outbox();
        let mut outlet = outbox.outlet(5);
        outlet.write_all(&vec![1; PIECE_BYTES + 1]).await.expect("room");
        outlet.shutdown().await.expect("room");
        drop((outlet, outbox));
        let mut lengths = Vec::new();
        while let Some(outgoing) = receiver.recv().await {
            match outgoing {
                Outgoing::Data(5, data) => lengths.push(data.len()),
                other => assert_eq!(other, Outgoing::Close(5)),
            }
        }
        assert_eq!(lengths, [PIECE_BYTES, 1]);
    }

    #[tokio::test]
    async fn nobody_piles_up_what_is_not_taken() {
        let (outbox, receiver) = outbox();
        let mut outlet = outbox.outlet(1);
        let endless = vec![0; PIECE_BYTES * QUEUE_PIECES * 2];
        let mut write = std::pin::pin!(outlet.write_all(&endless));
        assert!(futures::poll!(write.as_mut()).is_pending());
        drop(receiver);
        assert_eq!(write.await.expect_err("the client is gone").kind(), io::ErrorKind::BrokenPipe);
    }
}
