//! What rules see of a schema: types, and the sizes that their costs are estimated from.
//!
//! Made from the definition's own JSON, because rules must not see what the server adds to a schema (the fields of
//! `metadata` beyond the names).

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Map, Value};

use super::{
    escape::escape,
    types::{Object, Type},
};

/// The largest request of the real server, which bounds what has no bound of its own.
const REQUEST_SIZE_MAX: u64 = 3 * 1024 * 1024;

/// A schema as rules see it.
#[derive(Debug, Clone)]
pub struct Decl {
    shape: Shape,
    /// How many characters, items or entries a value can have; 0 for what has no size.
    pub(super) max_elements: u64,
    /// The fewest bytes a value takes in JSON.
    min_size: u64,
}

#[derive(Debug, Clone)]
enum Shape {
    Scalar(Type),
    List(Arc<Decl>),
    Map(Arc<Decl>),
    Object(BTreeMap<String, Arc<Decl>>),
}

impl Decl {
    /// The declaration of a schema; none if rules cannot see it. `is_root` adds type and names of a resource.
    pub fn from_schema(schema: &Value, is_root: bool) -> Option<Self> {
        let text = |key: &str| schema.get(key).and_then(Value::as_str).unwrap_or_default();
        let number = |key: &str| schema.get(key).and_then(Value::as_i64).map(|n| u64::try_from(n).unwrap_or(0));
        if schema.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
            let max_elements = number("maxLength").map_or(REQUEST_SIZE_MAX - 2, |length| length.saturating_mul(4));
            return Some(Self { shape: Shape::Scalar(Type::Dyn), max_elements, min_size: 1 });
        }
        match text("type") {
            "array" => {
                let items = Self::child(schema.get("items")?)?;
                let max_elements = number("maxItems").unwrap_or((REQUEST_SIZE_MAX - 2) / (items.min_size + 1));
                Some(Self { shape: Shape::List(Arc::new(items)), max_elements, min_size: 2 })
            }
            "object" => match schema.get("additionalProperties").filter(|value| value.is_object()) {
                Some(values) => {
                    let values = Self::child(values)?;
                    let max_elements =
                        number("maxProperties").unwrap_or((REQUEST_SIZE_MAX - 2) / (values.min_size + 6));
                    Some(Self { shape: Shape::Map(Arc::new(values)), max_elements, min_size: 2 })
                }
                None => Some(Self::object(schema, is_root)),
            },
            "string" => Some(Self::string(text("format"), number("maxLength"), schema.get("enum"))),
            "boolean" => Some(Self { shape: Shape::Scalar(Type::Bool), max_elements: 0, min_size: 4 }),
            "number" => Some(Self { shape: Shape::Scalar(Type::Double), max_elements: 0, min_size: 1 }),
            "integer" => Some(Self { shape: Shape::Scalar(Type::Int), max_elements: 0, min_size: 1 }),
            _ => None,
        }
    }

    fn child(schema: &Value) -> Option<Self> {
        Self::from_schema(schema, schema.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true)))
    }

    fn object(schema: &Value, is_root: bool) -> Self {
        let none = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
        let required: Vec<&str> =
            schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        let replaced = is_root && !declares_names(properties);
        let mut fields = BTreeMap::new();
        let mut min_size = 2;
        for (name, property) in properties {
            if replaced && matches!(name.as_str(), "kind" | "apiVersion" | "metadata") {
                continue;
            }
            let Some(decl) = Self::child(property) else { continue };
            let has_default = property.get("default").is_some_and(|default| !default.is_null());
            if required.contains(&name.as_str()) && !has_default {
                min_size += name.len() as u64 + decl.min_size + 4;
            }
            if let Some(escaped) = escape(name) {
                fields.insert(escaped.into_owned(), Arc::new(decl));
            }
        }
        if replaced {
            let string = Arc::new(Self::string("", None, None));
            let names = ["name", "generateName"].map(|name| (name.to_owned(), Arc::clone(&string)));
            let metadata = Self { shape: Shape::Object(names.into()), max_elements: 0, min_size: 2 };
            for (name, decl) in
                [("kind", Arc::clone(&string)), ("apiVersion", string), ("metadata", Arc::new(metadata))]
            {
                if required.contains(&name) {
                    min_size += name.len() as u64 + decl.min_size + 4;
                }
                fields.insert(name.to_owned(), decl);
            }
        }
        Self { shape: Shape::Object(fields), max_elements: 0, min_size }
    }

    fn string(format: &str, max_length: Option<u64>, allowed: Option<&Value>) -> Self {
        let scalar = |of, max_elements, min_size| Self { shape: Shape::Scalar(of), max_elements, min_size };
        match format {
            "byte" => scalar(Type::Bytes, max_length.unwrap_or(REQUEST_SIZE_MAX - 2), 2),
            "duration" => scalar(Type::Duration, 32, 3),
            "date" => scalar(Type::Timestamp, 12, 12),
            "date-time" => scalar(Type::Timestamp, 32, 21),
            _ => {
                let allowed = allowed.and_then(Value::as_array).filter(|values| !values.is_empty());
                // A character takes up to four bytes.
                let length = max_length.map(|length| length.saturating_mul(4)).or_else(|| {
                    let lengths = allowed?.iter().map(|value| value.as_str().map_or(0, str::len) as u64);
                    lengths.max()
                });
                scalar(Type::String, length.unwrap_or(REQUEST_SIZE_MAX - 2), 2)
            }
        }
    }

    /// The type, with `name` for the object itself and names below it for the objects inside.
    pub(super) fn named_type(&self, name: &str) -> Type {
        match &self.shape {
            Shape::Scalar(of) => of.clone(),
            Shape::List(items) => Type::list(items.named_type(&format!("{name}.@idx"))),
            Shape::Map(values) => Type::map(Type::String, values.named_type(&format!("{name}.@elem"))),
            Shape::Object(fields) => {
                let fields = fields
                    .iter()
                    .map(|(field, decl)| (field.clone(), decl.named_type(&format!("{name}.{field}"))))
                    .collect();
                Type::Object(Arc::new(Object { name: name.to_owned(), fields }))
            }
        }
    }

    /// The declaration one step down a path of the cost estimate.
    pub(super) fn step(&self, step: &str) -> Option<&Decl> {
        match (&self.shape, step) {
            (Shape::List(inner) | Shape::Map(inner), "@items" | "@values") => Some(inner),
            (Shape::Object(fields), name) => fields.get(name).map(|decl| &**decl),
            _ => None,
        }
    }

    pub(super) fn is_map(&self) -> bool {
        matches!(self.shape, Shape::Map(_))
    }

    /// How many such values fit into one request, if nothing else bounds them.
    pub fn max_cardinality(&self) -> u64 {
        REQUEST_SIZE_MAX / (self.min_size + 1)
    }
}

/// Whether a resource's schema spells out all that rules see of its type and names.
fn declares_names(properties: &Map<String, Value>) -> bool {
    let is = |schema: Option<&Value>, of: &str| schema.and_then(|s| s.get("type")).and_then(Value::as_str) == Some(of);
    let metadata = properties.get("metadata");
    let named = |name: &str| metadata.and_then(|m| m.get("properties")).and_then(|p| p.get(name));
    is(properties.get("kind"), "string")
        && is(properties.get("apiVersion"), "string")
        && is(metadata, "object")
        && is(named("name"), "string")
        && is(named("generateName"), "string")
}
