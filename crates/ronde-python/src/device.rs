//! Operations on tensors of a device, for the thread of Python that does them with the device's own backend.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use ronde_collective::{DeviceBatch, DeviceOperation, Operation, Rank, ReduceOp, Reduction};

/// An operation: its ticket, the type code and shape of each tensor, the rows of each tensor on each member, and the
/// splits of each member.
type Agreed = (Option<u64>, Vec<(u8, Vec<usize>)>, Vec<Vec<usize>>, Vec<Vec<usize>>);

/// Operations that all members do now, as one.
#[pyclass(frozen, module = "ronde._ronde")]
#[derive(Debug)]
pub(crate) struct Batch {
    /// Until it is finished.
    inner: Mutex<Option<DeviceBatch>>,
    #[pyo3(get)]
    device: String,
    #[pyo3(get)]
    kind: &'static str,
    /// The code of the reduction, and the factors before and after it; an average is a sum with a smaller one after it.
    #[pyo3(get)]
    reduction: (u8, f64, f64),
    /// The member that a broadcast comes from.
    #[pyo3(get)]
    root: usize,
    #[pyo3(get)]
    operations: Vec<Agreed>,
}

impl Batch {
    pub(crate) fn new(inner: DeviceBatch) -> Self {
        let plain = Reduction::from(ReduceOp::Sum);
        let (kind, reduction, root) = match inner.operation() {
            Operation::Allreduce(reduction) => ("allreduce", reduction, 0),
            Operation::Reducescatter(reduction) => ("reducescatter", reduction, 0),
            Operation::Broadcast { root: Rank(member) } => ("broadcast", plain, member),
            Operation::Alltoall { .. } => ("alltoall", plain, 0),
            _ => ("allgather", plain, 0),
        };
        Self {
            device: inner.device().to_owned(),
            kind,
            reduction: (reduction.op.code(), reduction.prescale, reduction.postscale),
            root,
            operations: inner.operations().map(agreed).collect(),
            inner: Mutex::new(Some(inner)),
        }
    }

    fn take(&self) -> Option<DeviceBatch> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

fn agreed(operation: DeviceOperation) -> Agreed {
    let tensors = operation.tensors.into_iter().map(|(dtype, shape)| (dtype.code(), shape.0)).collect();
    (operation.ticket, tensors, operation.rows, operation.splits)
}

#[pymethods]
impl Batch {
    /// Says that it is done: who waits for it goes on.
    fn finish(&self, py: Python<'_>) {
        py.detach(|| {
            if let Some(batch) = self.take() {
                batch.finish();
            }
        });
    }

    /// Says that it cannot be done: the ring ends.
    fn fail(&self, py: Python<'_>, reason: &str) {
        py.detach(|| {
            if let Some(batch) = self.take() {
                batch.fail(reason);
            }
        });
    }
}
