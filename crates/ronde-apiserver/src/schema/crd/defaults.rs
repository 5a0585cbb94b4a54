//! Checks the defaults of a schema: they must be what the schema allows, rules included, and nothing it would prune.

use serde_json::Value;

use super::{Compiled, embedded, prune, rules, validate::validate_at};
use crate::{
    error::FieldError,
    schema::{Id, Node},
};

/// Returns what is wrong with the defaults of a schema that stands at `path` in its definition.
pub(super) fn check(compiled: &Compiled, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(
        compiled,
        (compiled.root, compiled.node()),
        path,
        Place { inside_metadata: false, is_root: true },
        &mut errors,
    );
    errors
}

#[derive(Clone, Copy)]
struct Place {
    inside_metadata: bool,
    is_root: bool,
}

fn walk(compiled: &Compiled, (id, node): (Id, Node<'_>), path: &str, place: Place, errors: &mut Vec<FieldError>) {
    if let Some(default) = &node.data().default {
        check_one(compiled, (id, node), default, &format!("{path}.default"), place, errors);
    }
    // Not into additionalProperties: there is nothing to put a default into.
    if let (Some(inner), Some(inner_id)) = (node.items(), node.data().items) {
        let place = Place { is_root: false, inside_metadata: place.inside_metadata && !inner.embedded_resource };
        walk(compiled, (inner_id, inner), &format!("{path}.items"), place, errors);
    }
    for (name, &id) in &node.data().properties {
        let property = node.at(id);
        let is_resource = place.is_root || node.embedded_resource;
        let enters = is_resource && matches!(name.as_str(), "metadata" | "apiVersion" | "kind");
        let inside_metadata = (place.inside_metadata || enters) && !property.embedded_resource;
        let place = Place { is_root: false, inside_metadata };
        walk(compiled, (id, property), &format!("{path}.properties[{name}]"), place, errors);
    }
}

fn check_one(
    compiled: &Compiled,
    node: (Id, Node<'_>),
    default: &Value,
    path: &str,
    place: Place,
    errors: &mut Vec<FieldError>,
) {
    if !place.inside_metadata {
        let mut pruned = default.clone();
        prune::prune_part(&mut pruned, node.1);
        if pruned != *default {
            errors.push(FieldError::invalid(path, default.clone(), "must not have unknown fields"));
        }
        let embedded = embedded::check_part(default, node.1, path);
        if !embedded.is_empty() {
            errors.extend(embedded);
            return;
        }
    }
    let invalid = validate_at(default, node, None, &compiled.patterns, path);
    if !invalid.is_empty() {
        errors.extend(invalid);
        return;
    }
    // Once as if nothing changed, once as if it were new: rules may tell the two apart.
    let unchanged = rules::check_default(default, Some(default), node, path, &compiled.rules);
    if unchanged.is_empty() {
        errors.extend(rules::check_default(default, None, node, path, &compiled.rules));
    }
    errors.extend(unchanged);
}
