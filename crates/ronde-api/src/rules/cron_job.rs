//! CronJobs: rules, for the schedule and for the job that it starts.

use super::{Fault, Stage, fault::Faults, job};
use crate::{
    ConcurrencyPolicy, CronJob, Job,
    names::{self, CRON_NAME_MAX},
    schedule::{Schedule, ScheduleError},
};

/// The minutes since 1970 have as many digits until 2160.
const SOME_MINUTES: i64 = 99_999_999;

/// Returns what is wrong with a new CronJob.
pub fn validate(cron: &CronJob) -> Vec<Fault> {
    let mut faults = Faults::default();
    check_name(cron, &mut faults);
    faults.extend(validate_accepted(cron));
    faults.into_vec()
}

/// Returns what is wrong with a change of a CronJob. What was wrong before and has not changed may stay.
pub fn validate_update(old: &CronJob, new: &CronJob) -> Vec<Fault> {
    let before = validate_accepted(old);
    validate_accepted(new).into_iter().filter(|fault| !before.contains(fault)).collect()
}

/// Returns what is wrong with a CronJob that was accepted once.
pub fn validate_accepted(cron: &CronJob) -> Vec<Fault> {
    let (spec, mut faults) = (&cron.spec, Faults::default());
    check_schedule(cron, &mut faults);
    let policies = ConcurrencyPolicy::ALL.iter().map(|word| word.as_str());
    faults.one_of("spec.concurrencyPolicy", &spec.concurrency_policy, policies);
    if let Some(seconds) = spec.starting_deadline_seconds.filter(|seconds| *seconds < 0) {
        faults.invalid("spec.startingDeadlineSeconds", format!("{seconds} should be greater than or equal to 0"));
    }
    for (field, limit) in [
        ("successfulJobsHistoryLimit", spec.successful_jobs_history_limit),
        ("failedJobsHistoryLimit", spec.failed_jobs_history_limit),
    ] {
        faults.at_least(format!("spec.{field}"), limit.unwrap_or_default(), 0);
    }
    check_job(cron, &mut faults);
    faults.into_vec()
}

fn check_name(cron: &CronJob, faults: &mut Faults) {
    let length = cron.metadata.name.as_deref().unwrap_or_default().len();
    if length > CRON_NAME_MAX {
        let why = format!("has {length} characters, at most {CRON_NAME_MAX} are allowed: its jobs are named after it");
        faults.invalid("metadata.name", why);
    }
}

fn check_schedule(cron: &CronJob, faults: &mut Faults) {
    let (schedule, zone) = (&cron.spec.schedule, cron.spec.time_zone());
    if schedule.is_empty() {
        faults.required("spec.schedule", "must say when the job runs, as in \"30 2 * * 1-5\"");
    } else if let Err(error) = Schedule::parse(schedule, None) {
        faults.invalid("spec.schedule", error.to_string());
    }
    if let Err(error @ ScheduleError::Zone { .. }) = Schedule::parse("@daily", zone) {
        faults.invalid("spec.timeZone", error.to_string());
    }
}

/// The job as its first run would have it; a long name is told as that of the CronJob.
fn check_job(cron: &CronJob, faults: &mut Faults) {
    let template = &cron.spec.job_template;
    let mut job = Job { metadata: template.metadata.clone(), spec: template.spec.clone(), status: None };
    let name = cron.metadata.name.as_deref().filter(|name| name.len() <= CRON_NAME_MAX).unwrap_or("cron");
    job.metadata.name = Some(names::cron_job(name, SOME_MINUTES));
    job::default(&mut job, Stage::Create, None);
    let of_template = |fault: Fault| Fault { path: format!("spec.jobTemplate.{}", fault.path), ..fault };
    faults.extend(job::validate_accepted(&job).into_iter().map(of_template));
}

/// Returns what is taken and has no effect, or not the one that it seems to have.
pub fn warnings(cron: &CronJob) -> Vec<String> {
    let template = &cron.spec.job_template;
    let job = Job { metadata: template.metadata.clone(), spec: template.spec.clone(), status: None };
    job::warnings(&job).into_iter().map(|warning| format!("spec.jobTemplate.{warning}")).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{
        super::fixtures::{check, task},
        *,
    };

    fn cron(name: &str, spec: &Value) -> CronJob {
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).expect("a CronJob")
    }

    fn template() -> Value {
        json!({"spec": {"tasks": [task("w", 1)]}})
    }

    #[test]
    fn what_kubernetes_takes_is_accepted() {
        for schedule in ["*/5 * * * *", "0 2 ? JAN-MAR MON-FRI", "@daily", "@every 90m", "1,2,30-40/5 0 1 1 0"] {
            let spec = json!({"schedule": schedule, "timeZone": "Europe/Berlin", "jobTemplate": template()});
            check(schedule, &validate(&cron("night", &spec)), &[]);
        }
    }

    #[test]
    fn every_fault_is_told_at_once() {
        let spec = json!({
            "schedule": "61 * * *", "timeZone": "Europe/Bern", "concurrencyPolicy": "Never",
            "startingDeadlineSeconds": -1, "successfulJobsHistoryLimit": -1, "failedJobsHistoryLimit": -2,
            "jobTemplate": {"spec": {"tasks": [task("w", 1)], "minAvailable": 2}},
        });
        check(
            "all of them",
            &validate(&cron(&"n".repeat(53), &spec)),
            &[
                "metadata.name: has 53 characters, at most 52 are allowed: its jobs are named after it",
                "spec.schedule: \"61 * * *\" is not a schedule such as `30 2 * * 1-5`, `@daily` or `@every 6h`: it has 4 \
                 fields, not 5",
                "spec.timeZone: \"Europe/Bern\" is not a time zone such as `Europe/Berlin`",
                "spec.concurrencyPolicy: \"Never\" is not one of Allow, Forbid, Replace",
                "spec.startingDeadlineSeconds: -1 should be greater than or equal to 0",
                "spec.successfulJobsHistoryLimit: -1 should be greater than or equal to 0",
                "spec.failedJobsHistoryLimit: -2 should be greater than or equal to 0",
                "spec.jobTemplate.spec.minAvailable: job 'minAvailable' should not be greater than total replicas in tasks: 2 > 1",
            ],
        );
        let long = json!({"schedule": "@daily", "jobTemplate": template()});
        let pod = format!("{}-99999999-w-0", "n".repeat(52));
        let expected = format!(
            "spec.jobTemplate.spec.tasks[0].name: its last pod would be named {pod:?}, which has 65 characters; at most 63 \
             are allowed"
        );
        check("pods have longer names", &validate(&cron(&"n".repeat(52), &long)), &[&expected]);
        check(
            "nothing",
            &validate(&cron("n", &json!({"jobTemplate": template()}))),
            &["spec.schedule: must say when the job runs, as in \"30 2 * * 1-5\""],
        );
    }

    #[test]
    fn what_was_wrong_before_may_stay() {
        let old = cron("n", &json!({"schedule": "never", "jobTemplate": template()}));
        let mut new = old.clone();
        new.spec.suspend = Some(true);
        check("another field", &validate_update(&old, &new), &[]);
        new.spec.time_zone = Some("Mars".to_owned());
        let expected = "spec.timeZone: \"Mars\" is not a time zone such as `Europe/Berlin`";
        check("a new fault", &validate_update(&old, &new), &[expected]);
    }
}
