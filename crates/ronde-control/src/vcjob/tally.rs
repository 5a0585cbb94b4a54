//! The pods of a job, counted as its status shows them. Pure.

use std::collections::BTreeMap;

use ronde_api::{JobPhase, JobStatus, PhaseRecord, PodPhase, TaskStatus};
use ronde_runtime::pods::state::PodState;

use super::{member::Member, memory::Memory, observed::Observed};

/// How many pods are in which state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    pub pending: i32,
    pub running: i32,
    pub succeeded: i32,
    pub failed: i32,
    pub unknown: i32,
    /// Deleted, or about to be.
    pub terminating: i32,
    pub tasks: BTreeMap<String, TaskStatus>,
}

impl Tally {
    /// Counts the pods of a job.
    pub fn of_job(seen: &Observed<'_>, memory: &Memory) -> Self {
        let mut tally = Self::default();
        for task in &seen.spec().tasks {
            tally.add(&task.name, PodState::Succeeded, memory.succeeded_of(&task.name));
        }
        for member in &seen.members {
            if let Some(state) = counted_as(seen, memory, member) {
                tally.add(&member.task, state, 1);
            }
        }
        tally
    }

    /// Returns how many pods have not ended.
    pub fn alive(&self) -> i32 {
        self.pending + self.running + self.unknown + self.terminating
    }

    pub fn succeeded_of(&self, task: &str) -> i32 {
        let status = self.tasks.get(task);
        status.and_then(|status| status.phase.get(&PodPhase::Succeeded)).copied().unwrap_or(0)
    }

    fn add(&mut self, task: &str, state: PodState, number: i32) {
        if number == 0 {
            return;
        }
        let (total, phase) = match state {
            PodState::Pending => (&mut self.pending, PodPhase::Pending),
            PodState::Running => (&mut self.running, PodPhase::Running),
            PodState::Succeeded => (&mut self.succeeded, PodPhase::Succeeded),
            PodState::Failed => (&mut self.failed, PodPhase::Failed),
            PodState::Unknown => (&mut self.unknown, PodPhase::Unknown),
            PodState::Terminating => {
                self.terminating += number;
                return;
            }
        };
        *total += number;
        *self.tasks.entry(task.to_owned()).or_default().phase.entry(phase).or_default() += number;
    }

    /// Puts the numbers into a status. What a job had at its end it keeps, also when its pods are removed.
    pub fn write(mut self, status: &mut JobStatus, was: Option<JobPhase>) {
        if was.is_some_and(JobPhase::is_final) {
            (self.succeeded, self.failed) = (status.succeeded, status.failed);
            self.tasks = std::mem::take(&mut status.task_status_count);
            for task in self.tasks.values_mut() {
                task.phase.retain(|phase, _| matches!(phase, PodPhase::Succeeded | PodPhase::Failed));
            }
            self.tasks.retain(|_, task| !task.phase.is_empty());
        }
        status.pending = self.pending;
        status.running = self.running;
        status.succeeded = self.succeeded;
        status.failed = self.failed;
        status.unknown = self.unknown;
        status.terminating = self.terminating;
        status.task_status_count = self.tasks;
    }
}

/// Tells whether a status differs from another one by numbers of pods alone: nothing that is done follows from them.
pub fn is_recount(before: &JobStatus, after: &JobStatus) -> bool {
    let uncounted = |status: &JobStatus| JobStatus {
        pending: 0,
        running: 0,
        succeeded: 0,
        failed: 0,
        unknown: 0,
        terminating: 0,
        task_status_count: BTreeMap::new(),
        phases: status.phases.iter().map(|record| PhaseRecord { pods: 0, ..record.clone() }).collect(),
        ..status.clone()
    };
    uncounted(before) == uncounted(after)
}

/// Successes are counted from the memory, which outlives their pods.
fn counted_as(seen: &Observed<'_>, memory: &Memory, member: &Member) -> Option<PodState> {
    let is_counted = member.has_succeeded() && memory.has_succeeded(&member.task, member.index);
    if is_counted && !seen.is_surplus(member) {
        return None;
    }
    Some(if seen.is_present(memory, member) { member.state } else { PodState::Terminating })
}
