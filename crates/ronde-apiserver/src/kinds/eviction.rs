//! Whether a pod may be evicted, and what that does to its disruption budget.
//!
//! Pure: the caller finds the budgets of the namespace, stores the returned status before it deletes the pod, and
//! retries when one of the two has changed meanwhile.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    read::{items, number, object, text},
    selector,
};
use crate::error::{ApiError, Subject};

const DISRUPTED_PODS_MAX: usize = 2000;
const REFUSED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";
const RETRY_SECONDS: i64 = 10;

/// What to do about an eviction that is allowed.
#[derive(Debug, Clone, PartialEq)]
pub struct Eviction {
    /// The budget with its new status, to be stored first.
    pub budget: Option<Value>,
    /// The pod must be deleted only in the version that was looked at.
    pub only_this_version: bool,
}

/// Decides about the eviction of a pod; `budgets` are those of its namespace.
///
/// # Errors
/// With code 429 when the budget does not allow it now, 403 when it never will, 500 when there are two.
pub fn evict(pod: &Value, budgets: &[Value], now: Timestamp) -> Result<Eviction, ApiError> {
    let phase = text(&pod["status"]["phase"]);
    let is_ending = !pod["metadata"]["deletionTimestamp"].is_null() || matches!(phase, "Succeeded" | "Failed");
    if is_ending || phase == "Pending" {
        return Ok(Eviction { budget: None, only_this_version: !is_ending });
    }
    let labels = &pod["metadata"]["labels"];
    let mut matching = budgets.iter().filter(|budget| {
        selector::is_valid(&budget["spec"]["selector"]) && selector::matches(&budget["spec"]["selector"], labels)
    });
    let Some(budget) = matching.next() else {
        return Ok(Eviction { budget: None, only_this_version: false });
    };
    if matching.next().is_some() {
        let message =
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        return Err(ApiError::new(500, "", message));
    }
    if !is_ready(pod) && is_unhealthy_allowed(budget) {
        return Ok(Eviction { budget: None, only_this_version: true });
    }
    check(budget)?;
    Ok(Eviction { budget: Some(with_disruption(budget, pod, now)), only_this_version: false })
}

/// Notes on a pod that it is being evicted; stored before it is deleted.
pub fn mark_evicted(pod: &mut Value, now: &str) {
    let condition = json!({
        "type": "DisruptionTarget", "status": "True",
        "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting",
    });
    super::pod::set_condition(pod, &condition, now);
}

fn is_ready(pod: &Value) -> bool {
    items(&pod["status"]["conditions"])
        .iter()
        .any(|condition| text(&condition["type"]) == "Ready" && text(&condition["status"]) == "True")
}

/// A pod that is not ready does no service whose loss a budget could count.
fn is_unhealthy_allowed(budget: &Value) -> bool {
    let (healthy, desired) = (number(&budget["status"]["currentHealthy"]), number(&budget["status"]["desiredHealthy"]));
    text(&budget["spec"]["unhealthyPodEvictionPolicy"]) == "AlwaysAllow" || (healthy >= desired && desired > 0)
}

fn check(budget: &Value) -> Result<(), ApiError> {
    let (name, status) = (text(&budget["metadata"]["name"]), &budget["status"]);
    if number(&status["observedGeneration"]) < number(&budget["metadata"]["generation"]) {
        let cause = format!("The disruption budget {name} is still being processed by the server.");
        return Err(refused(&cause, RETRY_SECONDS));
    }
    let allowed = number(&status["disruptionsAllowed"]);
    let subject = Subject { group: "policy", what: "poddisruptionbudget", name };
    if allowed < 0 {
        return Err(ApiError::forbidden(subject, "pdb disruptions allowed is negative"));
    }
    if status["disruptedPods"].as_object().is_some_and(|pods| pods.len() > DISRUPTED_PODS_MAX) {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Err(ApiError::forbidden(subject, why));
    }
    if allowed == 0 {
        let cause = format!(
            "The disruption budget {name} needs {} healthy pods and has {} currently",
            number(&status["desiredHealthy"]),
            number(&status["currentHealthy"])
        );
        return Err(refused(&cause, 0));
    }
    Ok(())
}

fn refused(cause: &str, retry_seconds: i64) -> ApiError {
    let mut details = json!({"causes": [{"reason": "DisruptionBudget", "message": cause}]});
    if retry_seconds > 0 {
        details["retryAfterSeconds"] = retry_seconds.into();
    }
    ApiError::new(429, "TooManyRequests", REFUSED).with_details(details)
}

fn with_disruption(budget: &Value, pod: &Value, now: Timestamp) -> Value {
    let mut budget = budget.clone();
    let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let generation = budget["status"]["observedGeneration"].clone();
    let Some(status) = budget.as_object_mut().and_then(|budget| object(budget, "status")) else { return budget };
    let left = status.get("disruptionsAllowed").map(number).unwrap_or_default() - 1;
    status.insert("disruptionsAllowed".to_owned(), left.into());
    if let Some(pods) = object(status, "disruptedPods") {
        pods.insert(text(&pod["metadata"]["name"]).to_owned(), now.clone().into());
    }
    if left == 0 {
        let condition = json!({
            "type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": "",
            "observedGeneration": generation, "lastTransitionTime": now,
        });
        set_condition(status, condition);
    }
    budget
}

fn set_condition(status: &mut serde_json::Map<String, Value>, mut condition: Value) {
    let Some(list) = status.entry("conditions").or_insert_with(|| json!([])).as_array_mut() else { return };
    match list.iter_mut().find(|other| other["type"] == condition["type"]) {
        Some(before) => {
            if before["status"] == condition["status"] {
                condition["lastTransitionTime"] = before["lastTransitionTime"].clone();
            }
            *before = condition;
        }
        None => list.push(condition),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::{Eviction, evict};

    fn pod(phase: &str, ready: &str) -> Value {
        let conditions = json!([{"type": "Ready", "status": ready}]);
        json!({
            "metadata": {"name": "p", "labels": {"app": "web"}},
            "status": {"phase": phase, "conditions": conditions},
        })
    }

    fn budget(allowed: i64, healthy: i64) -> Value {
        json!({
            "metadata": {"name": "b", "generation": 1},
            "spec": {"selector": {"matchLabels": {"app": "web"}}},
            "status": {
                "observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": healthy, "desiredHealthy": 1,
            },
        })
    }

    fn ask(pod: &Value, budgets: &[Value]) -> Result<Eviction, (u16, String)> {
        evict(pod, budgets, Timestamp::UNIX_EPOCH).map_err(|error| {
            let details = error.details.map(|details| *details).unwrap_or_default();
            let cause = details["causes"][0]["message"].as_str().map(str::to_owned);
            (error.code, cause.unwrap_or(error.message))
        })
    }

    #[test]
    fn a_pod_without_budget_or_at_its_end_goes() {
        let free = |only_this_version| Ok(Eviction { budget: None, only_this_version });
        assert_eq!(ask(&pod("Running", "True"), &[]), free(false));
        assert_eq!(ask(&pod("Pending", "False"), &[budget(0, 0)]), free(true));
        assert_eq!(ask(&pod("Failed", "False"), &[budget(0, 0)]), free(false));
        assert_eq!(ask(&pod("Running", "False"), &[budget(0, 1)]), free(true), "unhealthy while enough are healthy");
    }

    #[test]
    fn a_budget_is_used_up() {
        let eviction = ask(&pod("Running", "True"), &[budget(1, 2)]).expect("allowed");
        let status = eviction.budget.expect("a changed budget")["status"].clone();
        assert_eq!(status["disruptionsAllowed"], 0);
        assert_eq!(status["disruptedPods"], json!({"p": "1970-01-01T00:00:00Z"}));
        assert_eq!(status["conditions"][0]["reason"], "InsufficientPods");
    }

    #[test]
    fn a_budget_refuses_in_the_words_of_the_real_server() {
        let refused = |code: u16, message: &str| Err((code, message.to_owned()));
        let ready = pod("Running", "True");
        let none = "The disruption budget b needs 1 healthy pods and has 1 currently";
        assert_eq!(ask(&ready, &[budget(0, 1)]), refused(429, none));
        let mut stale = budget(1, 2);
        stale["metadata"]["generation"] = 2.into();
        let busy = "The disruption budget b is still being processed by the server.";
        assert_eq!(ask(&ready, &[stale]), refused(429, busy));
        let never = "poddisruptionbudget.policy \"b\" is forbidden: pdb disruptions allowed is negative";
        assert_eq!(ask(&ready, &[budget(-1, 2)]), refused(403, never));
        let two = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        assert_eq!(ask(&ready, &[budget(1, 2), budget(1, 2)]), refused(500, two));
    }
}
