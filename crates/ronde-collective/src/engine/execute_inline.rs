//! Results of small operations, made by each rank from everybody's data. Pure.
//!
//! The same bits on all ranks: everybody combines in the order of the members. It is also the plainest description
//! of what the operations mean.

use super::work::{Done, Output, Tensor};
use crate::{
    algorithms::even_parts,
    buffer::Buffer,
    error::{Error, Result},
    negotiate::{
        Decision, Response,
        request::{Kind, Request, Spec},
    },
    reduce,
    types::{DataType, ReduceOp},
};

/// Makes the result of one operation; `data` loses what belongs to it.
pub(super) fn execute_inline(
    response: &Response,
    me: usize,
    tensors: Vec<Tensor>,
    data: &mut [&[u8]],
) -> Result<Result<Done>> {
    let requests: Vec<&Request> = response.agreed.iter().flatten().map(AsRef::as_ref).collect();
    let parts = split_off(&requests, data)?;
    if let Decision::Refused(text) = &response.decision {
        return Ok(Err(Error::Mismatch(text.clone())));
    }
    let mut done = Done::default();
    for (index, tensor) in tensors.into_iter().enumerate() {
        let of_all: Vec<&[u8]> = parts.iter().map(|tensors| tensors[index]).collect();
        let specs: Vec<&Spec> = requests.iter().map(|request| &request.tensors[index]).collect();
        done.tensors.push(match response.kind {
            Kind::Allreduce => allreduce(requests[me], tensor, &of_all),
            Kind::Broadcast => broadcast(response, requests[me], tensor, &of_all),
            Kind::Allgather => allgather(tensor, &specs, &of_all),
            Kind::Reducescatter => reducescatter(requests[me], me, &tensor, &of_all),
            _ => alltoall(&requests, me, &tensor, &of_all),
        });
    }
    if response.kind == Kind::Alltoall {
        done.received_splits = requests.iter().map(|request| request.splits[me]).collect();
    }
    Ok(Ok(done))
}

/// Takes each member's tensors of this operation from the front of its data.
fn split_off<'a>(requests: &[&Request], data: &mut [&'a [u8]]) -> Result<Vec<Vec<&'a [u8]>>> {
    let mut parts = Vec::with_capacity(requests.len());
    for (request, data) in requests.iter().zip(data) {
        let mut tensors = Vec::with_capacity(request.tensors.len());
        for spec in &request.tensors {
            let (first, rest) = data
                .split_at_checked(spec.bytes())
                .ok_or_else(|| Error::Bootstrap("a rank sent less data than announced".to_owned()))?;
            *data = rest;
            tensors.push(first);
        }
        parts.push(tensors);
    }
    Ok(parts)
}

/// The factor after a reduction; an average is a sum with a smaller one.
pub(super) fn postscale(request: &Request, members: usize) -> f64 {
    if request.op == ReduceOp::Average { request.postscale / members as f64 } else { request.postscale }
}

/// Where the result of an operation that keeps the size goes.
pub(super) fn into_output(tensor: Tensor) -> Output {
    let Tensor { dtype, shape, input, output } = tensor;
    Output { dtype, shape, buffer: output.unwrap_or(input) }
}

fn allreduce(request: &Request, tensor: Tensor, of_all: &[&[u8]]) -> Output {
    let mut output = into_output(tensor);
    combine_all(request, output.dtype, of_all, output.buffer.as_mut_slice());
    output
}

#[expect(clippy::float_cmp, reason = "exactly one means that nobody asked for it")]
fn combine_all(request: &Request, dtype: DataType, of_all: &[&[u8]], to: &mut [u8]) {
    match of_all {
        [first, second, rest @ ..] if request.prescale == 1.0 => {
            reduce::combine(dtype, request.op, to, first, second);
            rest.iter().for_each(|other| reduce::accumulate(dtype, request.op, to, other));
        }
        [first, rest @ ..] => {
            to.copy_from_slice(first);
            reduce::scale(dtype, to, request.prescale);
            for other in rest {
                let mut other = other.to_vec();
                reduce::scale(dtype, &mut other, request.prescale);
                reduce::accumulate(dtype, request.op, to, &other);
            }
        }
        [] => {}
    }
    reduce::scale(dtype, to, postscale(request, of_all.len()));
}

fn broadcast(response: &Response, request: &Request, tensor: Tensor, of_all: &[&[u8]]) -> Output {
    let root = response.root_member(request);
    let mut output = into_output(tensor);
    output.buffer.as_mut_slice().copy_from_slice(of_all[root]);
    output
}

fn allgather(tensor: Tensor, specs: &[&Spec], of_all: &[&[u8]]) -> Output {
    let rows = specs.iter().map(|spec| spec.shape.0[0]).sum();
    Output { dtype: tensor.dtype, shape: tensor.shape.with_rows(rows), buffer: of_all.concat().into() }
}

fn reducescatter(request: &Request, me: usize, tensor: &Tensor, of_all: &[&[u8]]) -> Output {
    let row = tensor.shape.row() * tensor.dtype.size();
    let own = even_parts(tensor.shape.0[0], of_all.len(), row)[me].clone();
    let of_all: Vec<&[u8]> = of_all.iter().map(|data| &data[own.clone()]).collect();
    let mut buffer = Buffer::zeroed(own.len());
    combine_all(request, tensor.dtype, &of_all, buffer.as_mut_slice());
    let rows = even_parts(tensor.shape.0[0], of_all.len(), 1)[me].len();
    Output { dtype: tensor.dtype, shape: tensor.shape.with_rows(rows), buffer }
}

fn alltoall(requests: &[&Request], me: usize, tensor: &Tensor, of_all: &[&[u8]]) -> Output {
    let row = tensor.shape.row() * tensor.dtype.size();
    let mut bytes = Vec::new();
    for (request, data) in requests.iter().zip(of_all) {
        let before: usize = request.splits[..me].iter().sum();
        bytes.extend_from_slice(&data[before * row..(before + request.splits[me]) * row]);
    }
    let rows = requests.iter().map(|request| request.splits[me]).sum();
    Output { dtype: tensor.dtype, shape: tensor.shape.with_rows(rows), buffer: bytes.into() }
}
