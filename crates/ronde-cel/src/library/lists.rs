//! Functions on lists and sets.

use std::{cmp::Ordering, rc::Rc};

use super::{
    super::{
        containers::{List, Map},
        equality::equal,
        meter::Meter,
        value::{Eval, Key, Val, fault, no_such_overload},
    },
    Builtin,
    standard::{add, compare},
};

pub(super) fn implementation(function: &str) -> Option<Builtin> {
    Some(match function {
        "isSorted" => is_sorted,
        "min" => |_, args| extreme(args, "min", Ordering::Greater),
        "max" => |_, args| extreme(args, "max", Ordering::Less),
        "sets.contains" => |meter, args| with_two(meter, args, contains_all),
        "sets.intersects" => |meter, args| with_two(meter, args, intersects),
        "sets.equivalent" => |meter, args| with_two(meter, args, equivalent),
        "cel.@mapInsert" => insert,
        _ => return None,
    })
}

type Relation = for<'b> fn(&mut Meter, &List<'b>, &List<'b>) -> Eval<bool>;

fn with_two<'a>(meter: &mut Meter, args: &[Val<'a>], holds: Relation) -> Eval<Val<'a>> {
    match args {
        [Val::List(left), Val::List(right)] => holds(meter, left, right).map(Val::Bool),
        _ => no_such_overload(),
    }
}

fn equivalent<'a>(meter: &mut Meter, left: &List<'a>, right: &List<'a>) -> Eval<bool> {
    Ok(contains_all(meter, left, right)? && contains_all(meter, right, left)?)
}

fn contains_all<'a>(meter: &mut Meter, list: &List<'a>, part: &List<'a>) -> Eval<bool> {
    for item in part.iter() {
        if !list.contains(meter, &item?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn intersects<'a>(meter: &mut Meter, left: &List<'a>, right: &List<'a>) -> Eval<bool> {
    for item in left.iter() {
        if right.contains(meter, &item?)? {
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

pub(super) fn index_of<'a>(meter: &mut Meter, list: &List<'a>, wanted: &Val<'a>) -> Eval<Val<'a>> {
    for (at, item) in list.iter().enumerate() {
        if equal(meter, &item?, wanted)? {
            return Ok(Val::Int(i64::try_from(at).unwrap_or(i64::MAX)));
        }
    }
    Ok(Val::Int(-1))
}

pub(super) fn last_index_of<'a>(meter: &mut Meter, list: &List<'a>, wanted: &Val<'a>) -> Eval<Val<'a>> {
    for at in (0..list.len()).rev() {
        if let Some(item) = list.get(at)
            && equal(meter, &item?, wanted)?
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
            meter.work(other.len())?;
            let pair = |key: Key| Ok((key.val(), other.find(&key)?.unwrap_or(Val::Null)));
            other.keys().map(pair).collect::<Eval<_>>()?
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
            let shown = super::printf::text_of(meter, &key.val()).unwrap_or_default();
            return fault(format!("insert failed: key {shown} already exists"));
        }
        entries.insert(key, value);
    }
    Ok(Val::Map(Map::Made(map)))
}
