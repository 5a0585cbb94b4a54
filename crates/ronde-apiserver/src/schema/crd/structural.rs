//! Whether a schema is structural: every value has a type, and alternatives (`anyOf` and its kin) only narrow what the
//! schema itself describes.
//!
//! Only structural schemas can be pruned and defaulted. The errors are sorted by their text, as in the real server.

use serde_json::Value;

use ronde_cel::text::regex;

use super::props::Props;
use crate::error::FieldError;

/// Where a schema stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Returns what keeps a schema from being structural.
pub(super) fn check(schema: Props<'_>, path: &str) -> Vec<FieldError> {
    let mut checker = Checker { errors: Vec::new() };
    checker.schema(schema, Level::Root, path);
    checker.complete(schema, Some(schema), (path, path));
    checker.errors.sort_by_cached_key(ToString::to_string);
    checker.errors
}

/// A field that no schema of a definition may have; the first one found, deepest last.
pub(super) fn unsupported(schema: Props<'_>) -> Option<String> {
    for (key, name) in [("id", "id"), ("$schema", "schema"), ("$ref", "$ref")] {
        if !schema.text(key).is_empty() {
            return Some(format!("OpenAPIV3Schema '{name}' is not supported"));
        }
    }
    for key in ["patternProperties", "dependencies", "additionalItems", "definitions"] {
        let is_set = match schema.value(key) {
            Some(Value::Object(map)) => !map.is_empty() || key == "additionalItems",
            Some(_) => key == "additionalItems",
            None => false,
        };
        if is_set {
            return Some(format!("OpenAPIV3Schema '{key}' is not supported"));
        }
    }
    if schema.value("items").is_some_and(Value::is_array) {
        return Some("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned());
    }
    children(schema).find_map(unsupported)
}

/// All schemas directly below a schema.
pub(super) fn children(schema: Props<'_>) -> impl Iterator<Item = Props<'_>> {
    let listed = ["allOf", "anyOf", "oneOf"].into_iter().flat_map(move |key| schema.list(key).iter().map(Props));
    let named = schema.schemas("properties").map(|(_, property)| property);
    let single = ["not", "items", "additionalProperties"].into_iter().filter_map(move |key| schema.schema(key));
    listed.chain(single).chain(named)
}

struct Checker {
    errors: Vec<FieldError>,
}

impl Checker {
    fn required(&mut self, path: String, detail: impl Into<String>) {
        self.errors.push(FieldError::required(path, detail));
    }

    fn forbidden(&mut self, path: String, detail: &str) {
        self.errors.push(FieldError::forbidden(path, detail));
    }

    fn invalid(&mut self, path: String, value: impl Into<Value>, detail: impl Into<String>) {
        self.errors.push(FieldError::invalid(path, value.into(), detail));
    }

    fn schema(&mut self, schema: Props<'_>, level: Level, path: &str) {
        let (kind, items) = (schema.text("type"), schema.schema("items"));
        if kind == "array" && items.is_none() {
            self.required(format!("{path}.items"), "must be specified");
        }
        if let Some(items) = items {
            self.schema(items, Level::Item, &format!("{path}.items"));
        }
        for (name, property) in schema.schemas("properties") {
            self.schema(property, Level::Field, &format!("{path}.properties[{name}]"));
        }
        if schema.value("additionalProperties").is_some() {
            let path = format!("{path}.additionalProperties");
            if level == Level::Root {
                self.forbidden(path.clone(), "must not be used at the root");
            }
            if let Some(values) = schema.schema("additionalProperties") {
                self.schema(values, Level::Field, &path);
            }
        }
        self.extensions(schema, path);
        self.value_validation(schema, is_int_or_string(schema.list("anyOf")), first_is_int_or_string(schema), path);
        self.types(schema, level, path);
        self.resource(schema, level, path);
    }

    fn extensions(&mut self, schema: Props<'_>, path: &str) {
        if schema.flag("x-kubernetes-int-or-string") {
            for key in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
                if schema.flag(key) {
                    self.invalid(format!("{path}.{key}"), true, "must be false if x-kubernetes-int-or-string is true");
                }
            }
        }
    }

    fn types(&mut self, schema: Props<'_>, level: Level, path: &str) {
        let kind = schema.text("type");
        let at = format!("{path}.type");
        let free = schema.flag("x-kubernetes-int-or-string") || schema.flag("x-kubernetes-preserve-unknown-fields");
        let must_be_object = "must be object if x-kubernetes-embedded-resource is true";
        if schema.is_embedded_resource() && kind.is_empty() {
            self.required(at.clone(), must_be_object);
        } else if schema.is_embedded_resource() && kind != "object" {
            self.invalid(at.clone(), kind, must_be_object);
        } else if kind.is_empty() && !free {
            let detail = match level {
                Level::Root => "must not be empty at the root",
                Level::Item => "must not be empty for specified array items",
                Level::Field => "must not be empty for specified object fields",
            };
            self.required(at.clone(), detail);
        }
        if level == Level::Root && !kind.is_empty() && kind != "object" {
            self.invalid(at, kind, "must be object at the root");
        }
    }

    /// The rules for the type and metadata of a resource.
    fn resource(&mut self, schema: Props<'_>, level: Level, path: &str) {
        let is_embedded = schema.is_embedded_resource();
        if is_embedded && schema.value("additionalProperties").is_some() {
            let detail = "must not be used if x-kubernetes-embedded-resource is set";
            self.forbidden(format!("{path}.additionalProperties"), detail);
        }
        let is_resource = level == Level::Root || is_embedded;
        for name in ["kind", "apiVersion"] {
            let kind = schema.property(name).map(|property| property.text("type"));
            if let Some(kind) = kind.filter(|kind| is_resource && *kind != "string") {
                self.invalid(format!("{path}.properties[{name}].type"), kind, "must be string");
            }
        }
        if let Some(metadata) = schema.property("metadata") {
            let path = format!("{path}.properties[metadata]");
            if is_resource && metadata.text("type") != "object" {
                self.invalid(format!("{path}.type"), metadata.text("type"), "must be object");
            }
            if level == Level::Root && says_more_than_names(metadata) {
                let detail = "must not specify anything other than name and generateName, but metadata is implicitly \
                              specified";
                self.forbidden(path, detail);
            }
        }
        let no_properties = schema.object("properties").is_none_or(serde_json::Map::is_empty);
        if is_embedded && no_properties && !schema.flag("x-kubernetes-preserve-unknown-fields") {
            let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                          x-kubernetes-preserve-unknown-fields";
            self.required(format!("{path}.properties"), detail);
        }
    }

    fn value_validation(&mut self, schema: Props<'_>, skip_any_of: bool, skip_first: bool, path: &str) {
        for key in ["anyOf", "allOf", "oneOf"] {
            for (at, branch) in schema.list(key).iter().enumerate() {
                if key == "anyOf" && skip_any_of {
                    continue;
                }
                let skip = key == "allOf" && at == 0 && skip_first;
                self.nested(Props(branch), skip, &format!("{path}.{key}[{at}]"));
            }
        }
        if let Some(not) = schema.schema("not") {
            self.nested(not, false, &format!("{path}.not"));
        }
        let pattern = schema.text("pattern");
        if let Some(error) = Some(pattern).filter(|p| !p.is_empty()).and_then(|p| regex::compile(p).err()) {
            let detail = format!("must be a valid regular expression, but isn't: {error}");
            self.invalid(format!("{path}.pattern"), pattern, detail);
        }
    }

    /// A schema inside alternatives may only restrict values.
    fn nested(&mut self, schema: Props<'_>, skip_any_of: bool, path: &str) {
        self.value_validation(schema, skip_any_of, false, path);
        if let Some(items) = schema.schema("items") {
            self.nested(items, false, &format!("{path}.items"));
        }
        for (name, property) in schema.schemas("properties") {
            self.nested(property, false, &format!("{path}.properties[{name}]"));
        }
        let (must_be_empty, must_be_undefined) =
            ("must be empty to be structural", "must be undefined to be structural");
        let must_be_false = "must be false to be structural";
        let mut forbid = |key: &str, is_set: bool, detail: &str| {
            if is_set {
                self.errors.push(FieldError::forbidden(format!("{path}.{key}"), detail));
            }
        };
        forbid("type", !schema.text("type").is_empty(), must_be_empty);
        let additional = schema.value("additionalProperties").is_some_and(|value| *value != Value::Bool(false));
        forbid("additionalProperties", additional, must_be_undefined);
        forbid("default", schema.value("default").is_some(), must_be_undefined);
        forbid("title", !schema.text("title").is_empty(), must_be_empty);
        forbid("description", !schema.text("description").is_empty(), must_be_empty);
        forbid("nullable", schema.flag("nullable"), must_be_false);
        for key in
            ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string"]
        {
            forbid(key, schema.flag(key), must_be_false);
        }
        let keys = "x-kubernetes-list-map-keys";
        forbid(keys, !schema.list(keys).is_empty(), must_be_empty);
        for key in ["x-kubernetes-list-type", "x-kubernetes-map-type"] {
            forbid(key, schema.value(key).is_some(), must_be_undefined);
        }
        let rules = "x-kubernetes-validations";
        forbid(rules, !schema.list(rules).is_empty(), must_be_empty);
        forbid(
            "properties[metadata]",
            schema.property("metadata").is_some(),
            "must not be specified in a nested context",
        );
    }

    /// Whatever alternatives speak about must be in the schema itself.
    fn complete(&mut self, values: Props<'_>, schema: Option<Props<'_>>, (path, from): (&str, &str)) {
        for key in ["not", "allOf", "anyOf", "oneOf"] {
            if let Some(not) = values.schema(key) {
                self.complete_nested(not, schema, (path, &format!("{from}.not")));
                continue;
            }
            for (at, branch) in values.list(key).iter().enumerate() {
                self.complete_nested(Props(branch), schema, (path, &format!("{from}.{key}[{at}]")));
            }
        }
    }

    fn complete_nested(&mut self, values: Props<'_>, schema: Option<Props<'_>>, (path, from): (&str, &str)) {
        let Some(known) = schema else {
            return self.required(path.to_owned(), format!("because it is defined in {from}"));
        };
        self.complete(values, schema, (path, from));
        if let Some(items) = values.schema("items") {
            self.complete_nested(items, known.schema("items"), (&format!("{path}.items"), &format!("{from}.items")));
        }
        for (name, property) in values.schemas("properties") {
            let (path, from) = (format!("{path}.properties[{name}]"), format!("{from}.properties[{name}]"));
            match known.property(name) {
                None => self.required(path, format!("because it is defined in {from}")),
                Some(known) => self.complete_nested(property, Some(known), (&path, &from)),
            }
        }
    }
}

/// `anyOf` of an integer and a string, nothing else said about either.
fn is_int_or_string(any_of: &[Value]) -> bool {
    let is = |branch: &Value, kind: &str| {
        branch.as_object().is_some_and(|fields| fields.len() == 1 && fields.get("type") == Some(&kind.into()))
    };
    matches!(any_of, [first, second] if is(first, "integer") && is(second, "string"))
}

fn first_is_int_or_string(schema: Props<'_>) -> bool {
    schema.list("allOf").first().is_some_and(|first| is_int_or_string(Props(first).list("anyOf")))
}

fn says_more_than_names(metadata: Props<'_>) -> bool {
    let Value::Object(fields) = metadata.0 else { return false };
    let only_names = |properties: &Value| {
        properties.as_object().is_none_or(|p| p.keys().all(|name| name == "name" || name == "generateName"))
    };
    fields.iter().any(|(key, value)| match key.as_str() {
        "type" | "default" | "example" | "externalDocs" => false,
        "properties" => !only_names(value),
        _ => match value {
            Value::Null | Value::Bool(false) => false,
            Value::String(text) => !text.is_empty(),
            _ => true,
        },
    })
}
