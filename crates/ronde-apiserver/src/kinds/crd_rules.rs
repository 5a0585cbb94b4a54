//! The place of CustomResourceDefinitions among the built-in kinds; what they mean is in `crd.rs`.

use serde_json::{Value, json};

use super::{Generation, Rules, crd, read::take};

pub(super) static RULES: Rules = Rules {
    namespaced: false,
    unconditional_update: false,
    generation: Generation::OnChange(|new, old| new["spec"] != old["spec"]),
    default: crd::default_crd,
    prepare_create,
    prepare_status: |new, old, _| {
        take(new, old, "spec");
        keep_metadata(new, old);
    },
    validate: |new, old, errors| crd::validate_crd(new, old).into_iter().for_each(|error| errors.push(error)),
    ..Rules::WITH_STATUS
};

/// A new definition has no history: the version it stores is the only one it has stored.
fn prepare_create(crd: &mut Value, _now: &str) {
    let versions = crd["spec"]["versions"].as_array().into_iter().flatten();
    let stored: Vec<Value> =
        versions.filter(|version| version["storage"] == true).map(|version| version["name"].clone()).collect();
    crd["status"] = json!({
        "acceptedNames": {"plural": "", "kind": ""}, "conditions": null, "storedVersions": stored,
    });
}

/// A write to the status changes no metadata, apart from who owns its fields.
fn keep_metadata(new: &mut Value, old: &Value) {
    let mut metadata = old["metadata"].clone();
    for field in ["managedFields", "resourceVersion"] {
        match new["metadata"].get(field) {
            Some(value) => metadata[field] = value.clone(),
            None => drop(metadata.as_object_mut().and_then(|fields| fields.remove(field))),
        }
    }
    new["metadata"] = metadata;
}
