//! A connection to the control socket: orders, news for a watcher, or the streams of somebody attached.

use std::{
    io::{Read as _, Write as _},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
};

use jiff::{SignedDuration, Timestamp};
use rustix::event::PollFlags;

use super::{
    container::Container,
    control::{FRAME_BYTES_MAX, FRAME_HEAD, Frame, LINE_BYTES_MAX, SupervisorAnswer},
};

const CHUNK: usize = 64 << 10;
/// With more than this waiting, the container is held back.
const PENDING_BYTES_MAX: usize = 1 << 20;
/// A client that takes nothing for this long while something waits is gone.
const STALL_MAX: SignedDuration = SignedDuration::from_secs(10);

/// What a connection is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purpose {
    Orders,
    Watching,
    Attached { container: String },
}

pub struct Connection {
    stream: UnixStream,
    purpose: Purpose,
    received: Vec<u8>,
    pending: Vec<u8>,
    /// Since when something waits to be taken.
    waiting_since: Option<Timestamp>,
    /// Nothing more will come.
    finished: bool,
    /// Closed once what is pending has been taken.
    ending: bool,
    broken: bool,
}

impl Connection {
    pub fn new(stream: UnixStream) -> std::io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            purpose: Purpose::Orders,
            received: Vec::new(),
            pending: Vec::new(),
            waiting_since: None,
            finished: false,
            ending: false,
            broken: false,
        })
    }

    pub fn purpose(&self) -> &Purpose {
        &self.purpose
    }

    pub fn become_purpose(&mut self, purpose: Purpose) {
        self.purpose = purpose;
    }

    pub fn interest(&self) -> PollFlags {
        let read = if self.finished { PollFlags::empty() } else { PollFlags::IN };
        if self.pending.is_empty() { read } else { read | PollFlags::OUT }
    }

    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Whether a container has to wait until this client has read.
    pub fn holds_back(&self, container: &str) -> bool {
        self.pending.len() > PENDING_BYTES_MAX && self.is_attached_to(container)
    }

    fn is_attached_to(&self, name: &str) -> bool {
        matches!(&self.purpose, Purpose::Attached { container } if container == name)
    }

    /// Whether the connection is to be kept.
    pub fn is_alive(&mut self, now: Timestamp) -> bool {
        let stalled = self.waiting_since.is_some_and(|since| now.duration_since(since) > STALL_MAX);
        let done = self.pending.is_empty() && (self.ending || self.finished);
        !(self.broken || stalled || done)
    }

    /// Reads what has come.
    pub fn fill(&mut self) {
        let mut chunk = vec![0; CHUNK];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => {
                    self.finished = true;
                    return;
                }
                Ok(count) => self.received.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.broken = true;
                    return;
                }
            }
            if self.received.len() > LINE_BYTES_MAX.max(FRAME_BYTES_MAX + FRAME_HEAD) {
                self.broken = true;
                return;
            }
            if self.purpose != Purpose::Orders && self.received.len() > FRAME_BYTES_MAX {
                return;
            }
        }
    }

    /// Takes the first whole line off what has come.
    pub fn take_line(&mut self) -> Option<Vec<u8>> {
        if self.purpose != Purpose::Orders {
            return None;
        }
        let end = self.received.iter().position(|byte| *byte == b'\n')?;
        let mut line: Vec<u8> = self.received.drain(..=end).collect();
        line.pop();
        Some(line)
    }

    /// Passes what an attached client has sent to its container.
    pub fn pass_input(&mut self, container: Option<&mut Container>) {
        let Some(container) = container else {
            self.ending = true;
            return;
        };
        loop {
            match Frame::take_from(&mut self.received) {
                Ok(None) => break,
                Ok(Some((Frame::Stdin, bytes))) => container.feed(&bytes),
                Ok(Some((Frame::CloseStdin, _))) => container.input_ended(),
                Ok(Some((Frame::Resize, bytes))) => {
                    if let [a, b, c, d] = bytes[..] {
                        container.resize(u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
                    }
                }
                Ok(Some(_)) | Err(_) => {
                    self.broken = true;
                    return;
                }
            }
        }
        if self.finished || self.broken {
            container.input_ended();
        }
    }

    /// Gives output to an attached client.
    pub fn give(&mut self, container: &str, frame: Frame, bytes: &[u8], now: Timestamp) {
        if self.is_attached_to(container) {
            self.push(&frame.encode(bytes), now);
        }
    }

    pub fn end_if_attached(&mut self, container: &str) {
        if self.is_attached_to(container) {
            self.ending = true;
        }
    }

    /// Says one line.
    pub fn send(&mut self, answer: &SupervisorAnswer, now: Timestamp) {
        let mut line = serde_json::to_vec(answer).unwrap_or_default();
        line.push(b'\n');
        self.push(&line, now);
    }

    fn push(&mut self, bytes: &[u8], now: Timestamp) {
        self.pending.extend_from_slice(bytes);
        self.flush(now);
    }

    /// Writes what waits, as far as it is taken.
    pub fn flush(&mut self, now: Timestamp) {
        while !self.pending.is_empty() {
            match self.stream.write(&self.pending) {
                Ok(count) => {
                    self.pending.drain(..count);
                    self.waiting_since = None;
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    self.waiting_since.get_or_insert(now);
                    return;
                }
                Err(_) => {
                    self.broken = true;
                    return;
                }
            }
        }
        self.waiting_since = None;
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
