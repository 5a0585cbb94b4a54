//! OpenAPI: what `kubectl explain`, `kubectl apply` and the field validation of clients read.
//!
//! Version 3 is complete for what is served: one document per group version, with schemas and paths. Version 2 exists
//! for clients that insist on it (see [`v2`]). Pure functions from descriptions to bytes: the caller answers requests
//! and keeps what it wants to keep; a document is made in a few milliseconds.

mod components;
mod custom;
mod enums;
mod parameters;
mod paths;
pub mod v2;

use std::fmt::Write as _;

use ring::digest;
use serde_json::{Map, Value, json};

use crate::discovery::ResourceInfo;

/// A resource and, if it is a custom one, the schema of its version.
#[derive(Debug, Clone, Copy)]
pub struct Described<'a> {
    pub info: &'a ResourceInfo,
    /// `openAPIV3Schema` of the version as it stands in the CRD; none for built-in kinds.
    pub schema: Option<&'a Value>,
}

/// A document that clients may keep for as long as its hash is the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    pub body: Vec<u8>,
    /// Hexadecimal; the `ETag` and the `hash` parameter in the index.
    pub hash: String,
}

impl Document {
    fn new(content: &Value) -> Self {
        let body = content.to_string().into_bytes();
        let mut hash = String::new();
        for byte in digest::digest(&digest::SHA256, &body).as_ref() {
            let _ = write!(hash, "{byte:02X}");
        }
        Self { body, hash }
    }
}

/// `/openapi/v3`: where the documents of these groups, versions and hashes are.
pub fn index<'a>(documents: impl IntoIterator<Item = (&'a str, &'a str, &'a str)>) -> Value {
    let entry = |(group, version, hash): (&str, &str, &str)| {
        let path = &base_path(group, version)[1..];
        (path.to_owned(), json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash={hash}")}))
    };
    json!({"paths": documents.into_iter().map(entry).collect::<Map<_, _>>()})
}

/// `/openapi/v3/api/v1` and `/openapi/v3/apis/GROUP/VERSION`, or none if nothing of that version is served.
pub fn document(resources: &[Described<'_>], group: &str, version: &str) -> Option<Document> {
    let is_served = |resource: &&Described<'_>| resource.info.group == group && resource.info.version == version;
    let served: Vec<Described<'_>> = resources.iter().filter(is_served).copied().collect();
    if served.is_empty() {
        return None;
    }
    let paths: Map<String, Value> = served.iter().flat_map(paths::of_resource).collect();
    Some(Document::new(&json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": paths,
        "components": {"schemas": components::schemas(&served)},
    })))
}

/// `/api/v1` or `/apis/apps/v1`.
fn base_path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") }
}

fn reference(definition: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{definition}")})
}

#[cfg(test)]
mod tests;
