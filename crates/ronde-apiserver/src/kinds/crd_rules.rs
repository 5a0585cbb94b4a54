//! The place of CustomResourceDefinitions among the built-in kinds; what they mean is in `crd.rs`.

use serde_json::Value;

use super::{Generation, Rules, crd, read::keep_field};

pub(super) static RULES: Rules = Rules {
    namespaced: false,
    unconditional_update: false,
    generation: Generation::OnChange(|new, old| new["spec"] != old["spec"]),
    default: crd::default_crd,
    prepare_create: |crd, _| crd::prepare_create(crd),
    prepare_update: crd::prepare_update,
    prepare_status: |new, old, _| {
        keep_field(new, old, "spec");
        keep_metadata(new, old);
    },
    validate: |new, old, errors| crd::validate_crd(new, old).into_iter().for_each(|error| errors.push(error)),
    ..Rules::WITH_STATUS
};

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
