//! The rows are answers of a real kube-apiserver 1.34.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::schema::{NodeData, Set};

const REJECTED: &str = "the server rejected our request due to an error in our request";

fn live() -> Value {
    json!({"metadata": {"labels": {"a": "b"}, "finalizers": ["x", "y"]}, "data": {"k": "v"}, "replicas": 2})
}

fn parse(kind: &str, body: &str, validation: FieldValidation) -> Result<Parsed, (u16, String)> {
    Patch::parse(kind, body.as_bytes(), validation).map_err(|error| (error.code, error.message))
}

fn patched(kind: &str, patch: &Value) -> Result<Value, (u16, String)> {
    let mut set = Set::new();
    let root = set.add(NodeData::default());
    let parsed = parse(kind, &patch.to_string(), FieldValidation::Warn)?;
    apply_patch(&parsed.patch, &live(), set.node(root)).map_err(|error| (error.code, error.message))
}

#[test]
fn json_patches_are_applied() {
    let check = |operation: Value, pointer: &str, expected: Value| {
        let result =
            patched(JSON, &json!([operation])).map(|object| object.pointer(pointer).cloned().unwrap_or_default());
        assert_eq!(result, Ok(expected), "{operation}");
    };
    let finalizers = "/metadata/finalizers";
    let at = |op: &str, index: &str| json!({"op": op, "path": format!("{finalizers}/{index}"), "value": "q"});
    check(json!({"op": "add", "path": "/data/q", "value": "1"}), "/data", json!({"k": "v", "q": "1"}));
    check(json!({"op": "add", "path": "/data/q"}), "/data", json!({"k": "v", "q": null}));
    check(json!({"op": "add", "path": "/metadata/labels/a~1b~0", "value": "1"}), "/metadata/labels/a~1b~0", json!("1"));
    check(json!({"op": "add", "path": "ignored/q", "value": 1}), "/q", json!(1));
    check(at("add", "0"), finalizers, json!(["q", "x", "y"]));
    check(at("add", "2"), finalizers, json!(["x", "y", "q"]));
    check(at("add", "-"), finalizers, json!(["x", "y", "q"]));
    check(at("add", "-1"), finalizers, json!(["x", "y", "q"]));
    check(at("add", "+1"), finalizers, json!(["x", "q", "y"]));
    check(at("add", "01"), finalizers, json!(["x", "q", "y"]));
    check(at("remove", "0"), finalizers, json!(["y"]));
    check(at("remove", "-2"), finalizers, json!(["y"]));
    check(at("replace", "-1"), finalizers, json!(["x", "q"]));
    check(json!({"op": "replace", "path": "/data/new", "value": "1"}), "/data/new", json!("1"));
    check(json!({"op": "replace", "path": "", "value": {"a": 1}}), "", json!({"a": 1}));
    check(json!({"op": "replace", "path": "", "value": "x"}), "", live());
    check(json!({"op": "move", "from": "/data/k", "path": "/data/z"}), "/data", json!({"z": "v"}));
    check(
        json!({"op": "move", "from": "/metadata/finalizers/0", "path": "/metadata/finalizers/1"}),
        finalizers,
        json!(["y", "x"]),
    );
    check(json!({"op": "copy", "from": "/data/k", "path": "/data/z"}), "/data", json!({"k": "v", "z": "v"}));
    check(json!({"op": "copy", "from": "/data/none", "path": "/data/z"}), "/data", json!({"k": "v", "z": null}));
    check(json!({"op": "test", "path": "/data/none", "value": null}), "", live());
    check(json!({"op": "test", "path": "/replicas", "value": 2}), "", live());
    check(json!({"op": "test", "path": "/metadata/finalizers/-1", "value": "y"}), "", live());
}

#[test]
fn json_patches_that_do_not_fit_are_rejected() {
    let check = |operation: Value| {
        assert_eq!(patched(JSON, &json!([operation])), Err((422, REJECTED.to_owned())), "{operation}");
    };
    let at = |op: &str, path: &str| json!({"op": op, "path": path, "value": "q", "from": path});
    let finalizer = |op: &str, index: &str| at(op, &format!("/metadata/finalizers/{index}"));
    check(json!({"op": "test", "path": "/data/k", "value": "x"}));
    check(json!({"op": "test", "path": "/data/k"}));
    check(json!({"op": "test", "path": "/replicas", "value": 2.0}));
    check(json!({"op": "test", "path": "/data", "value": {"k": "v", "z": null}}));
    check(json!({"op": "test", "path": "/none/z", "value": null}));
    for op in ["add", "remove", "replace", "move", "copy", "test"] {
        check(at(op, "/none/z"));
        check(at(op, "/data/k/z"));
        check(at(op, "data"));
        check(finalizer(op, "9"));
        check(finalizer(op, "-9"));
        check(finalizer(op, "one"));
        check(finalizer(op, "99999999999999999999"));
        check(json!({"op": op, "value": "x"}));
    }
    check(at("add", ""));
    check(at("remove", ""));
    check(at("remove", "/data/none"));
    check(finalizer("remove", "2"));
    check(finalizer("replace", "-"));
    check(finalizer("add", "3"));
    check(json!({"op": "move", "from": "/data", "path": "/data/x"}));
    check(json!({"op": "foo", "path": "/data/x"}));
    check(json!({"path": "/data/x"}));
    check(json!(null));
}

#[test]
fn json_patches_are_bounded() {
    let test = json!({"op": "test", "path": "/replicas", "value": 2});
    let why = "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001";
    assert_eq!(patched(JSON, &vec![test; 10_001].into()), Err((413, why.to_owned())));
    let rejected = Err((422, REJECTED.to_owned()));
    let double = json!({"op": "copy", "from": "/metadata/finalizers", "path": "/metadata/finalizers/-"});
    assert_eq!(patched(JSON, &vec![double; 22].into()), rejected, "copies add up");
    let tower = json!({"op": "add", "path": format!("/data{}", "/a".repeat(100)), "value": {}});
    let mut steps: Vec<Value> =
        (1..=100).map(|n| json!({"op": "add", "path": format!("/data{}", "/a".repeat(n)), "value": {}})).collect();
    assert!(patched(JSON, &steps.clone().into()).is_ok());
    steps.push(json!({"op": "move", "from": "/data", "path": "/x"}));
    steps.push(json!({"op": "add", "path": "/data", "value": {}}));
    steps.extend((1..=100).map(|n| json!({"op": "add", "path": format!("/data{}", "/a".repeat(n)), "value": {}})));
    steps.push(json!({"op": "move", "from": "/x", "path": format!("/data{}", "/a".repeat(101))}));
    assert_eq!(patched(JSON, &steps.into()), rejected, "towers are not built");
    assert_eq!(patched(JSON, &json!([tower])), rejected);
}

#[test]
fn merge_patches_are_merged() {
    let check = |patch: Value, pointer: &str, expected: Value| {
        let result = patched(MERGE, &patch).map(|object| object.pointer(pointer).cloned().unwrap_or_default());
        assert_eq!(result, Ok(expected), "{patch}");
    };
    check(json!({}), "", live());
    check(json!({"data": {"k": null, "z": "1"}}), "/data", json!({"z": "1"}));
    check(json!({"data": null}), "/data", json!(null));
    check(json!({"data": [1]}), "/data", json!([1]));
    check(json!({"metadata": {"finalizers": ["z"]}}), "/metadata/finalizers", json!(["z"]));
    check(json!({"new": {"a": null, "b": {"c": null}}}), "/new", json!({"b": {}}));
    check(json!({"metadata": {"finalizers": [null, {"a": null}]}}), "/metadata/finalizers", json!([null, {}]));
}

#[test]
fn bodies_that_are_no_patches_are_refused() {
    use FieldValidation::{Ignore, Warn};
    let check = |kind: &str, body: &str, validation, expected: &str| {
        let (code, message) = parse(kind, body, validation).expect_err("it is no patch");
        assert_eq!(code, 400, "{kind} {body:?} {validation:?}");
        assert!(message.contains(expected), "{kind} {body:?} {validation:?}: {message}");
    };
    let (end, no_map) = ("malformed JSON: EOF", "expected an object, got a list");
    check(JSON, "", Warn, end);
    check(JSON, "", Ignore, end);
    check(JSON, "[] x", Warn, "malformed JSON: trailing characters at line 1 column 4");
    check(JSON, "{}", Warn, "expected a list of operations, got an object");
    check(JSON, "{}", Ignore, "expected a list of operations, got an object");
    check(JSON, "[1]", Warn, "expected an operation, got number 1");
    check(JSON, "[1]", Ignore, "expected an operation, got number 1");
    check(JSON, r#"[{"op":"add","path":1}]"#, Warn, "`path` of an operation: expected a string, got number 1");
    check(MERGE, "", Warn, end);
    check(MERGE, "", Ignore, "Invalid JSON Patch");
    check(MERGE, "null", Warn, "Invalid JSON Patch");
    check(MERGE, "[]", Warn, no_map);
    check(MERGE, "1", Ignore, "Invalid JSON Patch");
    check(STRATEGIC, "", Warn, end);
    check(STRATEGIC, "[]", Ignore, no_map);
    check(APPLY, "[]", Warn, no_map);
    check(APPLY, "a: .inf", Warn, "+Inf");
    let array = parse(MERGE, "[1]", Ignore).expect_err("a list is no merge patch");
    assert_eq!(
        (array.0, array.1.starts_with(" \"\" is invalid: patch: Invalid value: \"[1]\": expected an object")),
        (422, true)
    );
    let other = parse("application/json", "{}", Warn).expect_err("that is no patch");
    assert_eq!(other, (415, "415: Unsupported Media Type".to_owned()));
    let long = "x".repeat(decode::BODY_BYTES_MAX + 1);
    assert_eq!(parse(APPLY, &long, Warn), Err((413, "Request entity too large: limit is 3145728".to_owned())));
}

#[test]
fn problems_in_the_text_are_noted() {
    let check = |kind: &str, body: &str, expected: &[&str]| {
        let parsed = parse(kind, body, FieldValidation::Warn).expect("the patch can be read");
        assert_eq!(parsed.problems, expected, "{body}");
    };
    check(JSON, "null", &[]);
    check(
        JSON,
        r#"[{"op":"test","op":"add","path":"/x","value":{"a":1,"a":2},"foo":1}]"#,
        &[
            r#"json patch duplicate field "[0].op""#,
            r#"json patch duplicate field "[0].value.a""#,
            r#"json patch unknown field "[0].foo""#,
        ],
    );
    check(MERGE, r#"{"data":{"a":"1","a":"2"}}"#, &[r#"duplicate field "data.a""#]);
    check("application/strategic-merge-patch+json; charset=utf-8", r#"{"a":1,"a":2}"#, &[r#"duplicate field "a""#]);
    check(APPLY, r#"{"data":{"a":"1","a":"2"}}"#, &["line 1: key \"a\" already set in map"]);
}

#[test]
fn results_are_shown_in_errors() {
    let strategic = Patch::Strategic(
        json!({"spec": {"n": [1, 1.5, 1e21, "x", null, true]}}).as_object().cloned().unwrap_or_default(),
    );
    let error = strategic.invalid_result(&json!({}), "why");
    let text =
        " \"\" is invalid: patch: Invalid value: \"{\\\"spec\\\":{\\\"n\\\":[1,1.5,1e+21,\\\"x\\\",null,true]}}\": why";
    assert_eq!((error.code, error.message.as_str()), (422, text));
    let problems = ["duplicate field \"a\"".to_owned(), "unknown field \"b\"".to_owned()];
    let error = Patch::Strategic(Map::new()).strict_error(&json!({}), &problems);
    let text = " \"\" is invalid: patch: Invalid value: \"{}\": strict decoding error: duplicate field \"a\", unknown field \"b\"";
    assert_eq!((error.code, error.message.as_str()), (422, text));
    let error = Patch::Apply(json!({})).strict_error(&json!({}), &problems[..1]);
    assert_eq!((error.code, error.message.as_str()), (400, "error strict decoding YAML: duplicate field \"a\""));
    let merge = Patch::Merge(Map::new());
    let error = merge.invalid_result(&json!({"a": 1}), "why");
    assert_eq!(error.message, " \"\" is invalid: patch: Invalid value: \"{\\\"a\\\":1}\": why");
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![Just(json!("x")), Just(json!(1)), Just(json!(true))];
    leaf.prop_recursive(4, 20, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[abc]", inner, 0..3).prop_map(|fields| json!(fields)),
        ]
    })
}

fn difference(live: &Value, target: &Value) -> Value {
    let (Value::Object(live), Value::Object(target)) = (live, target) else { return target.clone() };
    let gone = live.keys().filter(|name| !target.contains_key(*name)).map(|name| (name.clone(), Value::Null));
    let changed = target.iter().filter(|(name, value)| live.get(*name) != Some(*value));
    let changed = changed.map(|(name, value)| {
        (name.clone(), live.get(name).map_or_else(|| value.clone(), |live| difference(live, value)))
    });
    Value::Object(gone.chain(changed).collect())
}

proptest! {
    #[test]
    fn a_computed_merge_patch_leads_to_its_target(a in json_value(), b in json_value(), c in json_value(), d in json_value()) {
        let (live, target) = (json!({"x": a, "y": b}), json!({"x": c, "z": d}));
        let patch = difference(&live, &target);
        prop_assert_eq!(json::merge(&live, patch.as_object().expect("an object")), target);
    }

    #[test]
    fn add_and_remove_cancel_out(live in json_value(), value in json_value()) {
        let live = json!({"x": live});
        let patch = r#"[{"op":"add","path":"/y","value":VALUE},{"op":"move","from":"/y","path":"/z"},{"op":"remove","path":"/z"}]"#;
        let patch = patch.replace("VALUE", &value.to_string());
        let (patch, _) = JsonPatch::parse(patch.as_bytes(), true).expect("the patch is valid");
        prop_assert_eq!(patch.apply(&live).ok(), Some(live));
    }
}
