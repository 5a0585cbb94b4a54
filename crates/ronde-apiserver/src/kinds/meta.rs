//! The rules for `metadata` that all kinds share.
//!
//! Called by [`super::validate`] and by the rules of each kind, as the real server does both: some mistakes are
//! therefore in the causes twice. Custom resources use [`validate_meta`]. Filling `metadata` (names, uid, times,
//! generation, managed fields) is the caller's.

use serde_json::{Map, Value};

use super::{
    errors::{Errors, IMMUTABLE},
    path::Path,
    read::{entries, is_true, items, number, text},
};
use crate::{
    error::FieldError,
    names::{as_prefix, is_dns1123_label, is_qualified_name, is_valid_label_value},
};

const META: Path<'static> = Path::new("metadata");
const ANNOTATIONS_MAX: usize = 256 * 1024;
const MANAGER_MAX: usize = 128;
const SUBRESOURCE_MAX: usize = 256;
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

/// A rule for names, from `crate::names`.
pub type NameRule = fn(&str) -> Vec<String>;

/// Checks the metadata of an object that has no rules of its own (custom resources).
pub fn validate_meta(new: &Value, old: Option<&Value>, namespaced: bool, name_rule: NameRule) -> Vec<FieldError> {
    let mut errors = Errors::new();
    created(new, namespaced, name_rule, &mut errors);
    if let Some(old) = old {
        updated(new, old, &mut errors);
    }
    errors.into_vec()
}

/// Checks the metadata of an object by itself.
pub fn created(object: &Value, namespaced: bool, name_rule: NameRule, errors: &mut Errors) {
    let meta = &object["metadata"];
    names(meta, name_rule, errors);
    namespace(meta, namespaced, errors);
    errors.nonnegative(&META.child("generation"), number(&meta["generation"]));
    labels(&meta["labels"], &META.child("labels"), errors);
    annotations(&meta["annotations"], &META.child("annotations"), errors);
    owner_references(&meta["ownerReferences"], errors);
    finalizers(&meta["finalizers"], errors);
    managed_fields(&meta["managedFields"], errors);
}

/// Checks what a change may do to metadata.
pub fn updated(new: &Value, old: &Value, errors: &mut Errors) {
    let (new, old) = (&new["metadata"], &old["metadata"]);
    if !old["deletionTimestamp"].is_null() {
        no_new_finalizers(&new["finalizers"], &old["finalizers"], errors);
    }
    if text(&new["resourceVersion"]).is_empty() {
        errors.invalid(&META.child("resourceVersion"), "", "must be specified for an update");
    }
    if number(&new["generation"]) < number(&old["generation"]) {
        errors.invalid(&META.child("generation"), number(&new["generation"]), "must not be decremented");
    }
    for field in ["name", "namespace", "uid"] {
        if text(&new[field]) != text(&old[field]) {
            errors.invalid(&META.child(field), text(&new[field]), IMMUTABLE);
        }
    }
    for field in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        errors.immutable(&META.child(field), &new[field], &old[field]);
    }
    labels(&new["labels"], &META.child("labels"), errors);
    annotations(&new["annotations"], &META.child("annotations"), errors);
    owner_references(&new["ownerReferences"], errors);
    managed_fields(&new["managedFields"], errors);
}

/// Checks that finalizers without a prefix are well known, as most built-in kinds do.
pub fn standard_finalizers(object: &Value, errors: &mut Errors) {
    let path = META.child("finalizers");
    for (index, finalizer) in items(&object["metadata"]["finalizers"]).iter().enumerate() {
        standard_finalizer(text(finalizer), &path.index(index), errors);
    }
}

/// Checks one finalizer without a prefix.
pub fn standard_finalizer(finalizer: &str, path: &Path<'_>, errors: &mut Errors) {
    if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer) {
        errors.invalid(path, finalizer, "name is neither a standard finalizer name nor is it fully qualified");
    }
}

/// Checks the keys and values of labels, also of selectors and node selectors.
pub fn labels(labels: &Value, path: &Path<'_>, errors: &mut Errors) {
    for (key, value) in entries(labels) {
        errors.names(path, key, is_qualified_name(key));
        errors.names(path, text(value), is_valid_label_value(text(value)));
    }
}

/// Checks the keys and the total size of annotations.
pub fn annotations(annotations: &Value, path: &Path<'_>, errors: &mut Errors) {
    let mut size = 0;
    for (key, value) in entries(annotations) {
        errors.names(path, key, is_qualified_name(&key.to_lowercase()));
        size += key.len() + text(value).len();
    }
    if size > ANNOTATIONS_MAX {
        errors.too_long(path, ANNOTATIONS_MAX);
    }
}

fn names(meta: &Value, name_rule: NameRule, errors: &mut Errors) {
    let (name, prefix) = (text(&meta["name"]), text(&meta["generateName"]));
    if !prefix.is_empty() {
        errors.names(&META.child("generateName"), prefix, name_rule(&as_prefix(prefix)));
    }
    if name.is_empty() {
        errors.required(&META.child("name"), "name or generateName is required");
    } else {
        errors.names(&META.child("name"), name, name_rule(name));
    }
}

fn namespace(meta: &Value, namespaced: bool, errors: &mut Errors) {
    let namespace = text(&meta["namespace"]);
    let path = META.child("namespace");
    match (namespaced, namespace.is_empty()) {
        (true, true) => errors.required(&path, ""),
        (true, false) => errors.names(&path, namespace, is_dns1123_label(namespace)),
        (false, true) => {}
        (false, false) => errors.forbidden(&path, "not allowed on this type"),
    }
}

fn owner_references(references: &Value, errors: &mut Errors) {
    let path = META.child("ownerReferences");
    let mut controller: Option<String> = None;
    for reference in items(references) {
        owner_reference(reference, &path, errors);
        if !is_true(&reference["controller"]) {
            continue;
        }
        let this = format!("{}/{}", text(&reference["kind"]), text(&reference["name"]));
        match &controller {
            None => controller = Some(this),
            Some(first) => {
                let detail = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and \
                     {this}"
                );
                errors.invalid(&path, references.clone(), detail);
            }
        }
    }
}

fn owner_reference(reference: &Value, path: &Path<'_>, errors: &mut Errors) {
    let api_version = text(&reference["apiVersion"]);
    let version = api_version.rsplit('/').next().unwrap_or_default();
    if version.is_empty() {
        errors.invalid(&path.child("apiVersion"), api_version, "version must not be empty");
    }
    for field in ["kind", "name", "uid"] {
        if text(&reference[field]).is_empty() {
            errors.invalid(&path.child(field), "", "must not be empty");
        }
    }
    if api_version == "v1" && text(&reference["kind"]) == "Event" {
        let detail = "/v1, Kind=Event is disallowed from being an owner";
        errors.invalid(path, reference.clone(), detail);
    }
}

fn finalizers(finalizers: &Value, errors: &mut Errors) {
    let path = META.child("finalizers");
    for finalizer in items(finalizers).iter().map(text) {
        errors.names(&path, finalizer, is_qualified_name(finalizer));
    }
    let has = |name: &str| items(finalizers).iter().any(|finalizer| text(finalizer) == name);
    if has("orphan") && has("foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.invalid(&path, finalizers.clone(), detail);
    }
}

fn no_new_finalizers(new: &Value, old: &Value, errors: &mut Errors) {
    let mut added: Vec<&str> = items(new).iter().filter(|f| !items(old).contains(f)).map(text).collect();
    added.sort_unstable();
    added.dedup();
    if !added.is_empty() {
        let quoted: Vec<String> = added.iter().map(|finalizer| format!("\"{finalizer}\"")).collect();
        let detail = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            quoted.join(", ")
        );
        errors.forbidden(&META.child("finalizers"), detail);
    }
}

fn managed_fields(managed: &Value, errors: &mut Errors) {
    let list = META.child("managedFields");
    for (index, entry) in items(managed).iter().enumerate() {
        let path = list.index(index);
        let operation = text(&entry["operation"]);
        if !matches!(operation, "Apply" | "Update") {
            errors.invalid(&path.child("operation"), operation, "must be `Apply` or `Update`");
        }
        let fields_type = text(&entry["fieldsType"]);
        if !matches!(fields_type, "" | "FieldsV1") {
            errors.invalid(&path.child("fieldsType"), fields_type, "must be `FieldsV1`");
        }
        if text(&entry["manager"]).len() > MANAGER_MAX {
            errors.too_long(&path.child("manager"), MANAGER_MAX);
        }
        if text(&entry["subresource"]).len() > SUBRESOURCE_MAX {
            errors.too_long(&path.child("subresource"), SUBRESOURCE_MAX);
        }
    }
}

/// Removes owners that are named twice and returns what to warn the client of.
pub fn remove_duplicate_owners(object: &mut Value) -> Option<String> {
    let owners = meta_mut(object)?.get_mut("ownerReferences")?.as_array_mut()?;
    let mut duplicates = Vec::new();
    let mut kept: Vec<Value> = Vec::with_capacity(owners.len());
    for owner in owners.drain(..) {
        if kept.contains(&owner) {
            duplicates.push(text(&owner["uid"]).to_owned());
        } else {
            kept.push(owner);
        }
    }
    *owners = kept;
    (!duplicates.is_empty()).then(|| {
        format!(
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and \
             may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            duplicates.join(", ")
        )
    })
}

/// Returns the metadata of an object to write to.
pub fn meta_mut(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object.get_mut("metadata").and_then(Value::as_object_mut)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{remove_duplicate_owners, validate_meta};
    use crate::names::is_dns1123_subdomain;

    fn check(name: &str, meta: Value, old: Option<Value>, expected: &[&str]) {
        let object = |meta: Value| {
            let mut base = json!({"metadata": {"name": "x", "namespace": "n", "resourceVersion": "1", "uid": "u"}});
            json_patch::merge(&mut base["metadata"], &meta);
            base
        };
        let old = old.map(object);
        let errors = validate_meta(&object(meta), old.as_ref(), true, is_dns1123_subdomain);
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(texts, expected, "{name}");
    }

    #[test]
    fn metadata_is_checked_in_the_words_of_the_real_server() {
        let owner = |kind: &str| json!({"apiVersion": "v1", "kind": kind, "name": "o", "uid": "u", "controller": true});
        check("fine", json!({"labels": {"a": "b"}}), None, &[]);
        check(
            "no name",
            json!({"name": null}),
            None,
            &["metadata.name: Required value: name or generateName is required"],
        );
        check("no namespace", json!({"namespace": null}), None, &["metadata.namespace: Required value"]);
        check(
            "an owner without uid",
            json!({"ownerReferences": [{"apiVersion": "v1", "kind": "A", "name": "o"}]}),
            None,
            &["metadata.ownerReferences.uid: Invalid value: \"\": must not be empty"],
        );
        check(
            "two controllers",
            json!({"ownerReferences": [owner("A"), owner("B")]}),
            None,
            &[
                "metadata.ownerReferences: Invalid value: [{\"apiVersion\":\"v1\",\"controller\":true,\"kind\":\"A\",\"name\":\"o\",\"uid\":\"u\"},{\"apiVersion\":\"v1\",\"controller\":true,\"kind\":\"B\",\"name\":\"o\",\"uid\":\"u\"}]: Only one reference can have Controller set to true. Found \"true\" in references for A/o and B/o",
            ],
        );
        check(
            "both ways to delete",
            json!({"finalizers": ["orphan", "foregroundDeletion"]}),
            None,
            &[
                "metadata.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\"]: finalizer orphan and foregroundDeletion cannot be both set",
            ],
        );
        check(
            "much too much",
            json!({"annotations": {"a": "x".repeat(262_144)}}),
            None,
            &["metadata.annotations: Too long: may not be more than 262144 bytes"],
        );
    }

    #[test]
    fn identity_does_not_change() {
        check(
            "another uid",
            json!({"uid": "v"}),
            Some(json!({})),
            &["metadata.uid: Invalid value: \"v\": field is immutable"],
        );
        check(
            "no version",
            json!({"resourceVersion": null}),
            Some(json!({})),
            &["metadata.resourceVersion: Invalid value: \"\": must be specified for an update"],
        );
        check(
            "a finalizer too late",
            json!({"deletionTimestamp": "t", "finalizers": ["a/b", "c/d"]}),
            Some(json!({"deletionTimestamp": "t", "finalizers": ["a/b"]})),
            &[
                "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"c/d\"}",
            ],
        );
    }

    #[test]
    fn owners_are_named_once() {
        let owner = json!({"apiVersion": "v1", "kind": "A", "name": "o", "uid": "u"});
        let mut object = json!({"metadata": {"ownerReferences": [owner, owner]}});
        let warning = remove_duplicate_owners(&mut object).expect("a warning");
        assert!(warning.ends_with("duplicate UID(s) observed: u"), "{warning}");
        assert_eq!(object["metadata"]["ownerReferences"], json!([owner]));
        assert_eq!(remove_duplicate_owners(&mut object), None);
    }
}
