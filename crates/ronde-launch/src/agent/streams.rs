//! The streams of a program over a link, the same on both sides: who has bytes pumps them, who gets them passes them on.
//!
//! At most [`WINDOW`] pieces of a stream are under way; each that was passed on is answered by [`Frame::Taken`]. So a
//! slow reader of one stream holds up neither the other streams nor orders, and costs no more memory than that.

use std::sync::Arc;

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    sync::{Semaphore, mpsc},
};
use tokio_util::sync::CancellationToken;

use super::{
    frame::{CHUNK_BYTES, Frame, Stream},
    link::Outgoing,
};

/// Pieces of one stream under way: 256 KiB.
pub const WINDOW: usize = 8;

/// What the reader of a link does with a stream that is pumped to the other side.
#[derive(Debug, Clone)]
pub struct Pump {
    room: Arc<Semaphore>,
    shut: CancellationToken,
}

impl Pump {
    pub fn new() -> Self {
        Self { room: Arc::new(Semaphore::new(WINDOW)), shut: CancellationToken::new() }
    }

    /// The other side has passed a piece on. Says whether one was under way.
    #[must_use]
    pub fn taken(&self) -> bool {
        let is_owed = self.room.available_permits() < WINDOW;
        if is_owed {
            self.room.add_permits(1);
        }
        is_owed
    }

    /// The other side does not want more, as it may say at any time.
    #[must_use]
    pub fn shut(&self) -> bool {
        self.shut.cancel();
        true
    }

    /// Sends a stream until it ends, breaks or is not wanted any more, and says that it has ended.
    pub async fn run(self, stream: Stream, reader: impl AsyncRead + Unpin, outgoing: Outgoing) {
        tokio::select! {
            () = self.send(stream, reader, &outgoing) => {}
            () = self.shut.cancelled() => {}
        }
        // Nobody is there to hear it if this fails.
        let _ = outgoing.send(Frame::Close(stream)).await;
    }

    async fn send(&self, stream: Stream, mut reader: impl AsyncRead + Unpin, outgoing: &Outgoing) {
        let mut buffer = vec![0; CHUNK_BYTES];
        loop {
            let Ok(room) = self.room.acquire().await else { return };
            room.forget();
            let Ok(count @ 1..) = reader.read(&mut buffer).await else { return };
            if outgoing.send(Frame::Data(stream, buffer[..count].to_vec())).await.is_err() {
                return;
            }
        }
    }
}

/// What the reader of a link does with a stream that comes from the other side. Dropped: the stream has ended.
#[derive(Debug)]
pub struct Sink(mpsc::Sender<Vec<u8>>);

impl Sink {
    pub fn new() -> (Self, mpsc::Receiver<Vec<u8>>) {
        let (pieces, receiver) = mpsc::channel(WINDOW);
        (Self(pieces), receiver)
    }

    /// A piece has come. Says whether there was room, as there is for who keeps to the window.
    #[must_use]
    pub fn data(&self, bytes: Vec<u8>) -> bool {
        !matches!(self.0.try_send(bytes), Err(mpsc::error::TrySendError::Full(_)))
    }
}

/// Passes on what comes, until the stream ends or nobody takes it any more.
pub async fn pass_on(
    stream: Stream,
    mut pieces: mpsc::Receiver<Vec<u8>>,
    mut writer: impl AsyncWrite + Unpin,
    outgoing: Outgoing,
) {
    while let Some(bytes) = pieces.recv().await {
        let is_written = writer.write_all(&bytes).await.is_ok() && writer.flush().await.is_ok();
        let answer = if is_written { Frame::Taken(stream) } else { Frame::Shut(stream) };
        // Who has said all there is may be gone already; what it said is passed on all the same.
        let _ = outgoing.send(answer).await;
        if !is_written {
            break;
        }
    }
    // Only the end of a pipe tells its reader that there is no more.
    let _ = writer.shutdown().await;
}
