//! Functions on strings. Positions count characters, not bytes.

use std::fmt::Write as _;

use regex::Regex;

use super::{
    super::{
        meter::Meter,
        value::{Eval, Val, fault, no_such_overload},
    },
    Builtin, printf,
};
use crate::text::regex::compile;

pub(super) fn implementation(function: &str) -> Option<Builtin> {
    Some(match function {
        "contains" => |_, args| test(args, |text, part| text.contains(part)),
        "startsWith" => |_, args| test(args, |text, part| text.starts_with(part)),
        "endsWith" => |_, args| test(args, |text, part| text.ends_with(part)),
        "matches" => |meter, args| search(meter, Search::Matches, None, args),
        "find" => |meter, args| search(meter, Search::Find, None, args),
        "findAll" => |meter, args| search(meter, Search::FindAll, None, args),
        "charAt" => char_at,
        "indexOf" => index_of,
        "lastIndexOf" => last_index_of,
        "lowerAscii" => |_, args| map(args, str::to_ascii_lowercase),
        "upperAscii" => |_, args| map(args, str::to_ascii_uppercase),
        "trim" => |_, args| map(args, |text| text.trim().to_owned()),
        "strings.quote" => |_, args| map(args, quote),
        "replace" => replace,
        "split" => split,
        "substring" => substring,
        "join" => join,
        "format" => |meter, args| match args {
            [Val::String(template), Val::List(list)] => printf::print(meter, template, list).map(Val::string),
            _ => no_such_overload(),
        },
        _ => return None,
    })
}

/// What to do with a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Search {
    Matches,
    Find,
    FindAll,
}

/// Applies a pattern that was compiled before, or compiles the one in the arguments.
pub(in super::super) fn search<'a>(
    meter: &mut Meter,
    what: Search,
    compiled: Option<&Regex>,
    args: &[Val<'a>],
) -> Eval<Val<'a>> {
    let (Some(Val::String(text)), Some(Val::String(pattern))) = (args.first(), args.get(1)) else {
        return no_such_overload();
    };
    let made;
    let regex = if let Some(regex) = compiled {
        regex
    } else {
        meter.compile_pattern()?;
        made = compile(pattern).or_else(|error| match what {
            Search::Matches => fault(error),
            _ => fault(format!("Illegal regex: {error}")),
        })?;
        &made
    };
    Ok(match what {
        Search::Matches => Val::Bool(regex.is_match(text)),
        Search::Find => Val::string(regex.find(text).map_or("", |found| found.as_str())),
        Search::FindAll => {
            let limit = match args.get(2) {
                None => usize::MAX,
                Some(Val::Int(limit)) => usize::try_from(*limit).unwrap_or(usize::MAX),
                Some(_) => return no_such_overload(),
            };
            meter.work(text.len())?;
            Val::list(regex.find_iter(text).take(limit).map(|found| Val::string(found.as_str())).collect())
        }
    })
}

fn test<'a>(args: &[Val<'a>], holds: fn(&str, &str) -> bool) -> Eval<Val<'a>> {
    match args {
        [Val::String(text), Val::String(part)] => Ok(Val::Bool(holds(text, part))),
        _ => no_such_overload(),
    }
}

fn map<'a>(args: &[Val<'a>], change: fn(&str) -> String) -> Eval<Val<'a>> {
    match args {
        [Val::String(text)] => Ok(Val::string(change(text))),
        _ => no_such_overload(),
    }
}

fn char_at<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Eval<Val<'a>> {
    let [Val::String(text), Val::Int(at)] = args else { return no_such_overload() };
    meter.work(text.len() / 16)?;
    let chars = text.chars().count();
    match usize::try_from(*at) {
        Ok(at) if at <= chars => Ok(Val::string(text.chars().nth(at).map(String::from).unwrap_or_default())),
        _ => out_of_range(*at),
    }
}

fn out_of_range<T>(at: i64) -> Eval<T> {
    fault(format!("index out of range: {at}"))
}

fn whole(at: usize) -> i64 {
    i64::try_from(at).unwrap_or(i64::MAX)
}

fn index_of<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Eval<Val<'a>> {
    let (text, part, from) = match args {
        [Val::String(text), Val::String(part)] => (text, part, 0),
        [Val::String(text), Val::String(part), Val::Int(from)] => (text, part, *from),
        [Val::List(list), item] => return super::lists::index_of(meter, list, item),
        _ => return no_such_overload(),
    };
    if part.is_empty() {
        return Ok(Val::Int(from));
    }
    let Ok(from) = usize::try_from(from) else { return out_of_range(from) };
    meter.work(text.len())?;
    let Some(start) = text.char_indices().nth(from).map(|(at, _)| at) else { return Ok(Val::Int(-1)) };
    let found = text[start..].find(&**part).map(|at| whole(from + text[start..start + at].chars().count()));
    Ok(Val::Int(found.unwrap_or(-1)))
}

fn last_index_of<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Eval<Val<'a>> {
    let (text, part, from) = match args {
        [Val::String(text), Val::String(part)] => (text, part, None),
        [Val::String(text), Val::String(part), Val::Int(from)] => (text, part, Some(*from)),
        [Val::List(list), item] => return super::lists::last_index_of(meter, list, item),
        _ => return no_such_overload(),
    };
    let chars = text.chars().count();
    if part.is_empty() {
        return Ok(Val::Int(from.unwrap_or_else(|| whole(chars))));
    }
    meter.work(text.len())?;
    let end = match from {
        None => text.len(),
        Some(from) => match usize::try_from(from) {
            Err(_) => return out_of_range(from),
            Ok(from) if from >= chars => return Ok(Val::Int(-1)),
            // A match may start at `from`, so it may end this much later.
            Ok(from) => {
                let start = text.char_indices().nth(from).map_or(text.len(), |(at, _)| at);
                (start + part.len()).min(text.len())
            }
        },
    };
    let head = text.get(..end).unwrap_or(text);
    let found = head.rfind(&**part).map(|at| whole(text[..at].chars().count()));
    Ok(Val::Int(found.unwrap_or(-1)))
}

fn replace<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Eval<Val<'a>> {
    let (text, from, to, limit) = match args {
        [Val::String(text), Val::String(from), Val::String(to)] => (text, from, to, -1),
        [Val::String(text), Val::String(from), Val::String(to), Val::Int(limit)] => (text, from, to, *limit),
        _ => return no_such_overload(),
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    // The result is as long as there are places to replace, which the cost of the call does not count.
    let places = if from.is_empty() { text.chars().count() + 1 } else { text.matches(&**from).count() };
    meter.work(text.len().saturating_add(places.min(limit).saturating_mul(to.len())))?;
    Ok(Val::string(text.replacen(&**from, to, limit)))
}

fn split<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Eval<Val<'a>> {
    let (text, separator, limit) = match args {
        [Val::String(text), Val::String(separator)] => (text, separator, -1),
        [Val::String(text), Val::String(separator), Val::Int(limit)] => (text, separator, *limit),
        _ => return no_such_overload(),
    };
    if limit == 0 {
        return Ok(Val::list(Vec::new()));
    }
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    meter.work(text.len() + 1)?;
    let parts: Vec<Val<'a>> = if separator.is_empty() {
        let mut parts: Vec<String> = text.chars().take(limit.saturating_sub(1)).map(String::from).collect();
        let rest: String = text.chars().skip(parts.len()).collect();
        if !rest.is_empty() {
            parts.push(rest);
        }
        parts.into_iter().map(Val::string).collect()
    } else {
        text.splitn(limit, &**separator).map(Val::string).collect()
    };
    Ok(Val::list(parts))
}

fn substring<'a>(_: &mut Meter, args: &[Val<'a>]) -> Eval<Val<'a>> {
    let (text, start, end) = match args {
        [Val::String(text), Val::Int(start)] => (text, *start, None),
        [Val::String(text), Val::Int(start), Val::Int(end)] => (text, *start, Some(*end)),
        _ => return no_such_overload(),
    };
    let chars = whole(text.chars().count());
    let end = end.unwrap_or(chars.max(start));
    if start > end {
        return fault(format!("invalid substring range. start: {start}, end: {end}"));
    }
    for at in [start, end] {
        if at < 0 || at > chars {
            return out_of_range(at);
        }
    }
    let skip = usize::try_from(start).unwrap_or_default();
    let take = usize::try_from(end - start).unwrap_or_default();
    Ok(Val::string(text.chars().skip(skip).take(take).collect::<String>()))
}

fn join<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Eval<Val<'a>> {
    let (list, separator) = match args {
        [Val::List(list)] => (list, ""),
        [Val::List(list), Val::String(separator)] => (list, &**separator),
        _ => return no_such_overload(),
    };
    let mut out = String::new();
    for (at, item) in list.iter().enumerate() {
        let Val::String(text) = item? else { return fault("join: invalid input") };
        meter.work(separator.len() + text.len())?;
        if at > 0 {
            out.push_str(separator);
        }
        out.push_str(&text);
    }
    Ok(Val::string(out))
}

/// The text between double quotes, with everything escaped that needs it.
fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        let escaped = match c {
            '\u{7}' => "\\a",
            '\u{8}' => "\\b",
            '\u{c}' => "\\f",
            '\n' => "\\n",
            '\r' => "\\r",
            '\t' => "\\t",
            '\u{b}' => "\\v",
            '\\' => "\\\\",
            '"' => "\\\"",
            other => {
                let _ = write!(out, "{other}");
                continue;
            }
        };
        out.push_str(escaped);
    }
    out.push('"');
    out
}
