//! The words of the engine: ranks, element types, reductions, shapes.
//!
//! Numbers of types and reductions are those that Horovod's users see; new ones come after them.

use std::fmt;

/// A process of the job, counted over all hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank(pub usize);

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A set of ranks that work together; set 0 is all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SetId(pub u32);

impl SetId {
    pub const GLOBAL: Self = Self(0);
}

/// The type of a tensor's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DataType {
    U8,
    I8,
    U16,
    I16,
    I32,
    I64,
    F16,
    BF16,
    F32,
    F64,
    Bool,
}

impl DataType {
    pub const ALL: [Self; 11] = [
        Self::U8,
        Self::I8,
        Self::U16,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::F16,
        Self::BF16,
        Self::F32,
        Self::F64,
        Self::Bool,
    ];

    /// Bytes per element.
    pub const fn size(self) -> usize {
        match self {
            Self::U8 | Self::I8 | Self::Bool => 1,
            Self::U16 | Self::I16 | Self::F16 | Self::BF16 => 2,
            Self::I32 | Self::F32 => 4,
            Self::I64 | Self::F64 => 8,
        }
    }

    pub const fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::BF16 | Self::F32 | Self::F64)
    }

    /// The number that Horovod's users see.
    pub const fn code(self) -> u8 {
        match self {
            Self::U8 => 0,
            Self::I8 => 1,
            Self::U16 => 2,
            Self::I16 => 3,
            Self::I32 => 4,
            Self::I64 => 5,
            Self::F16 => 6,
            Self::F32 => 7,
            Self::F64 => 8,
            Self::Bool => 9,
            Self::BF16 => 10,
        }
    }

    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|each| each.code() == code)
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::U8 => "uint8",
            Self::I8 => "int8",
            Self::U16 => "uint16",
            Self::I16 => "int16",
            Self::I32 => "int32",
            Self::I64 => "int64",
            Self::F16 => "float16",
            Self::BF16 => "bfloat16",
            Self::F32 => "float32",
            Self::F64 => "float64",
            Self::Bool => "bool",
        })
    }
}

/// How the values of the ranks become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReduceOp {
    Average,
    Sum,
    Adasum,
    Min,
    Max,
    Product,
}

impl ReduceOp {
    pub const ALL: [Self; 6] = [Self::Average, Self::Sum, Self::Adasum, Self::Min, Self::Max, Self::Product];

    /// The number that Horovod's users pass.
    pub const fn code(self) -> u8 {
        match self {
            Self::Average => 0,
            Self::Sum => 1,
            Self::Adasum => 2,
            Self::Min => 3,
            Self::Max => 4,
            Self::Product => 5,
        }
    }

    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|each| each.code() == code)
    }
}

/// The name that Horovod's users know it by.
impl fmt::Display for ReduceOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Average => "Average",
            Self::Sum => "Sum",
            Self::Adasum => "Adasum",
            Self::Min => "Min",
            Self::Max => "Max",
            Self::Product => "Product",
        })
    }
}

/// The dimensions of a tensor; none for a single value.
#[derive(Debug, Clone, PartialEq, Eq, Default, PartialOrd, Ord)]
pub struct Shape(pub Vec<usize>);

impl Shape {
    /// How many elements there are, or nothing if that is no number of this machine.
    pub fn elements(&self) -> Option<usize> {
        self.0.iter().try_fold(1_usize, |all, dimension| all.checked_mul(*dimension))
    }

    /// Elements of one row: everything but the first dimension.
    pub(crate) fn row(&self) -> usize {
        self.0.iter().skip(1).product()
    }

    /// The same rows, but as many as said.
    pub(crate) fn with_rows(&self, rows: usize) -> Self {
        let mut dimensions = self.0.clone();
        match dimensions.first_mut() {
            Some(first) => *first = rows,
            None => dimensions.push(rows),
        }
        Self(dimensions)
    }
}

impl<const N: usize> From<[usize; N]> for Shape {
    fn from(dimensions: [usize; N]) -> Self {
        Self(dimensions.into())
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dimensions: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        write!(f, "[{}]", dimensions.join(", "))
    }
}
