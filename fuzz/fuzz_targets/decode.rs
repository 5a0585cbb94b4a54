//! Request bodies: whatever the bytes, there is a value or an error, and JSON and YAML agree on JSON.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ronde_apiserver::decode::{DEPTH_MAX, decode, parse_json, parse_protobuf, parse_yaml};
use ronde_fuzz::{assert_shallow, depth, schema};
use serde_json::Value;

fuzz_target!(|body: &[u8]| {
    let (set, root) = schema();
    let plain = parse_json(body, None);
    let typed = parse_json(body, Some(set.node(root)));
    assert!(typed.is_ok() || plain.is_err(), "a schema decides on fields, not on syntax");
    let is_json = serde_json::from_slice::<Value>(body).is_ok_and(|value| depth(&value) < DEPTH_MAX);
    assert!(plain.is_ok() || !is_json, "serde_json takes it");
    if let Ok(decoded) = &plain {
        assert_shallow(&decoded.value);
        let again = parse_json(decoded.value.to_string().as_bytes(), None).expect("what we write, we read");
        assert!(again.problems.is_empty());
    }
    let yaml = parse_yaml(body);
    if let Ok(decoded) = &yaml {
        assert_shallow(&decoded.value);
        assert!(decoded.problems.iter().all(|problem| !problem.contains('\n')), "each is a line of its own");
    }
    if let (Ok(json), Ok(yaml)) = (&plain, &yaml)
        && json.value.is_object()
        && json.problems.is_empty()
    {
        assert_eq!(json.value, yaml.value);
    }
    if let Ok(value) = parse_protobuf(body) {
        assert!(depth(&value) <= DEPTH_MAX, "a value is nested too deeply");
    }
    for content_type in ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"] {
        if let Ok(decoded) = decode(content_type, body, "Sample", Some(set.node(root))) {
            assert!(decoded.value.is_object());
        }
    }
});
