//! CronJobs step by step: what is seen, what is decided. What is written and made is played back into the next look.

use std::{collections::BTreeMap, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use ronde_api::{CronJob, CronJobStatus, Job, JobPhase, names, rules};
use serde_json::{Value, json};

use super::decide::{ObservedCron, decide};
use crate::reconcile::Step;

/// A world of one CronJob, in which all that is decided is done at once.
struct World {
    cron: CronJob,
    jobs: BTreeMap<String, Arc<Job>>,
    refusal: Option<String>,
    now: Timestamp,
    made: usize,
    events: Vec<String>,
}

const START: &str = "2026-01-01T00:00:00Z";

fn time(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

/// The jobs of a list, by their minute of the year.
fn minute(job: &str) -> i64 {
    names::cron_minutes("c", job).expect("a name") - time(START).as_second() / 60
}

impl World {
    fn new(spec: &Value) -> Self {
        let task =
            json!({"name": "w", "replicas": 1, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}});
        let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"queue": "team", "tasks": [task]}});
        let meta = json!({"name": "c", "namespace": "ml", "uid": "u1", "creationTimestamp": START});
        let mut cron = json!({"metadata": meta, "spec": {"schedule": "*/10 * * * *", "jobTemplate": template}});
        for (key, value) in spec.as_object().into_iter().flatten() {
            cron["spec"][key] = value.clone();
        }
        let cron = serde_json::from_value(cron).expect("a CronJob");
        Self { cron, jobs: BTreeMap::new(), refusal: None, now: time(START), made: 0, events: Vec::new() }
    }

    fn seen(&self) -> ObservedCron<'_> {
        ObservedCron {
            cron: &self.cron,
            jobs: self.jobs.values().cloned().collect(),
            faults: rules::cron_job::validate(&self.cron).iter().map(ToString::to_string).collect(),
            refusal: self.refusal.clone(),
        }
    }

    /// One step; tells whether there was something to do.
    fn step(&mut self) -> bool {
        match decide(&self.seen(), self.now) {
            Step::Write { status, events } => {
                self.events
                    .extend(events.iter().map(|event| format!("{}: {}", event.cause.reason, event.cause.message)));
                self.cron.status = Some(*status);
                true
            }
            Step::Apply(plan) => {
                for job in &plan.delete {
                    self.jobs.remove(&job.name_any());
                }
                let create = plan.create.filter(|_| self.refusal.is_none());
                let is_busy = !plan.delete.is_empty() || create.is_some();
                if let Some(mut job) = create {
                    self.made += 1;
                    job.metadata.uid = Some(format!("job-{}", self.made));
                    job.metadata.creation_timestamp = Some(Time(self.now));
                    let there = self.jobs.insert(job.name_any(), Arc::new(job));
                    assert!(there.is_none(), "it is made twice");
                }
                is_busy
            }
        }
    }

    /// Does all there is to do; returns the minutes of the jobs there are.
    fn settle(&mut self) -> Vec<i64> {
        for _ in 0..20 {
            if !self.step() {
                return self.jobs.keys().map(|name| minute(name)).collect();
            }
        }
        panic!("it never settles: {:?}", self.cron.status);
    }

    /// Goes to a minute, with nobody at work in between.
    fn at(&mut self, minute: i64) -> Vec<i64> {
        self.now = time(START) + SignedDuration::from_mins(minute);
        self.settle()
    }

    fn becomes(&mut self, minute: i64, phase: JobPhase) -> Vec<i64> {
        let name = names::cron_job("c", minute + time(START).as_second() / 60);
        let mut job = Job::clone(&self.jobs[&name]);
        let state = &mut job.status.get_or_insert_default().state;
        state.phase = Some(phase);
        state.last_transition_time = Some(Time(self.now));
        self.jobs.insert(name, Arc::new(job));
        self.settle()
    }

    fn status(&self) -> &CronJobStatus {
        self.cron.status.as_ref().expect("a status")
    }

    fn active(&self) -> Vec<i64> {
        self.status().active.iter().map(|entry| minute(entry.name.as_deref().expect("a name"))).collect()
    }

    fn look_again(&self) -> Option<SignedDuration> {
        match decide(&self.seen(), self.now) {
            Step::Apply(plan) => plan.look_again,
            Step::Write { .. } => panic!("it is not settled"),
        }
    }
}

#[test]
fn a_job_starts_at_each_time_of_the_schedule() {
    let mut world = World::new(&json!({}));
    assert!(world.at(0).is_empty());
    assert_eq!(world.look_again(), Some(SignedDuration::from_mins(10)));
    assert_eq!(world.at(10), [10]);
    let job = world.jobs.values().next().expect("a job");
    assert_eq!(
        (job.annotations()[names::SCHEDULED_AT].as_str(), job.labels()["a"].as_str()),
        ("2026-01-01T00:10:00Z", "b")
    );
    assert_eq!((job.owner_references()[0].uid.as_str(), job.spec.queue.as_str()), ("u1", "team"));
    assert_eq!(world.status().last_schedule_time, Some(Time(time("2026-01-01T00:10:00Z"))));
    assert_eq!(world.status().active[0].uid.as_deref(), Some("job-1"));
    assert_eq!(world.at(15), [10], "nothing is due");
    assert_eq!(world.look_again(), Some(SignedDuration::from_mins(5)));
    assert_eq!(world.at(20), [10, 20], "both run");
    assert_eq!(world.active(), [10, 20]);
    world.becomes(10, JobPhase::Completed);
    assert_eq!(world.active(), [20]);
    assert_eq!(world.status().last_successful_time, Some(Time(time("2026-01-01T00:20:00Z"))));
    assert_eq!(
        world.events,
        [format!(
            "SawCompletedJob: saw completed job: {}, status: Completed",
            world.jobs.keys().next().expect("a job")
        )]
    );
}

#[test]
fn the_time_of_a_job_is_that_of_its_zone() {
    let mut world = World::new(&json!({"schedule": "30 2 * * *", "timeZone": "Asia/Shanghai"}));
    world.at(0);
    assert_eq!(world.at(18 * 60 + 30), [18 * 60 + 30]);
    let job = world.jobs.values().next().expect("a job");
    assert_eq!(job.annotations()[names::SCHEDULED_AT], "2026-01-02T02:30:00+08:00");
}

#[test]
fn after_an_outage_one_run_starts_and_the_others_are_counted() {
    let mut world = World::new(&json!({}));
    world.at(10);
    assert_eq!(world.at(75), [10, 70]);
    assert_eq!(world.status().missed_runs, 5);
    assert_eq!(world.status().last_missed_time, Some(Time(time("2026-01-01T01:00:00Z"))));
    let told = "MissSchedule: missed scheduled time to start a job 5 times, last at 2026-01-01T01:00:00Z";
    assert_eq!(world.events, [told]);
    assert_eq!(world.at(80), [10, 70, 80]);
    assert_eq!(world.status().missed_runs, 5, "they are counted once");
    assert_eq!(world.at(10 * 1_000_000).len(), 4, "a storm never comes");
}

#[test]
fn a_run_that_is_too_late_is_missed() {
    let mut world = World::new(&json!({"startingDeadlineSeconds": 120}));
    world.at(10);
    assert_eq!(world.at(25), [10], "five minutes late");
    assert_eq!((world.status().missed_runs, world.status().reason.as_str()), (1, ""));
    assert_eq!(world.status().last_schedule_time, Some(Time(time("2026-01-01T00:10:00Z"))));
    assert_eq!(world.look_again(), Some(SignedDuration::from_mins(5)));
    assert_eq!(world.at(32), [10, 30], "two minutes late");
    assert_eq!(world.status().missed_runs, 1);
}

/// What happens to the run at 10 when the one at 20 is due, and when it ends after the one at 30 was due.
#[test]
fn every_policy_says_what_happens_to_runs_that_meet() {
    let rows: [(&str, Value, [&[i64]; 4], i64); 4] = [
        ("all run", json!({}), [&[10], &[10, 20], &[10, 20, 30], &[10, 20, 30]], 0),
        ("all run", json!({"concurrencyPolicy": "Allow"}), [&[10], &[10, 20], &[10, 20, 30], &[10, 20, 30]], 0),
        ("the last that waits starts", json!({"concurrencyPolicy": "Forbid"}), [&[10], &[10], &[10], &[10, 30]], 1),
        ("the new one stays", json!({"concurrencyPolicy": "Replace"}), [&[10], &[20], &[30], &[30]], 0),
    ];
    for (what, spec, expected, missed) in rows {
        let mut world = World::new(&spec);
        let first = [world.at(10), world.at(20), world.at(30)];
        assert_eq!(first, [expected[0], expected[1], expected[2]], "{what}");
        if expected[2].contains(&10) {
            world.becomes(10, JobPhase::Failed);
        }
        assert_eq!((world.at(35), world.status().missed_runs), (expected[3].to_vec(), missed), "{what}");
    }
}

#[test]
fn a_run_that_waits_says_so_once_for_each_time() {
    let mut world = World::new(&json!({"concurrencyPolicy": "Forbid", "startingDeadlineSeconds": 300}));
    world.at(10);
    world.at(20);
    world.at(22);
    let name = world.jobs.keys().next().expect("a job").clone();
    let told = format!("JobAlreadyActive: the run of 2026-01-01T00:20:00Z waits for the end of `{name}`");
    assert_eq!(world.events, [told]);
    world.at(29);
    assert_eq!((world.status().missed_runs, world.status().reason.as_str()), (1, ""), "it is too late by now");
    world.becomes(10, JobPhase::Completed);
    assert_eq!(world.at(30), [10, 30]);
}

#[test]
fn every_phase_of_a_job_is_an_end_or_is_not() {
    for phase in JobPhase::ALL {
        let mut world = World::new(&json!({"concurrencyPolicy": "Forbid"}));
        world.at(10);
        world.becomes(10, *phase);
        let is_end = matches!(phase, JobPhase::Completed | JobPhase::Failed | JobPhase::Terminated);
        assert_eq!(world.active().is_empty(), is_end, "{phase}");
        assert_eq!(world.at(20).contains(&20), is_end, "{phase}");
        assert_eq!(world.status().last_successful_time.is_some(), *phase == JobPhase::Completed, "{phase}");
    }
}

#[test]
fn a_suspended_cron_starts_nothing_and_then_the_last_run() {
    let mut world = World::new(&json!({"suspend": true}));
    assert!(world.at(35).is_empty());
    assert_eq!(world.look_again(), None, "there is nothing to wait for");
    world.cron.spec.suspend = Some(false);
    assert_eq!(world.at(36), [30]);
    assert_eq!(world.status().missed_runs, 2);
    world.cron.spec.suspend = Some(true);
    assert_eq!(world.becomes(30, JobPhase::Completed), [30], "what runs goes on, and its end is seen");
    assert!(world.active().is_empty());
}

#[test]
fn only_the_last_jobs_are_kept() {
    let rows = [
        (json!({}), vec![30, 40, 50], vec![80]),
        (json!({"successfulJobsHistoryLimit": 0, "failedJobsHistoryLimit": 2}), vec![], vec![70, 80]),
    ];
    for (spec, complete, failed) in rows {
        let mut world = World::new(&spec);
        for run in 1..=8 {
            world.at(run * 10);
            world.becomes(run * 10, if run < 6 { JobPhase::Completed } else { JobPhase::Terminated });
        }
        assert_eq!(world.settle(), [complete, failed].concat(), "{spec}");
        assert!(world.active().is_empty());
    }
}

#[test]
fn who_is_killed_between_any_two_writes_starts_no_run_twice_and_loses_none() {
    for (policy, expected) in [("Allow", vec![10, 20]), ("Forbid", vec![10]), ("Replace", vec![20])] {
        // What is written and done counts; what was decided and not done is decided again, minutes later.
        for steps in 0..8 {
            let mut world = World::new(&json!({"concurrencyPolicy": policy}));
            world.now = time(START) + SignedDuration::from_mins(10);
            for _ in 0..steps {
                world.step();
            }
            world.at(12);
            world.now = time(START) + SignedDuration::from_mins(20);
            for _ in 0..steps {
                world.step();
            }
            assert_eq!(world.at(23), expected, "{policy} after {steps} steps");
            assert_eq!((world.made, world.status().missed_runs), (if policy == "Forbid" { 1 } else { 2 }, 0));
        }
    }
}

#[test]
fn a_run_that_is_refused_is_made_later_or_missed() {
    let mut world = World::new(&json!({"startingDeadlineSeconds": 120}));
    world.refusal = Some("exceeded quota".to_owned());
    assert!(world.at(10).is_empty());
    assert_eq!((world.status().message.as_str(), world.active()), ("exceeded quota", vec![10]));
    assert_eq!(world.look_again(), Some(SignedDuration::from_secs(121)));
    assert!(world.at(13).is_empty());
    assert_eq!((world.status().message.as_str(), world.status().missed_runs), ("", 1), "it is too late");
    world.at(20);
    world.refusal = None;
    assert_eq!(world.at(21), [20]);

    let mut world = World::new(&json!({}));
    world.refusal = Some("exceeded quota".to_owned());
    world.at(10);
    world.at(20);
    assert_eq!((world.active(), world.status().missed_runs), (vec![20], 1), "the next run takes its place");
    assert_eq!(world.status().last_missed_time, Some(Time(time("2026-01-01T00:10:00Z"))));
    world.refusal = None;
    assert_eq!(world.settle(), [20]);
}

#[test]
fn a_cron_that_is_wrong_or_deleted_starts_nothing() {
    let mut world = World::new(&json!({"schedule": "often"}));
    assert!(world.at(20).is_empty());
    assert_eq!(world.status().reason, "InvalidCronJob");
    assert_eq!(world.events.len(), 1, "{:?}", world.events);
    world.cron.spec.schedule = "*/10 * * * *".to_owned();
    assert_eq!(world.at(25), [20], "it goes on when it is mended");
    world.cron.metadata.deletion_timestamp = Some(Time(world.now));
    assert_eq!(world.at(35), [20]);
}

#[test]
fn a_job_that_is_deleted_does_not_run_again() {
    let mut world = World::new(&json!({}));
    world.at(10);
    world.jobs.clear();
    assert!(world.at(11).is_empty());
    assert!(world.active().is_empty());
}

/// What a CronJob can be in; its controller has no phases of its own.
const STATES: [&str; 7] =
    ["idle", "a run is active", "a run waits", "a run is refused", "suspended", "wrong", "deleted"];

/// A world that has come to a state in the minute 25.
fn world_in(state: &str) -> World {
    let mut world = World::new(&json!({"concurrencyPolicy": "Forbid"}));
    world.refusal = (state == "a run is refused").then(|| "exceeded quota".to_owned());
    world.cron.spec.suspend = Some(state == "suspended");
    world.at(if state == "idle" { 5 } else { 20 });
    if state == "a run is active" {
        world.at(24);
        world.becomes(20, JobPhase::Running);
    }
    match state {
        "idle" => {
            world.at(20);
            world.becomes(20, JobPhase::Completed);
        }
        "a run waits" => drop(world.at(30)),
        "wrong" => {
            world.becomes(20, JobPhase::Completed);
            world.cron.spec.schedule = "often".to_owned();
        }
        "deleted" => world.cron.metadata.deletion_timestamp = Some(Time(world.now)),
        _ => {}
    }
    world.at(if state == "a run waits" { 35 } else { 25 });
    world
}

#[test]
fn whatever_happens_in_any_state_has_its_answer() {
    type Row = (&'static str, fn(&mut World));
    let rows: [Row; 7] = [
        ("the next run is due", |world| world.now = time(START) + SignedDuration::from_mins(40)),
        ("its job completes", |world| complete(world, JobPhase::Completed)),
        ("its job is aborted", |world| complete(world, JobPhase::Aborted)),
        ("its job is deleted", |world| world.jobs.clear()),
        ("it is suspended", |world| world.cron.spec.suspend = Some(true)),
        ("it is resumed", |world| world.cron.spec.suspend = Some(false)),
        ("what was refused is allowed", |world| world.refusal = None),
    ];
    let mut found = String::new();
    for (what, happens) in rows {
        found += &format!("{what}\n");
        for state in STATES {
            let mut world = world_in(state);
            happens(&mut world);
            let (jobs, active) = (world.settle(), world.active());
            let (missed, reason) = (world.status().missed_runs, &world.status().reason);
            found += format!("  {state}: jobs {jobs:?}, active {active:?}, missed {missed} {reason}").trim_end();
            found.push('\n');
        }
    }
    assert_eq!(found, ANSWERS);
}

/// What there is afterwards: jobs and runs by their minutes.
const ANSWERS: &str = "\
the next run is due
  idle: jobs [20, 40], active [40], missed 2
  a run is active: jobs [20], active [20], missed 1 JobAlreadyActive
  a run waits: jobs [20], active [20], missed 1 JobAlreadyActive
  a run is refused: jobs [], active [40], missed 3 FailedCreate
  suspended: jobs [], active [], missed 0
  wrong: jobs [20], active [], missed 1 InvalidCronJob
  deleted: jobs [20], active [20], missed 1
its job completes
  idle: jobs [20], active [], missed 1
  a run is active: jobs [20], active [], missed 1
  a run waits: jobs [20, 30], active [30], missed 1
  a run is refused: jobs [], active [20], missed 1 FailedCreate
  suspended: jobs [], active [], missed 0
  wrong: jobs [20], active [], missed 1 InvalidCronJob
  deleted: jobs [20], active [], missed 1
its job is aborted
  idle: jobs [20], active [20], missed 1
  a run is active: jobs [20], active [20], missed 1
  a run waits: jobs [20], active [20], missed 1 JobAlreadyActive
  a run is refused: jobs [], active [20], missed 1 FailedCreate
  suspended: jobs [], active [], missed 0
  wrong: jobs [20], active [20], missed 1 InvalidCronJob
  deleted: jobs [20], active [20], missed 1
its job is deleted
  idle: jobs [], active [], missed 1
  a run is active: jobs [], active [], missed 1
  a run waits: jobs [30], active [30], missed 1
  a run is refused: jobs [], active [20], missed 1 FailedCreate
  suspended: jobs [], active [], missed 0
  wrong: jobs [], active [], missed 1 InvalidCronJob
  deleted: jobs [], active [], missed 1
it is suspended
  idle: jobs [20], active [], missed 1
  a run is active: jobs [20], active [20], missed 1
  a run waits: jobs [20], active [20], missed 1
  a run is refused: jobs [], active [20], missed 1 FailedCreate
  suspended: jobs [], active [], missed 0
  wrong: jobs [20], active [], missed 1 InvalidCronJob
  deleted: jobs [20], active [20], missed 1
it is resumed
  idle: jobs [20], active [], missed 1
  a run is active: jobs [20], active [20], missed 1
  a run waits: jobs [20], active [20], missed 1 JobAlreadyActive
  a run is refused: jobs [], active [20], missed 1 FailedCreate
  suspended: jobs [20], active [20], missed 1
  wrong: jobs [20], active [], missed 1 InvalidCronJob
  deleted: jobs [20], active [20], missed 1
what was refused is allowed
  idle: jobs [20], active [], missed 1
  a run is active: jobs [20], active [20], missed 1
  a run waits: jobs [20], active [20], missed 1 JobAlreadyActive
  a run is refused: jobs [20], active [20], missed 1
  suspended: jobs [], active [], missed 0
  wrong: jobs [20], active [], missed 1 InvalidCronJob
  deleted: jobs [20], active [20], missed 1
";

/// Lets the last job come to a phase.
fn complete(world: &mut World, phase: JobPhase) {
    if let Some(last) = world.jobs.keys().next_back().map(|name| minute(name)) {
        world.becomes(last, phase);
    }
}
