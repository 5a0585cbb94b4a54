//! Storage classes.

use serde_json::Value;

use super::{
    Rules,
    errors::Errors,
    meta,
    path::Path,
    read::{default_optional, entries, items, text},
};
use crate::names::{is_dns1123_subdomain, is_qualified_name};

/// What is particular about storage classes.
pub const RULES: Rules = Rules {
    namespaced: false,
    default: |class| {
        if let Some(class) = class.as_object_mut() {
            default_optional(class, "reclaimPolicy", "Delete");
            default_optional(class, "volumeBindingMode", "Immediate");
        }
    },
    validate: validate_class,
    ..Rules::PLAIN
};

const PARAMETERS_MAX: usize = 512;
const PARAMETERS_SIZE_MAX: usize = 256 * 1024;

fn validate_class(class: &Value, old: Option<&Value>, errors: &mut Errors) {
    meta::created(class, false, is_dns1123_subdomain, errors);
    meta::standard_finalizers(class, errors);
    let provisioner = text(&class["provisioner"]);
    if provisioner.is_empty() {
        errors.required(&Path::new("provisioner"), "");
    } else {
        let lower = provisioner.to_lowercase();
        errors.names(&Path::new("provisioner"), &lower, is_qualified_name(&lower));
    }
    parameters(&class["parameters"], errors);
    if !text(&class["reclaimPolicy"]).is_empty() {
        errors.one_of_optional(&Path::new("reclaimPolicy"), &class["reclaimPolicy"], &["Delete", "Retain"]);
    }
    let modes = ["Immediate", "WaitForFirstConsumer"];
    errors.one_of_optional(&Path::new("volumeBindingMode"), &class["volumeBindingMode"], &modes);
    topologies(&class["allowedTopologies"], errors);
    let Some(old) = old else { return };
    meta::updated(class, old, errors);
    meta::standard_finalizers(class, errors);
    for field in ["parameters", "provisioner", "reclaimPolicy"] {
        if class[field] != old[field] {
            errors.forbidden(&Path::new(field), format!("updates to {field} are forbidden."));
        }
    }
    errors.immutable(&Path::new("volumeBindingMode"), &class["volumeBindingMode"], &old["volumeBindingMode"]);
}

fn parameters(parameters: &Value, errors: &mut Errors) {
    let path = Path::new("parameters");
    if parameters.as_object().is_some_and(|list| list.len() > PARAMETERS_MAX) {
        errors.too_long(&path, PARAMETERS_MAX);
        return;
    }
    let mut size = 0;
    for (key, value) in entries(parameters) {
        if key.is_empty() {
            errors.invalid(&path, "", "field can not be empty.");
        }
        size += key.len() + text(value).len();
    }
    if size > PARAMETERS_SIZE_MAX {
        errors.too_long(&path, PARAMETERS_SIZE_MAX);
    }
}

fn topologies(terms: &Value, errors: &mut Errors) {
    let path = Path::new("allowedTopologies");
    let mut seen: Vec<&[Value]> = Vec::new();
    for (index, term) in items(terms).iter().enumerate() {
        let at = path.index(index);
        let (expressions, list) = (items(&term["matchLabelExpressions"]), at.child("matchLabelExpressions"));
        topology_expressions(expressions, &list, errors);
        if expressions.is_empty() || seen.contains(&expressions) {
            errors.duplicate(&list, "");
        }
        seen.push(expressions);
    }
}

fn topology_expressions(expressions: &[Value], path: &Path<'_>, errors: &mut Errors) {
    let mut keys: Vec<&str> = Vec::new();
    for (index, expression) in expressions.iter().enumerate() {
        let at = path.index(index);
        let (key, values) = (text(&expression["key"]), items(&expression["values"]));
        let values_path = at.child("values");
        if values.is_empty() {
            errors.required(&values_path, "");
        }
        for (index, value) in values.iter().enumerate().filter(|(index, value)| values[..*index].contains(value)) {
            errors.duplicate(&values_path.index(index), text(value));
        }
        errors.names(&at.child("key"), key, is_qualified_name(key));
        if keys.contains(&key) {
            errors.duplicate(&at.child("key"), key);
        }
        keys.push(key);
    }
}
