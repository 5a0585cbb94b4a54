//! What launcher and agent say to each other, as bytes. Pure; the golden table below is the format.
//!
//! A frame is its length (four bytes, the greatest first), one byte that says what it is, and its body. The version is
//! not here: the channel agrees on it before the first frame ([`super::channel::PROTOCOL`]).

use crate::start::{Ended, Order};

/// A command line with its environment; the kernel takes no more than 2 MiB of both.
pub const FRAME_BYTES_MAX: usize = 4 << 20;
/// What one frame carries of a stream.
pub const CHUNK_BYTES: usize = 32 << 10;

/// One of the three streams of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Stdin,
    Stdout,
    Stderr,
}

/// What an agent is asked to run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Run {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// Added to the agent's own environment.
    pub environment: Vec<(String, String)>,
    /// Empty, or not there: the agent's own.
    pub directory: String,
    /// Whether the caller has input for it; otherwise it reads nothing.
    pub has_input: bool,
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// To the agent, as the first frame: start this. One connection is one program.
    Run(Run),
    /// To the agent, as the first frame: end when your programs have ended, and start no other.
    Release,
    /// From the agent: the release is noted.
    Released,
    /// To the agent, as the first frame: are you there? Later, both ways: I am.
    Ping,
    /// From the agent: no, and why.
    Refused(String),
    /// To the agent: for the program and all that it started.
    Order(Order),
    /// From the agent: how the program ended. The last frame.
    Ended(Ended),
    /// A piece of a stream, at most [`CHUNK_BYTES`]. Its reader owes a [`Frame::Taken`].
    Data(Stream, Vec<u8>),
    /// No more of a stream will come.
    Close(Stream),
    /// The other way: one piece of a stream has been passed on.
    Taken(Stream),
    /// The other way: nobody reads this stream any more.
    Shut(Stream),
}

/// Why bytes are no frame.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FrameError {
    #[error("frame of {0} bytes is longer than {FRAME_BYTES_MAX}")]
    TooLong(usize),
    #[error("unknown frame kind {0}")]
    Kind(u8),
    #[error("truncated frame")]
    Short,
    #[error("frame with trailing bytes")]
    Long,
    #[error("frame with text that is not UTF-8")]
    Text,
    #[error("frame with unknown value {0}")]
    Value(u8),
}

/// Writes a frame with its length at the end of a buffer.
pub fn encode(frame: &Frame, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend([0; 4]);
    put_frame(out, frame);
    let length = u32::try_from(out.len() - start - 4).unwrap_or(u32::MAX);
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

/// Reads the length that stands before a frame.
pub fn length(head: [u8; 4]) -> Result<usize, FrameError> {
    let length = usize::try_from(u32::from_be_bytes(head)).unwrap_or(usize::MAX);
    if length > FRAME_BYTES_MAX { Err(FrameError::TooLong(length)) } else { Ok(length) }
}

/// Reads a frame, without its length.
pub fn decode(bytes: &[u8]) -> Result<Frame, FrameError> {
    let mut reader = Reader(bytes);
    let frame = reader.frame()?;
    if reader.0.is_empty() { Ok(frame) } else { Err(FrameError::Long) }
}

fn put_frame(out: &mut Vec<u8>, frame: &Frame) {
    match frame {
        Frame::Run(run) => {
            out.push(1);
            put_list(out, &run.words, |out, word| put_text(out, word));
            put_list(out, &run.environment, |out, (name, value)| {
                put_text(out, name);
                put_text(out, value);
            });
            put_text(out, &run.directory);
            out.push(u8::from(run.has_input));
        }
        Frame::Release => out.push(2),
        Frame::Released => out.push(3),
        Frame::Ping => out.push(4),
        Frame::Refused(why) => {
            out.push(5);
            put_text(out, why);
        }
        Frame::Order(Order::Signal(number)) => {
            out.push(6);
            out.extend(number.to_be_bytes());
        }
        Frame::Order(Order::Kill) => out.push(7),
        Frame::Ended(ended) => put_ended(out, ended),
        Frame::Data(stream, bytes) => {
            out.extend([9, *stream as u8]);
            out.extend(bytes);
        }
        Frame::Close(stream) => out.extend([10, *stream as u8]),
        Frame::Taken(stream) => out.extend([11, *stream as u8]),
        Frame::Shut(stream) => out.extend([12, *stream as u8]),
    }
}

fn put_ended(out: &mut Vec<u8>, ended: &Ended) {
    out.push(8);
    match ended {
        Ended::Code(code) => {
            out.push(0);
            out.extend(code.to_be_bytes());
        }
        Ended::Signal(number) => {
            out.push(1);
            out.extend(number.to_be_bytes());
        }
        Ended::Lost(why) => {
            out.push(2);
            put_text(out, why);
        }
    }
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    out.extend(u32::try_from(count).unwrap_or(u32::MAX).to_be_bytes());
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_count(out, text.len());
    out.extend(text.as_bytes());
}

fn put_list<T>(out: &mut Vec<u8>, items: &[T], put: impl Fn(&mut Vec<u8>, &T)) {
    put_count(out, items.len());
    items.iter().for_each(|item| put(out, item));
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn frame(&mut self) -> Result<Frame, FrameError> {
        Ok(match self.byte()? {
            1 => Frame::Run(Run {
                words: self.list(Self::text)?,
                environment: self.list(|reader| Ok((reader.text()?, reader.text()?)))?,
                directory: self.text()?,
                has_input: self.flag()?,
            }),
            2 => Frame::Release,
            3 => Frame::Released,
            4 => Frame::Ping,
            5 => Frame::Refused(self.text()?),
            6 => Frame::Order(Order::Signal(self.number()?)),
            7 => Frame::Order(Order::Kill),
            8 => Frame::Ended(self.ended()?),
            9 => Frame::Data(self.stream()?, std::mem::take(&mut self.0).to_vec()),
            10 => Frame::Close(self.stream()?),
            11 => Frame::Taken(self.stream()?),
            12 => Frame::Shut(self.stream()?),
            kind => return Err(FrameError::Kind(kind)),
        })
    }

    fn ended(&mut self) -> Result<Ended, FrameError> {
        match self.byte()? {
            0 => Ok(Ended::Code(self.number()?)),
            1 => Ok(Ended::Signal(self.number()?)),
            2 => Ok(Ended::Lost(self.text()?)),
            other => Err(FrameError::Value(other)),
        }
    }

    fn stream(&mut self) -> Result<Stream, FrameError> {
        match self.byte()? {
            0 => Ok(Stream::Stdin),
            1 => Ok(Stream::Stdout),
            2 => Ok(Stream::Stderr),
            other => Err(FrameError::Value(other)),
        }
    }

    fn flag(&mut self) -> Result<bool, FrameError> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(FrameError::Value(other)),
        }
    }

    fn list<T>(&mut self, item: impl Fn(&mut Self) -> Result<T, FrameError>) -> Result<Vec<T>, FrameError> {
        let count = u32::from_be_bytes(self.array()?);
        // The count is not believed: memory grows with what is really there.
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn text(&mut self) -> Result<String, FrameError> {
        let length = usize::try_from(u32::from_be_bytes(self.array()?)).map_err(|_| FrameError::Short)?;
        let (text, rest) = self.0.split_at_checked(length).ok_or(FrameError::Short)?;
        self.0 = rest;
        std::str::from_utf8(text).map(str::to_owned).map_err(|_| FrameError::Text)
    }

    fn number(&mut self) -> Result<i32, FrameError> {
        self.array().map(i32::from_be_bytes)
    }

    fn byte(&mut self) -> Result<u8, FrameError> {
        self.array().map(|[byte]| byte)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], FrameError> {
        let (head, rest) = self.0.split_first_chunk().ok_or(FrameError::Short)?;
        self.0 = rest;
        Ok(*head)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(frame: Frame, golden: &str) {
        let mut bytes = Vec::new();
        encode(&frame, &mut bytes);
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, golden, "{frame:?}");
        assert_eq!(length(*bytes.first_chunk().unwrap()), Ok(bytes.len() - 4), "{frame:?}");
        assert_eq!(decode(&bytes[4..]), Ok(frame));
    }

    #[test]
    fn frames_have_the_bytes_that_version_1_has() {
        check(
            Frame::Run(Run {
                words: vec!["ls".to_owned(), "-l".to_owned()],
                environment: vec![("A".to_owned(), "b".to_owned())],
                directory: "/".to_owned(),
                has_input: true,
            }),
            "00000025010000000200000002 6c73000000022d6c 000000010000000141 0000000162 000000012f 01"
                .replace(' ', "")
                .as_str(),
        );
        check(Frame::Release, "0000000102");
        check(Frame::Released, "0000000103");
        check(Frame::Ping, "0000000104");
        check(Frame::Refused("no".to_owned()), "0000000705000000026e6f");
        check(Frame::Order(Order::Signal(15)), "00000005060000000f");
        check(Frame::Order(Order::Kill), "0000000107");
        check(Frame::Ended(Ended::Code(-1)), "000000060800ffffffff");
        check(Frame::Ended(Ended::Signal(9)), "00000006080100000009");
        check(Frame::Ended(Ended::Lost("x".to_owned())), "0000000708020000000178");
        check(Frame::Data(Stream::Stdout, b"hi".to_vec()), "0000000409016869");
        check(Frame::Close(Stream::Stdin), "000000020a00");
        check(Frame::Taken(Stream::Stderr), "000000020b02");
        check(Frame::Shut(Stream::Stdout), "000000020c01");
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        assert_eq!(length([0xff; 4]), Err(FrameError::TooLong(0xffff_ffff)));
        assert_eq!(decode(&[]), Err(FrameError::Short));
        assert_eq!(decode(&[99]), Err(FrameError::Kind(99)));
        assert_eq!(decode(&[2, 0]), Err(FrameError::Long));
        assert_eq!(decode(&[5, 0, 0, 0, 1, 0xff]), Err(FrameError::Text));
        assert_eq!(decode(&[5, 0xff, 0xff, 0xff, 0xff]), Err(FrameError::Short));
        assert_eq!(decode(&[1, 0xff, 0xff, 0xff, 0xff]), Err(FrameError::Short));
        assert_eq!(decode(&[10, 3]), Err(FrameError::Value(3)));
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
        }
    }
}
