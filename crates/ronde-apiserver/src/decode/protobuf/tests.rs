//! Messages are written by hand here. What typed clients write gives the same JSON as their own encoding does.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::schema::builtin::definitions;

fn tag(number: u32, wire_type: u32) -> Vec<u8> {
    varint(u64::from(number << 3 | wire_type))
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    bytes.push(number.to_le_bytes()[0]);
    bytes
}

fn bytes(number: u32, content: &[u8]) -> Vec<u8> {
    [tag(number, 2), varint(content.len() as u64), content.to_vec()].concat()
}

fn text(number: u32, content: &str) -> Vec<u8> {
    bytes(number, content.as_bytes())
}

fn int(number: u32, value: i64) -> Vec<u8> {
    [tag(number, 0), varint(value.cast_unsigned())].concat()
}

fn double(number: u32, value: f64) -> Vec<u8> {
    [tag(number, 1), value.to_bits().to_le_bytes().to_vec()].concat()
}

fn message(number: u32, fields: &[Vec<u8>]) -> Vec<u8> {
    bytes(number, &fields.concat())
}

fn entry(number: u32, key: &str, value: Vec<u8>) -> Vec<u8> {
    message(number, &[text(1, key), value])
}

fn named(name: &str) -> Vec<u8> {
    message(1, &[text(1, name)])
}

fn object(api_version: &str, kind: &str, fields: &[Vec<u8>]) -> Vec<u8> {
    let envelope = [message(1, &[text(1, api_version), text(2, kind)]), message(2, fields), text(3, ""), text(4, "")];
    [b"k8s\0".to_vec(), envelope.concat()].concat()
}

fn check(body: &[u8], expected: Value) {
    assert_eq!(parse(body), Ok(expected));
}

#[track_caller]
fn check_refused(body: &[u8], expected: &str) {
    assert_eq!(parse(body), Err(expected.to_owned()));
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn a_pod_is_read() {
    let quantity = |amount| message(2, &[text(1, amount)]);
    let port = message(6, &[text(1, ""), int(2, 0), int(3, 80), text(4, "TCP"), text(5, "")]);
    let secret_env = message(3, &[message(4, &[named("s"), text(2, "k"), int(3, 0)])]);
    let probe = message(
        10,
        &[
            message(1, &[message(2, &[text(1, "/"), message(2, &[int(1, 1), int(2, 0), text(3, "http")])])]),
            int(2, 0),
            int(3, 5),
        ],
    );
    let container = message(
        2,
        &[
            text(1, "c"),
            text(2, "x"),
            text(3, "sh"),
            text(3, ""),
            port,
            message(7, &[text(1, "E"), text(2, ""), secret_env]),
            message(8, &[entry(1, "cpu", quantity("500m")), entry(2, "memory", quantity("1Gi"))]),
            probe,
            message(15, &[int(4, 0), int(6, 0)]),
        ],
    );
    let volumes = [
        message(1, &[text(1, "v"), message(2, &[message(2, &[text(1, "")])])]),
        message(1, &[text(1, "w"), message(2, &[message(19, &[named("m"), int(3, 420)])])]),
    ];
    let security = message(14, &[int(4, 1), int(4, -1), bytes(4, &[2, 3])]);
    let spec = [
        volumes.concat(),
        container,
        text(3, ""),
        int(4, 0),
        entry(7, "disk", text(2, "ssd")),
        int(11, 0),
        int(12, 1),
        security,
        int(25, -5),
    ];
    let condition =
        message(2, &[text(1, "Ready"), text(2, "True"), message(3, &[]), message(4, &[int(1, 1_700_000_000)])]);
    let metadata = message(
        1,
        &[
            text(1, "p"),
            message(8, &[]),
            int(10, 0),
            entry(11, "app", text(2, "a")),
            message(13, &[text(1, "Job"), text(3, "j"), text(4, "u"), text(5, "batch/v1"), int(6, 0), int(7, 1)]),
            message(17, &[text(1, "m"), message(4, &[int(1, 0)]), message(7, &[bytes(1, b"{\"f:spec\":{}}")])]),
        ],
    );
    check(
        &object("v1", "Pod", &[metadata, message(2, &spec), message(3, &[text(1, ""), condition])]),
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "p", "labels": {"app": "a"}, "deletionGracePeriodSeconds": 0,
                "ownerReferences": [
                    {"kind": "Job", "name": "j", "uid": "u", "apiVersion": "batch/v1", "controller": false,
                     "blockOwnerDeletion": true}
                ],
                "managedFields": [{"manager": "m", "time": "1970-01-01T00:00:00Z", "fieldsV1": {"f:spec": {}}}],
            },
            "spec": {
                "volumes": [
                    {"name": "v", "emptyDir": {}},
                    {"name": "w", "configMap": {"name": "m", "defaultMode": 420}},
                ],
                "containers": [{
                    "name": "c", "image": "x", "command": ["sh", ""],
                    "ports": [{"containerPort": 80, "protocol": "TCP"}],
                    "env": [{"name": "E", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": false}}}],
                    "resources": {"limits": {"cpu": "500m"}, "requests": {"memory": "1Gi"}},
                    "livenessProbe": {"httpGet": {"path": "/", "port": "http"}, "timeoutSeconds": 5},
                    "securityContext": {"runAsUser": 0, "readOnlyRootFilesystem": false},
                }],
                "terminationGracePeriodSeconds": 0, "nodeSelector": {"disk": "ssd"}, "hostPID": true,
                "securityContext": {"supplementalGroups": [1, -1, 2, 3]}, "priority": -5,
            },
            "status": {
                "conditions": [
                    {"type": "Ready", "status": "True", "lastProbeTime": null,
                     "lastTransitionTime": "2023-11-14T22:13:20Z"}
                ],
            },
        }),
    );
}

#[test]
fn a_config_map_is_read() {
    let body = object(
        "v1",
        "ConfigMap",
        &[
            message(1, &[text(1, "a"), text(4, "")]),
            entry(2, "k", text(2, "v")),
            message(2, &[text(1, "none")]),
            entry(3, "b", bytes(2, &[0, 255])),
            int(4, 0),
        ],
    );
    check(
        &body,
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v", "none": ""},
            "binaryData": {"b": "AP8="}, "immutable": false,
        }),
    );
}

#[test]
fn a_definition_with_a_schema_is_read() {
    let schema = |fields: &[Vec<u8>]| message(2, fields);
    let properties = [
        entry(29, "n", schema(&[text(5, "number"), double(9, 10.0), double(11, 0.5), message(8, &[bytes(1, b"0")])])),
        entry(29, "e", schema(&[message(20, &[bytes(1, b"\"a\"")]), message(20, &[bytes(1, b"null")])])),
        entry(29, "list", schema(&[message(24, &[message(1, &[text(5, "string")])])])),
        entry(29, "lists", schema(&[message(24, &[message(2, &[]), message(2, &[text(5, "integer")])])])),
        entry(29, "open", schema(&[message(30, &[int(1, 1)])])),
        entry(29, "closed", schema(&[message(30, &[int(1, 0)])])),
        entry(29, "map", schema(&[message(30, &[int(1, 1), message(2, &[text(5, "string")])]), int(38, 0)])),
        entry(32, "names", message(2, &[text(2, "a"), text(2, "b")])),
        entry(32, "more", message(2, &[message(1, &[text(6, "date")])])),
    ];
    let root = message(1, &[text(5, "object"), properties.concat(), int(37, 0)]);
    let version = message(7, &[text(1, "v1"), int(2, 1), int(3, 0), message(4, &[root])]);
    check(
        &object("apiextensions.k8s.io/v1", "CustomResourceDefinition", &[message(2, &[text(1, "g"), version])]),
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "spec": {"group": "g", "versions": [{"name": "v1", "served": true, "storage": false, "schema": {
                "openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "n": {"type": "number", "maximum": 10, "minimum": 0.5, "default": 0},
                        "e": {"enum": ["a", null]},
                        "list": {"items": {"type": "string"}},
                        "lists": {"items": [{}, {"type": "integer"}]},
                        "open": {"additionalProperties": true},
                        "closed": {"additionalProperties": false},
                        "map": {"additionalProperties": {"type": "string"}, "x-kubernetes-preserve-unknown-fields": false},
                    },
                    "dependencies": {"names": ["a", "b"], "more": {"format": "date"}},
                },
            }}]},
        }),
    );
}

#[test]
fn requests_that_are_not_stored_are_read() {
    check(
        &object(
            "authorization.k8s.io/v1",
            "SelfSubjectAccessReview",
            &[
                message(1, &[message(8, &[])]),
                message(2, &[message(1, &[text(1, "n"), text(2, "create"), text(3, ""), text(5, "pods")])]),
                message(3, &[int(1, 0)]),
            ],
        ),
        json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "metadata": {},
            "spec": {"resourceAttributes": {"namespace": "n", "verb": "create", "resource": "pods"}},
            "status": {"allowed": false},
        }),
    );
    check(
        &object("policy/v1", "Eviction", &[named("p"), message(2, &[int(1, 0), message(2, &[text(1, "u")])])]),
        json!({
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"},
            "deleteOptions": {"gracePeriodSeconds": 0, "preconditions": {"uid": "u"}},
        }),
    );
    check(
        &object("apps/v1", "DeleteOptions", &[text(4, "Orphan"), text(5, "All")]),
        json!({"apiVersion": "apps/v1", "kind": "DeleteOptions", "propagationPolicy": "Orphan", "dryRun": ["All"]}),
    );
    check(
        &object(
            "authorization.k8s.io/v1",
            "SubjectAccessReview",
            &[message(2, &[entry(5, "scopes", message(2, &[text(1, "a"), text(1, "b")]))])],
        ),
        json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {"extra": {"scopes": ["a", "b"]}},
        }),
    );
}

#[test]
fn times_are_written_as_in_json() {
    let check = |seconds, nanos, renewed: &str| {
        let time = |number| message(number, &[int(1, seconds), int(2, nanos)]);
        let body = object("coordination.k8s.io/v1", "Lease", &[message(1, &[time(8)]), message(2, &[time(4)])]);
        let lease = parse(&body).expect("the lease is whole");
        assert_eq!(lease["spec"]["renewTime"], renewed);
        let created = lease["metadata"]["creationTimestamp"].as_str().map(|time| time.trim_end_matches('Z'));
        assert_eq!(created, renewed.split('.').next(), "whole seconds");
    };
    check(1_700_000_000, 123_456_789, "2023-11-14T22:13:20.123456Z");
    check(0, 0, "1970-01-01T00:00:00.000000Z");
    check(-62_135_596_800, 0, "0001-01-01T00:00:00.000000Z");
}

#[test]
fn a_message_in_parts_is_one_message_and_the_last_scalar_counts() {
    let body = object(
        "v1",
        "ConfigMap",
        &[
            message(1, &[text(1, "a"), text(3, "n")]),
            message(1, &[text(1, "b"), text(3, "")]),
            message(900, &[text(1, "a later release has this")]),
            double(901, 1.0),
            [tag(902, 5), vec![0; 4]].concat(),
        ],
    );
    check(&body, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}}));
}

#[test]
fn what_is_malformed_is_refused() {
    let map = |fields: &[Vec<u8>]| object("v1", "ConfigMap", fields);
    check_refused(b"", "empty data");
    check_refused(b"{}", NO_MAGIC);
    check_refused(b"k8s\0", "empty body");
    check_refused(b"k8s\0\x0a", "unexpected EOF");
    check_refused(&[b"k8s\0".to_vec(), text(3, "gzip")].concat(), "content encoding \"gzip\" is not supported");
    check_refused(&object("v1", "PodSpec", &[]), "no kind \"PodSpec\" of \"v1\" is known");
    check_refused(&object("v1", "Deployment", &[]), "no kind \"Deployment\" of \"v1\" is known");
    check_refused(&map(&[vec![0xff, 0xff]]), "unexpected EOF");
    check_refused(&map(&[vec![0x0a, 5]]), "unexpected EOF");
    check_refused(&map(&[[tag(9, 1), vec![0; 7]].concat()]), "unexpected EOF");
    check_refused(&map(&[int(1, 1)]), "proto: wrong wireType = 0 for field ObjectMeta");
    check_refused(&map(&[text(4, "")]), "proto: wrong wireType = 2 for field Immutable");
    check_refused(&map(&[int(2, 1)]), "proto: wrong wireType = 0 for field Data");
    check_refused(&map(&[vec![0xff; 11]]), "proto: integer overflow");
    check_refused(&map(&[vec![7, 7]]), "proto: ConfigMap: illegal tag 0 (wire type 7)");
    check_refused(&map(&[vec![4]]), "proto: ConfigMap: wiretype end group for non-group");
    check_refused(&map(&[vec![0x0b]]), "proto: illegal wireType 3");
    let negative = [tag(1, 2), varint(u64::MAX)].concat();
    check_refused(&map(&[negative]), "proto: negative length found during unmarshaling");
    check_refused(&map(&[message(1, &[bytes(1, &[0xff])])]), "proto: field Name has invalid UTF-8");
    let created = |seconds| map(&[message(1, &[message(8, &[int(1, seconds)])])]);
    check_refused(&created(i64::MAX), &format!("Timestamp {}s 0ns: year outside of range [0,9999]", i64::MAX));
    let revision = |raw: &[u8]| object("apps/v1", "ControllerRevision", &[message(2, &[bytes(1, raw)])]);
    check_refused(&revision(b"{"), "malformed JSON: EOF while parsing an object at line 1 column 1");
    let port = message(2, &[message(1, &[message(4, &[int(1, 7)])])]);
    check_refused(&object("v1", "Service", &[port]), "impossible IntOrString.Type");
}

#[test]
fn depth_is_bounded() {
    let nested = |levels: usize| {
        let schema = (0..levels).fold(Vec::new(), |inner, _| message(28, &[inner]));
        let version = message(7, &[message(4, &[message(1, &[schema])])]);
        object("apiextensions.k8s.io/v1", "CustomResourceDefinition", &[message(2, &[version])])
    };
    // The object, spec, versions, a version and its schema are above.
    assert!(parse(&nested(DEPTH_MAX - 6)).is_ok());
    check_refused(&nested(DEPTH_MAX - 5), "nested deeper than 120 levels");
    let raw = |levels: usize| {
        let json = "[".repeat(levels) + &"]".repeat(levels);
        object("apps/v1", "ControllerRevision", &[message(2, &[text(1, &json)])])
    };
    assert!(parse(&raw(DEPTH_MAX - 1)).is_ok());
    assert!(parse(&raw(DEPTH_MAX)).is_err());
}

/// Messages that only stand in the table because their fields stand in a parent.
const INLINED: [&str; 5] = [
    "core.v1.EphemeralContainerCommon",
    "core.v1.PersistentVolumeSource",
    "core.v1.ProbeHandler",
    "core.v1.VolumeSource",
    "networking.v1.IngressRuleValue",
];

#[test]
fn the_table_has_the_fields_of_the_schemas() {
    let mut unseen: BTreeSet<&str> = TABLE.names().collect();
    for (definition, schema) in &definitions(KINDS) {
        let Some(properties) = schema["properties"].as_object() else { continue };
        let name = short_name(definition);
        let message = TABLE.message(TABLE.find(name).unwrap_or_else(|| panic!("{name} is not in the table")));
        let mut expected: BTreeMap<&str, String> =
            properties.iter().map(|(field, schema)| (field.as_str(), type_in_schema(schema))).collect();
        if KINDS.iter().any(|kind| kind.definition == definition) {
            // They are in the envelope.
            expected.retain(|field, _| !matches!(*field, "apiVersion" | "kind"));
        }
        assert_eq!(types_in_table(message.name), expected, "{name}");
        unseen.remove(name);
    }
    let unseen: Vec<&str> = unseen.into_iter().filter(|name| !INLINED.contains(name)).collect();
    assert_eq!(unseen, ["apiextensions.v1.CustomResourceSubresourceStatus"], "it has no fields");
}

fn types_in_table(name: &str) -> BTreeMap<&'static str, String> {
    let message = TABLE.message(TABLE.find(name).expect("the message is in the table"));
    let mut types = BTreeMap::new();
    for field in &message.fields {
        match (field.shape, type_in_table(field.kind)) {
            (Shape::One, item) => drop(types.insert(field.name, item)),
            (Shape::List, item) => drop(types.insert(field.name, format!("[]{item}"))),
            (Shape::Map, item) => drop(types.insert(field.name, format!("{{}}{item}"))),
            (Shape::Inline, inlined) => types.extend(types_in_table(&inlined)),
        }
    }
    types
}

fn type_in_table(kind: Kind) -> String {
    match kind {
        Kind::String => "string",
        Kind::Int32 => "integer int32",
        Kind::Int64 => "integer int64",
        Kind::Bool => "boolean",
        Kind::Double => "number double",
        Kind::Bytes => "string byte",
        Kind::Quantity => "api.resource.Quantity",
        Kind::Time => "meta.v1.Time",
        Kind::MicroTime => "meta.v1.MicroTime",
        Kind::IntOrString => "util.intstr.IntOrString",
        Kind::RawJson => "JSON",
        Kind::Strings => "[]string",
        Kind::SchemaOrArray => "apiextensions.v1.JSONSchemaPropsOrArray",
        Kind::SchemaOrBool => "apiextensions.v1.JSONSchemaPropsOrBool",
        Kind::SchemaOrStrings => "apiextensions.v1.JSONSchemaPropsOrStringArray",
        Kind::Message(id) => TABLE.message(id).name,
    }
    .to_owned()
}

fn type_in_schema(schema: &Value) -> String {
    let text = |field: &str| schema[field].as_str().unwrap_or_default();
    match (text("type"), short_name(text("$ref").trim_start_matches("#/$defs/"))) {
        ("array", _) => format!("[]{}", type_in_schema(&schema["items"])),
        ("object", _) => format!("{{}}{}", type_in_schema(&schema["additionalProperties"])),
        ("", "apiextensions.v1.JSON" | "meta.v1.FieldsV1" | "pkg.runtime.RawExtension") => "JSON".to_owned(),
        ("", name) => name.to_owned(),
        (kind, _) => format!("{kind} {}", text("format")).trim_end().to_owned(),
    }
}

#[test]
fn every_kind_is_in_the_table() {
    for kind in KINDS {
        assert!(TABLE.find(short_name(kind.definition)).is_some(), "{}", kind.definition);
    }
    assert!(TABLE.find(SCHEMA).is_some());
}

fn kinds() -> impl Strategy<Value = (String, &'static str)> {
    (0..KINDS.len()).prop_map(|at| {
        let kind = &KINDS[at];
        let version = kind.version;
        (if kind.group.is_empty() { version.to_owned() } else { format!("{}/{version}", kind.group) }, kind.kind)
    })
}

/// Bytes that look like messages, most of the time: arbitrary ones fail at the first tag.
fn messages() -> impl Strategy<Value = Vec<u8>> {
    let leaf = prop_oneof![
        (1..45u32, any::<i64>()).prop_map(|(number, value)| int(number, value)),
        (1..45u32, "[a-z0-9{}]{0,4}").prop_map(|(number, value)| text(number, &value)),
        (1..45u32, any::<f64>()).prop_map(|(number, value)| double(number, value)),
        proptest::collection::vec(any::<u8>(), 0..4),
    ];
    leaf.prop_recursive(6, 40, 4, |inner| {
        (1..45u32, proptest::collection::vec(inner, 0..4)).prop_map(|(number, fields)| message(number, &fields))
    })
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(body in proptest::collection::vec(any::<u8>(), 0..64), (version, kind) in kinds()) {
        let _ = parse(&body);
        let _ = parse(&[b"k8s\0".to_vec(), body.clone()].concat());
        let _ = parse(&object(&version, kind, &[body]));
    }

    #[test]
    fn arbitrary_messages_never_panic(fields in proptest::collection::vec(messages(), 0..6), (version, kind) in kinds()) {
        if let Ok(value) = parse(&object(&version, kind, &fields)) {
            prop_assert_eq!(&value["kind"], kind);
            prop_assert!(nesting(&value) <= DEPTH_MAX);
        }
    }
}
