//! `ronde get JOB`: all that a person wants to know of one job: its phase and why, its tasks, its pods, what happened.
//!
//! Only reads. Pods are shown by the columns that the API gives them. Training jobs have the form of [`training`].

pub mod training;

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::{Client, ResourceExt as _};
use ronde_api::{Job, JobStatus, PodGroup, PodPhase, TaskSpec, names};
use serde::Deserialize as _;
use serde_json::Value;

use crate::{
    Context,
    args::GetArgs,
    client::{self, ClientError, encode},
    environment,
    failure::{Answer, Failure, Outcome},
    get::AS_TABLE,
    jobs::{
        self,
        any::AnyJob,
        trouble::{self, Warnings},
    },
    objects,
    table::{self, Layout, View, age_since},
};

/// More events than a person reads at once.
const EVENTS_MAX: usize = 10;

/// The reason under which events of jobs repeat those of their groups.
const POD_GROUP_PENDING: &str = "PodGroupPending";

/// Shows the job.
pub async fn run(client: &Client, args: &GetArgs, context: &Context) -> Outcome {
    let namespace = namespace(client, args);
    let job = jobs::fetch(client, namespace, &args.kind).await?;
    let group = jobs::find_group(client, &job).await?;
    let pods = fetch_pods(client, namespace, &job).await?;
    let events = fetch_events(client, namespace, &job, group.as_ref(), &pods).await?;
    let reason = reason(&job, group.as_ref(), &pods, &events)?;
    let now = environment::now();
    let parts = [summary(&job, reason.as_deref(), now), tasks(&job), lay_out(&pods), happened(events, now)];
    let parts: Vec<String> = parts.iter().filter(|part| !part.is_empty()).map(|part| part.join("\n")).collect();
    context.printer.data(parts.join("\n\n"));
    Ok(Answer::Done)
}

fn namespace<'a>(client: &'a Client, args: &'a GetArgs) -> &'a str {
    args.namespace.as_deref().unwrap_or(client.default_namespace())
}

/// Says why the job is where it is, and what is wrong with its pods if the job has not ended or does not say.
fn reason(job: &Job, group: Option<&PodGroup>, pods: &Value, events: &[Event]) -> Result<Option<String>, ClientError> {
    let reason = jobs::reason(job, group);
    if jobs::is_final(jobs::phase(job)) && reason.is_some() {
        return Ok(reason);
    }
    let objects = pods["rows"].as_array().into_iter().flatten().map(|row| Pod::deserialize(&row["object"]));
    let pods: Vec<Pod> = objects.collect::<Result<_, _>>().map_err(|source| ClientError::NotJson { source })?;
    let trouble = trouble::of_job(&AnyJob::from(job.clone()), &pods, &Warnings::of(events));
    Ok(trouble::with_reason(reason, trouble))
}

/// Returns the API's own table of the pods of a job.
async fn fetch_pods(client: &Client, namespace: &str, job: &Job) -> Result<Value, Box<dyn Failure>> {
    let selector = encode(&format!("{}={}", names::JOB_NAME, job.name_any()));
    let path = objects::path::<Pod>(Some(namespace), None);
    let path = format!("{path}?labelSelector={selector}&includeObject=Object");
    let mut table = client::send(client, client::get(&path, AS_TABLE), Vec::new()).await?.json()?;
    if let Some(rows) = table["rows"].as_array_mut() {
        // Pods of an earlier job of the same name may be there still.
        rows.retain(|row| is_of(row, jobs::uid(job)));
    }
    Ok(table)
}

fn is_of(row: &Value, uid: &str) -> bool {
    let owners = row["object"]["metadata"]["ownerReferences"].as_array();
    owners.is_some_and(|owners| owners.iter().any(|owner| owner["uid"] == uid))
}

/// Returns what happened to the job and its group, and what went wrong with its pods, the oldest first.
async fn fetch_events(
    client: &Client,
    namespace: &str,
    job: &Job,
    group: Option<&PodGroup>,
    pods: &Value,
) -> Result<Vec<Event>, Box<dyn Failure>> {
    let group = group.and_then(|group| group.metadata.uid.as_deref());
    let mut events = Vec::new();
    for uid in [jobs::uid(job)].into_iter().chain(group) {
        let selector = format!("involvedObject.uid={uid}");
        events.extend(objects::list::<Event>(client, Some(namespace), &[("fieldSelector", &selector)]).await?);
    }
    // The group says it itself, in fewer words.
    events.retain(|event| group.is_none() || event.reason.as_deref() != Some(POD_GROUP_PENDING));
    let rows = pods["rows"].as_array().map_or(&[][..], Vec::as_slice);
    let uids: BTreeSet<&str> = rows.iter().filter_map(|row| row["object"]["metadata"]["uid"].as_str()).collect();
    if !uids.is_empty() {
        let warnings = objects::list::<Event>(client, Some(namespace), &[trouble::OF_PODS]).await?;
        let is_ours = |event: &Event| event.involved_object.uid.as_deref().is_some_and(|uid| uids.contains(uid));
        events.extend(warnings.into_iter().filter(is_ours));
    }
    events.sort_by_key(|event| (last_seen(event), version(event), event.name_any()));
    Ok(events)
}

/// Returns when an event was last seen.
pub fn last_seen(event: &Event) -> Option<Timestamp> {
    let series = event.series.as_ref().and_then(|series| series.last_observed_time.as_ref()).map(|time| time.0);
    let last = event.last_timestamp.as_ref().map(|time| time.0);
    series.or(last).or(event.event_time.as_ref().map(|time| time.0)).or(event.creation_timestamp().map(|time| time.0))
}

/// Tells which of two events of the same second was the first.
fn version(event: &Event) -> Option<u64> {
    event.resource_version().and_then(|version| version.parse().ok())
}

fn summary(job: &Job, reason: Option<&str>, now: Timestamp) -> Vec<String> {
    let status = job.status.clone().unwrap_or_default();
    let since = status.state.last_transition_time.as_ref().map(|time| time.0);
    let phase = jobs::phase(job);
    let phase = since.map_or(phase.to_string(), |since| format!("{phase} for {}", age_since(Some(since), now)));
    let mut lines = vec![
        field("job", &job.name_any()),
        field("status", &phase),
        field("queue", jobs::queue(&job.spec.queue)),
        field("pods", &pods(job, &status)),
        field("age", &age_since(job.creation_timestamp().map(|time| time.0), now)),
    ];
    lines.extend(jobs::estimate(job).map(|estimate| field("estimate", &format!("runs for about {estimate}"))));
    lines.extend(restarts(job, &status).map(|restarts| field("restarts", &restarts)));
    lines.extend(reason.map(|reason| field("message", reason)));
    lines
}

fn field(name: &str, value: &str) -> String {
    format!("{name:<10}{}", value.trim_end().replace('\n', "\n          "))
}

fn pods(job: &Job, status: &JobStatus) -> String {
    let counts = [
        (status.running, "running"),
        (status.pending, "pending"),
        (status.succeeded, "succeeded"),
        (status.failed, "failed"),
        (status.terminating, "terminating"),
        (status.unknown, "unknown"),
    ];
    let counts: Vec<String> =
        counts.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}")).collect();
    let counts = if counts.is_empty() { "none yet".to_owned() } else { counts.join(", ") };
    format!("{counts}; {} wanted, at least {}", job.spec.total_replicas(), job.spec.min_available)
}

/// Says how often a job was restarted because of failures, if it was; of so many runs the first is no restart.
fn restarts(job: &Job, status: &JobStatus) -> Option<String> {
    let most = (job.spec.max_retry > 0).then(|| job.spec.max_retry - 1);
    let restarts = status.retry_count.min(most.unwrap_or(i32::MAX));
    let text = most.map_or(restarts.to_string(), |most| format!("{restarts} of {most}"));
    (restarts > 0).then_some(text)
}

fn tasks(job: &Job) -> Vec<String> {
    let counts = job.status.as_ref().map(|status| status.task_status_count.clone()).unwrap_or_default();
    let row = |task: &TaskSpec| {
        let count = |phase| counts.get(&task.name).and_then(|task| task.phase.get(&phase)).copied().unwrap_or(0);
        let numbers = [
            task.replicas,
            task.min_available(),
            count(PodPhase::Pending),
            count(PodPhase::Running),
            count(PodPhase::Succeeded),
            count(PodPhase::Failed),
        ];
        [task.name.clone()].into_iter().chain(numbers.map(|number| number.to_string())).collect()
    };
    let columns = ["TASK", "REPLICAS", "MINAVAILABLE", "PENDING", "RUNNING", "SUCCEEDED", "FAILED"];
    table::render(&columns, job.spec.tasks.iter().map(row).collect())
}

/// Lays out the table of pods, with the column of nodes, which the API keeps for wide ones.
fn lay_out(pods: &Value) -> Vec<String> {
    let mut pods = pods.clone();
    for column in pods["columnDefinitions"].as_array_mut().into_iter().flatten() {
        if column["name"] == "Node" {
            column["priority"] = 0.into();
        }
        if column["name"] == "Name" {
            column["name"] = "Pod".into();
        }
    }
    Layout::new(View { wide: false, namespace: false }).render(&pods)
}

fn happened(mut events: Vec<Event>, now: Timestamp) -> Vec<String> {
    let events = events.split_off(events.len().saturating_sub(EVENTS_MAX));
    let row = |event: &Event| {
        let reason = event.reason.clone().unwrap_or_default();
        let message = event.message.clone().unwrap_or_default();
        vec![age_since(last_seen(event), now), object(event), reason, message]
    };
    table::render(&["LAST SEEN", "OBJECT", "REASON", "MESSAGE"], events.iter().map(row).collect())
}

/// Names a pod; there is only one job and one group.
fn object(event: &Event) -> String {
    let object = &event.involved_object;
    let kind = object.kind.as_deref().unwrap_or_default().to_lowercase();
    match &object.name {
        Some(name) if kind == "pod" => format!("pod/{name}"),
        _ => kind,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: &str = "2026-01-01T00:05:00Z";

    fn job(status: Value) -> Job {
        let task = |name: &str, replicas: i32| json!({"name": name, "replicas": replicas});
        let spec = json!({"minAvailable": 3, "maxRetry": 3, "tasks": [task("master", 1), task("worker", 2)]});
        let metadata = json!({"name": "mnist", "uid": "u1", "creationTimestamp": "2026-01-01T00:00:00Z"});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap()
    }

    fn check(name: &str, lines: Vec<String>, expected: &[&str]) {
        assert_eq!(lines, expected, "{name}");
    }

    #[test]
    fn a_job_is_summed_up() {
        let now = NOW.parse().unwrap();
        check(
            "a new job",
            summary(&job(json!(null)), Some("no controller has looked at it yet"), now),
            &[
                "job       mnist",
                "status    Pending",
                "queue     default",
                "pods      none yet; 3 wanted, at least 3",
                "age       5m",
                "message   no controller has looked at it yet",
            ],
        );
        let state = json!({"phase": "Running", "lastTransitionTime": "2026-01-01T00:04:50Z"});
        let status = json!({"state": state, "running": 2, "failed": 1, "retryCount": 1});
        check(
            "a job that runs",
            summary(&job(status), None, now),
            &[
                "job       mnist",
                "status    Running for 10s",
                "queue     default",
                "pods      2 running, 1 failed; 3 wanted, at least 3",
                "age       5m",
                "restarts  1 of 2",
            ],
        );
        let status = json!({"state": {"phase": "Failed"}, "retryCount": 1});
        let mut once = job(status);
        once.spec.max_retry = 1;
        assert!(!summary(&once, None, now).iter().any(|line| line.starts_with("restarts")), "it never ran again");
        let mut estimated = job(json!(null));
        estimated.spec.running_estimate = "150m".parse().ok();
        assert!(summary(&estimated, None, now).contains(&"estimate  runs for about 2h".to_owned()));
    }

    #[test]
    fn tasks_are_counted() {
        let counts = json!({"worker": {"phase": {"Running": 1, "Failed": 1}}});
        check(
            "by phase",
            tasks(&job(json!({"taskStatusCount": counts}))),
            &[
                "TASK     REPLICAS   MINAVAILABLE   PENDING   RUNNING   SUCCEEDED   FAILED",
                "master   1          1              0         0         0           0",
                "worker   2          2              0         1         0           1",
            ],
        );
    }

    #[test]
    fn the_last_events_are_shown() {
        let event = |second: usize, kind: &str| -> Event {
            let seen = format!("2026-01-01T00:04:{second:02}Z");
            let object = json!({"kind": kind, "name": "mnist-0"});
            serde_json::from_value(json!({"metadata": {}, "involvedObject": object, "reason": "R", "message": "m",
                "lastTimestamp": seen}))
            .unwrap()
        };
        let events: Vec<Event> =
            (0..12).map(|second| event(second, if second == 11 { "Pod" } else { "Job" })).collect();
        let lines = happened(events, NOW.parse().unwrap());
        assert_eq!(lines.len(), 1 + EVENTS_MAX);
        assert_eq!(lines[1], "58s         job           R        m");
        assert_eq!(lines[10], "49s         pod/mnist-0   R        m");
    }

    #[test]
    fn pods_are_shown_with_their_nodes() {
        let column = |name: &str, priority: i32| json!({"name": name, "priority": priority});
        let rows = json!([{"cells": ["mnist-0", "1.2.3.4", "n1"]}]);
        let table = json!({"columnDefinitions": [column("Name", 0), column("IP", 1), column("Node", 1)], "rows": rows});
        check("the API's table", lay_out(&table), &["POD       NODE", "mnist-0   n1"]);
    }
}
