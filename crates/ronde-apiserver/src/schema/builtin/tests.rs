use serde_json::json;

use super::*;
use crate::schema::ListType;

fn at(kind: (&str, &str, &str), path: &str) -> Node<'static> {
    let mut node = root(kind.0, kind.1, kind.2).expect("a built-in kind");
    for part in path.split('.') {
        node =
            if part == "[]" { node.items() } else { node.field(part) }.unwrap_or_else(|| panic!("no {part} in {path}"));
    }
    node
}

const POD: (&str, &str, &str) = ("", "v1", "Pod");
const DEPLOYMENT: (&str, &str, &str) = ("apps", "v1", "Deployment");
const DEFINITION: (&str, &str, &str) = ("apiextensions.k8s.io", "v1", "CustomResourceDefinition");

#[test]
fn every_row_of_the_tables_names_a_type_and_a_field_that_exist() {
    let definitions = definitions(KINDS);
    let mut unknown = Vec::new();
    for (of, field) in fields::hints().keys() {
        let schema = definitions.iter().find(|(name, _)| fields::short_name(name) == of).map(|(_, schema)| schema);
        if schema.is_none_or(|schema| schema["properties"].get(field).is_none()) {
            unknown.push(format!("{of} {field}"));
        }
    }
    for (package, names) in lists::ATOMIC_TYPES {
        for name in names.split_whitespace().map(|name| format!("{package}.{name}")) {
            if !definitions.keys().any(|definition| fields::short_name(definition) == name) {
                unknown.push(name);
            }
        }
    }
    assert_eq!(unknown, Vec::<String>::new());
}

#[test]
fn keys_of_merged_lists_are_fields_of_their_elements() {
    let schemas = schemas();
    for (name, id) in &schemas.types {
        for (field, id) in &schemas.set.data(*id).properties {
            let node = schemas.set.node(*id);
            let mut keys: Vec<&str> = node.patch.merge_key.iter().map(String::as_str).collect();
            if let ListType::Map(names) = &node.data().list {
                keys.extend(names.iter().map(String::as_str));
            }
            for key in keys {
                assert!(node.items().and_then(|items| items.field(key)).is_some(), "{name} {field} has no key {key}");
            }
        }
    }
}

#[test]
fn the_short_names_of_definitions_are_unique() {
    let definitions = definitions(KINDS);
    let short: std::collections::BTreeSet<_> = definitions.keys().map(|name| fields::short_name(name)).collect();
    assert_eq!(short.len(), definitions.len());
}

#[test]
fn definitions_are_complete() {
    for kind in KINDS {
        let node = root(kind.group, kind.version, kind.kind).expect("every kind has a schema");
        assert!(node.field("apiVersion").is_some() && node.properties.len() > 2, "{}", kind.kind);
        assert_eq!(fields::type_name(kind.definition), kind.kind);
    }
    assert!(root("apps", "v1", "Pod").is_none());
}

#[test]
fn lists_know_how_they_are_merged() {
    let containers = at(POD, "spec.containers");
    assert_eq!(containers.list, ListType::Map(vec!["name".into()]));
    assert_eq!((containers.patch.merge, containers.patch.merge_key.as_deref()), (true, Some("name")));
    let ports = at(DEPLOYMENT, "spec.template.spec.containers.[].ports");
    assert_eq!(ports.list, ListType::Map(vec!["containerPort".into(), "protocol".into()]));
    assert_eq!(ports.patch.merge_key.as_deref(), Some("containerPort"));
    assert_eq!(at(POD, "spec.containers.[].ports.[].protocol").default, Some(json!("TCP")));
    let volumes = at(POD, "spec.volumes");
    assert!(volumes.patch.merge && volumes.patch.retain_keys);
    assert_eq!(at(POD, "spec.tolerations").list, ListType::Atomic);
    assert_eq!(at(POD, "metadata.finalizers").list, ListType::Set);
    assert!(at(DEPLOYMENT, "spec.selector").atomic_map);
    assert!(at(DEPLOYMENT, "spec.strategy").patch.retain_keys);
    assert!(at(("", "v1", "Service"), "spec.selector").atomic_map);
    assert!(!at(POD, "metadata.labels").atomic_map);
    assert!(!at(("", "v1", "PersistentVolume"), "spec.claimRef").atomic_map);
    assert!(at(("", "v1", "Event"), "involvedObject").atomic_map);
}

#[test]
fn scalars_know_their_format_and_their_zero() {
    let row = |path| (at(POD, path).kind, at(POD, path).format, at(POD, path).empty);
    assert_eq!(
        row("spec.containers.[].resources.limits.cpu"),
        (Type::IntOrString, Some(Format::Quantity), Empty::Kept)
    );
    assert_eq!(row("metadata.creationTimestamp"), (Type::String, Some(Format::Time), Empty::Dropped));
    assert_eq!(row("spec.terminationGracePeriodSeconds"), (Type::Integer, Some(Format::Int64), Empty::Kept));
    assert_eq!(row("spec.hostNetwork"), (Type::Boolean, None, Empty::Dropped));
    assert_eq!(row("spec.containers.[].resources"), (Type::Object, None, Empty::Written));
    assert_eq!(row("spec.containers.[].livenessProbe.httpGet.port"), (Type::IntOrString, None, Empty::Written));
    assert_eq!(at(("", "v1", "Secret"), "data.key").format, Some(Format::Byte));
    assert_eq!(at(("", "v1", "Event"), "eventTime").format, Some(Format::MicroTime));
    assert_eq!(at(DEPLOYMENT, "spec.selector").empty, Empty::Null);
}

#[test]
fn types_carry_their_names() {
    let name = |path| at(POD, path).type_name.to_string();
    assert_eq!(name("spec"), "v1.PodSpec");
    assert_eq!(name("spec.restartPolicy"), "v1.RestartPolicy");
    assert_eq!(name("metadata.uid"), "types.UID");
    assert_eq!(name("spec.containers.[].resources.limits"), "v1.ResourceList");
    assert_eq!(name("spec.containers.[].securityContext.capabilities.add.[]"), "v1.Capability");
    assert_eq!(name("spec.nodeName"), "");
}

#[test]
fn schemas_of_schemas_are_recursive() {
    let schema = at(DEFINITION, "spec.versions.[].schema.openAPIV3Schema");
    let deep = schema.field("not").and_then(|n| n.field("properties")).and_then(|n| n.field("any"));
    assert!(deep.is_some_and(|node| node.field("maxLength").is_some()));
    assert_eq!(schema.field("default").map(|node| node.kind), Some(Type::Any));
    assert!(schema.field("items").and_then(Node::items).is_some_and(|node| node.field("type").is_some()));
}
