//! What the status of a queue says of its use. Pure.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use ronde_api::{Queue, ResourceList};
use ronde_scheduler::{Amounts, quantity};
use serde_json::{Map, Value, json};

/// Returns the change that brings the status of a queue up to date, if there is one.
pub fn change(queue: &Queue, allocated: &Amounts) -> Option<Value> {
    let before = queue.status.as_ref().and_then(|status| status.allocated.clone()).unwrap_or_default();
    let after: ResourceList =
        allocated.iter().map(|(name, amount)| (name.to_string(), Quantity(quantity(name, amount)))).collect();
    if before == after {
        return None;
    }
    // What is not used any more has to be taken out by name.
    let mut change: Map<String, Value> = before.into_keys().map(|name| (name, Value::Null)).collect();
    change.extend(after.into_iter().map(|(name, amount)| (name, json!(amount))));
    Some(json!({"status": {"allocated": change}}))
}
