use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::schema::builtin;

fn kind(group: &str, kind: &str) -> Node<'static> {
    builtin::root(group, "v1", kind).expect("a built-in kind")
}

fn decoded(group: &str, name: &str, mut object: Value) -> (Result<Vec<String>, Undecodable>, Value) {
    let outcome = decode(&mut object, kind(group, name));
    (outcome, object)
}

fn pod(spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
}

/// Checks the error, without its common parts, for a pod with this spec.
fn wrong(spec: Value) -> String {
    match decoded("", "Pod", pod(spec)).0 {
        Err(Undecodable(text)) => text,
        Ok(unknown) => panic!("no error, but {unknown:?}"),
    }
}

#[test]
fn unknown_fields_are_named_with_their_path_and_dropped() {
    let object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "foo": 1},
        "spec": {"replica": 3, "template": {"spec": {"containers": [{"name": "c", "env": [{"nam": "x"}], "zort": 2}]}}},
    });
    let (outcome, object) = decoded("apps", "Deployment", object);
    let expected = [
        "metadata.foo",
        "spec.replica",
        "spec.template.spec.containers[0].env[0].nam",
        "spec.template.spec.containers[0].zort",
    ];
    assert_eq!(outcome, Ok(expected.map(|path| format!("unknown field \"{path}\"")).to_vec()));
    assert_eq!(object["spec"], json!({"template": {"spec": {"containers": [{"name": "c", "env": [{}]}]}}}));
}

#[test]
fn the_answers_say_which_kind_was_expected() {
    let error = Undecodable("json: …".into()).bad_request("v1", "Deployment");
    assert_eq!((error.code, error.reason), (400, "BadRequest"));
    assert_eq!(error.message, r#"Deployment in version "v1" cannot be handled as a Deployment: json: …"#);
    let error = strict_error("v1", "Pod", &["unknown field \"a\"".into(), "unknown field \"b\"".into()]);
    let fields = r#"strict decoding error: unknown field "a", unknown field "b""#;
    assert_eq!(error.message, format!(r#"Pod in version "v1" cannot be handled as a Pod: {fields}"#));
}

#[test]
fn mistyped_values_are_named_with_their_field() {
    let container = |container: Value| json!({"containers": [container]});
    let rows = [
        (json!({"activeDeadlineSeconds": "3"}), r#"spec.activeDeadlineSeconds: expected int64, got string "3""#),
        (json!({"activeDeadlineSeconds": 1.5}), "spec.activeDeadlineSeconds: expected int64, got number 1.5"),
        (json!({"priority": 3_000_000_000_u64}), "spec.priority: expected int32, got number 3000000000"),
        (json!({"containers": "x"}), r#"spec.containers: expected a list, got string "x""#),
        (json!({"containers": ["x"]}), r#"spec.containers[0]: expected an object, got string "x""#),
        (json!({"containers": {"a": 1}}), "spec.containers: expected a list, got an object"),
        (json!({"restartPolicy": true}), "spec.restartPolicy: expected a string, got boolean true"),
        (json!({"nodeSelector": {"a": 1}}), "spec.nodeSelector.a: expected a string, got number 1"),
        (json!({"nodeSelector": []}), "spec.nodeSelector: expected an object, got a list"),
        (container(json!({"command": "a"})), r#"spec.containers[0].command: expected a list, got string "a""#),
        (
            container(json!({"livenessProbe": {"httpGet": {"port": 1.5}}})),
            "spec.containers[0].livenessProbe.httpGet.port: expected int32 or a string, got number 1.5",
        ),
    ];
    for (spec, expected) in rows {
        assert_eq!(wrong(spec), expected);
    }
}

#[test]
fn malformed_values_end_the_decoding() {
    let quantity = crate::quantity::QuantityError::Format.to_string();
    for cpu in [json!("abc"), json!(""), json!(true), json!({"a": 1})] {
        let expected = format!("spec.containers[0].resources.limits.cpu: {quantity}");
        assert_eq!(wrong(json!({"containers": [{"resources": {"limits": {"cpu": cpu}}}]})), expected);
    }
    let both = json!({"activeDeadlineSeconds": "1", "containers": [{"livenessProbe": {"httpGet": {"port": true}}}]});
    assert!(wrong(both).contains("httpGet.port: expected int32 or a string, got boolean true"), "its own error wins");
    let secret = |data: Value| decoded("", "Secret", json!({"data": data})).0;
    assert_eq!(secret(json!({"a": "ab!c"})), Err(Undecodable("data.a: illegal base64 data at input byte 2".into())));
    let expected = "data.a: expected a string in base64, got number 1";
    assert_eq!(secret(json!({"a": 1})), Err(Undecodable(expected.into())));
    let time = decoded("", "Pod", json!({"metadata": {"creationTimestamp": 12}})).0;
    let expected = "metadata.creationTimestamp: expected a string, got number 12";
    assert_eq!(time, Err(Undecodable(expected.into())));
}

/// Checks what an object looks like after decoding and filling.
fn check(name: &str, kind_of: (&str, &str), mut object: Value, expected: Value) {
    let node = kind(kind_of.0, kind_of.1);
    assert_eq!(decode(&mut object, node), Ok(vec![]), "{name}");
    fill(&mut object, node);
    assert_eq!(object, expected, "{name}");
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn objects_come_out_as_they_do_from_the_real_server() {
    check(
        "empty and null fields that count as absent are gone, explicit zeros of others stay",
        ("apps", "Deployment"),
        json!({
            "metadata": {"name": "a", "labels": {}, "annotations": null, "creationTimestamp": null},
            "spec": {"replicas": 0, "paused": false, "selector": {"matchLabels": {"a": "b"}}, "template": {
                "metadata": {"creationTimestamp": null}, "spec": {"hostNetwork": false, "containers": [
                    {"name": "c", "env": [], "command": null, "securityContext": {}}]}}},
        }),
        json!({
            "metadata": {"name": "a"},
            "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "strategy": {}, "template": {
                "metadata": {}, "spec": {"containers": [{"name": "c", "resources": {}, "securityContext": {}}]}}},
            "status": {},
        }),
    );
    check(
        "quantities are canonical, also those given as numbers or null",
        ("", "Pod"),
        pod(json!({"containers": [
            {"name": "c", "resources": {"limits": {"a": "1000m", "b": "1024Mi", "c": 1.5, "d": null}}},
        ]})),
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {},
            "spec": {"containers": [
                {"name": "c", "resources": {"limits": {"a": "1", "b": "1Gi", "c": "1500m", "d": "0"}}},
            ]},
        }),
    );
    check(
        "a service has its empty load balancer",
        ("", "Service"),
        json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 1}]}}),
        json!({
            "metadata": {"name": "a"}, "spec": {"ports": [{"port": 1, "targetPort": 0}]},
            "status": {"loadBalancer": {}},
        }),
    );
    check(
        "nulls in maps are empty texts",
        ("", "ConfigMap"),
        json!({"metadata": {}, "data": {"a": null, "b": ""}, "immutable": false, "binaryData": {}}),
        json!({"metadata": {}, "data": {"a": "", "b": ""}, "immutable": false}),
    );
    check(
        "bytes lose their line breaks",
        ("", "Secret"),
        json!({"metadata": {}, "data": {"a": "YQ==\n", "b": null}}),
        json!({"metadata": {}, "data": {"a": "YQ==", "b": ""}}),
    );
    check(
        "empty rules are null",
        ("rbac.authorization.k8s.io", "Role"),
        json!({"rules": []}),
        json!({"metadata": {}, "rules": null}),
    );
    check(
        "times are in UTC, those of an event are there even when unknown",
        ("", "Event"),
        json!({"metadata": {"name": "e"}, "involvedObject": {}, "lastTimestamp": "2024-01-01T01:00:00.5+01:00"}),
        json!({
            "metadata": {"name": "e"}, "involvedObject": {}, "source": {}, "firstTimestamp": null, "eventTime": null,
            "lastTimestamp": "2024-01-01T00:00:00Z", "reportingComponent": "", "reportingInstance": "",
        }),
    );
    check(
        "raw parts stay as they are",
        ("apps", "ControllerRevision"),
        json!({"metadata": {}, "data": {"anything": null, "empty": {}}, "revision": 0}),
        json!({"metadata": {}, "data": {"anything": null, "empty": {}}, "revision": 0}),
    );
    check(
        "absent pointers that are always written are null",
        ("", "PersistentVolumeClaim"),
        json!({"metadata": {}, "spec": {"storageClassName": "", "dataSource": {"kind": "a", "name": "b"}}}),
        json!({
            "metadata": {}, "status": {},
            "spec": {
                "storageClassName": "", "dataSource": {"apiGroup": null, "kind": "a", "name": "b"}, "resources": {},
            },
        }),
    );
}

#[test]
fn schemas_in_definitions_are_cleaned_silently() {
    let schema = json!({"type": "array", "items": {"type": "object", "foo": 1, "additionalProperties": true}});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    let names = json!({"kind": "K", "plural": "ks"});
    let spec = json!({"group": "g", "names": names, "scope": "Cluster", "versions": [version]});
    let object = json!({"metadata": {}, "spec": spec});
    let (outcome, object) = decoded("apiextensions.k8s.io", "CustomResourceDefinition", object);
    assert_eq!(outcome, Ok(vec![]));
    let items = &object["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["items"];
    assert_eq!(*items, json!({"type": "object", "additionalProperties": true}));
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z0-9:.TZ-]{0,8}".prop_map(Value::from)
    ];
    let names = prop_oneof![
        "(spec|metadata|labels|name|containers|resources|limits|env|ports|volumes|data|replicas|template|status)",
        "[a-z]{1,3}"
    ];
    leaf.prop_recursive(6, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(names.clone(), inner, 0..6).prop_map(|map| Value::from(Map::from_iter(map)))
        ]
    })
}

proptest! {
    #[test]
    fn decoding_and_filling_twice_changes_nothing_more(spec in any_value(), which in 0..builtin::KINDS.len()) {
        let kind = builtin::KINDS[which];
        let node = builtin::root(kind.group, kind.version, kind.kind).expect("a schema");
        let mut object = json!({"metadata": {"name": "x"}, "spec": spec.clone(), "data": spec});
        if decode(&mut object, node).is_ok() {
            fill(&mut object, node);
            let once = object.clone();
            prop_assert_eq!(decode(&mut object, node), Ok(vec![]));
            fill(&mut object, node);
            prop_assert_eq!(object, once);
        }
    }
}
