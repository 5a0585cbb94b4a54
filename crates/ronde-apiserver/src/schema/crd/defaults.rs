//! Checks the defaults of a schema: they must be what the schema allows, rules included, and nothing it would prune.

use serde_json::Value;

use super::{Compiled, embedded, prune, rules, validate::validate_below};
use crate::{
    error::FieldError,
    schema::{Id, Node},
};

/// Returns what is wrong with the defaults of a schema that stands at `path` in its definition.
pub(super) fn check(compiled: &Compiled, path: &str) -> Vec<FieldError> {
    let mut checker = Checker { compiled, errors: Vec::new() };
    checker.walk((compiled.root, compiled.node()), path, DefaultPlace { inside_metadata: false, is_root: true });
    checker.errors
}

#[derive(Clone, Copy)]
struct DefaultPlace {
    inside_metadata: bool,
    is_root: bool,
}

struct Checker<'c> {
    compiled: &'c Compiled,
    errors: Vec<FieldError>,
}

impl Checker<'_> {
    fn walk(&mut self, (id, node): (Id, Node<'_>), path: &str, place: DefaultPlace) {
        if let Some(default) = &node.data().default {
            self.check((id, node), default, &format!("{path}.default"), place);
        }
        // Not into additionalProperties: there is nothing to put a default into.
        if let (Some(inner), Some(inner_id)) = (node.items(), node.data().items) {
            let place =
                DefaultPlace { is_root: false, inside_metadata: place.inside_metadata && !inner.embedded_resource };
            self.walk((inner_id, inner), &format!("{path}.items"), place);
        }
        for (name, &id) in &node.data().properties {
            let property = node.at(id);
            let is_resource = place.is_root || node.embedded_resource;
            let enters = is_resource && matches!(name.as_str(), "metadata" | "apiVersion" | "kind");
            let inside_metadata = (place.inside_metadata || enters) && !property.embedded_resource;
            let place = DefaultPlace { is_root: false, inside_metadata };
            self.walk((id, property), &format!("{path}.properties[{name}]"), place);
        }
    }

    fn check(&mut self, node: (Id, Node<'_>), default: &Value, path: &str, place: DefaultPlace) {
        if !place.inside_metadata {
            let mut pruned = default.clone();
            prune::prune_part(&mut pruned, node.1);
            if pruned != *default {
                self.errors.push(FieldError::invalid(path, default.clone(), "must not have unknown fields"));
            }
            let embedded = embedded::check_part(default, node.1, path);
            if !embedded.is_empty() {
                return self.errors.extend(embedded);
            }
        }
        let invalid = validate_below(path, default, node, None, &self.compiled.patterns);
        if !invalid.is_empty() {
            return self.errors.extend(invalid);
        }
        // Once as if nothing changed, once as if it were new: rules may tell the two apart.
        let rules = &self.compiled.rules;
        let unchanged = rules::check_default(default, Some(default), node, path, rules);
        if unchanged.is_empty() {
            self.errors.extend(rules::check_default(default, None, node, path, rules));
        }
        self.errors.extend(unchanged);
    }
}
