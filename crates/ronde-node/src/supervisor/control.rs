//! The language of the control socket: one JSON line each way.
//!
//! After `Attach` the connection carries frames instead ([`Frame`]); after `Watch` a line whenever a record has changed.

use serde::{Deserialize, Serialize};

use crate::sandbox::spec::ContainerSpec;

/// An order of the daemon.
#[derive(Debug, Serialize, Deserialize)]
pub enum Order {
    /// Starts an attempt; one that has been started before is left alone.
    Start(Box<ContainerSpec>),
    /// Sends a signal to the main process of a container, or with `all` kills all of its processes.
    Signal { container: String, signal: i32, all: bool },
    /// Sends a line whenever a record changes.
    Watch,
    /// Connects to the standard streams of a container.
    Attach { container: String },
    /// Kills what still runs, and ends.
    Quit,
}

/// The answer to an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SupervisorAnswer {
    Done,
    Failed { message: String },
}

/// What an attached connection carries: one byte for the kind, four for the length (big-endian), the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame {
    Stdin = 0,
    Stdout = 1,
    Stderr = 2,
    /// Two numbers of two bytes: columns and rows.
    Resize = 3,
    /// The input has ended.
    CloseStdin = 4,
}

pub const FRAME_HEAD: usize = 5;
/// Longer frames are refused; the pumps make none above 64 KiB.
pub const FRAME_BYTES_MAX: usize = 1 << 20;
/// A container's spec is some tens of kilobytes; its environment may be large.
pub const LINE_BYTES_MAX: usize = 8 << 20;

impl Frame {
    pub fn from_byte(byte: u8) -> Option<Self> {
        [Self::Stdin, Self::Stdout, Self::Stderr, Self::Resize, Self::CloseStdin]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }

    /// Returns the bytes of one frame.
    pub fn encode(self, bytes: &[u8]) -> Vec<u8> {
        let length = u32::try_from(bytes.len()).expect("frames are far below 4 GiB");
        let mut frame = Vec::with_capacity(FRAME_HEAD + bytes.len());
        frame.push(self as u8);
        frame.extend_from_slice(&length.to_be_bytes());
        frame.extend_from_slice(bytes);
        frame
    }

    /// Takes the first whole frame off a buffer; nothing if there is none yet.
    ///
    /// # Errors
    /// If what is there cannot be a frame.
    pub fn take_from(buffer: &mut Vec<u8>) -> Result<Option<(Self, Vec<u8>)>, String> {
        let Some((head, rest)) = buffer.split_at_checked(FRAME_HEAD) else { return Ok(None) };
        let kind = Self::from_byte(head[0]).ok_or_else(|| format!("no frame has kind {}", head[0]))?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        if length > FRAME_BYTES_MAX {
            return Err(format!("a frame of {length} bytes is too long"));
        }
        let Some(bytes) = rest.get(..length).map(<[u8]>::to_vec) else { return Ok(None) };
        buffer.drain(..FRAME_HEAD + length);
        Ok(Some((kind, bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::Frame;

    #[test]
    fn frames_come_out_as_they_went_in_however_they_are_cut() {
        let mut all = Frame::Stdout.encode(b"hello");
        all.extend(Frame::CloseStdin.encode(b""));
        all.extend(Frame::Resize.encode(&[0, 80, 0, 24]));
        for cut in 0..=all.len() {
            let mut buffer = all[..cut].to_vec();
            let mut seen = Vec::new();
            while let Ok(Some(frame)) = Frame::take_from(&mut buffer) {
                seen.push(frame);
            }
            buffer.extend_from_slice(&all[cut..]);
            while let Ok(Some(frame)) = Frame::take_from(&mut buffer) {
                seen.push(frame);
            }
            let expected = [
                (Frame::Stdout, b"hello".to_vec()),
                (Frame::CloseStdin, Vec::new()),
                (Frame::Resize, vec![0, 80, 0, 24]),
            ];
            assert_eq!(seen, expected, "cut at {cut}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(Frame::take_from(&mut vec![9, 0, 0, 0, 0]).is_err());
        assert!(Frame::take_from(&mut vec![0, 255, 255, 255, 255]).is_err());
    }
}
