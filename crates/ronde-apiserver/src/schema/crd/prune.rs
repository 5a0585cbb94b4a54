//! Drops what a schema does not know.
//!
//! Called when a custom resource comes in, and when one is read from storage after its schema changed. The paths of
//! what was dropped are for the client who asked to be told (`fieldValidation`).

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::schema::{Additional, Node, Type};

/// The fields that make a resource one.
const RESOURCE_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];
/// What `metadata` of an embedded resource may hold.
const METADATA_FIELDS: [&str; 15] = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

/// Removes unknown fields from a custom resource and returns their paths, as in `spec.containers[0].imagee`.
pub fn prune(value: &mut Value, root: Node<'_>) -> Vec<String> {
    let mut pruner = Pruner { path: String::new(), dropped: Vec::new() };
    pruner.value(value, Some(root), true);
    pruner.dropped.sort();
    pruner.dropped
}

/// Removes unknown fields from a part of a resource that `node` describes, such as a default.
pub(super) fn prune_part(value: &mut Value, node: Node<'_>) {
    Pruner { path: String::new(), dropped: Vec::new() }.value(value, Some(node), node.embedded_resource);
}

struct Pruner {
    path: String,
    dropped: Vec<String>,
}

impl Pruner {
    fn value(&mut self, value: &mut Value, node: Option<Node<'_>>, is_resource: bool) {
        match value {
            Value::Object(fields) => match node.filter(|node| has_schema(*node)) {
                Some(node) => self.object(fields, node, is_resource),
                None => self.drop_all(fields),
            },
            Value::Array(items) => {
                let keeps = node.is_some_and(|node| has_schema(node) && node.keeps_unknown());
                let inner = node.and_then(Node::items);
                for (at, item) in items.iter_mut().enumerate() {
                    let length = self.path.len();
                    let _ = write!(self.path, "[{at}]");
                    match inner {
                        Some(inner) if keeps => self.known_only(item, inner),
                        None if keeps => {}
                        inner => self.child(item, inner),
                    }
                    self.path.truncate(length);
                }
            }
            _ => {}
        }
    }

    fn child(&mut self, value: &mut Value, node: Option<Node<'_>>) {
        self.value(value, node, node.is_some_and(|node| node.embedded_resource));
    }

    fn object(&mut self, fields: &mut Map<String, Value>, node: Node<'_>, is_resource: bool) {
        let mut unknown = Vec::new();
        for (name, value) in fields.iter_mut() {
            if is_resource && RESOURCE_FIELDS.contains(&name.as_str()) {
                if name == "metadata" && node.embedded_resource {
                    self.metadata(value);
                }
                continue;
            }
            match schema_of(node, name) {
                Some(schema) => self.at_field(name, |this| this.child(value, Some(schema))),
                None if node.keeps_unknown() => {}
                None => unknown.push(name.clone()),
            }
        }
        for name in unknown {
            // Where a resource should be, its type is not worth a complaint.
            if !(self.path.is_empty() && RESOURCE_FIELDS.contains(&name.as_str())) {
                self.at_field(&name, |this| this.dropped.push(this.path.clone()));
            }
            fields.remove(&name);
        }
    }

    /// Items of a list that keeps what is unknown keep it too, but what they know is pruned.
    fn known_only(&mut self, value: &mut Value, node: Node<'_>) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields.iter_mut() {
                    let skipped = node.embedded_resource && RESOURCE_FIELDS.contains(&name.as_str());
                    if let Some(schema) = schema_of(node, name).filter(|_| !skipped) {
                        self.at_field(name, |this| this.child(value, Some(schema)));
                    }
                }
            }
            Value::Array(items) => {
                let Some(inner) = node.items() else { return };
                for item in items {
                    self.known_only(item, inner);
                }
            }
            _ => {}
        }
    }

    fn metadata(&mut self, metadata: &mut Value) {
        let Value::Object(fields) = metadata else { return };
        let unknown: Vec<String> =
            fields.keys().filter(|name| !METADATA_FIELDS.contains(&name.as_str())).cloned().collect();
        for name in unknown {
            fields.remove(&name);
            self.at_field("metadata", |this| this.at_field(&name, |this| this.dropped.push(this.path.clone())));
        }
        if fields.get("creationTimestamp").is_some_and(Value::is_null) {
            fields.remove("creationTimestamp");
        }
    }

    fn drop_all(&mut self, fields: &mut Map<String, Value>) {
        for name in std::mem::take(fields).keys() {
            self.at_field(name, |this| this.dropped.push(this.path.clone()));
        }
    }

    fn at_field(&mut self, name: &str, then: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        then(self);
        self.path.truncate(length);
    }
}

/// The schema of a field, without what the server adds to every resource.
fn schema_of<'a>(node: Node<'a>, name: &str) -> Option<Node<'a>> {
    match (node.data().properties.get(name), node.data().additional) {
        (Some(&id), _) | (None, Additional::Values(id)) => Some(node.at(id)),
        _ => None,
    }
}

/// Values under `additionalProperties: true` have no schema: objects among them end up empty.
fn has_schema(node: Node<'_>) -> bool {
    node.kind != Type::Any || node.data().checks.as_ref().is_none_or(|checks| !checks.schemaless)
}
