//! An operation of TensorFlow's, made [`Work`] of the engine.
//!
//! In a graph the kernel returns at once, or nearly so, and TensorFlow is told later that the operation is done
//! (`flight`): however few threads TensorFlow has, and in whatever order ranks come to their operations, none waits for
//! another. Outside of graphs the caller waits anyway, and drives the engine itself.

use std::sync::Arc;

use ronde_collective::{
    DataType, Done, Engine, Error, Operation, Rank, ReduceOp, Reduction, SetId, Shape, Tensor, Work,
};

use super::abi::{Call, Code, Construction, Failure, Kernel, TensorRef};
use crate::{current, flight, gate::is_interrupted};

/// Which collective an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Collective {
    Allreduce,
    Allgather,
    Broadcast,
    Alltoall,
    Reducescatter,
    Join,
}

/// A kernel's collective is part of its type: TensorFlow gives no other way to tell kernels apart.
pub(super) struct Collect<const COLLECTIVE: usize> {
    /// As users and other ranks know it.
    name: String,
    operation: Operation,
    set: SetId,
    is_inline: bool,
}

pub(super) const COLLECTIVES: [Collective; 6] = [
    Collective::Allreduce,
    Collective::Allgather,
    Collective::Broadcast,
    Collective::Alltoall,
    Collective::Reducescatter,
    Collective::Join,
];

impl<const COLLECTIVE: usize> Kernel for Collect<COLLECTIVE> {
    fn new(construction: &Construction) -> Result<Self, Failure> {
        let operation = match COLLECTIVES[COLLECTIVE] {
            Collective::Allreduce => Operation::Allreduce(reduction(construction)?),
            Collective::Reducescatter => Operation::Reducescatter(reduction(construction)?),
            Collective::Broadcast => Operation::Broadcast { root: Rank(natural(construction, "root_rank")?) },
            Collective::Allgather => Operation::Allgather,
            Collective::Alltoall => Operation::Alltoall { splits: None },
            Collective::Join => Operation::Join,
        };
        let set = u32::try_from(natural(construction, "process_set_id")?)
            .map_err(|_| Failure::new(Code::InvalidArgument, "process_set_id is too large"))?;
        Ok(Self { name: name(construction)?, operation, set: SetId(set), is_inline: flag(construction, "is_inline")? })
    }

    fn compute(&self, mut call: Call) {
        let (engine, prepared) = match self.prepare(&call) {
            Ok(ready) => ready,
            Err(failure) => return call.finish(Err(failure)),
        };
        let Prepared { work, kept } = prepared;
        if !self.is_inline && call.detach() {
            flight::begin(&engine, work, move |result| finish(call, kept, result));
        } else {
            let result = run_here(&engine, work);
            finish(call, kept, result);
        }
    }
}

struct Prepared {
    work: Work,
    kept: Kept,
}

/// What the engine works on, and what it is called in errors.
struct Kept {
    title: String,
    inputs: Vec<TensorRef>,
    outputs: Vec<TensorRef>,
    /// Results are the engine's, and must be brought to TensorFlow.
    makes_results: bool,
}

impl<const COLLECTIVE: usize> Collect<COLLECTIVE> {
    fn prepare(&self, call: &Call) -> Result<(Arc<Engine>, Prepared), Failure> {
        let engine = current::engine().upgrade().ok_or_else(|| {
            Failure::new(Code::FailedPrecondition, "Horovod has not been initialized; use hvd.init().")
        })?;
        let makes_results = !matches!(self.operation, Operation::Allreduce(_) | Operation::Broadcast { .. });
        let mut operation = self.operation.clone();
        // Horovod's scripts look for the operation in an error, to tell a broken ring from a mistake.
        let title = format!("Horovod{:?} `{}`", COLLECTIVES[COLLECTIVE], self.name);
        let mut kept = Kept { title, inputs: Vec::new(), outputs: Vec::new(), makes_results };
        let mut tensors = Vec::new();
        if let Operation::Alltoall { splits } = &mut operation {
            *splits = read_splits(&call.input(1)?)?;
            tensors.push(kept.take_input(call, 0)?);
        } else {
            for index in 0..call.inputs() {
                tensors.push(match (makes_results, self.is_inline) {
                    (true, _) => kept.take_input(call, index),
                    (false, true) => kept.take_apart(call, index),
                    (false, false) => kept.take_both(call, index),
                }?);
            }
        }
        let work = Work::new(self.name.as_str(), operation, tensors).on(self.set);
        Ok((engine, Prepared { work, kept }))
    }
}

impl Kept {
    /// An input whose result the engine makes, because nobody else knows its shape.
    fn take_input(&mut self, call: &Call, index: usize) -> Result<Tensor, Failure> {
        let input = call.input(index)?;
        let tensor = Tensor { dtype: dtype(&input)?, shape: Shape(input.shape()), input: input.buffer(), output: None };
        self.inputs.push(input);
        Ok(tensor)
    }

    /// An input with its result, in the input's own memory where TensorFlow lets us.
    fn take_both(&mut self, call: &Call, index: usize) -> Result<Tensor, Failure> {
        let (output, is_in_place) = call.output_of_input(index)?;
        if !is_in_place {
            return self.take(call.input(index)?, output);
        }
        let tensor =
            Tensor { dtype: dtype(&output)?, shape: Shape(output.shape()), input: output.buffer(), output: None };
        self.outputs.push(output);
        Ok(tensor)
    }

    /// An input with its result, which outside of graphs has memory of its own: the caller has the input.
    fn take_apart(&mut self, call: &Call, index: usize) -> Result<Tensor, Failure> {
        let input = call.input(index)?;
        let output = call.own_output(index, dtype(&input)?, &input.shape())?;
        self.take(input, output)
    }

    fn take(&mut self, input: TensorRef, output: TensorRef) -> Result<Tensor, Failure> {
        let mut made = output.buffer();
        made.prefer_large_pages();
        let tensor =
            Tensor { dtype: dtype(&input)?, shape: Shape(input.shape()), input: input.buffer(), output: Some(made) };
        self.inputs.push(input);
        self.outputs.push(output);
        Ok(tensor)
    }
}

/// Does the work in this thread, which hears Ctrl-C if it is Python's first.
fn run_here(engine: &Engine, work: Work) -> Result<Done, Error> {
    let handle = engine.begin(work)?;
    let result = handle.wait_unless(is_interrupted, None).unwrap_or(Err(Error::Shutdown(None)));
    if matches!(result, Err(Error::Interrupted)) {
        // TensorFlow's error hides what the signal's handler has raised: let it be raised once more.
        crate::gate::raise_again();
    }
    result
}

fn finish(call: Call, kept: Kept, result: Result<Done, Error>) {
    let result = result.map_err(|error| failure(&kept.title, &error)).and_then(|done| kept.deliver(&call, &done));
    // Before TensorFlow goes on: what only it holds can be used again.
    drop(kept);
    call.finish(result);
}

impl Kept {
    fn deliver(&self, call: &Call, done: &Done) -> Result<(), Failure> {
        if !self.makes_results {
            return Ok(());
        }
        for (index, made) in done.tensors.iter().enumerate() {
            let output = call.output(index, made.dtype, &made.shape.0)?;
            output.buffer().as_mut_slice().copy_from_slice(made.buffer.as_slice());
        }
        if let Some(rank) = done.last_joined {
            deliver_numbers(call, 0, &[], &[rank.0])?;
        } else if !done.received_splits.is_empty() {
            deliver_numbers(call, 1, &[done.received_splits.len()], &done.received_splits)?;
        }
        Ok(())
    }
}

fn deliver_numbers(call: &Call, index: usize, shape: &[usize], numbers: &[usize]) -> Result<(), Failure> {
    let output = call.output(index, DataType::I32, shape)?;
    let bytes: Vec<u8> =
        numbers.iter().flat_map(|number| i32::try_from(*number).unwrap_or(i32::MAX).to_ne_bytes()).collect();
    output.buffer().as_mut_slice().copy_from_slice(&bytes);
    Ok(())
}

/// Rows for each member; none if no numbers are given.
fn read_splits(tensor: &TensorRef) -> Result<Option<Vec<usize>>, Failure> {
    let buffer = tensor.buffer();
    let numbers = buffer.as_slice().chunks_exact(4).map(|bytes| {
        let number = i32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        usize::try_from(number).map_err(|_| {
            Failure::new(Code::InvalidArgument, format!("alltoall expects splits that are not negative, not {number}"))
        })
    });
    let numbers = numbers.collect::<Result<Vec<_>, _>>()?;
    Ok(if numbers.is_empty() { None } else { Some(numbers) })
}

fn failure(title: &str, error: &Error) -> Failure {
    let code = match error {
        Error::Invalid(_) => Code::InvalidArgument,
        Error::Mismatch(_) => Code::FailedPrecondition,
        _ => Code::Unknown,
    };
    Failure::new(code, format!("{title}: {error}"))
}

fn dtype(tensor: &TensorRef) -> Result<DataType, Failure> {
    tensor.dtype().ok_or_else(|| Failure::new(Code::InvalidArgument, "the tensor's type is not supported"))
}

fn reduction(construction: &Construction) -> Result<Reduction, Failure> {
    let code = natural(construction, "reduce_op")?;
    let op = u8::try_from(code).ok().and_then(ReduceOp::from_code);
    let op = op.ok_or_else(|| Failure::new(Code::InvalidArgument, format!("{code} is no reduction")))?;
    let (prescale, postscale) = (construction.number("prescale_factor")?, construction.number("postscale_factor")?);
    Ok(Reduction { op, prescale, postscale })
}

/// The name that was given, or else that of the node, in which a scope may not count.
fn name(construction: &Construction) -> Result<String, Failure> {
    let given = construction.text("tensor_name")?;
    if !given.is_empty() {
        return Ok(given);
    }
    let node = construction.node();
    let last = node.rsplit('/').next().unwrap_or_default();
    Ok(if flag(construction, "ignore_name_scope")? { last.to_owned() } else { node })
}

fn natural(construction: &Construction, name: &str) -> Result<usize, Failure> {
    let value = construction.integer(name)?;
    usize::try_from(value).map_err(|_| Failure::new(Code::InvalidArgument, format!("{name} must not be {value}")))
}

fn flag(construction: &Construction, name: &str) -> Result<bool, Failure> {
    Ok(construction.integer(name)? != 0)
}
