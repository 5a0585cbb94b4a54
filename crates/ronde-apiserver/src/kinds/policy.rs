//! Disruption budgets, priority classes and quotas.

use serde_json::{Value, json};

use super::{
    Generation, Rules,
    errors::Errors,
    meta,
    network::metadata_only,
    path::Path,
    podspec,
    read::{default_optional, is_true, items, number, text},
    resources, selector,
    workload::{at_most_all, int_or_percent, reset_status},
};
use crate::names::{is_dns1123_subdomain, is_qualified_name};

/// What is particular about disruption budgets.
pub const POD_DISRUPTION_BUDGET: Rules = Rules {
    unconditional_update: false,
    generation: Generation::OnChange(|new, old| new["spec"] != old["spec"]),
    prepare_create: |budget, _| {
        if let Some(budget) = budget.as_object_mut() {
            let status = json!({"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0});
            budget.insert("status".to_owned(), status);
        }
    },
    validate: |budget, _, errors| budget_spec(&budget["spec"], errors),
    validate_status: |new, _, errors| budget_status(&new["status"], errors),
    ..Rules::WITH_STATUS
};

/// What is particular about priority classes.
pub const PRIORITY_CLASS: Rules = Rules {
    namespaced: false,
    generation: Generation::Fixed,
    default: |class| {
        if let Some(class) = class.as_object_mut() {
            default_optional(class, "preemptionPolicy", "PreemptLowerPriority");
        }
    },
    validate: validate_priority_class,
    ..Rules::PLAIN
};

/// What is particular about quotas, which are kept but not enforced.
pub const RESOURCE_QUOTA: Rules = Rules {
    default: |quota| {
        for (part, list) in [("spec", "hard"), ("status", "hard"), ("status", "used")] {
            quota.get_mut(part).and_then(|part| part.get_mut(list)).map(resources::round_up);
        }
    },
    prepare_create: reset_status,
    validate: metadata_only,
    ..Rules::WITH_STATUS
};

const SPEC: Path<'static> = Path::new("spec");
const USER_PRIORITY_MAX: i64 = 1_000_000_000;
const CRITICAL: [(&str, i64); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];
const REASON_MAX: usize = 1024;
const MESSAGE_MAX: usize = 32 * 1024;
const REASON: &str = "a condition reason must start with alphabetic character, optionally followed by a string of \
     alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or \
     'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is \
     '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";

fn budget_spec(spec: &Value, errors: &mut Errors) {
    if !spec["minAvailable"].is_null() && !spec["maxUnavailable"].is_null() {
        errors.invalid(&SPEC, spec.clone(), "minAvailable and maxUnavailable cannot be both set");
    }
    for field in ["minAvailable", "maxUnavailable"] {
        if !spec[field].is_null() {
            int_or_percent(&spec[field], &SPEC.child(field), errors);
            at_most_all(&spec[field], &SPEC.child(field), errors);
        }
    }
    selector::validate(&spec["selector"], &SPEC.child("selector"), errors);
    let policy = &spec["unhealthyPodEvictionPolicy"];
    errors.one_of_optional(&SPEC.child("unhealthyPodEvictionPolicy"), policy, &["AlwaysAllow", "IfHealthyBudget"]);
}

fn budget_status(status: &Value, errors: &mut Errors) {
    let path = Path::new("status");
    conditions(&status["conditions"], &path.child("conditions"), errors);
    for field in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
        errors.nonnegative(&path.child(field), number(&status[field]));
    }
}

/// Checks conditions of the common type.
fn conditions(list: &Value, path: &Path<'_>, errors: &mut Errors) {
    let mut seen: Vec<&str> = Vec::new();
    for (index, condition) in items(list).iter().enumerate() {
        let at = path.index(index);
        let (kind, reason) = (text(&condition["type"]), text(&condition["reason"]));
        if seen.contains(&kind) {
            errors.duplicate(&at.child("type"), kind);
        }
        seen.push(kind);
        errors.names(&at.child("type"), kind, is_qualified_name(kind));
        let status = text(&condition["status"]);
        if !matches!(status, "True" | "False" | "Unknown") {
            errors.not_supported(&at.child("status"), status, &["False", "True", "Unknown"]);
        }
        let generation = number(&condition["observedGeneration"]);
        if generation < 0 {
            errors.invalid(&at.child("observedGeneration"), generation, "must be greater than or equal to zero");
        }
        if condition["lastTransitionTime"].is_null() {
            errors.required(&at.child("lastTransitionTime"), "");
        }
        if reason.is_empty() {
            errors.required(&at.child("reason"), "");
        } else if !is_reason(reason) {
            errors.invalid(&at.child("reason"), reason, REASON);
        }
        if reason.len() > REASON_MAX {
            errors.too_long(&at.child("reason"), REASON_MAX);
        }
        if text(&condition["message"]).len() > MESSAGE_MAX {
            errors.too_long(&at.child("message"), MESSAGE_MAX);
        }
    }
}

fn is_reason(reason: &str) -> bool {
    reason.starts_with(|first: char| first.is_ascii_alphabetic())
        && reason.ends_with(|last: char| last.is_ascii_alphanumeric() || last == '_')
        && reason.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | ',' | ':'))
}

fn validate_priority_class(class: &Value, old: Option<&Value>, errors: &mut Errors) {
    let (value, value_path) = (number(&class["value"]), Path::new("value"));
    if let Some(old) = old {
        meta::updated(class, old, errors);
        meta::standard_finalizers(class, errors);
        if value != number(&old["value"]) {
            errors.forbidden(&value_path, "may not be changed in an update.");
        }
        errors.immutable(&Path::new("preemptionPolicy"), &class["preemptionPolicy"], &old["preemptionPolicy"]);
        return;
    }
    meta::created(class, false, is_dns1123_subdomain, errors);
    meta::standard_finalizers(class, errors);
    let name = text(&class["metadata"]["name"]);
    if name.starts_with("system-") {
        if let Some(why) = unknown_system_class(name, value, is_true(&class["globalDefault"])) {
            let detail =
                format!("priority class names with 'system-' prefix are reserved for system use only. error: {why}");
            errors.forbidden(&Path::new("metadata.name"), detail);
        }
    } else if value > USER_PRIORITY_MAX {
        let detail = format!("maximum allowed value of a user defined priority is {USER_PRIORITY_MAX}");
        errors.forbidden(&value_path, detail);
    }
    podspec::preemption_policy(&class["preemptionPolicy"], &Path::new("preemptionPolicy"), errors);
}

fn unknown_system_class(name: &str, value: i64, is_default: bool) -> Option<String> {
    match CRITICAL.iter().find(|(known, _)| *known == name) {
        None => Some(format!("{name} is not a known system priority class")),
        Some((_, known)) if *known != value => Some(format!("value of {name} PriorityClass must be {known}")),
        Some(_) if is_default => Some(format!("globalDefault of {name} PriorityClass must be false")),
        Some(_) => None,
    }
}
