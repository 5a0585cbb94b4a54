//! The rules of new pods of our schedulers: budgets of disruptions in their annotations.
//!
//! Volcano looks at them when a pod is created, and leaves the pods of other schedulers alone.

use std::collections::BTreeMap;

use ronde_api::{names::SCHEDULERS, rules::budget};
use ronde_apiserver::schema::crd::Verdict;
use serde::Deserialize as _;
use serde_json::Value;

use super::field_error;

/// Returns what is wrong with a new pod; none if there is nothing to look at.
pub(super) fn check(pod: &Value) -> Option<Verdict> {
    let scheduler = pod["spec"]["schedulerName"].as_str()?;
    if !SCHEDULERS.contains(&scheduler) {
        return None;
    }
    let annotations = BTreeMap::deserialize(pod["metadata"].get("annotations")?).ok()?;
    let errors = budget::validate(&annotations).iter().map(field_error).collect();
    Some(Verdict { errors, warnings: Vec::new() })
}
