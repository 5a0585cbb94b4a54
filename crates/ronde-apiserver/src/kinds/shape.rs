//! The canonical form of built-in objects: which empty fields are there and how quantities and times are written.
//!
//! The real server decodes into Go structs and writes them again: `hostNetwork: false` and `labels: {}` disappear,
//! `resources` of a container and `status` appear, `1000m` becomes `1`. [`normalise`] does the same to a value, from
//! the table of types in `shape.txt`. Called by the `default` of each kind, before defaults are set. It does not check
//! types: the decoder did, and what does not fit is left alone.

use std::{borrow::Cow, collections::BTreeMap, sync::LazyLock};

use jiff::{Timestamp, tz::TimeZone};
use serde_json::{Map, Value};

use crate::quantity::canonical;

static TYPES: LazyLock<Types> = LazyLock::new(|| Types::parse(include_str!("shape.txt")));

/// Brings an object of the named type (a kind or a part of one) into canonical form.
pub fn normalise(type_name: &str, object: &mut Value) {
    let id = TYPES.ids.get(type_name).copied();
    debug_assert!(id.is_some(), "the type {type_name} is in the table");
    if let (Some(id), Some(object)) = (id, object.as_object_mut()) {
        normalise_struct(id, object);
    }
}

struct Types {
    ids: BTreeMap<&'static str, usize>,
    structs: Vec<Struct>,
}

#[derive(Default)]
struct Struct {
    fields: BTreeMap<&'static str, Field>,
    /// The fields that are there even when empty.
    always: Vec<&'static str>,
}

struct Field {
    shape: Shape,
    /// Kept when empty.
    required: bool,
}

enum Shape {
    String,
    Int,
    Bool,
    Quantity,
    Time,
    /// A time with microseconds.
    MicroTime,
    IntOrString,
    /// Text in base64, or any value.
    Opaque,
    Struct(usize),
    /// Null and missing are the same; the zero of the type is not.
    Pointer(Box<Shape>),
    List(Box<Shape>),
    Map(Box<Shape>),
}

impl Types {
    fn parse(table: &'static str) -> Self {
        let lines: Vec<&'static str> =
            table.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
        let ids: BTreeMap<_, _> =
            lines.iter().enumerate().map(|(id, line)| (line.split(' ').next().unwrap_or_default(), id)).collect();
        let structs = lines.iter().map(|line| Struct::parse(line, &ids)).collect();
        Self { ids, structs }
    }
}

impl Struct {
    fn parse(line: &'static str, ids: &BTreeMap<&'static str, usize>) -> Self {
        let mut parsed = Self::default();
        for (name, code) in line.split(' ').skip(1).filter_map(|field| field.split_once(':')) {
            let field = Field::parse(code, ids);
            if field.is_always_there(code) {
                parsed.always.push(name);
            }
            parsed.fields.insert(name, field);
        }
        parsed
    }
}

impl Field {
    fn parse(code: &str, ids: &BTreeMap<&'static str, usize>) -> Self {
        let required = code.ends_with('!');
        Self { shape: Shape::parse(code.trim_end_matches(['!', '?']), ids), required }
    }

    /// Go leaves out empty text, numbers, lists and maps, but never a struct.
    fn is_always_there(&self, code: &str) -> bool {
        let is_struct = matches!(
            self.shape,
            Shape::Struct(_) | Shape::Quantity | Shape::Time | Shape::MicroTime | Shape::IntOrString
        );
        self.required || (is_struct && !code.ends_with('?'))
    }
}

impl Shape {
    fn parse(code: &str, ids: &BTreeMap<&'static str, usize>) -> Self {
        let inner = |rest: &str| Box::new(Self::parse(rest, ids));
        if let Some(rest) = code.strip_prefix('*') {
            return Self::Pointer(inner(rest));
        }
        if let Some(rest) = code.strip_prefix("[]") {
            return Self::List(inner(rest));
        }
        if let Some(rest) = code.strip_prefix("{}") {
            return Self::Map(inner(rest));
        }
        match code {
            "string" => Self::String,
            "int" => Self::Int,
            "bool" => Self::Bool,
            "quantity" => Self::Quantity,
            "time" => Self::Time,
            "micro" => Self::MicroTime,
            "intstr" => Self::IntOrString,
            "bytes" | "raw" => Self::Opaque,
            name => ids.get(name).map_or(Self::Opaque, |id| Self::Struct(*id)),
        }
    }

    /// What Go writes for a field that was not set.
    fn zero(&self) -> Value {
        match self {
            Self::String => "".into(),
            Self::Int | Self::IntOrString => 0.into(),
            Self::Bool => false.into(),
            Self::Quantity => "0".into(),
            Self::Struct(id) => {
                let mut object = Map::new();
                normalise_struct(*id, &mut object);
                Value::Object(object)
            }
            Self::Time | Self::MicroTime | Self::Opaque | Self::Pointer(_) | Self::List(_) | Self::Map(_) => {
                Value::Null
            }
        }
    }

    /// Normalises a value and tells whether it is not the zero of its type.
    fn normalise(&self, value: &mut Value) -> bool {
        match (self, &mut *value) {
            (_, Value::Null) => false,
            (Self::String, Value::String(text)) => !text.is_empty(),
            (Self::Int, Value::Number(number)) => number.as_f64() != Some(0.0),
            (Self::Bool, Value::Bool(is_set)) => *is_set,
            (Self::Quantity, amount) => {
                normalise_quantity(amount);
                true
            }
            (Self::Time, Value::String(time)) => {
                normalise_time(time, "%Y-%m-%dT%H:%M:%SZ");
                true
            }
            (Self::MicroTime, Value::String(time)) => {
                normalise_time(time, "%Y-%m-%dT%H:%M:%S%.6fZ");
                true
            }
            (Self::Struct(id), Value::Object(object)) => {
                normalise_struct(*id, object);
                true
            }
            (Self::Pointer(inner), value) => {
                inner.normalise(value);
                true
            }
            (Self::List(inner), Value::Array(items)) => {
                for item in items.iter_mut() {
                    inner.normalise_item(item);
                }
                !items.is_empty()
            }
            (Self::Map(inner), Value::Object(entries)) => {
                entries.values_mut().for_each(|item| inner.normalise_item(item));
                !entries.is_empty()
            }
            _ => true,
        }
    }

    /// Normalises an item of a list or map: nothing can be left out there.
    fn normalise_item(&self, value: &mut Value) {
        if value.is_null() {
            *value = self.zero();
        } else {
            self.normalise(value);
        }
    }
}

fn normalise_struct(id: usize, object: &mut Map<String, Value>) {
    let Some(this) = TYPES.structs.get(id) else { return };
    object.retain(|name, value| {
        this.fields.get(name.as_str()).is_none_or(|field| {
            let is_set = field.shape.normalise(value);
            is_set || (field.required && !matches!(value, Value::Null | Value::Array(_) | Value::Object(_)))
        })
    });
    for name in &this.always {
        if !object.contains_key(*name)
            && let Some(field) = this.fields.get(name)
        {
            object.insert((*name).to_owned(), field.shape.zero());
        }
    }
}

fn normalise_quantity(amount: &mut Value) {
    if let Value::Number(number) = amount {
        *amount = Value::String(number.to_string());
    }
    let Some(Ok(Cow::Owned(written))) = amount.as_str().map(canonical) else { return };
    *amount = Value::String(written);
}

fn normalise_time(time: &mut String, format: &str) {
    if let Ok(timestamp) = time.parse::<Timestamp>() {
        *time = timestamp.to_zoned(TimeZone::UTC).strftime(format).to_string();
    }
}
