//! Values while a rule runs. Data of the object is borrowed, never copied: a [`Val`] of a list or map is a pair of
//! JSON and schema, and its items become values when they are looked at.
//!
//! Equality follows the schema as in the real server: sets and keyed lists ignore order.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    ops::Deref,
    rc::Rc,
    sync::Arc,
};

use serde_json::Value;

use super::{
    convert::to_val,
    escape::unescape,
    library::{format::NamedFormat, quantity::Quantity, semver::Semver},
};
use crate::schema::{
    Additional, ListType, Node,
    crd::text::{time::Time, url::Url},
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

/// A list of the object, or one that the rule made.
#[derive(Debug, Clone)]
pub(super) enum List<'a> {
    Data { items: &'a [Value], node: Node<'a> },
    Made { items: Rc<Vec<Val<'a>>>, kind: &'a ListType },
}

/// A map or object of the object, or a map that the rule made.
#[derive(Debug, Clone)]
pub(super) enum Map<'a> {
    Data { entries: &'a serde_json::Map<String, Value>, node: Node<'a> },
    Made(Rc<BTreeMap<Key, Val<'a>>>),
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

impl<'a> List<'a> {
    pub fn len(&self) -> usize {
        match self {
            Self::Data { items, .. } => items.len(),
            Self::Made { items, .. } => items.len(),
        }
    }

    pub fn get(&self, at: usize) -> Option<Eval<Val<'a>>> {
        match self {
            Self::Data { items, node } => items.get(at).map(|item| to_val(item, node.items())),
            Self::Made { items, .. } => items.get(at).cloned().map(Ok),
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = Eval<Val<'a>>> + '_ {
        (0..self.len()).filter_map(|at| self.get(at))
    }

    fn kind(&self) -> &'a ListType {
        match self {
            Self::Data { node, .. } => &node.data().list,
            Self::Made { kind, .. } => kind,
        }
    }

    pub fn contains(&self, value: &Val<'a>) -> Eval<bool> {
        for item in self.iter() {
            if equal(&item?, value)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// `self + other`: sets unite, keyed lists merge by key, others append.
    pub fn concat(&self, other: &Self) -> Eval<Self> {
        let kind = self.kind();
        let mut items: Vec<Val<'a>> = self.iter().collect::<Eval<_>>()?;
        match kind {
            ListType::Atomic => items.extend(other.iter().collect::<Eval<Vec<_>>>()?),
            ListType::Set => {
                let mut seen: BTreeSet<Identity> = items.iter().map(identity).collect::<Eval<_>>()?;
                for item in other.iter() {
                    let item = item?;
                    if seen.insert(identity(&item)?) {
                        items.push(item);
                    }
                }
            }
            ListType::Map(keys) => {
                let mut places = BTreeMap::new();
                for (at, item) in items.iter().enumerate() {
                    places.insert(keys_of(item, keys)?, at);
                }
                for item in other.iter() {
                    let item = item?;
                    match places.get(&keys_of(&item, keys)?) {
                        Some(&at) => items[at] = item,
                        None => items.push(item),
                    }
                }
            }
        }
        Ok(Self::Made { items: Rc::new(items), kind })
    }

    fn equals(&self, other: &Self) -> Eval<bool> {
        if self.len() != other.len() {
            return Ok(false);
        }
        match self.kind() {
            ListType::Atomic => {
                for (left, right) in self.iter().zip(other.iter()) {
                    if !equal(&left?, &right?)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            ListType::Set => {
                let mine: BTreeSet<Identity> = self.iter().map(|item| identity(&item?)).collect::<Eval<_>>()?;
                for item in other.iter() {
                    if !mine.contains(&identity(&item?)?) {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            ListType::Map(keys) => {
                let mut mine = BTreeMap::new();
                for item in self.iter() {
                    let item = item?;
                    mine.insert(keys_of(&item, keys)?, item);
                }
                for item in other.iter() {
                    let item = item?;
                    match mine.get(&keys_of(&item, keys)?) {
                        Some(counterpart) if equal(counterpart, &item)? => {}
                        _ => return Ok(false),
                    }
                }
                Ok(true)
            }
        }
    }
}

/// A text that is the same for equal items of a set.
type Identity = String;

fn identity(item: &Val<'_>) -> Eval<Identity> {
    Ok(match item {
        Val::String(text) => format!("s{}", &**text),
        Val::Map(Map::Data { entries, .. }) => serde_json::to_string(entries).unwrap_or_default(),
        Val::List(List::Data { items, .. }) => serde_json::to_string(items).unwrap_or_default(),
        Val::Unknown(value) => value.to_string(),
        Val::Timestamp(time) => format!("t{}.{}", time.seconds, time.nanoseconds),
        Val::Duration(nanoseconds) => format!("d{nanoseconds}"),
        Val::Bytes(bytes) => format!("b{bytes:?}"),
        Val::Double(value) => format!("f{value}"),
        other => match other.key() {
            Some(key) => format!("{key:?}"),
            None => return no_such_overload(),
        },
    })
}

/// The key fields of an item of a keyed list, as one text.
fn keys_of(item: &Val<'_>, keys: &[String]) -> Eval<Identity> {
    let Val::Map(map) = item else { return no_such_overload() };
    let values = keys.iter().map(|key| match map {
        Map::Data { entries, .. } => Ok(entries.get(key).map(Value::to_string)),
        Map::Made(made) => {
            let value = made.get(&Key::String(Arc::from(key.as_str())));
            value
                .map(|value| match value {
                    Val::String(text) => Ok(Value::from(&**text).to_string()),
                    Val::Int(number) => Ok(number.to_string()),
                    Val::Bool(value) => Ok(value.to_string()),
                    _ => no_such_overload(),
                })
                .transpose()
        }
    });
    values.map(|value| Ok(value?.unwrap_or_default())).collect::<Eval<Vec<String>>>().map(|values| values.join("\0"))
}

impl<'a> Map<'a> {
    pub fn len(&self) -> usize {
        match self {
            Self::Data { entries, .. } => entries.len(),
            Self::Made(entries) => entries.len(),
        }
    }

    /// Whether this is an object with named fields rather than a map.
    fn is_object(node: Node<'_>) -> bool {
        !node.data().properties.is_empty() || node.data().embedded_resource
    }

    fn schema_of(node: Node<'a>, key: &str) -> Option<Node<'a>> {
        match (node.data().properties.get(key), node.data().additional) {
            (Some(&id), _) | (None, Additional::Values(id)) => Some(node.at(id)),
            _ => None,
        }
    }

    /// The value under a key that a rule names. Fields of objects have escaped names, and null counts as absent.
    pub fn find(&self, key: &Key) -> Eval<Option<Val<'a>>> {
        match self {
            Self::Made(entries) => Ok(entries.get(key).cloned()),
            Self::Data { entries, node } => {
                let Key::String(name) = key else { return no_such_overload() };
                let name = if Self::is_object(*node) { unescape(name) } else { Some(Cow::Borrowed(&**name)) };
                let Some(name) = name else { return Ok(None) };
                self.find_named(entries, *node, &name)
            }
        }
    }

    #[expect(clippy::unused_self, reason = "called like the other conversions")]
    fn find_named(
        &self,
        entries: &'a serde_json::Map<String, Value>,
        node: Node<'a>,
        name: &str,
    ) -> Eval<Option<Val<'a>>> {
        match (entries.get(name), Self::schema_of(node, name)) {
            (Some(Value::Null), _) if Self::is_object(node) => Ok(None),
            (Some(value), Some(schema)) => to_val(value, Some(schema)).map(Some),
            _ => Ok(None),
        }
    }

    pub fn keys(&self) -> Vec<Key> {
        match self {
            Self::Made(entries) => entries.keys().cloned().collect(),
            Self::Data { entries, node } => {
                let is_object = Self::is_object(*node);
                let known = entries.keys().filter(|key| Self::schema_of(*node, key).is_some());
                known
                    .map(|key| {
                        let escaped = if is_object { super::escape::escape(key) } else { None };
                        Key::String(Arc::from(escaped.as_deref().unwrap_or(key)))
                    })
                    .collect()
            }
        }
    }

    fn equals(&self, other: &Self) -> Eval<bool> {
        if self.len() != other.len() {
            return Ok(false);
        }
        match self {
            Self::Made(entries) => {
                for (key, value) in &**entries {
                    match other.find(key)? {
                        Some(counterpart) if equal(value, &counterpart)? => {}
                        _ => return Ok(false),
                    }
                }
            }
            Self::Data { entries, node } => {
                for (name, value) in *entries {
                    if !self.field_equals(other, entries, *node, (name, value))? {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }

    fn field_equals(
        &self,
        other: &Self,
        entries: &'a serde_json::Map<String, Value>,
        node: Node<'a>,
        (name, value): (&str, &Value),
    ) -> Eval<bool> {
        let counterpart = match other {
            Self::Data { entries, node } => {
                if Self::schema_of(*node, name).is_none() {
                    // Fields the schema does not know are compared as they are, if both have them.
                    return Ok(entries.get(name).is_none_or(|other| other == value));
                }
                self.find_named(entries, *node, name)?
            }
            Self::Made(made) => made.get(&Key::String(Arc::from(name))).cloned(),
        };
        match (self.find_named(entries, node, name)?, counterpart) {
            (None, None) => Ok(true),
            (Some(mine), Some(theirs)) => equal(&mine, &theirs),
            _ => Ok(false),
        }
    }
}

/// Whether two values are equal; values of different types are not, except for numbers.
pub(super) fn equal<'a>(left: &Val<'a>, right: &Val<'a>) -> Eval<bool> {
    Ok(match (left, right) {
        (Val::Null, Val::Null) => true,
        (Val::Bool(l), Val::Bool(r)) => l == r,
        (Val::Int(_) | Val::Uint(_) | Val::Double(_), Val::Int(_) | Val::Uint(_) | Val::Double(_)) => {
            compare_numbers(left, right) == Some(std::cmp::Ordering::Equal)
        }
        (Val::String(l), Val::String(r)) => **l == **r,
        (Val::Bytes(l), Val::Bytes(r)) => l == r,
        (Val::Timestamp(l), Val::Timestamp(r)) => l == r,
        (Val::Duration(l), Val::Duration(r)) => l == r,
        (Val::Type(l), Val::Type(r)) => l == r,
        (Val::Quantity(l), Val::Quantity(r)) => l == r,
        (Val::Url(l), Val::Url(r)) => l.as_str() == r.as_str(),
        (Val::Ip(l), Val::Ip(r)) => l == r,
        (Val::Cidr(l, lb), Val::Cidr(r, rb)) => l == r && lb == rb,
        (Val::Semver(l), Val::Semver(r)) => l.compare(r).is_eq(),
        (Val::Format(l), Val::Format(r)) => l.name == r.name,
        (Val::Unknown(l), Val::Unknown(r)) => l == r,
        (Val::List(l), Val::List(r)) => return l.equals(r),
        (Val::Map(l), Val::Map(r)) => return l.equals(r),
        (Val::Optional(None), Val::Optional(None)) => true,
        (Val::Optional(Some(l)), Val::Optional(Some(r))) => return equal(l, r),
        _ => false,
    })
}

/// The order of two numbers of any kind; none for NaN and for what is no number.
pub(super) fn compare_numbers(left: &Val<'_>, right: &Val<'_>) -> Option<std::cmp::Ordering> {
    let whole = |value: &Val<'_>| match value {
        Val::Int(value) => Some(i128::from(*value)),
        Val::Uint(value) => Some(i128::from(*value)),
        _ => None,
    };
    match (whole(left), whole(right)) {
        (Some(l), Some(r)) => Some(l.cmp(&r)),
        (Some(l), None) => match right {
            Val::Double(r) => compare_whole(l, *r),
            _ => None,
        },
        (None, Some(r)) => match left {
            Val::Double(l) => compare_whole(r, *l).map(std::cmp::Ordering::reverse),
            _ => None,
        },
        (None, None) => match (left, right) {
            (Val::Double(l), Val::Double(r)) => l.partial_cmp(r),
            _ => None,
        },
    }
}

fn compare_whole(whole: i128, double: f64) -> Option<std::cmp::Ordering> {
    if double.is_nan() {
        return None;
    }
    // Beyond these every double is larger or smaller than any 64-bit number.
    let clamped = double.clamp(-1e30, 1e30);
    #[expect(clippy::cast_possible_truncation, reason = "clamped to what fits")]
    let floor = clamped.floor() as i128;
    let has_fraction = clamped.fract() != 0.0;
    Some(whole.cmp(&floor).then(if has_fraction { std::cmp::Ordering::Less } else { std::cmp::Ordering::Equal }))
}
