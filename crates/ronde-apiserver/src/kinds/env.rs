//! The rules for environment variables of containers.

use serde_json::Value;

use super::{
    errors::Errors,
    path::Path,
    projection::{User, field_ref, resource_ref},
    read::{items, text},
};
use crate::names::{as_prefix, is_config_map_key, is_dns1123_subdomain, is_relaxed_env_var_name};

/// Checks the variables that are set one by one.
pub fn variables(list: &Value, path: &Path<'_>, errors: &mut Errors) {
    for (index, variable) in items(list).iter().enumerate() {
        let at = path.index(index);
        let name = text(&variable["name"]);
        if name.is_empty() {
            errors.required(&at.child("name"), "");
        } else {
            errors.names(&at.child("name"), name, is_relaxed_env_var_name(name));
        }
        if !variable["valueFrom"].is_null() {
            value_from(variable, &at.child("valueFrom"), errors);
        }
    }
}

fn value_from(variable: &Value, path: &Path<'_>, errors: &mut Errors) {
    let source = &variable["valueFrom"];
    let mut sources = 0;
    if !source["fieldRef"].is_null() {
        sources += 1;
        field_ref(&source["fieldRef"], User::Env, &path.child("fieldRef"), errors);
    }
    if !source["resourceFieldRef"].is_null() {
        sources += 1;
        resource_ref(&source["resourceFieldRef"], User::Env, &path.child("resourceFieldRef"), errors);
    }
    for field in ["configMapKeyRef", "secretKeyRef"] {
        if !source[field].is_null() {
            sources += 1;
            key_ref(&source[field], &path.child(field), errors);
        }
    }
    if sources == 0 {
        let detail = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`";
        errors.invalid(path, "", detail);
    } else if !text(&variable["value"]).is_empty() {
        errors.invalid(path, "", "may not be specified when `value` is not empty");
    } else if sources > 1 {
        errors.invalid(path, "", "may not have more than one field specified at a time");
    }
}

fn key_ref(reference: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (name, key) = (text(&reference["name"]), text(&reference["key"]));
    errors.names(&path.child("name"), name, is_dns1123_subdomain(name));
    if key.is_empty() {
        errors.required(&path.child("key"), "");
    } else {
        errors.names(&path.child("key"), key, is_config_map_key(key));
    }
}

/// Checks the config maps and secrets all of whose keys become variables.
pub fn sources(list: &Value, path: &Path<'_>, errors: &mut Errors) {
    for (index, source) in items(list).iter().enumerate() {
        let at = path.index(index);
        let prefix = text(&source["prefix"]);
        if !prefix.is_empty() {
            errors.names(&at.child("prefix"), prefix, is_relaxed_env_var_name(prefix));
        }
        let mut sources = 0;
        for field in ["configMapRef", "secretRef"] {
            if !source[field].is_null() {
                sources += 1;
                object_ref(text(&source[field]["name"]), &at.child(field), errors);
            }
        }
        if sources == 0 {
            errors.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`");
        } else if sources > 1 {
            errors.invalid(path, "", "may not have more than one field specified at a time");
        }
    }
}

fn object_ref(name: &str, path: &Path<'_>, errors: &mut Errors) {
    if name.is_empty() {
        errors.required(&path.child("name"), "");
    } else {
        errors.names(&path.child("name"), name, is_dns1123_subdomain(&as_prefix(name)));
    }
}
