//! Claims of storage, by themselves and as templates in pods and stateful sets.
//!
//! The finalizer that protects claims in use is not added here: the controller that removes it does not run on one
//! machine.

use serde_json::{Value, json};

use super::{
    Rules,
    errors::Errors,
    meta,
    path::Path,
    pod_defaults,
    read::{changed_fields, default, entries, items, keep_field, object, text},
    resources, selector, volumes,
};
use crate::{names::is_dns1123_subdomain, quantity::Quantity};

/// What is particular about claims.
pub const RULES: Rules = Rules {
    default: default_claim,
    prepare_create: |claim, _| {
        if let Some(claim) = claim.as_object_mut() {
            claim.insert("status".to_owned(), json!({"phase": "Pending"}));
        }
        sync_data_sources(claim, &Value::Null);
    },
    prepare_update: |new, old| {
        keep_field(new, old, "status");
        sync_data_sources(new, old);
    },
    validate: validate_claim,
    validate_status: |new, old, errors| {
        meta::updated(new, old, errors);
        meta::standard_finalizers(new, errors);
        let path = Path::new("status.capacity");
        amounts_not_negative(&new["status"]["capacity"], &path, errors);
    },
    ..Rules::WITH_STATUS
};

const SPEC: Path<'static> = Path::new("spec");
const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
/// How a volume appears in a container.
pub const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];
const CHANGES: &str =
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";

fn default_claim(claim: &mut Value) {
    let Some(claim) = claim.as_object_mut() else { return };
    object(claim, "spec").map(pod_defaults::claim_spec);
    if let Some(status) = object(claim, "status") {
        default(status, "phase", "Pending");
        status.get_mut("capacity").map(resources::round_up);
    }
}

/// The two ways to say what a claim is filled from say the same.
fn sync_data_sources(claim: &mut Value, old: &Value) {
    let Some(spec) = claim.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if spec.get("dataSourceRef").is_some_and(|source| !text(&source["namespace"]).is_empty()) {
        spec.remove("dataSourceRef");
    }
    let is_kept = !old["spec"]["dataSource"].is_null() || spec.contains_key("dataSourceRef");
    let is_known = spec.get("dataSource").is_some_and(|source| {
        let (group, kind) = (text(&source["apiGroup"]), text(&source["kind"]));
        (group.is_empty() && kind == "PersistentVolumeClaim")
            || (group == "snapshot.storage.k8s.io" && kind == "VolumeSnapshot")
    });
    if !is_kept && !is_known {
        spec.remove("dataSource");
    }
    if let Some(source) = spec.get("dataSource").cloned() {
        spec.entry("dataSourceRef").or_insert(source);
    } else if let Some(source) = spec.get("dataSourceRef").cloned() {
        spec.insert("dataSource".to_owned(), source);
    }
}

fn validate_claim(claim: &Value, old: Option<&Value>, errors: &mut Errors) {
    let alone = |errors: &mut Errors| {
        meta::created(claim, true, is_dns1123_subdomain, errors);
        meta::standard_finalizers(claim, errors);
        claim_spec(&claim["spec"], &SPEC, errors);
    };
    alone(errors);
    if let Some(old) = old {
        meta::updated(claim, old, errors);
        meta::standard_finalizers(claim, errors);
        alone(errors);
        claim_changes(claim, old, errors);
    }
}

/// Checks the spec of a claim, also of a claim template.
pub fn claim_spec(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    if items(&spec["accessModes"]).is_empty() {
        errors.required(&path.child("accessModes"), "at least 1 access mode is required");
    }
    selector::validate(&spec["selector"], &path.child("selector"), errors);
    access_modes(&spec["accessModes"], &path.child("accessModes"), errors);
    let (storage, resources_path) = (&spec["resources"]["requests"]["storage"], path.child("resources"));
    let at = resources_path.key("storage");
    match Quantity::parse(text(storage)) {
        Err(_) => errors.required(&at, ""),
        Ok(amount) if amount <= Quantity::ZERO => errors.invalid(&at, text(storage), "must be greater than zero"),
        Ok(_) => {}
    }
    let class = text(&spec["storageClassName"]);
    if !class.is_empty() {
        errors.names(&path.child("storageClassName"), class, is_dns1123_subdomain(class));
    }
    errors.one_of_optional(&path.child("volumeMode"), &spec["volumeMode"], &VOLUME_MODES);
    for field in ["dataSource", "dataSourceRef"] {
        data_source(&spec[field], &path.child(field), errors);
    }
    let (source, reference) = (&spec["dataSource"], &spec["dataSourceRef"]);
    let differs = ["apiGroup", "kind", "name"].iter().any(|field| source[*field] != reference[*field]);
    if !source.is_null() && !reference.is_null() && differs {
        errors.invalid(path, source.clone(), "must match dataSourceRef");
    }
    let class = text(&spec["volumeAttributesClassName"]);
    if !class.is_empty() {
        errors.names(&path.child("volumeAttributesClassName"), class, is_dns1123_subdomain(class));
    }
}

fn data_source(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    if source.is_null() {
        return;
    }
    volumes::required(source, path, errors, &["name", "kind"]);
    let (group, kind) = (text(&source["apiGroup"]), text(&source["kind"]));
    if group.is_empty() && kind != "PersistentVolumeClaim" {
        errors.invalid(path, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup");
    }
    if !group.is_empty() {
        errors.names(&path.child("apiGroup"), group, is_dns1123_subdomain(group));
    }
}

/// Checks how many may use a volume and how.
pub fn access_modes(modes: &Value, path: &Path<'_>, errors: &mut Errors) {
    let modes: Vec<&str> = items(modes).iter().map(text).collect();
    for mode in modes.iter().filter(|mode| !ACCESS_MODES.contains(mode)) {
        errors.not_supported(path, *mode, &ACCESS_MODES);
    }
    let is_single = |mode: &&str| *mode == "ReadWriteOncePod";
    let has_others = modes.iter().any(|mode| !is_single(mode) && ACCESS_MODES.contains(mode));
    if modes.iter().any(is_single) && has_others {
        errors.forbidden(path, "may not use ReadWriteOncePod with other access modes");
    }
}

/// Checks amounts as the real server does with capacities: by their whole units.
pub fn amounts_not_negative(list: &Value, path: &Path<'_>, errors: &mut Errors) {
    for (name, amount) in entries(list) {
        if let Ok(quantity) = Quantity::parse(text(amount))
            && quantity.value() < 0
        {
            let value = i64::try_from(quantity.value()).unwrap_or(i64::MIN);
            errors.invalid(&path.key(name), value, "must be a valid resource quantity");
        }
    }
}

fn claim_changes(new: &Value, old: &Value, errors: &mut Errors) {
    let (spec, before) = (&new["spec"], &old["spec"]);
    let mut rest = spec.clone();
    let mut base = before.clone();
    if text(&before["volumeName"]).is_empty() {
        keep_field(&mut base, spec, "volumeName");
    }
    if before["storageClassName"].is_null() && !spec["storageClassName"].is_null() {
        keep_field(&mut rest, before, "storageClassName");
    }
    if text(&new["status"]["phase"]) == "Bound" {
        keep_field(&mut rest, before, "volumeAttributesClassName");
        if let Some(requests) = rest.get_mut("resources").and_then(|resources| resources.get_mut("requests")) {
            keep_field(requests, &before["resources"]["requests"], "storage");
        }
    }
    if rest != base {
        errors.forbidden(&SPEC, format!("{CHANGES} (changed: {})", changed_fields(&base, &rest)));
    }
    let size =
        |spec: &Value| Quantity::parse(text(&spec["resources"]["requests"]["storage"])).unwrap_or(Quantity::ZERO);
    let has = Quantity::parse(text(&old["status"]["capacity"]["storage"])).unwrap_or(Quantity::ZERO);
    if size(spec) < size(before) && size(spec) <= has {
        let path = Path::new("spec.resources.requests.storage");
        errors.forbidden(&path, "field can not be less than status.capacity");
    }
    errors.immutable(&Path::new("volumeMode"), &spec["volumeMode"], &before["volumeMode"]);
}
