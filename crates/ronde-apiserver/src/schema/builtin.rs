//! The schemas of the built-in kinds, made once from the compiled-in types and our tables of what those do not tell.
//!
//! [`root`] is what the rest of the server calls: on every read of a patch and every write. [`definitions`] is for the
//! OpenAPI documents. The tables: [`lists`] (merging), [`empties`] (zero values), [`names`] (types in error texts);
//! the kinds themselves: [`kinds`]. Custom resources are none of this module's business.

mod empties;
mod fields;
mod kinds;
mod lists;
mod names;

use std::{collections::BTreeMap, sync::OnceLock};

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use self::fields::{Hint, Hints};
pub use self::kinds::KINDS;
use super::{Additional, Empty, Format, Id, Node, NodeData, Set, Type};

/// Package, then rows of: type names, field names (with `=value` where the table says so), both separated by spaces.
type Table = &'static [(&'static str, &'static [(&'static str, &'static str)])];

/// A built-in kind and the type that describes it.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    /// The name of its definition, as in `io.k8s.api.core.v1.Pod`.
    pub definition: &'static str,
    register: fn(&mut schemars::SchemaGenerator),
}

/// Returns the schema of a built-in kind.
pub fn root(group: &str, version: &str, kind: &str) -> Option<Node<'static>> {
    let schemas = schemas();
    let found = schemas.roots.binary_search_by(|(k, _)| (k.group, k.version, k.kind).cmp(&(group, version, kind)));
    found.ok().map(|at| schemas.set.node(schemas.roots[at].1))
}

/// Returns the JSON schemas of all types that the given kinds are made of, by definition name.
///
/// References read `#/$defs/io.k8s.…`. Made anew on every call: the descriptions are large and rarely asked for.
pub fn definitions<'a>(kinds: impl IntoIterator<Item = &'a Kind>) -> Map<String, Value> {
    let mut generator = SchemaSettings::default().into_generator();
    for kind in kinds {
        (kind.register)(&mut generator);
    }
    generator.take_definitions(true)
}

/// Returns the schema of a property of a definition.
pub fn property(definition: &str, field: &str) -> Option<Node<'static>> {
    let schemas = schemas();
    schemas.set.node(*schemas.types.get(definition)?).field(field)
}

/// Whether server-side apply owns objects of this definition as a whole.
pub fn is_atomic(definition: &str) -> bool {
    let schemas = schemas();
    schemas.types.get(definition).is_some_and(|id| schemas.set.data(*id).atomic_map)
}

struct Schemas {
    set: Set,
    /// Sorted by group, version and kind.
    roots: Vec<(&'static Kind, Id)>,
    types: BTreeMap<String, Id>,
}

fn schemas() -> &'static Schemas {
    static SCHEMAS: OnceLock<Schemas> = OnceLock::new();
    SCHEMAS.get_or_init(|| {
        let definitions = definitions(KINDS);
        let mut builder =
            Builder { definitions: &definitions, hints: fields::hints(), set: Set::new(), types: BTreeMap::new() };
        let mut roots: Vec<_> = KINDS.iter().map(|kind| (kind, builder.definition(kind.definition))).collect();
        roots.sort_by_key(|(kind, _)| (kind.group, kind.version, kind.kind));
        Schemas { set: builder.set, roots, types: builder.types }
    })
}

/// Turns definitions into nodes. A definition is one node; a property that refers to it gets a node of its own that
/// shares the nodes below, unless nothing sets it apart.
struct Builder<'a> {
    definitions: &'a Map<String, Value>,
    hints: Hints,
    set: Set,
    types: BTreeMap<String, Id>,
}

impl Builder<'_> {
    fn definition(&mut self, name: &str) -> Id {
        if let Some(id) = self.types.get(name) {
            return *id;
        }
        let id = self.set.add(NodeData::default());
        self.types.insert(name.to_owned(), id);
        let data = self.special(name).unwrap_or_else(|| self.object(name));
        self.set.replace(id, data);
        id
    }

    /// The types that encode themselves.
    fn special(&mut self, name: &str) -> Option<NodeData> {
        let (kind, format) = match fields::short_name(name) {
            "api.resource.Quantity" => (Type::IntOrString, Some(Format::Quantity)),
            "util.intstr.IntOrString" => (Type::IntOrString, None),
            "meta.v1.Time" => (Type::String, Some(Format::Time)),
            "meta.v1.MicroTime" => (Type::String, Some(Format::MicroTime)),
            "meta.v1.FieldsV1" | "pkg.runtime.RawExtension" | "apiextensions.v1.JSON" => {
                return Some(NodeData { atomic_map: true, ..NodeData::default() });
            }
            "apiextensions.v1.JSONSchemaPropsOrArray"
            | "apiextensions.v1.JSONSchemaPropsOrBool"
            | "apiextensions.v1.JSONSchemaPropsOrStringArray" => {
                // Any, but the schemas in it are known: decoding cleans them.
                let schema = self.definition(&name.replace(fields::type_name(name), "JSONSchemaProps"));
                return Some(NodeData { items: Some(schema), ..NodeData::default() });
            }
            _ => return None,
        };
        Some(NodeData { kind, format, type_name: fields::go_name(name).into(), ..NodeData::default() })
    }

    fn object(&mut self, name: &str) -> NodeData {
        let definitions = self.definitions;
        let schema = &definitions[name];
        let required: Vec<String> = strings(&schema["required"]);
        let mut data = NodeData {
            kind: Type::Object,
            type_name: fields::go_name(name).into(),
            atomic_map: fields::is_atomic(name),
            ..NodeData::default()
        };
        for (field, property) in schema["properties"].as_object().into_iter().flatten() {
            let empty = empty_by_rule(schema, field, required.iter().any(|r| r == field));
            let id = self.property(property, empty, self.hints.of(name, field));
            if matches!(self.set.data(id).empty, Empty::Written | Empty::Null) {
                data.always.push(field.clone());
            }
            data.properties.insert(field.clone(), id);
        }
        data.required = required;
        data
    }

    fn property(&mut self, schema: &Value, empty: Empty, hints: Vec<Hint>) -> Id {
        // Also what makes a schema that refers to itself come out right: its node is not filled yet.
        if let (Some(name), Empty::Kept, []) = (referred(schema), empty, hints.as_slice()) {
            return self.definition(name);
        }
        let mut node = self.schema(schema);
        node.empty = empty;
        for hint in hints {
            self.apply(hint, &mut node);
        }
        self.set.add(node)
    }

    fn schema(&mut self, schema: &Value) -> NodeData {
        if let Some(name) = referred(schema) {
            let id = self.definition(name);
            return self.set.data(id).clone();
        }
        let format = schema["format"].as_str().unwrap_or_default();
        let scalar = |kind, format| NodeData { kind, format, ..NodeData::default() };
        match (schema["type"].as_str().unwrap_or_default(), format) {
            ("string", "byte") => scalar(Type::String, Some(Format::Byte)),
            ("string", _) => scalar(Type::String, None),
            ("integer", "int32") => scalar(Type::Integer, Some(Format::Int32)),
            ("integer", _) => scalar(Type::Integer, Some(Format::Int64)),
            ("number", _) => scalar(Type::Number, Some(Format::Double)),
            ("boolean", _) => scalar(Type::Boolean, None),
            ("array", _) => {
                let items = self.element(&schema["items"]);
                NodeData { items: Some(items), ..scalar(Type::Array, None) }
            }
            ("object", _) => {
                let values = self.element(&schema["additionalProperties"]);
                NodeData { additional: Additional::Values(values), ..scalar(Type::Object, None) }
            }
            _ => NodeData::default(),
        }
    }

    /// The schema of the elements of a list or map: the definition's own node, where there is one.
    fn element(&mut self, schema: &Value) -> Id {
        if let Some(name) = referred(schema) {
            return self.definition(name);
        }
        let data = self.schema(schema);
        self.set.add(data)
    }

    fn apply(&mut self, hint: Hint, node: &mut NodeData) {
        match hint {
            Hint::Empty(empty) => node.empty = empty,
            Hint::List(list) => node.list = list,
            Hint::Patch(patch) => node.patch = patch,
            Hint::Atomic(atomic) => node.atomic_map = atomic,
            Hint::Default(value) => node.default = Some(value.into()),
            Hint::Name(name) => match (node.items, node.additional) {
                (Some(id), _) if name.starts_with("[]") => self.rename(id, &name),
                (_, Additional::Values(id)) if name.starts_with("map[") => self.rename(id, &name),
                _ => node.type_name = name.into(),
            },
        }
    }

    /// Names the element type of a list or map. Such elements are scalars or lists: the node is not shared.
    fn rename(&mut self, id: Id, name: &str) {
        let element = name.split_once(']').map_or(name, |(_, element)| element);
        let renamed = NodeData { type_name: element.into(), ..self.set.data(id).clone() };
        self.set.replace(id, renamed);
    }
}

fn empty_by_rule(schema: &Value, field: &str, is_required: bool) -> Empty {
    let is_part_of_kind = matches!(field, "spec" | "status") && schema["properties"].get("metadata").is_some();
    match referred(&schema["properties"][field]) {
        _ if is_required => Empty::Written,
        Some(_) if is_part_of_kind => Empty::Written,
        Some(_) => Empty::Kept,
        None => Empty::Dropped,
    }
}

fn referred(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str().and_then(|reference| reference.rsplit('/').next())
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(|v| v.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests;
