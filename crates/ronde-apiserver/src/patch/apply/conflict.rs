//! Conflicts of an apply with the owners of what it would change, and the error a client sees.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{
    compare::Diff,
    fieldset::FieldSet,
    managed::{Entry, Managed},
};
use crate::error::ApiError;

/// The fields of one manager that would change.
#[derive(Debug)]
pub struct Conflict<'a> {
    pub owner: &'a Entry,
    pub fields: FieldSet,
}

/// Returns what would be taken from whom.
pub fn find<'a>(managed: &'a Managed, diff: &Diff) -> Vec<Conflict<'a>> {
    let mut conflicts = Vec::new();
    for owner in &managed.0 {
        let mut fields = owner.fields.common(&diff.modified);
        fields.add(&owner.fields.common(&diff.added));
        if !fields.is_empty() {
            conflicts.push(Conflict { owner, fields });
        }
    }
    conflicts.sort_by_cached_key(|conflict| conflict.owner.identity());
    conflicts
}

/// Returns the error for conflicts, of which there is at least one.
pub fn error(conflicts: &[Conflict<'_>]) -> ApiError {
    let paths: Vec<(String, Vec<String>)> =
        conflicts.iter().map(|conflict| (conflict.owner.shown(), conflict.fields.paths())).collect();
    let cause = |owner: &str, path: &String| {
        let message = format!("conflict with {owner}");
        json!({"reason": "FieldManagerConflict", "message": message, "field": path})
    };
    let causes: Vec<Value> =
        paths.iter().flat_map(|(owner, paths)| paths.iter().map(move |path| cause(owner, path))).collect();
    ApiError::new(409, "Conflict", message(&paths)).with_details(json!({"causes": causes}))
}

fn message(paths: &[(String, Vec<String>)]) -> String {
    if let [(owner, paths)] = paths
        && let [path] = paths.as_slice()
    {
        return format!("Apply failed with 1 conflict: conflict with {owner}: {path}");
    }
    let count: usize = paths.iter().map(|(_, paths)| paths.len()).sum();
    let mut text = format!("Apply failed with {count} conflicts: ");
    for (i, (owner, paths)) in paths.iter().enumerate() {
        let line_break = if i > 0 { "\n" } else { "" };
        let _ = write!(text, "{line_break}conflicts with {owner}:");
        for path in paths {
            let _ = write!(text, "\n- {path}");
        }
    }
    text
}
