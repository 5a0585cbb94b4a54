//! Values as the real server prints them in the errors of patches: Go's `%v`, as in `map[name:web ports:[80 443]]`.

use std::fmt::Write as _;

use serde_json::{Map, Number, Value};

/// From this power of ten on, Go writes floats with an exponent.
const EXPONENT_MIN: i32 = 21;

/// Prints a value.
pub(super) fn value(value: &Value) -> String {
    let mut out = String::new();
    write(&mut out, value);
    out
}

/// Prints an object.
pub(super) fn object(fields: &Map<String, Value>) -> String {
    let mut out = String::new();
    write_object(&mut out, fields);
    out
}

/// Prints a list.
pub(super) fn list(items: &[Value]) -> String {
    let mut out = String::new();
    write_list(&mut out, items);
    out
}

/// The Go type of a value.
pub(super) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Prints a value where Go was told that it would be a text (`%s`).
pub(super) fn as_text(found: &Value) -> String {
    match found {
        Value::Null => "%!s(<nil>)".to_owned(),
        Value::Bool(_) | Value::Number(_) => format!("%!s({}={})", go_type(found), value(found)),
        _ => value(found),
    }
}

fn write(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
        Value::Number(number) => write_number(out, number),
        Value::String(text) => out.push_str(text),
        Value::Array(items) => write_list(out, items),
        Value::Object(fields) => write_object(out, fields),
    }
}

fn write_list(out: &mut String, items: &[Value]) {
    out.push('[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(' ');
        }
        write(out, item);
    }
    out.push(']');
}

fn write_object(out: &mut String, fields: &Map<String, Value>) {
    out.push_str("map[");
    for (index, (name, value)) in fields.iter().enumerate() {
        if index > 0 {
            out.push(' ');
        }
        out.push_str(name);
        out.push(':');
        write(out, value);
    }
    out.push(']');
}

fn write_number(out: &mut String, number: &Number) {
    let Some(float) = number.as_f64().filter(|_| !number.is_i64()) else {
        let _ = write!(out, "{number}");
        return;
    };
    let scientific = format!("{float:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..EXPONENT_MIN).contains(&exponent) {
        let _ = write!(out, "{float}");
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = write!(out, "{digits}e{sign}{:02}", exponent.unsigned_abs());
    }
}
