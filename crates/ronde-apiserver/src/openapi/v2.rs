//! OpenAPI version 2, as far as anyone still asks for it.
//!
//! kubectl and helm read version 3 and fall back to this one in two cases: for the kind `List`, and before patching a
//! custom resource. They ask for the protobuf encoding only, look a kind up, and go on without it if it is not there;
//! the server checks fields anyway. So the protobuf document names no kinds and is a few bytes instead of megabytes
//! per command. The JSON document, for people and scripts, has all definitions but no paths.

use serde_json::{Map, Value, json};

use super::{Described, Document, components};

/// The type of the protobuf document in answers; requests write `@` for the second to last point.
pub const PROTOBUF_TYPE: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

const TITLE: &str = "Kubernetes";
const VERSION: &str = "unversioned";

/// `/openapi/v2` as JSON.
pub fn json(resources: &[Described<'_>]) -> Document {
    let mut definitions: Map<String, Value> = components::schemas(resources);
    definitions.values_mut().for_each(downgrade);
    Document::new(&json!({
        "swagger": "2.0",
        "info": {"title": TITLE, "version": VERSION},
        "paths": {},
        "definitions": definitions,
    }))
}

/// `/openapi/v2` as protobuf: a `Document` of `openapi.v2` without paths and definitions.
pub fn protobuf() -> Vec<u8> {
    let info = [field(1, TITLE.as_bytes()), field(2, VERSION.as_bytes())].concat();
    [field(1, b"2.0"), field(2, &info), field(8, &[]), field(9, &[])].concat()
}

/// A length-delimited field. Numbers are below 16 and contents below 128 bytes, so each takes one byte.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len()).expect("the contents are constants of a few bytes");
    [&[number << 3 | 2, length], content].concat()
}

/// Version 2 has neither `oneOf` nor components: references stand alone and unions are any value.
fn downgrade(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if let Some(Value::Array(all)) = object.remove("allOf")
                && let [Value::Object(only)] = all.as_slice()
            {
                object.extend(only.clone());
            }
            for key in ["oneOf", "anyOf", "not", "nullable"] {
                object.remove(key);
            }
            if let Some(Value::String(target)) = object.get_mut("$ref") {
                *target = target.replace("#/components/schemas/", "#/definitions/");
            }
            object.values_mut().for_each(downgrade);
        }
        Value::Array(list) => list.iter_mut().for_each(downgrade),
        _ => {}
    }
}
