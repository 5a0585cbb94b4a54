//! The parts of a definition that a version may have of its own: schema, subresources, columns, selectable fields.

use serde_json::Value;

use super::{items, text};
use crate::{error::FieldError, schema::crd};

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
const SELECTABLE_MAX: usize = 8;

/// Whether two values mean the same: null, absent and empty do.
pub(super) fn is_same(left: &Value, right: &Value) -> bool {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    left == right || (is_empty(left) && is_empty(right))
}

/// Checks the fields in `fields`, which stand at `path`; `schema_key` is what the schema is called there.
pub(super) fn check_version_fields(
    fields: &Value,
    (path, schema_key): (&str, &str),
    options: crd::Options,
    errors: &mut Vec<FieldError>,
) {
    let schema = &fields["schema"]["openAPIV3Schema"];
    if !schema.is_null() {
        errors.extend(crd::compile(schema, &format!("{path}.{schema_key}"), options).err().unwrap_or_default());
    }
    check_scale(&fields["subresources"]["scale"], &format!("{path}.subresources"), errors);
    for (at, column) in items(&fields["additionalPrinterColumns"]).iter().enumerate() {
        check_column(column, &format!("{path}.additionalPrinterColumns[{at}]"), errors);
    }
    let selectable = items(&fields["selectableFields"]);
    if selectable.is_empty() {
        return;
    }
    let path = format!("{path}.selectableFields");
    if fields["schema"].is_null() {
        let detail = if schema_key == "validation" {
            "may only be set when validations.schema is included"
        } else {
            "may only be set when `version.schema.openAPIV3Schema` is not included"
        };
        errors.push(FieldError::invalid(path, "".into(), detail));
    } else {
        check_selectable(selectable, schema, &path, errors);
    }
}

fn check_scale(scale: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if !scale.is_object() {
        return;
    }
    let mut check = |field: &str, required: bool, roots: &[&str], detail: &str| {
        let value = text(&scale[field]);
        let path = format!("{path}.scale.{field}");
        if value.is_empty() {
            if required {
                errors.push(FieldError::required(path, ""));
            }
        } else if !value.starts_with('.') {
            errors.push(FieldError::invalid(path, value.into(), "must be a simple json path starting with ."));
        } else if !roots.iter().any(|root| value.starts_with(root)) {
            errors.push(FieldError::invalid(path, value.into(), detail));
        }
    };
    check("specReplicasPath", true, &[".spec."], "should be a json path under .spec");
    check("statusReplicasPath", true, &[".status."], "should be a json path under .status");
    check("labelSelectorPath", false, &[".spec.", ".status."], "should be a json path under either .spec or .status");
}

fn check_column(column: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let (kind, format, json_path) = (text(&column["type"]), text(&column["format"]), text(&column["jsonPath"]));
    if text(&column["name"]).is_empty() {
        errors.push(FieldError::required(format!("{path}.name"), ""));
    }
    let types = format!("must be one of {}", COLUMN_TYPES.join(","));
    if kind.is_empty() {
        errors.push(FieldError::required(format!("{path}.type"), types));
    } else if !COLUMN_TYPES.contains(&kind) {
        errors.push(FieldError::invalid(format!("{path}.type"), kind.into(), types));
    }
    if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
        let detail = format!("must be one of {}", COLUMN_FORMATS.join(","));
        errors.push(FieldError::invalid(format!("{path}.format"), format.into(), detail));
    }
    let at = format!("{path}.JSONPath");
    if json_path.is_empty() {
        errors.push(FieldError::required(at, ""));
    } else if !json_path.starts_with('.') {
        errors.push(FieldError::invalid(at, json_path.into(), "must be a simple json path starting with ."));
    }
}

fn check_selectable(fields: &[Value], schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let mut seen: Vec<String> = Vec::new();
    for (at, field) in fields.iter().enumerate() {
        let (value, path) = (text(&field["jsonPath"]), format!("{path}[{at}].jsonPath"));
        if value.is_empty() {
            errors.push(FieldError::required(path, ""));
            continue;
        }
        let (found, kind) = match crd::field_at(value, schema) {
            Ok(found) => found,
            Err(what) => {
                errors.push(FieldError::invalid(path, value.into(), format!("is an invalid path: {what}")));
                continue;
            }
        };
        if found == "metadata" || found.starts_with("metadata.") {
            let detail = "must not point to fields in metadata";
            errors.push(FieldError::invalid(path.clone(), value.into(), detail));
        }
        if !matches!(kind, "string" | "boolean" | "integer") {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with \
                          formats are allowed.";
            errors.push(FieldError::invalid(path.clone(), value.into(), detail));
        }
        if seen.contains(&found) {
            errors.push(FieldError::duplicate(path, value.into()));
        } else {
            seen.push(found);
        }
    }
    if seen.len() > SELECTABLE_MAX {
        errors.push(FieldError::too_many(path, seen.len(), SELECTABLE_MAX));
    }
}
