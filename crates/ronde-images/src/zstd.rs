//! Reads zstd: all frames of a stream one after the other, and over those that are for others. Memory is bounded.

use std::io::{self, BufRead, Read};

use ruzstd::decoding::{
    BlockDecodingStrategy, FrameDecoder,
    errors::{FrameDecoderError, ReadFrameHeaderError},
};

/// What every stream of zstd begins with.
pub const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The tools that make images use 8 MiB at most, and three layers at once are to stay under 100 MB.
const WINDOW_MAX: u64 = 16 << 20;

/// Decompresses what it reads.
pub struct Decoder<R> {
    source: R,
    frame: FrameDecoder,
    in_frame: bool,
}

impl<R: BufRead> Decoder<R> {
    pub fn new(source: R) -> Self {
        let mut frame = FrameDecoder::new();
        frame.set_max_window_size(WINDOW_MAX);
        Self { source, frame, in_frame: false }
    }

    /// Begins the next frame; there may be none.
    fn begin(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.frame.reset(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    let length = u64::from(length);
                    if io::copy(&mut (&mut self.source).take(length), &mut io::sink())? < length {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(invalid(error)),
            }
        }
        Ok(false)
    }
}

impl<R: BufRead> Read for Decoder<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.in_frame {
                if !self.begin()? {
                    return Ok(0);
                }
                self.in_frame = true;
            }
            if self.frame.can_collect() > 0 {
                return self.frame.read(buffer);
            }
            if self.frame.is_finished() {
                self.in_frame = false;
            } else {
                self.frame.decode_blocks(&mut self.source, BlockDecodingStrategy::UptoBlocks(1)).map_err(invalid)?;
            }
        }
    }
}

fn invalid(error: FrameDecoderError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not valid zstd: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame with the window of 1 KiB and one block that says a byte ten times.
    const TEN: [u8; 10] = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x00, 0x53, 0x00, 0x00, b'a'];
    const SKIPPED: [u8; 10] = [0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 7, 7];

    fn check(what: &str, bytes: &[u8], expected: &str) {
        let mut text = String::new();
        let shown = match Decoder::new(bytes).read_to_string(&mut text) {
            Ok(_) => text,
            Err(error) => error.to_string(),
        };
        assert!(shown.starts_with(expected), "{what}: {shown}");
        assert!(!expected.is_empty() || shown.is_empty(), "{what}: {shown}");
    }

    #[test]
    fn frames_are_read_one_after_the_other() {
        check("nothing", &[], "");
        check("one", &TEN, "aaaaaaaaaa");
        check("two", &[TEN, TEN].concat(), "aaaaaaaaaaaaaaaaaaaa");
        check("one for others between", &[TEN, SKIPPED, TEN].concat(), "aaaaaaaaaaaaaaaaaaaa");
        check("cut off", &TEN[..8], "not valid zstd");
        check("something else", b"gzip or what", "not valid zstd");
        let mut large = TEN;
        large[5] = 0x78;
        check("a window of 32 MiB", &large, "not valid zstd: Specified window_size is too big");
    }
}
