//! Custom resource definitions themselves: defaults, what a client may not set, validation, status.
//!
//! Called by the registry for writes of definitions and by the loop that keeps their status. What a schema means for
//! objects is [`crate::schema::crd`]'s. Like the real server, this looks at a definition in an older form, in which
//! what all versions share stands once at the top: hence paths like `spec.validation.openAPIV3Schema`.
//!
//! Conversion webhooks are refused: on one machine nothing runs them.

mod status;
mod version;

use serde_json::{Map, Value, json};

pub use self::status::{accepted_status, is_served};
use self::version::{check_version_fields, is_same};
use crate::{
    error::FieldError,
    names::{is_dns1035_label, is_dns1123_subdomain},
    schema::crd::{self, unknown_formats},
};

const IMMUTABLE: &str = "field is immutable";
/// What the versions of a definition have in common is looked at once, under these names.
const SHARED: [(&str, &str); 4] = [
    ("schema", "validation"),
    ("subresources", "subresources"),
    ("additionalPrinterColumns", "additionalPrinterColumns"),
    ("selectableFields", "selectableFields"),
];

/// Sets the defaults of a definition.
pub fn default_crd(crd: &mut Value) {
    let kind = text(&crd["spec"]["names"]["kind"]).to_owned();
    if let Some(names) = crd.get_mut("spec").and_then(|spec| spec.get_mut("names")).and_then(Value::as_object_mut) {
        if names.get("singular").is_none_or(|value| text(value).is_empty()) {
            names.insert("singular".to_owned(), kind.to_lowercase().into());
        }
        if !kind.is_empty() && names.get("listKind").is_none_or(|value| text(value).is_empty()) {
            names.insert("listKind".to_owned(), format!("{kind}List").into());
        }
    }
    if let Some(spec) = crd.get_mut("spec").and_then(Value::as_object_mut) {
        let conversion = spec.entry("conversion").or_insert(Value::Null);
        if conversion.is_null() {
            *conversion = json!({"strategy": "None"});
        }
        // It is what everyone means who says nothing, and the real server says nothing too.
        if spec.get("preserveUnknownFields") == Some(&Value::Bool(false)) {
            spec.remove("preserveUnknownFields");
        }
    }
}

/// Clears what a client may not set when it creates a definition.
pub fn prepare_create(crd: &mut Value) {
    let stored = storage_version(crd).map(|version| vec![version]);
    crd["status"] = json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored});
}

/// Keeps the status of a definition that is updated, and notes a new storage version in it.
pub fn prepare_update(new: &mut Value, old: &Value) {
    new["status"] = old["status"].clone();
    if let Some(version) = storage_version(new).map(str::to_owned) {
        let stored = new["status"]["storedVersions"].as_array_mut();
        match stored {
            Some(stored) if !stored.iter().any(|known| text(known) == version) => stored.push(version.into()),
            Some(_) => {}
            None => new["status"]["storedVersions"] = json!([version]),
        }
    }
}

/// Returns what is wrong with a definition. On an update, `old` is the one before.
pub fn validate_crd(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = &new["spec"];
    if old.is_none() {
        check_name(new, &mut errors);
    }
    check_spec(spec, old.map(|old| &old["spec"]), &mut errors);
    if let Some(old) = old {
        check_immutable(spec, old, &mut errors);
    }
    check_names(&new["status"]["acceptedNames"], "status.acceptedNames", &mut errors);
    check_stored_versions(&new["status"]["storedVersions"], spec, &mut errors);
    check_approval(new, old, &mut errors);
    let keeps_unknown = |crd: &Value| crd["spec"]["preserveUnknownFields"] == Value::Bool(true);
    if keeps_unknown(new) && !old.is_some_and(keeps_unknown) {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema \
                      instead";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", true.into(), detail));
    }
    errors
}

/// Returns what a client who writes a definition should know: formats that are not checked.
pub fn warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let formats = |crd: &Value| -> Vec<String> {
        let top = shared(&crd["spec"], "schema");
        let schemas: Vec<&Value> = match top {
            Some(schema) => vec![schema],
            None => items(&crd["spec"]["versions"]).iter().map(|version| &version["schema"]).collect(),
        };
        schemas.iter().flat_map(|schema| unknown_formats(&schema["openAPIV3Schema"])).collect()
    };
    let known = old.map(formats).unwrap_or_default();
    let new = formats(new).into_iter().filter(|format| !known.contains(format));
    new.map(|format| format!("unrecognized format {format:?}")).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn storage_version(crd: &Value) -> Option<&str> {
    let versions = items(&crd["spec"]["versions"]).iter();
    versions.filter(|version| version["storage"] == Value::Bool(true)).map(|version| text(&version["name"])).next()
}

/// A field that all versions have alike, possibly not at all; none if they differ.
fn shared<'c>(spec: &'c Value, field: &str) -> Option<&'c Value> {
    let versions = items(&spec["versions"]);
    let first = &versions.first()?[field];
    versions.iter().all(|version| is_same(&version[field], first)).then_some(first)
}

fn check_name(crd: &Value, errors: &mut Vec<FieldError>) {
    let name = text(&crd["metadata"]["name"]);
    let wanted = format!("{}.{}", text(&crd["spec"]["names"]["plural"]), text(&crd["spec"]["group"]));
    if name != wanted {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        errors.push(FieldError::invalid("metadata.name", name.into(), detail));
    }
}

fn check_spec(spec: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    check_group_and_scope(spec, errors);
    let versions = items(&spec["versions"]);
    // 1. every version has a schema
    let top = shared(spec, "schema").map(|schema| &schema["openAPIV3Schema"]);
    if top.is_none_or(Value::is_null) {
        for (at, version) in versions.iter().enumerate() {
            if top.is_some() || version["schema"]["openAPIV3Schema"].is_null() {
                errors.push(FieldError::required(format!("spec.versions[{at}].schema.openAPIV3Schema"), ""));
            }
        }
    }
    // 2. each version by itself
    for (at, version) in versions.iter().enumerate() {
        let path = format!("spec.versions[{at}]");
        let name = text(&version["name"]);
        check_label(name, &format!("{path}.name"), "", errors);
        check_deprecation(version, &path, errors);
        let own: Map<String, Value> = SHARED
            .iter()
            .filter(|(field, _)| shared(spec, field).is_none())
            .filter_map(|(field, _)| Some(((*field).to_owned(), version.get(field)?.clone())))
            .collect();
        let is_unchanged = old.is_some_and(|old| is_same(&schema_named(old, name), &schema_named(spec, name)));
        let options = crd::Options { status: has_status(version), is_unchanged };
        check_version_fields(&Value::Object(own), (&path, "schema"), options, errors);
    }
    check_versions(spec, versions, errors);
    check_required_names(&spec["names"], errors);
    // 3. what all versions share
    let common: Map<String, Value> =
        SHARED.iter().filter_map(|(field, _)| Some(((*field).to_owned(), shared(spec, field)?.clone()))).collect();
    let first = text(&versions.first().unwrap_or(&Value::Null)["name"]);
    let is_unchanged = old.is_some_and(|old| is_same(&schema_named(old, first), &schema_named(spec, first)));
    let options = crd::Options { status: versions.iter().any(has_status), is_unchanged };
    check_version_fields(&Value::Object(common), ("spec", "validation"), options, errors);
    check_conversion(&spec["conversion"], errors);
}

fn schema_named(spec: &Value, name: &str) -> Value {
    let version = items(&spec["versions"]).iter().find(|version| text(&version["name"]) == name);
    version.map_or(Value::Null, |version| version["schema"].clone())
}

fn has_status(version: &Value) -> bool {
    version["subresources"]["status"].is_object()
}

fn check_group_and_scope(spec: &Value, errors: &mut Vec<FieldError>) {
    let group = text(&spec["group"]);
    let problems = is_dns1123_subdomain(group);
    if group.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
    } else if !problems.is_empty() {
        errors.push(FieldError::invalid("spec.group", group.into(), problems.join(",")));
    } else if !group.contains('.') {
        let detail = "should be a domain with at least one dot";
        errors.push(FieldError::invalid("spec.group", group.into(), detail));
    }
    match text(&spec["scope"]) {
        "" => errors.push(FieldError::required("spec.scope", "")),
        "Cluster" | "Namespaced" => {}
        other => errors.push(FieldError::not_supported("spec.scope", other.into(), &["Cluster", "Namespaced"])),
    }
}

/// A name that must be a DNS label; `prefix` stands before what is wrong with it.
fn check_label(name: &str, path: &str, prefix: &str, errors: &mut Vec<FieldError>) {
    let problems = is_dns1035_label(&if prefix.is_empty() { name.to_owned() } else { name.to_lowercase() });
    if !problems.is_empty() {
        errors.push(FieldError::invalid(path, name.into(), format!("{prefix}{}", problems.join(","))));
    }
}

fn check_deprecation(version: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let Some(warning) = version["deprecationWarning"].as_str() else { return };
    let mut complain = |detail: String| {
        errors.push(FieldError::invalid(format!("{path}.deprecationWarning"), warning.into(), detail));
    };
    if version["deprecated"] != Value::Bool(true) {
        return complain("can only be set for deprecated versions".to_owned());
    }
    if warning.len() > 256 {
        complain("must be <= 256 characters long".to_owned());
    }
    if warning.is_empty() {
        complain("must not be an empty string".to_owned());
    }
    if let Some((at, _)) = warning.char_indices().find(|(_, c)| c.is_control() || (c.is_whitespace() && *c != ' ')) {
        let what = "must only contain printable UTF-8 characters; non-printable character found at index";
        complain(format!("{what} {at}"));
    }
}

fn check_versions(spec: &Value, versions: &[Value], errors: &mut Vec<FieldError>) {
    let names: Vec<&str> = versions.iter().map(|version| text(&version["name"])).collect();
    let mut complain = |detail: &str| {
        errors.push(FieldError::invalid("spec.versions", spec["versions"].clone(), detail));
    };
    if names.iter().enumerate().any(|(at, name)| names[..at].contains(name)) {
        complain("must contain unique version names");
    }
    let stored = versions.iter().filter(|version| version["storage"] == Value::Bool(true)).count();
    if stored != 1 {
        complain("must have exactly one version marked as storage version");
    }
    if let Some(first) = names.first().filter(|name| !name.is_empty()) {
        check_label(first, "spec.version", "", errors);
    }
}

fn check_required_names(names: &Value, errors: &mut Vec<FieldError>) {
    for field in ["plural", "singular", "kind", "listKind"] {
        if text(&names[field]).is_empty() {
            errors.push(FieldError::required(format!("spec.names.{field}"), ""));
        }
    }
    check_names(names, "spec.names", errors);
}

fn check_names(names: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let mixed = "may have mixed case, but should otherwise match: ";
    for (field, prefix) in [("plural", ""), ("singular", ""), ("kind", mixed), ("listKind", mixed)] {
        let name = text(&names[field]);
        if !name.is_empty() {
            check_label(name, &format!("{path}.{field}"), prefix, errors);
        }
    }
    for (at, name) in items(&names["shortNames"]).iter().enumerate() {
        check_label(text(name), &format!("{path}.shortNames[{at}]"), "", errors);
    }
    let (kind, list_kind) = (text(&names["kind"]), text(&names["listKind"]));
    if !kind.is_empty() && kind == list_kind {
        let detail = "kind and listKind may not be the same";
        errors.push(FieldError::invalid(format!("{path}.listKind"), list_kind.into(), detail));
    }
    for (at, name) in items(&names["categories"]).iter().enumerate() {
        check_label(text(name), &format!("{path}.categories[{at}]"), "", errors);
    }
}

fn check_conversion(conversion: &Value, errors: &mut Vec<FieldError>) {
    match text(&conversion["strategy"]) {
        "" if conversion.is_null() => {}
        "" => errors.push(FieldError::required("spec.conversion.strategy", "")),
        "Webhook" => {
            let detail = "conversion webhooks are not supported on one machine";
            errors.push(FieldError::invalid("spec.conversion.strategy", "Webhook".into(), detail));
        }
        "None" => {
            let webhook = &conversion["webhook"];
            let detail = "should not be set when strategy is not set to Webhook";
            if webhook["clientConfig"].is_object() {
                errors.push(FieldError::forbidden("spec.conversion.webhookClientConfig", detail));
            }
            if !items(&webhook["conversionReviewVersions"]).is_empty() {
                errors.push(FieldError::forbidden("spec.conversion.conversionReviewVersions", detail));
            }
        }
        other => {
            let path = "spec.conversion.strategy";
            errors.push(FieldError::not_supported(path, other.into(), &["None", "Webhook"]));
        }
    }
}

fn check_immutable(spec: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let established = status::is_true(old, "Established");
    let fields = [("scope", "/scope", established), ("names.kind", "/names/kind", established)];
    for (name, pointer, checked) in
        fields.into_iter().chain([("group", "/group", true), ("names.plural", "/names/plural", true)])
    {
        let value = |spec: &Value| spec.pointer(pointer).cloned().unwrap_or_default();
        if checked && value(spec) != value(&old["spec"]) {
            errors.push(FieldError::invalid(format!("spec.{name}"), value(spec), IMMUTABLE));
        }
    }
}

fn check_stored_versions(stored: &Value, spec: &Value, errors: &mut Vec<FieldError>) {
    let path = "status.storedVersions";
    if items(stored).is_empty() {
        errors.push(FieldError::invalid(path, stored.clone(), "must have at least one stored version"));
        return;
    }
    let versions = items(&spec["versions"]);
    for version in versions.iter().filter(|version| version["storage"] == Value::Bool(true)) {
        let name = text(&version["name"]);
        if !items(stored).iter().any(|known| text(known) == name) {
            let detail = format!("must have the storage version {name}");
            errors.push(FieldError::invalid(path, stored.clone(), detail));
        }
    }
    for (at, known) in items(stored).iter().enumerate() {
        let name = text(known);
        if !versions.iter().any(|version| text(&version["name"]) == name) {
            let detail = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions \
                 until a storage migration ensures no data remains persisted in {name} and removes {name} from \
                 status.storedVersions"
            );
            errors.push(FieldError::invalid(format!("{path}[{at}]"), name.into(), detail));
        }
    }
}

/// Groups of the Kubernetes community need an annotation that says who approved the API.
fn check_approval(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let Some(approval) = status::Approval::of_crd(new) else { return };
    if old.and_then(status::Approval::of_crd).is_some_and(|before| before.state == approval.state) {
        return;
    }
    let path = format!("metadata.annotations[{}]", status::APPROVED);
    match approval.state {
        status::ApprovalState::Missing => errors.push(FieldError::required(path, approval.reason)),
        status::ApprovalState::Invalid => {
            let value = new["metadata"]["annotations"][status::APPROVED].clone();
            errors.push(FieldError::invalid(path, value, approval.reason));
        }
        status::ApprovalState::Approved | status::ApprovalState::Bypassed => {}
    }
}

#[cfg(test)]
mod tests;
