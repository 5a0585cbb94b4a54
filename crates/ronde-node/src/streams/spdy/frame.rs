//! The frames of SPDY/3.1 as bytes, and back. Pure.
//!
//! Data frames may be as large as 16 MB; they are handed on piece by piece as they come, never held.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

use super::{
    ProtocolError,
    headers::{Headers, Packer, Unpacker},
};
use crate::streams::pipe::Outgoing;

/// A control frame of a client is a few hundred bytes.
const CONTROL_BYTES_MAX: usize = 64 << 10;
const HEAD_BYTES: usize = 8;
const VERSION: u16 = 3;
const IS_CONTROL: u16 = 0x8000;
const STREAM_MASK: u32 = 0x7fff_ffff;
const FIN: u8 = 1;

const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GO_AWAY: u16 = 7;
const HEADERS: u16 = 8;

/// The status of a reset that says that a stream is not wanted.
const REFUSED_STREAM: u32 = 3;

/// What a client says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    Open {
        stream: u32,
        headers: Headers,
    },
    Data {
        stream: u32,
        data: Bytes,
    },
    /// The client sends no more on this stream.
    Close {
        stream: u32,
    },
    Reset {
        stream: u32,
    },
    Ping(u32),
    GoAway,
}

/// Finds frames in what a client sends.
pub struct Decoder {
    unpacker: Unpacker,
    /// The data frame that is being read.
    data: Option<DataFrame>,
    /// A stream that was opened and closed in one frame: the second half is still to be told.
    closes: Option<u32>,
}

#[derive(Clone, Copy)]
struct DataFrame {
    stream: u32,
    left: usize,
    is_last: bool,
}

/// Writes frames for a client.
pub struct Encoder {
    packer: Packer,
}

impl Decoder {
    pub fn new() -> Self {
        Self { unpacker: Unpacker::new(), data: None, closes: None }
    }

    /// Takes the next frame, or what is there of a data frame; none if more bytes are needed.
    ///
    /// # Errors
    /// If the bytes are not frames.
    pub fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<Frame>, ProtocolError> {
        loop {
            if let Some(stream) = self.closes.take() {
                return Ok(Some(Frame::Close { stream }));
            }
            if let Some(frame) = self.data {
                match self.take_data(frame, bytes) {
                    Some(frame) => return Ok(Some(frame)),
                    None if self.data.is_some() => return Ok(None),
                    None => continue,
                }
            }
            let Some(head) = bytes.first_chunk::<HEAD_BYTES>().copied() else { return Ok(None) };
            let first = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
            let length = u32::from_be_bytes([0, head[5], head[6], head[7]]) as usize;
            let is_last = head[4] & FIN != 0;
            if first & !STREAM_MASK == 0 {
                bytes.advance(HEAD_BYTES);
                self.data = Some(DataFrame { stream: first, left: length, is_last });
                continue;
            }
            if length > CONTROL_BYTES_MAX {
                return Err(ProtocolError::TooLarge);
            }
            if bytes.len() < HEAD_BYTES + length {
                return Ok(None);
            }
            bytes.advance(HEAD_BYTES);
            let body = bytes.split_to(length).freeze();
            let kind = u16::from_be_bytes([head[2], head[3]]);
            if u16::from_be_bytes([head[0], head[1]]) != IS_CONTROL | VERSION {
                return Err(ProtocolError::Frame);
            }
            if let Some(frame) = self.control(kind, is_last, body)? {
                return Ok(Some(frame));
            }
        }
    }

    /// Takes what is there of a data frame; none if there is nothing to tell.
    fn take_data(&mut self, mut frame: DataFrame, bytes: &mut BytesMut) -> Option<Frame> {
        let data = bytes.split_to(bytes.len().min(frame.left)).freeze();
        frame.left -= data.len();
        self.data = (frame.left > 0).then_some(frame);
        let ends = frame.left == 0 && frame.is_last;
        match (data.is_empty(), ends) {
            (true, true) => Some(Frame::Close { stream: frame.stream }),
            (true, false) => None,
            (false, ends) => {
                self.closes = ends.then_some(frame.stream);
                Some(Frame::Data { stream: frame.stream, data })
            }
        }
    }

    fn control(&mut self, kind: u16, is_last: bool, mut body: Bytes) -> Result<Option<Frame>, ProtocolError> {
        let mut number = || body.try_get_u32().map_err(|_| ProtocolError::Frame);
        Ok(match kind {
            SYN_STREAM => {
                let (stream, _associated) = (number()? & STREAM_MASK, number()?);
                let _priority = body.try_get_u16().map_err(|_| ProtocolError::Frame)?;
                let headers = self.unpacker.unpack(&body)?;
                self.closes = is_last.then_some(stream);
                Some(Frame::Open { stream, headers })
            }
            SYN_REPLY | HEADERS => {
                let stream = number()? & STREAM_MASK;
                // They say nothing to us, but the next block can only be unpacked after this one.
                self.unpacker.unpack(&body)?;
                is_last.then_some(Frame::Close { stream })
            }
            RST_STREAM => Some(Frame::Reset { stream: number()? & STREAM_MASK }),
            PING => Some(Frame::Ping(number()?)),
            GO_AWAY => Some(Frame::GoAway),
            _ => None,
        })
    }
}

impl Encoder {
    pub fn new() -> Self {
        Self { packer: Packer::new() }
    }

    /// What only clients send, for the tests that play one.
    #[cfg(test)]
    pub fn open(&mut self, stream: u32, headers: &Headers, is_last: bool, out: &mut BytesMut) {
        let packed = self.packer.pack(headers);
        out.put_u16(IS_CONTROL | VERSION);
        out.put_u16(SYN_STREAM);
        out.put_u32(flags_and_length(u8::from(is_last), 10 + packed.len()));
        out.put_u32(stream);
        out.put_u32(0);
        out.put_u16(0);
        out.put_slice(&packed);
    }

    pub fn encode(&mut self, outgoing: &Outgoing, out: &mut BytesMut) {
        match outgoing {
            Outgoing::Accept(stream) => {
                let headers = self.packer.pack(&Headers::new());
                control(SYN_REPLY, 4 + headers.len(), out);
                out.put_u32(*stream);
                out.put_slice(&headers);
            }
            Outgoing::Reset(stream) => {
                control(RST_STREAM, 8, out);
                out.put_u32(*stream);
                out.put_u32(REFUSED_STREAM);
            }
            Outgoing::Data(stream, data) => {
                out.put_u32(stream & STREAM_MASK);
                out.put_u32(flags_and_length(0, data.len()));
                out.put_slice(data);
            }
            Outgoing::Close(stream) => {
                out.put_u32(stream & STREAM_MASK);
                out.put_u32(flags_and_length(FIN, 0));
            }
            Outgoing::Pong(id) => {
                control(PING, 4, out);
                out.put_u32(*id);
            }
        }
    }
}

/// Appends the frame that says that no streams after this one will be looked at.
pub fn go_away(last_stream: u32, out: &mut BytesMut) {
    control(GO_AWAY, 8, out);
    out.put_u32(last_stream);
    out.put_u32(0);
}

fn control(kind: u16, length: usize, out: &mut BytesMut) {
    out.put_u16(IS_CONTROL | VERSION);
    out.put_u16(kind);
    out.put_u32(flags_and_length(0, length));
}

fn flags_and_length(flags: u8, length: usize) -> u32 {
    let length = u32::try_from(length).ok().filter(|length| *length < 1 << 24);
    u32::from(flags) << 24 | length.expect("pieces and headers are far below 16 MB")
}

#[cfg(test)]
mod tests;
