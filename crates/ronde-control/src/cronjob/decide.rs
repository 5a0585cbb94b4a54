//! Decides what comes next for a CronJob: another status or, when it says all there is to say, a plan. Pure.
//!
//! A run is listed in the status, with its time, before its job is made; a time that is in the status is not due again.
//! So nobody starts a run twice, and who is killed in between makes the job that is listed. After an outage one run
//! starts, for the last time that was due; all others are counted as missed.
//!
//! ```text
//! due ──▶ listed without uid ──▶ listed with uid ──▶ ended: history
//!   │         │                       └── deleted, or replaced by the next run
//!   │         └── refused until its deadline or the next run: missed
//!   └── waits for the end of the last run (Forbid), or missed
//! ```

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    Resource,
    api::core::v1::ObjectReference,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::ResourceExt as _;
use ronde_api::{
    ConcurrencyPolicy, CronJob, CronJobStatus, Job, JobPhase, names,
    schedule::{Schedule, time_zone},
};
use ronde_runtime::pods::controller_ref;

use crate::reconcile::{JobEvent, Step, apply::FAILED_CREATE};

/// How many missed runs are counted at once; an outage of a week of a run a minute. More are not worth the time.
const MISSED_MAX: usize = 10_080;
/// A deadline is over when the second after it has begun.
const SECOND: SignedDuration = SignedDuration::from_secs(1);

/// Reasons of states and events: those of Kubernetes, but for the first.
pub const INVALID: &str = "InvalidCronJob";
pub const ALREADY_ACTIVE: &str = "JobAlreadyActive";
pub const MISSED: &str = "MissSchedule";
pub const SAW_COMPLETED: &str = "SawCompletedJob";

/// A CronJob and everything that a decision about it is made from.
#[derive(Debug, Clone)]
pub struct ObservedCron<'a> {
    pub cron: &'a CronJob,
    /// Its jobs.
    pub jobs: Vec<Arc<Job>>,
    /// What is wrong with it.
    pub faults: Vec<String>,
    /// Why the API refuses to make a job.
    pub refusal: Option<String>,
}

/// What is to be done for a CronJob.
#[derive(Debug, Clone, Default)]
pub struct CronJobPlan {
    /// First these.
    pub delete: Vec<Arc<Job>>,
    pub create: Option<Job>,
    /// When to look again even if nothing changes.
    pub look_again: Option<SignedDuration>,
}

/// Decides the next step.
pub fn decide(seen: &ObservedCron<'_>, now: Timestamp) -> Step<CronJobStatus, CronJobPlan> {
    let before = seen.cron.status.clone().unwrap_or_default();
    let mut next = Next { seen, now, status: before.clone(), events: Vec::new() };
    // 1. what has ended
    next.note_ends();
    // 2. what is due
    if let Some(schedule) = seen.schedule() {
        next.give_up_late_run();
        next.note_due_runs(&schedule);
    }
    // 3. why something does not start
    next.say_why();
    let Next { status, mut events, .. } = next;
    if status == before && seen.cron.status.is_some() {
        return Step::Apply(Box::new(plan(seen, &status, now)));
    }
    // Every refused attempt has its own event.
    if status.message != before.message && !status.message.is_empty() && status.reason != FAILED_CREATE {
        events.push(match status.reason.as_str() {
            INVALID => JobEvent::warning(&status.reason, &status.message),
            _ => JobEvent::normal(&status.reason, &status.message),
        });
    }
    Step::Write { status: Box::new(status), events }
}

/// A status in the making.
struct Next<'a> {
    seen: &'a ObservedCron<'a>,
    now: Timestamp,
    status: CronJobStatus,
    events: Vec<JobEvent>,
}

impl Next<'_> {
    fn note_ends(&mut self) {
        for job in self.seen.jobs.iter().filter(|job| is_final(job)) {
            let name = job.name_any();
            if self.status.active.iter().any(|entry| entry.name.as_ref() == Some(&name)) {
                let message = format!("saw completed job: {name}, status: {}", phase(job));
                self.events.push(JobEvent::normal(SAW_COMPLETED, message));
            }
            let end = job.status.as_ref().and_then(|status| status.state.last_transition_time.as_ref());
            let last = self.status.last_successful_time.as_ref().map(|time| time.0);
            if phase(job) == JobPhase::Completed && end.map(|time| time.0) > last {
                self.status.last_successful_time = end.cloned();
            }
        }
        let is_made = |entry: &ObjectReference| self.seen.jobs.iter().any(|job| Some(job.name_any()) == entry.name);
        self.status.active.retain(|entry| entry.uid.is_none() && !is_made(entry));
        let there = self.seen.jobs.iter().filter(|job| !is_final(job)).map(|job| reference(job));
        self.status.active.extend(there);
        self.status.active.sort_by_key(|entry| (self.seen.minutes(entry), entry.name.clone()));
    }

    /// Gives up a run whose job could not be made in time.
    fn give_up_late_run(&mut self) {
        let Some(due) = self.status.last_schedule_time.as_ref().map(|time| time.0) else { return };
        if self.seen.is_late(due, self.now) && self.drop_unmade() > 0 {
            self.miss(1, due);
        }
    }

    fn note_due_runs(&mut self, schedule: &Schedule) {
        let after = base(self.seen.cron, &self.status);
        let Some(due) = schedule.last_between(after, self.now).filter(|_| !self.seen.cron.spec.is_suspended()) else {
            return;
        };
        let count = i64::try_from(schedule.count_between(after, due, MISSED_MAX)).unwrap_or(i64::MAX).max(1);
        if self.seen.is_late(due, self.now) {
            self.miss(count, due);
        } else if !self.waits_for_end() {
            let missed = count - 1 + self.drop_unmade();
            if missed > 0 {
                let last = schedule.last_between(after, due - SECOND);
                self.miss(missed, last.or(self.last_scheduled()).unwrap_or(after));
            }
            self.status.active.push(self.seen.entry(due));
            self.status.last_schedule_time = Some(Time(due));
        }
    }

    fn waits_for_end(&self) -> bool {
        let is_forbidden = self.seen.cron.spec.concurrency_policy() == ConcurrencyPolicy::Forbid;
        is_forbidden && self.status.active.iter().any(|entry| entry.uid.is_some())
    }

    fn last_scheduled(&self) -> Option<Timestamp> {
        self.status.last_schedule_time.as_ref().map(|time| time.0)
    }

    fn drop_unmade(&mut self) -> i64 {
        let before = self.status.active.len();
        self.status.active.retain(|entry| entry.uid.is_some());
        i64::try_from(before - self.status.active.len()).unwrap_or(0)
    }

    fn miss(&mut self, count: i64, last: Timestamp) {
        self.status.missed_runs = self.status.missed_runs.saturating_add(count);
        self.status.last_missed_time = Some(Time(last));
        let times = if count == 1 { "time" } else { "times" };
        let message = format!("missed scheduled time to start a job {count} {times}, last at {last}");
        self.events.push(JobEvent::warning(MISSED, message));
    }

    fn say_why(&mut self) {
        let is_waiting = |entry: &ObjectReference| entry.uid.is_none();
        let (reason, message) = if !self.seen.faults.is_empty() {
            (INVALID, self.seen.faults.join("; "))
        } else if let Some(refusal) = self.seen.refusal.as_ref().filter(|_| self.status.active.iter().any(is_waiting)) {
            (FAILED_CREATE, refusal.clone())
        } else if let Some(due) = self.waiting_run() {
            let active: Vec<&str> = self.status.active.iter().filter_map(|entry| entry.name.as_deref()).collect();
            (ALREADY_ACTIVE, format!("the run of {due} waits for the end of `{}`", active.join("`, `")))
        } else {
            ("", String::new())
        };
        (self.status.reason, self.status.message) = (reason.to_owned(), message);
    }

    /// Returns the time of a run that is due and waits for the end of another.
    fn waiting_run(&self) -> Option<Timestamp> {
        let after = base(self.seen.cron, &self.status);
        let is_suspended = self.seen.cron.spec.is_suspended();
        self.seen.schedule()?.last_between(after, self.now).filter(|_| !is_suspended)
    }
}

/// Returns the time up to which all runs are accounted for.
fn base(cron: &CronJob, status: &CronJobStatus) -> Timestamp {
    let times = [&cron.metadata.creation_timestamp, &status.last_schedule_time, &status.last_missed_time];
    times.into_iter().flatten().map(|time| time.0).max().unwrap_or(Timestamp::UNIX_EPOCH)
}

fn plan(seen: &ObservedCron<'_>, status: &CronJobStatus, now: Timestamp) -> CronJobPlan {
    let mut plan = CronJobPlan::default();
    let Some(schedule) = seen.schedule() else { return plan };
    let spec = &seen.cron.spec;
    let (unmade, made): (Vec<_>, Vec<_>) = status.active.iter().partition(|entry| entry.uid.is_none());
    let due = status.last_schedule_time.as_ref().map(|time| time.0);
    plan.delete = seen.surplus();
    let mut moments = Vec::new();
    if let (Some(due), false, false) = (due, unmade.is_empty(), spec.is_suspended()) {
        plan.create = Some(seen.build(due));
        if spec.concurrency_policy() == ConcurrencyPolicy::Replace {
            let is_replaced = |job: &&Arc<Job>| made.iter().any(|entry| entry.uid == job.uid());
            plan.delete.extend(seen.jobs.iter().filter(is_replaced).cloned());
        }
        moments.extend(seen.deadline().and_then(|deadline| due.checked_add(deadline + SECOND).ok()));
    }
    if !spec.is_suspended() {
        let after = base(seen.cron, status);
        moments.extend(schedule.next_after(schedule.last_between(after, now).unwrap_or(after)));
    }
    plan.delete.retain(|job| job.metadata.deletion_timestamp.is_none());
    plan.look_again = moments.into_iter().min().map(|moment| moment.duration_since(now).max(SignedDuration::ZERO));
    plan
}

impl ObservedCron<'_> {
    /// Returns the schedule; none if nothing is to start any more.
    fn schedule(&self) -> Option<Schedule> {
        let is_alive = self.faults.is_empty() && self.cron.metadata.deletion_timestamp.is_none();
        Schedule::parse(&self.cron.spec.schedule, self.cron.spec.time_zone()).ok().filter(|_| is_alive)
    }

    fn deadline(&self) -> Option<SignedDuration> {
        self.cron.spec.starting_deadline_seconds.map(SignedDuration::from_secs)
    }

    fn is_late(&self, due: Timestamp, now: Timestamp) -> bool {
        self.deadline().is_some_and(|deadline| now.duration_since(due) > deadline)
    }

    /// Returns the minute that a listed job was made for.
    fn minutes(&self, entry: &ObjectReference) -> Option<i64> {
        names::cron_minutes(&self.cron.name_any(), entry.name.as_deref()?)
    }

    fn job_name(&self, due: Timestamp) -> String {
        names::cron_job(&self.cron.name_any(), due.as_second().div_euclid(60))
    }

    /// Returns how a run is listed whose job is to be made.
    fn entry(&self, due: Timestamp) -> ObjectReference {
        ObjectReference { name: Some(self.job_name(due)), namespace: self.cron.namespace(), ..job_reference() }
    }

    fn build(&self, due: Timestamp) -> Job {
        let template = &self.cron.spec.job_template;
        let mut annotations = template.metadata.annotations.clone().unwrap_or_default();
        annotations.insert(names::SCHEDULED_AT.to_owned(), self.local_time(due));
        let metadata = ObjectMeta {
            name: Some(self.job_name(due)),
            namespace: self.cron.namespace(),
            labels: template.metadata.labels.clone(),
            annotations: Some(annotations),
            owner_references: Some(vec![controller_ref(self.cron)]),
            ..ObjectMeta::default()
        };
        Job { metadata, spec: template.spec.clone(), status: None }
    }

    /// Writes a time as it is in the zone of the schedule.
    fn local_time(&self, due: Timestamp) -> String {
        let zone = self.cron.spec.time_zone().and_then(|zone| time_zone(zone).ok());
        zone.map_or_else(|| due.to_string(), |zone| due.to_zoned(zone).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string())
    }

    /// Returns the jobs that have ended and are too many to be kept, the oldest first.
    fn surplus(&self) -> Vec<Arc<Job>> {
        let mut ended: Vec<&Arc<Job>> = self.jobs.iter().filter(|job| is_final(job)).collect();
        ended.sort_by_key(|job| (job.creation_timestamp().map(|time| time.0), job.name_any()));
        let (complete, failed): (Vec<_>, Vec<_>) = ended.into_iter().partition(|job| phase(job) == JobPhase::Completed);
        let spec = &self.cron.spec;
        [(complete, spec.successful_jobs_history()), (failed, spec.failed_jobs_history())]
            .into_iter()
            .flat_map(|(jobs, kept)| jobs.into_iter().rev().skip(kept).cloned().collect::<Vec<_>>().into_iter().rev())
            .collect()
    }
}

fn reference(job: &Job) -> ObjectReference {
    ObjectReference { name: Some(job.name_any()), namespace: job.namespace(), uid: job.uid(), ..job_reference() }
}

fn job_reference() -> ObjectReference {
    let (api_version, kind) = (Some(Job::API_VERSION.to_owned()), Some(Job::KIND.to_owned()));
    ObjectReference { api_version, kind, ..ObjectReference::default() }
}

fn phase(job: &Job) -> JobPhase {
    job.status.as_ref().and_then(|status| status.state.phase).unwrap_or(JobPhase::Pending)
}

/// A job that was aborted may be resumed: it has not ended.
fn is_final(job: &Job) -> bool {
    phase(job).is_final()
}
