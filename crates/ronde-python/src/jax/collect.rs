//! A call of XLA's, made [`Work`] of the engine.
//!
//! A call returns at once, or nearly so, and a thread of ours tells XLA when it is done: however few threads XLA has,
//! and in whatever order it comes to the operations of a computation, none waits for another. An XLA without futures
//! does one after the other, in the order of the program; there the call waits.

use std::sync::Arc;

use ronde_collective::{Done, Engine, Error, Operation, Rank, ReduceOp, Reduction, SetId, Shape, Tensor, Work};

use super::abi::{Act, Call, Code, Failure, Later, TensorRef};
use crate::{current, flight, gate};

/// Does the collective that a call asks for.
pub(super) struct Collect;

/// A call that asks for nothing but the memory of its result: `ronde.jax` lets the engine write there.
const EMPTY: &str = "empty";

impl Act for Collect {
    fn act(call: Call, later: Option<Later>) -> Result<(), Failure> {
        if call.request == EMPTY {
            call.results.iter().for_each(|result| result.buffer().prefer_large_pages());
            later.into_iter().for_each(|later| later.finish(Ok(())));
            return Ok(());
        }
        let prepared = prepare(call);
        let Some(later) = later else {
            let Prepared { engine, work, kept } = prepared?;
            return kept.deliver(run_here(&engine, work));
        };
        match prepared {
            Err(failure) => later.finish(Err(failure)),
            Ok(Prepared { engine, work, kept }) => {
                flight::begin(&engine, work, move |result| later.finish(kept.deliver(result)));
            }
        }
        Ok(())
    }
}

struct Prepared {
    engine: Arc<Engine>,
    work: Work,
    kept: Kept,
}

/// What the outcome needs.
struct Kept {
    /// As the operation is called in errors.
    title: String,
    /// Where results go that the engine makes; none if it writes them itself.
    results: Vec<TensorRef>,
}

fn prepare(call: Call) -> Result<Prepared, Failure> {
    let engine = current::engine()
        .upgrade()
        .ok_or_else(|| Failure::new(Code::FailedPrecondition, "Horovod has not been initialized; use hvd.init()."))?;
    let Request { operation, set, name } = Request::parse(&call.request)
        .ok_or_else(|| Failure::new(Code::Internal, format!("`{}` is no operation", call.request)))?;
    // Horovod's scripts look for the operation in an error, to tell a broken ring from a mistake.
    let title = format!("Horovod{} `{name}`", title(&operation));
    let has_own_results = matches!(operation, Operation::Allreduce(_) | Operation::Broadcast { .. });
    let mut tensors = Vec::with_capacity(call.arguments.len());
    for (index, argument) in call.arguments.iter().enumerate() {
        let result = call.results.get(index).filter(|_| has_own_results);
        tensors.push(tensor(argument, result.filter(|result| !result.is_same_memory(argument)))?);
    }
    let results = if has_own_results { Vec::new() } else { call.results };
    Ok(Prepared { engine, work: Work::new(name, operation, tensors).on(set), kept: Kept { title, results } })
}

fn tensor(argument: &TensorRef, result: Option<&TensorRef>) -> Result<Tensor, Failure> {
    let unsupported = || Failure::new(Code::InvalidArgument, "the tensor's type is not supported");
    Ok(Tensor {
        dtype: argument.dtype.ok_or_else(unsupported)?,
        shape: Shape(argument.shape.clone()),
        input: argument.buffer(),
        output: result.map(TensorRef::buffer),
    })
}

/// What the lowering in `ronde.jax` has written: the kind, its numbers, the process set and the name.
struct Request<'a> {
    operation: Operation,
    set: SetId,
    name: &'a str,
}

impl<'a> Request<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut words = text.splitn(6, ' ');
        let kind = words.next()?;
        // The number of the reduction, or of the root.
        let number: usize = words.next()?.parse().ok()?;
        let (prescale, postscale) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let set = SetId(words.next()?.parse().ok()?);
        let name = words.next()?;
        let op = u8::try_from(number).ok().and_then(ReduceOp::from_code);
        let reduction = || Some(Reduction { op: op?, prescale, postscale });
        let operation = match kind {
            "allreduce" => Operation::Allreduce(reduction()?),
            "reducescatter" => Operation::Reducescatter(reduction()?),
            "allgather" => Operation::Allgather,
            "broadcast" => Operation::Broadcast { root: Rank(number) },
            "alltoall" => Operation::Alltoall { splits: None },
            _ => return None,
        };
        Some(Self { operation, set, name })
    }
}

const fn title(operation: &Operation) -> &'static str {
    match operation {
        Operation::Allreduce(_) => "Allreduce",
        Operation::Allgather => "Allgather",
        Operation::Broadcast { .. } => "Broadcast",
        Operation::Alltoall { .. } => "Alltoall",
        Operation::Reducescatter(_) => "Reducescatter",
        Operation::Barrier => "Barrier",
        Operation::Join => "Join",
    }
}

/// Does the work in this thread, which hears Ctrl-C if it is Python's first.
fn run_here(engine: &Engine, work: Work) -> Result<Done, Error> {
    let result = engine.begin(work)?.wait_unless(gate::is_interrupted, None).unwrap_or(Err(Error::Shutdown(None)));
    if matches!(result, Err(Error::Interrupted)) {
        // XLA's error hides what the signal's handler has raised: let it be raised once more.
        gate::raise_again();
    }
    result
}

impl Kept {
    fn deliver(&self, result: Result<Done, Error>) -> Result<(), Failure> {
        let done = result.map_err(|error| failure(&self.title, &error))?;
        for (result, made) in self.results.iter().zip(&done.tensors) {
            let mut buffer = result.buffer();
            if result.shape != made.shape.0 || buffer.len() != made.buffer.len() {
                return Err(self.stale(result, &made.shape));
            }
            buffer.as_mut_slice().copy_from_slice(made.buffer.as_slice());
        }
        Ok(())
    }

    fn stale(&self, result: &TensorRef, made: &Shape) -> Failure {
        let text = format!(
            "{} refused: the result has the shape {made}, and the computation was compiled for {}: inside of jit all \
             ranks need the same number of rows; after a change of the ring, compile again (jax.clear_caches())",
            self.title,
            Shape(result.shape.clone())
        );
        Failure::new(Code::FailedPrecondition, text)
    }
}

fn failure(title: &str, error: &Error) -> Failure {
    let code = match error {
        Error::Invalid(_) => Code::InvalidArgument,
        Error::Mismatch(_) => Code::FailedPrecondition,
        _ => Code::Aborted,
    };
    // `ronde.jax.elastic` tells by the second word whether a new ring helps.
    let word = if error.is_fatal() { "failed" } else { "refused" };
    Failure::new(code, format!("{title} {word}: {error}"))
}
