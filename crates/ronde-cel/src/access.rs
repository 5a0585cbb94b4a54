//! Reaching into values: fields, indices, and whether something is there.

use std::sync::Arc;

use super::value::{Eval, Key, Val, fault, no_such_overload};

/// `has(operand.name)`
pub(super) fn has(operand: &Val<'_>, name: &Arc<str>) -> Eval<bool> {
    match operand {
        Val::Map(map) => Ok(map.find(&Key::String(Arc::clone(name)))?.is_some()),
        Val::Optional(Some(value)) => has(value, name),
        Val::Optional(None) => Ok(false),
        _ => no_such_overload(),
    }
}

/// `operand.name`; on an optional, what is absent stays absent.
pub(super) fn field<'a>(operand: &Val<'a>, name: &Arc<str>) -> Eval<Val<'a>> {
    match operand {
        Val::Map(map) => match map.find(&Key::String(Arc::clone(name)))? {
            Some(value) => Ok(value),
            None => fault(format!("no such key: {name}")),
        },
        Val::Optional(None) => Ok(Val::Optional(None)),
        Val::Optional(Some(value)) => match &**value {
            Val::Map(map) => Ok(map.find(&Key::String(Arc::clone(name)))?.map_or(Val::Optional(None), Val::some)),
            _ => no_such_overload(),
        },
        _ => no_such_overload(),
    }
}

/// `operand[index]`
pub(super) fn at<'a>(operand: &Val<'a>, index: &Val<'a>) -> Eval<Val<'a>> {
    match operand {
        Val::Optional(None) => Ok(Val::Optional(None)),
        Val::Optional(Some(value)) => optional_at(value, index),
        Val::List(_) | Val::Map(_) => {
            let what = if matches!(operand, Val::List(_)) { "index out of bounds" } else { "no such key" };
            let missing = || fault(format!("{what}: {}", shown_index(index)));
            lookup(operand, index)?.map_or_else(missing, Ok)
        }
        _ => no_such_overload(),
    }
}

/// `operand[?index]`
pub(super) fn optional_at<'a>(operand: &Val<'a>, index: &Val<'a>) -> Eval<Val<'a>> {
    match operand {
        Val::Optional(None) => Ok(Val::Optional(None)),
        Val::Optional(Some(value)) => optional_at(value, index),
        _ => Ok(lookup(operand, index)?.map_or(Val::Optional(None), Val::some)),
    }
}

fn lookup<'a>(operand: &Val<'a>, index: &Val<'a>) -> Eval<Option<Val<'a>>> {
    match (operand, index.key()) {
        (Val::List(list), Some(Key::Number(at, _))) => usize::try_from(at).ok().and_then(|at| list.get(at)).transpose(),
        (Val::Map(map), Some(key)) => map.find(&key),
        _ => no_such_overload(),
    }
}

fn shown_index(index: &Val<'_>) -> String {
    match index {
        Val::Int(value) => value.to_string(),
        Val::Uint(value) => value.to_string(),
        Val::Bool(value) => value.to_string(),
        Val::Double(value) => value.to_string(),
        Val::String(text) => text.to_string(),
        other => other.type_name().to_owned(),
    }
}
