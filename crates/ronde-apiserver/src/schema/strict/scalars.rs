//! The scalars of built-in kinds: is the value of the right type, and what is its canonical form.
//!
//! Knows nothing of objects and paths; [`super`] words the errors.

use std::borrow::Cow;

use serde_json::{Number, Value};

use super::{bytes, time};
use crate::{
    quantity,
    schema::{Format, Type},
};

/// What is wrong with a scalar.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// Not of the JSON type of the field.
    Type,
    /// A number that does not fit; the type it should fit.
    Number(&'static str),
    /// The right type, but not well formed.
    Form(String),
    /// The same, of a type that decodes itself.
    FatalForm(String),
    /// Not a value that a type which decodes itself takes; the type it is read as.
    FatalType(&'static str),
}

/// Checks a scalar and writes it in its canonical form, in place.
pub(super) fn normalise(value: &mut Value, kind: Type, format: Option<Format>) -> Result<(), Wrong> {
    match (kind, format) {
        (Type::String, Some(Format::Time)) => written_time(value, time::Precision::Seconds),
        (Type::String, Some(Format::MicroTime)) => written_time(value, time::Precision::Micros),
        (Type::String, Some(Format::Byte)) => written_bytes(value),
        (Type::IntOrString, Some(Format::Quantity)) => written_quantity(value),
        (Type::IntOrString, _) => int_or_string(value),
        (Type::String, _) => of_type(value.is_string()),
        (Type::Boolean, _) => of_type(value.is_boolean()),
        (Type::Number, _) => of_type(value.is_number()),
        (Type::Integer, format) => integer(value, format),
        (Type::Object | Type::Array | Type::Any, _) => Ok(()),
    }
}

fn of_type(is_it: bool) -> Result<(), Wrong> {
    if is_it { Ok(()) } else { Err(Wrong::Type) }
}

fn fits_int32(number: i64) -> bool {
    i32::try_from(number).is_ok()
}

fn integer(value: &Value, format: Option<Format>) -> Result<(), Wrong> {
    let Value::Number(number) = value else { return Err(Wrong::Type) };
    match (format, number.as_i64()) {
        (Some(Format::Int32), Some(number)) if fits_int32(number) => Ok(()),
        (Some(Format::Int32), _) => Err(Wrong::Number("int32")),
        (_, Some(_)) => Ok(()),
        (_, None) => Err(Wrong::Number("int64")),
    }
}

fn int_or_string(value: &Value) -> Result<(), Wrong> {
    let is_it = value.is_string() || value.as_i64().is_some_and(fits_int32);
    if is_it { Ok(()) } else { Err(Wrong::FatalType("int32 or a string")) }
}

fn written_quantity(value: &mut Value) -> Result<(), Wrong> {
    let canonical = match value {
        Value::String(text) => match quantity::canonical(text.trim()) {
            Ok(Cow::Borrowed(same)) if same.len() == text.len() => return Ok(()),
            other => other.map(Cow::into_owned),
        },
        Value::Number(number) => quantity::canonical(&number_text(number)).map(Cow::into_owned),
        _ => Err(quantity::QuantityError::Format),
    };
    *value = Value::String(canonical.map_err(|error| Wrong::FatalForm(error.to_string()))?);
    Ok(())
}

/// A number as a user would have written it: `1.5`, and `2` for 2.0.
fn number_text(number: &Number) -> String {
    let text = number.to_string();
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

fn written_time(value: &mut Value, precision: time::Precision) -> Result<(), Wrong> {
    let Value::String(text) = value else { return Err(Wrong::FatalType("a string")) };
    if let Cow::Owned(canonical) = time::canonical(text, precision).map_err(Wrong::FatalForm)? {
        *text = canonical;
    }
    Ok(())
}

fn written_bytes(value: &mut Value) -> Result<(), Wrong> {
    let Value::String(text) = value else { return Err(Wrong::Type) };
    let canonical = bytes::canonical(text);
    if let Cow::Owned(canonical) =
        canonical.map_err(|at| Wrong::Form(format!("illegal base64 data at input byte {at}")))?
    {
        *text = canonical;
    }
    Ok(())
}
