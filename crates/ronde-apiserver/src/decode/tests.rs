//! What is taken and what is refused is as a real kube-apiserver 1.34 does, but for rows that say otherwise.

use serde_json::json;

use super::*;
use crate::schema::{Additional, Id, NodeData, Set, Type};

const OBJECT: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}"#;

fn parse(body: &str) -> Result<Value, String> {
    parse_json(body.as_bytes(), None).map(|decoded| decoded.value)
}

#[test]
fn malformed_json_is_refused_with_its_place() {
    let malformed = [
        "",
        "  ",
        OBJECT,
        r#"{"a":1,}"#,
        r#"{"a":1} x"#,
        "{}{}",
        "hello",
        "foo",
        "tru",
        "{\"a\":\"x\ny\"}",
        r#"{"a":"\x"}"#,
        r#"{"a":"\u12g4"}"#,
        r#"{"a":NaN}"#,
        r#"{"a":01}"#,
        r#"{"a":+1}"#,
        r#"{"a":1.x}"#,
        r#"{"a":1e}"#,
        r#"{"a":-}"#,
        r#"{"a" 1}"#,
        "[1 2]",
        "{'a':1}",
        r#"{"a":1e999}"#,
    ];
    for body in malformed {
        let error = parse(body).expect_err(body);
        assert!(error.starts_with("malformed JSON: ") && error.contains(" at line "), "{body}: {error}");
    }
    assert!(parse_json(b"{\xff}", None).is_err());
}

#[test]
fn what_go_takes_is_taken() {
    let check = |body: &[u8], expected: Value| {
        let decoded = parse_json(body, None).map(|decoded| decoded.value);
        assert_eq!(decoded, Ok(expected), "{}", String::from_utf8_lossy(body));
    };
    check(b"\"\xff\xfe\"", json!("\u{fffd}\u{fffd}"));
    check(br#""\ud800x""#, json!("\u{fffd}x"));
    check(br#""\udc00\ud83d\ude00\ud83d""#, json!("\u{fffd}\u{1f600}\u{fffd}"));
    check(br#""\\ud800""#, json!("\\ud800"));
    check(b"-0", json!(0));
    check(b"9223372036854775807", json!(i64::MAX));
    check(b"9223372036854775808", json!(9_223_372_036_854_775_808.0));
    check(b"123456789012345678901234567890", json!(123_456_789_012_345_678_901_234_567_890.0));
    check(b"1.0", json!(1.0));
    check(b" null ", json!(null));
}

#[test]
fn nesting_is_bounded() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(parse(&nested(DEPTH_MAX - 1)).is_ok());
    // The real server goes to 10 000.
    for depth in [DEPTH_MAX, 100_000] {
        let error = parse(&nested(depth)).expect_err("it is too deep");
        assert!(error.starts_with("malformed JSON: nested deeper than 120 levels"), "{error}");
    }
    assert!(parse(&"[".repeat(1_000_000)).is_err());
    assert!(parse_yaml(nested(DEPTH_MAX - 1).as_bytes()).is_ok());
    assert_eq!(parse_yaml(nested(DEPTH_MAX).as_bytes()), Err("yaml: nested deeper than 120 levels".to_owned()));
    assert!(parse_yaml("[".repeat(1_000_000).as_bytes()).is_err());
    let block = (0..1000).map(|level| " ".repeat(level) + "a:\n").collect::<String>();
    assert!(parse_yaml(block.as_bytes()).is_err());
    let tower = format!("a: &a {}\nb: {}*a{}\n", nested(100), "[".repeat(100), "]".repeat(100));
    assert_eq!(parse_yaml(tower.as_bytes()), Err("yaml: nested deeper than 120 levels".to_owned()));
}

fn object(fields: &[(&str, Id)]) -> NodeData {
    let properties = fields.iter().map(|(name, id)| ((*name).to_owned(), *id)).collect();
    NodeData { kind: Type::Object, properties, ..NodeData::default() }
}

fn config_map() -> (Set, Id) {
    let mut set = Set::new();
    let text = set.add(NodeData { kind: Type::String, ..NodeData::default() });
    let map = set.add(NodeData { kind: Type::Object, additional: Additional::Values(text), ..NodeData::default() });
    let any = set.add(NodeData::default());
    let owner = set.add(object(&[("uid", text)]));
    let owners = set.add(NodeData { kind: Type::Array, items: Some(owner), ..NodeData::default() });
    let meta = set.add(object(&[("name", text), ("labels", map), ("owners", owners)]));
    let root = set.add(object(&[("metadata", meta), ("data", map), ("raw", any)]));
    (set, root)
}

#[test]
fn duplicate_and_unknown_fields_are_noted_in_the_order_of_the_document() {
    let (set, root) = config_map();
    let check = |body: &str, value: Value, problems: &[&str]| {
        let decoded = parse_json(body.as_bytes(), Some(set.node(root))).expect("the body is JSON");
        assert_eq!((decoded.value, decoded.problems), (value, problems.iter().map(ToString::to_string).collect()));
    };
    check(
        r#"{"metadata":{"name":"a","name":"b","foo":{"x":1,"x":2}},"zoo":1,"data":{"x/y":"1","x/y":"2","x/y":"3"}}"#,
        json!({"metadata": {"name": "b"}, "data": {"x/y": "3"}}),
        &[
            r#"duplicate field "metadata.name""#,
            r#"unknown field "metadata.foo""#,
            r#"unknown field "zoo""#,
            r#"duplicate field "data.x/y""#,
        ],
    );
    check(
        r#"{"metadata":{"owners":[{},{"uid":"1","uid":"2","z":0}]},"raw":{"a":[{"b":1,"b":2}]}}"#,
        json!({"metadata": {"owners": [{}, {"uid": "2"}]}, "raw": {"a": [{"b": 2}]}}),
        &[
            r#"duplicate field "metadata.owners[1].uid""#,
            r#"unknown field "metadata.owners[1].z""#,
            r#"duplicate field "raw.a[0].b""#,
        ],
    );
    // A wrong type is not this module's business.
    check(r#"{"metadata":[{"x":1}],"data":"x"}"#, json!({"metadata": [{"x": 1}], "data": "x"}), &[]);
}

#[test]
fn notes_are_bounded() {
    let fields: Vec<String> = (0..1000).map(|n| format!("\"k{n}\":1,\"k{n}\":2")).collect();
    let decoded = parse_json(format!("{{{}}}", fields.join(",")).as_bytes(), None).expect("the body is JSON");
    assert_eq!(decoded.problems.len(), 100);
}

#[test]
fn yaml_becomes_json() {
    let check = |body: &str, expected: Value| {
        let decoded = parse_yaml(body.as_bytes()).map(|decoded| decoded.value);
        assert_eq!(decoded, Ok(expected), "{body}");
    };
    check("", json!(null));
    check("a: b\nc: [1, 2.5, ~, 'x']\n", json!({"a": "b", "c": [1, 2.5, null, "x"]}));
    check("{\"a\": 1}", json!({"a": 1}));
    check("{a: 1, 'b': x}", json!({"a": 1, "b": "x"}));
    check("a: yes\nb: off\nc: 'yes'\n", json!({"a": true, "b": false, "c": "yes"}));
    check("a: 017\nb: 0x1F\nc: 1_000\nd: 2001-01-01\n", json!({"a": 15, "b": 31, "c": 1000, "d": "2001-01-01"}));
    check("a: !!str 1\nb: !foo bar\nc: !!binary aGVsbG8=\n", json!({"a": "1", "b": "bar", "c": "hello"}));
    check("1: a\ntrue: b\n1.5: c\n", json!({"1": "a", "true": "b", "1.5": "c"}));
    check("x: &x\n  a: b\nz:\n  <<: *x\n  c: d\n", json!({"x": {"a": "b"}, "z": {"a": "b", "c": "d"}}));
    check("a: 1\n---\nb: 2\n", json!({"a": 1}));
    check("{\"a\":1} x", json!({"a": 1}));
    check("a: 99999999999999999999\n", json!({"a": 1e20}));
}

#[test]
fn yaml_that_json_cannot_hold_is_refused() {
    let check = |body: &str, expected: &str| {
        let decoded = parse_yaml(body.as_bytes()).map(|decoded| decoded.value);
        assert_eq!(decoded, Err(expected.to_owned()), "{body}");
    };
    check("a: .inf", "json: unsupported value: +Inf");
    check("a: -.inf", "json: unsupported value: -Inf");
    check("a: .nan", "json: unsupported value: NaN");
    // The words of these are ours.
    check("~: a", "unsupported map key of type: null");
    check("[a]: b", "yaml: invalid map key: [\"a\"]");
    check("a: [", "yaml: line 1: unclosed bracket '['");
    check("a:\n\tb: c", "yaml: line 2: tabs disallowed within this context (block indentation)");
    assert_eq!(parse_yaml(b"a: \xff"), Err("yaml: invalid leading UTF-8 octet".to_owned()));
}

#[test]
fn yaml_aliases_cannot_blow_a_document_up() {
    let level = |n: usize| format!("a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 9].join(","));
    let nodes: Vec<String> = ["a0: &a0 [x,x,x]\n".to_owned()].into_iter().chain((1..9).map(level)).collect();
    assert_eq!(parse_yaml(nodes.concat().as_bytes()), Err("yaml: too large once its aliases are expanded".to_owned()));
    let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(100_000), vec!["*a"; 90].join(","));
    assert_eq!(parse_yaml(long.as_bytes()), Err("yaml: too large once its aliases are expanded".to_owned()));
}

#[test]
fn yaml_duplicates_are_noted_with_their_lines() {
    let decoded = parse_yaml(b"data:\n  a: b\n  a: c\nx: 1\nx: 2\n").expect("the body is YAML");
    assert_eq!(decoded.value, json!({"data": {"a": "c"}, "x": 2}));
    let lines = ["line 3: key \"a\" already set in map", "line 5: key \"x\" already set in map"];
    assert_eq!(decoded.problems, lines);
    let json = parse_yaml(br#"{"data":{"a":1,"a":2}}"#).expect("the body is YAML");
    assert_eq!(json.problems, ["line 1: key \"a\" already set in map"]);
}

#[test]
fn objects_are_recognised() {
    let check = |content_type: &str, body: &str, expected: Result<Value, (u16, String)>| {
        let decoded = decode(content_type, body.as_bytes(), "ConfigMap", None);
        let decoded = decoded.map(|decoded| decoded.value).map_err(|error| (error.code, error.message));
        assert_eq!(decoded, expected, "{content_type} {body}");
    };
    let bad =
        |text: &str| Err((400, format!("the object provided is unrecognized (must be of type ConfigMap): {text}")));
    let unknown_format = Err((
        415,
        "the body of the request was in an unknown format - accepted media types include: application/json, \
         application/yaml, application/vnd.kubernetes.protobuf"
            .to_owned(),
    ));
    check("", r#"{"a":1}"#, Ok(json!({"a": 1})));
    check("application/json; charset=utf-8", "null", Ok(json!({})));
    check("application/yaml", "a: 1", Ok(json!({"a": 1})));
    check("application/yaml", "", Ok(json!({})));
    check(PROTOBUF, "k8s\0", bad("empty body (6b387300)"));
    check(PROTOBUF, "", bad("empty data (<empty>)"));
    let of_kind = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: unexpected EOF";
    let map = "k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12";
    check(PROTOBUF, &format!("{map}\0"), Ok(json!({"apiVersion": "v1", "kind": "ConfigMap"})));
    check(PROTOBUF, &format!("{map}\x02\x0a\x05"), Err((400, of_kind.to_owned())));
    check("foo", "{}", unknown_format);
    check("application/json", "", bad("malformed JSON: EOF while parsing a value at line 1 column 0 (<empty>)"));
    check("application/json", "hello", bad("malformed JSON: expected value at line 1 column 1 (68656c6c6f)"));
    check("application/json", "[]", bad("expected an object, got a list (5b5d)"));
    check(
        "application/json",
        r#"{"apiVersion":"v1","kind":1}"#,
        bad("kind: expected a string, got number 1 ({\"apiVersion\":\"v1\",\"kind\":1})"),
    );
    let long = "x".repeat(BODY_BYTES_MAX + 1);
    check("application/json", &long, Err((413, "Request entity too large: limit is 3145728".to_owned())));
}
