//! The rules for what a job does about failed and succeeded pods.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    errors::Errors,
    path::Path,
    read::{items, number, text},
};
use crate::names::is_qualified_name;

const RULES_MAX: usize = 20;
const PATTERNS_MAX: usize = 20;
const EXIT_CODES_MAX: usize = 255;
const INDEXES_MAX: usize = 64 * 1024;
const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];

/// Checks when a failed pod is replaced.
pub fn pod_replacement_policy(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let supported =
        if spec["podFailurePolicy"].is_null() { &["Failed", "TerminatingOrFailed"][..] } else { &["Failed"][..] };
    errors.one_of_optional(path, &spec["podReplacementPolicy"], supported);
}

/// Checks what is done about failed pods.
pub fn pod_failure_policy(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let rules = items(&spec["podFailurePolicy"]["rules"]);
    let list = path.child("rules");
    if rules.len() > RULES_MAX {
        errors.too_many(&list, rules.len(), RULES_MAX);
    }
    for (index, rule) in rules.iter().enumerate() {
        failure_rule(rule, spec, &list.index(index), errors);
    }
}

fn failure_rule(rule: &Value, spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (action, at) = (text(&rule["action"]), path.child("action"));
    match action {
        "" => errors.required(&at, &valid_values(&ACTIONS)),
        "FailIndex" if spec["backoffLimitPerIndex"].is_null() => {
            errors.invalid(&at, action, "requires the backoffLimitPerIndex to be set");
        }
        _ if !ACTIONS.contains(&action) => errors.not_supported(&at, action, &ACTIONS),
        _ => {}
    }
    let (codes, conditions) = (&rule["onExitCodes"], items(&rule["onPodConditions"]));
    if !codes.is_null() {
        exit_codes(codes, spec, &path.child("onExitCodes"), errors);
    }
    if !conditions.is_empty() {
        pod_conditions(conditions, &path.child("onPodConditions"), errors);
    }
    match (codes.is_null(), conditions.is_empty()) {
        (false, false) => {
            errors.invalid_omitted(path, "specifying both OnExitCodes and OnPodConditions is not supported");
        }
        (true, true) => errors.invalid_omitted(path, "specifying one of OnExitCodes and OnPodConditions is required"),
        _ => {}
    }
}

fn valid_values(values: &[&str]) -> String {
    let quoted: Vec<String> = values.iter().map(|value| format!("\"{value}\"")).collect();
    format!("valid values: [{}]", quoted.join(" "))
}

fn pod_conditions(patterns: &[Value], path: &Path<'_>, errors: &mut Errors) {
    if patterns.len() > PATTERNS_MAX {
        errors.too_many(path, patterns.len(), PATTERNS_MAX);
    }
    let statuses = ["False", "True", "Unknown"];
    for (index, pattern) in patterns.iter().enumerate() {
        let at = path.index(index);
        let (kind, status) = (text(&pattern["type"]), text(&pattern["status"]));
        errors.names(&at.child("type"), kind, is_qualified_name(kind));
        if status.is_empty() {
            errors.required(&at.child("status"), &valid_values(&statuses));
        } else if !statuses.contains(&status) {
            errors.not_supported(&at.child("status"), status, &statuses);
        }
    }
}

fn exit_codes(requirement: &Value, spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (operator, at) = (text(&requirement["operator"]), path.child("operator"));
    if operator.is_empty() {
        errors.required(&at, &valid_values(&["In", "NotIn"]));
    } else if !matches!(operator, "In" | "NotIn") {
        errors.not_supported(&at, operator, &["In", "NotIn"]);
    }
    if let Some(name) = requirement["containerName"].as_str() {
        let pod = &spec["template"]["spec"];
        let mut containers = items(&pod["containers"]).iter().chain(items(&pod["initContainers"]));
        if !containers.any(|container| text(&container["name"]) == name) {
            let detail = "must be one of the container or initContainer names in the pod template";
            errors.invalid(&path.child("containerName"), name, detail);
        }
    }
    exit_code_values(&requirement["values"], operator, &path.child("values"), errors);
}

fn exit_code_values(list: &Value, operator: &str, path: &Path<'_>, errors: &mut Errors) {
    let values: Vec<i64> = items(list).iter().map(number).collect();
    if values.is_empty() {
        errors.invalid(path, list.clone(), "at least one value is required");
    } else if values.len() > EXIT_CODES_MAX {
        errors.too_many(path, values.len(), EXIT_CODES_MAX);
    }
    let mut seen = BTreeSet::new();
    for (index, value) in values.iter().enumerate() {
        if operator == "In" && *value == 0 {
            errors.invalid(&path.index(index), 0, "must not be 0 for the In operator");
        }
        if !seen.insert(value) {
            errors.duplicate(&path.index(index), *value);
        }
    }
    if !values.is_sorted() {
        errors.invalid(path, list.clone(), "must be ordered");
    }
}

/// Checks when a job has succeeded before all its pods have.
pub fn success_policy(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let policy = &spec["successPolicy"];
    if policy.is_null() {
        return;
    }
    if text(&spec["completionMode"]) != "Indexed" {
        errors.invalid(path, policy.clone(), "requires indexed completion mode");
        return;
    }
    let (rules, list) = (items(&policy["rules"]), path.child("rules"));
    if rules.is_empty() {
        errors.required(&list, "at least one rules must be specified when the successPolicy is specified");
    }
    if rules.len() > RULES_MAX {
        errors.too_many(&list, rules.len(), RULES_MAX);
    }
    for (index, rule) in rules.iter().enumerate() {
        success_rule(rule, number(&spec["completions"]), &list.index(index), errors);
    }
}

fn success_rule(rule: &Value, completions: i64, path: &Path<'_>, errors: &mut Errors) {
    let (count, indexes) = (rule["succeededCount"].as_i64(), rule["succeededIndexes"].as_str());
    if count.is_none() && indexes.is_none() {
        errors.required(path, "at least one of succeededCount or succeededIndexes must be specified");
    }
    let mut total = 0;
    if let Some(indexes) = indexes {
        let at = path.child("succeededIndexes");
        if indexes.len() > INDEXES_MAX {
            errors.too_long(&at, INDEXES_MAX);
        }
        match count_indexes(indexes, completions) {
            Ok(count) => total = count,
            Err(why) => errors.invalid(&at, indexes, format!("error parsing succeededIndexes: {why}")),
        }
    }
    let Some(count) = count else { return };
    let at = path.child("succeededCount");
    errors.nonnegative(&at, count);
    let mut at_most = |most: i64, what: &str| {
        if count > most {
            errors.invalid(&at, count, format!("must be less than or equal to {most} (the number of {what})"));
        }
    };
    at_most(completions, "specified completions");
    if indexes.is_some() {
        at_most(total, "indexes in the specified succeededIndexes field");
    }
}

/// Counts the indexes in a text like `0,2-4`.
///
/// # Errors
/// What is wrong with the text.
pub fn count_indexes(text: &str, completions: i64) -> Result<i64, String> {
    if text.is_empty() {
        return Ok(0);
    }
    let (mut total, mut last) = (0, None);
    for interval in text.split(',') {
        let (first, end) = index_interval(interval, completions)?;
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(format!("non-increasing order, previous: {last}, current: {first}"));
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

/// Reads `3` or `2-4`.
pub fn index_interval(text: &str, completions: i64) -> Result<(i64, i64), String> {
    let read = |part: &str| -> Result<i64, String> {
        let index: i64 = part.parse().map_err(|_| format!("cannot convert string to integer for index: \"{part}\""))?;
        if index >= completions { Err(format!("too large index: \"{part}\"")) } else { Ok(index) }
    };
    let parts: Vec<&str> = text.split('-').collect();
    match parts.as_slice() {
        [only] => read(only).map(|index| (index, index)),
        [first, last] => {
            let (first, last) = (read(first)?, read(last)?);
            if first >= last {
                return Err(format!("non-increasing order, previous: {first}, current: {last}"));
            }
            Ok((first, last))
        }
        _ => Err(format!(
            "the fragment \"{text}\" violates the requirement that an index interval can have at most two parts \
             separated by '-'"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::count_indexes;

    #[test]
    fn indexes_are_counted_and_must_increase() {
        assert_eq!(count_indexes("", 5), Ok(0));
        assert_eq!(count_indexes("0,2-4", 5), Ok(4));
        assert_eq!(count_indexes("5", 5), Err("too large index: \"5\"".to_owned()));
        assert_eq!(count_indexes("2,1", 5), Err("non-increasing order, previous: 2, current: 1".to_owned()));
        assert_eq!(count_indexes("a", 5), Err("cannot convert string to integer for index: \"a\"".to_owned()));
        assert!(count_indexes("1-2-3", 5).is_err());
    }
}
