//! Optional values.

use super::{
    super::{
        containers::List,
        value::{Eval, Val, fault, no_such_overload},
    },
    Builtin,
};

pub(super) fn implementation(function: &str) -> Option<Builtin> {
    Some(match function {
        "optional.of" => |_, args| Ok(Val::some(args[0].clone())),
        "optional.ofNonZeroValue" => {
            |_, args| Ok(if is_zero(&args[0]) { Val::Optional(None) } else { Val::some(args[0].clone()) })
        }
        "optional.none" => |_, _| Ok(Val::Optional(None)),
        "hasValue" => |_, args| match args {
            [Val::Optional(value)] => Ok(Val::Bool(value.is_some())),
            _ => no_such_overload(),
        },
        "value" => |_, args| match args {
            [Val::Optional(Some(value))] => Ok((**value).clone()),
            [Val::Optional(None)] => fault("optional.none() dereference"),
            _ => no_such_overload(),
        },
        "first" => |_, args| end(args, |_| 0),
        "last" => |_, args| end(args, |list| list.len() - 1),
        "optional.unwrap" | "unwrapOpt" => |meter, args| {
            let [Val::List(list)] = args else { return no_such_overload() };
            meter.work(list.len())?;
            let values = list.iter().filter_map(|item| match item {
                Ok(Val::Optional(value)) => value.map(|value| Ok((*value).clone())),
                Ok(_) => Some(fault("value is not optional")),
                Err(error) => Some(Err(error)),
            });
            values.collect::<Eval<Vec<_>>>().map(Val::list)
        },
        _ => return None,
    })
}

fn end<'a>(args: &[Val<'a>], at: fn(&List<'_>) -> usize) -> Eval<Val<'a>> {
    match args {
        [Val::List(list)] if list.len() == 0 => Ok(Val::Optional(None)),
        [Val::List(list)] => match list.get(at(list)) {
            Some(item) => item.map(Val::some),
            None => Ok(Val::Optional(None)),
        },
        _ => no_such_overload(),
    }
}

fn is_zero(value: &Val<'_>) -> bool {
    match value {
        Val::Null => true,
        Val::Bool(value) => !value,
        Val::Int(value) | Val::Duration(value) => *value == 0,
        Val::Uint(value) => *value == 0,
        Val::Double(value) => *value == 0.0,
        Val::String(text) => text.is_empty(),
        Val::Bytes(bytes) => bytes.is_empty(),
        Val::List(list) => list.len() == 0,
        Val::Map(map) => map.len() == 0,
        Val::Optional(value) => value.is_none(),
        _ => false,
    }
}
