//! The status of a job in the making: what it remembers, what it answers, which phase comes next.
//!
//! Pure. [`super::decide`] calls the steps in their order.
//!
//! ```text
//!            ┌────────── RestartJob/Task/Partition/Pod ─────────┐
//!            │                                                  ▼
//! Pending ◀──┴─▶ Running ──▶ Completed, Failed          Restarting ──▶ Failed (retries used up)
//!    ▲              │                                     │   ▲
//!    └──────────────┼─────────────────────────────────────┘   │ ResumeJob
//!                   ├── AbortJob ─────▶ Aborting ───────▶ Aborted
//!                   ├── CompleteJob ──▶ Completing ─────▶ Completed
//!                   └── TerminateJob ─▶ Terminating ────▶ Terminated
//! ```
//! The last three are open to all of Pending, Running and Restarting.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;
use ronde_api::{
    Action, Command, Duration, Event, JobCondition, JobPhase, JobStatus, PhaseRecord, history, names,
    rules::job as rules_of_jobs,
};
use ronde_runtime::pods::{disruption::Disruption, time};

use super::{
    changes, events,
    memory::{Disrupted, Memory, NotedOccasion, PLUGIN, Scope},
    observed::{Observed, is_live},
    occurrence::{self, Occurrence},
    plugins::Plugins,
    policy::{self, Question},
    rules,
    tally::Tally,
    template, volumes,
};
use crate::reconcile::{Cause, JobEvent};

/// How many occasions a status notes; each takes about 80 bytes.
const NOTES_MAX: usize = 100;

/// How soon a job that is refused is looked at again: its queue may have been opened.
const REFUSED_AGAIN: SignedDuration = SignedDuration::from_secs(10);

/// A status in the making.
pub struct StatusBuilder<'a> {
    pub seen: &'a Observed<'a>,
    pub memory: Memory,
    pub status: JobStatus,
    pub events: Vec<JobEvent>,
    /// When to look again even if nothing changes.
    pub look_again: Option<SignedDuration>,
    now: Timestamp,
}

/// An action that a policy asks for now.
struct Due {
    action: Action,
    occurrence: Occurrence,
    scope: Option<Scope>,
}

impl<'a> StatusBuilder<'a> {
    pub fn new(seen: &'a Observed<'a>, now: Timestamp) -> Self {
        let status = seen.job.status.clone().unwrap_or_default();
        let memory = Memory::read(&status, seen.spec());
        Self { seen, memory, status, events: Vec::new(), look_again: None, now }
    }

    pub fn phase(&self) -> JobPhase {
        self.status.state.phase.unwrap_or(JobPhase::Pending)
    }

    /// Says what is wrong with the job; nothing is made for it.
    pub fn refuse(&mut self) {
        let cause = Cause::new(events::INVALID_JOB, self.seen.faults.join("; "));
        if self.status.state.message != cause.message {
            self.events.push(JobEvent::warning(events::INVALID_JOB, &cause.message));
        }
        self.enter(JobPhase::Pending, cause);
        self.look_again = Some(REFUSED_AGAIN);
    }

    /// Remembers what has ended, and forgets what is over.
    pub fn remember(&mut self) {
        if self.status.state.phase.is_none() {
            self.enter(JobPhase::Pending, Cause::new("", ""));
        }
        if self.phase().is_final() {
            return;
        }
        self.status.min_available = self.seen.spec().min_available;
        for member in &self.seen.members {
            if member.has_succeeded() && self.seen.is_present(&self.memory, member) {
                let before = self.memory.succeeded.remove(&member.task).unwrap_or_default();
                self.memory.remember_succeeded(&member.task, before.with([member.index]));
            }
        }
        self.forget();
        self.notice_disruptions();
        self.claim_resources();
    }

    /// Remembers why pods were ended that had done nothing wrong, until the job is whole again.
    fn notice_disruptions(&mut self) {
        let tally = Tally::of_job(self.seen, &self.memory);
        if !is_live(self.phase()) || tally.running + tally.succeeded >= self.seen.replicas() {
            self.memory.disruption = None;
        }
        let present = self.seen.members.iter().filter(|member| self.seen.is_present(&self.memory, member));
        let marked = present.filter_map(|member| Some((member.disrupted_at(), &member.name, member.disruption()?)));
        let Some((since, pod, Disruption { reason, why })) = marked.max_by_key(|(since, ..)| *since) else { return };
        let is_known = self.memory.disruption.as_ref().is_some_and(|known| known.why == why);
        if !is_known {
            self.events.push(JobEvent::warning(reason, format!("pod {pod} was {why}")));
        }
        self.memory.disruption = Some(Disrupted { since, why });
    }

    /// Tells whether something is not held against the job: it was done to a pod, or happened before the job was whole
    /// again. A pod that was made after the others were ended has no such excuse.
    fn is_excused(&self, occurrence: &Occurrence) -> bool {
        let came_before = |disrupted: &Disrupted| occurrence.pod_since.is_none_or(|since| since <= disrupted.since);
        occurrence.is_disruption || self.memory.disruption.as_ref().is_some_and(came_before)
    }

    fn forget(&mut self) {
        let is_needed = |scope: &Scope, floor: &mut i32| {
            let is_older = |member: &super::member::Member| member.version < *floor && scope.covers(member);
            *scope == Scope::Job || self.seen.members.iter().any(is_older)
        };
        self.memory.floors.retain(is_needed);
        let memory = self.memory.clone();
        self.memory.seen.retain(|occasion, _| !occurrence::is_over(self.seen, &memory, occasion));
    }

    /// Says what is made for the job before it is made, so that it is found again.
    fn claim_resources(&mut self) {
        let plugins = Plugins::of_job(self.seen.job);
        for name in plugins.names() {
            let known = self.status.controlled_resources.insert(format!("{PLUGIN}{name}"), name.to_owned());
            if known.is_none() {
                let faults = plugins.faults_of(name);
                self.events.extend(faults.map(|fault| JobEvent::warning(events::PLUGIN_ERROR, fault)));
            }
        }
        for claim in volumes::claim_names(self.seen.job) {
            self.status.controlled_resources.insert(format!("volume-pvc-{claim}"), claim);
        }
    }

    /// Carries out a command or what policies ask for; tells whether there was something.
    pub fn answer(&mut self) -> bool {
        if self.is_used_up() {
            return false;
        }
        let is_answered = self.obey() || is_live(self.phase()) && self.apply_policies();
        if !self.phase().is_final() {
            self.look_at_spec();
            self.memory.generation = self.seen.job.metadata.generation;
        }
        is_answered
    }

    /// Tells of a new job what has no effect in it, and of a changed one what is wrong with the change.
    fn look_at_spec(&mut self) {
        let job = self.seen.job;
        if self.memory.generation.is_none() {
            let warnings = rules_of_jobs::warnings(job).into_iter();
            self.events.extend(warnings.map(|warning| JobEvent::warning(events::JOB_WARNING, warning)));
        } else if self.memory.generation != job.metadata.generation {
            let faults = changes::faults(job, self.memory.fixed.as_deref());
            if !faults.is_empty() {
                self.events.push(JobEvent::warning(events::INVALID_JOB, faults.join("; ")));
            }
            self.say_what_runs_on();
        } else {
            return;
        }
        self.memory.fixed = Some(changes::marks(&job.spec));
        let queue = Some(job.spec.queue.clone()).filter(|queue| !queue.is_empty() && queue != names::DEFAULT_QUEUE);
        self.memory.queue = self.memory.queue.take().or(queue);
    }

    /// Says of a changed job which pods will know later.
    fn say_what_runs_on(&mut self) {
        for (task, outdated) in template::outdated(self.seen, &self.memory) {
            if outdated.running > 0 {
                let pods = count_pods(outdated.running, "runs", "run");
                let text = format!("task {task} was changed: {pods} on as before, until a restart");
                self.events.push(JobEvent::normal(events::PODS_CHANGED, text));
            }
        }
    }

    /// Makes pods that have not started anew if the job says something else by now; tells whether there were any. It
    /// costs no retry, the job keeps its phase and its group keeps its place in the queue.
    pub fn renew(&mut self) -> bool {
        if !matches!(self.phase(), JobPhase::Pending | JobPhase::Running) {
            return false;
        }
        let mut scopes = Vec::new();
        for (task, outdated) in template::outdated(self.seen, &self.memory) {
            let of_task = outdated.scopes(task);
            if !of_task.is_empty() {
                let pods = count_pods(outdated.waiting.len(), "has", "have");
                let text = format!("task {task} was changed: {pods} not started and will be replaced");
                self.events.push(JobEvent::normal(events::PODS_CHANGED, text));
            }
            scopes.extend(of_task);
        }
        if !scopes.is_empty() {
            self.bump_version(&scopes);
        }
        !scopes.is_empty()
    }

    /// Says of a command that nothing comes of it, because the job is refused.
    pub fn decline(&mut self) {
        let Some(command) = self.next_command() else { return };
        self.memory.command = command.uid();
        let text = format!("Command {} has no effect on an invalid job", command.action);
        self.events.push(JobEvent::warning(events::COMMAND_ISSUED, text));
    }

    /// One command at a time: the last one is deleted before the next is looked at.
    fn next_command(&self) -> Option<&'a Arc<Command>> {
        let is_done = |uid: Option<String>| uid.is_some() && uid == self.memory.command;
        let is_busy = self.seen.commands.iter().any(|command| is_done(command.uid()));
        self.seen.commands.first().filter(|_| !is_busy)
    }

    /// Tells whether a restart is the one too many.
    fn is_used_up(&self) -> bool {
        self.phase() == JobPhase::Restarting && self.status.retry_count >= self.seen.max_retry()
    }

    fn obey(&mut self) -> bool {
        let Some(command) = self.next_command() else { return false };
        self.memory.command = command.uid();
        let action = &command.action;
        self.events.push(JobEvent::normal(events::COMMAND_ISSUED, format!("Start to execute command {action}")));
        let why = if command.message.is_empty() { "requested by a command" } else { &command.message };
        let cause = Cause::new(events::COMMAND_ISSUED, format!("{action}: {why}"));
        let action = action.parse::<Action>().ok().filter(|action| !is_partial(*action));
        if !action.is_some_and(|action| self.execute(action, &cause, Budget::Free)) {
            let phase = self.phase();
            let text = format!("Command {} has no effect on a job that is {phase}", command.action);
            self.events.push(JobEvent::warning(events::COMMAND_ISSUED, text));
        }
        true
    }

    fn apply_policies(&mut self) -> bool {
        let mut due: Vec<Due> = Vec::new();
        for occurrence in occurrence::all(self.seen, &self.memory) {
            due.extend(self.due(occurrence));
        }
        due.sort_by_key(|due| (rank(due.action), !due.occurrence.is_disruption));
        let Some(first) = due.first() else { return false };
        let is_excused = due.iter().any(|due| self.is_excused(&due.occurrence));
        let budget = if is_excused { Budget::Free } else { Budget::Retry };
        let cause =
            Cause::new(first.occurrence.occasion.event, format!("{}: {}", first.action, first.occurrence.message));
        if is_partial(first.action) {
            self.restart_parts(&due, &cause, budget);
        } else {
            let first = due.swap_remove(0);
            self.settle(&first.occurrence);
            self.execute(first.action, &cause, budget);
        }
        true
    }

    /// Returns the action that something asks for, if its time has come.
    fn due(&mut self, occurrence: Occurrence) -> Option<Due> {
        let question =
            Question { event: occurrence.occasion.event, task: occurrence.task(), exit_codes: &occurrence.exit_codes };
        let Some(policy) = policy::answer(self.seen.spec(), question) else { return replace_disrupted(occurrence) };
        let action = policy.action().filter(|action| rank(*action) < IDLE)?;
        let scope = occurrence.scope(self.seen, action).filter(|_| is_partial(action));
        let is_aimless = is_partial(action) && scope.is_none();
        let noted = self.memory.seen.get(&occurrence.occasion).copied();
        if is_aimless || noted.is_some_and(|seen| seen.is_answered) {
            return None;
        }
        if let Some(wait) = policy.timeout.filter(|wait| *wait > Duration::ZERO) {
            let since = occurrence.since.or(noted.map(|seen| seen.since));
            let since = since.unwrap_or_else(|| self.note(&occurrence, action, wait));
            let left = since.duration_since(self.now) + SignedDuration::from_nanos(wait.nanoseconds());
            if left.is_positive() {
                self.look_again = self.look_again.into_iter().chain([left]).min();
                return None;
            }
        }
        Some(Due { action, occurrence, scope })
    }

    fn note(&mut self, occurrence: &Occurrence, action: Action, wait: Duration) -> Timestamp {
        let since = time(self.now).0;
        if self.memory.seen.len() < NOTES_MAX {
            self.memory.seen.insert(occurrence.occasion.clone(), NotedOccasion { since, is_answered: false });
            self.events.push(JobEvent::normal(events::EXECUTE_ACTION, format!("Execute action {action} after {wait}")));
        }
        since
    }

    /// Remembers that something is answered.
    fn settle(&mut self, occurrence: &Occurrence) {
        if occurrence.is_lasting() {
            let since = time(self.now).0;
            self.memory.seen.insert(occurrence.occasion.clone(), NotedOccasion { since, is_answered: true });
        } else {
            self.memory.seen.remove(&occurrence.occasion);
        }
    }

    /// Carries out an action on the whole job; tells whether it has an effect in this phase.
    fn execute(&mut self, action: Action, cause: &Cause, budget: Budget) -> bool {
        let phase = self.phase();
        let next = match action {
            Action::AbortJob => JobPhase::Aborting,
            Action::CompleteJob => JobPhase::Completing,
            Action::TerminateJob => JobPhase::Terminating,
            Action::RestartJob | Action::ResumeJob => JobPhase::Restarting,
            _ => return false,
        };
        let is_open = if action == Action::ResumeJob {
            matches!(phase, JobPhase::Aborting | JobPhase::Aborted)
        } else {
            is_live(phase)
        };
        if !is_open {
            return false;
        }
        self.events.push(JobEvent::normal(events::EXECUTE_ACTION, format!("Start to execute action {action}")));
        // Waiting actions of the whole job and of its parts are made pointless by this one.
        self.memory.seen.retain(|_, seen| seen.is_answered);
        if action == Action::RestartJob {
            self.spend(budget);
        }
        self.enter(next, cause.clone());
        if next == JobPhase::Restarting && !self.is_used_up() {
            self.bump_version(&[Scope::Job]);
            if action == Action::RestartJob {
                self.memory.succeeded.clear();
            }
        }
        true
    }

    /// Restarts parts of the job. However many there are, it is one restart.
    fn restart_parts(&mut self, due: &[Due], cause: &Cause, budget: Budget) {
        let mut scopes: Vec<Scope> = Vec::new();
        for due in due {
            self.settle(&due.occurrence);
            scopes.extend(due.scope.clone());
            self.events
                .push(JobEvent::normal(events::EXECUTE_ACTION, format!("Start to execute action {}", due.action)));
        }
        scopes.sort();
        scopes.dedup();
        self.events.dedup();
        self.spend(budget);
        self.enter(JobPhase::Restarting, cause.clone());
        if !self.is_used_up() {
            self.bump_version(&scopes);
            self.rerun(&scopes);
        }
    }

    /// Makes all pods in some scopes pods of the past.
    fn bump_version(&mut self, scopes: &[Scope]) {
        self.status.version += 1;
        for scope in scopes {
            self.memory.floors.insert(scope.clone(), self.status.version);
        }
    }

    /// Forgets the successes of what is restarted.
    fn rerun(&mut self, scopes: &[Scope]) {
        for scope in scopes {
            match scope {
                Scope::Task(task) => drop(self.memory.succeeded.remove(task)),
                Scope::Partition(name, partition) => {
                    let size = self.seen.task(name).and_then(|task| task.partition_policy.as_ref());
                    let size = size.map_or(0, |policy| policy.partition_size);
                    let first = partition * size;
                    if let Some(indexes) = self.memory.succeeded.remove(name) {
                        self.memory.remember_succeeded(name, indexes.without(first, first + size - 1));
                    }
                }
                Scope::Job | Scope::Pod(_) => {}
            }
        }
    }

    /// A restart while the job restarts is part of the same one.
    fn spend(&mut self, budget: Budget) {
        if budget == Budget::Retry && self.phase() != JobPhase::Restarting {
            self.status.retry_count += 1;
        }
    }

    /// Goes on to the phase that follows from the pods.
    pub fn advance(&mut self) {
        let tally = Tally::of_job(self.seen, &self.memory);
        let next = rules::next_phase(self.seen, &self.status, &tally, self.phase());
        // A policy that still waits may yet restart what has failed.
        let is_early = self.look_again.is_some();
        if let Some((phase, cause)) = next.filter(|(phase, _)| *phase != JobPhase::Failed || !is_early) {
            if phase == JobPhase::Failed && self.is_used_up() {
                let text = "Job failed on action RestartJob for retry limit reached";
                self.events.push(JobEvent::warning(events::EXECUTE_ACTION, text));
            }
            if phase == JobPhase::Running {
                self.memory.disruption = None;
            }
            self.enter(phase, cause);
        } else if matches!(self.phase(), JobPhase::Pending | JobPhase::Running) {
            self.say_what_is_wrong(&tally);
        }
    }

    /// Says what a job waits for, or what is wrong with its pods although it runs.
    fn say_what_is_wrong(&mut self, tally: &Tally) {
        let wrong = rules::obstacle(self.seen, &self.memory, self.phase());
        let usual = rules::usual(self.seen, tally, &self.status);
        let Some(said) = rules::with_disruption(wrong.clone(), &self.memory).or(usual) else { return };
        let state = &mut self.status.state;
        if state.reason == said.reason && state.message == said.message {
            return;
        }
        let is_told = |wrong: &Cause| state.message.ends_with(&wrong.message);
        let event = wrong.filter(|wrong| !is_told(wrong)).and_then(|wrong| events::waiting(self.seen.job, &wrong));
        self.events.extend(event);
        (state.reason, state.message) = (said.reason, said.message);
    }

    fn remember_phase(&mut self) {
        let state = self.status.state.clone();
        let Some(phase) = state.phase else { return };
        let obstacle = rules::obstacle(self.seen, &self.memory, phase).filter(|_| is_live(phase));
        let record = PhaseRecord {
            phase: phase.to_string(),
            since: state.last_transition_time.unwrap_or_else(|| time(self.now)),
            reason: state.reason,
            message: state.message,
            obstacle: obstacle.map(|cause| cause.message).unwrap_or_default(),
            pods: self.status.running,
        };
        history::remember(&mut self.status.phases, record);
    }

    fn enter(&mut self, phase: JobPhase, cause: Cause) {
        let now = time(self.now);
        let state = &mut self.status.state;
        (state.reason, state.message) = (cause.reason, cause.message);
        if state.phase == Some(phase) {
            return;
        }
        state.phase = Some(phase);
        state.last_transition_time = Some(now.clone());
        self.status.conditions.retain(|condition| condition.status != phase);
        self.status.conditions.push(JobCondition { status: phase, last_transition_time: Some(now) });
        if !matches!(phase, JobPhase::Pending | JobPhase::Running) {
            let age = self.seen.job.creation_timestamp().map(|created| self.now.duration_since(created.0).as_secs());
            self.status.running_duration = age.map(|seconds| Duration::from_seconds(seconds.max(0)));
        }
    }

    /// Returns the status as it is to be written.
    pub fn finish(mut self) -> (JobStatus, Memory, Vec<JobEvent>, Option<SignedDuration>) {
        let was = self.seen.job.status.as_ref().and_then(|status| status.state.phase);
        Tally::of_job(self.seen, &self.memory).write(&mut self.status, was);
        self.remember_phase();
        self.memory.write(&mut self.status);
        (self.status, self.memory, self.events, self.look_again)
    }
}

/// Says `1 pod runs`, `2 pods run`.
fn count_pods(pods: usize, one: &str, many: &str) -> String {
    if pods == 1 { format!("1 pod {one}") } else { format!("{pods} pods {many}") }
}

/// Without a policy a pod that a node has ended is made again, as one is that was deleted: it cannot go on by itself.
fn replace_disrupted(occurrence: Occurrence) -> Option<Due> {
    let is_ended = occurrence.is_disruption && occurrence.occasion.event == Event::PodFailed;
    let scope = Some(Scope::Pod(occurrence.occasion.pod.clone()));
    is_ended.then_some(Due { action: Action::RestartPod, occurrence, scope })
}

/// Whether a restart counts against `maxRetry`: what a person asks for does not, nor what others do to the pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Budget {
    Retry,
    Free,
}

fn is_partial(action: Action) -> bool {
    matches!(action, Action::RestartTask | Action::RestartPartition | Action::RestartPod)
}

/// From here on, actions do nothing to a job that lives.
const IDLE: u8 = 9;

/// Which of several actions comes first: a job that is done is not run again, a larger restart includes a smaller one.
fn rank(action: Action) -> u8 {
    match action {
        Action::CompleteJob => 0,
        Action::TerminateJob => 1,
        Action::AbortJob => 2,
        Action::RestartJob => 3,
        Action::RestartTask => 4,
        Action::RestartPartition => 5,
        Action::RestartPod => 6,
        _ => IDLE,
    }
}
