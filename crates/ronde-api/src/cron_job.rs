//! CronJob: a job that is made again and again, at the times of a schedule.

use k8s_openapi::{
    api::core::v1::ObjectReference,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::JobSpec;

/// How many complete jobs are kept if that is not said.
const SUCCESSFUL_JOBS_HISTORY: i32 = 3;
/// How many failed jobs are kept if that is not said.
const FAILED_JOBS_HISTORY: i32 = 1;

kind! {
    /// Jobs that start at the times of a schedule.
    CronJob: NamespaceResourceScope "cronjobs" in "batch.volcano.sh" / "v1alpha1" {
        #[serde(default)]
        spec: CronJobSpec,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<CronJobStatus>,
    }
}

/// What shall run, and when.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CronJobSpec {
    /// The times, as in `30 2 * * 1-5` (minute, hour, day of the month, month, day of the week), `@daily` or `@every 6h`.
    pub schedule: String,
    /// The time zone of the schedule, as in `Europe/Berlin`; UTC if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// How late a run may start, in seconds; one that cannot is missed. Any time if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub starting_deadline_seconds: Option<i64>,
    /// What happens when a run is due and an earlier one has not ended: `Allow`, `Forbid` or `Replace`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub concurrency_policy: String,
    /// Whether no runs start for now. Those that have started go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
    /// The job of each run.
    pub job_template: CronJobTemplate,
    /// How many complete jobs are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub successful_jobs_history_limit: Option<i32>,
    /// How many failed jobs are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_jobs_history_limit: Option<i32>,
}

/// The job of a run. It is named `<cronjob>-<minutes since 1970>`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CronJobTemplate {
    /// Labels and annotations of the job.
    pub metadata: ObjectMeta,
    /// What the job shall be.
    pub spec: JobSpec,
}

/// What has run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CronJobStatus {
    /// The jobs that have not ended. One without `uid` is about to be made.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub active: Vec<ObjectReference>,
    /// The time of the schedule that the last job was made for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_schedule_time: Option<Time>,
    /// When a job was last complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_successful_time: Option<Time>,
    /// How many runs did not start.
    #[serde(skip_serializing_if = "is_zero")]
    pub missed_runs: i64,
    /// The last time of the schedule for which no job was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_missed_time: Option<Time>,
    /// Why a run that is due does not start, in one word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why a run that is due does not start, for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks in this way")]
fn is_zero(count: &i64) -> bool {
    *count == 0
}

words! {
    /// What happens when a run is due and an earlier one has not ended.
    ConcurrencyPolicy {
        /// Both run.
        Allow = "Allow",
        /// The run waits for the end of the earlier one; only the last one that waits starts.
        Forbid = "Forbid",
        /// The earlier one is deleted.
        Replace = "Replace",
    }
}

impl CronJobSpec {
    pub fn concurrency_policy(&self) -> ConcurrencyPolicy {
        self.concurrency_policy.parse().unwrap_or(ConcurrencyPolicy::Allow)
    }

    pub fn is_suspended(&self) -> bool {
        self.suspend == Some(true)
    }

    /// Returns the name of the time zone; none for UTC.
    pub fn time_zone(&self) -> Option<&str> {
        self.time_zone.as_deref()
    }

    /// Returns how many complete jobs are kept.
    pub fn successful_jobs_history(&self) -> usize {
        limit(self.successful_jobs_history_limit, SUCCESSFUL_JOBS_HISTORY)
    }

    /// Returns how many failed jobs are kept.
    pub fn failed_jobs_history(&self) -> usize {
        limit(self.failed_jobs_history_limit, FAILED_JOBS_HISTORY)
    }
}

fn limit(given: Option<i32>, unset: i32) -> usize {
    usize::try_from(given.unwrap_or(unset)).unwrap_or(0)
}
