//! Compares schemas and objects with recordings of the real server 1.34.4.

use serde_json::{Value, json};

use crate::error::{FieldError, field_and_kind};

use super::{Compiled, Options, compile, default, prune, unknown_formats, validate};

/// Definitions that were sent to the real server, with the errors and warnings it answered.
const SCHEMAS: &str = include_str!("schemas.golden.json");

/// Objects that were sent to the real server under some schemas, with what became of them.
const OBJECTS: &str = include_str!("objects.golden.json");

fn golden(text: &str) -> Vec<Value> {
    serde_json::from_str(text).expect("the recording is JSON")
}

/// The errors of a recording, without their sentences.
fn mistakes(value: &Value) -> Vec<String> {
    let mut found: Vec<String> = strings(value).iter().map(|error| field_and_kind(error).to_owned()).collect();
    found.sort();
    found
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

#[test]
fn schemas_are_refused_as_by_the_real_server() {
    let mut different = Vec::new();
    for case in golden(SCHEMAS) {
        let options = Options { status: case["status"] == Value::Bool(true), ..Options::default() };
        let result = compile(&case["schema"], "spec.validation", options);
        let mut ours: Vec<String> = result.err().unwrap_or_default().iter().map(shown).collect();
        ours.sort();
        let real = mistakes(&case["errors"]);
        for error in ours.iter().filter(|error| !real.contains(error)) {
            different.push(format!("{} ours {error}", case["name"]));
        }
        for error in real.iter().filter(|error| !ours.contains(error)) {
            different.push(format!("{} real {error}", case["name"]));
        }
        let warnings: Vec<String> =
            unknown_formats(&case["schema"]).iter().map(|format| format!("unrecognized format {format:?}")).collect();
        if warnings != strings(&case["warnings"]) {
            different.push(format!("{} warnings {warnings:?}", case["name"]));
        }
    }
    assert!(different.is_empty(), "{} differences:\n{}", different.len(), different.join("\n"));
}

/// A mistake without its sentence.
fn shown(error: &FieldError) -> String {
    field_and_kind(&error.to_string()).to_owned()
}

/// What a write does to an object, and what is wrong with it then.
fn write(case: &Value, compiled: &Compiled) -> (Value, Vec<String>, Vec<String>) {
    let prepare = |object: &Value| {
        let mut object = object.clone();
        let dropped = prune(&mut object, compiled.node());
        default(&mut object, compiled.node());
        (object, dropped)
    };
    let (object, dropped) = prepare(&case["object"]);
    let old = case.get("old").map(|old| prepare(old).0);
    let verdict = validate(&object, old.as_ref(), compiled);
    let mut errors: Vec<String> = verdict.errors.iter().map(shown).collect();
    errors.sort();
    let unknown = dropped.iter().map(|path| format!("unknown field {path:?}"));
    (object, errors, unknown.chain(verdict.warnings).collect())
}

/// The real server stores `1.0` as `1`, which is the decoder's business here.
fn whole_numbers(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        #[expect(clippy::cast_possible_truncation, reason = "checked to be whole and small")]
        Value::Number(number) => {
            if let Some(float) = number.as_f64().filter(|f| number.is_f64() && f.fract() == 0.0 && f.abs() < 1e15) {
                *value = Value::from(float as i64);
            }
        }
        _ => {}
    }
}

#[test]
fn objects_fare_as_in_the_real_server() {
    let mut different = Vec::new();
    for group in golden(OBJECTS) {
        let compiled = compile(&group["schema"], "spec.validation", Options::default()).expect("a good schema");
        for case in group["cases"].as_array().expect("a list") {
            let (mut object, ours, warnings) = write(case, &compiled);
            let real = mistakes(&case["errors"]);
            let mut differs =
                |what: &str| different.push(format!("{} {} {what}", group["name"], case["object"]["spec"]));
            ours.iter().filter(|error| !real.contains(error)).for_each(|error| differs(&format!("ours {error}")));
            real.iter().filter(|error| !ours.contains(error)).for_each(|error| differs(&format!("real {error}")));
            if warnings != strings(&case["warnings"]) {
                differs(&format!("warnings\n  ours {warnings:?}\n  real {}", case["warnings"]));
            }
            if let (Some(result), Some(fields)) = (case.get("result"), object.as_object_mut()) {
                fields.retain(|name, _| !matches!(name.as_str(), "apiVersion" | "kind" | "metadata"));
                whole_numbers(&mut object);
                if object != *result {
                    differs(&format!("result\n  ours {object}\n  real {result}"));
                }
            }
        }
    }
    assert!(different.is_empty(), "{} differences:\n{}", different.len(), different.join("\n"));
}

/// Time that grows with the square of the length would be minutes here.
#[test]
fn large_lists_are_checked_in_passing_time() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "keyed": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "maxItems": 40000, "items": {"type": "object", "required": ["name"], "properties": {
                "name": {"type": "string", "maxLength": 10}, "n": {"type": "integer", "maximum": 1}},
                "x-kubernetes-validations": [{"rule": "!has(self.n) || self.n < 2"}]}},
        "plain": {"type": "array", "maxItems": 40000, "items": {"type": "integer", "maximum": 1,
            "x-kubernetes-validations": [{"rule": "self < 2"}]}}
    }}}});
    let compiled = compile(&schema, "spec.validation", Options::default()).expect("a good schema");
    let object = |first: i64| {
        let keyed: Vec<Value> = (0..20_000).rev().map(|at| json!({"name": at.to_string(), "n": 5})).collect();
        let plain: Vec<i64> = (0..20_000).map(|at| if at == 19_999 { first } else { at + 5 }).collect();
        json!({"spec": {"keyed": keyed, "plain": plain}})
    };
    assert_eq!(validate(&object(5), None, &compiled).errors.len(), 4 * 20_000);
    assert_eq!(validate(&object(5), Some(&object(5)), &compiled).errors.len(), 0);
    assert_eq!(validate(&object(6), Some(&object(5)), &compiled).errors.len(), 2 * 20_000);
}
