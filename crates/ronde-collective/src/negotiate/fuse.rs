//! Fusion: small reductions of one kind become one large one. Pure.
//!
//! What is in one list has been asked for by all ranks, so it may be done in any order. Large tensors gain nothing
//! from it and would be copied twice for nothing: they go alone.

use std::sync::Arc;

use super::{Decision, Response, request::Kind};
use crate::types::{DataType, ReduceOp};

/// Reductions that are done as one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Batch(pub(crate) Vec<Response>);

/// How much is put together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Bytes of a batch.
    pub(crate) threshold: usize,
    /// Bytes of a tensor that goes alone.
    pub(crate) alone: usize,
    /// Bytes of a batch on a device.
    pub(crate) device_threshold: usize,
}

/// Bytes of a tensor that goes alone on a device, whose own memory is many times as quick as a link: copies cost little.
const ALONE_ON_DEVICE: usize = 16 << 20;

impl Limits {
    fn threshold(&self, is_on_device: bool) -> usize {
        if is_on_device { self.device_threshold } else { self.threshold }
    }
}

/// What must be equal in a batch.
#[derive(Debug, Clone, PartialEq)]
struct Key {
    device: Option<Arc<str>>,
    dtype: DataType,
    op: ReduceOp,
    prescale: u64,
    postscale: u64,
}

/// Puts responses together, in the order of the first of each batch.
pub(crate) fn fuse(responses: Vec<Response>, limits: Limits) -> Vec<Batch> {
    let mut batches: Vec<(Option<Key>, usize, Batch)> = Vec::new();
    for response in responses {
        let (key, bytes) = key(&response, limits).unzip();
        let bytes = bytes.unwrap_or(0);
        let threshold = limits.threshold(response.request().is_some_and(|request| request.device.is_some()));
        let has_room = |(other, filled, _): &&mut (Option<Key>, usize, Batch)| {
            key.is_some() && *other == key && *filled + bytes <= threshold
        };
        match batches.iter_mut().find(has_room) {
            Some((_, filled, batch)) => {
                *filled += bytes;
                batch.0.push(response);
            }
            None => batches.push((key, bytes, Batch(vec![response]))),
        }
    }
    batches.into_iter().map(|(_, _, batch)| batch).collect()
}

fn key(response: &Response, limits: Limits) -> Option<(Key, usize)> {
    let request = response.agreed.iter().flatten().next()?;
    let dtype = request.tensors.first()?.dtype;
    let bytes = request.bytes();
    let is_one_type = request.tensors.iter().all(|spec| spec.dtype == dtype);
    let can_fuse =
        response.kind == Kind::Allreduce && response.decision == Decision::Go && request.op != ReduceOp::Adasum;
    let is_elsewhere = request.device.is_some();
    let alone = if is_elsewhere { ALONE_ON_DEVICE } else { limits.alone };
    let is_small = bytes <= alone && bytes <= limits.threshold(is_elsewhere);
    let key = || Key {
        device: request.device.clone(),
        dtype,
        op: request.op,
        prescale: request.prescale.to_bits(),
        postscale: request.postscale.to_bits(),
    };
    (can_fuse && is_one_type && is_small).then(|| (key(), bytes))
}
