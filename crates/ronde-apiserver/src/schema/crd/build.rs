//! Turns a definition's schema into nodes of the common model.
//!
//! Expects a schema that [`super::structural`] has no objection to; what it does not understand it leaves out. The
//! type and metadata of resources, at the root and embedded, are added here, with the list types that server-side
//! apply merges them by.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

use super::props::Props;
use crate::schema::{Additional, Checks, Id, ListType, NodeData, Rule, Set, Type};
use ronde_cel::formats;
use ronde_cel::text::regex::compile;

/// A schema as nodes, with the patterns in it compiled.
#[derive(Debug)]
pub(super) struct Built {
    pub set: Set,
    pub root: Id,
    pub patterns: BTreeMap<Id, Regex>,
}

/// Builds the nodes of a resource's schema.
pub(super) fn build(schema: Props<'_>) -> Built {
    let mut builder = Builder { set: Set::new(), patterns: BTreeMap::new() };
    let root = builder.node(schema, true);
    Built { set: builder.set, root, patterns: builder.patterns }
}

struct Builder {
    set: Set,
    patterns: BTreeMap<Id, Regex>,
}

impl Builder {
    fn node(&mut self, schema: Props<'_>, is_resource: bool) -> Id {
        let mut data = NodeData {
            kind: kind_of(schema),
            nullable: schema.flag("nullable"),
            required: schema.strings("required"),
            list: list_type(schema),
            atomic_map: schema.text("x-kubernetes-map-type") == "atomic",
            default: schema.value("default").cloned(),
            embedded_resource: schema.flag("x-kubernetes-embedded-resource"),
            ..NodeData::default()
        };
        for (name, property) in schema.schemas("properties") {
            let is_metadata = is_resource && name == "metadata";
            let id = if is_metadata { self.metadata(Some(property)) } else { self.child(property) };
            data.properties.insert(name.to_owned(), id);
        }
        data.items = schema.schema("items").map(|items| self.child(items));
        data.additional = self.additional(schema);
        data.checks = self.checks(schema).map(Box::new);
        if is_resource {
            self.add_resource_fields(&mut data);
        }
        let id = self.set.add(data);
        if let Some(regex) = Some(schema.text("pattern")).filter(|p| !p.is_empty()).and_then(|p| compile(p).ok()) {
            self.patterns.insert(id, regex);
        }
        id
    }

    fn child(&mut self, schema: Props<'_>) -> Id {
        self.node(schema, schema.flag("x-kubernetes-embedded-resource"))
    }

    fn additional(&mut self, schema: Props<'_>) -> Additional {
        match schema.value("additionalProperties") {
            Some(Value::Bool(_)) => {
                let checks = Checks { schemaless: true, ..Checks::default() };
                let data = NodeData { nullable: true, checks: Some(Box::new(checks)), ..NodeData::default() };
                Additional::Values(self.set.add(data))
            }
            Some(Value::Object(_)) => match schema.schema("additionalProperties") {
                Some(values) => Additional::Values(self.child(values)),
                None => Additional::None,
            },
            _ if schema.flag("x-kubernetes-preserve-unknown-fields") => Additional::Any,
            _ => Additional::None,
        }
    }

    fn checks(&mut self, schema: Props<'_>) -> Option<Checks> {
        let format = Some(schema.text("format")).filter(|format| !format.is_empty()).map(str::to_owned);
        let pattern = Some(schema.text("pattern")).filter(|pattern| !pattern.is_empty()).map(str::to_owned);
        let checks = Checks {
            format,
            pattern,
            enumeration: schema.list("enum").to_vec(),
            minimum: schema.number("minimum"),
            exclusive_minimum: schema.flag("exclusiveMinimum"),
            maximum: schema.number("maximum"),
            exclusive_maximum: schema.flag("exclusiveMaximum"),
            multiple_of: schema.number("multipleOf"),
            min_length: schema.count("minLength"),
            max_length: schema.count("maxLength"),
            min_items: schema.count("minItems"),
            max_items: schema.count("maxItems"),
            unique_items: schema.flag("uniqueItems"),
            min_properties: schema.count("minProperties"),
            max_properties: schema.count("maxProperties"),
            all_of: self.branches(schema, "allOf"),
            any_of: self.branches(schema, "anyOf"),
            one_of: self.branches(schema, "oneOf"),
            not: schema.schema("not").map(|not| self.child(not)),
            rules: schema.list("x-kubernetes-validations").iter().map(rule).collect(),
            closed: schema.value("additionalProperties") == Some(&Value::Bool(false)),
            schemaless: false,
        };
        let is_empty = format!("{checks:?}") == format!("{:?}", Checks::default());
        (!is_empty).then_some(checks)
    }

    fn branches(&mut self, schema: Props<'_>, key: &str) -> Vec<Id> {
        schema.list(key).iter().filter(|branch| branch.is_object()).map(|branch| self.child(Props(branch))).collect()
    }

    /// `apiVersion`, `kind` and `metadata`, which every resource has whether its schema says so or not.
    fn add_resource_fields(&mut self, data: &mut NodeData) {
        for name in ["apiVersion", "kind"] {
            data.properties.entry(name.to_owned()).or_insert_with(|| self.set.add(string()));
        }
        if !data.properties.contains_key("metadata") {
            let metadata = self.metadata(None);
            data.properties.insert("metadata".to_owned(), metadata);
        }
    }

    fn metadata(&mut self, schema: Option<Props<'_>>) -> Id {
        let own = schema.map(|schema| self.node(schema, false));
        let mut data = own.map_or_else(NodeData::default, |id| self.set.data(id).clone());
        data.kind = Type::Object;
        data.additional = Additional::Any;
        let text = self.set.add(string());
        let texts = NodeData { kind: Type::Object, additional: Additional::Values(text), ..NodeData::default() };
        let owner =
            NodeData { kind: Type::Object, additional: Additional::Any, atomic_map: true, ..NodeData::default() };
        let owner = self.set.add(owner);
        let by_uid = ListType::Map(vec!["uid".to_owned()]);
        let anything = self.set.add(NodeData { additional: Additional::Any, ..NodeData::default() });
        let implicit = [
            ("name", string()),
            ("generateName", string()),
            ("labels", texts.clone()),
            ("annotations", texts),
            ("finalizers", list(ListType::Set, text)),
            ("ownerReferences", list(by_uid, owner)),
            ("managedFields", list(ListType::Atomic, anything)),
        ];
        for (name, node) in implicit {
            let id = self.set.add(node);
            data.properties.entry(name.to_owned()).or_insert(id);
        }
        self.set.add(data)
    }
}

fn string() -> NodeData {
    NodeData { kind: Type::String, ..NodeData::default() }
}

fn list(list: ListType, items: Id) -> NodeData {
    NodeData { kind: Type::Array, list, items: Some(items), ..NodeData::default() }
}

fn kind_of(schema: Props<'_>) -> Type {
    if schema.flag("x-kubernetes-int-or-string") {
        return Type::IntOrString;
    }
    match schema.text("type") {
        "object" => Type::Object,
        "array" => Type::Array,
        "string" => Type::String,
        "integer" => Type::Integer,
        "number" => Type::Number,
        "boolean" => Type::Boolean,
        _ => Type::Any,
    }
}

fn list_type(schema: Props<'_>) -> ListType {
    match schema.text("x-kubernetes-list-type") {
        "set" => ListType::Set,
        "map" => ListType::Map(schema.strings("x-kubernetes-list-map-keys")),
        _ => ListType::Atomic,
    }
}

/// One entry of `x-kubernetes-validations`.
pub(super) fn rule(entry: &Value) -> Rule {
    let text = |key: &str| entry.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned);
    Rule {
        rule: text("rule").unwrap_or_default(),
        message: text("message"),
        message_expression: text("messageExpression"),
        reason: text("reason"),
        field_path: text("fieldPath"),
        optional_old_self: entry.get("optionalOldSelf") == Some(&Value::Bool(true)),
    }
}

/// Whether strings of this node are checked against its format.
pub(super) fn checked_format(checks: &Checks) -> Option<&str> {
    checks.format.as_deref().filter(|format| formats::is_known(format))
}
