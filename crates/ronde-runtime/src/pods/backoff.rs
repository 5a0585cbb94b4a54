//! How long a job waits after failures: 10 s, twice as long after each further one, at most 10 minutes.
//!
//! Pure, and computed from the pods that are there, so that a restart of the controller forgets nothing.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use crate::pods::condition;

const FIRST: SignedDuration = SignedDuration::from_secs(10);
const LONGEST: SignedDuration = SignedDuration::from_mins(10);
/// 10 s doubled six times is more than the longest wait.
const DOUBLINGS_MAX: u32 = 6;

/// Returns how long to wait after the last of these failures; a success begins a new count.
pub fn remaining(failed: &[&Arc<Pod>], succeeded: &[&Arc<Pod>], now: Timestamp) -> SignedDuration {
    let last_success = succeeded.iter().map(|pod| finished_at(pod)).max();
    let after = |time: &Timestamp| last_success.is_none_or(|last| *time > last);
    let failures: Vec<Timestamp> = failed.iter().map(|pod| finished_at(pod)).filter(after).collect();
    failures.iter().max().map_or(SignedDuration::ZERO, |last| wait(failures.len(), *last, now))
}

/// Returns how long to wait after this many failures in a row.
pub fn wait(failures: usize, last: Timestamp, now: Timestamp) -> SignedDuration {
    if failures == 0 {
        return SignedDuration::ZERO;
    }
    let doublings = u32::try_from(failures - 1).unwrap_or(DOUBLINGS_MAX).min(DOUBLINGS_MAX);
    let whole = (FIRST * (1 << doublings)).min(LONGEST);
    (last.duration_since(now) + whole).max(SignedDuration::ZERO)
}

/// Returns when a pod has ended, as far as it can be told.
pub fn finished_at(pod: &Pod) -> Timestamp {
    let not_ready = condition(pod, "Ready").filter(|ready| ready.status == "False");
    let not_ready = not_ready.and_then(|ready| ready.last_transition_time.as_ref()).map(|time| time.0);
    let meta = &pod.metadata;
    let grace = SignedDuration::from_secs(meta.deletion_grace_period_seconds.unwrap_or(0));
    let deleted = meta.deletion_timestamp.as_ref().map(|time| time.0 - grace);
    let created = meta.creation_timestamp.as_ref().map(|time| time.0);
    containers_finished_at(pod).or(not_ready).or(deleted).or(created).unwrap_or_default()
}

/// Returns when the last container has ended, if all of them have; those that run beside the others count too.
fn containers_finished_at(pod: &Pod) -> Option<Timestamp> {
    let status = pod.status.as_ref()?;
    let is_beside = |status: &&ContainerStatus| {
        let containers = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
        let mut named = containers.filter(|container| container.name == status.name);
        named.any(|container| container.restart_policy.as_deref() == Some("Always"))
    };
    let beside = status.init_container_statuses.iter().flatten().filter(is_beside);
    let statuses = status.container_statuses.iter().flatten().chain(beside);
    let ended = |status: &ContainerStatus| {
        let terminated = status.state.as_ref()?.terminated.as_ref()?;
        terminated.finished_at.as_ref().map(|time| time.0)
    };
    statuses.map(ended).collect::<Option<Vec<_>>>()?.into_iter().max()
}
