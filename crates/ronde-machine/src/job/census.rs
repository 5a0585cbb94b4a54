//! The pods of a job, counted: what runs, what has ended, what of it the status does not know yet.
//!
//! Pure; read by [`super::plan`] and [`super::account`].

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::api::{
    batch::v1::{Job, JobSpec, JobStatus},
    core::v1::Pod,
};
use ronde_runtime::indexes::Indexes;
use ronde_runtime::pods::{backoff::finished_at, is_active, is_deleted, is_terminating, phase};

use super::{
    policy::{self, Failure},
    template::{all_failures, failures, index, is_tracked},
};

/// A job and its pods.
#[derive(Debug, Clone)]
pub struct Observed<'a> {
    pub job: &'a Job,
    pub spec: &'a JobSpec,
    pub pods: Vec<Arc<Pod>>,
}

impl Observed<'_> {
    pub fn is_indexed(&self) -> bool {
        self.spec.completion_mode.as_deref() == Some("Indexed")
    }

    pub fn is_suspended(&self) -> bool {
        self.spec.suspend == Some(true)
    }

    /// Tells whether a pod is replaced only after it has ended, not when its deletion begins.
    pub fn replaces_only_failed(&self) -> bool {
        self.spec.pod_failure_policy.is_some() || self.spec.pod_replacement_policy.as_deref() == Some("Failed")
    }

    /// Tells whether a pod has failed, or will never end in another way.
    pub fn has_failed(&self, pod: &Pod) -> bool {
        phase(pod) == "Failed" || !self.replaces_only_failed() && is_deleted(pod) && phase(pod) != "Succeeded"
    }

    /// Tells whether a pod can be counted: in an indexed job only one with an index of its can.
    pub fn is_valid(&self, pod: &Pod) -> bool {
        !self.is_indexed() || self.index(pod).is_some()
    }

    /// Returns the index of a pod, if the job has it.
    pub fn index(&self, pod: &Pod) -> Option<i32> {
        index(pod).filter(|index| *index < self.spec.completions.unwrap_or(0))
    }

    pub fn status(&self) -> JobStatus {
        self.job.status.clone().unwrap_or_default()
    }
}

/// The pods of a job, sorted and counted.
#[derive(Debug, Clone)]
pub struct Census {
    pub active: Vec<Arc<Pod>>,
    pub terminating: Vec<Arc<Pod>>,
    /// Successes: what the status has, and what it has not yet.
    pub succeeded: i32,
    /// Failures that count, likewise.
    pub failed: i32,
    pub succeeded_indexes: Indexes,
    /// Of a job that limits the failures of each index.
    pub failed_indexes: Option<Indexes>,
    /// The last failed pod of each index that waits for a new one, to which it will hand down its count of failures.
    pub waiting: BTreeMap<i32, Arc<Pod>>,
}

impl Census {
    pub fn of_job(observed: &Observed<'_>) -> Self {
        let status = observed.status();
        let uncounted = status.uncounted_terminated_pods.clone().unwrap_or_default();
        let (uncounted_ok, uncounted_bad) = (uids(uncounted.succeeded), uids(uncounted.failed));
        let is_known = |pod: &Pod| is_in(&uncounted_ok, pod) || is_in(&uncounted_bad, pod);
        let new = |test: &dyn Fn(&Pod) -> bool| {
            let is_new = |pod: &&Arc<Pod>| is_tracked(pod) && observed.is_valid(pod) && !is_known(pod) && test(pod);
            observed.pods.iter().filter(is_new).count()
        };
        let is_counted = |pod: &Pod| observed.has_failed(pod) && policy::judge(observed.spec, pod) != Failure::Ignored;
        let mut census = Self {
            active: observed.pods.iter().filter(|pod| is_active(pod)).cloned().collect(),
            terminating: observed.pods.iter().filter(|pod| is_terminating(pod)).cloned().collect(),
            succeeded: status.succeeded.unwrap_or(0)
                + number(uncounted_ok.len() + new(&|pod| phase(pod) == "Succeeded")),
            failed: status.failed.unwrap_or(0) + number(uncounted_bad.len() + new(&is_counted)),
            succeeded_indexes: Indexes::default(),
            failed_indexes: None,
            waiting: BTreeMap::new(),
        };
        if observed.is_indexed() {
            census.count_indexes(observed, &status);
        }
        census
    }

    fn count_indexes(&mut self, observed: &Observed<'_>, status: &JobStatus) {
        let completions = observed.spec.completions.unwrap_or(0);
        let tracked = || observed.pods.iter().filter(|pod| is_tracked(pod));
        let before = Indexes::parse(status.completed_indexes.as_deref().unwrap_or_default(), completions);
        let succeeded = tracked().filter(|pod| phase(pod) == "Succeeded");
        self.succeeded_indexes = before.with(succeeded.filter_map(|pod| observed.index(pod)));
        self.succeeded = self.succeeded_indexes.len();
        let Some(limit) = observed.spec.backoff_limit_per_index else { return };
        let before = Indexes::parse(status.failed_indexes.as_deref().unwrap_or_default(), completions);
        let failed = tracked().filter(|pod| fails_index(observed, pod, limit));
        self.failed_indexes = Some(before.with(failed.filter_map(|pod| observed.index(pod))));
        self.find_waiting(observed);
    }

    fn find_waiting(&mut self, observed: &Observed<'_>) {
        let done = self.succeeded_indexes.clone().union(&self.failed_indexes.clone().unwrap_or_default());
        let done = done.with(self.active.iter().filter_map(|pod| index(pod)));
        for pod in observed.pods.iter().filter(|pod| is_tracked(pod) && observed.has_failed(pod)) {
            let Some(index) = observed.index(pod).filter(|index| !done.contains(*index)) else { continue };
            let is_later =
                |known: &Arc<Pod>| (all_failures(known), finished_at(known)) <= (all_failures(pod), finished_at(pod));
            if self.waiting.get(&index).is_none_or(is_later) {
                self.waiting.insert(index, pod.clone());
            }
        }
    }
}

/// Tells whether the failure of a pod is the last that its index may have.
fn fails_index(observed: &Observed<'_>, pod: &Pod, limit: i32) -> bool {
    observed.has_failed(pod)
        && match policy::judge(observed.spec, pod) {
            Failure::FailsIndex => true,
            Failure::Ignored => false,
            Failure::Counts | Failure::FailsJob(_) => failures(pod) >= limit,
        }
}

/// Returns the uid of a pod.
pub fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}

/// Tells whether a pod is in a set of uids.
pub fn is_in(uids: &BTreeSet<String>, pod: &Pod) -> bool {
    uids.contains(uid(pod))
}

/// Makes a set of a list of uids.
pub fn uids(list: Option<Vec<String>>) -> BTreeSet<String> {
    list.into_iter().flatten().collect()
}

/// Returns a number of pods as a status has it.
pub fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
