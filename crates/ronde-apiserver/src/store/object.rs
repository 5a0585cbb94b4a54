//! One stored object: its JSON bytes, and the little of it that reads look at without parsing.
//!
//! The stored form is `{"metadata":{"resourceVersion":"N",…},…}` without `apiVersion` and `kind`: those belong to the
//! version a client asks for and are put in front when the object is served ([`Object::json`]). The revision stands at a
//! fixed place, so that the committer can fill it in without parsing: a [`Draft`] is everything behind it.

use std::{collections::BTreeMap, fmt, sync::Arc};

use bytes::Bytes;
use serde_json::{Map, Value};

/// A point in the history of the store; every write has its own.
pub type Revision = u64;

const HEAD: &[u8] = br#"{"metadata":{"resourceVersion":""#;

/// Where an object stands in its collection. Ordered as lists are: by namespace, then by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespacedName {
    /// Empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

/// The full name of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// `plural.group`, or `plural` for the core group.
    pub collection: Arc<str>,
    pub place: NamespacedName,
}

/// An object as it is stored.
#[derive(Debug, PartialEq)]
pub struct Object {
    pub revision: Revision,
    pub place: NamespacedName,
    pub meta: Meta,
    raw: Bytes,
}

/// What selectors and the garbage collector look at, kept beside the bytes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Meta {
    pub uid: Arc<str>,
    pub labels: BTreeMap<String, String>,
    pub finalizers: Vec<String>,
    pub owners: Vec<Owner>,
    pub deleting: bool,
}

/// One of `metadata.ownerReferences`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    pub api_version: Arc<str>,
    pub kind: Arc<str>,
    pub name: Arc<str>,
    pub uid: Arc<str>,
    /// `blockOwnerDeletion`.
    pub blocks: bool,
}

/// An object that has no revision yet.
#[derive(Debug, Clone)]
pub struct Draft {
    place: NamespacedName,
    meta: Meta,
    /// The stored form from behind the digits of the revision to the end.
    tail: Bytes,
}

/// The bytes on disk are not what this version writes.
#[derive(Debug, thiserror::Error)]
#[error("object `{0}` is not in the stored form")]
pub struct Damaged(pub String);

impl NamespacedName {
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.collection, self.place.namespace, self.place.name)
    }
}

impl Key {
    pub fn new(collection: &Arc<str>, namespace: &str, name: &str) -> Self {
        Self { collection: collection.clone(), place: NamespacedName::new(namespace, name) }
    }
}

impl Object {
    /// Reads an object back from its stored form.
    pub(super) fn from_stored(place: NamespacedName, raw: Bytes) -> Result<Self, Damaged> {
        let damaged = || Damaged(format!("{}/{}", place.namespace, place.name));
        let value: Value = serde_json::from_slice(&raw).map_err(|_| damaged())?;
        let revision =
            value["metadata"]["resourceVersion"].as_str().and_then(|v| v.parse().ok()).ok_or_else(damaged)?;
        if !raw.starts_with(HEAD) {
            return Err(damaged());
        }
        Ok(Self { revision, meta: Meta::of_object(&value), place, raw })
    }

    pub fn is_deleting(&self) -> bool {
        self.meta.deleting
    }

    /// Returns the stored bytes: the object without `apiVersion` and `kind`.
    pub fn raw(&self) -> &Bytes {
        &self.raw
    }

    /// Appends the whole object to `out`; `head` is `{"apiVersion":"…","kind":"…",`.
    pub fn write_json(&self, head: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(&self.raw[1..]);
    }

    /// Parses the object; `apiVersion` and `kind` are absent.
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.raw).expect("stored objects were serialised by us or checked when loaded")
    }

    /// Returns the same content at another revision.
    pub fn at_revision(&self, revision: Revision) -> Self {
        self.redraft().at(revision)
    }

    /// Returns the object as a draft of its own next state.
    pub fn redraft(&self) -> Draft {
        let digits = self.revision.checked_ilog10().unwrap_or(0) as usize + 1;
        Draft { place: self.place.clone(), meta: self.meta.clone(), tail: self.raw.slice(HEAD.len() + digits..) }
    }
}

impl Draft {
    /// Takes the object's content; `apiVersion`, `kind` and `metadata.resourceVersion` are not part of it.
    pub fn new(value: &Value) -> Self {
        let empty = Map::new();
        let metadata = value["metadata"].as_object().unwrap_or(&empty);
        let text = |key: &str| metadata.get(key).and_then(Value::as_str).unwrap_or_default();
        let mut tail = Vec::with_capacity(1024);
        tail.push(b'"');
        for (key, field) in metadata.iter().filter(|(key, _)| *key != "resourceVersion") {
            write_field(&mut tail, key, field);
        }
        tail.push(b'}');
        let fields = value.as_object().unwrap_or(&empty);
        for (key, field) in fields.iter().filter(|(key, _)| !matches!(key.as_str(), "apiVersion" | "kind" | "metadata"))
        {
            write_field(&mut tail, key, field);
        }
        tail.push(b'}');
        Self {
            place: NamespacedName::new(text("namespace"), text("name")),
            meta: Meta::of_object(value),
            tail: tail.into(),
        }
    }

    /// Returns how long the stored form is, but for the revision.
    pub fn size(&self) -> usize {
        self.tail.len()
    }

    pub fn is_deleting(&self) -> bool {
        self.meta.deleting
    }

    /// Returns the object at a revision that it has already had, as in a backup.
    pub(crate) fn at(self, revision: Revision) -> Object {
        let mut raw = Vec::with_capacity(HEAD.len() + 20 + self.tail.len());
        raw.extend_from_slice(HEAD);
        raw.extend_from_slice(revision.to_string().as_bytes());
        raw.extend_from_slice(&self.tail);
        Object { revision, place: self.place, meta: self.meta, raw: raw.into() }
    }
}

fn write_field(out: &mut Vec<u8>, key: &str, field: &Value) {
    out.push(b',');
    serde_json::to_writer(&mut *out, key).expect("a string serialises into memory");
    out.push(b':');
    serde_json::to_writer(out, field).expect("a JSON value serialises into memory");
}

impl Meta {
    fn of_object(object: &Value) -> Self {
        let metadata = &object["metadata"];
        let items = |name: &str| metadata[name].as_array().into_iter().flatten();
        let labels = metadata["labels"].as_object().into_iter().flatten();
        Self {
            uid: metadata["uid"].as_str().unwrap_or_default().into(),
            labels: labels.filter_map(|(key, label)| Some((key.clone(), label.as_str()?.to_owned()))).collect(),
            finalizers: items("finalizers").filter_map(|item| item.as_str().map(str::to_owned)).collect(),
            owners: items("ownerReferences").map(Owner::of_reference).collect(),
            deleting: metadata["deletionTimestamp"].is_string(),
        }
    }
}

impl Owner {
    fn of_reference(reference: &Value) -> Self {
        let text = |name: &str| reference[name].as_str().unwrap_or_default();
        Self {
            api_version: text("apiVersion").into(),
            kind: text("kind").into(),
            name: text("name").into(),
            uid: text("uid").into(),
            blocks: reference["blockOwnerDeletion"] == true,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(name: &str, value: &Value, revision: Revision) {
        let object = Draft::new(value).at(revision);
        let mut expected = value.clone();
        expected.as_object_mut().map(|o| (o.remove("apiVersion"), o.remove("kind")));
        expected["metadata"]["resourceVersion"] = revision.to_string().into();
        assert_eq!(object.value(), expected, "{name}");
        assert_eq!(Object::from_stored(object.place.clone(), object.raw.clone()).ok(), Some(object), "{name}");
        let again = Draft::new(value).at(revision).redraft().at(revision + 1);
        assert_eq!(again.value()["metadata"]["resourceVersion"], (revision + 1).to_string(), "{name}");
    }

    #[test]
    fn what_goes_in_comes_out_with_its_revision() {
        check("metadata only", &json!({"metadata": {"name": "a"}}), 1);
        check("type is left to the reader", &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}), 9);
        check("an old version is replaced", &json!({"metadata": {"name": "a", "resourceVersion": "3"}}), 10);
        check("labels", &json!({"metadata": {"name": "a", "labels": {"x": "y"}}, "spec": {"kind": "inner"}}), 99);
        check("awkward text", &json!({"metadata": {"name": "a"}, "data": {"\"resourceVersion\":\"": "\u{0}\n"}}), 100);
    }
}
