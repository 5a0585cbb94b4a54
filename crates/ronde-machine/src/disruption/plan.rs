//! How many pods of a disruption budget may be evicted. Pure.

use std::{collections::BTreeMap, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{
        core::v1::Pod,
        policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus},
    },
    apimachinery::pkg::{
        apis::meta::v1::{Condition, OwnerReference, Time},
        util::intstr::IntOrString,
    },
};
use kube::ResourceExt as _;

use ronde_runtime::pods::{controller_of, is_deleted, is_ready, time};

/// How long an eviction that was allowed may take until its pod is really deleted.
const DELETION_TIMEOUT: SignedDuration = SignedDuration::from_mins(2);

/// What a budget comes to.
#[derive(Debug, PartialEq)]
pub struct BudgetPlan {
    pub status: PodDisruptionBudgetStatus,
    /// Pods whose eviction was allowed and did not happen.
    pub not_deleted: Vec<Arc<Pod>>,
    /// Pods that nothing controls, so that the number of those expected is not known.
    pub unmanaged: usize,
    /// When to look again at evictions that have not happened yet.
    pub look_again: Option<SignedDuration>,
}

/// Why a budget cannot be computed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    #[error("found no controllers for pod {0:?}")]
    Controller(String),
    #[error("invalid value for IntOrString: {0:?}")]
    Amount(String),
}

/// How many pods the controller of a pod wants, with the uid by which it is counted once.
pub type Scale<'a> = &'a dyn Fn(&OwnerReference) -> Option<(String, i32)>;

/// Computes the status of a budget over the pods that it selects.
///
/// # Errors
/// If the number of expected pods is needed and cannot be known.
pub fn plan(
    budget: &PodDisruptionBudget,
    pods: &[Arc<Pod>],
    scale: Scale<'_>,
    now: Timestamp,
) -> Result<BudgetPlan, Unknown> {
    let expected = expected(budget, pods, scale)?;
    let Disrupted { pending, not_deleted, look_again } = disrupted(budget, pods, now);
    let healthy =
        pods.iter().filter(|pod| !is_deleted(pod) && !pending.contains_key(&pod.name_any()) && is_ready(pod)).count();
    let current_healthy = i32::try_from(healthy).unwrap_or(i32::MAX);
    let allowed = current_healthy.saturating_sub(expected.healthy).max(0);
    let disruptions_allowed = if expected.pods > 0 { allowed } else { 0 };
    let reason = if disruptions_allowed > 0 { "SufficientPods" } else { "InsufficientPods" };
    let mut status = PodDisruptionBudgetStatus {
        current_healthy,
        desired_healthy: expected.healthy,
        expected_pods: expected.pods,
        disruptions_allowed,
        disrupted_pods: Some(pending).filter(|pending| !pending.is_empty()),
        observed_generation: budget.metadata.generation,
        conditions: budget.status.as_ref().and_then(|status| status.conditions.clone()),
    };
    set_condition(&mut status, disruptions_allowed > 0, (reason, ""), now);
    Ok(BudgetPlan { status, not_deleted, unmanaged: expected.unmanaged, look_again })
}

/// Returns the status of a budget that cannot be computed: nothing may be evicted.
pub fn failed(budget: &PodDisruptionBudget, why: &Unknown, now: Timestamp) -> PodDisruptionBudgetStatus {
    let mut status = budget.status.clone().unwrap_or_default();
    status.disruptions_allowed = 0;
    set_condition(&mut status, false, ("SyncFailed", &why.to_string()), now);
    status
}

struct Expected {
    pods: i32,
    healthy: i32,
    unmanaged: usize,
}

fn expected(budget: &PodDisruptionBudget, pods: &[Arc<Pod>], scale: Scale<'_>) -> Result<Expected, Unknown> {
    let Some(spec) = &budget.spec else { return Ok(Expected { pods: 0, healthy: 0, unmanaged: 0 }) };
    if let Some(IntOrString::Int(least)) = &spec.min_available {
        let pods = i32::try_from(pods.len()).unwrap_or(i32::MAX);
        return Ok(Expected { pods, healthy: *least, unmanaged: 0 });
    }
    if spec.max_unavailable.is_none() && spec.min_available.is_none() {
        return Ok(Expected { pods: 0, healthy: 0, unmanaged: 0 });
    }
    let mut scales = BTreeMap::new();
    let mut unmanaged = 0;
    for pod in pods {
        let Some(owner) = controller_of(&pod.metadata) else {
            unmanaged += 1;
            continue;
        };
        let (uid, wanted) = scale(owner).ok_or_else(|| Unknown::Controller(pod.name_any()))?;
        scales.insert(uid, wanted);
    }
    let pods = scales.values().fold(0_i32, |sum, wanted| sum.saturating_add(*wanted));
    let healthy = match (&spec.max_unavailable, &spec.min_available) {
        (Some(most), _) => pods.saturating_sub(amount(most, pods)?).max(0),
        (None, Some(least)) => amount(least, pods)?,
        (None, None) => 0,
    };
    Ok(Expected { pods, healthy, unmanaged })
}

/// Returns a number, or a percentage of the whole, rounded up.
fn amount(amount: &IntOrString, whole: i32) -> Result<i32, Unknown> {
    match amount {
        IntOrString::Int(number) => Ok(*number),
        IntOrString::String(text) => {
            let percent = text.strip_suffix('%').and_then(|percent| percent.parse::<i32>().ok());
            let percent = percent.ok_or_else(|| Unknown::Amount(text.clone()))?;
            let part = (i64::from(percent) * i64::from(whole)).div_euclid(100);
            let rest = (i64::from(percent) * i64::from(whole)).rem_euclid(100);
            Ok(i32::try_from(part + i64::from(rest > 0)).unwrap_or(i32::MAX))
        }
    }
}

struct Disrupted {
    pending: BTreeMap<String, Time>,
    not_deleted: Vec<Arc<Pod>>,
    look_again: Option<SignedDuration>,
}

/// Sorts out the evictions that the API server has noted.
fn disrupted(budget: &PodDisruptionBudget, pods: &[Arc<Pod>], now: Timestamp) -> Disrupted {
    let mut sorted = Disrupted { pending: BTreeMap::new(), not_deleted: Vec::new(), look_again: None };
    let Some(noted) = budget.status.as_ref().and_then(|status| status.disrupted_pods.as_ref()) else { return sorted };
    for pod in pods.iter().filter(|pod| !is_deleted(pod)) {
        let Some(since) = noted.get(&pod.name_any()) else { continue };
        let left = DELETION_TIMEOUT - now.duration_since(since.0);
        if left.is_positive() {
            sorted.look_again = Some(sorted.look_again.map_or(left, |sooner| sooner.min(left)));
            sorted.pending.insert(pod.name_any(), since.clone());
        } else {
            sorted.not_deleted.push(pod.clone());
        }
    }
    sorted
}

fn set_condition(status: &mut PodDisruptionBudgetStatus, allowed: bool, because: (&str, &str), now: Timestamp) {
    let conditions = status.conditions.get_or_insert_default();
    let known = conditions.iter().position(|condition| condition.type_ == "DisruptionAllowed");
    let before = known.map(|index| conditions.remove(index));
    let value = if allowed { "True" } else { "False" };
    let since = before.filter(|before| before.status == value).map(|before| before.last_transition_time);
    conditions.push(Condition {
        type_: "DisruptionAllowed".to_owned(),
        status: value.to_owned(),
        reason: because.0.to_owned(),
        message: because.1.to_owned(),
        observed_generation: status.observed_generation,
        last_transition_time: since.unwrap_or_else(|| time(now)),
    });
}
