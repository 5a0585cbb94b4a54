//! What several verbs want to know of jobs: whether one is there, in which phase, what it waits for.

pub mod any;
pub mod instances;
pub mod trouble;

use std::collections::BTreeMap;

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Client, ResourceExt as _};
use ronde_api::{Job, JobPhase, PodGroup, PodGroupConditionType, PodGroupPhase, names};

use crate::{
    failure::{Blame, Failure},
    objects,
    table::age,
};

/// The reason of a job that has begun to run; every other one of a job that runs is trouble.
const STARTED: &str = "Started";

/// Something that a user names is not there.
#[derive(Debug, thiserror::Error)]
pub enum MissingError {
    #[error("there is no job `{name}` in namespace `{namespace}`")]
    Job { namespace: String, name: String },
    #[error("`{name}` is neither a kind nor a job in namespace `{namespace}`")]
    KindOrJob { namespace: String, name: String },
    #[error("there is neither a pod nor a job `{name}` in namespace `{namespace}`")]
    PodOrJob { namespace: String, name: String },
    #[error("Not found training job {name} in namespace {namespace}, please use 'submit' to create it.")]
    Training { namespace: String, name: String },
    #[error("there is no queue `{name}`")]
    Queue { name: String },
    #[error("there is no CronJob `{name}` in namespace `{namespace}`")]
    Cron { namespace: String, name: String },
    #[error("there is no JobFlow `{name}` in namespace `{namespace}`")]
    Flow { namespace: String, name: String },
}

impl Failure for MissingError {
    fn blame(&self) -> Blame {
        Blame::User
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Job { .. } | Self::Training { .. } => "`ronde list -A` shows the jobs of all namespaces",
            Self::KindOrJob { .. } => {
                "`kubectl api-resources` lists the kinds, `ronde list -A` the jobs of all namespaces"
            }
            Self::PodOrJob { .. } => "`ronde get pods -A` and `ronde list -A` show those of all namespaces",
            Self::Cron { .. } => "`ronde cron list -A` shows those of all namespaces",
            Self::Flow { .. } => "`ronde flow list -A` shows those of all namespaces",
            Self::Queue { .. } => "`ronde queue list` shows the queues",
        };
        Some(hint.to_owned())
    }
}

/// Returns a job, which has to be there.
pub async fn fetch(client: &Client, namespace: &str, name: &str) -> Result<Job, Box<dyn Failure>> {
    let missing = || MissingError::Job { namespace: namespace.to_owned(), name: name.to_owned() };
    Ok(objects::find::<Job>(client, Some(namespace), name).await?.ok_or_else(missing)?)
}

/// Says that a job is not there, or that the cluster has no jobs at all.
pub async fn missing(client: &Client, namespace: &str, name: &str) -> Box<dyn Failure> {
    match fetch(client, namespace, name).await {
        Err(failure) => failure,
        Ok(_) => MissingError::Job { namespace: namespace.to_owned(), name: name.to_owned() }.into(),
    }
}

/// Looks for the group of a job; Volcano once called it as the job.
pub async fn find_group(client: &Client, job: &Job) -> Result<Option<PodGroup>, Box<dyn Failure>> {
    let (namespace, uid) = (job.namespace(), uid(job));
    for name in [names::pod_group(&job.name_any(), uid), job.name_any()] {
        let group = objects::find::<PodGroup>(client, namespace.as_deref(), &name).await?;
        if let Some(group) = group.filter(|group| is_controlled_by(&group.metadata, uid)) {
            return Ok(Some(group));
        }
    }
    Ok(None)
}

/// Orders groups by the uid of their job.
pub fn by_job(groups: Vec<PodGroup>) -> BTreeMap<String, PodGroup> {
    let owned = groups.into_iter().filter_map(|group| Some((controller(&group.metadata)?.uid.clone(), group)));
    owned.collect()
}

pub fn uid(job: &Job) -> &str {
    job.metadata.uid.as_deref().unwrap_or_default()
}

/// Tells whether an object belongs to the one with this uid.
pub fn is_controlled_by(metadata: &ObjectMeta, uid: &str) -> bool {
    controller(metadata).is_some_and(|owner| owner.uid == uid)
}

fn controller(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// Returns the phase of a job; one that no controller has looked at waits.
pub fn phase(job: &Job) -> JobPhase {
    job.status.as_ref().and_then(|status| status.state.phase).unwrap_or(JobPhase::Pending)
}

/// Tells whether nothing leads out of a phase.
pub fn is_final(phase: JobPhase) -> bool {
    matches!(phase, JobPhase::Completed | JobPhase::Failed | JobPhase::Terminated)
}

/// Returns the queue that a job or a group waits in.
pub fn queue(named: &str) -> &str {
    if named.is_empty() { names::DEFAULT_QUEUE } else { named }
}

/// Returns how long a job is expected to run, if its owner has said so.
pub fn estimate(job: &Job) -> Option<String> {
    let estimate = SignedDuration::from_nanos(job.spec.running_estimate?.nanoseconds());
    Some(age(estimate))
}

/// Says in one sentence why a job is where it is: what it waits for, or what brought it there.
pub fn reason(job: &Job, group: Option<&PodGroup>) -> Option<String> {
    let Some(status) = &job.status else { return Some("no controller has looked at it yet".to_owned()) };
    let said = Some(status.state.message.clone()).filter(|said| !said.is_empty());
    let waits = group.filter(|_| !is_final(phase(job))).and_then(unschedulable);
    // A job that is pending repeats what its group says, and says more: by whom it was preempted.
    if phase(job) == JobPhase::Pending { said.or(waits) } else { waits.or(said) }
}

/// Tells whether a job runs as it should, so that its sentence says nothing that its numbers do not.
pub fn is_fine(job: &Job, group: Option<&PodGroup>) -> bool {
    let has_started = job.status.as_ref().is_some_and(|status| status.state.reason == STARTED);
    phase(job) == JobPhase::Running && has_started && group.and_then(unschedulable).is_none()
}

/// Says why a group waits, if it does.
pub fn unschedulable(group: &PodGroup) -> Option<String> {
    let is_whole = matches!(group.phase(), Some(PodGroupPhase::Running | PodGroupPhase::Completed));
    let mut conditions = group.status.iter().filter(|_| !is_whole).flat_map(|status| &status.conditions);
    let waits = conditions
        .rfind(|condition| condition.type_ == PodGroupConditionType::Unschedulable && condition.status == "True");
    waits.map(|condition| condition.message.clone())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn job(status: Value) -> Job {
        serde_json::from_value(json!({"metadata": {"name": "mnist", "uid": "u1"}, "status": status})).unwrap()
    }

    fn group(phase: &str, status: &str) -> PodGroup {
        let condition = json!({"type": "Unschedulable", "status": status, "message": "needs 4 CPUs"});
        serde_json::from_value(json!({"status": {"phase": phase, "conditions": [condition]}})).unwrap()
    }

    fn check(name: &str, status: Value, group: Option<PodGroup>, expected: Option<&str>) {
        assert_eq!(reason(&job(status), group.as_ref()).as_deref(), expected, "{name}");
    }

    #[test]
    fn one_sentence_says_why() {
        let state = |phase: &str, message: &str| json!({"state": {"phase": phase, "message": message}});
        check("nobody has seen it", json!(null), None, Some("no controller has looked at it yet"));
        check("it waits", state("Pending", ""), Some(group("Pending", "True")), Some("needs 4 CPUs"));
        check("it is admitted and waits", state("Pending", ""), Some(group("Inqueue", "True")), Some("needs 4 CPUs"));
        check("a part runs", state("Running", ""), Some(group("Unknown", "True")), Some("needs 4 CPUs"));
        check("it waits no more", state("Running", ""), Some(group("Inqueue", "False")), None);
        check("its group runs", state("Running", ""), Some(group("Running", "True")), None);
        check("it has failed", state("Failed", "pod x failed"), Some(group("Pending", "True")), Some("pod x failed"));
        let preempted = "preempted by hi (priority high); needs 4 CPUs";
        check("it was preempted", state("Pending", preempted), Some(group("Inqueue", "True")), Some(preempted));
        check("a claim is missing", state("Pending", "waits for a claim"), None, Some("waits for a claim"));
        check("there is nothing to say", state("Running", ""), None, None);
    }

    #[test]
    fn a_job_that_runs_is_fine_unless_a_pod_is_in_trouble_or_missing() {
        let state = |phase: &str, reason: &str| job(json!({"state": {"phase": phase, "reason": reason}}));
        assert!(is_fine(&state("Running", STARTED), Some(&group("Running", "True"))));
        assert!(!is_fine(&state("Running", STARTED), Some(&group("Unknown", "True"))));
        assert!(!is_fine(&state("Running", "CrashLoopBackOff"), None));
        assert!(!is_fine(&state("Pending", STARTED), None));
    }

    #[test]
    fn groups_are_found_by_their_controller() {
        let owned = json!({"metadata": {"name": "g", "ownerReferences": [
            {"apiVersion": "v1", "kind": "X", "name": "x", "uid": "u0"},
            {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "mnist", "uid": "u1", "controller": true},
        ]}});
        let groups = by_job(vec![serde_json::from_value(owned).unwrap(), PodGroup::default()]);
        assert_eq!(groups.keys().collect::<Vec<_>>(), ["u1"]);
    }
}
