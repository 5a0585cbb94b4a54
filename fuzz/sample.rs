//! What the fuzz targets share: a small kind with everything a patch can meet, and an object of it.

use ronde_apiserver::{
    decode::DEPTH_MAX,
    schema::{Additional, Id, ListType, NodeData, PatchHints, Set, Type},
};
use serde_json::{Value, json};

/// Returns the schema of the sample kind and its root.
pub fn schema() -> (Set, Id) {
    let mut set = Set::new();
    let text = leaf(&mut set, Type::String);
    let number = leaf(&mut set, Type::Integer);
    let any = leaf(&mut set, Type::Any);
    let map = set.add(NodeData { kind: Type::Object, additional: Additional::Values(text), ..NodeData::default() });
    let port = object(&mut set, &[("port", number), ("name", text)]);
    let ports = list(&mut set, port, Some("port"));
    let container = object(&mut set, &[("name", text), ("ports", ports), ("map", map), ("any", any)]);
    let containers = list(&mut set, container, Some("name"));
    let finalizers = list(&mut set, text, None);
    let keyless = list(&mut set, container, None);
    let owners = list(&mut set, any, None);
    let meta =
        object(&mut set, &[("name", text), ("labels", map), ("finalizers", finalizers), ("managedFields", owners)]);
    let fields = [
        ("apiVersion", text),
        ("kind", text),
        ("metadata", meta),
        ("containers", containers),
        ("keyless", keyless),
        ("replicas", number),
        ("any", any),
    ];
    let root = object(&mut set, &fields);
    (set, root)
}

/// Returns an object of the sample kind.
pub fn object_of_the_kind() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Sample", "metadata": {"name": "a", "labels": {"k": "v"}, "finalizers": ["f", "g"]},
        "containers": [{"name": "a", "ports": [{"port": 80}, {"port": 81, "name": "x"}]}, {"name": "b", "map": {"k": "v"}}],
        "keyless": [{"name": "a"}], "replicas": 2, "any": {"a": [1, 2.5, null, {"b": true}]},
    })
}

/// Checks what everything behind the decoder relies on.
pub fn assert_shallow(value: &Value) {
    assert!(depth(value) < DEPTH_MAX, "a value is nested too deeply");
}

/// Returns how deep a value is nested.
pub fn depth(value: &Value) -> usize {
    match value {
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

fn leaf(set: &mut Set, kind: Type) -> Id {
    set.add(NodeData { kind, ..NodeData::default() })
}

fn object(set: &mut Set, fields: &[(&str, Id)]) -> Id {
    let properties = fields.iter().map(|(name, id)| ((*name).to_owned(), *id)).collect();
    set.add(NodeData { kind: Type::Object, properties, ..NodeData::default() })
}

fn list(set: &mut Set, items: Id, key: Option<&str>) -> Id {
    let patch = PatchHints { merge: true, merge_key: key.map(str::to_owned), ..PatchHints::default() };
    // Server-side apply merges by the same key; lists of scalars without one are sets to it, others are atomic.
    let list = match key {
        Some(key) => ListType::Map(vec![key.to_owned()]),
        None if set.data(items).kind == Type::String => ListType::Set,
        None => ListType::Atomic,
    };
    set.add(NodeData { kind: Type::Array, items: Some(items), patch, list, ..NodeData::default() })
}
