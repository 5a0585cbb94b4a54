//! Reads `application/vnd.kubernetes.protobuf`: what typed clients and kubectl write built-in kinds in.
//!
//! Called by [`super::decode`]. The bytes are an [`Envelope`] that names the kind, around a message. The result is the
//! JSON that the real server's types would give; the messages are in the table of [`table`], the wire format in
//! [`wire`]. Values are read, not checked: that is done to JSON bodies too, later. We never write protobuf.

mod table;
mod wire;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::{Timestamp, tz::TimeZone};
use serde_json::{Map, Value};

use self::{
    table::{Field, Kind, Shape, TABLE},
    wire::{Fields, Payload, unpack},
};
use super::{DEPTH_MAX, parse_json};
use crate::schema::builtin::KINDS;

const MAGIC: &[u8] = b"k8s\0";
const NO_MAGIC: &str = "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]";

const SCHEMA: &str = "apiextensions.v1.JSONSchemaProps";

/// What stands around a message.
pub struct Envelope<'a> {
    pub api_version: &'a str,
    pub kind: &'a str,
    message: &'a [u8],
}

/// Reads an object of any built-in kind.
///
/// # Errors
/// If the bytes are malformed, or of a kind that is not built in.
pub fn parse(body: &[u8]) -> Result<Value, String> {
    Envelope::open(body)?.decode()
}

impl<'a> Envelope<'a> {
    /// Reads the envelope, but not yet what is in it.
    ///
    /// # Errors
    /// If it is malformed, or its content is compressed.
    pub fn open(body: &'a [u8]) -> Result<Self, String> {
        if body.is_empty() {
            return Err("empty data".to_owned());
        }
        let content = body.strip_prefix(MAGIC).ok_or(NO_MAGIC)?;
        if content.is_empty() {
            return Err("empty body".to_owned());
        }
        let mut envelope = Self { api_version: "", kind: "", message: &[] };
        let mut fields = Fields::of_message("Unknown", content);
        while let Some((number, payload)) = fields.next()? {
            match number {
                1 => envelope.read_type(payload.bytes("typeMeta")?)?,
                2 => envelope.message = payload.bytes("raw")?,
                3 => check_encoding(payload.text("contentEncoding")?)?,
                _ => {}
            }
        }
        Ok(envelope)
    }

    fn read_type(&mut self, bytes: &'a [u8]) -> Result<(), String> {
        let mut fields = Fields::of_message("TypeMeta", bytes);
        while let Some((number, payload)) = fields.next()? {
            match number {
                1 => self.api_version = payload.text("apiVersion")?,
                2 => self.kind = payload.text("kind")?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Reads the object in it.
    ///
    /// # Errors
    /// If it is malformed, or of a kind that is not built in.
    pub fn decode(&self) -> Result<Value, String> {
        let id = self.find_message().ok_or_else(|| {
            let (kind, version) = (self.kind, self.api_version);
            format!("no kind {kind:?} of {version:?} is known")
        })?;
        let mut object = Map::new();
        object.insert("apiVersion".to_owned(), self.api_version.into());
        object.insert("kind".to_owned(), self.kind.into());
        read_message(id, self.message, &mut object, 1)?;
        Ok(Value::Object(object))
    }

    fn find_message(&self) -> Option<usize> {
        let (group, version) = self.api_version.split_once('/').unwrap_or(("", self.api_version));
        // Typed clients write these in the group and version of what they delete.
        let is_anywhere = |kind: &str| kind == "DeleteOptions";
        let kind = KINDS.iter().find(|kind| {
            kind.kind == self.kind && (is_anywhere(kind.kind) || (kind.group == group && kind.version == version))
        })?;
        TABLE.find(short_name(kind.definition))
    }
}

fn check_encoding(encoding: &str) -> Result<(), String> {
    if encoding.is_empty() { Ok(()) } else { Err(format!("content encoding {encoding:?} is not supported")) }
}

/// `core.v1.Pod` of `io.k8s.api.core.v1.Pod`.
fn short_name(definition: &str) -> &str {
    definition.rmatch_indices('.').nth(2).map_or(definition, |(at, _)| &definition[at + 1..])
}

/// Reads a message into an object, which may have fields already. `depth` is that of the object in the JSON.
fn read_message(id: usize, bytes: &[u8], object: &mut Map<String, Value>, depth: usize) -> Result<(), String> {
    if depth > DEPTH_MAX {
        return Err(too_deep());
    }
    let message = TABLE.message(id);
    let name = message.name.rsplit('.').next().unwrap_or_default();
    let mut fields = Fields::of_message(name, bytes);
    while let Some((number, payload)) = fields.next()? {
        if let Some(field) = message.field(number) {
            read_field(field, payload, object, depth)?;
        }
    }
    Ok(())
}

fn read_field(
    field: &Field,
    payload: Payload<'_>,
    object: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), String> {
    let name = field.name;
    match (field.shape, field.kind) {
        (Shape::Inline, Kind::Message(id)) => read_message(id, payload.bytes(name)?, object, depth + 1),
        (Shape::One, Kind::Message(id)) => {
            // A message that comes in parts is one message.
            let entry = object.entry(name).or_insert_with(|| Value::Object(Map::new()));
            entry.as_object_mut().map_or(Ok(()), |part| read_message(id, payload.bytes(name)?, part, depth + 1))
        }
        (Shape::One | Shape::Inline, kind) => {
            let value = read_value(kind, payload, name, depth + 1)?;
            if field.keeps_zero || !is_zero(kind, &value) {
                object.insert(name.to_owned(), value);
            } else {
                object.remove(name);
            }
            Ok(())
        }
        (Shape::List, kind) => {
            let list = object.entry(name).or_insert_with(|| Value::Array(Vec::new()));
            list.as_array_mut().map_or(Ok(()), |list| read_items(kind, payload, name, list, depth + 2))
        }
        (Shape::Map, kind) => {
            let map = object.entry(name).or_insert_with(|| Value::Object(Map::new()));
            let (key, value) = read_entry(kind, payload, name, depth + 2)?;
            map.as_object_mut().map(|map| map.insert(key, value));
            Ok(())
        }
    }
}

/// Whether Go leaves the value out. It never leaves out objects; lists and maps are never here.
fn is_zero(kind: Kind, value: &Value) -> bool {
    match value {
        Value::Null => matches!(kind, Kind::Time | Kind::MicroTime),
        Value::Bool(is_set) => kind == Kind::Bool && !is_set,
        Value::Number(number) => {
            matches!(kind, Kind::Int32 | Kind::Int64 | Kind::Double) && number.as_f64() == Some(0.0)
        }
        Value::String(text) => matches!(kind, Kind::String | Kind::Bytes) && text.is_empty(),
        Value::Array(_) | Value::Object(_) => false,
    }
}

/// Reads an item of a list, or several: numbers may be packed.
fn read_items(kind: Kind, payload: Payload<'_>, name: &str, list: &mut Vec<Value>, depth: usize) -> Result<(), String> {
    match (kind, payload) {
        (Kind::Int32 | Kind::Int64 | Kind::Bool, Payload::Bytes(packed)) => {
            for number in unpack(packed)? {
                list.push(read_value(kind, Payload::Varint(number), name, depth)?);
            }
        }
        _ => list.push(read_value(kind, payload, name, depth)?),
    }
    Ok(())
}

fn read_entry(kind: Kind, payload: Payload<'_>, name: &str, depth: usize) -> Result<(String, Value), String> {
    let mut key = "";
    let mut value = kind.nothing();
    let mut fields = Fields::of_message(name, payload.bytes(name)?);
    while let Some((number, payload)) = fields.next()? {
        match number {
            1 => key = payload.text(name)?,
            2 => value = payload,
            _ => {}
        }
    }
    Ok((key.to_owned(), read_value(kind, value, name, depth)?))
}

impl Kind {
    /// The payload of a value that was left out.
    fn nothing(self) -> Payload<'static> {
        match self {
            Self::Int32 | Self::Int64 | Self::Bool => Payload::Varint(0),
            Self::Double => Payload::Fixed64(0),
            _ => Payload::Bytes(&[]),
        }
    }
}

fn read_value(kind: Kind, payload: Payload<'_>, name: &str, depth: usize) -> Result<Value, String> {
    Ok(match kind {
        Kind::String => payload.text(name)?.into(),
        Kind::Int32 => payload.int32(name)?.into(),
        Kind::Int64 => payload.int(name)?.into(),
        Kind::Bool => (payload.int(name)? != 0).into(),
        Kind::Double => double(payload.double(name)?).ok_or_else(|| format!("proto: field {name} is not a number"))?,
        Kind::Bytes => STANDARD.encode(payload.bytes(name)?).into(),
        Kind::Quantity => quantity(payload.bytes(name)?)?.into(),
        Kind::Time => time(payload.bytes(name)?, false)?,
        Kind::MicroTime => time(payload.bytes(name)?, true)?,
        Kind::IntOrString => int_or_string(payload.bytes(name)?)?,
        Kind::RawJson => raw_json(payload.bytes(name)?, depth)?,
        Kind::Strings => strings(payload.bytes(name)?)?,
        Kind::SchemaOrArray => schema_or(&SCHEMA_OR_ARRAY, payload.bytes(name)?, depth)?,
        Kind::SchemaOrBool => schema_or(&SCHEMA_OR_BOOL, payload.bytes(name)?, depth)?,
        Kind::SchemaOrStrings => schema_or(&SCHEMA_OR_STRINGS, payload.bytes(name)?, depth)?,
        Kind::Message(id) => {
            let mut object = Map::new();
            read_message(id, payload.bytes(name)?, &mut object, depth)?;
            Value::Object(object)
        }
    })
}

/// Whole numbers are written without a fraction, as in JSON from Go.
fn double(number: f64) -> Option<Value> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() < EXACT {
        #[expect(clippy::cast_possible_truncation, reason = "it is whole, and below 2^53")]
        return Some((number as i64).into());
    }
    serde_json::Number::from_f64(number).map(Value::Number)
}

fn quantity(bytes: &[u8]) -> Result<&str, String> {
    let mut amount = "0";
    let mut fields = Fields::of_message("Quantity", bytes);
    while let Some((number, payload)) = fields.next()? {
        if number == 1 {
            amount = payload.text("string")?;
        }
    }
    Ok(amount)
}

/// Only times with microseconds have more than seconds. No bytes at all are no time.
fn time(bytes: &[u8], is_micro: bool) -> Result<Value, String> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanos) = (0, 0);
    let mut fields = Fields::of_message("Timestamp", bytes);
    while let Some((number, payload)) = fields.next()? {
        match number {
            1 => seconds = payload.int("seconds")?,
            2 => nanos = payload.int32("nanos")?,
            _ => {}
        }
    }
    let nanos = if is_micro { nanos / 1000 * 1000 } else { 0 };
    let outside = || format!("Timestamp {seconds}s {nanos}ns: year outside of range [0,9999]");
    let zoned = Timestamp::new(seconds, nanos).map_err(|_| outside())?.to_zoned(TimeZone::UTC);
    if zoned.year() < 0 {
        return Err(outside());
    }
    let format = if is_micro { "%Y-%m-%dT%H:%M:%S%.6fZ" } else { "%Y-%m-%dT%H:%M:%SZ" };
    Ok(zoned.strftime(format).to_string().into())
}

fn int_or_string(bytes: &[u8]) -> Result<Value, String> {
    let (mut kind, mut int, mut text) = (0, 0, "");
    let mut fields = Fields::of_message("IntOrString", bytes);
    while let Some((number, payload)) = fields.next()? {
        match number {
            1 => kind = payload.int("type")?,
            2 => int = payload.int32("intVal")?,
            3 => text = payload.text("strVal")?,
            _ => {}
        }
    }
    match kind {
        0 => Ok(int.into()),
        1 => Ok(text.into()),
        _ => Err("impossible IntOrString.Type".to_owned()),
    }
}

fn raw_json(bytes: &[u8], depth: usize) -> Result<Value, String> {
    let mut raw: &[u8] = &[];
    let mut fields = Fields::of_message("RawExtension", bytes);
    while let Some((number, payload)) = fields.next()? {
        if number == 1 {
            raw = payload.bytes("raw")?;
        }
    }
    if raw.is_empty() {
        return Ok(Value::Null);
    }
    let value = parse_json(raw, None)?.value;
    if depth - 1 + nesting(&value) > DEPTH_MAX { Err(too_deep()) } else { Ok(value) }
}

/// How many lists and objects stand in each other.
fn nesting(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(nesting).max().unwrap_or_default(),
        Value::Object(fields) => 1 + fields.values().map(nesting).max().unwrap_or_default(),
        _ => 0,
    }
}

fn strings(bytes: &[u8]) -> Result<Value, String> {
    let mut items = Vec::new();
    let mut fields = Fields::of_message("ExtraValue", bytes);
    while let Some((number, payload)) = fields.next()? {
        if number == 1 {
            items.push(payload.text("items")?.into());
        }
    }
    Ok(Value::Array(items))
}

/// A union with a JSON schema in it: the numbers of its fields, 0 for those that it does not have.
struct SchemaOr {
    schema: u32,
    schemas: u32,
    strings: u32,
    allows: u32,
}

const SCHEMA_OR_ARRAY: SchemaOr = SchemaOr { schema: 1, schemas: 2, strings: 0, allows: 0 };
const SCHEMA_OR_BOOL: SchemaOr = SchemaOr { schema: 2, schemas: 0, strings: 0, allows: 1 };
const SCHEMA_OR_STRINGS: SchemaOr = SchemaOr { schema: 1, schemas: 0, strings: 2, allows: 0 };

fn schema_or(union: &SchemaOr, bytes: &[u8], depth: usize) -> Result<Value, String> {
    let id = TABLE.find(SCHEMA).expect("the message is in the table (tested)");
    let (mut schema, mut items, mut allows) = (None, Vec::new(), false);
    let mut fields = Fields::of_message("JSONSchemaPropsOr", bytes);
    while let Some((number, payload)) = fields.next()? {
        if number == union.schema {
            let object = schema.get_or_insert_with(Map::new);
            read_message(id, payload.bytes("schema")?, object, depth)?;
        } else if number == union.schemas {
            items.push(read_value(Kind::Message(id), payload, "schemas", depth + 1)?);
        } else if number == union.strings {
            items.push(payload.text("property")?.into());
        } else if number == union.allows {
            allows = payload.int("allows")? != 0;
        }
    }
    Ok(match schema {
        _ if !items.is_empty() => Value::Array(items),
        Some(object) => Value::Object(object),
        None if union.allows != 0 => allows.into(),
        None => Value::Null,
    })
}

fn too_deep() -> String {
    format!("nested deeper than {DEPTH_MAX} levels")
}

#[cfg(test)]
mod tests;
