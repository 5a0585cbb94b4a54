//! What a caller asks for, checked: the rest of the engine trusts it.

use std::sync::Arc;

use super::device::Device;
use crate::{
    buffer::Buffer,
    error::{Error, Result},
    negotiate::{
        JOIN,
        request::{Kind, Request, Spec},
    },
    types::{DataType, Rank, ReduceOp, SetId, Shape},
};

/// A tensor of the caller.
#[derive(Debug)]
pub struct Tensor {
    pub dtype: DataType,
    pub shape: Shape,
    pub input: Buffer,
    /// Where the result goes, as large as the input; none: the engine decides (in place, or new memory).
    pub output: Option<Buffer>,
}

impl Tensor {
    pub fn new(dtype: DataType, shape: impl Into<Shape>, input: impl Into<Buffer>) -> Self {
        Self { dtype, shape: shape.into(), input: input.into(), output: None }
    }
}

/// How a reduction computes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reduction {
    pub op: ReduceOp,
    pub prescale: f64,
    pub postscale: f64,
}

impl From<ReduceOp> for Reduction {
    fn from(op: ReduceOp) -> Self {
        Self { op, prescale: 1.0, postscale: 1.0 }
    }
}

/// Which collective, with what only it needs.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    Allreduce(Reduction),
    /// Rows of all ranks, one after the other; ranks may have different numbers of them.
    Allgather,
    /// The root is a rank of the whole job, in every process set.
    Broadcast {
        root: Rank,
    },
    /// Rows for each member; none: the same number for all.
    Alltoall {
        splits: Option<Vec<usize>>,
    },
    /// Rows are cut evenly; the first members take what is left over.
    Reducescatter(Reduction),
    Barrier,
    /// This rank has no more data; done when all ranks have none.
    Join,
}

/// One request to the engine. Several tensors are done together or not at all.
#[derive(Debug)]
pub struct Work {
    pub name: Arc<str>,
    pub operation: Operation,
    pub tensors: Vec<Tensor>,
    pub set: SetId,
    /// Where the tensors are, if the engine cannot reach them: then they have no memory here.
    pub device: Option<Device>,
}

impl Work {
    pub fn new(name: impl Into<Arc<str>>, operation: Operation, tensors: Vec<Tensor>) -> Self {
        Self { name: name.into(), operation, tensors, set: SetId::GLOBAL, device: None }
    }

    /// For the members of a process set alone.
    pub fn on(mut self, set: SetId) -> Self {
        self.set = set;
        self
    }

    /// On tensors of a device, which somebody else works on as soon as it is agreed.
    pub fn at(mut self, device: Device) -> Self {
        self.device = Some(device);
        self
    }

    /// What the other ranks hear of it, if it makes sense to this one.
    pub(super) fn request(&self, members: &[Rank]) -> Result<Request> {
        let kind = self.operation.kind();
        let name = if kind == Kind::Join { JOIN.into() } else { Arc::clone(&self.name) };
        let mut request = Request::new(kind, name);
        for tensor in &self.tensors {
            tensor.check(kind, self.device.is_some())?;
            request.tensors.push(Spec { dtype: tensor.dtype, shape: tensor.shape.clone() });
        }
        request.device = self.device.as_ref().map(|device| Arc::clone(&device.name));
        match &self.operation {
            Operation::Allreduce(reduction) => self.check_reduction(*reduction)?,
            Operation::Reducescatter(reduction) if !matches!(reduction.op, ReduceOp::Average | ReduceOp::Sum) => {
                return Err(Error::Mismatch("Reducescatter only supports AVERAGE and SUM reduction ops.".to_owned()));
            }
            Operation::Reducescatter(reduction) => self.check_reduction(*reduction)?,
            Operation::Broadcast { root } if !members.contains(root) => {
                return Err(Error::Invalid(format!(
                    "broadcast received invalid root rank {root} for provided process set"
                )));
            }
            Operation::Alltoall { splits } => request.splits = self.splits(splits.as_deref(), members.len())?,
            _ => {}
        }
        match &self.operation {
            Operation::Allreduce(reduction) | Operation::Reducescatter(reduction) => {
                request.op = reduction.op;
                (request.prescale, request.postscale) = (reduction.prescale, reduction.postscale);
            }
            Operation::Broadcast { root } => request.root = *root,
            _ => {}
        }
        Ok(request)
    }

    fn check_reduction(&self, reduction: Reduction) -> Result<()> {
        #[expect(clippy::float_cmp, reason = "exactly one means that nobody asked for it")]
        let is_scaled = reduction.op == ReduceOp::Average || reduction.prescale != 1.0 || reduction.postscale != 1.0;
        for tensor in &self.tensors {
            if is_scaled && tensor.dtype == DataType::Bool {
                return Err(Error::Invalid("bool tensors cannot be averaged or scaled".to_owned()));
            }
            if reduction.op == ReduceOp::Adasum && !tensor.dtype.is_float() {
                return Err(Error::Invalid(format!("Adasum needs floating point tensors, not {}", tensor.dtype)));
            }
        }
        Ok(())
    }

    fn splits(&self, splits: Option<&[usize]>, members: usize) -> Result<Vec<usize>> {
        let [tensor] = self.tensors.as_slice() else {
            return Err(Error::Invalid(format!("alltoall takes one tensor, not {}", self.tensors.len())));
        };
        let invalid = |text: &str| Error::Invalid(text.to_owned());
        let rows = tensor.shape.0.first().copied().unwrap_or(0);
        match splits {
            Some(splits) if splits.len() != members => {
                Err(invalid("Number of entries in splits does not equal number of workers."))
            }
            Some(splits) => match splits.iter().try_fold(0_usize, |sum, split| sum.checked_add(*split)) {
                Some(sum) if sum <= rows => Ok(splits.to_vec()),
                _ => Err(invalid("Sum of splits entries is greater than the first dimension of tensor.")),
            },
            None if rows.is_multiple_of(members) => Ok(vec![rows / members; members]),
            None => Err(invalid(
                "splits not provided, but first dimension of tensor is not an even multiple of the number of workers.",
            )),
        }
    }
}

impl Operation {
    pub(super) const fn kind(&self) -> Kind {
        match self {
            Self::Allreduce(_) => Kind::Allreduce,
            Self::Allgather => Kind::Allgather,
            Self::Broadcast { .. } => Kind::Broadcast,
            Self::Alltoall { .. } => Kind::Alltoall,
            Self::Reducescatter(_) => Kind::Reducescatter,
            Self::Barrier => Kind::Barrier,
            Self::Join => Kind::Join,
        }
    }
}

impl Tensor {
    fn check(&self, kind: Kind, is_elsewhere: bool) -> Result<()> {
        let bytes = self.shape.elements().and_then(|elements| elements.checked_mul(self.dtype.size()));
        let is_right = if is_elsewhere { bytes.is_some() } else { bytes == Some(self.input.len()) };
        if !is_right {
            return Err(Error::Invalid(format!(
                "a {} tensor of shape {} does not have {} bytes",
                self.dtype,
                self.shape,
                self.input.len()
            )));
        }
        match &self.output {
            Some(_) if !matches!(kind, Kind::Allreduce | Kind::Broadcast) => {
                Err(Error::Invalid(format!("{kind} allocates its own output")))
            }
            Some(output) if output.len() != self.input.len() => {
                Err(Error::Invalid(format!("the output has {} bytes, the input {}", output.len(), self.input.len())))
            }
            _ => Ok(()),
        }
    }
}

/// What came of a request.
#[derive(Debug, Default)]
pub struct Done {
    pub tensors: Vec<Output>,
    /// Rows that an alltoall received from each member.
    pub received_splits: Vec<usize>,
    /// The rank that joined last.
    pub last_joined: Option<Rank>,
    /// The process set that was made.
    pub set: Option<SetId>,
}

/// A resulting tensor.
#[derive(Debug)]
pub struct Output {
    pub dtype: DataType,
    pub shape: Shape,
    /// The caller's memory if the operation was in place or an output was given.
    pub buffer: Buffer,
}
