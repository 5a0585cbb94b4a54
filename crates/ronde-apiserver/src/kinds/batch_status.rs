//! What the controller of a job may report: counters only grow, a job that ended stays ended.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    batch_policy::{count_indexes, index_interval},
    errors::{Errors, IMMUTABLE},
    meta,
    path::Path,
    read::{is_empty, is_true, items, number, text},
};

const STATUS: Path<'static> = Path::new("status");

/// Checks a change of the status of a job.
pub fn validate(new: &Value, old: &Value, errors: &mut Errors) {
    meta::updated(new, old, errors);
    meta::standard_finalizers(new, errors);
    let status = &new["status"];
    for field in ["active", "succeeded", "failed", "ready", "terminating"] {
        errors.nonnegative_optional(&STATUS.child(field), &status[field]);
    }
    uncounted(&status["uncountedTerminatedPods"], errors);
    let change = Change { new, old };
    conditions(&change, errors);
    finished(&change, errors);
    indexes(&change, errors);
    success(new, errors);
    transitions(&change, errors);
}

/// A status and the one before it: a rule is checked only when what it is about changes.
struct Change<'a> {
    new: &'a Value,
    old: &'a Value,
}

impl Change<'_> {
    fn of(&self, field: &str) -> bool {
        self.new["status"][field] != self.old["status"][field]
    }

    fn of_condition(&self, kind: &str) -> bool {
        is(self.new, kind) != is(self.old, kind)
    }

    fn of_finished(&self) -> bool {
        is_finished(self.new) != is_finished(self.old)
    }
}

fn is(job: &Value, kind: &str) -> bool {
    has_condition(job, kind, "True")
}

fn has_condition(job: &Value, kind: &str, status: &str) -> bool {
    items(&job["status"]["conditions"])
        .iter()
        .any(|condition| text(&condition["type"]) == kind && text(&condition["status"]) == status)
}

fn is_finished(job: &Value) -> bool {
    is(job, "Complete") || is(job, "Failed")
}

fn uncounted(pods: &Value, errors: &mut Errors) {
    let path = STATUS.child("uncountedTerminatedPods");
    let mut seen = BTreeSet::new();
    for field in ["succeeded", "failed"] {
        let list = path.child(field);
        for (index, uid) in items(&pods[field]).iter().map(text).enumerate() {
            if uid.is_empty() {
                errors.invalid(&list.index(index), "", "must not be empty");
            } else if !seen.insert(uid) {
                errors.duplicate(&list.index(index), uid);
            }
        }
    }
}

fn conditions(change: &Change<'_>, errors: &mut Errors) {
    let (new, status) = (change.new, &change.new["status"]);
    let at = STATUS.child("conditions");
    let (complete, failed, target) = (is(new, "Complete"), is(new, "Failed"), is(new, "FailureTarget"));
    let complete_changed = change.of_condition("Complete");
    if (complete_changed || change.of_condition("Failed")) && complete && failed {
        errors.invalid_omitted(&at, "cannot set Complete=True and Failed=true conditions");
    }
    if (complete_changed || change.of_condition("FailureTarget")) && complete && target {
        errors.invalid_omitted(&at, "cannot set Complete=True and FailureTarget=true conditions");
    }
    let time = STATUS.child("completionTime");
    if complete_changed || change.of("completionTime") {
        if !status["completionTime"].is_null() && !complete {
            let detail = "cannot set completionTime when there is no Complete=True condition";
            errors.invalid(&time, status["completionTime"].clone(), detail);
        }
        if status["completionTime"].is_null() && complete {
            errors.required(&time, "completionTime is required for Complete jobs");
        }
    }
    // Times in canonical form compare as text.
    let (start, end) = (text(&status["startTime"]), text(&status["completionTime"]));
    let times_changed = change.of("startTime") || change.of("completionTime");
    if times_changed && !start.is_empty() && !end.is_empty() && end < start {
        errors.invalid(&time, end, "must be equal to or after `startTime`");
    }
    if (change.of_condition("Failed") || change.of("failedIndexes")) && failed && !target {
        errors.invalid_omitted(&at, "cannot set Failed=True condition without the FailureTarget=true condition");
    }
    let met = is(new, "SuccessCriteriaMet");
    if (complete_changed || change.of_condition("SuccessCriteriaMet")) && complete && !met {
        let detail = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
        errors.invalid_omitted(&at, detail);
    }
}

fn finished(change: &Change<'_>, errors: &mut Errors) {
    let (new, status) = (change.new, &change.new["status"]);
    let (finished, finished_changed) = (is_finished(new), change.of_finished());
    let active = number(&status["active"]);
    if (finished_changed || change.of("active")) && finished && active > 0 {
        errors.invalid(&STATUS.child("active"), active, "active>0 is invalid for finished job");
    }
    let never_starts = is_true(&new["spec"]["suspend"]) && new["spec"]["completions"] == 0;
    if (finished_changed || change.of("startTime")) && !never_starts && finished && status["startTime"].is_null() {
        errors.required(&STATUS.child("startTime"), "startTime is required for finished job");
    }
    let pods = &status["uncountedTerminatedPods"];
    let has_uncounted = !is_empty(&pods["succeeded"]) || !is_empty(&pods["failed"]);
    if (finished_changed || change.of("uncountedTerminatedPods")) && finished && has_uncounted {
        let at = STATUS.child("uncountedTerminatedPods");
        errors.invalid(&at, pods.clone(), "must be empty for finished job");
    }
    let terminating = number(&status["terminating"]);
    if (finished_changed || change.of("terminating")) && finished && terminating > 0 {
        let detail = "terminating>0 is invalid for finished job";
        errors.invalid(&STATUS.child("terminating"), terminating, detail);
    }
    let ready = number(&status["ready"]);
    if (change.of("ready") || change.of("active")) && ready > active {
        errors.invalid(&STATUS.child("ready"), ready, "cannot set more ready pods than active");
    }
}

fn indexes(change: &Change<'_>, errors: &mut Errors) {
    let (spec, status) = (&change.new["spec"], &change.new["status"]);
    let (completed, failed) = (text(&status["completedIndexes"]), status["failedIndexes"].as_str());
    let (completed_path, failed_path) = (STATUS.child("completedIndexes"), STATUS.child("failedIndexes"));
    let per_index = !spec["backoffLimitPerIndex"].is_null();
    if let Some(completions) = spec["completions"].as_i64() {
        if change.of("completedIndexes")
            && let Err(why) = count_indexes(completed, completions)
        {
            errors.invalid(&completed_path, completed, format!("error parsing completedIndexes: {why}"));
        }
        if let Some(failed) = failed.filter(|_| change.of("failedIndexes") && per_index)
            && let Err(why) = count_indexes(failed, completions)
        {
            errors.invalid(&failed_path, failed, format!("error parsing failedIndexes: {why}"));
        }
    }
    if change.of("completedIndexes") && !completed.is_empty() && text(&spec["completionMode"]) != "Indexed" {
        let detail = "cannot set non-empty completedIndexes when non-indexed completion mode";
        errors.invalid(&completed_path, completed, detail);
    }
    if let Some(failed) = failed.filter(|_| change.of("failedIndexes") && !per_index) {
        let detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
        errors.invalid(&failed_path, failed, detail);
    }
    if let (Some(failed), Some(completions)) = (failed, spec["completions"].as_i64())
        && (change.of("failedIndexes") || change.of("completedIndexes"))
        && let Some(index) = overlap(completed, failed, completions)
    {
        let detail = format!("failedIndexes and completedIndexes overlap at index: {index}");
        errors.invalid(&failed_path, failed, detail);
    }
}

fn overlap(completed: &str, failed: &str, completions: i64) -> Option<i64> {
    let intervals = |text: &str| -> Vec<(i64, i64)> {
        text.split(',').filter_map(|part| index_interval(part, completions).ok()).collect()
    };
    let (completed, failed) = (intervals(completed), intervals(failed));
    let common = completed.iter().flat_map(|done| failed.iter().map(move |bad| (done.0.max(bad.0), done.1.min(bad.1))));
    common.filter(|(first, last)| first <= last).map(|(first, _)| first).min()
}

fn success(new: &Value, errors: &mut Errors) {
    let at = STATUS.child("conditions");
    let met = is(new, "SuccessCriteriaMet");
    if met && is(new, "Failed") {
        errors.invalid_omitted(&at, "cannot set SuccessCriteriaMet=True and Failed=true conditions");
    }
    if met && is(new, "FailureTarget") {
        errors.invalid_omitted(&at, "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions");
    }
    if !new["spec"]["successPolicy"].is_null() && !met && is(new, "Complete") {
        let detail = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True";
        errors.invalid_omitted(&at, detail);
    }
}

fn transitions(change: &Change<'_>, errors: &mut Errors) {
    let (new, old) = (change.new, change.old);
    let (status, before) = (&new["status"], &old["status"]);
    let at = STATUS.child("conditions");
    for kind in ["Failed", "Complete", "FailureTarget"] {
        if is(old, kind) && !is(new, kind) {
            errors.invalid_omitted(&at, format!("cannot disable the terminal {kind}=True condition"));
        }
    }
    let is_elastic =
        text(&new["spec"]["completionMode"]) == "Indexed" && new["spec"]["completions"] == new["spec"]["parallelism"];
    for (field, is_checked) in [("failed", true), ("succeeded", !is_elastic)] {
        let count = number(&status[field]);
        if is_checked && count < number(&before[field]) {
            errors.invalid(&STATUS.child(field), count, format!("cannot decrease the {field} counter"));
        }
    }
    let time = "completionTime";
    if !status[time].is_null() && !before[time].is_null() && change.of(time) {
        errors.invalid(&STATUS.child(time), status[time].clone(), IMMUTABLE);
    }
    let resumes = is(old, "Suspended") && has_condition(new, "Suspended", "False");
    let restarts = change.of("startTime") && !resumes && !before["startTime"].is_null();
    if restarts && !is_true(&new["spec"]["suspend"]) {
        errors.required(&STATUS.child("startTime"), "startTime cannot be removed for unsuspended job");
    }
    let (met, was_met) = (is(new, "SuccessCriteriaMet"), is(old, "SuccessCriteriaMet"));
    if was_met && !met {
        errors.invalid_omitted(&at, "cannot disable the SuccessCriteriaMet=True condition");
    }
    if is(old, "Complete") && !was_met && met {
        let detail = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions";
        errors.invalid_omitted(&at, detail);
    }
}
