//! Frames over a channel: one task writes what a bounded queue brings, the owner of [`Incoming`] reads.
//!
//! Both sides say that they are there every [`HEARTBEAT`]; a side that was silent for [`SILENCE_MAX`] is lost, so a
//! machine that lost its power or its network is noticed too, where the kernel tells nothing.

use std::{io, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, MissedTickBehavior, interval_at, timeout},
};

use super::frame::{self, Frame};

/// One frame of each stream on its way, and a few of control.
const OUTGOING: usize = 16;
/// How often a side says that it is there.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// Six heartbeats: a machine may be busy, or its network pause for a while.
pub const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Where frames are put for the other side. The connection is shut down when the last of its clones is gone.
pub type Outgoing = mpsc::Sender<Frame>;

/// Reads the frames of the other side.
pub struct Incoming<R> {
    stream: R,
    buffer: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Incoming<R> {
    pub const fn new(stream: R) -> Self {
        Self { stream, buffer: Vec::new() }
    }

    /// Returns the next frame but heartbeats. Not to be dropped half way: the place in the stream would be lost.
    ///
    /// # Errors
    /// The end of the connection, silence, or what is no frame: in each case the connection is of no use any more.
    pub async fn next(&mut self) -> io::Result<Frame> {
        loop {
            match timeout(SILENCE_MAX, self.any()).await {
                Ok(Ok(Frame::Ping)) => {}
                Ok(frame) => return frame,
                Err(_) => return Err(io::Error::new(io::ErrorKind::TimedOut, "the other side stopped responding")),
            }
        }
    }

    /// Returns the next frame, heartbeats too.
    pub async fn any(&mut self) -> io::Result<Frame> {
        let mut head = [0; 4];
        self.stream.read_exact(&mut head).await?;
        let length = frame::length(head).map_err(io::Error::other)?;
        self.buffer.clear();
        // Grows with what comes, not with what was announced.
        let read = (&mut self.stream).take(length as u64).read_to_end(&mut self.buffer).await?;
        if read < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        frame::decode(&self.buffer).map_err(io::Error::other)
    }
}

/// Starts the task that writes. It ends when every [`Outgoing`] is gone, or with the connection.
pub fn write<W: AsyncWrite + Unpin + Send + 'static>(stream: W) -> (Outgoing, JoinHandle<io::Result<()>>) {
    let (outgoing, frames) = mpsc::channel(OUTGOING);
    (outgoing, tokio::spawn(write_all(stream, frames)))
}

async fn write_all<W: AsyncWrite + Unpin>(mut stream: W, mut frames: mpsc::Receiver<Frame>) -> io::Result<()> {
    let mut heartbeat = interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut bytes = Vec::new();
    loop {
        let first = tokio::select! {
            frame = frames.recv() => frame,
            _ = heartbeat.tick() => Some(Frame::Ping),
        };
        let Some(first) = first else { break };
        bytes.clear();
        frame::encode(&first, &mut bytes);
        while let Ok(more) = frames.try_recv() {
            frame::encode(&more, &mut bytes);
        }
        stream.write_all(&bytes).await?;
        stream.flush().await?;
    }
    stream.shutdown().await
}
