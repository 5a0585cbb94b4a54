//! Which objects of a collection a list or watch is about: namespace, name, labels, fields.

use std::{borrow::Cow, fmt, sync::Arc};

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use super::options::ListOptions;
use crate::{
    error::ApiError,
    registry::Resource,
    selector::{FieldSelector, LabelSelector},
    store::Object,
    target::Target,
};

/// The part of a collection that a client asked for.
#[derive(Debug, Clone)]
pub struct Filter {
    pub namespace: Option<Arc<str>>,
    /// Set when the path names one object.
    name: Option<String>,
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Filter {
    /// # Errors
    /// If a selector is malformed or names a field that cannot be selected by.
    pub fn new(resource: &Resource, target: &Target, options: &ListOptions) -> Result<Self, ApiError> {
        let labels = LabelSelector::parse(&options.label_selector)?;
        let fields = FieldSelector::parse(&options.field_selector)?;
        for term in fields.terms() {
            resource.check_selectable(&term.path)?;
        }
        let named = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Ok(Self { namespace: named(&target.namespace).map(Into::into), name: named(&target.name), labels, fields })
    }

    pub fn matches(&self, object: &Object) -> bool {
        self.namespace.as_ref().is_none_or(|namespace| *namespace == object.place.namespace)
            && self.name.as_ref().is_none_or(|name| **name == *object.place.name)
            && self.labels.matches(&object.meta.labels)
            && self.fields.terms().iter().all(|term| term.accepts(&field(object, &term.path)))
    }

    /// Whether all of a namespace (or of the collection) is asked for.
    pub fn takes_all(&self) -> bool {
        self.name.is_none() && self.labels.is_everything() && self.fields.terms().is_empty()
    }
}

/// Returns a field as selectors compare it; empty if it is not there.
fn field<'o>(object: &'o Object, path: &str) -> Cow<'o, str> {
    let absent = match path {
        "metadata.name" => return Cow::Borrowed(&*object.place.name),
        "metadata.namespace" => return Cow::Borrowed(&*object.place.namespace),
        // Booleans that are not there are false to the real server.
        "spec.hostNetwork" | "spec.unschedulable" => "false",
        "status.successful" => "0",
        _ => "",
    };
    let found = dig(object.raw(), path);
    if found.is_empty() { Cow::Borrowed(absent) } else { Cow::Owned(found) }
}

/// Reads one field from JSON without building the rest of the object.
fn dig(raw: &[u8], path: &str) -> String {
    let parts: Vec<&str> = path.split('.').collect();
    let mut json = serde_json::Deserializer::from_slice(raw);
    match Dig(&parts).deserialize(&mut json) {
        Ok(Value::String(text)) => text,
        Ok(Value::Null) | Err(_) => String::new(),
        Ok(other) => other.to_string(),
    }
}

struct Dig<'p>(&'p [&'p str]);

impl<'de> DeserializeSeed<'de> for Dig<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Value, D::Error> {
        if self.0.is_empty() { serde::Deserialize::deserialize(json) } else { json.deserialize_any(self) }
    }
}

impl<'de> Visitor<'de> for Dig<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Value, M::Error> {
        let mut found = Value::Null;
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            if key == self.0[0] {
                found = map.next_value_seed(Dig(&self.0[1..]))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_from_the_bytes() {
        let raw = br#"{"a":{"b":"text","n":3,"t":true,"o":{}},"list":[1]}"#;
        let cases =
            [("a.b", "text"), ("a.n", "3"), ("a.t", "true"), ("a.x", ""), ("a.b.c", ""), ("x.y", ""), ("list.a", "")];
        for (path, expected) in cases {
            assert_eq!(dig(raw, path), expected, "{path}");
        }
    }
}
