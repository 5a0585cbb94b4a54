//! The schema of a custom resource as clients see it: the one of the CRD, with what every object has.

use serde_json::{Map, Value, json};

use super::{
    components::{META, type_properties},
    reference,
};
use crate::discovery::ResourceInfo;

/// As `kubectl explain` shows it for every kind.
const METADATA: &str = "Standard object's metadata. More info: \
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// The name of a custom kind's definition: `com.example.v1.Thing` for `Thing` of `example.com/v1`.
pub(super) fn name(info: &ResourceInfo) -> String {
    let mut parts: Vec<&str> = info.group.split('.').rev().collect();
    parts.extend([&*info.version, &*info.kind]);
    parts.join(".")
}

/// Returns the component of a custom kind. `schemas` are the built-in ones, for their descriptions.
pub(super) fn component(info: &ResourceInfo, schema: &Value, schemas: &Map<String, Value>) -> Value {
    let types = type_properties(schemas);
    let mut component = expanded(schema, &types);
    if !component.is_object() {
        component = json!({"type": "object"});
    }
    add_properties(&mut component, &types);
    let names = json!([{"group": info.group, "version": info.version, "kind": info.kind}]);
    component["x-kubernetes-group-version-kind"] = names;
    component
}

/// Copies a schema, spelling out what its extensions stand for.
fn expanded(schema: &Value, types: &Map<String, Value>) -> Value {
    let Value::Object(object) = schema else { return schema.clone() };
    let mut copy: Map<String, Value> = object
        .iter()
        .map(|(key, inner)| {
            let inner = match key.as_str() {
                "items" | "additionalProperties" | "not" => expanded(inner, types),
                "properties" | "allOf" | "anyOf" | "oneOf" => each(inner, types),
                _ => inner.clone(),
            };
            (key.clone(), inner)
        })
        .collect();
    if object.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) && !object.contains_key("anyOf") {
        copy.insert("anyOf".into(), json!([{"type": "integer"}, {"type": "string"}]));
    }
    let mut copy = Value::Object(copy);
    if object.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true)) {
        add_properties(&mut copy, types);
        copy["required"] = json!(["kind", "apiVersion"]);
    }
    copy
}

fn each(schemas: &Value, types: &Map<String, Value>) -> Value {
    match schemas {
        Value::Object(by_name) => by_name.iter().map(|(name, s)| (name.clone(), expanded(s, types))).collect(),
        Value::Array(list) => list.iter().map(|s| expanded(s, types)).collect(),
        other => other.clone(),
    }
}

/// Adds what every object has; it takes the place of what the CRD says about it.
fn add_properties(schema: &mut Value, types: &Map<String, Value>) {
    let metadata = json!({"description": METADATA, "allOf": [reference(&format!("{META}.ObjectMeta"))]});
    if !schema["properties"].is_object() {
        schema["properties"] = json!({});
    }
    for (name, property) in types {
        schema["properties"][name] = property.clone();
    }
    schema["properties"]["metadata"] = metadata;
}
