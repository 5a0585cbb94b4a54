//! Reads a schema as it stands in a definition: JSON, typed by the keys that are asked for.
//!
//! Values of another type than the key has are as good as absent; the definition itself was decoded strictly before.

use serde_json::{Map, Value};

/// One schema of a definition.
#[derive(Debug, Clone, Copy)]
pub(super) struct Props<'a>(pub &'a Value);

impl<'a> Props<'a> {
    /// A field that is set; null is not.
    pub fn value(self, key: &str) -> Option<&'a Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    pub fn text(self, key: &str) -> &'a str {
        self.value(key).and_then(Value::as_str).unwrap_or_default()
    }

    pub fn flag(self, key: &str) -> bool {
        self.value(key) == Some(&Value::Bool(true))
    }

    pub fn number(self, key: &str) -> Option<f64> {
        self.value(key).and_then(Value::as_f64)
    }

    /// A count; the real server takes negative ones, which bound nothing below zero.
    pub fn count(self, key: &str) -> Option<u64> {
        self.value(key).and_then(Value::as_i64).map(|count| u64::try_from(count).unwrap_or(0))
    }

    pub fn list(self, key: &str) -> &'a [Value] {
        self.value(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    pub fn strings(self, key: &str) -> Vec<String> {
        self.list(key).iter().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    pub fn object(self, key: &str) -> Option<&'a Map<String, Value>> {
        self.value(key).and_then(Value::as_object)
    }

    /// A field that is a schema itself.
    pub fn schema(self, key: &str) -> Option<Props<'a>> {
        self.value(key).filter(|value| value.is_object()).map(Props)
    }

    /// The schemas in a map, by name.
    pub fn schemas(self, key: &str) -> impl Iterator<Item = (&'a str, Props<'a>)> {
        self.object(key).into_iter().flatten().map(|(name, schema)| (name.as_str(), Props(schema)))
    }

    pub fn property(self, name: &str) -> Option<Props<'a>> {
        self.object("properties")?.get(name).map(Props)
    }

    pub fn is_embedded_resource(self) -> bool {
        self.flag("x-kubernetes-embedded-resource")
    }
}
