//! Parts of definitions as they stand in messages: JSON of the real server's internal types, with its names, its order
//! of fields, and everything unset spelled out.

use std::fmt::Write as _;

use serde_json::Value;

/// How a field of an internal type is written.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Flag,
    Number,
    /// Null if it is not set.
    Plain,
    /// Null, or a struct.
    Pointer(&'static [Field]),
    List(&'static [Field]),
    Map(&'static [Field]),
    Schema,
    Schemas,
    SchemaMap,
    SchemaOrBool,
    SchemaOrList,
}

/// The shown name, the name in the API, and the kind.
type Field = (&'static str, &'static str, Kind);

/// A schema.
pub fn schema(value: &Value) -> String {
    let mut out = String::new();
    write_struct(value, SCHEMA, &mut out);
    out
}

/// A validation rule.
pub fn rule(value: &Value) -> String {
    let mut out = String::new();
    write_struct(value, RULE, &mut out);
    out
}

/// The versions of a definition.
pub fn versions(value: &Value) -> String {
    let mut out = String::new();
    write_value(Some(value), Kind::List(VERSION), &mut out);
    out
}

fn write_struct(value: &Value, fields: &[Field], out: &mut String) {
    out.push('{');
    for (at, (shown, name, kind)) in fields.iter().enumerate() {
        let comma = if at > 0 { "," } else { "" };
        let _ = write!(out, "{comma}\"{shown}\":");
        write_value(value.get(name).filter(|value| !value.is_null()), *kind, out);
    }
    out.push('}');
}

fn write_value(value: Option<&Value>, kind: Kind, out: &mut String) {
    match (kind, value) {
        (Kind::Text, None) => out.push_str("\"\""),
        (Kind::Flag, None) => out.push_str("false"),
        (Kind::Number, None) => out.push('0'),
        (_, None) => out.push_str("null"),
        (Kind::Pointer(fields), Some(value)) => write_struct(value, fields, out),
        (Kind::List(fields), Some(value)) => write_list(value, |item, out| write_struct(item, fields, out), out),
        (Kind::Map(fields), Some(value)) => write_map(value, |item, out| write_struct(item, fields, out), out),
        (Kind::Schema, Some(value)) => write_struct(value, SCHEMA, out),
        (Kind::Schemas, Some(value)) => write_list(value, |item, out| write_struct(item, SCHEMA, out), out),
        (Kind::SchemaMap, Some(value)) => write_map(value, |item, out| write_struct(item, SCHEMA, out), out),
        (Kind::SchemaOrBool, Some(Value::Bool(allows))) => {
            let _ = write!(out, "{{\"Allows\":{allows},\"Schema\":null}}");
        }
        (Kind::SchemaOrBool, Some(value)) => {
            out.push_str("{\"Allows\":true,\"Schema\":");
            write_struct(value, SCHEMA, out);
            out.push('}');
        }
        (Kind::SchemaOrList, Some(value @ Value::Array(_))) => {
            out.push_str("{\"Schema\":null,\"JSONSchemas\":");
            write_value(Some(value), Kind::Schemas, out);
            out.push('}');
        }
        (Kind::SchemaOrList, Some(value)) => {
            out.push_str("{\"Schema\":");
            write_struct(value, SCHEMA, out);
            out.push_str(",\"JSONSchemas\":null}");
        }
        (Kind::Text | Kind::Flag | Kind::Number | Kind::Plain, Some(value)) => out.push_str(&json(value)),
    }
}

fn write_list(value: &Value, write: impl Fn(&Value, &mut String), out: &mut String) {
    out.push('[');
    for (at, item) in value.as_array().into_iter().flatten().enumerate() {
        if at > 0 {
            out.push(',');
        }
        write(item, out);
    }
    out.push(']');
}

fn write_map(value: &Value, write: impl Fn(&Value, &mut String), out: &mut String) {
    out.push('{');
    for (at, (name, item)) in value.as_object().into_iter().flatten().enumerate() {
        let comma = if at > 0 { "," } else { "" };
        let _ = write!(out, "{comma}{}:", json(&Value::from(name.as_str())));
        write(item, out);
    }
    out.push('}');
}

/// JSON with the characters escaped that the real server escapes for the sake of HTML.
fn json(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

const SCHEMA: &[Field] = &[
    ("ID", "id", Kind::Text),
    ("Schema", "$schema", Kind::Text),
    ("Ref", "$ref", Kind::Plain),
    ("Description", "description", Kind::Text),
    ("Type", "type", Kind::Text),
    ("Nullable", "nullable", Kind::Flag),
    ("Format", "format", Kind::Text),
    ("Title", "title", Kind::Text),
    ("Default", "default", Kind::Plain),
    ("Maximum", "maximum", Kind::Plain),
    ("ExclusiveMaximum", "exclusiveMaximum", Kind::Flag),
    ("Minimum", "minimum", Kind::Plain),
    ("ExclusiveMinimum", "exclusiveMinimum", Kind::Flag),
    ("MaxLength", "maxLength", Kind::Plain),
    ("MinLength", "minLength", Kind::Plain),
    ("Pattern", "pattern", Kind::Text),
    ("MaxItems", "maxItems", Kind::Plain),
    ("MinItems", "minItems", Kind::Plain),
    ("UniqueItems", "uniqueItems", Kind::Flag),
    ("MultipleOf", "multipleOf", Kind::Plain),
    ("Enum", "enum", Kind::Plain),
    ("MaxProperties", "maxProperties", Kind::Plain),
    ("MinProperties", "minProperties", Kind::Plain),
    ("Required", "required", Kind::Plain),
    ("Items", "items", Kind::SchemaOrList),
    ("AllOf", "allOf", Kind::Schemas),
    ("OneOf", "oneOf", Kind::Schemas),
    ("AnyOf", "anyOf", Kind::Schemas),
    ("Not", "not", Kind::Schema),
    ("Properties", "properties", Kind::SchemaMap),
    ("AdditionalProperties", "additionalProperties", Kind::SchemaOrBool),
    ("PatternProperties", "patternProperties", Kind::SchemaMap),
    ("Dependencies", "dependencies", Kind::Map(&[])),
    ("AdditionalItems", "additionalItems", Kind::SchemaOrBool),
    ("Definitions", "definitions", Kind::SchemaMap),
    (
        "ExternalDocs",
        "externalDocs",
        Kind::Pointer(&[("Description", "description", Kind::Text), ("URL", "url", Kind::Text)]),
    ),
    ("Example", "example", Kind::Plain),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", Kind::Plain),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", Kind::Flag),
    ("XIntOrString", "x-kubernetes-int-or-string", Kind::Flag),
    ("XListMapKeys", "x-kubernetes-list-map-keys", Kind::Plain),
    ("XListType", "x-kubernetes-list-type", Kind::Plain),
    ("XMapType", "x-kubernetes-map-type", Kind::Plain),
    ("XValidations", "x-kubernetes-validations", Kind::List(RULE)),
];

const RULE: &[Field] = &[
    ("Rule", "rule", Kind::Text),
    ("Message", "message", Kind::Text),
    ("MessageExpression", "messageExpression", Kind::Text),
    ("Reason", "reason", Kind::Plain),
    ("FieldPath", "fieldPath", Kind::Text),
    ("OptionalOldSelf", "optionalOldSelf", Kind::Plain),
];

const VERSION: &[Field] = &[
    ("Name", "name", Kind::Text),
    ("Served", "served", Kind::Flag),
    ("Storage", "storage", Kind::Flag),
    ("Deprecated", "deprecated", Kind::Flag),
    ("DeprecationWarning", "deprecationWarning", Kind::Plain),
    ("Schema", "schema", Kind::Pointer(&[("OpenAPIV3Schema", "openAPIV3Schema", Kind::Schema)])),
    ("Subresources", "subresources", Kind::Pointer(SUBRESOURCES)),
    ("AdditionalPrinterColumns", "additionalPrinterColumns", Kind::List(COLUMN)),
    ("SelectableFields", "selectableFields", Kind::List(&[("JSONPath", "jsonPath", Kind::Text)])),
];

const SUBRESOURCES: &[Field] = &[("Status", "status", Kind::Pointer(&[])), ("Scale", "scale", Kind::Pointer(SCALE))];

const SCALE: &[Field] = &[
    ("SpecReplicasPath", "specReplicasPath", Kind::Text),
    ("StatusReplicasPath", "statusReplicasPath", Kind::Text),
    ("LabelSelectorPath", "labelSelectorPath", Kind::Plain),
];

const COLUMN: &[Field] = &[
    ("Name", "name", Kind::Text),
    ("Type", "type", Kind::Text),
    ("Format", "format", Kind::Text),
    ("Description", "description", Kind::Text),
    ("Priority", "priority", Kind::Number),
    ("JSONPath", "jsonPath", Kind::Text),
];
