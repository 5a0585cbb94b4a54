//! Functions on lists and sets.

use std::{cmp::Ordering, rc::Rc};

use super::{
    super::{
        meter::Meter,
        value::{Eval, List, Map, Val, equal, fault, no_such_overload},
    },
    Builtin,
    standard::{add, compare},
};

pub(super) fn implementation(function: &str) -> Option<Builtin> {
    Some(match function {
        "isSorted" => is_sorted,
        "min" => |_, args| extreme(args, "min", Ordering::Greater),
        "max" => |_, args| extreme(args, "max", Ordering::Less),
        "sets.contains" => |_, args| with_two(args, contains_all),
        "sets.intersects" => |_, args| with_two(args, intersects),
        "sets.equivalent" => {
            |_, args| with_two(args, |left, right| Ok(contains_all(left, right)? && contains_all(right, left)?))
        }
        "cel.@mapInsert" => insert,
        _ => return None,
    })
}

fn with_two<'a>(args: &[Val<'a>], holds: for<'b> fn(&List<'b>, &List<'b>) -> Eval<bool>) -> Eval<Val<'a>> {
    match args {
        [Val::List(left), Val::List(right)] => holds(left, right).map(Val::Bool),
        _ => no_such_overload(),
    }
}

fn contains_all(list: &List<'_>, part: &List<'_>) -> Eval<bool> {
    for item in part.iter() {
        if !list.contains(&item?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn intersects(left: &List<'_>, right: &List<'_>) -> Eval<bool> {
    for item in left.iter() {
        if right.contains(&item?)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_sorted<'a>(_: &mut Meter, args: &[Val<'a>]) -> Eval<Val<'a>> {
    let [Val::List(list)] = args else { return no_such_overload() };
    let mut previous: Option<Val<'a>> = None;
    for item in list.iter() {
        let item = item?;
        if let Some(previous) = &previous
            && compare(previous, &item)? == Ordering::Greater
        {
            return Ok(Val::Bool(false));
        }
        previous = Some(item);
    }
    Ok(Val::Bool(true))
}

/// The sum of an empty list is the zero of its type, which only the overload tells.
pub(super) fn sum_for(overloads: &[&str]) -> Builtin {
    match overloads {
        ["list_uint_sum_uint"] => |meter, args| sum(meter, args, Val::Uint(0)),
        ["list_double_sum_double"] => |meter, args| sum(meter, args, Val::Double(0.0)),
        ["list_duration_sum_duration"] => |meter, args| sum(meter, args, Val::Duration(0)),
        _ => |meter, args| sum(meter, args, Val::Int(0)),
    }
}

fn sum<'a>(meter: &mut Meter, args: &[Val<'a>], zero: Val<'a>) -> Eval<Val<'a>> {
    let [Val::List(list)] = args else { return no_such_overload() };
    let mut total = zero;
    for item in list.iter() {
        total = add(meter, &total, &item?)?;
    }
    Ok(total)
}

fn extreme<'a>(args: &[Val<'a>], name: &'static str, replaced_if: Ordering) -> Eval<Val<'a>> {
    let [Val::List(list)] = args else { return no_such_overload() };
    let mut best: Option<Val<'a>> = None;
    for item in list.iter() {
        let item = item?;
        best = Some(match best {
            Some(best) if compare(&best, &item)? != replaced_if => best,
            _ => item,
        });
    }
    best.map_or_else(|| fault(format!("{name} called on empty list")), Ok)
}

pub(super) fn index_of<'a>(list: &List<'a>, wanted: &Val<'a>) -> Eval<Val<'a>> {
    for (at, item) in list.iter().enumerate() {
        if equal(&item?, wanted)? {
            return Ok(Val::Int(i64::try_from(at).unwrap_or(i64::MAX)));
        }
    }
    Ok(Val::Int(-1))
}

pub(super) fn last_index_of<'a>(list: &List<'a>, wanted: &Val<'a>) -> Eval<Val<'a>> {
    for at in (0..list.len()).rev() {
        if let Some(item) = list.get(at)
            && equal(&item?, wanted)?
        {
            return Ok(Val::Int(i64::try_from(at).unwrap_or(i64::MAX)));
        }
    }
    Ok(Val::Int(-1))
}

/// Adds a key and value, or all entries of another map, to a map that [`super::super::eval`] owns.
fn insert<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Eval<Val<'a>> {
    let Some(Val::Map(Map::Made(map))) = args.first() else { return no_such_overload() };
    let mut map = Rc::clone(map);
    let additions: Vec<(Val<'a>, Val<'a>)> = match &args[1..] {
        [key, value] => vec![(key.clone(), value.clone())],
        [Val::Map(other)] => {
            let pair =
                |key: &_| Ok((Val::clone(&super::super::value::Key::val(key)), other.find(key)?.unwrap_or(Val::Null)));
            other.keys().iter().map(pair).collect::<Eval<_>>()?
        }
        _ => return no_such_overload(),
    };
    if Rc::strong_count(&map) > 2 {
        meter.work(map.len())?;
    }
    let entries = Rc::make_mut(&mut map);
    for (key, value) in additions {
        let Some(key) = key.key() else { return fault("unsupported key type") };
        meter.work(1)?;
        if entries.contains_key(&key) {
            let shown = super::printf::text_of(&key.val()).unwrap_or_default();
            return fault(format!("insert failed: key {shown} already exists"));
        }
        entries.insert(key, value);
    }
    Ok(Val::Map(Map::Made(map)))
}
