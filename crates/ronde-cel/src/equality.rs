//! When values are equal, and the order of numbers.
//!
//! Equality follows the schema as in the real server: sets and keyed lists ignore order.

use std::{cmp::Ordering, sync::Arc};

use serde_json::Value;

use super::{
    containers::{List, Map},
    meter::Meter,
    value::{Eval, Key, Val, no_such_overload},
};

/// Texts are compared and copied so fast that many characters are one unit of work.
const CHARACTERS_PER_WORK: usize = 64;
/// Turning data into text is slower.
const WRITTEN_PER_WORK: usize = 8;

/// Whether two values are equal; values of different types are not, except for numbers.
pub(super) fn equal<'a>(meter: &mut Meter, left: &Val<'a>, right: &Val<'a>) -> Eval<bool> {
    meter.work(1)?;
    Ok(match (left, right) {
        (Val::Null, Val::Null) | (Val::Optional(None), Val::Optional(None)) => true,
        (Val::Bool(l), Val::Bool(r)) => l == r,
        (Val::Int(_) | Val::Uint(_) | Val::Double(_), Val::Int(_) | Val::Uint(_) | Val::Double(_)) => {
            compare_numbers(left, right) == Some(Ordering::Equal)
        }
        (Val::String(l), Val::String(r)) => {
            meter.work(l.len().min(r.len()) / CHARACTERS_PER_WORK)?;
            **l == **r
        }
        (Val::Bytes(l), Val::Bytes(r)) => {
            meter.work(l.len().min(r.len()) / CHARACTERS_PER_WORK)?;
            l == r
        }
        (Val::Timestamp(l), Val::Timestamp(r)) => l == r,
        (Val::Duration(l), Val::Duration(r)) => l == r,
        (Val::Type(l), Val::Type(r)) => l == r,
        (Val::Quantity(l), Val::Quantity(r)) => l == r,
        (Val::Url(l), Val::Url(r)) => l.as_str() == r.as_str(),
        (Val::Ip(l), Val::Ip(r)) => l == r,
        (Val::Cidr(l, lb), Val::Cidr(r, rb)) => l == r && lb == rb,
        (Val::Semver(l), Val::Semver(r)) => l.compare(r).is_eq(),
        (Val::Format(l), Val::Format(r)) => l.name == r.name,
        (Val::Unknown(l), Val::Unknown(r)) => {
            meter.work(weight(l))?;
            l == r
        }
        (Val::List(l), Val::List(r)) => return l.equals(meter, r),
        (Val::Map(l), Val::Map(r)) => return l.equals(meter, r),
        (Val::Optional(Some(l)), Val::Optional(Some(r))) => return equal(meter, l, r),
        _ => false,
    })
}

/// The work of comparing or copying data.
pub(super) fn weight(data: &Value) -> usize {
    match data {
        Value::String(text) => 1 + text.len() / CHARACTERS_PER_WORK,
        Value::Array(items) => 1 + items.iter().map(weight).sum::<usize>(),
        Value::Object(fields) => 1 + fields.values().map(weight).sum::<usize>(),
        _ => 1,
    }
}

/// The order of two numbers of any kind; none for NaN and for what is no number.
pub(super) fn compare_numbers(left: &Val<'_>, right: &Val<'_>) -> Option<Ordering> {
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
            Val::Double(l) => compare_whole(r, *l).map(Ordering::reverse),
            _ => None,
        },
        (None, None) => match (left, right) {
            (Val::Double(l), Val::Double(r)) => l.partial_cmp(r),
            _ => None,
        },
    }
}

fn compare_whole(whole: i128, double: f64) -> Option<Ordering> {
    if double.is_nan() {
        return None;
    }
    // Beyond these every double is larger or smaller than any 64-bit number.
    let clamped = double.clamp(-1e30, 1e30);
    #[expect(clippy::cast_possible_truncation, reason = "clamped to what fits")]
    let floor = clamped.floor() as i128;
    let has_fraction = clamped.fract() != 0.0;
    Some(whole.cmp(&floor).then(if has_fraction { Ordering::Less } else { Ordering::Equal }))
}

/// A text that is the same for equal items of a set.
pub(super) type Identity = String;

pub(super) fn identity(meter: &mut Meter, item: &Val<'_>) -> Eval<Identity> {
    let identity = match item {
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
    };
    meter.work(1 + identity.len() / WRITTEN_PER_WORK)?;
    Ok(identity)
}

/// The key fields of an item of a keyed list, as one text.
pub(super) fn keys_of(meter: &mut Meter, item: &Val<'_>, keys: &[String]) -> Eval<Identity> {
    let Val::Map(map) = item else { return no_such_overload() };
    let mut identity = String::new();
    for key in keys {
        match map {
            Map::Data { entries, .. } => {
                let value = entries.get(key).map(Value::to_string);
                identity.push_str(&value.unwrap_or_default());
            }
            Map::Made(made) => match made.get(&Key::String(Arc::from(key.as_str()))) {
                Some(Val::String(text)) => identity.push_str(&Value::from(&**text).to_string()),
                Some(Val::Int(number)) => identity.push_str(&number.to_string()),
                Some(Val::Bool(value)) => identity.push_str(&value.to_string()),
                Some(_) => return no_such_overload(),
                None => {}
            },
        }
        identity.push('\0');
    }
    meter.work(1 + identity.len() / WRITTEN_PER_WORK)?;
    Ok(identity)
}
