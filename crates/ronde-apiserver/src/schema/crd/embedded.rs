//! Checks resources embedded in a custom resource: they need a type, and valid metadata if they have any.

use serde_json::Value;

use crate::{error::FieldError, kinds::meta::validate_meta, names, schema::Node};

/// Returns what is wrong with the type and metadata of embedded resources.
pub(super) fn check(object: &Value, root: Node<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(object, root, "", &mut errors);
    errors
}

/// The same for a part of a resource, such as a default.
pub(super) fn check_part(value: &Value, node: Node<'_>, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(value, node, path, &mut errors);
    errors
}

fn walk(value: &Value, node: Node<'_>, path: &str, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(fields) => {
            if node.embedded_resource {
                resource(value, path, errors);
            }
            for (name, value) in fields {
                let is_property = node.data().properties.contains_key(name);
                let Some(schema) = node.field(name) else { continue };
                let path = if is_property { join(path, name) } else { format!("{path}[{name}]") };
                walk(value, schema, &path, errors);
            }
        }
        Value::Array(items) => {
            let Some(inner) = node.items() else { return };
            for (at, item) in items.iter().enumerate() {
                walk(item, inner, &format!("{path}[{at}]"), errors);
            }
        }
        _ => {}
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn resource(value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for field in ["apiVersion", "kind"] {
        let at = join(path, field);
        match value.get(field) {
            None => errors.push(FieldError::required(at, "")),
            Some(Value::String(text)) if text.is_empty() => {
                errors.push(FieldError::invalid(at, text.as_str().into(), "must not be empty"));
            }
            Some(Value::String(text)) => {
                let problem = if field == "kind" { bad_kind(text) } else { bad_api_version(text) };
                errors.extend(problem.map(|detail| FieldError::invalid(at, text.as_str().into(), detail)));
            }
            Some(other) => errors.push(FieldError::invalid(at, other.clone(), "must be a string")),
        }
    }
    if let Some(Value::Object(metadata)) = value.get("metadata") {
        let mut metadata = metadata.clone();
        // A name is not required here, but what is given must be valid.
        if metadata.get("name").and_then(Value::as_str).unwrap_or_default().is_empty() {
            metadata.insert("name".to_owned(), "fakename".into());
        }
        let namespaced = metadata.get("namespace").and_then(Value::as_str).is_some_and(|text| !text.is_empty());
        let object = serde_json::json!({ "metadata": metadata });
        let problems = validate_meta(&object, None, namespaced, names::is_path_segment_name);
        errors.extend(problems.into_iter().map(|error| FieldError { path: join(path, &error.path), ..error }));
    }
}

fn bad_kind(kind: &str) -> Option<String> {
    let problems = names::is_dns1035_label(&kind.to_lowercase());
    let listed = problems.join(",");
    (!problems.is_empty()).then(|| format!("may have mixed case, but should otherwise match: {listed}"))
}

fn bad_api_version(version: &str) -> Option<String> {
    (version.matches('/').count() > 1).then(|| format!("unexpected GroupVersion string: {version}"))
}
