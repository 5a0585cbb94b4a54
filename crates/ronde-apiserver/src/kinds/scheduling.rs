//! The rules for where a pod may run: affinity, tolerations, taints, spreading, gates.
//!
//! Called by [`super::podspec`]; node selectors are shared with persistent volumes, taints with nodes.

use serde_json::Value;

use super::{
    errors::Errors,
    path::Path,
    read::{entries, items, number, text},
    selector,
};
use crate::{
    error::FieldError,
    names::{is_dns1123_label, is_dns1123_subdomain, is_qualified_name, is_valid_label_value},
};

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
const NOT_AN_OPERATOR: &str = "not a valid selector operator";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Checks the affinity of a pod spec.
pub fn affinity(affinity: &Value, path: &Path<'_>, errors: &mut Errors) {
    let node = &affinity["nodeAffinity"];
    let at = path.child("nodeAffinity");
    if !node[REQUIRED].is_null() {
        node_selector(&node[REQUIRED], &at.child(REQUIRED), errors);
    }
    let preferred = at.child(PREFERRED);
    for (index, term) in items(&node[PREFERRED]).iter().enumerate() {
        let at = preferred.index(index);
        weight(term, &at, errors);
        node_selector_term(&term["preference"], false, &at.child("preference"), errors);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        pod_affinity(&affinity[kind], &path.child(kind), errors);
    }
}

fn pod_affinity(affinity: &Value, path: &Path<'_>, errors: &mut Errors) {
    let required = path.child(REQUIRED);
    for (index, term) in items(&affinity[REQUIRED]).iter().enumerate() {
        pod_affinity_term(term, &required.index(index), errors);
    }
    let preferred = path.child(PREFERRED);
    for (index, term) in items(&affinity[PREFERRED]).iter().enumerate() {
        let at = preferred.index(index);
        weight(term, &at, errors);
        pod_affinity_term(&term["podAffinityTerm"], &at.child("podAffinityTerm"), errors);
    }
}

fn weight(term: &Value, path: &Path<'_>, errors: &mut Errors) {
    let weight = number(&term["weight"]);
    if !(1..=100).contains(&weight) {
        errors.invalid(&path.child("weight"), weight, "must be in the range 1-100");
    }
}

fn pod_affinity_term(term: &Value, path: &Path<'_>, errors: &mut Errors) {
    for name in ["labelSelector", "namespaceSelector"] {
        selector::validate(&term[name], &path.child(name), errors);
    }
    for namespace in items(&term["namespaces"]).iter().map(text) {
        errors.names(&path.child("namespace"), namespace, is_dns1123_label(namespace));
    }
    label_keys(term, path, errors);
    let (key, at) = (text(&term["topologyKey"]), path.child("topologyKey"));
    if key.is_empty() {
        errors.required(&at, "can not be empty");
    }
    errors.names(&at, key, is_qualified_name(key));
}

/// Checks the keys whose values are taken from the pod itself.
fn label_keys(term: &Value, path: &Path<'_>, errors: &mut Errors) {
    let selector = &term["labelSelector"];
    for field in ["matchLabelKeys", "mismatchLabelKeys"] {
        let (keys, at) = (items(&term[field]), path.child(field));
        if !keys.is_empty() && selector.is_null() {
            errors.forbidden(&at, "must not be specified when labelSelector is not set");
        } else {
            for (index, key) in keys.iter().map(text).enumerate() {
                errors.names(&at.index(index), key, is_qualified_name(key));
            }
        }
    }
    let own = items(&term["matchLabelKeys"]);
    let mut seen: Vec<&str> = entries(&selector["matchLabels"]).map(|(key, _)| key).collect();
    for key in items(&selector["matchExpressions"]).iter().map(|expression| text(&expression["key"])) {
        if let Some(index) = own.iter().rposition(|other| text(other) == key)
            && seen.contains(&key)
        {
            errors.invalid(&path.index(index), key, "exists in both matchLabelKeys and labelSelector");
        }
        seen.push(key);
    }
    let at = path.child("matchLabelKeys");
    for (index, key) in own.iter().enumerate() {
        if items(&term["mismatchLabelKeys"]).contains(key) {
            errors.invalid(&at.index(index), text(key), "exists in both matchLabelKeys and mismatchLabelKeys");
        }
    }
}

/// Checks which nodes are selected.
pub fn node_selector(selector: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (terms, at) = (items(&selector["nodeSelectorTerms"]), path.child("nodeSelectorTerms"));
    if terms.is_empty() {
        errors.required(&at, "must have at least one node selector term");
    }
    for (index, term) in terms.iter().enumerate() {
        node_selector_term(term, true, &at.index(index), errors);
    }
}

fn node_selector_term(term: &Value, checks_values: bool, path: &Path<'_>, errors: &mut Errors) {
    let expressions = path.child("matchExpressions");
    for (index, expression) in items(&term["matchExpressions"]).iter().enumerate() {
        node_expression(expression, checks_values, &expressions.index(index), errors);
    }
    let fields = path.child("matchFields");
    for (index, expression) in items(&term["matchFields"]).iter().enumerate() {
        node_field(expression, &fields.index(index), errors);
    }
}

fn node_expression(expression: &Value, checks_values: bool, path: &Path<'_>, errors: &mut Errors) {
    let (values, at) = (items(&expression["values"]), path.child("values"));
    match text(&expression["operator"]) {
        "In" | "NotIn" if values.is_empty() => {
            errors.required(&at, "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            errors.forbidden(&at, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
        }
        "Gt" | "Lt" if values.len() != 1 => {
            errors.required(&at, "must be specified single value when `operator` is 'Lt' or 'Gt'");
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        operator => errors.invalid(&path.child("operator"), operator, NOT_AN_OPERATOR),
    }
    let key = text(&expression["key"]);
    errors.names(&path.child("key"), key, is_qualified_name(key));
    if checks_values {
        for (index, value) in values.iter().map(text).enumerate() {
            errors.names(&at.index(index), value, is_valid_label_value(value));
        }
    }
}

fn node_field(expression: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (values, at) = (items(&expression["values"]), path.child("values"));
    match text(&expression["operator"]) {
        "In" | "NotIn" if values.len() != 1 => {
            errors.required(&at, "must be only one value when `operator` is 'In' or 'NotIn' for node field selector");
        }
        "In" | "NotIn" => {}
        operator => errors.invalid(&path.child("operator"), operator, NOT_AN_OPERATOR),
    }
    let key = text(&expression["key"]);
    if key != "metadata.name" {
        errors.invalid(&path.child("key"), key, "not a valid field selector key");
        return;
    }
    for (index, value) in values.iter().map(text).enumerate() {
        errors.names(&at.index(index), value, is_dns1123_subdomain(value));
    }
}

/// Checks the tolerations of a pod spec.
pub fn tolerations(list: &Value, path: &Path<'_>, errors: &mut Errors) {
    for (index, toleration) in items(list).iter().enumerate() {
        let at = path.index(index);
        let (key, effect) = (text(&toleration["key"]), text(&toleration["effect"]));
        let (operator, value) = (text(&toleration["operator"]), text(&toleration["value"]));
        let operator_path = at.child("operator");
        if key.is_empty() {
            if operator != "Exists" {
                let detail =
                    "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
                errors.invalid(&operator_path, operator, detail);
            }
        } else {
            errors.names(&at.child("key"), key, is_qualified_name(key));
        }
        if !toleration["tolerationSeconds"].is_null() && effect != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.invalid(&at.child("effect"), effect, detail);
        }
        match operator {
            "" | "Equal" => {
                let messages = is_valid_label_value(value);
                if !messages.is_empty() {
                    errors.invalid(&operator_path, value, messages.join(";"));
                }
            }
            "Exists" if !value.is_empty() => {
                errors.invalid(&operator_path, value, "value must be empty when `operator` is 'Exists'");
            }
            "Exists" => {}
            _ => errors.not_supported(&operator_path, operator, &["Equal", "Exists"]),
        }
        if !effect.is_empty() && !EFFECTS.contains(&effect) {
            errors.not_supported(&at.child("effect"), effect, &EFFECTS);
        }
    }
}

/// Checks the taints of a node.
pub fn taints(list: &Value, path: &Path<'_>, errors: &mut Errors) {
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for (index, taint) in items(list).iter().enumerate() {
        let at = path.index(index);
        let (key, effect, value) = (text(&taint["key"]), text(&taint["effect"]), text(&taint["value"]));
        errors.names(&at.child("key"), key, is_qualified_name(key));
        let messages = is_valid_label_value(value);
        if !messages.is_empty() {
            errors.invalid(&at.child("value"), value, messages.join(";"));
        }
        errors.one_of(&at.child("effect"), effect, &EFFECTS);
        if seen.contains(&(key, effect)) {
            let mut error = FieldError::duplicate(&at, taint.clone());
            "taints must be unique by key and effect pair".clone_into(&mut error.detail);
            errors.push(error);
        }
        seen.push((key, effect));
    }
}

/// Checks how pods are spread over the machines.
pub fn topology_spread(list: &Value, path: &Path<'_>, errors: &mut Errors) {
    let all = items(list);
    for (index, constraint) in all.iter().enumerate() {
        let at = path.index(index);
        let (key, when) = (text(&constraint["topologyKey"]), text(&constraint["whenUnsatisfiable"]));
        errors.positive(&at.child("maxSkew"), number(&constraint["maxSkew"]));
        if key.is_empty() {
            errors.required(&at.child("topologyKey"), "can not be empty");
        }
        if !matches!(when, "DoNotSchedule" | "ScheduleAnyway") {
            errors.not_supported(&at.child("whenUnsatisfiable"), when, &["DoNotSchedule", "ScheduleAnyway"]);
        }
        let is_same = |other: &&Value| other["topologyKey"] == key && other["whenUnsatisfiable"] == when;
        if all.iter().skip(index + 1).any(|other| is_same(&other)) {
            errors.duplicate(&at.child("{topologyKey, whenUnsatisfiable}"), format!("{{{key}, {when}}}"));
        }
        if let Some(domains) = constraint["minDomains"].as_i64() {
            errors.positive(&at.child("minDomains"), domains);
            if when != "DoNotSchedule" {
                let detail = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {when}");
                errors.invalid(&at.child("minDomains"), domains, detail);
            }
        }
        for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            errors.one_of_optional(&at.child(field), &constraint[field], &["Honor", "Ignore"]);
        }
        label_keys(constraint, &at, errors);
        selector::validate(&constraint["labelSelector"], &at.child("labelSelector"), errors);
    }
}

/// Checks what must be done before a pod is scheduled.
pub fn gates(list: &Value, path: &Path<'_>, errors: &mut Errors) {
    let mut seen = Vec::new();
    for (index, name) in items(list).iter().map(|gate| text(&gate["name"])).enumerate() {
        errors.names(&path.index(index), name, is_qualified_name(name));
        if seen.contains(&name) {
            errors.duplicate(&path.index(index), name);
        }
        seen.push(name);
    }
}
