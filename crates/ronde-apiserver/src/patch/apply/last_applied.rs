//! The annotation of `kubectl apply` without `--server-side`, as far as the server minds it.
//!
//! An object that was applied by the client can be applied by the server under the manager `kubectl` without
//! conflicts, and the annotation is kept current so that the user may go back.

use serde_json::{Map, Value};

use super::{
    Target, Writer,
    compare::{compare, leaves},
    element::write_json,
    fieldset::FieldSet,
    place::Place,
    validate::validate,
};

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
const MANAGER: &str = "kubectl";
/// All annotations of an object together, keys and values.
const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

/// Returns the fields of a live object that were last set by `kubectl apply`, and so may be taken over; none if the
/// manager is another or there is no (sound) annotation.
pub fn allowed(target: &Target<'_>, writer: &Writer<'_>, live: &Value) -> Option<FieldSet> {
    if writer.manager != MANAGER {
        return None;
    }
    let config: Value = serde_json::from_str(live["metadata"]["annotations"][ANNOTATION].as_str()?).ok()?;
    let place = Place::new(target.schema);
    if config["apiVersion"] != target.api_version || config["kind"] != target.kind || validate(&config, place).is_err()
    {
        return None;
    }
    let mut fields = leaves(&config, place);
    let diff = compare(&config, live, place);
    for changed in [&diff.modified, &diff.added, &diff.removed] {
        fields.subtract(changed);
    }
    Some(fields)
}

/// Writes the configuration into the annotation of an object that has it already.
pub fn refresh(writer: &Writer<'_>, object: &mut Value, applied: &Value) {
    if writer.manager != MANAGER {
        return;
    }
    let Some(annotations) = annotations_mut(object) else { return };
    if annotations.get(ANNOTATION).and_then(Value::as_str).is_none_or(str::is_empty) {
        return;
    }
    let mut config = applied.clone();
    if let Some(annotations) = annotations_mut(&mut config) {
        annotations.remove(ANNOTATION);
    }
    let mut text = String::new();
    write_json(&config, &mut text);
    text.push('\n');
    annotations.insert(ANNOTATION.to_owned(), text.into());
    if size(annotations) > ANNOTATIONS_BYTES_MAX {
        annotations.remove(ANNOTATION);
    }
}

fn annotations_mut(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object.get_mut("metadata")?.get_mut("annotations")?.as_object_mut()
}

fn size(annotations: &Map<String, Value>) -> usize {
    annotations.iter().map(|(name, value)| name.len() + value.as_str().map_or(0, str::len)).sum()
}
