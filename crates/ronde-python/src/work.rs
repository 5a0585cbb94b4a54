//! What Python asks for, made [`Work`] of the engine.

use pyo3::{exceptions::PyValueError, prelude::*};
use ronde_collective::{DataType, Operation, Rank, ReduceOp, Reduction, SetId, Shape, Tensor, Work};

use crate::memory;

/// An operation's kind, what only that kind needs, its name, its tensors and its process set.
#[derive(Debug, FromPyObject)]
pub(crate) struct Ask<'py>(String, Bound<'py, PyAny>, String, Vec<Place>, u32);

/// A tensor's type, shape and address, and the address of the result if it is another one.
#[derive(Debug, FromPyObject)]
struct Place(u8, Vec<usize>, usize, Option<usize>);

impl Ask<'_> {
    pub(crate) fn work(self) -> PyResult<Work> {
        let Self(kind, details, name, places, set) = self;
        let operation = operation(&kind, &details)?;
        let tensors = places.into_iter().map(Place::tensor).collect::<PyResult<_>>()?;
        Ok(Work::new(name, operation, tensors).on(SetId(set)))
    }
}

impl Place {
    fn tensor(self) -> PyResult<Tensor> {
        let Self(code, dimensions, input, output) = self;
        let dtype = DataType::from_code(code);
        let dtype = dtype.ok_or_else(|| PyValueError::new_err(format!("{code} is no type of elements")))?;
        let shape = Shape(dimensions);
        let bytes = shape.elements().and_then(|elements| elements.checked_mul(dtype.size()));
        let bytes = bytes.filter(|bytes| isize::try_from(*bytes).is_ok());
        let bytes = bytes.ok_or_else(|| PyValueError::new_err(format!("a tensor of shape {shape} is too large")))?;
        Ok(Tensor {
            dtype,
            shape,
            input: memory::tensor(input, bytes),
            output: output.map(|address| memory::tensor(address, bytes)),
        })
    }
}

fn operation(kind: &str, details: &Bound<'_, PyAny>) -> PyResult<Operation> {
    Ok(match kind {
        "allreduce" => Operation::Allreduce(reduction(details)?),
        "reducescatter" => Operation::Reducescatter(reduction(details)?),
        "allgather" => Operation::Allgather,
        "broadcast" => Operation::Broadcast { root: Rank(details.extract()?) },
        "alltoall" => Operation::Alltoall { splits: details.extract()? },
        "barrier" => Operation::Barrier,
        "join" => Operation::Join,
        _ => return Err(PyValueError::new_err(format!("`{kind}` is no operation"))),
    })
}

fn reduction(details: &Bound<'_, PyAny>) -> PyResult<Reduction> {
    let (op, prescale, postscale): (Bound<'_, PyAny>, f64, f64) = details.extract()?;
    let known = op.extract().ok().and_then(ReduceOp::from_code);
    let known =
        known.ok_or_else(|| PyValueError::new_err(format!("op must be one of {}, not {op:?}", reductions())))?;
    Ok(Reduction { op: known, prescale, postscale })
}

fn reductions() -> String {
    ReduceOp::ALL.map(|op| op.to_string()).join(", ")
}
