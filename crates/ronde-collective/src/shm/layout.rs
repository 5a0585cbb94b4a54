//! Where things are in a segment. Pure arithmetic, the same on every rank.
//!
//! Pages that nobody touches cost nothing, so the areas are as large as their users like.

use super::memory::{BLOCK, DEPTH, RING_MAX, RING_MIN};

/// Two cache lines: neighbours are fetched in pairs, and counters of different ranks must not share them.
const LINE: usize = 128;
const PAGE: usize = 4096;
/// Lines of one rank: bell, round, staged, reduced, taken, left, and room.
const CONTROL: usize = 8 * LINE;

/// What a rank may say in one round, its small tensors included.
pub(crate) const SLOT: usize = 256 * 1024;
/// All rings of a segment together; the memory is used only by pairs that send.
const RINGS: usize = 64 * 1024 * 1024;

#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    members: usize,
    ring: usize,
}

impl Layout {
    pub(super) fn new(members: usize) -> Self {
        let ring = (RINGS / (members * members)).clamp(RING_MIN, RING_MAX);
        Self { members, ring }
    }

    /// The head: who made this, and for whom.
    pub(super) const MARK: usize = 0;
    pub(super) const ABORT: usize = LINE;

    fn control(member: usize, line: usize) -> usize {
        PAGE + member * CONTROL + line * LINE
    }

    pub(super) fn bell(member: usize) -> usize {
        Self::control(member, 0)
    }

    pub(super) fn sleeping(member: usize) -> usize {
        Self::control(member, 0) + 4
    }

    /// Where the member was last seen; nothing before it has waited.
    pub(super) fn processor(member: usize) -> usize {
        Self::control(member, 0) + 8
    }

    pub(super) fn round(member: usize) -> usize {
        Self::control(member, 1)
    }

    pub(super) fn staged(member: usize) -> usize {
        Self::control(member, 2)
    }

    pub(super) fn reduced(member: usize) -> usize {
        Self::control(member, 3)
    }

    pub(super) fn taken(member: usize) -> usize {
        Self::control(member, 4)
    }

    pub(super) fn left(member: usize) -> usize {
        Self::control(member, 5)
    }

    fn slots(self) -> usize {
        (PAGE + self.members * CONTROL).next_multiple_of(PAGE)
    }

    /// What a member says in a round; two of them alternate.
    pub(super) fn slot(self, member: usize, round: u64) -> usize {
        let which = usize::from(!round.is_multiple_of(2));
        self.slots() + (member * 2 + which) * SLOT
    }

    fn stages(self) -> usize {
        self.slots() + self.members * 2 * SLOT
    }

    /// What `member` has laid out for `reader` of a panel.
    pub(super) fn stage(self, member: usize, panel: u64, reader: usize) -> usize {
        self.stages() + ((member * DEPTH + turn(panel)) * self.members + reader) * BLOCK
    }

    fn results(self) -> usize {
        self.stages() + self.members * DEPTH * self.members * BLOCK
    }

    /// What `member` has for all others of a panel.
    pub(super) fn result(self, member: usize, panel: u64) -> usize {
        self.results() + (member * DEPTH + turn(panel)) * BLOCK
    }

    fn rings(self) -> usize {
        self.results() + self.members * DEPTH * BLOCK
    }

    /// The ring from one member to another: first two lines for its ends, then its bytes.
    pub(super) fn ring(self, from: usize, to: usize) -> usize {
        self.rings() + (from * self.members + to) * (PAGE + self.ring.next_multiple_of(PAGE))
    }

    pub(super) const RING_READ: usize = LINE;
    pub(super) const RING_DATA: usize = PAGE;

    pub(super) fn ring_len(self) -> usize {
        self.ring
    }

    pub(super) fn len(self) -> usize {
        self.ring(self.members, 0)
    }
}

fn turn(panel: u64) -> usize {
    usize::try_from(panel % DEPTH as u64).expect("below the depth")
}
