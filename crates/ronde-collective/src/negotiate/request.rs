//! What a rank asks for, as the other ranks see it; and its form on the wire.

use std::{fmt, sync::Arc};

use crate::{
    codec::{Reader, Writer},
    types::{DataType, Rank, ReduceOp, SetId, Shape},
};

/// Which collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Allreduce,
    Allgather,
    Broadcast,
    Join,
    Alltoall,
    Barrier,
    Reducescatter,
    AddSet,
    RemoveSet,
}

impl Kind {
    const ALL: [Self; 9] = [
        Self::Allreduce,
        Self::Allgather,
        Self::Broadcast,
        Self::Join,
        Self::Alltoall,
        Self::Barrier,
        Self::Reducescatter,
        Self::AddSet,
        Self::RemoveSet,
    ];
}

impl Kind {
    /// The word at the beginning of an error's text.
    pub(crate) fn title(self) -> String {
        let word = self.to_string();
        let (first, rest) = word.split_at(1);
        format!("{first}{}", rest.to_lowercase())
    }
}

/// The word of messages and timelines.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allreduce => "ALLREDUCE",
            Self::Allgather => "ALLGATHER",
            Self::Broadcast => "BROADCAST",
            Self::Join => "JOIN",
            Self::Alltoall => "ALLTOALL",
            Self::Barrier => "BARRIER",
            Self::Reducescatter => "REDUCESCATTER",
            Self::AddSet => "ADD_PROCESS_SET",
            Self::RemoveSet => "REMOVE_PROCESS_SET",
        })
    }
}

/// The form of a tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spec {
    pub(crate) dtype: DataType,
    pub(crate) shape: Shape,
}

impl Spec {
    /// Validated when the request was made.
    pub(crate) fn bytes(&self) -> usize {
        self.shape.elements().unwrap_or(0) * self.dtype.size()
    }
}

/// What one rank asks for. Several tensors are a group: they are done together or not at all.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Request {
    pub(crate) kind: Kind,
    pub(crate) name: Arc<str>,
    pub(crate) tensors: Vec<Spec>,
    pub(crate) op: ReduceOp,
    pub(crate) prescale: f64,
    pub(crate) postscale: f64,
    pub(crate) root: Rank,
    /// Rows for each member of an alltoall.
    pub(crate) splits: Vec<usize>,
    /// The ranks of a new process set.
    pub(crate) ranks: Vec<Rank>,
    /// The process set that is removed.
    pub(crate) set: SetId,
    /// Where the tensors are, if the engine cannot reach them.
    pub(crate) device: Option<Arc<str>>,
}

impl Request {
    pub(crate) fn new(kind: Kind, name: impl Into<Arc<str>>) -> Self {
        Self {
            kind,
            name: name.into(),
            tensors: Vec::new(),
            op: ReduceOp::Sum,
            prescale: 1.0,
            postscale: 1.0,
            root: Rank(0),
            splits: Vec::new(),
            ranks: Vec::new(),
            set: SetId::GLOBAL,
            device: None,
        }
    }

    /// Whether a result can be made from everybody's data by each rank itself.
    pub(crate) fn can_be_inline(&self) -> bool {
        let has_data = !matches!(self.kind, Kind::Join | Kind::AddSet | Kind::RemoveSet);
        has_data && self.op != ReduceOp::Adasum && self.device.is_none()
    }

    /// Bytes of all tensors of this rank.
    pub(crate) fn bytes(&self) -> usize {
        self.tensors.iter().map(Spec::bytes).sum()
    }

    /// At most so many bytes are written.
    pub(crate) fn written_max(&self) -> usize {
        // A data type's number is below 128, and so takes one byte; numbers that are written once have their room here.
        let tensor = |Spec { shape, .. }: &Spec| 1 + sizes_len(&shape.0);
        let tensors: usize = self.tensors.iter().map(tensor).sum();
        let ranks: usize = self.ranks.iter().map(|rank| number_len(rank.0)).sum();
        let device = self.device.as_deref().map_or(0, str::len);
        HEAD_MAX + self.name.len() + device + tensors + sizes_len(&self.splits) + ranks
    }

    pub(crate) fn write(&self, to: &mut Writer) {
        let kind = Kind::ALL.iter().position(|kind| *kind == self.kind).unwrap_or(0);
        to.size(kind).text(&self.name).number(u64::from(self.op.code()));
        to.float(self.prescale).float(self.postscale).size(self.root.0).number(u64::from(self.set.0));
        to.text(self.device.as_deref().unwrap_or(""));
        to.size(self.tensors.len());
        for Spec { dtype, shape } in &self.tensors {
            to.number(u64::from(dtype.code()));
            write_sizes(to, &shape.0);
        }
        write_sizes(to, &self.splits);
        to.size(self.ranks.len());
        self.ranks.iter().for_each(|rank| {
            to.size(rank.0);
        });
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Option<Self> {
        let mut request = Self::new(*Kind::ALL.get(from.size()?)?, from.text()?);
        request.op = ReduceOp::from_code(from.byte()?)?;
        (request.prescale, request.postscale) = (from.float()?, from.float()?);
        request.root = Rank(from.size()?);
        request.set = SetId(u32::try_from(from.number()?).ok()?);
        request.device = Some(from.text()?).filter(|device| !device.is_empty()).map(Arc::from);
        request.tensors = from.list(|from| {
            Some(Spec { dtype: DataType::from_code(from.byte()?)?, shape: Shape(from.list(Reader::size)?) })
        })?;
        request.splits = from.list(Reader::size)?;
        request.ranks = from.list(|from| from.size().map(Rank))?;
        Some(request)
    }
}

/// Bytes of what a request says besides its lists: that it is one, its kind, its reduction, two factors; and a rank, a
/// set and the lengths of the name, of the device's and of two lists, ten bytes each at most.
const HEAD_MAX: usize = 3 + 2 * 8 + 6 * 10;

/// Bytes that [`Writer::size`] writes.
const fn number_len(value: usize) -> usize {
    ((usize::BITS - (value | 1).leading_zeros()).div_ceil(7)) as usize
}

fn sizes_len(sizes: &[usize]) -> usize {
    number_len(sizes.len()) + sizes.iter().map(|size| number_len(*size)).sum::<usize>()
}

fn write_sizes(to: &mut Writer, sizes: &[usize]) {
    to.size(sizes.len());
    sizes.iter().for_each(|size| {
        to.size(*size);
    });
}
