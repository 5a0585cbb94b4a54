//! Allreduce and reduce-scatter over the wire.
//!
//! Which algorithm: doubling has the fewest steps, halving and doubling few steps and the fewest bytes but needs a
//! power of two, the ring the fewest bytes for any number and neighbours only.

use std::ops::Range;

use super::{Team, even_parts, two_parts};
use crate::{error::Result, reduce, shm::panels::Combine, wire::Message};

/// Up to here the number of steps counts, and everybody exchanges everything.
pub(crate) const DOUBLING_MAX: usize = 16 * 1024;
/// Up to here halving wins over the ring, which has more steps; above, the ring's steady streams do.
pub(crate) const HALVING_MAX: usize = 1024 * 1024;

impl Team<'_> {
    /// Combines everybody's data; everybody has the result. The scale is left to the caller.
    pub(crate) fn allreduce(&self, combine: Combine, data: &mut [u8]) -> Result<()> {
        let is_power = self.size().is_power_of_two();
        if data.is_empty() || self.size() == 1 {
            Ok(())
        } else if data.len() <= DOUBLING_MAX {
            self.doubling(combine, data)
        } else if data.len() <= HALVING_MAX && is_power {
            self.halving_and_doubling(combine, data)
        } else {
            let parts = even_parts(data.len() / combine.dtype.size(), self.size(), combine.dtype.size());
            self.reduce_scatter(combine, &parts, data)?;
            self.allgather(&parts, data)
        }
    }

    /// Combines everybody's data; each has the result in its own part, and the rest is spoilt.
    ///
    /// A ring: P - 1 steps, S (P - 1) / P bytes sent by each.
    pub(crate) fn reduce_scatter(&self, combine: Combine, parts: &[Range<usize>], data: &mut [u8]) -> Result<()> {
        for step in 1..self.size() {
            let (out, into) = two_parts(data, &parts[self.before(step)], &parts[self.before(step + 1)]);
            self.shift_and_combine(combine, (self.after(1), out), (self.before(1), into))?;
        }
        Ok(())
    }

    /// Sends to one, and combines what is there with what another sends, as it comes.
    fn shift_and_combine(
        &self,
        how: Combine,
        (to, out): (usize, &[u8]),
        (from, into): (usize, &mut [u8]),
    ) -> Result<()> {
        let received = Message::Combine { from: self.members[from], bytes: into, how };
        self.wire.exchange(vec![self.send(to, out), received])
    }

    /// Everybody exchanges everything with a partner twice as far away in each step.
    ///
    /// log2 P steps of S bytes, and two more for members beyond a power of two.
    fn doubling(&self, combine: Combine, data: &mut [u8]) -> Result<()> {
        let Combine { dtype, op, .. } = combine;
        let power = self.size().next_power_of_two() >> usize::from(!self.size().is_power_of_two());
        let (mut received, mut sum) = (vec![0; data.len()], vec![0; data.len()]);
        if self.me >= power {
            self.wire.exchange(vec![self.send(self.me - power, data)])?;
            return self.wire.exchange(vec![self.receive(self.me - power, data)]);
        }
        let extra = Some(self.me + power).filter(|extra| *extra < self.size());
        if let Some(extra) = extra {
            self.wire.exchange(vec![self.receive(extra, &mut received)])?;
            reduce::accumulate(dtype, op, data, &received);
        }
        for distance in distances(power) {
            let partner = self.me ^ distance;
            self.shift(partner, data, partner, &mut received)?;
            // The lower one's data is the first operand on both sides, so that both get the same bits.
            let (first, second) = if partner < self.me { (&received[..], &*data) } else { (&*data, &received[..]) };
            reduce::combine(dtype, op, &mut sum, first, second);
            data.copy_from_slice(&sum);
        }
        extra.map_or(Ok(()), |extra| self.wire.exchange(vec![self.send(extra, data)]))
    }

    /// Partners exchange halves, then halves of halves; and back. For powers of two.
    ///
    /// 2 log2 P steps, 2 S (P - 1) / P bytes sent by each.
    fn halving_and_doubling(&self, combine: Combine, data: &mut [u8]) -> Result<()> {
        let element = combine.dtype.size();
        let bytes = |range: &Range<usize>| range.start * element..range.end * element;
        let mut own = 0..data.len() / element;
        let mut trail = Vec::new();
        for distance in distances(self.size()) {
            let partner = self.me ^ distance;
            let middle = own.start.midpoint(own.end);
            let (low, high) = (own.start..middle, middle..own.end);
            let (kept, given) = if self.me < partner { (low, high) } else { (high, low) };
            let (out, into) = two_parts(data, &bytes(&given), &bytes(&kept));
            self.shift_and_combine(combine, (partner, out), (partner, into))?;
            trail.push((partner, kept.clone(), given));
            own = kept;
        }
        for (partner, kept, given) in trail.into_iter().rev() {
            let (out, into) = two_parts(data, &bytes(&kept), &bytes(&given));
            self.shift(partner, out, partner, into)?;
        }
        Ok(())
    }
}

/// 1, 2, 4, … below a power of two.
fn distances(power: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(1), |distance| Some(distance * 2)).take_while(move |distance| *distance < power)
}
