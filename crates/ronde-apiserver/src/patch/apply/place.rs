//! A place in a schema as ownership sees it: what is a leaf, what is a map or list with owners of its own parts.
//!
//! Where the schema says nothing ([`Place`] without a node), maps have parts and lists are leaves. All walks of this
//! folder (validation, comparison, merge, removal) ask here and nowhere else.

use std::sync::LazyLock;

use serde_json::Value;

use super::element;
use crate::schema::{Empty, ListType, Node, Type};

/// A node of the schema, or a place that the schema leaves open.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    node: Option<Node<'a>>,
    /// Whether a node above keeps unknown fields; the real server lets that hold for all below.
    open: bool,
}

/// How a value at a place is owned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// As a whole: scalars, atomic lists and atomic maps.
    Leaf,
    /// Field by field.
    Map,
    /// Item by item: a set or a list with keys.
    List,
}

/// Why an item of a set or a list with keys cannot be told from the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoElement<'a> {
    NullItem,
    NotAMap,
    NoKeys(&'a [String]),
    NullInSet,
    MapInSet,
    ListInSet,
}

impl<'a> Place<'a> {
    pub fn new(schema: Node<'a>) -> Self {
        Self { node: Some(schema), open: schema.keeps_unknown() }
    }

    const FREE: Self = Self { node: None, open: true };

    pub fn node(self) -> Option<Node<'a>> {
        self.node
    }

    /// Returns how `value` is owned here. Null fits any shape; it counts as a leaf.
    pub fn shape(self, value: &Value) -> Shape {
        let Some(node) = self.node else {
            return if value.is_object() { Shape::Map } else { Shape::Leaf };
        };
        match (node.kind, value) {
            (Type::Object, _) | (Type::Any, Value::Object(_)) if !node.atomic_map => Shape::Map,
            (Type::Array, _) | (Type::Any, Value::Array(_)) if node.list != ListType::Atomic => Shape::List,
            _ => Shape::Leaf,
        }
    }

    /// Returns the place of field `name`, none if the schema does not allow that field.
    pub fn field(self, name: &str) -> Option<Self> {
        let Some(node) = self.node else { return Some(Self::FREE) };
        if let Some(child) = node.field(name) {
            return Some(Self { node: Some(child), open: self.open || child.keeps_unknown() });
        }
        // An object without properties is free-form.
        let open = self.open || node.keeps_unknown() || node.properties.is_empty();
        open.then_some(Self::FREE)
    }

    /// Returns the place of field `name`, an open one if the schema does not allow that field.
    pub fn field_or_free(self, name: &str) -> Self {
        self.field(name).unwrap_or(Self::FREE)
    }

    /// Whether `name` is a field of a struct, not an entry of a map.
    pub fn declares(self, name: &str) -> bool {
        self.node.is_some_and(|node| node.properties.contains_key(name))
    }

    /// Returns the place of the items of a list.
    pub fn items(self) -> Self {
        let items = self.node.and_then(Node::items);
        items.map_or(Self::FREE, |node| Self { node: Some(node), open: self.open || node.keeps_unknown() })
    }

    /// Whether the schema makes this a leaf whatever the value. Sets from under an older schema may have parts below.
    pub fn is_atomic(self) -> bool {
        self.node.is_some_and(|node| match node.kind {
            Type::Object => node.atomic_map,
            Type::Array => node.list == ListType::Atomic,
            _ => false,
        })
    }

    /// Returns what tells `item` from the others in the set or list with keys at this place.
    pub fn element(self, item: &Value) -> Result<String, NoElement<'a>> {
        match self.node.map(Node::data).map(|data| &data.list) {
            Some(ListType::Map(keys)) => self.key_element(keys, item),
            _ => set_element(item),
        }
    }

    fn key_element(self, keys: &'a [String], item: &Value) -> Result<String, NoElement<'a>> {
        let fields = match item {
            Value::Object(fields) => fields,
            Value::Null => return Err(NoElement::NullItem),
            _ => return Err(NoElement::NotAMap),
        };
        let default = |key: &str| {
            let item = self.items().node?;
            item.data().properties.get(key).and_then(|&id| key_default(item.at(id)))
        };
        let with_value = |key: &'a String| Some((key.as_str(), fields.get(key).or_else(|| default(key))?));
        if let [key] = keys {
            let (name, value) = with_value(key).ok_or(NoElement::NoKeys(keys))?;
            return Ok(element::key(std::iter::once((name, value))));
        }
        let mut found: Vec<(&str, &Value)> = keys.iter().filter_map(with_value).collect();
        if found.is_empty() {
            return Err(NoElement::NoKeys(keys));
        }
        found.sort_by_key(|(name, _)| *name);
        Ok(element::key(found.into_iter()))
    }
}

/// Returns what a key field is when absent, if it is then anything.
fn key_default(node: Node<'_>) -> Option<&Value> {
    static EMPTY: Value = Value::String(String::new());
    static ZERO: LazyLock<Value> = LazyLock::new(|| Value::from(0));
    match (node.data().default.as_ref(), node.empty, node.kind) {
        (Some(default), _, _) => Some(default),
        // The real server takes required fields for present.
        (None, Empty::Written, Type::String) => Some(&EMPTY),
        (None, Empty::Written, Type::Integer) => Some(&ZERO),
        _ => None,
    }
}

fn set_element(item: &Value) -> Result<String, NoElement<'static>> {
    match item {
        Value::Null => Err(NoElement::NullInSet),
        Value::Object(_) => Err(NoElement::MapInSet),
        Value::Array(_) => Err(NoElement::ListInSet),
        scalar => Ok(element::value(scalar)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::{NodeData, Set};

    #[test]
    fn absent_keys_count_with_their_default() {
        let mut set = Set::new();
        let scalar = |kind, empty, default| NodeData { kind, default, empty, ..NodeData::default() };
        let fields = [
            ("written", scalar(Type::String, Empty::Written, None)),
            ("number", scalar(Type::Integer, Empty::Written, None)),
            ("default", scalar(Type::String, Empty::Dropped, Some(json!("TCP")))),
            ("optional", scalar(Type::String, Empty::Dropped, None)),
        ];
        let properties = fields.into_iter().map(|(name, data)| (name.to_owned(), set.add(data))).collect();
        let item = set.add(NodeData { kind: Type::Object, properties, ..NodeData::default() });
        for (keys, item_value, expected) in [
            (vec!["written"], json!({}), Ok(r#"k:{"written":""}"#)),
            (vec!["number", "default"], json!({}), Ok(r#"k:{"default":"TCP","number":0}"#)),
            (
                vec!["number", "default"],
                json!({"default": "UDP", "number": 5}),
                Ok(r#"k:{"default":"UDP","number":5}"#),
            ),
            (vec!["optional", "default"], json!({}), Ok(r#"k:{"default":"TCP"}"#)),
            (vec!["optional"], json!({}), Err(())),
            (vec!["optional"], json!({"optional": "x"}), Ok(r#"k:{"optional":"x"}"#)),
        ] {
            let list = ListType::Map(keys.into_iter().map(str::to_owned).collect());
            let list = set.add(NodeData { kind: Type::Array, list, items: Some(item), ..NodeData::default() });
            let element = Place::new(set.node(list)).element(&item_value).map_err(|_| ());
            assert_eq!(element.as_deref().ok(), expected.ok(), "{item_value}");
        }
    }
}
