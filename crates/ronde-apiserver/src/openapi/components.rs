//! The schemas in a document: those of the built-in kinds with what our tables know about them, and custom ones.

use serde_json::{Map, Value, json};

use super::{Described, custom, enums, reference};
use crate::{
    discovery::ResourceInfo,
    schema::{
        Empty, ListType, Node, PatchHints, Type,
        builtin::{self, KINDS, Kind},
    },
};

/// The package of types that are not any group's own.
pub(super) const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// Returns all schemas that the resources of one group version need.
pub(super) fn schemas(resources: &[Described<'_>]) -> Map<String, Value> {
    let mut schemas = built_in(resources);
    for resource in resources {
        if let Some(schema) = resource.schema {
            schemas.insert(custom::name(resource.info), custom::component(resource.info, schema, &schemas));
        }
        if resource.info.verbs.contains(&"list") {
            let name = definition_of(resource.info);
            schemas.insert(format!("{name}List"), list(resource.info, &name, &schemas));
        }
    }
    schemas
}

/// The name of the definition of a resource's kind.
pub(super) fn definition_of(info: &ResourceInfo) -> String {
    definition(&info.group, &info.version, &info.kind).map_or_else(|| custom::name(info), str::to_owned)
}

/// The name of the definition of a built-in kind.
pub(super) fn definition(group: &str, version: &str, kind: &str) -> Option<&'static str> {
    find(group, version, kind).map(|kind| kind.definition)
}

fn find(group: &str, version: &str, kind: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|k| (k.group, k.version, k.kind) == (group, version, kind))
}

fn built_in(resources: &[Described<'_>]) -> Map<String, Value> {
    let own = resources.iter().filter_map(|r| find(&r.info.group, &r.info.version, &r.info.kind));
    let subresources = resources.iter().flat_map(|r| &r.info.subresources);
    let bodies = subresources.filter_map(|sub| find(&sub.group, &sub.version, &sub.kind));
    let always = ["DeleteOptions", "Status"].into_iter().filter_map(|kind| find("", "v1", kind));
    let kinds: Vec<&Kind> = own.chain(bodies).chain(always).collect();
    let mut definitions = builtin::definitions(kinds.iter().copied());
    add_meta(&mut definitions);
    for (name, schema) in &mut definitions {
        *schema = component(name, schema.take());
    }
    for kind in kinds {
        let names = json!([{"group": kind.group, "version": kind.version, "kind": kind.kind}]);
        definitions[kind.definition]["x-kubernetes-group-version-kind"] = names;
    }
    definitions
}

/// The types that no kind refers to but every document does: list metadata comes with `Status`, object metadata may
/// not come with anything if all kinds are custom ones.
fn add_meta(definitions: &mut Map<String, Value>) {
    let name = format!("{META}.ObjectMeta");
    if !definitions.contains_key(&name) {
        let mut others = builtin::definitions(find("autoscaling", "v1", "Scale"));
        others.retain(|name, _| name.starts_with(META));
        definitions.append(&mut others);
    }
    let patch = json!({"description": "The body of a PATCH request.", "type": "object"});
    definitions.insert(format!("{META}.Patch"), patch);
}

/// Turns a definition into a component: references, merge hints, and the types that encode themselves.
fn component(name: &str, mut schema: Value) -> Value {
    let short = name.rsplit('.').next().unwrap_or_default();
    match short {
        "Quantity" => return described(&schema, json!({"oneOf": [{"type": "string"}, {"type": "number"}]})),
        "IntOrString" => {
            let types = json!([{"type": "integer"}, {"type": "string"}]);
            return described(&schema, json!({"format": "int-or-string", "oneOf": types}));
        }
        "JSON" | "JSONSchemaPropsOrArray" | "JSONSchemaPropsOrBool" | "JSONSchemaPropsOrStringArray" => {
            return described(&schema, json!({}));
        }
        _ => {}
    }
    if builtin::is_atomic(name) {
        schema["x-kubernetes-map-type"] = "atomic".into();
    }
    correct_required(name, &mut schema);
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for (field, property) in properties {
            *property = referring(property.take());
            if let Some(node) = builtin::property(name, field) {
                add_hints(property, node);
            }
        }
    }
    schema
}

fn described(schema: &Value, mut replacement: Value) -> Value {
    replacement["description"] = schema["description"].clone();
    replacement
}

/// The compiled-in types want metadata in every object and a name in every reference; the API does not.
fn correct_required(definition: &str, schema: &mut Value) {
    let wants = |field: &str| match field {
        "metadata" => definition == "io.k8s.api.core.v1.Event",
        "name" => builtin::property(definition, field).is_none_or(|node| node.empty != Empty::Dropped),
        _ => true,
    };
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        required.retain(|field| field.as_str().is_some_and(wants));
        if required.is_empty() {
            schema.as_object_mut().map(|object| object.remove("required"));
        }
    }
}

/// Rewrites references; one with a description beside it becomes an `allOf`, as references stand alone.
fn referring(schema: Value) -> Value {
    let Value::Object(mut object) = schema else { return schema };
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = object.get_mut(key) {
            *inner = referring(inner.take());
        }
    }
    if let Some(Value::String(target)) = object.remove("$ref") {
        let target = reference(target.rsplit('/').next().unwrap_or_default());
        if object.is_empty() {
            return target;
        }
        object.insert("allOf".into(), json!([target]));
    }
    Value::Object(object)
}

fn add_hints(property: &mut Value, data: Node<'_>) {
    if data.kind == Type::Array {
        property["x-kubernetes-list-type"] = match &data.data().list {
            ListType::Atomic => "atomic".into(),
            ListType::Set => "set".into(),
            ListType::Map(keys) => {
                property["x-kubernetes-list-map-keys"] = json!(keys);
                "map".into()
            }
        };
    }
    // The type says so itself where it is atomic everywhere.
    let by_type = property["allOf"][0]["$ref"].as_str().and_then(|target| target.rsplit('/').next());
    if data.atomic_map != by_type.is_some_and(builtin::is_atomic) {
        property["x-kubernetes-map-type"] = if data.atomic_map { "atomic" } else { "granular" }.into();
    }
    if let Some(strategy) = strategy(&data.patch) {
        property["x-kubernetes-patch-strategy"] = strategy.into();
    }
    if let Some(key) = &data.patch.merge_key {
        property["x-kubernetes-patch-merge-key"] = key.as_str().into();
    }
    if let Some(default) = &data.default {
        property["default"] = default.clone();
    }
    if let Some(values) = enums::values(&data.type_name) {
        property["enum"] = json!(values);
    } else if let Some(values) = data.items().and_then(|items| enums::values(&items.type_name)) {
        property["items"]["enum"] = json!(values);
    }
}

fn strategy(hints: &PatchHints) -> Option<&'static str> {
    match (hints.merge, hints.retain_keys, hints.replace) {
        (true, true, _) => Some("merge,retainKeys"),
        (true, false, _) => Some("merge"),
        (false, true, _) => Some("retainKeys"),
        (false, false, true) => Some("replace"),
        (false, false, false) => None,
    }
}

/// The list kind of a resource.
fn list(info: &ResourceInfo, item: &str, schemas: &Map<String, Value>) -> Value {
    let mut properties = type_properties(schemas);
    properties.insert(
        "items".into(),
        json!({
            "description": format!("List of {}.", info.plural), "type": "array", "items": reference(item),
        }),
    );
    properties.insert(
        "metadata".into(),
        json!({
            "description": "Standard list metadata.", "allOf": [reference(&format!("{META}.ListMeta"))],
        }),
    );
    let kind = format!("{}List", info.kind);
    json!({
        "description": format!("{kind} is a list of {}", info.kind), "type": "object",
        "required": ["items"], "properties": properties,
        "x-kubernetes-group-version-kind": [{"group": info.group, "version": info.version, "kind": kind}],
    })
}

/// `apiVersion` and `kind`, with their descriptions.
pub(super) fn type_properties(schemas: &Map<String, Value>) -> Map<String, Value> {
    let status = &schemas[&format!("{META}.Status")]["properties"];
    ["apiVersion", "kind"].into_iter().map(|name| (name.to_owned(), status[name].clone())).collect()
}
