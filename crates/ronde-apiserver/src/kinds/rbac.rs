//! Roles and their bindings. They are stored and checked; on one machine nothing is enforced.

use serde_json::Value;

use super::{
    Rules,
    errors::Errors,
    meta,
    path::Path,
    read::{default, items, objects_mut, text},
    selector,
};
use crate::names::{is_dns1123_subdomain, is_path_segment_name};

/// What is particular about roles.
pub const ROLE: Rules = Rules {
    create_on_update: true,
    validate: |role, old, errors| {
        twice(old, |errors| validate_role(role, true, errors), errors);
        updated(role, old, errors);
    },
    ..Rules::PLAIN
};

/// What is particular about cluster roles.
pub const CLUSTER_ROLE: Rules = Rules {
    namespaced: false,
    create_on_update: true,
    validate: |role, old, errors| {
        twice(old, |errors| validate_role(role, false, errors), errors);
        updated(role, old, errors);
    },
    ..Rules::PLAIN
};

/// What is particular about role bindings.
pub const ROLE_BINDING: Rules = Rules {
    create_on_update: true,
    default: default_binding,
    validate: |binding, old, errors| {
        twice(old, |errors| validate_binding(binding, true, errors), errors);
        updated(binding, old, errors);
        same_role(binding, old, errors);
    },
    ..Rules::PLAIN
};

/// What is particular about cluster role bindings.
pub const CLUSTER_ROLE_BINDING: Rules = Rules {
    namespaced: false,
    create_on_update: true,
    default: default_binding,
    validate: |binding, old, errors| {
        twice(old, |errors| validate_binding(binding, false, errors), errors);
        updated(binding, old, errors);
        same_role(binding, old, errors);
    },
    ..Rules::PLAIN
};

const GROUP: &str = "rbac.authorization.k8s.io";

/// The real server checks a changed object twice.
fn twice(old: Option<&Value>, mut check: impl FnMut(&mut Errors), errors: &mut Errors) {
    check(errors);
    if old.is_some() {
        check(errors);
    }
}

fn updated(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    if let Some(old) = old {
        meta::updated(new, old, errors);
        meta::standard_finalizers(new, errors);
    }
}

fn default_binding(binding: &mut Value) {
    if let Some(role) = binding.get_mut("roleRef").and_then(Value::as_object_mut) {
        default(role, "apiGroup", GROUP);
    }
    let Some(binding) = binding.as_object_mut() else { return };
    for subject in objects_mut(binding, "subjects") {
        if matches!(subject.get("kind").map(text), Some("User" | "Group")) {
            default(subject, "apiGroup", GROUP);
        }
    }
}

fn validate_role(role: &Value, namespaced: bool, errors: &mut Errors) {
    meta::created(role, namespaced, is_path_segment_name, errors);
    meta::standard_finalizers(role, errors);
    let path = Path::new("rules");
    for (index, rule) in items(&role["rules"]).iter().enumerate() {
        policy_rule(rule, namespaced, &path.index(index), errors);
    }
    let aggregation = &role["aggregationRule"];
    if namespaced || aggregation.is_null() {
        return;
    }
    let (selectors, path) =
        (items(&aggregation["clusterRoleSelectors"]), Path::new("aggregationRule.clusterRoleSelectors"));
    if selectors.is_empty() {
        errors.required(&path, "at least one clusterRoleSelector required if aggregationRule is non-nil");
    }
    for (index, value) in selectors.iter().enumerate() {
        selector::validate(value, &path.index(index), errors);
        if !selector::is_valid(value) {
            errors.invalid(&path.index(index), Value::Null, "invalid label selector.");
        }
    }
}

fn policy_rule(rule: &Value, namespaced: bool, path: &Path<'_>, errors: &mut Errors) {
    let has = |field: &str| !items(&rule[field]).is_empty();
    if !has("verbs") {
        errors.required(&path.child("verbs"), "verbs must contain at least one value");
    }
    if has("nonResourceURLs") {
        let (at, urls) = (path.child("nonResourceURLs"), &rule["nonResourceURLs"]);
        if namespaced {
            errors.invalid(&at, urls.clone(), "namespaced rules cannot apply to non-resource URLs");
        }
        if ["apiGroups", "resources", "resourceNames"].iter().any(|field| has(field)) {
            let detail = "rules cannot apply to both regular resources and non-resource URLs";
            errors.invalid(&at, urls.clone(), detail);
        }
        return;
    }
    if !has("apiGroups") {
        errors.required(&path.child("apiGroups"), "resource rules must supply at least one api group");
    }
    if !has("resources") {
        errors.required(&path.child("resources"), "resource rules must supply at least one resource");
    }
}

fn validate_binding(binding: &Value, namespaced: bool, errors: &mut Errors) {
    meta::created(binding, namespaced, is_path_segment_name, errors);
    meta::standard_finalizers(binding, errors);
    let (role, path) = (&binding["roleRef"], Path::new("roleRef"));
    let (group, kind, name) = (text(&role["apiGroup"]), text(&role["kind"]), text(&role["name"]));
    if group != GROUP {
        errors.not_supported(&path.child("apiGroup"), group, &[GROUP]);
    }
    let kinds = if namespaced { &["Role", "ClusterRole"][..] } else { &["ClusterRole"][..] };
    if !kinds.contains(&kind) {
        errors.not_supported(&path.child("kind"), kind, kinds);
    }
    if name.is_empty() {
        errors.required(&path.child("name"), "");
    } else {
        errors.names(&path.child("name"), name, is_path_segment_name(name));
    }
    let path = Path::new("subjects");
    for (index, subject) in items(&binding["subjects"]).iter().enumerate() {
        binding_subject(subject, namespaced, &path.index(index), errors);
    }
}

fn binding_subject(subject: &Value, namespaced: bool, path: &Path<'_>, errors: &mut Errors) {
    let (name, group) = (text(&subject["name"]), text(&subject["apiGroup"]));
    if name.is_empty() {
        errors.required(&path.child("name"), "");
    }
    match text(&subject["kind"]) {
        "ServiceAccount" => {
            if !name.is_empty() {
                errors.names(&path.child("name"), name, is_dns1123_subdomain(name));
            }
            if !group.is_empty() {
                errors.not_supported(&path.child("apiGroup"), group, &[""]);
            }
            if !namespaced && text(&subject["namespace"]).is_empty() {
                errors.required(&path.child("namespace"), "");
            }
        }
        "User" | "Group" if group != GROUP => errors.not_supported(&path.child("apiGroup"), group, &[GROUP]),
        "User" | "Group" => {}
        kind => errors.not_supported(&path.child("kind"), kind, &["ServiceAccount", "User", "Group"]),
    }
}

fn same_role(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    if old.is_some_and(|old| new["roleRef"] != old["roleRef"]) {
        errors.invalid(&Path::new("roleRef"), new["roleRef"].clone(), "cannot change roleRef");
    }
}
