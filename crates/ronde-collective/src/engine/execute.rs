//! Doing what was agreed, with the collectives of the group.
//!
//! A result or a refusal belongs to one operation; an error here means that the group has failed.

use std::{ops::Range, sync::Arc};

use super::{
    execute_inline::{into_output, postscale},
    sets::Registry,
    work::{Done, Output, Tensor},
};
use crate::{
    algorithms::even_parts,
    buffer::{Buffer, View},
    comm::Comm,
    error::{Error, Result},
    negotiate::{
        Decision, Response,
        request::{Kind, Request, Spec},
    },
    reduce,
    shm::panels::Combine,
    timeline::Timeline,
    types::ReduceOp,
};

/// Results of the operations of a batch, in its order.
type Results = Vec<Result<Done>>;

/// Parts of an operation, as a timeline shows them.
const COPY_IN: &str = "MEMCPY_IN_FUSION_BUFFER";
const COPY_OUT: &str = "MEMCPY_OUT_FUSION_BUFFER";

/// Does operations; keeps the memory in which small tensors are put together.
#[derive(Debug, Default)]
pub(super) struct Executor {
    fusion: Vec<u8>,
    /// Process sets are made and removed by the group of all ranks alone.
    registry: Option<Arc<Registry>>,
}

impl Executor {
    /// For the group of all ranks.
    pub(super) fn with_registry(registry: Arc<Registry>) -> Self {
        Self { fusion: Vec::new(), registry: Some(registry) }
    }

    /// Does a batch. A rank that has joined has no tensors, and brings what changes nothing.
    pub(super) fn execute(
        &mut self,
        (comm, timeline): (&mut Comm, &Timeline),
        responses: &[Response],
        tensors: Vec<Option<Vec<Tensor>>>,
    ) -> Result<Results> {
        let is_group = responses.first().is_some_and(|response| response.specs().len() > 1);
        match responses {
            [response] if !(is_group && Self::is_fusable(response)) => {
                let tensors = tensors.into_iter().next().flatten();
                timeline.activity_begins(responses, &moving(response));
                let done = self.execute_one(comm, response, tensors)?;
                timeline.activity_ends(responses);
                Ok(vec![done])
            }
            _ => self.execute_fused((comm, timeline), responses, tensors),
        }
    }

    fn is_fusable(response: &Response) -> bool {
        let specs = response.specs();
        let is_one_type = specs.iter().all(|spec| spec.dtype == specs[0].dtype);
        let is_sum = response.request().is_some_and(|request| request.op != ReduceOp::Adasum);
        let bytes: usize = specs.iter().map(Spec::bytes).sum();
        response.kind == Kind::Allreduce
            && response.decision == Decision::Go
            && is_one_type
            && is_sum
            && bytes < GROUP_MAX
    }

    /// Copies tensors one after the other, reduces them as one, and copies them back.
    fn execute_fused(
        &mut self,
        (comm, timeline): (&mut Comm, &Timeline),
        responses: &[Response],
        mut tensors: Vec<Option<Vec<Tensor>>>,
    ) -> Result<Results> {
        let Some((first, request)) = responses.first().and_then(|first| Some((first, first.request()?))) else {
            return Ok(Vec::new());
        };
        let dtype = request.tensors[0].dtype;
        let len = responses.iter().flat_map(Response::specs).map(Spec::bytes).sum();
        timeline.activity_begins(responses, COPY_IN);
        self.fusion.resize(len, 0);
        let mut at = 0;
        for (response, tensors) in responses.iter().zip(&tensors) {
            let bytes: usize = response.specs().iter().map(Spec::bytes).sum();
            let place = &mut self.fusion[at..at + bytes];
            match tensors {
                Some(tensors) => copy_together(tensors, place),
                None => reduce::fill_neutral(dtype, request.op, place),
            }
            at += bytes;
        }
        reduce::scale(dtype, &mut self.fusion, request.prescale);
        timeline.activity_ends(responses);
        timeline.activity_begins(responses, &moving(first));
        let combine = Combine { dtype, op: request.op, scale: postscale(request, comm.size()) };
        comm.allreduce(combine, View::InPlace(&mut self.fusion), len)?;
        timeline.activity_ends(responses);
        timeline.activity_begins(responses, COPY_OUT);
        let mut rest = self.fusion.as_slice();
        let results = responses.iter().zip(&mut tensors).map(|(response, tensors)| {
            let (own, others) = rest.split_at(response.specs().iter().map(Spec::bytes).sum());
            rest = others;
            Ok(Done { tensors: copy_apart(tensors.take().unwrap_or_default(), own), ..Done::default() })
        });
        let results = results.collect();
        timeline.activity_ends(responses);
        Ok(results)
    }

    fn execute_one(&self, comm: &mut Comm, response: &Response, tensors: Option<Vec<Tensor>>) -> Result<Result<Done>> {
        let request = match (&response.decision, response.request()) {
            (Decision::Refused(text), _) => return Ok(Err(Error::Mismatch(text.clone()))),
            (Decision::AllJoined(rank), _) => return Ok(Ok(Done { last_joined: Some(*rank), ..Done::default() })),
            (Decision::Go, Some(request)) => request,
            (Decision::Go, None) => return Ok(Ok(Done::default())),
        };
        match response.kind {
            Kind::AddSet => return self.registry()?.add(comm, &request.ranks),
            Kind::RemoveSet => return Ok(self.registry()?.remove(request.set)),
            _ => {}
        }
        let is_here = tensors.is_some();
        let tensors = tensors.unwrap_or_else(|| neutral_tensors(request));
        let mut done = Done::default();
        for (index, tensor) in tensors.into_iter().enumerate() {
            done.tensors.push(execute_on_tensor(comm, response, request, (index, tensor))?);
        }
        if response.kind == Kind::Alltoall && is_here {
            done.received_splits = response.agreed.iter().flatten().map(|request| request.splits[comm.me]).collect();
        }
        Ok(Ok(done))
    }

    fn registry(&self) -> Result<&Arc<Registry>> {
        self.registry
            .as_ref()
            .ok_or_else(|| Error::Bootstrap("process sets are created by the group of all ranks".to_owned()))
    }
}

/// The part in which data moves between ranks.
fn moving(response: &Response) -> String {
    format!("RONDE_{}", response.kind)
}

/// Groups above this are reduced tensor by tensor: copying them together costs more than it saves.
const GROUP_MAX: usize = 1024 * 1024;

fn copy_together(tensors: &[Tensor], mut place: &mut [u8]) {
    for tensor in tensors {
        let (own, rest) = place.split_at_mut(tensor.input.len());
        own.copy_from_slice(tensor.input.as_slice());
        place = rest;
    }
}

fn copy_apart(tensors: Vec<Tensor>, mut from: &[u8]) -> Vec<Output> {
    let take = |tensor: Tensor| {
        let mut output = into_output(tensor);
        let (own, rest) = from.split_at(output.buffer.len());
        from = rest;
        output.buffer.as_mut_slice().copy_from_slice(own);
        output
    };
    tensors.into_iter().map(take).collect()
}

/// What a rank that has joined brings to a reduction.
fn neutral_tensors(request: &Request) -> Vec<Tensor> {
    let tensor = |spec: &Spec| {
        let mut bytes = vec![0; spec.bytes()];
        reduce::fill_neutral(spec.dtype, request.op, &mut bytes);
        Tensor { dtype: spec.dtype, shape: spec.shape.clone(), input: bytes.into(), output: None }
    };
    request.tensors.iter().map(tensor).collect()
}

fn execute_on_tensor(
    comm: &mut Comm,
    response: &Response,
    request: &Request,
    (index, tensor): (usize, Tensor),
) -> Result<Output> {
    let specs: Vec<&Spec> = response.agreed.iter().flatten().map(|request| &request.tensors[index]).collect();
    match response.kind {
        Kind::Allreduce => allreduce(comm, request, tensor),
        Kind::Broadcast => broadcast(comm, response.root_member(request), tensor),
        Kind::Allgather => allgather(comm, &specs, &tensor),
        Kind::Reducescatter => reducescatter(comm, request, tensor),
        _ => alltoall(comm, response, &tensor),
    }
}

#[expect(clippy::float_cmp, reason = "exactly one means that nobody asked for it")]
fn allreduce(comm: &mut Comm, request: &Request, mut tensor: Tensor) -> Result<Output> {
    let combine = Combine { dtype: tensor.dtype, op: request.op, scale: postscale(request, comm.size()) };
    let len = tensor.input.len();
    if request.op == ReduceOp::Adasum || request.prescale != 1.0 {
        let mut output = into_output_filled(tensor);
        let data = output.buffer.as_mut_slice();
        reduce::scale(combine.dtype, data, request.prescale);
        if request.op == ReduceOp::Adasum {
            comm.adasum(combine.dtype, data)?;
            reduce::scale(combine.dtype, data, combine.scale);
        } else {
            comm.allreduce(combine, View::InPlace(data), len)?;
        }
        return Ok(output);
    }
    let view = match &mut tensor.output {
        Some(output) => View::Apart { from: tensor.input.as_slice(), to: output.as_mut_slice() },
        None => View::InPlace(tensor.input.as_mut_slice()),
    };
    comm.allreduce(combine, view, len)?;
    Ok(into_output(tensor))
}

/// The output of a tensor with the input in it.
fn into_output_filled(mut tensor: Tensor) -> Output {
    if let Some(output) = &mut tensor.output {
        output.as_mut_slice().copy_from_slice(tensor.input.as_slice());
    }
    into_output(tensor)
}

fn broadcast(comm: &mut Comm, root: usize, tensor: Tensor) -> Result<Output> {
    let mut output = if comm.me == root { into_output_filled(tensor) } else { into_output(tensor) };
    comm.broadcast(root, output.buffer.as_mut_slice())?;
    Ok(output)
}

fn allgather(comm: &mut Comm, specs: &[&Spec], tensor: &Tensor) -> Result<Output> {
    let row = tensor.shape.row() * tensor.dtype.size();
    let rows: Vec<usize> = specs.iter().map(|spec| spec.shape.0[0]).collect();
    let parts = parts_of(&rows, row);
    let mut buffer = Buffer::zeroed(rows.iter().sum::<usize>() * row);
    comm.allgather(&parts, tensor.input.as_slice(), buffer.as_mut_slice())?;
    Ok(Output { dtype: tensor.dtype, shape: tensor.shape.with_rows(rows.iter().sum()), buffer })
}

fn reducescatter(comm: &mut Comm, request: &Request, mut tensor: Tensor) -> Result<Output> {
    let row = tensor.shape.row() * tensor.dtype.size();
    let parts = even_parts(tensor.shape.0[0], comm.size(), row);
    let rows = even_parts(tensor.shape.0[0], comm.size(), 1)[comm.me].len();
    let mut buffer = Buffer::zeroed(parts[comm.me].len());
    #[expect(clippy::float_cmp, reason = "exactly one means that nobody asked for it")]
    if request.prescale != 1.0 {
        // The input is the caller's: it is scaled in a copy.
        tensor.input = Buffer::from(tensor.input.as_slice().to_vec());
        reduce::scale(tensor.dtype, tensor.input.as_mut_slice(), request.prescale);
    }
    let combine = Combine { dtype: tensor.dtype, op: request.op, scale: postscale(request, comm.size()) };
    comm.reduce_scatter(combine, &parts, tensor.input.as_slice(), buffer.as_mut_slice())?;
    Ok(Output { dtype: tensor.dtype, shape: tensor.shape.with_rows(rows), buffer })
}

fn alltoall(comm: &mut Comm, response: &Response, tensor: &Tensor) -> Result<Output> {
    let row = tensor.shape.row() * tensor.dtype.size();
    let requests: Vec<&Request> = response.agreed.iter().flatten().map(AsRef::as_ref).collect();
    let sent = parts_of(&requests[comm.me].splits, row);
    let rows: Vec<usize> = requests.iter().map(|request| request.splits[comm.me]).collect();
    let received = parts_of(&rows, row);
    let mut buffer = Buffer::zeroed(rows.iter().sum::<usize>() * row);
    comm.alltoall((&sent, tensor.input.as_slice()), (&received, buffer.as_mut_slice()))?;
    Ok(Output { dtype: tensor.dtype, shape: tensor.shape.with_rows(rows.iter().sum()), buffer })
}

/// Places of so many rows each, one after the other, in bytes.
fn parts_of(rows: &[usize], row: usize) -> Vec<Range<usize>> {
    let mut end = 0;
    let place = |rows: &usize| {
        let begin = end;
        end += rows * row;
        begin..end
    };
    rows.iter().map(place).collect()
}
