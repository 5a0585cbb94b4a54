//! Jobs: defaults, the selector that is generated for them, and what may change.
//!
//! Policies about failed and succeeded pods are in [`super::batch_policy`], the status in [`super::batch_status`].

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::{
    Generation, Rules, batch_policy, batch_status,
    errors::{Errors, IMMUTABLE},
    meta,
    path::Path,
    podspec,
    read::{default_optional, entries, is_empty, is_true, number, object, objects_mut, text},
    selector,
    workload::{default_template, reset_status},
};
use crate::names::{is_dns1123_label, is_dns1123_subdomain, is_domain_prefixed_path};

/// What is particular about jobs.
pub const RULES: Rules = Rules {
    orphans_dependents: true,
    generation: Generation::OnChange(|new, old| new["spec"] != old["spec"]),
    default: defaults,
    prepare_create,
    validate,
    validate_status: batch_status::validate,
    ..Rules::WITH_STATUS
};

const SPEC: Path<'static> = Path::new("spec");
const UID_LABELS: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];
const NAME_LABELS: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];
const MANAGED_BY_MAX: usize = 63;
const INDEXED_PARALLELISM_MAX: i64 = 100_000;
const FAILED_INDEXES_MAX: i64 = 100_000;
const MANY_COMPLETIONS: i64 = 100_000;
const MANY_PARALLELISM_MAX: i64 = 10_000;
const MANY_FAILED_INDEXES_MAX: i64 = 10_000;

fn defaults(job: &mut Value) {
    if let Some(spec) = job.get_mut("spec").and_then(Value::as_object_mut) {
        default_spec(spec);
    }
    let is_generated = is_true(&job["spec"]["manualSelector"]) || !job["spec"]["selector"].is_null();
    if is_generated {
        default_labels(job);
    }
}

fn default_spec(spec: &mut Map<String, Value>) {
    if spec.get("parallelism").is_none() {
        default_optional(spec, "completions", 1);
    }
    default_optional(spec, "parallelism", 1);
    let limit = if spec.contains_key("backoffLimitPerIndex") { i64::from(i32::MAX) } else { 6 };
    default_optional(spec, "backoffLimit", limit);
    default_optional(spec, "completionMode", "NonIndexed");
    default_optional(spec, "suspend", false);
    let has_policy = spec.contains_key("podFailurePolicy");
    default_optional(spec, "podReplacementPolicy", if has_policy { "Failed" } else { "TerminatingOrFailed" });
    default_optional(spec, "manualSelector", false);
    default_template(spec);
    if let Some(policy) = spec.get_mut("podFailurePolicy").and_then(Value::as_object_mut) {
        for rule in objects_mut(policy, "rules") {
            objects_mut(rule, "onPodConditions").for_each(|pattern| super::read::default(pattern, "status", "True"));
        }
    }
}

/// A job without labels has those of its pods.
fn default_labels(job: &mut Value) {
    let labels = job["spec"]["template"]["metadata"]["labels"].clone();
    if is_empty(&labels) || !is_empty(&job["metadata"]["labels"]) {
        return;
    }
    if let Some(meta) = meta::meta_mut(job) {
        meta.insert("labels".to_owned(), labels);
    }
}

fn prepare_create(job: &mut Value, now: &str) {
    reset_status(job, now);
    if !is_true(&job["spec"]["manualSelector"]) {
        generate_selector(job);
    }
    default_labels(job);
}

/// Labels the pods of a job with its name and uid, and selects them by the uid.
fn generate_selector(job: &mut Value) {
    let (name, uid) = (job["metadata"]["name"].clone(), job["metadata"]["uid"].clone());
    let Some(spec) = job.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let template = object(spec, "template").and_then(|template| object(template, "metadata"));
    if let Some(labels) = template.and_then(|metadata| object(metadata, "labels")) {
        for (keys, value) in [(NAME_LABELS, &name), (UID_LABELS, &uid)] {
            for key in keys {
                labels.entry(key).or_insert_with(|| value.clone());
            }
        }
    }
    if let Some(labels) = object(spec, "selector").and_then(|selector| object(selector, "matchLabels")) {
        labels.entry(UID_LABELS[1]).or_insert(uid);
    }
}

fn validate(job: &Value, old: Option<&Value>, errors: &mut Errors) {
    let before = errors.len();
    meta::created(job, true, is_dns1123_subdomain, errors);
    // The real server gives a job the labels of its pods after it has checked it, unless the pods had some before.
    let is_generated = |(key, _): (&str, _)| UID_LABELS.contains(&key) || NAME_LABELS.contains(&key);
    if old.is_none() && entries(&job["metadata"]["labels"]).all(is_generated) {
        errors.forget("metadata.labels", before);
    }
    meta::standard_finalizers(job, errors);
    let had = |key: &str| old.is_none_or(|old| old["spec"]["template"]["metadata"]["labels"].get(key).is_some());
    generated_selector(job, had(UID_LABELS[1]) && had(NAME_LABELS[1]), errors);
    validate_spec(&job["spec"], errors);
    index_host_name(job, errors);
    if let Some(old) = old {
        meta::updated(job, old, errors);
        meta::standard_finalizers(job, errors);
        validate_spec(&job["spec"], errors);
        changes(job, old, errors);
    }
}

/// `needs_prefixed` is false for a job that was stored before labels had a prefix.
fn generated_selector(job: &Value, needs_prefixed: bool, errors: &mut Errors) {
    let (spec, metadata) = (&job["spec"], &job["metadata"]);
    if is_true(&spec["manualSelector"]) || spec["selector"].is_null() {
        return;
    }
    if text(&metadata["uid"]).is_empty() {
        errors.required(&Path::new("metadata.uid"), "");
    }
    let path = Path::new("spec.template.metadata.labels");
    let labels = &spec["template"]["metadata"]["labels"];
    let (name, uid) = (text(&metadata["name"]), text(&metadata["uid"]));
    let mut expected = vec![(UID_LABELS[0], uid), (NAME_LABELS[0], name)];
    if needs_prefixed {
        expected.extend([(UID_LABELS[1], uid), (NAME_LABELS[1], name)]);
    }
    for (key, value) in &expected {
        let detail = format!("must be '{value}'");
        match labels.get(*key).map(text) {
            None => errors.required(&path.key(key), &detail),
            Some(other) if other != *value => errors.invalid(&path.key(key), labels.clone(), detail),
            Some(_) => {}
        }
    }
    let expected: Map<String, Value> =
        expected.iter().map(|(key, value)| ((*key).to_owned(), (*value).into())).collect();
    if selector::is_valid(&spec["selector"]) && !selector::matches(&spec["selector"], &Value::Object(expected)) {
        errors.invalid(&SPEC.child("selector"), spec["selector"].clone(), "`selector` not auto-generated");
    }
}

fn validate_spec(spec: &Value, errors: &mut Errors) {
    counts(spec, errors);
    managed_by(spec, errors);
    completion_mode(spec, errors);
    batch_policy::pod_failure_policy(spec, &SPEC.child("podFailurePolicy"), errors);
    batch_policy::success_policy(spec, &SPEC.child("successPolicy"), errors);
    batch_policy::pod_replacement_policy(spec, &SPEC.child("podReplacementPolicy"), errors);
    let template = SPEC.child("template");
    podspec::template(&spec["template"], &template, errors);
    restart_policy(spec, errors);
    if spec["selector"].is_null() {
        errors.required(&SPEC.child("selector"), "");
    }
    selector::validate(&spec["selector"], &SPEC.child("selector"), errors);
    let labels = &spec["template"]["metadata"]["labels"];
    let is_valid = selector::is_valid(&spec["selector"]);
    if is_valid && !selector::matches(&spec["selector"], labels) {
        let detail = "`selector` does not match template `labels`";
        errors.invalid(&template.child("metadata").child("labels"), labels.clone(), detail);
    }
}

fn counts(spec: &Value, errors: &mut Errors) {
    let fields = [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ];
    for field in fields {
        errors.nonnegative_optional(&SPEC.child(field), &spec[field]);
    }
    if !spec["maxFailedIndexes"].is_null() && spec["backoffLimitPerIndex"].is_null() {
        errors.required(&SPEC.child("backoffLimitPerIndex"), "when maxFailedIndexes is specified");
    }
}

fn managed_by(spec: &Value, errors: &mut Errors) {
    let Some(manager) = spec["managedBy"].as_str() else { return };
    let at = SPEC.child("managedBy");
    if manager.is_empty() {
        errors.required(&at, "");
    } else {
        for (part, message) in is_domain_prefixed_path(manager) {
            errors.invalid(&at, part, message);
        }
    }
    if manager.len() > MANAGED_BY_MAX {
        errors.too_long(&at, MANAGED_BY_MAX);
    }
}

fn completion_mode(spec: &Value, errors: &mut Errors) {
    errors.one_of_optional(&SPEC.child("completionMode"), &spec["completionMode"], &["NonIndexed", "Indexed"]);
    match spec["completionMode"].as_str() {
        Some("Indexed") => indexed(spec, errors),
        None | Some("NonIndexed") => {
            for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
                if let Some(value) = spec[field].as_i64() {
                    errors.invalid(&SPEC.child(field), value, "requires indexed completion mode");
                }
            }
        }
        _ => {}
    }
}

fn indexed(spec: &Value, errors: &mut Errors) {
    let (completions, failed) = (spec["completions"].as_i64(), spec["maxFailedIndexes"].as_i64());
    let parallelism = number(&spec["parallelism"]);
    let (parallelism_path, failed_path) = (SPEC.child("parallelism"), SPEC.child("maxFailedIndexes"));
    if completions.is_none() {
        errors.required(&SPEC.child("completions"), "when completion mode is Indexed");
    }
    if parallelism > INDEXED_PARALLELISM_MAX {
        let detail = format!("must be less than or equal to {INDEXED_PARALLELISM_MAX} when completion mode is Indexed");
        errors.invalid(&parallelism_path, parallelism, detail);
    }
    if let (Some(completions), Some(failed)) = (completions, failed)
        && failed > completions
    {
        errors.invalid(&failed_path, failed, "must be less than or equal to completions");
    }
    if let Some(failed) = failed.filter(|failed| *failed > FAILED_INDEXES_MAX) {
        errors.invalid(&failed_path, failed, format!("must be less than or equal to {FAILED_INDEXES_MAX}"));
    }
    if completions.is_none_or(|completions| completions <= MANY_COMPLETIONS) || spec["backoffLimitPerIndex"].is_null() {
        return;
    }
    let when = format!("when completions are above {MANY_COMPLETIONS} and used with backoff limit per index");
    if failed.is_none() {
        let detail = format!("must be specified when completions is above {MANY_COMPLETIONS}");
        errors.required(&failed_path, &detail);
    }
    if parallelism > MANY_PARALLELISM_MAX {
        let detail = format!("must be less than or equal to {MANY_PARALLELISM_MAX} {when}");
        errors.invalid(&parallelism_path, parallelism, detail);
    }
    if let Some(failed) = failed.filter(|failed| *failed > MANY_FAILED_INDEXES_MAX) {
        let detail = format!("must be less than or equal to {MANY_FAILED_INDEXES_MAX} {when}");
        errors.invalid(&failed_path, failed, detail);
    }
}

fn restart_policy(spec: &Value, errors: &mut Errors) {
    let path = Path::new("spec.template.spec.restartPolicy");
    match text(&spec["template"]["spec"]["restartPolicy"]) {
        "" | "Always" => errors.required(&path, "valid values: \"OnFailure\", \"Never\""),
        "Never" => {}
        "OnFailure" if spec["podFailurePolicy"].is_null() => {}
        "OnFailure" => {
            errors.invalid(&path, "OnFailure", "only \"Never\" is supported when podFailurePolicy is specified");
        }
        other => errors.not_supported(&path, other, &["OnFailure", "Never"]),
    }
}

/// The name of the last pod of an indexed job has to be a host name.
fn index_host_name(job: &Value, errors: &mut Errors) {
    let completions = number(&job["spec"]["completions"]);
    if text(&job["spec"]["completionMode"]) != "Indexed" || completions <= 0 {
        return;
    }
    let name = text(&job["metadata"]["name"]);
    let host = format!("{name}-{}", completions - 1);
    if !is_dns1123_label(&host).is_empty() {
        let detail = format!("will not able to create pod with invalid DNS label: {host}");
        errors.invalid(&Path::new("metadata.name"), name, detail);
    }
}

fn changes(job: &Value, old_job: &Value, errors: &mut Errors) {
    let (spec, old) = (&job["spec"], &old_job["spec"]);
    changed_completions(spec, old, errors);
    if spec["selector"] != old["selector"] {
        errors.invalid(&SPEC.child("selector"), spec["selector"].clone(), IMMUTABLE);
    }
    changed_template(spec, old_job, errors);
    let fixed = ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"];
    for field in fixed {
        if spec[field] != old[field] {
            errors.invalid(&SPEC.child(field), spec[field].clone(), IMMUTABLE);
        }
    }
}

/// An elastic job is an indexed one whose completions follow its parallelism.
fn changed_completions(spec: &Value, old: &Value, errors: &mut Errors) {
    let (completions, at) = (&spec["completions"], SPEC.child("completions"));
    if completions == &old["completions"] {
        return;
    }
    if text(&spec["completionMode"]) != "Indexed" {
        errors.immutable(&at, completions, &old["completions"]);
    } else if !completions.is_null() && *completions != spec["parallelism"] {
        errors.invalid(&at, completions.clone(), "can only be modified in tandem with spec.parallelism");
    }
}

/// The template is fixed, except for where the pods of a job run that has never started.
fn changed_template(spec: &Value, old_job: &Value, errors: &mut Errors) {
    let mut old = Cow::Borrowed(&old_job["spec"]["template"]);
    let is_suspended = is_true(&old_job["spec"]["suspend"]) && old_job["status"]["startTime"].is_null();
    let template = &spec["template"];
    if is_suspended {
        take_scheduling(old.to_mut(), template);
    }
    if *template != *old {
        errors.invalid(&SPEC.child("template"), template.clone(), IMMUTABLE);
    }
}

fn take_scheduling(old: &mut Value, new: &Value) {
    if let Some(meta) = old.get_mut("metadata") {
        for field in ["labels", "annotations"] {
            super::read::keep_field(meta, &new["metadata"], field);
        }
    }
    let Some(spec) = old.get_mut("spec") else { return };
    for field in ["nodeSelector", "tolerations", "schedulingGates"] {
        super::read::keep_field(spec, &new["spec"], field);
    }
    let Some(spec) = spec.as_object_mut() else { return };
    let has_affinity = !new["spec"]["affinity"].is_null();
    if !has_affinity && !spec.contains_key("affinity") {
        return;
    }
    let node = new["spec"]["affinity"].get("nodeAffinity").cloned();
    if let Some(affinity) = object(spec, "affinity") {
        match node {
            Some(node) => _ = affinity.insert("nodeAffinity".to_owned(), node),
            None => _ = affinity.remove("nodeAffinity"),
        }
        if !has_affinity && affinity.is_empty() {
            spec.remove("affinity");
        }
    }
}
