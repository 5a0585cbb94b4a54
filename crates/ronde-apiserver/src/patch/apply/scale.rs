//! Owners through the `scale` subresource, which shows one field of an object (`spec.replicas`) as an object.
//!
//! A write of a scale runs [`super::apply`] or [`super::track_update`] on the `Scale` object, with the entries of
//! [`to_scale`]; afterwards [`from_scale`] brings them back into the parent. Entries made this way have no time, as on
//! the real server. Unlike there, an owner whose value was not changed keeps its entry whole.

use serde_json::{Value, json};

use super::{element, fieldset::FieldSet, managed::Managed};

const SCALE_API_VERSION: &str = "autoscaling/v1";
const REPLICAS_IN_SCALE: [&str; 2] = ["f:spec", "f:replicas"];

/// Returns the `managedFields` of an object's scale. `replicas` is the path of the field, as in `spec.replicas`.
pub fn to_scale(parent: &Value, replicas: &str) -> Option<Value> {
    let path = elements(replicas);
    let mut managed = Managed::stored(parent);
    managed.0.retain(|entry| entry.fields.has(&borrowed(&path)));
    for entry in &mut managed.0 {
        SCALE_API_VERSION.clone_into(&mut entry.api_version);
        entry.fields = only(&REPLICAS_IN_SCALE);
    }
    managed.into_value()
}

/// Returns the `managedFields` of an object after its scale was written. `api_version` is that of the object.
pub fn from_scale(parent: &Value, scale: &Value, replicas: &str, api_version: &str) -> Option<Value> {
    let path = elements(replicas);
    let mut written = Managed::stored(scale);
    let mut managed = Managed::stored(parent);
    for entry in managed.0.iter_mut().filter(|entry| entry.fields.has(&borrowed(&path))) {
        let kept = written.0.iter().position(|other| {
            other.manager == entry.manager
                && other.operation == entry.operation
                && other.subresource == entry.subresource
        });
        match kept {
            Some(at) => drop(written.0.remove(at)),
            None => entry.fields.subtract(&only(&borrowed(&path))),
        }
    }
    managed.0.retain(|entry| !entry.fields.is_empty());
    for mut entry in written.0.into_iter().filter(|entry| entry.fields.has(&REPLICAS_IN_SCALE)) {
        api_version.clone_into(&mut entry.api_version);
        entry.fields = only(&borrowed(&path));
        entry.time = None;
        managed.0.push(entry);
    }
    managed.into_value()
}

fn elements(path: &str) -> Vec<String> {
    path.trim_start_matches('.').split('.').map(element::field).collect()
}

fn borrowed(path: &[String]) -> Vec<&str> {
    path.iter().map(String::as_str).collect()
}

/// Returns the set of one path.
fn only(path: &[&str]) -> FieldSet {
    let node = path.iter().rev().fold(json!({}), |below, element| json!({*element: below}));
    FieldSet::from_wire(node.as_object().cloned().unwrap_or_default())
}
