//! What Python asks for, made [`Work`] of the engine; and the numbers that stand for types and reductions there.

use pyo3::{
    exceptions::PyValueError,
    prelude::*,
    pybacked::PyBackedStr,
    types::{IntoPyDict as _, PyDict},
};
use ronde_collective::{DataType, Device, Operation, Rank, ReduceOp, Reduction, SetId, Shape, Tensor, Work};

use crate::memory;

/// An operation, read from the attributes of `ronde._operations.Operation`.
#[derive(Debug, FromPyObject)]
pub(crate) struct Request<'py> {
    kind: PyBackedStr,
    /// What only this kind needs.
    details: Bound<'py, PyAny>,
    /// As the caller calls it.
    name: Option<PyBackedStr>,
    is_group: bool,
    process_set_id: Option<u32>,
    memory: Vec<Memory>,
}

/// A tensor's type, shape and address, and the address of the result if it is another one.
#[derive(Debug, FromPyObject)]
struct Memory(u8, Vec<usize>, usize, Option<usize>);

impl Request<'_> {
    /// `number` is the name of an operation that has none.
    pub(crate) fn work(self, number: u64) -> PyResult<Work> {
        self.work_with(number, Memory::tensor)
    }

    /// The same on tensors of a device, at addresses that mean nothing here.
    pub(crate) fn work_at(self, number: u64, device: &str) -> PyResult<Work> {
        let device = Device { name: device.into(), ticket: number };
        Ok(self.work_with(number, Memory::elsewhere)?.at(device))
    }

    fn work_with(self, number: u64, tensor: fn(Memory) -> PyResult<Tensor>) -> PyResult<Work> {
        let operation = operation(&self.kind, &self.details)?;
        let set = self.process_set_id.ok_or_else(|| {
            let text = format!("{}: Process set provided does not exist, or has not been registered.", self.kind);
            PyValueError::new_err(text)
        })?;
        let name = self.full_name(number);
        let tensors = self.memory.into_iter().map(tensor).collect::<PyResult<_>>()?;
        Ok(Work::new(name, operation, tensors).on(SetId(set)))
    }

    /// The name that Horovod's users see, in a timeline for example.
    fn full_name(&self, number: u64) -> String {
        let (group, kind) = (if self.is_group { "grouped_" } else { "" }, &self.kind);
        match &self.name {
            Some(name) => format!("{group}{kind}.{name}"),
            None => format!("{group}{kind}.noname.{number}"),
        }
    }
}

/// An operation of all ranks under a name that is exactly the caller's: its kind, what only that kind needs, and its
/// tensors.
#[derive(Debug, FromPyObject)]
pub(crate) struct Named<'py>(PyBackedStr, PyBackedStr, Bound<'py, PyAny>, Vec<Memory>);

impl Named<'_> {
    pub(crate) fn work(self) -> PyResult<Work> {
        let Self(name, kind, details, memory) = self;
        let operation = operation(&kind, &details)?;
        let tensors = memory.into_iter().map(Memory::tensor).collect::<PyResult<_>>()?;
        Ok(Work::new(&*name, operation, tensors))
    }
}

impl Memory {
    fn tensor(self) -> PyResult<Tensor> {
        let Self(_, _, input, output) = self;
        let (dtype, shape) = self.form()?;
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

    fn elsewhere(self) -> PyResult<Tensor> {
        let (dtype, shape) = self.form()?;
        Ok(Tensor::new(dtype, shape, Vec::new()))
    }

    fn form(self) -> PyResult<(DataType, Shape)> {
        let Self(code, dimensions, ..) = self;
        let dtype = DataType::from_code(code);
        let dtype = dtype.ok_or_else(|| PyValueError::new_err(format!("{code} is not an element type")))?;
        Ok((dtype, Shape(dimensions)))
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
        _ => return Err(PyValueError::new_err(format!("`{kind}` is not an operation"))),
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

/// The number of each element type, by the name that NumPy and PyTorch have for it.
pub(crate) fn type_codes(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    DataType::ALL.map(|dtype| (dtype.to_string(), dtype.code())).into_py_dict(py)
}

/// The number of each reduction, by Horovod's name, in Horovod's order.
pub(crate) fn reduction_codes(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    ReduceOp::ALL.map(|op| (op.to_string(), op.code())).into_py_dict(py)
}
