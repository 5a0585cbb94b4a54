//! The collectives of a group: shared memory where everybody is on one host, else the wire.

use std::ops::Range;

use super::Comm;
use crate::{
    algorithms::{Team, allreduce_hierarchical, even_parts},
    buffer::View,
    error::Result,
    reduce,
    shm::panels::{Combine, Panels},
};

impl Comm {
    pub(super) fn team(&self) -> Team<'_> {
        Team { wire: &self.wire, members: &self.everybody, me: self.me }
    }

    /// Runs a collective in the segment, if all members are in it.
    fn run_in_memory(&mut self, work: Panels<'_, '_>) -> Option<Result<()>> {
        let is_here = self.topology.is_one_host();
        self.wire.shm.as_mut().filter(|_| is_here).map(|shm| shm.run(work))
    }

    /// Everybody gets the combination of all.
    pub(crate) fn allreduce(&mut self, combine: Combine, mut view: View<'_>, len: usize) -> Result<()> {
        let parts = even_parts(len / combine.dtype.size(), self.size(), combine.dtype.size());
        let work = Panels {
            parts: &parts,
            combine: Some(combine),
            gather: true,
            view: view.reborrow(),
            from_base: 0,
            to_base: 0,
        };
        if let Some(done) = self.run_in_memory(work) {
            return done;
        }
        view.keep(0..len, 0);
        let data = view.to(0..len);
        if self.topology.has_neighbours() && self.size() > 1 {
            return allreduce_hierarchical(&mut self.wire, &self.topology, self.me, combine, data);
        }
        self.team().allreduce(combine, data)?;
        reduce::scale(combine.dtype, data, combine.scale);
        Ok(())
    }

    /// Everybody gets its part of the combination of all.
    pub(crate) fn reduce_scatter(
        &mut self,
        combine: Combine,
        parts: &[Range<usize>],
        from: &[u8],
        to: &mut [u8],
    ) -> Result<()> {
        let own = parts[self.me].clone();
        let view = View::Apart { from, to };
        let work = Panels { parts, combine: Some(combine), gather: false, view, from_base: 0, to_base: own.start };
        if let Some(done) = self.run_in_memory(work) {
            return done;
        }
        let mut data = from.to_vec();
        self.team().reduce_scatter(combine, parts, &mut data)?;
        reduce::scale(combine.dtype, &mut data[own.clone()], combine.scale);
        to.copy_from_slice(&data[own]);
        Ok(())
    }

    /// Everybody gets the parts of all, one after the other.
    pub(crate) fn allgather(&mut self, parts: &[Range<usize>], from: &[u8], to: &mut [u8]) -> Result<()> {
        let own = parts[self.me].clone();
        let view = View::Apart { from, to };
        let work = Panels { parts, combine: None, gather: true, view, from_base: own.start, to_base: 0 };
        if let Some(done) = self.run_in_memory(work) {
            return done;
        }
        to[own].copy_from_slice(from);
        self.team().allgather(parts, to)
    }

    /// Everybody gets the data of one.
    pub(crate) fn broadcast(&mut self, root: usize, data: &mut [u8]) -> Result<()> {
        let len = data.len();
        let parts: Vec<Range<usize>> =
            (0..self.size()).map(|member| if member == root { 0..len } else { len..len }).collect();
        match self.run_in_memory(Panels::in_place(&parts, None, true, data)) {
            Some(done) => done,
            None => self.team().broadcast(root, data),
        }
    }

    /// Everybody gets from everybody the part that is meant for it.
    pub(crate) fn alltoall(&self, from: (&[Range<usize>], &[u8]), to: (&[Range<usize>], &mut [u8])) -> Result<()> {
        self.team().alltoall(from, to)
    }

    /// Everybody gets a note from everybody.
    pub(crate) fn gather_notes(&self, note: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.team().gather_notes(note)
    }
}
