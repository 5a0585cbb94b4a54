//! Fills in the defaults of a schema.
//!
//! Called when a custom resource comes in and whenever one is read from storage, so that a default added later shows
//! everywhere. Null where null is not allowed counts as absent: it gets the default, or goes away.

use serde_json::Value;

use crate::schema::{Additional, Node};

/// Sets the defaults in `value`, a resource or a part of one that `node` describes.
pub fn default(value: &mut Value, node: Node<'_>) {
    drop_nulls(value, Some(node));
    fill(value, Some(node));
}

/// Removes null from fields that allow neither null nor have a default.
fn drop_nulls(value: &mut Value, node: Option<Node<'_>>) {
    match value {
        Value::Object(fields) => fields.retain(|name, value| {
            let schema = node.and_then(|node| schema_of(node, name));
            if value.is_null() && schema.is_some_and(|schema| !schema.nullable && schema.data().default.is_none()) {
                return false;
            }
            drop_nulls(value, schema);
            true
        }),
        Value::Array(items) => {
            let inner = node.and_then(Node::items);
            for item in items {
                drop_nulls(item, inner);
            }
        }
        _ => {}
    }
}

fn fill(value: &mut Value, node: Option<Node<'_>>) {
    let Some(node) = node else { return };
    match value {
        Value::Object(fields) => {
            for (name, &id) in &node.data().properties {
                let property = node.at(id);
                let Some(default) = &property.data().default else { continue };
                if fields.get(name).is_none_or(|value| value.is_null() && !property.nullable) {
                    fields.insert(name.clone(), default.clone());
                }
            }
            for (name, value) in fields.iter_mut() {
                let schema = schema_of(node, name);
                fill_null(value, schema.filter(|_| !node.data().properties.contains_key(name)));
                fill(value, schema);
            }
        }
        Value::Array(items) => {
            for item in items {
                fill_null(item, node.items());
                fill(item, node.items());
            }
        }
        _ => {}
    }
}

fn fill_null(value: &mut Value, node: Option<Node<'_>>) {
    if let Some(node) = node.filter(|node| value.is_null() && !node.nullable) {
        *value = node.data().default.clone().unwrap_or(Value::Null);
    }
}

fn schema_of<'a>(node: Node<'a>, name: &str) -> Option<Node<'a>> {
    match (node.data().properties.get(name), node.data().additional) {
        (Some(&id), _) | (None, Additional::Values(id)) => Some(node.at(id)),
        _ => None,
    }
}
