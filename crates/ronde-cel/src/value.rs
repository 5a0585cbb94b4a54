//! Values while a rule runs. Data of the object is borrowed, never copied: a [`Val`] of a list or map is a pair of
//! JSON and schema, and its items become values when they are looked at.

use std::{borrow::Cow, net::IpAddr, ops::Deref, rc::Rc, sync::Arc};

use serde_json::Value;

use super::{
    containers::{List, Map},
    library::{format::NamedFormat, quantity::Quantity, semver::Semver},
};
use crate::{
    schema::ListType,
    text::{time::Time, url::Url},
};

/// Why an evaluation ended without a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// An error that `||`, `&&` and their macros may absorb.
    Error(Cow<'static, str>),
    /// The budget is spent; nothing absorbs this.
    Cancelled,
}

pub(super) type Eval<T> = Result<T, Fault>;

/// An error with the given words.
pub(super) fn fault<T>(message: impl Into<Cow<'static, str>>) -> Eval<T> {
    Err(Fault::Error(message.into()))
}

/// No overload takes these values; only `dyn` gets a rule this far.
pub(super) fn no_such_overload<T>() -> Eval<T> {
    fault("no such overload")
}

/// A value.
#[derive(Debug, Clone)]
pub(super) enum Val<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Text<'a>),
    Bytes(Arc<[u8]>),
    Timestamp(Time),
    /// In nanoseconds.
    Duration(i64),
    List(List<'a>),
    Map(Map<'a>),
    Optional(Option<Rc<Val<'a>>>),
    Type(Arc<str>),
    Quantity(Quantity),
    Url(Rc<Url>),
    Ip(IpAddr),
    Cidr(IpAddr, u8),
    Semver(Rc<Semver>),
    Format(&'static NamedFormat),
    /// Data that the schema does not describe; it can only be compared.
    Unknown(&'a Value),
}

/// A string of the object, or one that the rule made.
#[derive(Debug, Clone)]
pub(super) enum Text<'a> {
    Data(&'a str),
    Made(Arc<str>),
}

/// A key of a map. Whole numbers are one key however they are typed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Bool(bool),
    /// The flag tells an unsigned number, for when the key becomes a value again.
    Number(i128, Unsigned),
    String(Arc<str>),
}

/// Whether a number was unsigned; takes no part in comparisons.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unsigned(pub bool);

impl PartialEq for Unsigned {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl Eq for Unsigned {}
impl PartialOrd for Unsigned {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Unsigned {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

impl Deref for Text<'_> {
    type Target = str;
    fn deref(&self) -> &str {
        match self {
            Self::Data(text) => text,
            Self::Made(text) => text,
        }
    }
}

static ATOMIC: ListType = ListType::Atomic;

impl<'a> Val<'a> {
    pub fn string(text: impl Into<Arc<str>>) -> Self {
        Self::String(Text::Made(text.into()))
    }

    pub fn list(items: Vec<Val<'a>>) -> Self {
        Self::List(List::Made { items: Rc::new(items), kind: &ATOMIC })
    }

    pub fn some(value: Self) -> Self {
        Self::Optional(Some(Rc::new(value)))
    }

    /// What `type(x)` shows.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Url(_) => "kubernetes.URL",
            Self::Ip(_) => "net.IP",
            Self::Cidr(..) => "net.CIDR",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Format(_) => "kubernetes.NamedFormat",
            Self::Unknown(_) => "unknown",
        }
    }

    /// The size that costs are counted by: characters, bytes, items, entries; 1 for all else.
    pub fn size(&self) -> u64 {
        let size = match self {
            Self::String(text) => text.chars().count(),
            Self::Bytes(bytes) => bytes.len(),
            Self::List(list) => list.len(),
            Self::Map(map) => map.len(),
            Self::Optional(Some(value)) => return value.size(),
            Self::Ip(address) => {
                if address.is_ipv4() {
                    4
                } else {
                    16
                }
            }
            Self::Cidr(_, bits) => usize::from(*bits).div_ceil(8),
            _ => 1,
        };
        size as u64
    }

    /// The value as a key of a map, if it can be one.
    pub fn key(&self) -> Option<Key> {
        match self {
            Self::Bool(value) => Some(Key::Bool(*value)),
            Self::Int(value) => Some(Key::Number(i128::from(*value), Unsigned(false))),
            Self::Uint(value) => Some(Key::Number(i128::from(*value), Unsigned(true))),
            Self::Double(value) if value.fract() == 0.0 && value.abs() < 1e18 => {
                #[expect(clippy::cast_possible_truncation, reason = "checked to be whole and small")]
                let whole = *value as i128;
                Some(Key::Number(whole, Unsigned(false)))
            }
            Self::String(Text::Made(text)) => Some(Key::String(Arc::clone(text))),
            Self::String(Text::Data(text)) => Some(Key::String(Arc::from(*text))),
            _ => None,
        }
    }
}

impl Key {
    pub fn val<'a>(&self) -> Val<'a> {
        match self {
            Self::Bool(value) => Val::Bool(*value),
            Self::Number(value, Unsigned(true)) => Val::Uint(u64::try_from(*value).unwrap_or_default()),
            Self::Number(value, _) => Val::Int(i64::try_from(*value).unwrap_or_default()),
            Self::String(text) => Val::String(Text::Made(Arc::clone(text))),
        }
    }
}
