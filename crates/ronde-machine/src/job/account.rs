//! Counts the ended pods of a job so that none is lost and none counts twice.
//!
//! Pure. A pod carries a finalizer until it is counted. Counting takes two writes of the status: the first names the
//! pods that are about to be counted, then the finalizers go, the second turns the names into numbers. Whatever
//! happens in between, the next round finds out from the names and the finalizers how far the last one came:
//! calling [`account`] again after each write leads to the end. A verdict is announced before, and stated after all
//! pods are counted and gone.

use std::{collections::BTreeSet, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::api::{
    batch::v1::{JobCondition, JobStatus, UncountedTerminatedPods},
    core::v1::Pod,
};
use ronde_runtime::pods::{self, count, is_ready, phase};

use super::{
    census::{Census, Observed, is_in, number, uid, uids},
    policy::{self, Failure},
    template::is_tracked,
    verdict::{self, SUSPENDED, Verdict},
};

/// How many pods a status may name; keeps it below 20 KB.
pub const UNCOUNTED_MAX: usize = 500;

/// What is to be written: the status, then the finalizers that go.
#[derive(Debug, Clone, PartialEq)]
pub struct Account {
    pub status: JobStatus,
    pub untrack: Vec<Arc<Pod>>,
    /// What people are to be told when the status is written.
    pub news: Vec<JobEvent>,
}

/// Something that people want to know of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobEvent {
    Suspended,
    Resumed,
    Completed,
    TooManySucceeded,
    Failed(Verdict),
}

/// Accounts for the pods of a job as they are now.
pub fn account(observed: &Observed<'_>, now: Timestamp) -> Account {
    let census = Census::of_job(observed);
    // Pods that still run are deleted first: until then the job has not ended.
    let verdict = verdict::verdict(observed, &census, now).filter(|_| census.active.is_empty());
    let mut account = Account { status: observed.status(), untrack: Vec::new(), news: Vec::new() };
    account.describe(observed, &census, now);
    if verdict.is_none() && observed.job.metadata.deletion_timestamp.is_none() {
        account.note_suspension(observed, now);
    }
    account.settle(observed);
    account.count_ended(observed, &census, verdict.as_ref());
    if let Some(verdict) = verdict {
        account.conclude(observed, &census, &verdict, now);
    }
    account
}

impl Account {
    fn describe(&mut self, observed: &Observed<'_>, census: &Census, now: Timestamp) {
        let status = &mut self.status;
        status.active = count(census.active.len());
        status.ready = Some(number(census.active.iter().filter(|pod| is_ready(pod)).count()));
        status.terminating = Some(number(census.terminating.len()));
        if status.start_time.is_none() && !observed.is_suspended() {
            status.start_time = Some(pods::time(now));
        }
        if observed.is_indexed() {
            status.succeeded = Some(census.succeeded_indexes.len()).filter(|number| *number > 0);
            status.completed_indexes = Some(census.succeeded_indexes.to_string()).filter(|text| !text.is_empty());
            status.failed_indexes = census.failed_indexes.as_ref().map(ToString::to_string);
        }
    }

    fn note_suspension(&mut self, observed: &Observed<'_>, now: Timestamp) {
        let is_suspended = observed.is_suspended();
        let was = self.status.conditions.iter().flatten().find(|condition| condition.type_ == SUSPENDED);
        let was_suspended = was.is_some_and(|condition| condition.status == "True");
        if is_suspended == was_suspended {
            return;
        }
        let (status, reason, message, news) = if is_suspended {
            ("True", "JobSuspended", "Job suspended", JobEvent::Suspended)
        } else {
            ("False", "JobResumed", "Job resumed", JobEvent::Resumed)
        };
        self.put(new_condition(SUSPENDED, status, (reason, message), now));
        self.news.push(news);
        if !is_suspended {
            // The time in which a job is suspended is not part of its active time.
            self.status.start_time = Some(pods::time(now));
        }
    }

    /// Turns the names of pods whose finalizers have gone into numbers.
    fn settle(&mut self, observed: &Observed<'_>) {
        let tracked: BTreeSet<String> =
            observed.pods.iter().filter(|pod| is_tracked(pod)).map(|pod| uid(pod).to_owned()).collect();
        let uncounted = self.status.uncounted_terminated_pods.get_or_insert_default();
        let succeeded = take_untracked(&mut uncounted.succeeded, &tracked);
        let failed = take_untracked(&mut uncounted.failed, &tracked);
        add(&mut self.status.succeeded, succeeded);
        add(&mut self.status.failed, failed);
    }

    /// Names the pods that have ended since the last time, and lets go of all that are named.
    fn count_ended(&mut self, observed: &Observed<'_>, census: &Census, verdict: Option<&Verdict>) {
        let named = self.status.uncounted_terminated_pods.clone().unwrap_or_default();
        let (was_ok, was_bad) = (uids(named.succeeded), uids(named.failed));
        let mut names = was_ok.len() + was_bad.len();
        let mut new = UncountedTerminatedPods::default();
        let mut pods: Vec<&Arc<Pod>> = observed.pods.iter().filter(|pod| is_tracked(pod)).collect();
        pods.sort_by_key(|pod| observed.index(pod));
        for pod in pods {
            if names >= UNCOUNTED_MAX {
                break;
            }
            if !may_untrack(observed, census, pod, verdict.is_some()) {
                continue;
            }
            self.untrack.push(pod.clone());
            if is_in(&was_ok, pod) || is_in(&was_bad, pod) {
                continue;
            }
            names += 1;
            match end(observed, pod, verdict) {
                End::Success if !observed.is_indexed() => push(&mut new.succeeded, pod),
                End::Failure => push(&mut new.failed, pod),
                End::Success | End::None => {}
            }
        }
        let uncounted = self.status.uncounted_terminated_pods.get_or_insert_default();
        extend(&mut uncounted.succeeded, new.succeeded);
        extend(&mut uncounted.failed, new.failed);
    }

    /// Announces the end, or states it when everything is counted and gone.
    fn conclude(&mut self, observed: &Observed<'_>, census: &Census, verdict: &Verdict, now: Timestamp) {
        let (announced, stated) = verdict.conditions();
        let text = (verdict.reason.as_str(), verdict.message.as_str());
        if verdict::condition(&self.status, announced).is_none() {
            self.put(new_condition(announced, "True", text, now));
            return;
        }
        let uncounted = self.status.uncounted_terminated_pods.clone().unwrap_or_default();
        let is_counted = self.untrack.is_empty() && uncounted == UncountedTerminatedPods::default();
        if !is_counted || !census.terminating.is_empty() {
            return;
        }
        self.put(new_condition(stated, "True", text, now));
        if !verdict.is_success {
            self.news.push(JobEvent::Failed(verdict.clone()));
            return;
        }
        self.status.completion_time = Some(pods::time(now));
        if observed.spec.completions.is_some_and(|completions| self.status.succeeded.unwrap_or(0) > completions) {
            self.news.push(JobEvent::TooManySucceeded);
        }
        self.news.push(JobEvent::Completed);
    }

    fn put(&mut self, condition: JobCondition) {
        let conditions = self.status.conditions.get_or_insert_default();
        match conditions.iter_mut().find(|other| other.type_ == condition.type_) {
            Some(other) => *other = condition,
            None => conditions.push(condition),
        }
    }
}

/// As what an ended pod counts.
enum End {
    Success,
    Failure,
    None,
}

fn end(observed: &Observed<'_>, pod: &Pod, verdict: Option<&Verdict>) -> End {
    // When a job has failed, so has everything that has not ended.
    let is_failure = observed.has_failed(pod) || verdict.is_some_and(|verdict| !verdict.is_success);
    if phase(pod) == "Succeeded" {
        End::Success
    } else if is_failure && observed.is_valid(pod) && policy::judge(observed.spec, pod) != Failure::Ignored {
        End::Failure
    } else {
        End::None
    }
}

/// Tells whether a pod need not be kept for the sake of counting.
fn may_untrack(observed: &Observed<'_>, census: &Census, pod: &Pod, is_ended: bool) -> bool {
    let is_deleted = observed.job.metadata.deletion_timestamp.is_some();
    if is_deleted || is_ended || phase(pod) == "Succeeded" {
        return true;
    }
    // The failed pod of an index is kept until there is a new one, which takes over its count of failures.
    let is_waiting = || census.waiting.values().any(|waiting| uid(waiting) == uid(pod));
    observed.has_failed(pod) && !is_waiting()
}

fn new_condition(kind: &str, status: &str, (reason, message): (&str, &str), now: Timestamp) -> JobCondition {
    JobCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_probe_time: Some(pods::time(now)),
        last_transition_time: Some(pods::time(now)),
    }
}

/// Takes out the pods whose finalizers have gone and returns how many they are.
fn take_untracked(names: &mut Option<Vec<String>>, tracked: &BTreeSet<String>) -> usize {
    let Some(list) = names else { return 0 };
    let before = list.len();
    list.retain(|uid| tracked.contains(uid));
    let gone = before - list.len();
    if list.is_empty() {
        *names = None;
    }
    gone
}

fn add(counter: &mut Option<i32>, count: usize) {
    if count > 0 {
        *counter = Some(counter.unwrap_or(0).saturating_add(number(count)));
    }
}

fn push(names: &mut Option<Vec<String>>, pod: &Pod) {
    names.get_or_insert_default().push(uid(pod).to_owned());
}

fn extend(names: &mut Option<Vec<String>>, more: Option<Vec<String>>) {
    if let Some(more) = more {
        names.get_or_insert_default().extend(more);
    }
}
