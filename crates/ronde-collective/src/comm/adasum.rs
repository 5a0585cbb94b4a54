//! Adasum: a sum that takes from two gradients what they have in common only once.
//!
//! For a and b it is a (1 - a·b / 2|a|²) + b (1 - a·b / 2|b|²), applied along a tree over the members, any number of
//! them. Everybody holds one part of everybody's vectors, so a level of the tree costs one small allreduce of dot
//! products; the vectors travel twice, 2 S (P - 1) / P bytes sent by each.

use super::Comm;
use crate::{
    algorithms::even_parts,
    error::Result,
    reduce,
    shm::panels::Combine,
    types::{DataType, ReduceOp},
};

/// A vector shorter than this, squared, has no direction.
const NOTHING: f64 = 1.491_668_146_240_041_3e-154;

impl Comm {
    /// Replaces the vector by that of all members.
    pub(crate) fn adasum(&mut self, dtype: DataType, data: &mut [u8]) -> Result<()> {
        if self.size() == 1 {
            return Ok(());
        }
        let parts = even_parts(data.len() / dtype.size(), self.size(), dtype.size());
        let own = parts[self.me].len();
        let places = even_parts(self.size(), self.size(), own);
        let mut columns = vec![0; own * self.size()];
        self.alltoall((&parts, data), (&places, &mut columns))?;
        let mut vectors: Vec<Vec<f64>> =
            places.iter().map(|place| reduce::to_f64(dtype, &columns[place.clone()])).collect();
        while vectors.len() > 1 {
            let products = self.products(&vectors)?;
            vectors = vectors.chunks(2).zip(products.chunks(3)).map(|(pair, products)| join(pair, products)).collect();
        }
        let mut result = vec![0; own];
        reduce::from_f64(dtype, &vectors[0], &mut result);
        self.allgather(&parts, &result, data)
    }

    /// a·b, |a|² and |b|² of each pair, over all parts.
    fn products(&mut self, vectors: &[Vec<f64>]) -> Result<Vec<f64>> {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let of_pair = |pair: &[Vec<f64>]| match pair {
            [a, b] => [dot(a, b), dot(a, a), dot(b, b)],
            _ => [0.0; 3],
        };
        let own: Vec<u8> = vectors.chunks(2).flat_map(of_pair).flat_map(f64::to_ne_bytes).collect();
        let mut all = own;
        let combine = Combine { dtype: DataType::F64, op: ReduceOp::Sum, scale: 1.0 };
        let len = all.len();
        self.allreduce(combine, crate::buffer::View::InPlace(&mut all), len)?;
        Ok(reduce::to_f64(DataType::F64, &all))
    }
}

fn join(pair: &[Vec<f64>], products: &[f64]) -> Vec<f64> {
    let ([a, b], [dot, a_squared, b_squared]) = (pair, products) else { return pair[0].clone() };
    let factor = |squared: f64| if squared < NOTHING { 1.0 } else { 1.0 - dot / (2.0 * squared) };
    let (of_a, of_b) = (factor(*a_squared), factor(*b_squared));
    a.iter().zip(b).map(|(a, b)| a * of_a + b * of_b).collect()
}
