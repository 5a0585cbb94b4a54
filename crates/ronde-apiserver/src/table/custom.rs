//! Columns and cells of custom resources: `additionalPrinterColumns` of the definition, by JSON path.

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::{Number, Value, json};

use super::{
    age,
    column::{AGE, Column, NAME},
    field::{int, name, text},
};
use crate::jsonpath::JsonPath;

/// What the real server's JSON encoder escapes beyond need, so that its output is safe inside HTML.
const ESCAPES: [(char, &str); 5] =
    [('<', "\\u003c"), ('>', "\\u003e"), ('&', "\\u0026"), ('\u{2028}', "\\u2028"), ('\u{2029}', "\\u2029")];

/// The first column is the name. Without any column given, the second is the age.
pub(super) fn columns(printer_columns: &[Value]) -> (Vec<Column>, Vec<JsonPath>) {
    let age = [json!({
        "name": "Age", "type": "date", "description": AGE.description, "jsonPath": ".metadata.creationTimestamp",
    })];
    let printer_columns = if printer_columns.is_empty() { &age } else { printer_columns };
    let mut definitions = vec![NAME];
    let mut paths = Vec::with_capacity(printer_columns.len());
    for column in printer_columns {
        let Ok(path) = JsonPath::parse(text(&column["jsonPath"])) else { break };
        definitions.push(definition(column));
        paths.push(path);
    }
    (definitions, paths)
}

fn definition(column: &Value) -> Column {
    let owned = |field: &str| Cow::Owned(text(&column[field]).to_owned());
    let description = match text(&column["description"]) {
        "" => format!("Custom resource definition column (in JSONPath format): {}", text(&column["jsonPath"])),
        description => description.to_owned(),
    };
    Column {
        name: owned("name"),
        cell_type: owned("type"),
        format: owned("format"),
        description: Cow::Owned(description),
        priority: int(&column["priority"]),
    }
}

pub(super) fn cells(definitions: &[Column], paths: &[JsonPath], object: &Value, now: Timestamp) -> Vec<Value> {
    let mut cells = Vec::with_capacity(definitions.len());
    cells.push(name(object).into());
    for (definition, path) in definitions.iter().skip(1).zip(paths) {
        cells.push(path.first(object).map_or(Value::Null, |value| cell(&definition.cell_type, value, now)));
    }
    cells
}

/// A value that is not of the type of its column leaves the cell empty; a column of strings shows everything.
fn cell(cell_type: &str, value: &Value, now: Timestamp) -> Value {
    match (cell_type, value) {
        ("string", _) => Value::String(printed(value)),
        ("integer", Value::Number(number)) => truncated(number).into(),
        ("number", Value::Number(number)) => whole(number).map_or_else(|| value.clone(), Value::from),
        ("boolean", Value::Bool(_)) => value.clone(),
        ("date", Value::String(text)) => date(text, value, now).into(),
        _ => Value::Null,
    }
}

fn date(text: &str, value: &Value, now: Timestamp) -> String {
    // The two spellings of "no time" that the real server takes.
    if matches!(text, "" | "null") {
        return age::UNKNOWN.to_owned();
    }
    if is_rfc3339(text) { age::since(value, now) } else { age::INVALID.to_owned() }
}

/// Stricter than the parser of our time library, which takes other ISO 8601 forms too.
fn is_rfc3339(text: &str) -> bool {
    let has_full_time = text.len() >= "2006-01-02T15:04:05Z".len() && text.as_bytes().get(10) == Some(&b'T');
    let offset_colon = text.len().checked_sub(3).and_then(|index| text.as_bytes().get(index));
    has_full_time && (text.ends_with('Z') || offset_colon == Some(&b':')) && text.parse::<Timestamp>().is_ok()
}

/// A whole number, which is written without a fraction even if it came with one.
fn whole(number: &Number) -> Option<i64> {
    let truncated = truncated(number);
    #[expect(clippy::cast_precision_loss, reason = "what is lost is unequal, and stays a float")]
    let is_whole = number.as_f64() == Some(truncated as f64);
    is_whole.then_some(truncated)
}

#[expect(clippy::cast_possible_truncation, reason = "the fraction is meant to be cut off; out of range saturates")]
fn truncated(number: &Number) -> i64 {
    number.as_i64().or_else(|| number.as_f64().map(|float| float as i64)).unwrap_or_default()
}

/// Writes a value the way the real server's JSON path printer does.
fn printed(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => printed_number(number),
        Value::String(text) => text.clone(),
        Value::Array(_) | Value::Object(_) => {
            ESCAPES.iter().fold(
                value.to_string(),
                |json, (c, escape)| {
                    if json.contains(*c) { json.replace(*c, escape) } else { json }
                },
            )
        }
    }
}

/// Writes a number with an exponent from a million on and below a ten-thousandth, unless it is an integer.
fn printed_number(number: &Number) -> String {
    let (None, Some(float)) = (number.as_i64(), number.as_f64()) else { return number.to_string() };
    let scientific = format!("{float:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>().unwrap_or_default() {
        -4..6 => float.to_string(),
        exponent @ 6.. => format!("{mantissa}e+{exponent:02}"),
        exponent => format!("{mantissa}e-{:02}", exponent.unsigned_abs()),
    }
}
