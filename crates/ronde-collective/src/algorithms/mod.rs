//! Collectives over the wire, for the members of a team. Each says its cost for P members and S bytes.
//!
//! They work in place on one slice of bytes and know nothing of names, shapes or negotiation. A team may be a part
//! of a group: that is how the hierarchical allreduce uses them.

mod allreduce;
mod exchange;
mod hierarchical;

use std::ops::Range;

use crate::{
    error::Result,
    wire::{Message, Wire},
};

pub(crate) use self::allreduce::{DOUBLING_MAX, HALVING_MAX};
pub(crate) use self::exchange::{Gathering, SCATTER_MIN};
pub(crate) use self::hierarchical::{Topology, allreduce as allreduce_hierarchical};

/// Members that work together, by their numbers in the wire.
pub(crate) struct Team<'a> {
    pub(crate) wire: &'a Wire,
    pub(crate) members: &'a [usize],
    pub(crate) me: usize,
}

impl Team<'_> {
    fn size(&self) -> usize {
        self.members.len()
    }

    /// The member so many places after us.
    fn after(&self, distance: usize) -> usize {
        (self.me + distance) % self.size()
    }

    /// The member so many places before us.
    fn before(&self, distance: usize) -> usize {
        (self.me + self.size() - distance % self.size()) % self.size()
    }

    fn send<'b>(&self, to: usize, bytes: &'b [u8]) -> Message<'b> {
        Message::Send { to: self.members[to], bytes }
    }

    fn receive<'b>(&self, from: usize, bytes: &'b mut [u8]) -> Message<'b> {
        Message::Receive { from: self.members[from], bytes }
    }

    /// Sends to one and receives from another at once.
    fn shift(&self, to: usize, out: &[u8], from: usize, into: &mut [u8]) -> Result<()> {
        self.wire.exchange(vec![self.send(to, out), self.receive(from, into)])
    }
}

/// Cuts elements evenly; the first parts take what is left over.
pub(crate) fn even_parts(elements: usize, members: usize, element: usize) -> Vec<Range<usize>> {
    let (each, more) = (elements / members, elements % members);
    let begin = |part: usize| (part * each + part.min(more)) * element;
    (0..members).map(|part| begin(part)..begin(part + 1)).collect()
}

/// Returns two parts of a slice that do not overlap, the first to read and the second to write.
fn two_parts<'a>(data: &'a mut [u8], read: &Range<usize>, write: &Range<usize>) -> (&'a [u8], &'a mut [u8]) {
    if read.end <= write.start {
        let (low, high) = data.split_at_mut(write.start);
        (&low[read.clone()], &mut high[..write.len()])
    } else {
        let (low, high) = data.split_at_mut(read.start);
        (&high[..read.len()], &mut low[write.clone()])
    }
}

#[cfg(test)]
mod tests {
    use super::{even_parts, two_parts};

    #[test]
    fn parts_are_even_and_the_first_take_the_rest() {
        assert_eq!(even_parts(7, 3, 4), [0..12, 12..20, 20..28]);
        assert_eq!(even_parts(1, 3, 2), [0..2, 2..2, 2..2]);
    }

    #[test]
    fn two_parts_come_in_either_order() {
        let mut data = [0, 1, 2, 3, 4, 5];
        let (read, write) = two_parts(&mut data, &(0..2), &(2..3));
        assert_eq!((read, &*write), (&[0, 1][..], &[2][..]));
        let (read, write) = two_parts(&mut data, &(4..6), &(1..3));
        assert_eq!((read, &*write), (&[4, 5][..], &[1, 2][..]));
        let (read, write) = two_parts(&mut data, &(3..3), &(3..6));
        assert_eq!((read, &*write), (&[][..], &[3, 4, 5][..]));
    }
}
