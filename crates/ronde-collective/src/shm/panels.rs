//! Large collectives in shared memory, a block at a time.
//!
//! Every member owns a part of the data. A panel is one block of every part; for each panel a member
//! 1. *stages* the blocks that others own, for their owners to read,
//! 2. *reduces* the blocks that others staged for it into a result that all may read,
//! 3. *takes* the results of the others.
//!
//! Step 1 belongs to reduce-scatter, step 3 to allgather and broadcast, and an allreduce has both. Steps of different
//! panels overlap, and the blocks are so small that they pass from one member to another through the caches: for P
//! members and S bytes each member reads and writes its own memory once, 2 S, and moves 2 S (P - 1) / P through
//! caches.

use std::ops::Range;

use super::{
    Layout, Shm,
    memory::{BLOCK, BLOCK_MIN, DEPTH},
};
use crate::{
    buffer::View,
    error::Result,
    reduce,
    types::{DataType, ReduceOp},
};

/// What stays in the first-level cache while it is combined.
const STRIP: usize = 8 * 1024;
/// What is copied at once.
const PIECE: usize = 2048;
/// Blocks that a part is cut into, so that the steps can overlap.
pub(crate) const BLOCKS_WANTED: usize = 4;

/// How elements become one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Combine {
    pub(crate) dtype: DataType,
    pub(crate) op: ReduceOp,
    /// What the result is multiplied with.
    pub(crate) scale: f64,
}

/// One collective. `parts` are places in the whole data, in bytes; `view` may hold less of it.
pub(crate) struct Panels<'a, 'b> {
    /// What each member owns.
    pub(crate) parts: &'a [Range<usize>],
    /// Without it members bring their own part only, and nothing is combined.
    pub(crate) combine: Option<Combine>,
    /// Whether everybody gets all parts, or only its own.
    pub(crate) gather: bool,
    pub(crate) view: View<'b>,
    /// Where in the whole data the source of the view begins.
    pub(crate) from_base: usize,
    /// Where in the whole data the target of the view begins.
    pub(crate) to_base: usize,
}

impl<'a, 'b> Panels<'a, 'b> {
    /// A collective on all of the data, where everybody has room for all of it.
    pub(crate) fn in_place(
        parts: &'a [Range<usize>],
        combine: Option<Combine>,
        gather: bool,
        data: &'b mut [u8],
    ) -> Self {
        Self { parts, combine, gather, view: View::InPlace(data), from_base: 0, to_base: 0 }
    }
}

impl Panels<'_, '_> {
    fn block_len(&self) -> usize {
        let longest = self.parts.iter().map(Range::len).max().unwrap_or(0);
        longest.div_ceil(BLOCKS_WANTED).next_multiple_of(64).clamp(BLOCK_MIN, BLOCK)
    }

    fn count(&self, block: usize) -> u64 {
        self.parts.iter().map(|part| part.len().div_ceil(block)).max().unwrap_or(0) as u64
    }

    fn block(&self, owner: usize, panel: u64, block: usize) -> Range<usize> {
        let part = &self.parts[owner];
        let begin =
            part.end.min(part.start.saturating_add(usize::try_from(panel).unwrap_or(usize::MAX).saturating_mul(block)));
        begin..part.end.min(begin + block)
    }

    fn from(&self, range: &Range<usize>) -> &[u8] {
        self.view.from(range.start - self.from_base..range.end - self.from_base)
    }

    fn to(&mut self, range: &Range<usize>) -> &mut [u8] {
        self.view.to(range.start - self.to_base..range.end - self.to_base)
    }
}

impl Shm {
    /// Runs a collective over all members of the segment.
    pub(crate) fn run(&mut self, mut work: Panels<'_, '_>) -> Result<()> {
        let block = work.block_len();
        let (first, count) = (self.panel, work.count(block));
        for step in 0..count + 2 {
            if work.combine.is_some() && step < count {
                self.stage(&work, first, step, block)?;
            }
            if let Some(panel) = step.checked_sub(1).filter(|panel| *panel < count) {
                self.reduce(&mut work, first, panel, block)?;
            }
            if let Some(panel) = step.checked_sub(2).filter(|_| work.gather) {
                self.take_results(&mut work, first, panel, block)?;
            }
        }
        // Steps that this collective does not have count as done, so that the next one finds all counters equal.
        self.panel = first + count;
        self.publish(Layout::staged(self.me), self.panel);
        self.publish(Layout::taken(self.me), self.panel);
        Ok(())
    }

    fn stage(&self, work: &Panels<'_, '_>, first: u64, panel: u64, block: usize) -> Result<()> {
        let number = first + panel;
        self.wait(|| self.behind(Layout::reduced, free_since(number)))?;
        for owner in self.peers() {
            let range = work.block(owner, panel, block);
            let to = self.layout.stage(self.me, number, owner);
            copy(self.segment.bytes_mut(to, range.len()), work.from(&range));
        }
        self.publish(Layout::staged(self.me), number + 1);
        Ok(())
    }

    fn reduce(&self, work: &mut Panels<'_, '_>, first: u64, panel: u64, block: usize) -> Result<()> {
        let number = first + panel;
        let range = work.block(self.me, panel, block);
        if work.combine.is_some() {
            self.wait(|| self.behind(Layout::staged, number + 1))?;
        }
        if work.gather && !range.is_empty() {
            self.wait(|| self.behind(Layout::taken, free_since(number)))?;
        }
        let mut begin = range.start;
        while begin < range.end {
            let strip = begin..range.end.min(begin + STRIP);
            self.reduce_strip(work, number, begin - range.start, &strip);
            begin = strip.end;
        }
        self.publish(Layout::reduced(self.me), number + 1);
        Ok(())
    }

    fn reduce_strip(&self, work: &mut Panels<'_, '_>, number: u64, offset: usize, strip: &Range<usize>) {
        let result = work.gather.then(|| self.layout.result(self.me, number) + offset);
        let Some(Combine { dtype, op, scale }) = work.combine else {
            if let Some(result) = result {
                copy(self.segment.bytes_mut(result, strip.len()), work.from(strip));
            }
            work.view.keep(strip.start - work.from_base..strip.end - work.from_base, strip.start - work.to_base);
            return;
        };
        let staged = |peer: usize| self.segment.bytes(self.layout.stage(peer, number, self.me) + offset, strip.len());
        let mut peers = self.peers();
        match result {
            Some(result) => {
                let result = self.segment.bytes_mut(result, strip.len());
                combine_first(peers.next().map(staged), (dtype, op), result, work.from(strip));
                peers.for_each(|peer| reduce::accumulate(dtype, op, result, staged(peer)));
                reduce::scale(dtype, result, scale);
                copy(work.to(strip), result);
            }
            None => {
                work.view.keep(strip.start - work.from_base..strip.end - work.from_base, strip.start - work.to_base);
                let to = work.to(strip);
                peers.for_each(|peer| reduce::accumulate(dtype, op, to, staged(peer)));
                reduce::scale(dtype, to, scale);
            }
        }
    }

    fn take_results(&self, work: &mut Panels<'_, '_>, first: u64, panel: u64, block: usize) -> Result<()> {
        let number = first + panel;
        for owner in self.peers() {
            let range = work.block(owner, panel, block);
            if !range.is_empty() {
                self.wait(|| (self.load(Layout::reduced(owner)) <= number).then_some(owner))?;
                copy(work.to(&range), self.segment.bytes(self.layout.result(owner, number), range.len()));
            }
        }
        self.publish(Layout::taken(self.me), number + 1);
        Ok(())
    }
}

/// Copies in pieces that the C library does with vectors.
///
/// From about 4 KB it would use the processor's own copying, which takes more than twice as long on some processors
/// when both sides have nearly the same place in their pages, as large tensors and our blocks do.
fn copy(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.chunks_mut(PIECE).zip(from.chunks(PIECE)) {
        to.copy_from_slice(from);
    }
}

fn combine_first(peer: Option<&[u8]>, (dtype, op): (DataType, ReduceOp), to: &mut [u8], own: &[u8]) {
    match peer {
        Some(peer) => reduce::combine(dtype, op, to, own, peer),
        None => to.copy_from_slice(own),
    }
}

/// The count that a peer must have reached before a block's place can be used again.
fn free_since(number: u64) -> u64 {
    (number + 1).saturating_sub(DEPTH as u64)
}
