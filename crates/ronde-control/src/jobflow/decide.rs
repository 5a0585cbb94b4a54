//! Decides what comes next for a flow: another status, or, when it says all there is to say, a plan. Pure.
//!
//! A job is listed in the status when what it depends on has happened; what is listed and has not ended is made if it is
//! not there. What has ended stays as it was, also when its job is deleted: nothing runs twice because somebody cleans up.
//!
//! ```text
//! Pending ──▶ Running ──▶ Succeed      all jobs are Completed
//!    │           └──────▶ Failed       a job has failed, and all that is left depends on it
//!    └── any ───────────▶ Terminating  the flow is being deleted
//! ```

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::ResourceExt as _;
use ronde_api::{
    Flow, FlowJobCondition, FlowJobStatus, FlowTaskStatus, Job, JobFlow, JobFlowPhase, JobFlowState, JobFlowStatus,
    JobPhase, JobRunningHistory, JobTemplate, PodPhase, RetainPolicy, names, rules,
};
use ronde_runtime::pods::controller_ref;
use ronde_text::names::is_valid_label_value;

use super::probe::{HttpQuestion, ProbedPod, Question};
use crate::reconcile::{JobEvent, Step, apply::FAILED_CREATE};

/// How soon pods are asked again.
const PROBE_PACE: SignedDuration = SignedDuration::from_secs(2);
/// How many phases of a job are remembered: a job that restarts for ever must not fill the status.
const HISTORIES_MAX: usize = 5;
/// How many names a message has.
const NAMES_MAX: usize = 5;

/// Reasons of states and events; all ours but the phases.
pub const INVALID: &str = "InvalidJobFlow";
pub const TEMPLATE_NOT_FOUND: &str = "JobTemplateNotFound";
pub const INVALID_PATCH: &str = "InvalidPatch";
pub const JOB_FAILED: &str = "JobFailed";
pub const SUSPENDED: &str = "Suspended";
pub const RESUMED: &str = "Resumed";

/// A flow and everything that a decision about it is made from.
#[derive(Debug, Clone)]
pub struct ObservedFlow<'a> {
    pub flow: &'a JobFlow,
    /// What its status says of each job, by name: a flow has many, and each is asked for often.
    pub entries: BTreeMap<&'a str, &'a FlowJobStatus>,
    /// Its jobs, by name.
    pub jobs: BTreeMap<String, Arc<Job>>,
    /// The templates that it names and that are there.
    pub templates: BTreeMap<String, Arc<JobTemplate>>,
    /// The pods of jobs that probes are about, by the name of the job.
    pub pods: BTreeMap<String, Vec<ProbedPod>>,
    /// The questions that pods have answered well.
    pub answered: BTreeSet<Question>,
    /// What is wrong with the flow.
    pub faults: Vec<String>,
    /// Why the API refuses to make a job.
    pub refusal: Option<String>,
}

/// Returns what the status of a flow says of each job, by name.
pub fn entries(flow: &JobFlow) -> BTreeMap<&str, &FlowJobStatus> {
    let listed = flow.status.iter().flat_map(|status| &status.job_status_list);
    listed.map(|entry| (entry.name.as_str(), entry)).collect()
}

/// What is to be done for a flow.
#[derive(Debug, Clone, Default)]
pub struct JobFlowPlan {
    pub create: Vec<Job>,
    pub delete: Vec<Arc<Job>>,
    /// When to look again even if nothing changes.
    pub look_again: Option<SignedDuration>,
}

/// Decides the next step.
pub fn decide(seen: &ObservedFlow<'_>, now: Timestamp) -> Step<JobFlowStatus, JobFlowPlan> {
    let before = seen.flow.status.clone().unwrap_or_default();
    let status = next_status(seen, &before, now);
    if status == before && seen.flow.status.is_some() {
        return Step::Apply(Box::new(plan(seen, &status)));
    }
    let events = events(&before.state, &status.state);
    Step::Write { status: Box::new(status), events }
}

/// Returns what pods are to be asked before the next decision.
pub fn questions(seen: &ObservedFlow<'_>) -> BTreeSet<Question> {
    let waiting = waiting_for_probes(seen);
    waiting.into_iter().flat_map(|(flow, target)| target_questions(seen, flow, target).unwrap_or_default()).collect()
}

fn next_status(seen: &ObservedFlow<'_>, before: &JobFlowStatus, now: Timestamp) -> JobFlowStatus {
    let mut status = JobFlowStatus { conditions: before.conditions.clone(), ..JobFlowStatus::default() };
    for flow in &seen.flow.spec.flows {
        let Some(entry) = next_entry(seen, flow, now) else { continue };
        list_of(&mut status, entry.state).push(entry.name.clone());
        if let Some(job) = seen.jobs.get(&entry.name) {
            status.conditions.insert(entry.name.clone(), condition(job));
        }
        status.job_status_list.push(entry);
    }
    let listed: BTreeSet<&str> = status.job_status_list.iter().map(|entry| entry.name.as_str()).collect();
    status.conditions.retain(|name, _| listed.contains(name.as_str()));
    status.state = state(seen, &status);
    status
}

/// Returns what is to be known of a job: none if it may not start yet.
fn next_entry(seen: &ObservedFlow<'_>, flow: &Flow, now: Timestamp) -> Option<FlowJobStatus> {
    let name = seen.job_name(&flow.name);
    let known = seen.entries.get(name.as_str()).copied();
    // What has ended has ended: a cache of an earlier time does not bring it back.
    if let Some(known) = known.filter(|known| known.state.is_some_and(JobPhase::is_final)) {
        return Some(known.clone());
    }
    let job = seen.jobs.get(&name);
    let may_start = || seen.may_start() && seen.is_ready(flow);
    if known.is_none() && job.is_none() && !may_start() {
        return None;
    }
    let mut entry = known.cloned().unwrap_or_default();
    entry.name = name;
    let phase = job.map_or(JobPhase::Pending, |job| phase_of(job));
    if entry.state != Some(phase) {
        remember(&mut entry.running_histories, phase, now);
    }
    entry.state = Some(phase);
    if let Some(job) = job {
        let status = job.status.clone().unwrap_or_default();
        entry.start_timestamp.clone_from(&job.metadata.creation_timestamp);
        entry.end_timestamp = status.state.last_transition_time.filter(|_| phase.is_final());
        entry.restart_count = status.retry_count;
    }
    Some(entry)
}

fn remember(histories: &mut Vec<JobRunningHistory>, phase: JobPhase, now: Timestamp) {
    if let Some(last) = histories.last_mut() {
        last.end_timestamp = Some(Time(now));
    }
    histories.push(JobRunningHistory { start_timestamp: Some(Time(now)), end_timestamp: None, state: Some(phase) });
    let surplus = histories.len().saturating_sub(HISTORIES_MAX);
    histories.drain(..surplus);
}

fn condition(job: &Job) -> FlowJobCondition {
    let status = job.status.clone().unwrap_or_default();
    FlowJobCondition {
        phase: Some(phase_of(job)),
        create_time: job.metadata.creation_timestamp.clone(),
        running_duration: status.running_duration,
        task_status_count: status.task_status_count,
    }
}

fn list_of(status: &mut JobFlowStatus, phase: Option<JobPhase>) -> &mut Vec<String> {
    match phase {
        Some(JobPhase::Pending) => &mut status.pending_jobs,
        Some(JobPhase::Running) => &mut status.running_jobs,
        Some(JobPhase::Completed) => &mut status.completed_jobs,
        Some(JobPhase::Failed) => &mut status.failed_jobs,
        Some(JobPhase::Terminated) => &mut status.terminated_jobs,
        _ => &mut status.un_know_jobs,
    }
}

fn phase_of(job: &Job) -> JobPhase {
    job.status.as_ref().and_then(|status| status.state.phase).unwrap_or(JobPhase::Pending)
}

fn state(seen: &ObservedFlow<'_>, status: &JobFlowStatus) -> JobFlowState {
    let blocked = blocked(seen, status);
    let (reason, message) = why(seen, status, &blocked);
    JobFlowState { phase: Some(phase(seen, status, &blocked)), reason, message }
}

fn phase(seen: &ObservedFlow<'_>, status: &JobFlowStatus, blocked: &BTreeSet<&str>) -> JobFlowPhase {
    let total = seen.flow.spec.flows.len();
    let failed = status.failed_jobs.len() + status.terminated_jobs.len();
    if seen.is_deleted() {
        JobFlowPhase::Terminating
    } else if total > 0 && status.completed_jobs.len() == total {
        JobFlowPhase::Succeed
    } else if failed > 0 && status.completed_jobs.len() + failed + blocked.len() == total {
        JobFlowPhase::Failed
    } else if status.pending_jobs.len() < status.job_status_list.len() {
        JobFlowPhase::Running
    } else {
        JobFlowPhase::Pending
    }
}

/// Tells whether no job would start any more, suspended or not.
fn is_over(seen: &ObservedFlow<'_>, status: &JobFlowStatus, blocked: &BTreeSet<&str>) -> bool {
    matches!(phase(seen, status, blocked), JobFlowPhase::Succeed | JobFlowPhase::Failed | JobFlowPhase::Terminating)
}

/// Returns the templates whose jobs never run, because one that they depend on has failed. Costs flows + targets.
fn blocked<'a>(seen: &ObservedFlow<'a>, status: &JobFlowStatus) -> BTreeSet<&'a str> {
    let started: BTreeSet<&str> = status.job_status_list.iter().map(|entry| entry.name.as_str()).collect();
    let ended: BTreeSet<&String> = status.failed_jobs.iter().chain(&status.terminated_jobs).collect();
    let mut waiting: BTreeMap<&str, Vec<&'a str>> = BTreeMap::new();
    let mut hopeless: Vec<&str> = Vec::new();
    for flow in &seen.flow.spec.flows {
        let job = seen.job_name(&flow.name);
        if ended.contains(&job) {
            hopeless.push(&flow.name);
        }
        if !started.contains(job.as_str()) {
            flow.targets().iter().for_each(|target| waiting.entry(target).or_default().push(&flow.name));
        }
    }
    let mut blocked = BTreeSet::new();
    while let Some(target) = hopeless.pop() {
        for name in waiting.remove(target).unwrap_or_default() {
            if blocked.insert(name) {
                hopeless.push(name);
            }
        }
    }
    blocked
}

/// Says what a flow waits for, or why it does not go on: a word and a sentence.
fn why(seen: &ObservedFlow<'_>, status: &JobFlowStatus, blocked: &BTreeSet<&str>) -> (String, String) {
    let (reason, message) = if !seen.faults.is_empty() {
        (INVALID, seen.faults.join("; "))
    } else if seen.flow.is_suspended() && !is_over(seen, status, blocked) {
        let failed = failure(status).map(|failed| format!("; {failed}")).unwrap_or_default();
        (SUSPENDED, format!("no job starts until the flow is resumed{failed}"))
    } else if let Some(refusal) = &seen.refusal {
        (FAILED_CREATE, refusal.clone())
    } else if let Some(missing) = seen.due().find(|flow| !seen.templates.contains_key(&flow.name)) {
        (TEMPLATE_NOT_FOUND, format!("there is no JobTemplate `{}`", missing.name))
    } else if let Some((flow, error)) = seen.due().find_map(|flow| Some((flow, seen.build(flow)?.err()?))) {
        (INVALID_PATCH, format!("job `{}`: {error}", seen.job_name(&flow.name)))
    } else if let Some(failed) = failure(status) {
        let left: Vec<String> = blocked.iter().map(|name| seen.job_name(name)).collect();
        let never = if left.is_empty() { String::new() } else { format!("; not run: {}", enumerate(&left)) };
        (JOB_FAILED, format!("{failed}{never}"))
    } else {
        ("", String::new())
    };
    (reason.to_owned(), message)
}

fn failure(status: &JobFlowStatus) -> Option<String> {
    let ended: Vec<String> = status.failed_jobs.iter().chain(&status.terminated_jobs).cloned().collect();
    (!ended.is_empty()).then(|| format!("failed: {}", enumerate(&ended)))
}

fn enumerate(names: &[String]) -> String {
    let shown = names.iter().take(NAMES_MAX).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let more = names.len().saturating_sub(NAMES_MAX);
    if more == 0 { shown } else { format!("{shown} and {more} more") }
}

/// Returns what people are told of a change.
fn events(before: &JobFlowState, now: &JobFlowState) -> Vec<JobEvent> {
    let mut events = Vec::new();
    // Every refused attempt has its own event.
    let (is_suspended, was_suspended) = (now.reason == SUSPENDED, before.reason == SUSPENDED);
    if is_suspended != was_suspended && now.phase != Some(JobFlowPhase::Terminating) {
        let (reason, message) = if is_suspended { (SUSPENDED, &*now.message) } else { (RESUMED, "jobs start again") };
        events.push(JobEvent::normal(reason, message));
    }
    if now.message != before.message && !now.message.is_empty() && now.reason != FAILED_CREATE && !is_suspended {
        events.push(JobEvent::warning(&now.reason, &now.message));
    }
    if now.phase != before.phase && now.phase == Some(JobFlowPhase::Succeed) {
        events.push(JobEvent::normal(JobFlowPhase::Succeed, "all jobs are complete"));
    }
    events
}

fn plan(seen: &ObservedFlow<'_>, status: &JobFlowStatus) -> JobFlowPlan {
    let mut plan = JobFlowPlan::default();
    if seen.is_deleted() {
        return plan;
    }
    let is_done = status.state.phase == Some(JobFlowPhase::Succeed);
    if is_done && seen.flow.spec.job_retain_policy() == RetainPolicy::Delete {
        let there = seen.jobs.values().filter(|job| job.metadata.deletion_timestamp.is_none());
        plan.delete = there.cloned().collect();
    }
    if seen.may_start() {
        let missing = seen.due().filter(|flow| !seen.jobs.contains_key(&seen.job_name(&flow.name)));
        plan.create = missing.filter_map(|flow| seen.build(flow)?.ok()).collect();
    }
    let is_asking = !waiting_for_probes(seen).is_empty();
    plan.look_again = is_asking.then_some(PROBE_PACE);
    plan
}

/// Returns the jobs that wait for answers of the pods of a target, with that target.
fn waiting_for_probes<'a>(seen: &ObservedFlow<'a>) -> Vec<(&'a Flow, &'a str)> {
    if !seen.may_start() {
        return Vec::new();
    }
    let waiting = seen.flow.spec.flows.iter().filter(|flow| seen.entry(&flow.name).is_none());
    let pairs = waiting.flat_map(|flow| flow.targets().iter().map(move |target| (flow, target.as_str())));
    let asks = |flow: &Flow| {
        flow.probe().is_some_and(|probe| !probe.http_get_list.is_empty() || !probe.tcp_socket_list.is_empty())
    };
    pairs
        .filter(|(flow, target)| {
            asks(flow) && seen.jobs.contains_key(&seen.job_name(target)) && !seen.is_met(flow, target)
        })
        .collect()
}

/// Returns what the pods of a target must answer for a job to start; none if one cannot be asked yet.
fn target_questions(seen: &ObservedFlow<'_>, flow: &Flow, target: &str) -> Option<Vec<Question>> {
    let probe = flow.probe()?;
    let pods = seen.pods.get(&seen.job_name(target)).map(Vec::as_slice).unwrap_or_default();
    let mut questions = Vec::new();
    let mut add = |task: &str, port: i32, http: Option<HttpQuestion>| {
        let port = u16::try_from(port).ok()?;
        for pod in pods.iter().filter(|pod| task.is_empty() || pod.task == task) {
            questions.push(Question { address: SocketAddr::new(pod.address?, port), http: http.clone() });
        }
        Some(())
    };
    for get in &probe.http_get_list {
        let header = get.header().map(|header| (header.name.clone(), header.value.clone()));
        add(&get.task_name, get.port, Some(HttpQuestion { path: get.path.clone(), header }))?;
    }
    for tcp in &probe.tcp_socket_list {
        add(&tcp.task_name, tcp.port, None)?;
    }
    Some(questions)
}

impl<'a> ObservedFlow<'a> {
    fn job_name(&self, template: &str) -> String {
        names::flow_job(&self.flow.name_any(), template)
    }

    /// Tells whether any job of the flow may be made.
    fn may_start(&self) -> bool {
        self.faults.is_empty() && !self.is_deleted() && !self.flow.is_suspended()
    }

    fn is_deleted(&self) -> bool {
        self.flow.metadata.deletion_timestamp.is_some()
    }

    /// Returns what the status says of a job.
    fn entry(&self, template: &str) -> Option<&'a FlowJobStatus> {
        self.entries.get(self.job_name(template).as_str()).copied()
    }

    /// Returns the jobs that are due: listed and not ended, or ready to be.
    fn due(&self) -> impl Iterator<Item = &'a Flow> {
        self.flow.spec.flows.iter().filter(|flow| match self.entry(&flow.name) {
            Some(entry) => !entry.state.is_some_and(JobPhase::is_final) && !self.jobs.contains_key(&entry.name),
            None => self.are_targets_met(flow) && !self.jobs.contains_key(&self.job_name(&flow.name)),
        })
    }

    fn is_ready(&self, flow: &Flow) -> bool {
        self.are_targets_met(flow) && self.templates.contains_key(&flow.name)
    }

    fn are_targets_met(&self, flow: &Flow) -> bool {
        flow.targets().iter().all(|target| self.is_met(flow, target))
    }

    /// Tells whether a target is complete, or passes the probe if that is about it.
    fn is_met(&self, flow: &Flow, target: &str) -> bool {
        let state = self.entry(target).and_then(|entry| entry.state);
        match (state, self.jobs.get(&self.job_name(target))) {
            (Some(JobPhase::Completed), _) => true,
            (Some(JobPhase::Failed | JobPhase::Terminated) | None, _) | (_, None) => false,
            (Some(_), Some(job)) => self.passes(flow, target, job),
        }
    }

    /// Tells whether a job that runs passes the probe of another. A probe is about jobs that have all tasks it names.
    fn passes(&self, flow: &Flow, target: &str, job: &Job) -> bool {
        let Some(probe) = flow.probe() else { return false };
        let has = |task: &str| task.is_empty() || job.spec.tasks.iter().any(|it| it.name == task);
        let is_about = probe.task_names().next().is_some() && probe.task_names().all(has);
        let is_whole =
            probe.http_get_list.is_empty() && probe.tcp_socket_list.is_empty() || self.has_all_pods(target, job);
        is_about
            && is_whole
            && probe.task_status_list.iter().all(|wanted| has_phase(job, wanted))
            && target_questions(self, flow, target)
                .is_some_and(|questions| questions.iter().all(|question| self.answered.contains(question)))
    }

    /// Pods that are not made yet cannot answer.
    fn has_all_pods(&self, target: &str, job: &Job) -> bool {
        let pods = self.pods.get(&self.job_name(target)).map_or(0, Vec::len);
        i64::try_from(pods).is_ok_and(|pods| pods >= job.spec.total_replicas())
    }

    /// Builds the job of a template; none if that is not there.
    fn build(&self, flow: &Flow) -> Option<Result<Job, String>> {
        let template = self.templates.get(&flow.name)?;
        let spec = match rules::job_flow::patched(&template.spec, flow) {
            Ok(spec) => spec,
            Err(error) => return Some(Err(error)),
        };
        let namespace = self.flow.namespace().unwrap_or_default();
        let marks = [
            (names::CREATED_BY_TEMPLATE.to_owned(), format!("{namespace}.{}", flow.name)),
            (names::CREATED_BY_FLOW.to_owned(), format!("{namespace}.{}", self.flow.name_any())),
        ];
        // A label has room for less than two names; the annotation always tells.
        let labels = marks.iter().filter(|(_, value)| is_valid_label_value(value).is_empty()).cloned().collect();
        let metadata = ObjectMeta {
            name: Some(self.job_name(&flow.name)),
            namespace: Some(namespace),
            labels: Some(labels),
            annotations: Some(marks.into()),
            owner_references: Some(vec![controller_ref(self.flow)]),
            ..ObjectMeta::default()
        };
        Some(Ok(Job { metadata, spec, status: None }))
    }
}

/// Tells whether all pods of a task are in a phase; those that have succeeded did run.
fn has_phase(job: &Job, wanted: &FlowTaskStatus) -> bool {
    let Ok(phase) = wanted.phase.parse::<PodPhase>() else { return false };
    let counts = job.status.as_ref().map(|status| &status.task_status_count);
    let count = |task: &str, phase: PodPhase| {
        counts.and_then(|counts| counts.get(task)).and_then(|task| task.phase.get(&phase)).copied().unwrap_or(0)
    };
    let mut tasks = job.spec.tasks.iter().filter(|task| wanted.task_name.is_empty() || task.name == wanted.task_name);
    tasks.all(|task| {
        let ran = if phase == PodPhase::Running { count(&task.name, PodPhase::Succeeded) } else { 0 };
        count(&task.name, phase) + ran >= task.replicas
    })
}
