//! What a failed pod means to its job, and when some successes are enough.
//!
//! Pure. Messages are those of Kubernetes.

use k8s_openapi::api::{
    batch::v1::{JobSpec, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyRule},
    core::v1::{ContainerStatus, Pod},
};
use kube::ResourceExt as _;

use ronde_runtime::indexes::Indexes;

/// What a failed pod means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// It counts towards the limit.
    Counts,
    /// It does not count.
    Ignored,
    /// The index of the pod has failed for good.
    FailsIndex,
    /// The job has failed for good, with this message.
    FailsJob(String),
}

/// Finds the first rule for a failed pod; without one the failure counts.
pub fn judge(spec: &JobSpec, pod: &Pod) -> Failure {
    let rules = spec.pod_failure_policy.iter().flat_map(|policy| &policy.rules).enumerate();
    for (index, rule) in rules {
        let Some(what) = matching(rule, pod) else { continue };
        return match rule.action.as_str() {
            "Ignore" => Failure::Ignored,
            "FailIndex" => Failure::FailsIndex,
            "FailJob" => Failure::FailsJob(format!("{what} matching FailJob rule at index {index}")),
            "Count" => Failure::Counts,
            _ => continue,
        };
    }
    Failure::Counts
}

/// Says by what a pod matches a rule.
fn matching(rule: &PodFailurePolicyRule, pod: &Pod) -> Option<String> {
    let name = format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
    let status = pod.status.as_ref()?;
    if let Some(codes) = &rule.on_exit_codes {
        let mut statuses = status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
        let (container, code) = statuses.find_map(|one| exit_code(one, codes).map(|code| (&one.name, code)))?;
        return Some(format!("Container {container} for pod {name} failed with exit code {code}"));
    }
    let patterns = rule.on_pod_conditions.as_ref()?;
    let matches =
        |kind: &str, status: &str| patterns.iter().any(|pattern| pattern.type_ == kind && pattern.status == status);
    let condition =
        status.conditions.iter().flatten().find(|condition| matches(&condition.type_, &condition.status))?;
    Some(format!("Pod {name} has condition {}", condition.type_))
}

/// Returns the exit code of a container that a rule is about.
fn exit_code(status: &ContainerStatus, rule: &PodFailurePolicyOnExitCodesRequirement) -> Option<i32> {
    let code = status.state.as_ref()?.terminated.as_ref()?.exit_code;
    let is_named = rule.container_name.as_ref().is_none_or(|name| *name == status.name);
    let is_listed = rule.values.contains(&code);
    let is_meant = match rule.operator.as_str() {
        "In" => is_listed,
        "NotIn" => !is_listed,
        _ => false,
    };
    (is_named && code != 0 && is_meant).then_some(code)
}

/// Returns the message of the first rule by which these successes are enough.
pub fn success(spec: &JobSpec, succeeded: &Indexes) -> Option<String> {
    let policy = spec.success_policy.as_ref().filter(|_| !succeeded.is_empty())?;
    let completions = spec.completions.unwrap_or(0);
    let is_met = |indexes: Option<&String>, number: Option<i32>| match indexes {
        None => number.is_some_and(|number| succeeded.len() >= number),
        Some(text) => {
            let wanted = Indexes::parse(text, completions);
            let has = wanted.overlap(succeeded);
            !wanted.is_empty() && (has == wanted.len() || number.is_some_and(|number| has >= number))
        }
    };
    let rule = policy.rules.iter().position(|rule| is_met(rule.succeeded_indexes.as_ref(), rule.succeeded_count))?;
    Some(format!("Matched rules at index {rule}"))
}
