//! Operators and conversions of the language itself.

use std::cmp::Ordering;

use super::{
    super::{
        equality::{compare_numbers, equal},
        meter::Meter,
        value::{Eval, Fault, Text, Val, fault, no_such_overload},
    },
    Builtin,
};
use crate::text::{duration, number, time::Time};

pub(super) fn implementation(function: &str) -> Option<Builtin> {
    Some(match function {
        "_==_" => |meter, args| equal(meter, &args[0], &args[1]).map(Val::Bool),
        // Values that cannot be compared are not equal.
        "_!=_" => |meter, args| match equal(meter, &args[0], &args[1]) {
            Err(Fault::Error(_)) => Ok(Val::Bool(true)),
            result => result.map(|equal| Val::Bool(!equal)),
        },
        "_<_" => |_, args| ordered(args, |order| order == Ordering::Less),
        "_<=_" => |_, args| ordered(args, |order| order != Ordering::Greater),
        "_>_" => |_, args| ordered(args, |order| order == Ordering::Greater),
        "_>=_" => |_, args| ordered(args, |order| order != Ordering::Less),
        "!_" => |_, args| match args {
            [Val::Bool(value)] => Ok(Val::Bool(!value)),
            _ => no_such_overload(),
        },
        "_+_" => |meter, args| add(meter, &args[0], &args[1]),
        "_-_" => |_, args| subtract(&args[0], &args[1]),
        "_*_" => |_, args| multiply(&args[0], &args[1]),
        "_/_" => |_, args| divide(&args[0], &args[1]),
        "_%_" => |_, args| modulo(&args[0], &args[1]),
        "-_" => |_, args| negate(&args[0]),
        "@in" => |meter, args| match &args[1] {
            Val::List(list) => list.contains(meter, &args[0]).map(Val::Bool),
            Val::Map(map) => match args[0].key() {
                Some(key) => Ok(Val::Bool(map.find(&key)?.is_some())),
                None => Ok(Val::Bool(false)),
            },
            _ => no_such_overload(),
        },
        "size" => |_, args| match &args[0] {
            Val::String(_) | Val::Bytes(_) | Val::List(_) | Val::Map(_) => {
                Ok(Val::Int(i64::try_from(args[0].size()).unwrap_or(i64::MAX)))
            }
            _ => no_such_overload(),
        },
        "type" => |_, args| Ok(Val::Type(args[0].type_name().into())),
        "dyn" => |_, args| Ok(args[0].clone()),
        "bool" => |_, args| to_bool(&args[0]),
        "int" => |_, args| to_int(&args[0]),
        "uint" => |_, args| to_uint(&args[0]),
        "double" => |_, args| to_double(&args[0]),
        "string" => |_, args| to_string(&args[0]),
        "bytes" => |_, args| match &args[0] {
            Val::String(text) => Ok(Val::Bytes(text.as_bytes().into())),
            Val::Bytes(bytes) => Ok(Val::Bytes(bytes.clone())),
            other => conversion(other, "bytes"),
        },
        "duration" => |_, args| to_duration(&args[0]),
        "timestamp" => |_, args| to_timestamp(&args[0]),
        _ => return None,
    })
}

fn conversion<'a>(from: &Val<'_>, to: &str) -> Eval<Val<'a>> {
    fault(format!("type conversion error from '{}' to '{to}'", from.type_name()))
}

/// The order of two values of one kind.
pub(super) fn compare(left: &Val<'_>, right: &Val<'_>) -> Eval<Ordering> {
    match (left, right) {
        (Val::Bool(l), Val::Bool(r)) => Ok(l.cmp(r)),
        (Val::String(l), Val::String(r)) => Ok((**l).cmp(&**r)),
        (Val::Bytes(l), Val::Bytes(r)) => Ok(l.cmp(r)),
        (Val::Timestamp(l), Val::Timestamp(r)) => Ok(l.cmp(r)),
        (Val::Duration(l), Val::Duration(r)) => Ok(l.cmp(r)),
        (Val::Double(d), _) | (_, Val::Double(d)) if d.is_nan() => fault("NaN values cannot be ordered"),
        _ => compare_numbers(left, right).map_or_else(no_such_overload, Ok),
    }
}

fn ordered<'a>(args: &[Val<'a>], holds: fn(Ordering) -> bool) -> Eval<Val<'a>> {
    compare(&args[0], &args[1]).map(|order| Val::Bool(holds(order)))
}

fn int<'a>(value: Option<i64>) -> Eval<Val<'a>> {
    value.map_or_else(|| fault("integer overflow"), |value| Ok(Val::Int(value)))
}

fn uint<'a>(value: Option<u64>) -> Eval<Val<'a>> {
    value.map_or_else(|| fault("unsigned integer overflow"), |value| Ok(Val::Uint(value)))
}

fn nanoseconds<'a>(value: Option<i64>) -> Eval<Val<'a>> {
    value.map_or_else(|| fault("duration overflow"), |value| Ok(Val::Duration(value)))
}

fn timestamp<'a>(value: Option<Time>) -> Eval<Val<'a>> {
    value.map_or_else(|| fault("timestamp overflow"), |value| Ok(Val::Timestamp(value)))
}

pub(in super::super) fn add<'a>(meter: &mut Meter, left: &Val<'a>, right: &Val<'a>) -> Eval<Val<'a>> {
    match (left, right) {
        (Val::Int(l), Val::Int(r)) => int(l.checked_add(*r)),
        (Val::Uint(l), Val::Uint(r)) => uint(l.checked_add(*r)),
        (Val::Double(l), Val::Double(r)) => Ok(Val::Double(l + r)),
        (Val::String(l), Val::String(r)) => {
            meter.work(l.len() + r.len())?;
            Ok(Val::string([&**l, &**r].concat()))
        }
        (Val::Bytes(l), Val::Bytes(r)) => {
            meter.work(l.len() + r.len())?;
            Ok(Val::Bytes([&**l, &**r].concat().into()))
        }
        (Val::List(l), Val::List(r)) => l.concat(meter, r).map(Val::List),
        (Val::Duration(l), Val::Duration(r)) => nanoseconds(l.checked_add(*r)),
        (Val::Timestamp(time), Val::Duration(by)) | (Val::Duration(by), Val::Timestamp(time)) => {
            timestamp(time.checked_add(*by))
        }
        _ => no_such_overload(),
    }
}

fn subtract<'a>(left: &Val<'a>, right: &Val<'a>) -> Eval<Val<'a>> {
    match (left, right) {
        (Val::Int(l), Val::Int(r)) => int(l.checked_sub(*r)),
        (Val::Uint(l), Val::Uint(r)) => uint(l.checked_sub(*r)),
        (Val::Double(l), Val::Double(r)) => Ok(Val::Double(l - r)),
        (Val::Duration(l), Val::Duration(r)) => nanoseconds(l.checked_sub(*r)),
        (Val::Timestamp(l), Val::Timestamp(r)) => nanoseconds(l.checked_sub(*r)),
        (Val::Timestamp(time), Val::Duration(by)) => timestamp(by.checked_neg().and_then(|by| time.checked_add(by))),
        _ => no_such_overload(),
    }
}

fn multiply<'a>(left: &Val<'a>, right: &Val<'a>) -> Eval<Val<'a>> {
    match (left, right) {
        (Val::Int(l), Val::Int(r)) => int(l.checked_mul(*r)),
        (Val::Uint(l), Val::Uint(r)) => uint(l.checked_mul(*r)),
        (Val::Double(l), Val::Double(r)) => Ok(Val::Double(l * r)),
        _ => no_such_overload(),
    }
}

fn divide<'a>(left: &Val<'a>, right: &Val<'a>) -> Eval<Val<'a>> {
    match (left, right) {
        (Val::Int(_), Val::Int(0)) | (Val::Uint(_), Val::Uint(0)) => fault("division by zero"),
        (Val::Int(l), Val::Int(r)) => int(l.checked_div(*r)),
        (Val::Uint(l), Val::Uint(r)) => uint(l.checked_div(*r)),
        (Val::Double(l), Val::Double(r)) => Ok(Val::Double(l / r)),
        _ => no_such_overload(),
    }
}

fn modulo<'a>(left: &Val<'a>, right: &Val<'a>) -> Eval<Val<'a>> {
    match (left, right) {
        (Val::Int(_), Val::Int(0)) | (Val::Uint(_), Val::Uint(0)) => fault("modulus by zero"),
        (Val::Int(l), Val::Int(r)) => int(l.checked_rem(*r)),
        (Val::Uint(l), Val::Uint(r)) => uint(l.checked_rem(*r)),
        _ => no_such_overload(),
    }
}

fn negate<'a>(value: &Val<'a>) -> Eval<Val<'a>> {
    match value {
        Val::Int(value) => int(value.checked_neg()),
        Val::Double(value) => Ok(Val::Double(-value)),
        Val::Duration(value) => nanoseconds(value.checked_neg()),
        _ => no_such_overload(),
    }
}

fn to_bool<'a>(value: &Val<'a>) -> Eval<Val<'a>> {
    match value {
        Val::Bool(value) => Ok(Val::Bool(*value)),
        Val::String(text) => match &**text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Val::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Val::Bool(false)),
            _ => conversion(value, "bool"),
        },
        other => conversion(other, "bool"),
    }
}

fn to_int<'a>(value: &Val<'a>) -> Eval<Val<'a>> {
    match value {
        Val::Int(value) => Ok(Val::Int(*value)),
        Val::Uint(value) => int(i64::try_from(*value).ok()),
        // The bounds are excluded on both sides, as in the real server.
        Val::Double(value) if value.abs() < 9_223_372_036_854_775_808.0 => {
            #[expect(clippy::cast_possible_truncation, reason = "checked to fit; conversion drops the fraction")]
            let whole = *value as i64;
            Ok(Val::Int(whole))
        }
        Val::Double(_) => int(None),
        Val::String(text) => match text.parse() {
            Ok(number) => Ok(Val::Int(number)),
            Err(_) => conversion(value, "int"),
        },
        Val::Timestamp(time) => Ok(Val::Int(time.seconds)),
        Val::Duration(nanoseconds) => Ok(Val::Int(*nanoseconds)),
        other => conversion(other, "int"),
    }
}

fn to_uint<'a>(value: &Val<'a>) -> Eval<Val<'a>> {
    match value {
        Val::Uint(value) => Ok(Val::Uint(*value)),
        Val::Int(value) => uint(u64::try_from(*value).ok()),
        Val::Double(value) if *value >= 0.0 && *value < 1.844_674_407_370_955_2e19 => {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to fit")]
            let whole = *value as u64;
            Ok(Val::Uint(whole))
        }
        Val::Double(_) => uint(None),
        Val::String(text) if !text.starts_with('+') => match text.parse() {
            Ok(number) => Ok(Val::Uint(number)),
            Err(_) => conversion(value, "uint"),
        },
        other => conversion(other, "uint"),
    }
}

fn to_double<'a>(value: &Val<'a>) -> Eval<Val<'a>> {
    #[expect(clippy::cast_precision_loss, reason = "conversion to double loses precision by definition")]
    match value {
        Val::Double(value) => Ok(Val::Double(*value)),
        Val::Int(value) => Ok(Val::Double(*value as f64)),
        Val::Uint(value) => Ok(Val::Double(*value as f64)),
        Val::String(text) => match text.parse() {
            Ok(number) => Ok(Val::Double(number)),
            Err(_) => conversion(value, "double"),
        },
        other => conversion(other, "double"),
    }
}

/// The text of a value, for `string(x)` and for `%s`.
pub(super) fn to_string<'a>(value: &Val<'a>) -> Eval<Val<'a>> {
    Ok(match value {
        Val::String(text) => Val::String(text.clone()),
        Val::Bool(value) => Val::string(value.to_string()),
        Val::Int(value) => Val::string(value.to_string()),
        Val::Uint(value) => Val::string(value.to_string()),
        Val::Double(value) => Val::string(number::shortest(*value)),
        Val::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Val::string(text),
            Err(_) => return fault("invalid UTF-8 in bytes, cannot convert to string"),
        },
        Val::Timestamp(time) => Val::string(time.to_string()),
        Val::Duration(nanoseconds) => Val::string(number::seconds(*nanoseconds)),
        Val::Ip(address) => Val::string(address.to_string()),
        Val::Cidr(address, bits) => Val::string(format!("{address}/{bits}")),
        Val::Type(name) => Val::String(Text::Made(name.clone())),
        other => return conversion(other, "string"),
    })
}

fn to_duration<'a>(value: &Val<'a>) -> Eval<Val<'a>> {
    match value {
        Val::Duration(nanoseconds) | Val::Int(nanoseconds) => Ok(Val::Duration(*nanoseconds)),
        Val::String(text) => match duration::parse(text) {
            Some(nanoseconds) => Ok(Val::Duration(nanoseconds)),
            None => conversion(value, "google.protobuf.Duration"),
        },
        other => conversion(other, "google.protobuf.Duration"),
    }
}

fn to_timestamp<'a>(value: &Val<'a>) -> Eval<Val<'a>> {
    match value {
        Val::Timestamp(time) => Ok(Val::Timestamp(*time)),
        Val::Int(seconds) => timestamp(Some(Time::at(*seconds, 0)).filter(|time| time.is_in_range())),
        Val::String(text) => match Time::parse(text) {
            Some(time) => timestamp(Some(time).filter(|time| time.is_in_range())),
            None => conversion(value, "google.protobuf.Timestamp"),
        },
        other => conversion(other, "google.protobuf.Timestamp"),
    }
}

/// Whether `timestamp('…')` would work; rules with literals that do not are refused.
pub(in super::super) fn parse_timestamp(text: &str) -> bool {
    Time::parse(text).is_some_and(Time::is_in_range)
}
