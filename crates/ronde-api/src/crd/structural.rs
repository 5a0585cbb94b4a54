//! Turns the schemas that types describe themselves with into structural ones.
//!
//! References are put in place of what they refer to, optional values are values that may be missing, and what only a
//! Rust program needs to know goes. Descriptions of the cluster's own types go too: with them, a definition would be too
//! large for `kubectl apply` to note on the object.

use serde_json::{Map, Value, json};

/// What is kept of a schema as it stands.
const KEPT: [&str; 9] = [
    "type",
    "format",
    "pattern",
    "enum",
    "minimum",
    "maximum",
    "required",
    "x-kubernetes-int-or-string",
    "description",
];
const QUANTITY: &str = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$";

/// Returns the structural form of a schema whose references are in `definitions`.
pub(super) fn structural(schema: &Value, definitions: &Map<String, Value>) -> Value {
    Converter { definitions }.convert(schema, true)
}

struct Converter<'a> {
    definitions: &'a Map<String, Value>,
}

impl Converter<'_> {
    fn convert(&self, schema: &Value, described: bool) -> Value {
        if let Some(name) = schema["$ref"].as_str().and_then(|reference| reference.rsplit('/').next()) {
            return self.referred(name, schema, described);
        }
        if let Some(one) = only_alternative(schema) {
            return self.convert(&merged(one, schema), described);
        }
        let mut out: Map<String, Value> = Map::new();
        for (key, value) in schema.as_object().into_iter().flatten() {
            let is_kept = KEPT.contains(&key.as_str()) && (described || key != "description");
            match (key.as_str(), value) {
                ("properties", Value::Object(properties)) => {
                    let convert = |(name, field): (&String, &Value)| (name.clone(), self.convert(field, described));
                    out.insert(key.clone(), properties.iter().map(convert).collect());
                }
                ("items" | "additionalProperties", Value::Object(_)) => {
                    out.insert(key.clone(), self.convert(value, described));
                }
                ("type", Value::Array(types)) => {
                    out.insert(key.clone(), types.iter().find(|name| **name != "null").cloned().unwrap_or_default());
                }
                _ if is_kept => _ = out.insert(key.clone(), value.clone()),
                _ => {}
            }
        }
        Value::Object(out)
    }

    fn referred(&self, name: &str, schema: &Value, described: bool) -> Value {
        let description = schema["description"].as_str().filter(|_| described);
        let mut out = special(name).unwrap_or_else(|| {
            let definition = self.definitions.get(name).cloned().unwrap_or_default();
            self.convert(&definition, described && !name.starts_with("io.k8s."))
        });
        if let Some(description) = description {
            out["description"] = description.into();
        }
        out
    }
}

/// The types of the cluster that encode themselves.
fn special(name: &str) -> Option<Value> {
    Some(match name.rsplit('.').next().unwrap_or_default() {
        _ if !name.starts_with("io.k8s.") => return None,
        "Quantity" => json!({
            "anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": QUANTITY, "x-kubernetes-int-or-string": true,
        }),
        "IntOrString" => {
            json!({"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true})
        }
        "Time" | "MicroTime" => json!({"type": "string", "format": "date-time"}),
        "FieldsV1" => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        _ => return None,
    })
}

/// The schema of a value that may be null, if this is what the alternatives say.
fn only_alternative(schema: &Value) -> Option<&Value> {
    let mut real = schema["anyOf"].as_array()?.iter().filter(|one| one["type"] != "null");
    real.next().filter(|_| real.next().is_none())
}

fn merged(one: &Value, around: &Value) -> Value {
    let mut merged = one.clone();
    if let Some(description) = around.get("description") {
        merged["description"] = description.clone();
    }
    merged
}
