//! The list of jobs in arena's columns, and what `top job` shows of them.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, ResourceExt as _};
use ronde_api::PodGroup;
use serde_json::Value;

use crate::{
    Context,
    arena::JobType,
    args::GetOutput,
    environment,
    failure::{Answer, Failure, Outcome},
    jobs::{
        any::{self, AnyJob, State},
        by_job, instances,
        trouble::{self, Warnings},
    },
    objects,
    show::training,
    table::{self, Span},
};

/// What is listed.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// None for all.
    pub namespace: Option<&'a str>,
    pub job_type: Option<JobType>,
}

/// A job and what it has.
pub struct Row {
    pub job: AnyJob,
    pub requested: i64,
    pub allocated: i64,
    /// The address of the node of its chief.
    pub node: String,
    /// Why it is not where it should be, or what it lacks.
    pub reason: Option<String>,
}

/// Fetches the jobs with what they have, the newest first.
pub async fn fetch(client: &Client, scope: Scope<'_>) -> Result<Vec<Row>, Box<dyn Failure>> {
    let mut jobs = any::list(client, scope.namespace).await?;
    jobs.retain(|job| scope.job_type.is_none_or(|wanted| job.job_type() == wanted));
    let pods = if jobs.is_empty() { Vec::new() } else { objects::list::<Pod>(client, scope.namespace, &[]).await? };
    let pods = trouble::by_owner(pods);
    // Of jobs of Volcano their groups know why they wait.
    let has_batch = jobs.iter().any(|job| matches!(job, AnyJob::Batch(_)));
    let groups = if has_batch { objects::watch_if_served::<PodGroup>(client, scope.namespace).await? } else { None };
    let groups = groups.map_or(Ok(Vec::new()), |groups| groups.all())?;
    let groups = by_job(groups);
    let reasons: Vec<_> = jobs.iter().map(|job| training::reason(job, groups.get(job.uid()))).collect();
    let is_unexplained = |(job, reason): (&AnyJob, &Option<String>)| job.state().wants_reason() && reason.is_none();
    let warnings = if jobs.iter().zip(&reasons).any(is_unexplained) {
        Warnings::fetch(client, scope.namespace).await?
    } else {
        Warnings::default()
    };
    let row = |(job, reason): (AnyJob, Option<String>)| {
        let pods = pods.get(job.uid()).map_or(&[][..], Vec::as_slice);
        let trouble = || trouble::of_job(&job, pods, &warnings).filter(|_| job.state().wants_reason());
        let reason = reason.or_else(trouble);
        Row::of(job, reason, pods)
    };
    Ok(jobs.into_iter().zip(reasons).map(row).collect())
}

impl Row {
    fn of(job: AnyJob, reason: Option<String>, pods: &[Pod]) -> Self {
        let chief = pods.iter().find(|pod| job.is_chief(&pod.name_any()));
        let node = chief.and_then(|pod| pod.status.as_ref()?.host_ip.clone()).unwrap_or_else(|| "N/A".to_owned());
        let is_placed = |pod: &&Pod| {
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
            node.is_some() && !matches!(phase, Some("Succeeded" | "Failed"))
        };
        let allocated = pods.iter().filter(is_placed).map(instances::gpus).sum();
        Self { requested: job.requested_gpus(), allocated, node, reason, job }
    }

    /// Whether it has, or waits for, what it asks for.
    pub fn is_active(&self) -> bool {
        matches!(self.job.state(), State::Pending | State::Running | State::Scaling)
    }

    /// What a job waits for that has not ended, or why it has failed.
    fn message(&self) -> Option<&str> {
        self.reason.as_deref().filter(|_| self.job.state().shows_reason())
    }

    fn cells(&self, now: Timestamp) -> Vec<String> {
        let allocated = if self.is_active() { self.allocated.to_string() } else { "N/A".to_owned() };
        vec![
            self.job.name(),
            self.job.state().to_string(),
            self.job.job_type().name().to_uppercase(),
            Span(self.job.duration(now)).to_string(),
            self.requested.to_string(),
            allocated,
            self.node.clone(),
        ]
    }

    pub fn to_json(&self, now: Timestamp) -> Value {
        let mut value = training::summary(&self.job, now);
        value["allocatedGPUs"] = self.allocated.into();
        if let Some(reason) = &self.reason {
            value["reason"] = reason.clone().into();
        }
        value
    }
}

/// Lays out jobs; the fourth column is the duration, by whatever name. What jobs wait for, or why they have failed, stands in a
/// column of its own, which arena does not have, if any does.
pub fn lines(rows: &[Row], duration: &str, with_namespace: bool, now: Timestamp) -> Vec<String> {
    let columns = ["NAME", "STATUS", "TRAINER", duration, "GPU(Requested)", "GPU(Allocated)", "NODE"];
    let message = rows.iter().any(|row| row.message().is_some()).then_some("MESSAGE");
    let columns: Vec<&str> = with_namespace.then_some("NAMESPACE").into_iter().chain(columns).chain(message).collect();
    let row = |row: &Row| {
        let namespace = with_namespace.then(|| row.job.namespace().to_owned());
        let why = message.map(|_| row.message().unwrap_or_default().to_owned());
        namespace.into_iter().chain(row.cells(now)).chain(why).collect()
    };
    table::arena(&columns, rows.iter().map(row).collect(), false)
}

/// Writes the list.
pub async fn run(client: &Client, scope: Scope<'_>, output: GetOutput, context: &Context) -> Outcome {
    let rows = fetch(client, scope).await?;
    let now = environment::now();
    match output {
        GetOutput::Json | GetOutput::Yaml => {
            let all: Value = rows.iter().map(|row| row.to_json(now)).collect();
            training::write(&all, output == GetOutput::Json, context.printer);
        }
        GetOutput::Name => {
            let names: Vec<String> = rows.iter().map(|row| row.job.title()).collect();
            context.printer.data(names.join("\n"));
        }
        _ => drop(context.printer.data(lines(&rows, "DURATION", scope.namespace.is_none(), now).join("\n"))),
    }
    Ok(Answer::Done)
}
