//! A workload-like kind, and an object of it that managers write to one after the other.

use serde_json::{Value, json};

use super::super::{Target, Writer, apply, fieldset::FieldSet, managed::Managed, track_update};
use crate::schema::{Additional, Id, ListType, Node, NodeData, Set, Type};

pub const FIRST: &str = "2024-01-01T00:00:00Z";
pub const LATER: &str = "2024-01-01T00:00:05Z";

/// A schema, made node by node.
#[derive(Default)]
pub struct Schema {
    set: Set,
}

impl Schema {
    pub fn node(&self, id: Id) -> Node<'_> {
        self.set.node(id)
    }

    pub fn scalar(&mut self, kind: Type) -> Id {
        self.set.add(NodeData { kind, ..NodeData::default() })
    }

    pub fn text(&mut self) -> Id {
        self.scalar(Type::String)
    }

    pub fn text_or(&mut self, default: &str) -> Id {
        self.set.add(NodeData { kind: Type::String, default: Some(default.into()), ..NodeData::default() })
    }

    pub fn object(&mut self, fields: &[(&str, Id)]) -> Id {
        let properties = fields.iter().map(|(name, id)| ((*name).to_owned(), *id)).collect();
        self.set.add(NodeData { kind: Type::Object, properties, ..NodeData::default() })
    }

    pub fn map(&mut self, values: Id) -> Id {
        let additional = Additional::Values(values);
        self.set.add(NodeData { kind: Type::Object, additional, ..NodeData::default() })
    }

    pub fn list(&mut self, list: ListType, items: Id) -> Id {
        self.set.add(NodeData { kind: Type::Array, list, items: Some(items), ..NodeData::default() })
    }

    pub fn keyed(&mut self, keys: &[&str], items: Id) -> Id {
        self.list(ListType::Map(keys.iter().map(|key| (*key).to_owned()).collect()), items)
    }

    pub fn atomic(&mut self, id: Id) -> Id {
        let data = NodeData { atomic_map: true, list: ListType::Atomic, ..self.set.data(id).clone() };
        self.set.add(data)
    }

    /// The kind that most tests use. `finalizers` lets a test change how that list is merged.
    pub fn workload(&mut self, finalizers: ListType) -> Id {
        let (text, number, flag) = (self.text(), self.scalar(Type::Integer), self.scalar(Type::Boolean));
        let (any, texts) = (self.scalar(Type::Any), self.map(text));
        let finalizers = self.list(finalizers, text);
        let entries = self.list(ListType::Atomic, any);
        let metadata = self.object(&[
            ("name", text),
            ("namespace", text),
            ("uid", text),
            ("resourceVersion", text),
            ("labels", texts),
            ("annotations", texts),
            ("finalizers", finalizers),
            ("managedFields", entries),
        ]);
        let protocol = self.text_or("TCP");
        let port = self.object(&[("containerPort", number), ("protocol", protocol), ("name", text)]);
        let ports = self.keyed(&["containerPort", "protocol"], port);
        let (command, env) = (self.list(ListType::Atomic, text), self.object(&[("name", text), ("value", text)]));
        let env = self.keyed(&["name"], env);
        let container =
            self.object(&[("name", text), ("image", text), ("command", command), ("ports", ports), ("env", env)]);
        let containers = self.keyed(&["name"], container);
        let selector = self.atomic(texts);
        let spec = self.object(&[
            ("replicas", number),
            ("paused", flag),
            ("selector", selector),
            ("containers", containers),
            ("free", any),
        ]);
        let condition = self.object(&[("type", text), ("status", text)]);
        let conditions = self.keyed(&["type"], condition);
        let status = self.object(&[("replicas", number), ("conditions", conditions)]);
        self.object(&[
            ("apiVersion", text),
            ("kind", text),
            ("metadata", metadata),
            ("spec", spec),
            ("status", status),
            ("data", texts),
        ])
    }
}

/// One object and its schema.
pub struct World {
    schema: Schema,
    kind: Id,
    pub empty: Value,
    pub live: Option<Value>,
    pub now: &'static str,
    pub subresource: &'static str,
}

impl World {
    pub fn new() -> Self {
        let mut schema = Schema::default();
        let kind = schema.workload(ListType::Set);
        Self { schema, kind, empty: json!({}), live: None, now: FIRST, subresource: "" }
    }

    /// Makes `finalizers` one list that is owned as a whole, as an update of a CRD may.
    pub fn make_finalizers_atomic(&mut self) {
        self.kind = self.schema.workload(ListType::Atomic);
    }

    pub fn schema(&self) -> Node<'_> {
        self.schema.node(self.kind)
    }

    pub fn target(&self) -> Target<'_> {
        Target {
            schema: self.schema(),
            api_version: "apps/v1",
            kind: "Workload",
            subresource: self.subresource,
            reset_fields: if self.subresource == "status" { &["spec", "metadata.labels"] } else { &["status"] },
            empty: &self.empty,
        }
    }

    /// Applies what is in `config` beyond the name and kind; the error is its message.
    pub fn apply(&mut self, manager: &str, force: bool, config: &Value) -> Result<(), String> {
        let writer = Writer { manager, now: self.now, force };
        let object = apply(&self.target(), &writer, self.live.as_ref(), &named(config)).map_err(|e| e.message)?;
        self.live = Some(stored(object));
        Ok(())
    }

    /// Replaces the object as a whole.
    pub fn update(&mut self, manager: &str, object: &Value) {
        let writer = Writer { manager, now: self.now, force: false };
        let mut new = named(object);
        track_update(&self.target(), &writer, self.live.as_ref(), &mut new);
        self.live = Some(stored(new));
    }

    /// Changes fields of the object: `(pointer, value)`, null removes.
    pub fn edit(&mut self, manager: &str, changes: &[(&str, Value)]) {
        let mut object = self.live.clone().unwrap_or_default();
        for (pointer, value) in changes {
            let (parent, name) = pointer.rsplit_once('/').expect("a pointer has a slash");
            let parent = object.pointer_mut(parent).and_then(Value::as_object_mut).expect("the parent is there");
            if value.is_null() {
                parent.remove(name);
            } else {
                parent.insert(name.to_owned(), value.clone());
            }
        }
        self.update(manager, &object);
    }

    /// The object without what the server adds.
    pub fn content(&self) -> Value {
        let mut object = self.live.clone().unwrap_or_default();
        let root = object.as_object_mut().expect("objects are objects");
        root.remove("apiVersion");
        root.remove("kind");
        let metadata = root.get_mut("metadata").and_then(Value::as_object_mut).expect("there is metadata");
        for name in ["name", "uid", "managedFields"] {
            metadata.remove(name);
        }
        if metadata.is_empty() {
            root.remove("metadata");
        }
        object
    }

    /// One line per owner, as in `ann applies .spec.replicas`; `!` marks one without a time.
    pub fn owners(&self) -> String {
        let managed = Managed::stored(self.live.as_ref().unwrap_or(&Value::Null));
        let lines = managed.0.iter().map(|entry| {
            let slash = if entry.subresource.is_empty() { "" } else { "/" };
            let verb = format!("{:?}", entry.operation).to_lowercase();
            let mark = if entry.time.is_none() { "!" } else { "" };
            let paths = entry.fields.paths().join(" ");
            format!("{}{slash}{} {verb}{mark} {paths}", entry.manager, entry.subresource)
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    pub fn owned_by(&self, manager: &str) -> FieldSet {
        let managed = Managed::stored(self.live.as_ref().unwrap_or(&Value::Null));
        let entries = managed.0.into_iter().filter(|entry| entry.manager == manager);
        entries.fold(FieldSet::default(), |mut union, entry| {
            union.add(&entry.fields);
            union
        })
    }
}

/// A configuration with the name and kind that every one needs.
pub fn named(config: &Value) -> Value {
    let mut config = config.clone();
    config["apiVersion"] = "apps/v1".into();
    config["kind"] = "Workload".into();
    config["metadata"]["name"] = "web".into();
    config
}

fn stored(mut object: Value) -> Value {
    object["metadata"]["uid"] = "u".into();
    object
}
