//! Messages on their way: what is asked for, and how much of it is still to be moved. Pure.
//!
//! A sum is combined while more of it comes, in a buffer that stays in the caches; the network is not idle while we
//! compute. A letter says itself how long it is, so that a small one costs a single latency.

use std::mem;

use crate::{reduce, shm::panels::Combine};

/// The least that is sent of a letter: one packet of an Ethernet.
pub(crate) const LETTER_MIN: usize = 1400;
/// The longest letter: the notes of some thousand members.
const LETTER_MAX: usize = 1 << 30;
const LETTER_HEAD: usize = 8;
/// What is received at once of a sum; it stays in a second-level cache.
const STRIP: usize = 128 * 1024;

/// A message to move.
#[derive(Debug)]
pub(crate) enum Message<'a> {
    Send {
        to: usize,
        bytes: &'a [u8],
    },
    Receive {
        from: usize,
        bytes: &'a mut [u8],
    },
    /// Combines what comes with what is there.
    Combine {
        from: usize,
        bytes: &'a mut [u8],
        how: Combine,
    },
    /// Sends a letter, or the rest of it.
    Post {
        to: usize,
        letter: &'a mut Letter,
    },
    /// Receives a letter, or the rest of it.
    Collect {
        from: usize,
        letter: &'a mut Letter,
    },
}

/// Bytes that travel with their number. It knows how far it is, so its way can be left and taken up again.
#[derive(Debug)]
pub(crate) struct Letter {
    bytes: Vec<u8>,
    moved: usize,
}

impl Letter {
    /// One to send, with what `write` adds.
    pub(crate) fn written(write: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut bytes = vec![0; LETTER_HEAD];
        write(&mut bytes);
        let len = bytes.len() - LETTER_HEAD;
        bytes[..LETTER_HEAD].copy_from_slice(&(len as u64).to_le_bytes());
        bytes.resize(bytes.len().max(LETTER_MIN), 0);
        Self { bytes, moved: 0 }
    }

    /// One to receive.
    pub(crate) fn awaited() -> Self {
        Self { bytes: vec![0; LETTER_MIN], moved: 0 }
    }

    pub(crate) fn has_arrived(&self) -> bool {
        self.moved == self.bytes.len()
    }

    /// What is written in it.
    pub(crate) fn text(&self) -> &[u8] {
        &self.bytes[LETTER_HEAD..LETTER_HEAD + self.len().unwrap_or(0)]
    }

    /// The length that it says, unless that is absurd.
    fn len(&self) -> Option<usize> {
        let (head, _) = self.bytes.split_first_chunk()?;
        usize::try_from(u64::from_le_bytes(*head)).ok().filter(|len| *len <= LETTER_MAX)
    }

    /// So many bytes more have come; false if its length is absurd.
    fn advance(&mut self, moved: usize) -> bool {
        let had_head = self.moved >= LETTER_HEAD;
        self.moved += moved;
        if had_head || self.moved < LETTER_HEAD {
            return true;
        }
        let len = self.len();
        self.bytes.resize((LETTER_HEAD + len.unwrap_or(0)).max(LETTER_MIN), 0);
        len.is_some()
    }
}

/// A part of a message on one stream.
pub(super) struct Flow<'a> {
    pub(super) peer: usize,
    pub(super) stream: usize,
    pub(super) what: What<'a>,
}

pub(super) enum What<'a> {
    Out(&'a [u8]),
    In(&'a mut [u8]),
    /// The first bytes of the strip, as many as are held, are not combined yet.
    Sum {
        rest: &'a mut [u8],
        how: Combine,
        strip: Vec<u8>,
        held: usize,
    },
    Post(&'a mut Letter),
    Collect(&'a mut Letter),
}

impl<'a> What<'a> {
    pub(super) fn sum(rest: &'a mut [u8], how: Combine) -> Self {
        let strip = vec![0; rest.len().min(STRIP)];
        Self::Sum { rest, how, strip, held: 0 }
    }
}

impl Flow<'_> {
    pub(super) fn is_in(&self) -> bool {
        !matches!(self.what, What::Out(_) | What::Post(_))
    }

    pub(super) fn is_done(&self) -> bool {
        match &self.what {
            What::Out(bytes) => bytes.is_empty(),
            What::In(bytes) | What::Sum { rest: bytes, .. } => bytes.is_empty(),
            What::Post(letter) | What::Collect(letter) => letter.has_arrived(),
        }
    }

    /// What one end sends on a stream the other must take in the same order.
    pub(super) fn is_same_lane(&self, other: &Self) -> bool {
        self.is_in() == other.is_in() && self.peer == other.peer && self.stream == other.stream
    }

    /// What is to be sent.
    pub(super) fn outgoing(&self) -> Option<&[u8]> {
        match &self.what {
            What::Out(bytes) => Some(bytes),
            What::Post(letter) => Some(&letter.bytes[letter.moved..]),
            _ => None,
        }
    }

    /// Where to put what comes next.
    pub(super) fn room(&mut self) -> &mut [u8] {
        match &mut self.what {
            What::Out(_) | What::Post(_) => &mut [],
            What::In(bytes) => bytes,
            What::Sum { rest, strip, held, .. } => {
                let end = strip.len().min(rest.len());
                &mut strip[*held..end]
            }
            What::Collect(letter) => &mut letter.bytes[letter.moved..],
        }
    }

    /// So many bytes have been moved; false if what has come makes no sense.
    pub(super) fn advance(&mut self, moved: usize) -> bool {
        match &mut self.what {
            What::Out(bytes) => *bytes = &bytes[moved..],
            What::In(bytes) => *bytes = &mut mem::take(bytes)[moved..],
            What::Sum { rest, how, strip, held } => {
                *held += moved;
                let whole = *held - *held % how.dtype.size();
                let (ready, later) = mem::take(rest).split_at_mut(whole);
                reduce::accumulate(how.dtype, how.op, ready, &strip[..whole]);
                strip.copy_within(whole..*held, 0);
                *held -= whole;
                *rest = later;
            }
            What::Post(letter) => letter.moved += moved,
            What::Collect(letter) => return letter.advance(moved),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::{Flow, LETTER_HEAD, LETTER_MIN, Letter, What};
    use crate::{
        shm::panels::Combine,
        types::{DataType, ReduceOp},
    };

    fn flow(what: What<'_>) -> Flow<'_> {
        Flow { peer: 0, stream: 0, what }
    }

    /// Moves bytes into a flow, at most so many at a time; tells whether it makes sense.
    fn fill(flow: &mut Flow<'_>, mut bytes: &[u8], at_once: usize) -> bool {
        while !flow.is_done() {
            let room = flow.room();
            let moved = room.len().min(at_once);
            room[..moved].copy_from_slice(&bytes[..moved]);
            bytes = &bytes[moved..];
            if !flow.advance(moved) {
                return false;
            }
        }
        assert!(bytes.is_empty(), "{} bytes are left", bytes.len());
        true
    }

    #[test]
    fn a_letter_arrives_in_pieces_of_any_length() {
        for len in [0, 1, LETTER_MIN - LETTER_HEAD, LETTER_MIN, 70_000] {
            let text: Vec<u8> = (0..len).map(|index| u8::try_from(index % 251).unwrap()).collect();
            let sent = Letter::written(|bytes| bytes.extend(&text));
            for at_once in [1, 7, 1399, 1 << 20] {
                let mut letter = Letter::awaited();
                assert!(fill(&mut flow(What::Collect(&mut letter)), &sent.bytes, at_once));
                assert_eq!(letter.text(), text, "{len} bytes, {at_once} at once");
            }
        }
    }

    #[test]
    fn an_absurd_length_is_refused() {
        let mut letter = Letter::awaited();
        assert!(!fill(&mut flow(What::Collect(&mut letter)), &[0xff; LETTER_MIN], 100));
    }

    #[test]
    fn a_sum_is_made_of_whole_elements_however_it_comes() {
        let how = Combine { dtype: DataType::F64, op: ReduceOp::Sum, scale: 1.0 };
        let bytes = |values: &[f64]| values.iter().flat_map(|value| value.to_ne_bytes()).collect::<Vec<u8>>();
        let (ours, theirs): (Vec<f64>, Vec<f64>) = (0..1000).map(|index| (f64::from(index), 0.5)).unzip();
        let sums: Vec<f64> = ours.iter().map(|value| value + 0.5).collect();
        for at_once in [1, 5, 8, 1001, 1 << 20] {
            let mut data = bytes(&ours);
            assert!(fill(&mut flow(What::sum(&mut data, how)), &bytes(&theirs), at_once));
            assert_eq!(data, bytes(&sums), "{at_once} bytes at once");
        }
    }
}
