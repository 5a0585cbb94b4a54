//! Rounds: every member says something small, and hears what all others said.
//!
//! Cost for P members: one write of the message, P - 1 reads, one latency. A message lies in one of two slots in
//! turn. The slot of round r is written again in round r + 2, which nobody begins before all have spoken in round
//! r + 1, and who speaks in r + 1 has done with r.

use std::time::Instant;

use super::{Layout, SLOT, Shm};
use crate::error::Result;

impl Shm {
    /// Says our part of the next round, given in pieces.
    pub(crate) fn send_round<'a>(&mut self, pieces: impl Iterator<Item = &'a [u8]>) {
        self.round += 1;
        let slot = self.layout.slot(self.me, self.round);
        let mut len = 0;
        for piece in pieces {
            self.segment.bytes_mut(slot + 8 + len, piece.len()).copy_from_slice(piece);
            len += piece.len();
        }
        self.segment.bytes_mut(slot, 8).copy_from_slice(&(len as u64).to_ne_bytes());
        self.publish(Layout::round(self.me), self.round);
    }

    /// Waits until all have spoken in our round; false if the time is over.
    pub(crate) fn hear(&self, deadline: Option<Instant>) -> Result<bool> {
        self.wait_until(deadline, || self.silent())
    }

    /// A member that has not spoken in our round yet.
    pub(crate) fn silent(&self) -> Option<usize> {
        self.behind(Layout::round, self.round)
    }

    pub(crate) fn has_spoken(&self, member: usize) -> bool {
        self.load(Layout::round(member)) >= self.round
    }

    /// Whether a peer has begun the round after ours.
    pub(crate) fn is_awaited(&self) -> bool {
        self.peers().any(|peer| self.load(Layout::round(peer)) > self.round)
    }

    /// Waits until a peer begins the next round, or `is_called` says that there is something else to do.
    pub(crate) fn listen(&self, deadline: Option<Instant>, is_called: impl Fn() -> bool) -> Result<bool> {
        let peer = (self.me + 1) % self.size();
        self.wait_until(deadline, || if is_called() || self.is_awaited() { None } else { Some(peer) })
    }

    /// What a member said in our round; everybody has spoken.
    pub(crate) fn said(&self, member: usize) -> &[u8] {
        let slot = self.layout.slot(member, self.round);
        let mut len = [0; 8];
        len.copy_from_slice(self.segment.bytes(slot, 8));
        let len = usize::try_from(u64::from_ne_bytes(len)).unwrap_or(usize::MAX).min(SLOT - 8);
        self.segment.bytes(slot + 8, len)
    }
}
