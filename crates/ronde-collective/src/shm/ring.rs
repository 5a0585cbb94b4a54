//! A stream of bytes from one member to another.
//!
//! One writer, one reader, two counters that only grow. What the wire sends between members of a host goes here.

use std::time::Duration;

use super::{Layout, Shm, clock};
use crate::error::Result;

/// After this the caller may want to look for other things.
const LONG: Duration = Duration::from_millis(100);

impl Shm {
    /// Writes as much as there is room for; returns how much.
    pub(crate) fn push(&self, to: usize, bytes: &[u8]) -> usize {
        let ring = self.layout.ring(self.me, to);
        let written = self.load(ring);
        let used = index(written - self.load(ring + Layout::RING_READ));
        let len = bytes.len().min(self.layout.ring_len() - used);
        if len > 0 {
            let start = self.place(written);
            let first = len.min(self.layout.ring_len() - start);
            let data = ring + Layout::RING_DATA;
            self.segment.bytes_mut(data + start, first).copy_from_slice(&bytes[..first]);
            self.segment.bytes_mut(data, len - first).copy_from_slice(&bytes[first..len]);
            self.publish(ring, written + len as u64);
        }
        len
    }

    /// Reads what is there, at most so much; returns how much.
    pub(crate) fn pull(&self, from: usize, bytes: &mut [u8]) -> usize {
        let ring = self.layout.ring(from, self.me);
        let read = self.load(ring + Layout::RING_READ);
        let len = bytes.len().min(index(self.load(ring) - read));
        if len > 0 {
            let start = self.place(read);
            let first = len.min(self.layout.ring_len() - start);
            let data = ring + Layout::RING_DATA;
            bytes[..first].copy_from_slice(self.segment.bytes(data + start, first));
            bytes[first..len].copy_from_slice(self.segment.bytes(data, len - first));
            self.publish(ring + Layout::RING_READ, read + len as u64);
        }
        len
    }

    /// Whether a peer has sent something that we have not read.
    pub(crate) fn has_bytes(&self, from: usize) -> bool {
        let ring = self.layout.ring(from, self.me);
        self.load(ring) > self.load(ring + Layout::RING_READ)
    }

    pub(crate) fn has_room(&self, to: usize) -> bool {
        let ring = self.layout.ring(self.me, to);
        index(self.load(ring) - self.load(ring + Layout::RING_READ)) < self.layout.ring_len()
    }

    /// Waits until one of the peers can be read from or written to as wanted, or a while.
    pub(crate) fn wait_for_rings(&self, reads: &[usize], writes: &[usize], limit: Option<Duration>) -> Result<()> {
        let Some(first) = reads.first().or(writes.first()).copied() else { return Ok(()) };
        let can_go_on =
            || reads.iter().any(|peer| self.has_bytes(*peer)) || writes.iter().any(|peer| self.has_room(*peer));
        let deadline = clock::now() + limit.map_or(LONG, |limit| limit.min(LONG));
        self.wait_until(Some(deadline), || if can_go_on() { None } else { Some(first) }).map(|_| ())
    }

    fn place(&self, count: u64) -> usize {
        index(count % self.layout.ring_len() as u64)
    }
}

fn index(count: u64) -> usize {
    usize::try_from(count).expect("at most the length of a ring")
}
