//! JobTemplate and JobFlow: jobs that are kept for later, and a graph of jobs that are made from them.

use std::collections::BTreeMap;

use k8s_openapi::{api::core::v1::HTTPHeader, apimachinery::pkg::apis::meta::v1::Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Duration, JobPhase, JobSpec, TaskStatus, names};

kind! {
    /// A job that flows make jobs from. Nothing runs because of it alone.
    JobTemplate: NamespaceResourceScope "jobtemplates" in "flow.volcano.sh" / "v1alpha1" {
        #[serde(default)]
        spec: JobSpec,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<JobTemplateStatus>,
    }
}

kind! {
    /// Jobs that start one after another, as far as they depend on each other.
    JobFlow: NamespaceResourceScope "jobflows" in "flow.volcano.sh" / "v1alpha1" {
        #[serde(default)]
        spec: JobFlowSpec,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<JobFlowStatus>,
    }
}

/// What is known of a template.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct JobTemplateStatus {
    /// Written by Volcano only; the jobs carry the name of their template.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub job_depends_on_list: Vec<String>,
}

/// What a flow shall run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct JobFlowSpec {
    /// The jobs, and what each waits for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<Flow>,
    /// Whether the jobs of a flow that has succeeded are kept (`retain`) or deleted (`delete`); kept if not set.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub job_retain_policy: String,
}

/// One job of a flow. It is named `<flow>-<template>`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Flow {
    /// The JobTemplate in the same namespace that the job is made from.
    pub name: String,
    /// What must have happened before the job is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depends_on: Option<FlowDependsOn>,
    /// What is different from the template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch: Option<FlowPatch>,
}

/// What a job of a flow waits for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FlowDependsOn {
    /// Names of other jobs of the flow, by their templates. Each must be Completed, or pass the probe.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,
    /// What suffices of targets that have the tasks it names: they need not be Completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe: Option<FlowProbe>,
}

/// Changes of a template.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FlowPatch {
    /// Merged into the spec of the template: fields one by one, lists of named items by name, other lists as a whole.
    // Not read into its type: what is not said must be told from what is said to be empty.
    #[schemars(with = "JobSpec")]
    pub job_spec: Map<String, Value>,
}

/// Questions about the pods of targets, all of which must be answered well.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FlowProbe {
    /// Pages that every pod of a task must answer with a status from 200 to 399.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub http_get_list: Vec<FlowHttpGet>,
    /// Ports that every pod of a task must listen on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tcp_socket_list: Vec<FlowTcpSocket>,
    /// Phases that all pods of a task must be in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub task_status_list: Vec<FlowTaskStatus>,
}

/// A page that every pod of a task must answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FlowHttpGet {
    /// A task of a target; every task if not set.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub task_name: String,
    /// The path, such as `/healthz`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// The port.
    pub port: i32,
    /// A header to send along.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_header: Option<HTTPHeader>,
}

/// A port that every pod of a task must listen on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FlowTcpSocket {
    /// A task of a target; every task if not set.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub task_name: String,
    /// The port.
    pub port: i32,
}

/// A phase that all pods of a task must be in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FlowTaskStatus {
    /// A task of a target; every task if not set.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub task_name: String,
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`. Pods that have succeeded count as running.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
}

/// How far a flow has come.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct JobFlowStatus {
    /// Jobs that wait.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pending_jobs: Vec<String>,
    /// Jobs that run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub running_jobs: Vec<String>,
    /// Jobs that have failed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed_jobs: Vec<String>,
    /// Jobs that are complete.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub completed_jobs: Vec<String>,
    /// Jobs that were ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub terminated_jobs: Vec<String>,
    /// Jobs in any other phase.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub un_know_jobs: Vec<String>,
    /// The jobs that were started, also those that are gone by now.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub job_status_list: Vec<FlowJobStatus>,
    /// What each job was last seen to be, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub conditions: BTreeMap<String, FlowJobCondition>,
    /// The phase that the flow is in.
    pub state: JobFlowState,
}

/// The phase of a flow, and why.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct JobFlowState {
    /// None before a controller has seen the flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<JobFlowPhase>,
    /// Why, in one word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why, for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// A job of a flow that was started.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FlowJobStatus {
    /// The name of the job.
    pub name: String,
    /// Its phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<JobPhase>,
    /// When it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_timestamp: Option<Time>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_timestamp: Option<Time>,
    /// How often it was restarted.
    pub restart_count: i32,
    /// The phases it was in last, the newest at the end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub running_histories: Vec<JobRunningHistory>,
}

/// A phase that a job of a flow was in.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct JobRunningHistory {
    /// When it was first seen in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_timestamp: Option<Time>,
    /// When it was first seen in another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_timestamp: Option<Time>,
    /// The phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<JobPhase>,
}

/// What a job of a flow was last seen to be.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FlowJobCondition {
    /// Its phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<JobPhase>,
    /// When it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create_time: Option<Time>,
    /// From creation to its last change of phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running_duration: Option<Duration>,
    /// How many pods of each task are in which phase.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub task_status_count: BTreeMap<String, TaskStatus>,
}

words! {
    /// Where a flow is in its life.
    JobFlowPhase {
        Pending = "Pending",
        Running = "Running",
        Succeed = "Succeed",
        Failed = "Failed",
        /// It is being deleted.
        Terminating = "Terminating",
    }
}

words! {
    /// What becomes of the jobs of a flow that has succeeded.
    RetainPolicy {
        Retain = "retain",
        Delete = "delete",
    }
}

impl JobFlow {
    /// Returns the phase; a flow that no controller has seen waits.
    pub fn phase(&self) -> JobFlowPhase {
        self.status.as_ref().and_then(|status| status.state.phase).unwrap_or(JobFlowPhase::Pending)
    }

    /// Tells whether the flow is to start no job for now. Jobs that were made go on.
    pub fn is_suspended(&self) -> bool {
        let annotations = self.metadata.annotations.as_ref();
        annotations.and_then(|notes| notes.get(names::FLOW_SUSPENDED)).is_some_and(|value| value == "true")
    }

    /// Tells whether the flow has yet to write down how one of its jobs ended: one that is gone before is made again.
    pub fn awaits_end(&self, job: &str) -> bool {
        let name = self.metadata.name.as_deref().unwrap_or_default();
        let is_listed = self.spec.flows.iter().any(|one| names::flow_job(name, &one.name) == job);
        let mut entries = self.status.iter().flat_map(|status| &status.job_status_list);
        let is_written = entries.any(|entry| entry.name == job && entry.state.is_some_and(JobPhase::is_final));
        is_listed && self.metadata.deletion_timestamp.is_none() && !is_written
    }
}

impl FlowHttpGet {
    /// Returns the header to send along. Clients in Go write an empty one where none was given.
    pub fn header(&self) -> Option<&HTTPHeader> {
        self.http_header.as_ref().filter(|header| !header.name.is_empty() || !header.value.is_empty())
    }
}

impl JobFlowSpec {
    pub fn job_retain_policy(&self) -> RetainPolicy {
        self.job_retain_policy.parse().unwrap_or(RetainPolicy::Retain)
    }
}

impl Flow {
    pub fn targets(&self) -> &[String] {
        self.depends_on.as_ref().map(|depends_on| depends_on.targets.as_slice()).unwrap_or_default()
    }

    pub fn probe(&self) -> Option<&FlowProbe> {
        self.depends_on.as_ref()?.probe.as_ref()
    }
}

impl FlowProbe {
    /// Returns the task that each question is about, in the order of the lists; empty for every task.
    pub fn task_names(&self) -> impl Iterator<Item = &str> {
        let http = self.http_get_list.iter().map(|probe| &probe.task_name);
        let tcp = self.tcp_socket_list.iter().map(|probe| &probe.task_name);
        let status = self.task_status_list.iter().map(|probe| &probe.task_name);
        http.chain(tcp).chain(status).map(String::as_str)
    }
}
