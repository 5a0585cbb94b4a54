//! Collectives that move data and do not compute: allgather, broadcast, alltoall, and the gathering of notes.

use std::ops::Range;

use super::{Team, even_parts, two_parts};
use crate::{
    codec::{Reader, Writer},
    error::{Error, Result},
    wire::Tick,
};

/// From here a broadcast is cheaper as a scatter and an allgather than along a tree.
const SCATTER_MIN: usize = 64 * 1024;
/// What of a note travels together with its length.
const NOTE_HEAD: usize = 512;

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
    ///
    /// Dissemination: log2 P steps, the sum of all notes received by each.
    pub(crate) fn gather_notes(&self, note: &[u8], tick: &mut Tick<'_>) -> Result<Vec<Vec<u8>>> {
        // Known so far: our own, and those of the members before us.
        let mut known: Vec<Vec<u8>> = vec![note.to_vec()];
        let mut distance = 1;
        while distance < self.size() {
            let mut out = Writer::default();
            let passed = &known[..distance.min(self.size() - distance)];
            passed.iter().for_each(|note| {
                out.bytes(note);
            });
            let into = self.shift_note(&out.0, distance, tick)?;
            let mut reader = Reader(&into);
            while let Some(note) = reader.bytes() {
                known.push(note.to_vec());
            }
            distance *= 2;
        }
        if known.len() != self.size() {
            return Err(Error::Bootstrap("a member's note makes no sense".to_owned()));
        }
        Ok((0..self.size()).map(|member| std::mem::take(&mut known[self.distance_to(member)])).collect())
    }

    fn distance_to(&self, member: usize) -> usize {
        (self.me + self.size() - member) % self.size()
    }

    fn shift_note(&self, out: &[u8], distance: usize, tick: &mut Tick<'_>) -> Result<Vec<u8>> {
        let (to, from) = (self.after(distance), self.before(distance));
        let mut head = [0; NOTE_HEAD];
        let with_head = out.len().min(NOTE_HEAD - 8);
        head[..8].copy_from_slice(&(out.len() as u64).to_le_bytes());
        head[8..8 + with_head].copy_from_slice(&out[..with_head]);
        let mut answer = [0; NOTE_HEAD];
        self.wire.exchange_with(vec![self.send(to, &head), self.receive(from, &mut answer)], tick)?;
        let mut len = [0; 8];
        len.copy_from_slice(&answer[..8]);
        let len = usize::try_from(u64::from_le_bytes(len)).unwrap_or(0);
        let mut into = vec![0; len];
        let received = len.min(NOTE_HEAD - 8);
        into[..received].copy_from_slice(&answer[8..8 + received]);
        self.shift(to, &out[with_head..], from, &mut into[received..])?;
        Ok(into)
    }
}
