//! Turns data of an object into values, by its schema: strings with a time format become times, and so on.

use base64::{Engine as _, engine::general_purpose::URL_SAFE};
use serde_json::Value;

use super::{
    containers::{List, Map},
    value::{Eval, Text, Val, fault},
};
use crate::{
    schema::{Node, Type},
    text::{
        duration,
        time::{Time, parse_date},
    },
};

/// The value of `data`; without a schema it is unknown data.
pub(super) fn to_val<'a>(data: &'a Value, node: Option<Node<'a>>) -> Eval<Val<'a>> {
    let Some(node) = node else { return Ok(Val::Unknown(data)) };
    if data.is_null() {
        return if node.nullable || node.kind == Type::Any {
            Ok(Val::Null)
        } else {
            fault("invalid data, got null for schema with nullable=false")
        };
    }
    match (node.kind, data) {
        (Type::Any, _) => Ok(Val::Unknown(data)),
        (Type::IntOrString, Value::String(text)) => Ok(Val::String(Text::Data(text))),
        (Type::IntOrString, Value::Number(number)) if number.is_i64() => {
            Ok(Val::Int(number.as_i64().unwrap_or_default()))
        }
        (Type::IntOrString, _) => fault("invalid data, expected XIntOrString value to be either a string or integer"),
        (Type::Object, Value::Object(entries)) => Ok(Val::Map(Map::Data { entries, node })),
        (Type::Object, _) => fault("invalid data, expected a map for the provided schema with type=object"),
        (Type::Array, Value::Array(items)) => Ok(Val::List(List::Data { items, node })),
        (Type::Array, _) => fault("invalid data, expected an array for the provided schema with type=array"),
        (Type::String, Value::String(text)) => formatted(text, node),
        (Type::String, other) => fault(format!("invalid data, expected string, got {}", go_type(other))),
        (Type::Number, Value::Number(number)) => Ok(Val::Double(number.as_f64().unwrap_or_default())),
        (Type::Number, other) => fault(format!("invalid data, expected float, got {}", go_type(other))),
        (Type::Integer, Value::Number(number)) if number.is_i64() => Ok(Val::Int(number.as_i64().unwrap_or_default())),
        (Type::Integer, other) => fault(format!("invalid data, expected int, got {}", go_type(other))),
        (Type::Boolean, Value::Bool(value)) => Ok(Val::Bool(*value)),
        (Type::Boolean, other) => fault(format!("invalid data, expected bool, got {}", go_type(other))),
    }
}

fn formatted<'a>(text: &'a str, node: Node<'a>) -> Eval<Val<'a>> {
    let format = node.data().checks.as_ref().and_then(|checks| checks.format.as_deref());
    let value = match format {
        Some("duration") => duration::parse_format(text).map(Val::Duration).ok_or("Invalid duration"),
        Some("date") => {
            parse_date(text).map(|d| Val::Timestamp(Time::midnight(d))).ok_or("Invalid date formatted string")
        }
        Some("date-time") => Time::parse_format(text).map(Val::Timestamp).ok_or("Invalid date-time formatted string"),
        Some("byte") => match URL_SAFE.decode(text) {
            Ok(bytes) => Ok(Val::Bytes(bytes.into())),
            Err(_) => Err("Invalid byte formatted string"),
        },
        _ => Ok(Val::String(Text::Data(text))),
    };
    value.or_else(|what| fault(format!("{what} {text}")))
}

/// The name of a JSON value's type in the real server's messages.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
