//! How far a rollout may go above and below the number of replicas.

use k8s_openapi::{
    api::apps::v1::{Deployment, ReplicaSet},
    apimachinery::pkg::util::intstr::IntOrString,
};

/// The numbers that a deployment's pods are kept between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub replicas: i32,
    pub max_surge: i32,
    pub max_unavailable: i32,
}

impl Limits {
    /// Returns the limits of a deployment; one that recreates its pods has neither surge nor slack.
    pub fn of_deployment(deployment: &Deployment) -> Self {
        let spec = deployment.spec.as_ref();
        let replicas = spec.and_then(|spec| spec.replicas).unwrap_or(1);
        let strategy = spec.and_then(|spec| spec.strategy.as_ref());
        if !is_rolling(deployment) {
            return Self { replicas, max_surge: 0, max_unavailable: 0 };
        }
        let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
        let max_surge = resolve(rolling.and_then(|rolling| rolling.max_surge.as_ref()), replicas, Round::Up);
        let unavailable = rolling.and_then(|rolling| rolling.max_unavailable.as_ref());
        let mut max_unavailable = resolve(unavailable, replicas, Round::Down);
        // Percentages may both round to nothing, which would leave no way to go.
        if max_surge == 0 && max_unavailable == 0 {
            max_unavailable = 1;
        }
        Self { replicas, max_surge, max_unavailable: max_unavailable.min(replicas) }
    }

    /// Returns how many pods there may be at most.
    pub fn most(&self) -> i32 {
        self.replicas.saturating_add(self.max_surge)
    }

    /// Returns how many pods have to be available.
    pub fn least_available(&self) -> i32 {
        self.replicas - self.max_unavailable
    }
}

/// Tells whether a deployment replaces its pods bit by bit.
pub fn is_rolling(deployment: &Deployment) -> bool {
    let strategy = deployment.spec.as_ref().and_then(|spec| spec.strategy.as_ref());
    strategy.and_then(|strategy| strategy.type_.as_deref()) != Some("Recreate")
}

/// Returns how many replicas a set is asked to have.
pub fn replicas(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

enum Round {
    Up,
    Down,
}

fn resolve(value: Option<&IntOrString>, total: i32, round: Round) -> i32 {
    match value {
        None => 0,
        Some(IntOrString::Int(number)) => *number,
        Some(IntOrString::String(text)) => {
            let percent: i64 = text.strip_suffix('%').and_then(|text| text.parse().ok()).unwrap_or(0);
            let hundredfold = percent.saturating_mul(i64::from(total));
            let extra = if matches!(round, Round::Up) { 99 } else { 0 };
            i32::try_from(hundredfold.saturating_add(extra) / 100).unwrap_or(i32::MAX)
        }
    }
}
