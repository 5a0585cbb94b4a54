//! Collectives that move data and do not compute: allgather, broadcast, alltoall, and the gathering of notes.

use std::{ops::Range, time::Instant};

use super::{Team, even_parts, two_parts};
use crate::{
    codec::{Reader, Writer},
    error::{Error, Result},
    wire::{Letter, Message},
};

/// From here a broadcast is cheaper as a scatter and an allgather than along a tree.
pub(crate) const SCATTER_MIN: usize = 64 * 1024;

impl Team<'_> {
    /// Gives all parts to everybody; ours is in its place already.
    ///
    /// A ring: P - 1 steps, S (P - 1) / P bytes sent by each.
    pub(crate) fn allgather(&self, parts: &[Range<usize>], data: &mut [u8]) -> Result<()> {
        for step in 0..self.size() - 1 {
            let (out, into) = two_parts(data, &parts[self.before(step)], &parts[self.before(step + 1)]);
            self.shift(self.after(1), out, self.before(1), into)?;
        }
        Ok(())
    }

    /// Gives the root's data to everybody.
    ///
    /// Small: a binomial tree, log2 P steps of S bytes. Large: scatter and allgather, P steps, 2 S bytes at the root.
    pub(crate) fn broadcast(&self, root: usize, data: &mut [u8]) -> Result<()> {
        if self.size() > 2 && data.len() >= SCATTER_MIN {
            let parts = even_parts(data.len(), self.size(), 1);
            self.scatter(root, &parts, data)?;
            self.allgather(&parts, data)
        } else {
            self.broadcast_tree(root, data)
        }
    }

    fn scatter(&self, root: usize, parts: &[Range<usize>], data: &mut [u8]) -> Result<()> {
        if self.me == root {
            let peers = (1..self.size()).map(|distance| self.after(distance));
            self.wire.exchange(peers.map(|peer| self.send(peer, &data[parts[peer].clone()])).collect())
        } else {
            self.wire.exchange(vec![self.receive(root, &mut data[parts[self.me].clone()])])
        }
    }

    fn broadcast_tree(&self, root: usize, data: &mut [u8]) -> Result<()> {
        let place = (self.me + self.size() - root) % self.size();
        let member = |place: usize| (place + root) % self.size();
        // Our parent is our place without its lowest bit; our children have one of the bits below that.
        let lowest = if place == 0 { self.size().next_power_of_two() } else { place & place.wrapping_neg() };
        if place != 0 {
            self.wire.exchange(vec![self.receive(member(place - lowest), data)])?;
        }
        let bits = std::iter::successors(Some(lowest / 2), |bit| Some(bit / 2)).take_while(|bit| *bit > 0);
        let children = bits.map(|bit| place + bit).filter(|child| *child < self.size());
        self.wire.exchange(children.map(|child| self.send(member(child), data)).collect())
    }

    /// Gives each member its part of everybody's data.
    ///
    /// Pairwise: P - 1 steps, S (P - 1) / P bytes sent by each.
    pub(crate) fn alltoall(
        &self,
        (from_parts, from): (&[Range<usize>], &[u8]),
        (to_parts, to): (&[Range<usize>], &mut [u8]),
    ) -> Result<()> {
        to[to_parts[self.me].clone()].copy_from_slice(&from[from_parts[self.me].clone()]);
        for distance in 1..self.size() {
            let (next, last) = (self.after(distance), self.before(distance));
            self.shift(next, &from[from_parts[next].clone()], last, &mut to[to_parts[last].clone()])?;
        }
        Ok(())
    }

    /// Gathers a note of any length from everybody.
    pub(crate) fn gather_notes(&self, note: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut gathering = Gathering::with_own(note.to_vec());
        self.go_on(&mut gathering, None)?;
        Ok(self.in_order(gathering))
    }

    /// Goes on with a gathering until it is complete, or the time is over; tells which.
    ///
    /// Dissemination: log2 P steps, the sum of all notes received by each.
    pub(crate) fn go_on(&self, gathering: &mut Gathering, deadline: Option<Instant>) -> Result<bool> {
        while let Some((to, from)) = self.partners(gathering) {
            let distance = gathering.known.len();
            let (out, into) = gathering.letters.get_or_insert_with(|| {
                let passed = &gathering.known[..distance.min(self.size() - distance)];
                (Letter::written(|bytes| write_notes(bytes, passed)), Letter::awaited())
            });
            let messages = vec![Message::Post { to, letter: out }, Message::Collect { from, letter: into }];
            if !self.wire.exchange_until(deadline, messages)? {
                return Ok(false);
            }
            let mut reader = Reader(into.text());
            gathering.known.extend(std::iter::from_fn(|| reader.bytes().map(<[u8]>::to_vec)));
            if gathering.known.len() != self.size().min(2 * distance) {
                return Err(Error::Bootstrap("a member sent a malformed message".to_owned()));
            }
            gathering.letters = None;
        }
        Ok(true)
    }

    /// To whom and from whom the next letters of a gathering go; none if it is complete.
    fn partners(&self, gathering: &Gathering) -> Option<(usize, usize)> {
        let distance = Some(gathering.known.len()).filter(|known| *known < self.size())?;
        Some((self.members[self.after(distance)], self.members[self.before(distance)]))
    }

    /// The member that a gathering waits for.
    pub(crate) fn awaited(&self, gathering: &Gathering) -> Option<usize> {
        let is_waiting = gathering.letters.as_ref().is_some_and(|(_, into)| !into.has_arrived());
        self.partners(gathering).filter(|_| is_waiting).map(|(_, from)| from)
    }

    /// The notes of a complete gathering, by member.
    pub(crate) fn in_order(&self, mut gathering: Gathering) -> Vec<Vec<u8>> {
        let distance_to = |member: usize| (self.me + self.size() - member) % self.size();
        (0..self.size()).map(|member| std::mem::take(&mut gathering.known[distance_to(member)])).collect()
    }
}

/// Notes of everybody in the making; it can be left and taken up again.
#[derive(Debug, Default)]
pub(crate) struct Gathering {
    /// Our own, and those of the members before us; as many as the distance to the next partners.
    known: Vec<Vec<u8>>,
    /// What we send and receive in this step.
    letters: Option<(Letter, Letter)>,
}

impl Gathering {
    pub(crate) fn with_own(note: Vec<u8>) -> Self {
        Self { known: vec![note], letters: None }
    }
}

fn write_notes(bytes: &mut Vec<u8>, notes: &[Vec<u8>]) {
    let mut writer = Writer(std::mem::take(bytes));
    notes.iter().for_each(|note| {
        writer.bytes(note);
    });
    *bytes = writer.0;
}
