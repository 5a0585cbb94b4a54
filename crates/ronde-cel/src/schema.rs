//! The shape of a kind: one schema model for built-in kinds and custom resources.
//!
//! A [`Set`] is an arena of [`NodeData`]; a [`Node`] is a cheap, copyable view of one of them. Indices make recursive
//! schemas (`JSONSchemaProps`) and shared definitions (`PodTemplateSpec`) free. Rules read objects through it; the API server
//! builds it, and decodes, patches, defaults, prunes and validates by it.

use std::collections::BTreeMap;

use serde_json::Value;

/// All schema nodes that one or more kinds are made of.
#[derive(Debug, Default)]
pub struct Set {
    nodes: Vec<NodeData>,
}

/// Where a node lives in its [`Set`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(u32);

/// One place in a schema: cheap to copy, reads like the schema itself.
#[derive(Debug, Clone, Copy)]
pub struct Node<'a> {
    set: &'a Set,
    data: &'a NodeData,
}

/// The JSON type of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    /// `x-kubernetes-int-or-string`, also `IntOrString` of built-in kinds; `Quantity` is this too (a number is taken).
    IntOrString,
    /// Anything goes (`x-kubernetes-preserve-unknown-fields` without a type, raw extensions).
    #[default]
    Any,
}

/// The written form of a scalar of a built-in kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Int32,
    Int64,
    Double,
    /// Base64.
    Byte,
    /// RFC 3339, whole seconds.
    Time,
    /// RFC 3339, six digits.
    MicroTime,
    Quantity,
}

/// What becomes of a field of a built-in kind that is empty or absent (`omitempty` and pointers in the real server).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Empty {
    /// Kept as given: an explicit zero differs from an absent field.
    #[default]
    Kept,
    /// An empty value (`""`, `0`, `false`, `[]`, `{}`) is the same as an absent field, and left out.
    Dropped,
    /// Always there: an absent field is written as the zero value of its type.
    Written,
    /// Always there: an absent field is written as `null`.
    Null,
}

/// How server-side apply merges a list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ListType {
    #[default]
    Atomic,
    Set,
    /// With the names of the key fields.
    Map(Vec<String>),
}

/// What is allowed beyond `properties` in an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Additional {
    /// Unknown fields are errors (strict) or dropped.
    #[default]
    None,
    /// Unknown fields are kept as they are (`x-kubernetes-preserve-unknown-fields`, raw extensions).
    Any,
    /// A map whose values have this schema.
    Values(Id),
}

/// The hints of strategic merge patch on a field (`patchStrategy`, `patchMergeKey`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PatchHints {
    /// Lists: merged (by `merge_key`, or as a set of primitives) instead of replaced.
    pub merge: bool,
    pub merge_key: Option<String>,
    /// `retainKeys`: keys not named in the patch's `$retainKeys` are cleared.
    pub retain_keys: bool,
    /// `replace` on an object: the map is replaced as a whole.
    pub replace: bool,
}

/// The content of a node.
#[derive(Debug, Clone, Default)]
pub struct NodeData {
    pub kind: Type,
    pub nullable: bool,
    pub properties: BTreeMap<String, Id>,
    pub additional: Additional,
    pub items: Option<Id>,
    pub required: Vec<String>,
    pub list: ListType,
    /// `x-kubernetes-map-type: atomic` (also `selector`s, `ObjectReference`s of built-in kinds).
    pub atomic_map: bool,
    pub patch: PatchHints,
    pub default: Option<Value>,
    /// How a scalar is written; built-in kinds only (custom resources have `checks.format`).
    pub format: Option<Format>,
    /// How the real server's own type behaves when an object passes through it; built-in kinds only.
    pub empty: Empty,
    /// The fields below that are always written, absent or not; built-in kinds only.
    pub always: Vec<String>,
    /// `v1.PodSpec`: the type as the real server's decoding errors name it; built-in kinds only, may be empty.
    pub type_name: Box<str>,
    /// `x-kubernetes-embedded-resource`.
    pub embedded_resource: bool,
    /// Value constraints and rules; only custom resources have them.
    pub checks: Option<Box<Checks>>,
}

/// What validation of a custom resource checks beyond types and required fields.
#[derive(Debug, Clone, Default)]
pub struct Checks {
    pub format: Option<String>,
    pub pattern: Option<String>,
    pub enumeration: Vec<Value>,
    pub minimum: Option<f64>,
    pub exclusive_minimum: bool,
    pub maximum: Option<f64>,
    pub exclusive_maximum: bool,
    pub multiple_of: Option<f64>,
    pub min_length: Option<u64>,
    pub max_length: Option<u64>,
    pub min_items: Option<u64>,
    pub max_items: Option<u64>,
    pub unique_items: bool,
    pub min_properties: Option<u64>,
    pub max_properties: Option<u64>,
    /// Value validation only (no types of their own), as structural schemas demand.
    pub all_of: Vec<Id>,
    pub any_of: Vec<Id>,
    pub one_of: Vec<Id>,
    pub not: Option<Id>,
    pub rules: Vec<Rule>,
    /// `additionalProperties: false`: no field beyond `properties`.
    pub closed: bool,
    /// What `additionalProperties: true` gives its values: no schema at all, so that pruning empties objects among them.
    pub schemaless: bool,
}

/// One entry of `x-kubernetes-validations`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rule {
    pub rule: String,
    pub message: Option<String>,
    pub message_expression: Option<String>,
    pub reason: Option<String>,
    pub field_path: Option<String>,
    pub optional_old_self: bool,
}

impl Set {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn add(&mut self, data: NodeData) -> Id {
        let id = Id(u32::try_from(self.nodes.len()).expect("a schema set has fewer than 2^32 nodes"));
        self.nodes.push(data);
        id
    }

    /// Fills a node that was reserved with [`Set::add`] before its content was known (recursive definitions).
    pub fn replace(&mut self, id: Id, data: NodeData) {
        self.nodes[id.0 as usize] = data;
    }

    pub fn node(&self, id: Id) -> Node<'_> {
        Node { set: self, data: &self.nodes[id.0 as usize] }
    }

    pub fn data(&self, id: Id) -> &NodeData {
        &self.nodes[id.0 as usize]
    }
}

impl<'a> Node<'a> {
    pub fn at(self, id: Id) -> Node<'a> {
        self.set.node(id)
    }

    /// The schema of field `name`: a property, else the value schema of a map, else none.
    pub fn field(self, name: &str) -> Option<Node<'a>> {
        match (self.data.properties.get(name), self.data.additional) {
            (Some(&id), _) | (None, Additional::Values(id)) => Some(self.at(id)),
            _ => None,
        }
    }

    pub fn items(self) -> Option<Node<'a>> {
        self.data.items.map(|id| self.at(id))
    }

    /// Whether unknown fields are to be kept here.
    pub fn keeps_unknown(self) -> bool {
        self.data.kind == Type::Any || self.data.additional == Additional::Any
    }

    pub fn data(self) -> &'a NodeData {
        self.data
    }
}

impl std::ops::Deref for Node<'_> {
    type Target = NodeData;
    fn deref(&self) -> &NodeData {
        self.data
    }
}
