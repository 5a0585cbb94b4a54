//! What a job does next with its pods: which it makes, which it gives up.
//!
//! Pure; called by the controller in [`super`] before the pods are accounted for by [`super::account`].

use std::{collections::BTreeMap, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use ronde_runtime::pods::{backoff, is_deleted, phase, rank::rank};

use super::{
    census::{Census, Observed, number, uid},
    template::{self, all_failures, index, is_tracked},
    verdict,
};

/// Pods that are made or deleted in one go.
pub const BURST_MAX: usize = 500;

/// What is to be done with the pods of a job.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JobPlan {
    pub create: Vec<Pod>,
    /// To be deleted and counted as failed.
    pub fail: Vec<Arc<Pod>>,
    /// To be deleted without being counted.
    pub give_up: Vec<Arc<Pod>>,
    pub look_again: Option<SignedDuration>,
}

/// Decides what a job does next with its pods.
pub fn plan(observed: &Observed<'_>, now: Timestamp) -> JobPlan {
    let census = Census::of_job(observed);
    let mut plan = if verdict::verdict(observed, &census, now).is_some() {
        JobPlan { fail: census.active, ..JobPlan::default() }
    } else if observed.job.metadata.deletion_timestamp.is_some() {
        JobPlan::default()
    } else if observed.is_suspended() {
        JobPlan { give_up: census.active, ..JobPlan::default() }
    } else {
        let surplus = surplus(observed, &census, now);
        if surplus.is_empty() {
            fill(observed, &census, now)
        } else {
            JobPlan { give_up: surplus, ..JobPlan::default() }
        }
    };
    let deadline = verdict::deadline_in(observed, now).filter(SignedDuration::is_positive);
    plan.look_again = plan.look_again.into_iter().chain(deadline).min();
    plan
}

/// Returns how many pods are to be active.
fn wanted(observed: &Observed<'_>, census: &Census) -> i32 {
    let parallelism = observed.spec.parallelism.unwrap_or(1);
    match observed.spec.completions {
        // Without a number of completions the first success ends the making of pods.
        None if census.succeeded > 0 => number(census.active.len()),
        None => parallelism,
        Some(completions) => (completions - census.succeeded).clamp(0, parallelism),
    }
}

/// Returns the pods that are too many, or have an index that they should not have.
fn surplus(observed: &Observed<'_>, census: &Census, now: Timestamp) -> Vec<Arc<Pod>> {
    let excess = number(census.active.len()) - wanted(observed, census);
    let excess = usize::try_from(excess).unwrap_or(0);
    let mut pods = census.active.clone();
    pods.sort_by_cached_key(|pod| rank(pod, 0, now));
    let mut surplus: Vec<Arc<Pod>> = Vec::new();
    if observed.is_indexed() {
        // Of the pods with one index the one that would be kept longest stays.
        let kept: BTreeMap<i32, &str> =
            pods.iter().filter_map(|pod| observed.index(pod).map(|index| (index, uid(pod)))).collect();
        let is_kept = |pod: &Arc<Pod>| observed.index(pod).is_some_and(|index| kept.get(&index) == Some(&uid(pod)));
        (pods, surplus) = pods.iter().cloned().partition(is_kept);
    }
    surplus.extend(pods.into_iter().take(excess.saturating_sub(surplus.len())));
    surplus.truncate(BURST_MAX);
    surplus
}

/// Makes the pods that are missing, unless a failure has to be waited out.
fn fill(observed: &Observed<'_>, census: &Census, now: Timestamp) -> JobPlan {
    let terminating = if observed.replaces_only_failed() { census.terminating.len() } else { 0 };
    let missing = wanted(observed, census) - number(census.active.len() + terminating);
    let missing = usize::try_from(missing).unwrap_or(0).min(BURST_MAX);
    if missing == 0 {
        return JobPlan::default();
    }
    if observed.spec.backoff_limit_per_index.is_none() {
        let wait = wait(observed, now);
        if wait > SignedDuration::ZERO {
            return JobPlan { look_again: Some(wait), ..JobPlan::default() };
        }
    }
    if !observed.is_indexed() {
        let pod = template::build(observed.job, observed.spec);
        return JobPlan { create: vec![pod; missing], ..JobPlan::default() };
    }
    fill_indexes(observed, census, missing, now)
}

fn fill_indexes(observed: &Observed<'_>, census: &Census, missing: usize, now: Timestamp) -> JobPlan {
    let mut taken = census.succeeded_indexes.clone().with(census.active.iter().filter_map(|pod| index(pod)));
    if observed.replaces_only_failed() {
        taken = taken.with(census.terminating.iter().filter_map(|pod| index(pod)));
    }
    let taken = taken.union(&census.failed_indexes.clone().unwrap_or_default());
    let mut plan = JobPlan::default();
    for index in taken.first_missing(observed.spec.completions.unwrap_or(0), missing) {
        let before = census.waiting.get(&index);
        let wait = before.map_or(SignedDuration::ZERO, |pod| {
            let failures = usize::try_from(all_failures(pod)).unwrap_or(0) + 1;
            backoff::wait(failures, backoff::finished_at(pod), now)
        });
        if wait > SignedDuration::ZERO {
            plan.look_again = plan.look_again.into_iter().chain([wait]).min();
        } else {
            let before = before.map(AsRef::as_ref);
            plan.create.push(template::build_index(observed.job, observed.spec, index, before));
        }
    }
    plan
}

/// Pods that were given up are gone without having failed: they are being deleted, and not counted any more.
fn wait(observed: &Observed<'_>, now: Timestamp) -> SignedDuration {
    let is_real = |pod: &&Arc<Pod>| is_tracked(pod) || !is_deleted(pod);
    let failed: Vec<_> = observed.pods.iter().filter(|pod| observed.has_failed(pod)).filter(is_real).collect();
    let succeeded: Vec<_> = observed.pods.iter().filter(|pod| phase(pod) == "Succeeded").collect();
    backoff::remaining(&failed, &succeeded, now)
}
