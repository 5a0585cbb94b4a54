//! The parts of timestamps and durations.

use super::{
    super::value::{Eval, Val, fault, no_such_overload},
    Builtin,
};
use crate::text::time::{Fields, Time};

pub(super) fn implementation(function: &str) -> Option<Builtin> {
    Some(match function {
        "getFullYear" => |_, args| part(args, |time| i64::from(time.date.year()), None),
        "getMonth" => |_, args| part(args, |time| i64::from(time.date.month()) - 1, None),
        "getDayOfYear" => |_, args| part(args, |time| i64::from(time.date.day_of_year()) - 1, None),
        "getDayOfMonth" => |_, args| part(args, |time| i64::from(time.date.day()) - 1, None),
        "getDate" => |_, args| part(args, |time| i64::from(time.date.day()), None),
        "getDayOfWeek" => |_, args| part(args, |time| i64::from(time.date.weekday().to_sunday_zero_offset()), None),
        "getHours" => |_, args| part(args, |time| time.hour, Some(3_600_000_000_000)),
        "getMinutes" => |_, args| part(args, |time| time.minute, Some(60_000_000_000)),
        "getSeconds" => |_, args| part(args, |time| time.second, Some(1_000_000_000)),
        "getMilliseconds" => |_, args| match args {
            [Val::Timestamp(time), ..] => Ok(Val::Int(i64::from(time.nanoseconds / 1_000_000))),
            [Val::Duration(nanoseconds)] => Ok(Val::Int(nanoseconds / 1_000_000)),
            _ => no_such_overload(),
        },
        _ => return None,
    })
}

/// A part of a time in a zone, or the whole units in a duration.
fn part<'a>(args: &[Val<'a>], of: fn(Fields) -> i64, unit: Option<i64>) -> Eval<Val<'a>> {
    match (args, unit) {
        ([Val::Timestamp(time)], _) => Ok(Val::Int(of(time.fields(0)))),
        ([Val::Timestamp(time), Val::String(zone)], _) => in_zone(*time, zone).map(|fields| Val::Int(of(fields))),
        ([Val::Duration(nanoseconds)], Some(unit)) => Ok(Val::Int(nanoseconds / unit)),
        _ => no_such_overload(),
    }
}

fn in_zone(time: Time, zone: &str) -> Eval<Fields> {
    match time.offset_in(zone) {
        Some(offset) => Ok(time.fields(offset)),
        None => fault(format!("unknown time zone {zone}")),
    }
}
