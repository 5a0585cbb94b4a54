//! The status of a training job in the making: whether it runs, how far it has come, how it ended.
//!
//! Pure. [`super::decide`] calls the steps in their order; losses are in [`super::losses`], changes of size in
//! [`super::scaling`].
//!
//! ```text
//!             min workers run,           fewer than min
//!             launcher runs              ──────────▶ Waiting
//!  Created ──────────────────▶ Running  ◀──────────
//!    ▲  ▲                       │    ▲
//!    │  │ restartPolicy         ▼    │ done, or rolled back
//!    │  └──────── Failed ◀── Scaling ┘          launcher succeeds: Succeeded
//!    └─ resumed ─ Suspended ◀── annotation, from every phase that is not an end
//! ```

use jiff::{SignedDuration, Timestamp};
use ronde_api::{
    ElasticMemory, PhaseRecord, ReplicaStatus, RestartPolicy, SizeChange, TrainingJobDisruption,
    TrainingJobPhase as Phase, TrainingJobStatus, history,
    names::elastic::{self as names, conditions as types},
};
use ronde_runtime::pods::{disruption::Disruption, state::PodState, time};

use super::{
    conditions::{self, FALSE, TRUE},
    observed::{FIRST_RUN, Member, Observed},
    pod,
};
use crate::reconcile::{Cause, JobEvent, apply::FAILED_CREATE};

/// How long the launcher waits for workers that are on their way although enough run: they come within seconds, and a
/// ring that is formed once is better than one that is formed anew for each of them.
const START_PATIENCE: SignedDuration = SignedDuration::from_secs(60);
/// How long the scheduler may take to say that a pod has to wait.
const PLACING: SignedDuration = SignedDuration::from_secs(5);

/// A status in the making.
pub struct StatusBuilder<'a> {
    pub seen: &'a Observed<'a>,
    pub status: TrainingJobStatus,
    pub events: Vec<JobEvent>,
    /// Why the number of hosts changes, if it does.
    pub why: Option<Cause>,
    pub now: Timestamp,
    look_again: Option<SignedDuration>,
}

impl<'a> StatusBuilder<'a> {
    pub fn new(seen: &'a Observed<'a>, now: Timestamp) -> Self {
        let status = seen.job.status.clone().unwrap_or_default();
        Self { seen, status, events: Vec::new(), why: None, now, look_again: None }
    }

    pub fn phase(&self) -> Phase {
        self.status.phase.unwrap_or(Phase::Created)
    }

    pub fn memory(&mut self) -> &mut ElasticMemory {
        &mut self.status.elastic
    }

    /// Tells whether the job has pods and cares for them.
    pub fn is_live(&self) -> bool {
        is_live(self.phase())
    }

    pub fn look_again_in(&mut self, wait: SignedDuration) {
        self.look_again = self.look_again.into_iter().chain([wait.max(SignedDuration::from_millis(1))]).min();
    }

    pub fn record(&mut self, cause: Cause) {
        self.events.push(JobEvent { is_warning: false, cause });
    }

    pub fn warn(&mut self, cause: Cause) {
        self.events.push(JobEvent { is_warning: true, cause });
    }

    pub fn set(&mut self, type_: &str, status: &str, cause: &Cause) {
        conditions::set(&mut self.status.conditions, type_, status, cause, self.now);
    }

    pub fn is_true(&self, type_: &str) -> bool {
        conditions::is_true(&self.status.conditions, type_)
    }

    /// Says what is wrong with the job; nothing is made for it.
    pub fn refuse(&mut self) {
        let cause = Cause::new(conditions::INVALID_JOB, self.seen.faults.join("; "));
        if self.status.message != cause.message {
            self.warn(cause.clone());
        }
        self.status.phase.get_or_insert(Phase::Created);
        (self.status.reason, self.status.message) = (cause.reason, cause.message);
    }

    pub fn begin(&mut self) {
        if self.status.phase.is_some() && self.status.elastic.run > 0 {
            return;
        }
        // One that is refused is `Created` too, and nothing was made for it.
        if !matches!(self.status.phase, None | Some(Phase::Created)) {
            return self.take_over();
        }
        self.status.start_time = Some(time(self.now));
        self.begin_run(self.seen.worker_spec().replicas());
    }

    /// Goes on with a job that et-operator has begun: with its pods, or as it ended.
    fn take_over(&mut self) {
        let targets = &self.status.target_workers;
        let next_index = targets.iter().map(|name| self.seen.index(name).saturating_add(1)).max().unwrap_or_default();
        let wanted = i32::try_from(targets.len()).unwrap_or(i32::MAX);
        self.status.elastic = ElasticMemory { run: FIRST_RUN, wanted, next_index, ..ElasticMemory::default() };
    }

    /// Starts with fresh pods; those that are there are of the past.
    fn begin_run(&mut self, workers: i32) {
        let names = (0..workers).map(|index| names::worker(&self.seen.name(), index)).collect();
        let run = self.status.elastic.run + 1;
        let keep = std::mem::take(&mut self.status.elastic);
        self.status.elastic = ElasticMemory {
            run,
            wanted: workers,
            asked: self.seen.worker_spec().replicas(),
            least: self.seen.worker_spec().min_replicas(),
            next_index: workers,
            last_scaler: keep.last_scaler,
            scaling: keep.scaling,
            applied: keep.applied,
            applied_time: keep.applied_time,
            disruption: keep.disruption,
            ..ElasticMemory::default()
        };
        self.status.target_workers = names;
        self.status.current_workers = Vec::new();
        self.status.conditions = Vec::new();
        self.status.completion_time = None;
        let what = format!("TrainingJob {} is created.", self.seen.name());
        self.enter(Phase::Created, types::CREATED, Cause::new(conditions::JOB_CREATED, what));
    }

    pub fn heed_suspension(&mut self) {
        let phase = self.phase();
        if self.seen.job.is_suspended() {
            if phase.is_final() || phase == Phase::Suspended {
                return;
            }
            self.end_scaling("the job was suspended");
            let message = format!("annotation {} is set", names::SUSPENDED);
            let cause = Cause::new(conditions::JOB_SUSPENDED, message);
            self.why = Some(cause.clone());
            self.set(types::RUNNING, FALSE, &cause);
            self.record(cause.clone());
            self.enter(Phase::Suspended, types::SUSPENDED, cause);
            self.status.target_workers = Vec::new();
            self.memory().leaving = Vec::new();
        } else if phase == Phase::Suspended {
            let cause = Cause::new(conditions::JOB_RESUMED, format!("annotation {} is gone", names::SUSPENDED));
            let workers = self.status.elastic.wanted.max(self.seen.worker_spec().min_replicas());
            self.begin_run(workers);
            self.set(types::SUSPENDED, FALSE, &cause);
            self.record(cause);
        }
    }

    /// Ends the job with its launcher.
    pub fn judge_launcher(&mut self) {
        if !self.is_live() {
            return;
        }
        match self.seen.launcher(&self.status.elastic).map(|launcher| launcher.state) {
            Some(PodState::Succeeded) => {
                let cause = Cause::new(conditions::JOB_SUCCEEDED, "the launcher succeeded");
                self.end(Phase::Succeeded, types::SUCCEEDED, cause);
            }
            Some(PodState::Failed) => self.fail_by_launcher(),
            Some(PodState::Terminating) => self.lose_launcher(),
            None if self.is_true(types::LAUNCHER_CREATED) => self.miss_launcher(),
            _ => {}
        }
    }

    fn fail_by_launcher(&mut self) {
        let Some(launcher) = self.seen.launcher(&self.status.elastic) else { return };
        let (evicted, failure) = (launcher.disruption(), launcher.failure());
        let message = format!("the launcher {failure}");
        if let Some(Disruption { why, .. }) = evicted {
            self.remember_disruption(&why);
            return self.restart_evicted(Cause::new(conditions::JOB_EVICTED, format!("the launcher was {why}")));
        }
        if self.has_lost_its_workers() {
            return self.restart_evicted(Cause::new(conditions::JOB_EVICTED, message));
        }
        let status = launcher.pod.status.clone().unwrap_or_default();
        let reason = match status.reason.as_deref() {
            Some("Evicted") => conditions::JOB_EVICTED,
            Some(reason) if !reason.is_empty() => reason,
            _ => conditions::JOB_FAILED,
        };
        self.fail(Cause::new(reason, message));
    }

    /// Tells whether so many workers of a job that ran were evicted that its launcher could not go on.
    fn has_lost_its_workers(&self) -> bool {
        let memory = &self.status.elastic;
        let workers = || self.status.target_workers.iter().filter_map(|name| self.seen.worker(memory, name));
        let is_evicted = memory.disruption.is_some() || workers().any(Member::is_evicted);
        let runs = workers().filter(|worker| worker.is_running()).count();
        self.is_true(types::RUNNING) && is_evicted && runs < count(self.seen.worker_spec().min_replicas())
    }

    /// A launcher that was ended by others is made again, whatever the policy about its failures.
    fn lose_launcher(&mut self) {
        let evicted = self.seen.launcher(&self.status.elastic).and_then(Member::disruption);
        let Some(Disruption { why, .. }) = evicted.filter(|_| self.is_true(types::LAUNCHER_CREATED)) else { return };
        self.remember_disruption(&why);
        let cause = Cause::new(conditions::JOB_EVICTED, format!("the launcher was {why} and will be recreated"));
        self.warn(cause.clone());
        self.set(types::LAUNCHER_CREATED, FALSE, &cause);
        self.set(types::RUNNING, FALSE, &cause);
    }

    pub fn remember_disruption(&mut self, why: &str) {
        let since = time(self.now);
        self.memory().disruption = Some(TrainingJobDisruption { since, why: why.to_owned() });
    }

    /// A launcher that somebody has deleted is made again, unless that is not wanted.
    fn miss_launcher(&mut self) {
        let name = names::launcher(&self.seen.name());
        if self.seen.spec().launcher().restart_policy.parse() == Ok(RestartPolicy::Never) {
            let message = format!("pod {name} is gone, and its restartPolicy does not allow another");
            return self.fail(Cause::new(conditions::LAUNCHER_GONE, message));
        }
        let cause = Cause::new(conditions::LAUNCHER_GONE, format!("pod {name} is gone and will be recreated"));
        self.warn(cause.clone());
        self.set(types::LAUNCHER_CREATED, FALSE, &cause);
        self.set(types::RUNNING, FALSE, &cause);
    }

    pub fn fail(&mut self, cause: Cause) {
        self.warn(cause.clone());
        self.end(Phase::Failed, types::FAILED, cause);
    }

    fn end(&mut self, phase: Phase, type_: &str, cause: Cause) {
        self.end_scaling("the job has ended");
        self.why = Some(cause.clone());
        if self.is_true(types::RUNNING) {
            self.set(types::RUNNING, FALSE, &cause);
        }
        if cause.reason != conditions::JOB_EVICTED {
            self.status.completion_time = Some(time(self.now));
        }
        self.enter(phase, type_, cause);
    }

    /// Starts a job that has failed again, if it may.
    pub fn restart(&mut self) {
        let is_over = self.status.reason == conditions::MAX_WAIT_TIME;
        let may_restart = self.status.restart_count < self.seen.spec().restarts_max() && !is_over;
        if self.phase() != Phase::Failed || !may_restart {
            return;
        }
        let cause = Cause::new(conditions::JOB_RESTARTED, format!("after a failure: {}", self.status.message));
        self.status.restart_count += 1;
        self.memory().disruption = None;
        self.begin_run(self.seen.worker_spec().replicas());
        self.set(types::RESTARTING, TRUE, &cause);
        self.record(cause);
    }

    /// Starts a job again that others have stopped. That is none of its restarts.
    fn restart_evicted(&mut self, cause: Cause) {
        self.end_scaling("the job was evicted");
        self.why = Some(cause.clone());
        self.begin_run(self.seen.worker_spec().replicas());
        self.set(types::RESTARTING, TRUE, &cause);
        self.warn(cause);
    }

    /// Goes on to what follows from the pods.
    pub fn advance(&mut self) {
        if !self.is_live() {
            return;
        }
        let seen = self.seen;
        self.status.target_workers.sort_by_key(|name| seen.index(name));
        self.count_progress();
        self.status.current_workers = self.hosts();
        if self.is_true(types::RUNNING) && self.status.current_workers.len() >= count(self.status.elastic.wanted) {
            self.memory().disruption = None;
        }
        self.choose_phase();
    }

    /// Ends a job that has waited for its start longer than it was to.
    pub fn give_up_waiting(&mut self) {
        let Some(seconds) = self.seen.job.max_wait_seconds() else { return };
        if self.phase() != Phase::Created || self.is_true(types::RUNNING) {
            return;
        }
        let created = self.status.conditions.iter().find(|condition| condition.type_ == types::CREATED);
        let since = created.and_then(|created| created.last_transition_time.as_ref()).map_or(self.now, |time| time.0);
        // Who was in already and was put out waits anew.
        let since = self.status.elastic.disruption.as_ref().map_or(since, |it| it.since.0.max(since));
        let left = since.duration_since(self.now) + SignedDuration::from_secs(seconds);
        if left.is_positive() {
            return self.look_again_in(left);
        }
        let message = format!("it did not start within {seconds} s: {}", self.status.message);
        self.fail(Cause::new(conditions::MAX_WAIT_TIME, message));
    }

    fn count_progress(&mut self) {
        let memory = self.status.elastic.clone();
        let targets = self.status.target_workers.clone();
        let name = self.seen.name();
        let is_there = |worker: &String| self.seen.worker(&memory, worker).is_some();
        if !self.is_true(types::WORKERS_CREATED) && targets.iter().all(is_there) {
            let message = format!("TrainingJob {name} has {}.", counted(targets.len(), "worker pod", "worker pods"));
            self.set(types::WORKERS_CREATED, TRUE, &Cause::new(conditions::JOB_CREATED, message));
        }
        if !self.is_true(types::WORKERS_READY) && self.are_enough_ready() {
            let message = format!("TrainingJob {name} has enough workers to start.");
            self.set(types::WORKERS_READY, TRUE, &Cause::new(conditions::JOB_CREATED, message));
        }
        let launcher = self.seen.launcher(&memory);
        let is_there = launcher.is_some_and(|launcher| !launcher.is_deleted());
        if self.is_true(types::WORKERS_READY) && is_there && !self.is_true(types::LAUNCHER_CREATED) {
            let message = format!("TrainingJob {name} has its launcher.");
            self.set(types::LAUNCHER_CREATED, TRUE, &Cause::new(conditions::JOB_CREATED, message));
        }
        if self.is_true(types::LAUNCHER_CREATED)
            && launcher.is_some_and(Member::is_running)
            && !self.is_true(types::RUNNING)
        {
            if self.is_true(types::RESTARTING) {
                self.set(types::RESTARTING, FALSE, &Cause::new(conditions::JOB_RUNNING, "the job is running again"));
            }
            let cause = Cause::new(conditions::JOB_RUNNING, format!("TrainingJob {name} is running."));
            self.record(cause.clone());
            self.set(types::RUNNING, TRUE, &cause);
        }
    }

    /// Tells whether the least workers run and no other is on its way.
    fn are_enough_ready(&mut self) -> bool {
        let memory = self.status.elastic.clone();
        let targets = self.status.target_workers.clone();
        let workers: Vec<&Member> = targets.iter().filter_map(|name| self.seen.worker(&memory, name)).collect();
        let running = workers.iter().filter(|worker| worker.is_running()).count();
        if running < count(self.seen.worker_spec().min_replicas()) || workers.len() < targets.len() {
            return false;
        }
        let patience = |worker: &&&Member| {
            let is_placed = !worker.node().is_empty();
            let most = if is_placed { START_PATIENCE } else { PLACING };
            let is_told = worker.unschedulable().is_some() && !is_placed;
            let left = worker.created_at().duration_since(self.now) + most;
            Some(left).filter(|left| !worker.is_running() && !is_told && left.is_positive())
        };
        let longest = workers.iter().filter_map(|worker| patience(&worker)).max();
        if let Some(left) = longest {
            self.look_again_in(left);
        }
        longest.is_none()
    }

    /// Returns the workers that the launcher may use, by index.
    fn hosts(&self) -> Vec<String> {
        if !self.is_true(types::WORKERS_READY) {
            return Vec::new();
        }
        let memory = &self.status.elastic;
        let runs = |name: &&String| self.seen.worker(memory, name).is_some_and(Member::is_running);
        let goes = |name: &&String| super::scaling::leaves(memory, name);
        self.status.target_workers.iter().filter(|name| runs(name) && !goes(name)).cloned().collect()
    }

    fn choose_phase(&mut self) {
        let (least, hosts) = (self.seen.worker_spec().min_replicas(), self.status.current_workers.len());
        let is_short = hosts < count(least);
        if !self.is_true(types::RUNNING) {
            let cause = self.why_it_waits();
            self.status.phase = Some(Phase::Created);
            (self.status.reason, self.status.message) = (cause.reason, self.after_disruption(cause.message));
        } else if super::scaling::is_under_way(&self.status.elastic) {
            self.status.phase = Some(Phase::Scaling);
            let doing = super::scaling::describe(&self.status.elastic);
            (self.status.reason, self.status.message) = (conditions::SCALING_START.to_owned(), doing);
        } else if is_short {
            let message = format!("{hosts} of at least {least} workers are running; {}", self.why_it_waits().message);
            let message = self.after_disruption(message);
            let cause = Cause::new(conditions::TOO_FEW_WORKERS, message);
            if self.phase() != Phase::Waiting {
                self.warn(cause.clone());
            }
            self.set(types::WORKERS_NOT_READY, TRUE, &cause);
            self.status.phase = Some(Phase::Waiting);
            (self.status.reason, self.status.message) = (cause.reason, cause.message);
        } else {
            if self.is_true(types::WORKERS_NOT_READY) {
                let cause = Cause::new(
                    conditions::JOB_RUNNING,
                    format!("{} running", counted(hosts, "worker is", "workers are")),
                );
                self.set(types::WORKERS_NOT_READY, FALSE, &cause);
            }
            self.status.phase = Some(Phase::Running);
            conditions::JOB_RUNNING.clone_into(&mut self.status.reason);
            self.status.message = self.after_disruption(self.what_is_missing());
            self.mind_launcher();
        }
    }

    /// Says that the node of the launcher is about to go: nothing can be done about it, and the job ends with its launcher.
    fn mind_launcher(&mut self) {
        let Some(why) = &self.seen.launcher_vanishing else { return };
        let warning = format!("the launcher cannot be moved: {why}");
        let before = self.seen.job.status.as_ref().map(|status| status.message.as_str()).unwrap_or_default();
        if !before.contains(&warning) {
            self.warn(Cause::new(conditions::LAUNCHER_VANISHING, warning.clone()));
        }
        let missing = std::mem::take(&mut self.status.message);
        self.status.message = if missing.is_empty() { warning } else { format!("{missing}; {warning}") };
    }

    /// Puts in front of what a job waits for that pods were ended which had done nothing wrong.
    fn after_disruption(&self, message: String) -> String {
        match &self.status.elastic.disruption {
            Some(TrainingJobDisruption { why, .. }) if message.is_empty() => why.clone(),
            Some(TrainingJobDisruption { why, .. }) => format!("{why}; {message}"),
            None => message,
        }
    }

    /// Returns what keeps the job from running, the most telling first.
    fn why_it_waits(&self) -> Cause {
        if let Some(cause) = self.obstacle_of_all() {
            return cause;
        }
        if !self.seen.is_admitted() {
            return Cause::new(conditions::WORKERS_WAIT, "waiting for its queue");
        }
        let missing = self.what_is_missing();
        if !missing.is_empty() {
            return Cause::new(conditions::WORKERS_WAIT, missing);
        }
        let message = self.trouble_of_launcher().unwrap_or_else(|| "waiting for the launcher".to_owned());
        Cause::new(conditions::WORKERS_WAIT, message)
    }

    /// Returns what is in the way of the job, if it is more than that its pods are on their way.
    fn obstacle(&self) -> Option<Cause> {
        let waits = |message| Cause::new(conditions::WORKERS_WAIT, message);
        self.obstacle_of_all()
            .or_else(|| self.trouble_of_workers().map(waits))
            .or_else(|| self.trouble_of_launcher().map(waits))
    }

    /// Returns what keeps all pods from running.
    fn obstacle_of_all(&self) -> Option<Cause> {
        if let Some(refusal) = &self.seen.refusal {
            return Some(Cause::new(FAILED_CREATE, refusal));
        }
        self.seen.gang_waits().map(|(reason, message)| Cause::new(reason, message))
    }

    fn trouble_of_launcher(&self) -> Option<String> {
        let trouble = self.seen.launcher(&self.status.elastic).and_then(Member::trouble)?;
        Some(format!("the launcher: {}", trouble.message))
    }

    /// Says which of the wanted workers do not run, and why the first of them does not.
    fn what_is_missing(&self) -> String {
        let memory = &self.status.elastic;
        let wanted = usize::try_from(memory.wanted).unwrap_or(0);
        let running = |name: &&String| self.seen.worker(memory, name).is_some_and(Member::is_running);
        let runs = self.status.target_workers.iter().filter(running).count();
        if runs >= wanted {
            return String::new();
        }
        match self.seen.refusal.clone().or_else(|| self.trouble_of_workers()) {
            Some(why) => format!("{runs} of {wanted} workers are running; {why}"),
            None => format!("{runs} of {wanted} workers are running"),
        }
    }

    /// Says why the first of the workers that do not run does not.
    fn trouble_of_workers(&self) -> Option<String> {
        let worker = |name: &String| self.seen.worker(&self.status.elastic, name).cloned();
        let waiting = || {
            let runs = |name: &String| worker(name).is_some_and(|worker| worker.is_running());
            self.status.target_workers.iter().filter(move |name| !runs(name))
        };
        let unplaced =
            waiting().next().and_then(|name| Some(format!("{name} waits: {}", worker(name)?.unschedulable()?)));
        unplaced.or_else(|| waiting().find_map(|name| Some(format!("{name}: {}", worker(name)?.trouble()?.message))))
    }

    fn enter(&mut self, phase: Phase, type_: &str, cause: Cause) {
        self.set(type_, TRUE, &cause);
        self.status.phase = Some(phase);
        (self.status.reason, self.status.message) = (cause.reason, cause.message);
    }

    /// Returns the status as it is to be written.
    pub fn finish(mut self) -> (TrainingJobStatus, Vec<JobEvent>, Option<SignedDuration>) {
        if !self.is_live() {
            self.status.current_workers = Vec::new();
        }
        self.tally();
        self.status.replicas = i32::try_from(self.status.current_workers.len()).unwrap_or(i32::MAX);
        self.status.selector = pod::worker_selector(self.seen.job);
        self.remember_phase();
        self.remember_size();
        if self.seen.job.status.as_ref() != Some(&self.status) {
            self.status.last_reconcile_time = Some(time(self.now));
        }
        (self.status, self.events, self.look_again)
    }

    fn tally(&mut self) {
        if self.status.elastic.run == 0 {
            return;
        }
        let was_over = self.seen.job.phase().is_some_and(Phase::is_final) && self.phase().is_final();
        let tally = |members: Vec<&Member>| {
            let number = |is: PodState| i32::try_from(members.iter().filter(|it| it.state == is).count()).unwrap_or(0);
            ReplicaStatus {
                active: number(PodState::Running),
                succeeded: number(PodState::Succeeded),
                failed: number(PodState::Failed),
            }
        };
        let run = self.status.elastic.run;
        let workers = self.seen.workers.values().filter(|worker| worker.run == run).collect();
        let launcher = self.seen.launcher(&self.status.elastic).into_iter().collect();
        for (role, now) in [("Launcher", tally(launcher)), ("Worker", tally(workers))] {
            let known = self.status.replica_statuses.entry(role.to_owned()).or_default();
            // How pods have ended stays known after the end of the job, also when they are removed.
            *known = if was_over { ReplicaStatus { active: now.active, ..known.clone() } } else { now };
        }
    }

    fn remember_phase(&mut self) {
        let phase = match self.phase() {
            Phase::Scaling => Phase::Running,
            other => other,
        };
        let status = &self.status;
        let usual = || Cause::new(&status.reason, status.message.clone());
        let Cause { reason, message } = self.why.clone().unwrap_or_else(usual);
        let obstacle = if is_live(phase) { self.obstacle() } else { None };
        let record = PhaseRecord {
            phase: phase.to_string(),
            since: time(self.now),
            reason,
            message,
            obstacle: obstacle.map(|cause| cause.message).unwrap_or_default(),
            pods: status.replicas,
        };
        history::remember(&mut self.status.phases, record);
    }

    fn remember_size(&mut self) {
        let workers = i32::try_from(self.status.current_workers.len()).unwrap_or(i32::MAX);
        let before = self.status.sizes.last().map_or(0, |size| size.workers);
        if workers == before {
            return;
        }
        let usual = if workers > before { "WorkersJoined" } else { "WorkersLeft" };
        let Cause { reason, message } = self.why.take().unwrap_or_else(|| Cause::new(usual, ""));
        self.status.sizes.push(SizeChange { time: time(self.now), workers, reason, message });
        let surplus = self.status.sizes.len().saturating_sub(history::SIZES_MAX);
        self.status.sizes.drain(..surplus);
    }
}

/// Tells whether a job has pods and cares for them in a phase.
pub fn is_live(phase: Phase) -> bool {
    !phase.is_final() && phase != Phase::Suspended
}

/// Returns a number with the word for one or for many.
pub fn counted(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Returns a number of workers as one of a list.
pub fn count(number: i32) -> usize {
    usize::try_from(number).unwrap_or(0)
}
