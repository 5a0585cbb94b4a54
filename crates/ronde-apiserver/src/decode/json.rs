//! Reads JSON with `serde_json` in one pass that builds the value and notes duplicate and unknown fields.
//!
//! What `serde_json` refuses is read once more with clean texts: the real server takes broken UTF-8 inside of them.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value, map::Entry};

use crate::schema::Node;

use super::{
    DEPTH_MAX, Decoded,
    clean::with_clean_texts,
    strict::{Known, Notes, Path, known},
};

/// Reads a JSON document.
///
/// # Errors
/// If it is malformed: what is wrong, with line and column.
pub fn parse(body: &[u8], schema: Option<Node<'_>>) -> Result<Decoded, String> {
    read(body, schema)
        .or_else(|refused| read(with_clean_texts(body).as_bytes(), schema).map_err(|_| refused))
        .map_err(|error| format!("malformed JSON: {error}"))
}

fn read(body: &[u8], schema: Option<Node<'_>>) -> Result<Decoded, serde_json::Error> {
    let mut notes = Notes::default();
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let reader = Reader { schema, path: Path::Root, depth: 0, notes: &mut notes };
    let value = reader.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(Decoded { value, problems: notes.into_messages() })
}

/// Reads the value at one place of a document.
struct Reader<'a, 'n> {
    schema: Option<Node<'a>>,
    path: Path<'n>,
    /// How many lists and objects are around it.
    depth: usize,
    notes: &'n mut Notes,
}

impl Reader<'_, '_> {
    /// Returns the depth of what is in the list or object that begins here.
    fn deeper<E: Error>(&self) -> Result<usize, E> {
        let depth = self.depth + 1;
        if depth < DEPTH_MAX { Ok(depth) } else { Err(E::custom(format!("nested deeper than {DEPTH_MAX} levels"))) }
    }
}

impl<'de> DeserializeSeed<'de> for Reader<'_, '_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_, '_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(unsigned(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(float(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let (depth, schema) = (self.deeper()?, self.schema.and_then(Node::items));
        let mut items = Vec::new();
        loop {
            let path = Path::Index(&self.path, items.len());
            match list.next_element_seed(Reader { schema, path, depth, notes: &mut *self.notes })? {
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Value, A::Error> {
        let (depth, mut fields) = (self.deeper()?, Map::new());
        while let Some(name) = object.next_key::<String>()? {
            let Known::Yes(schema) = known(self.schema, &name) else {
                self.notes.unknown(Path::Field(&self.path, &name));
                object.next_value::<IgnoredAny>()?;
                continue;
            };
            match fields.entry(name) {
                Entry::Vacant(field) => {
                    let path = Path::Field(&self.path, field.key());
                    let value = object.next_value_seed(Reader { schema, path, depth, notes: &mut *self.notes })?;
                    field.insert(value);
                }
                Entry::Occupied(mut field) => {
                    let path = Path::Field(&self.path, field.key());
                    self.notes.duplicate(path);
                    let value = object.next_value_seed(Reader { schema, path, depth, notes: &mut *self.notes })?;
                    field.insert(value);
                }
            }
        }
        Ok(Value::Object(fields))
    }
}

/// An integer, or a float beyond 63 bits: the real server has no unsigned integers.
pub(super) fn unsigned(value: u64) -> Value {
    #[expect(clippy::cast_precision_loss, reason = "the real server rounds too")]
    i64::try_from(value).map_or_else(|_| float(value as f64), Value::from)
}

/// A float; `-0` is the integer 0 (`serde_json` reads it as a float).
pub(super) fn float(value: f64) -> Value {
    if value == 0.0 && value.is_sign_negative() {
        return Value::from(0);
    }
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}
