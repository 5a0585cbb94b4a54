//! Changes of size: those that users ask for, one after the other, and those of a job that grows by itself. Pure.
//!
//! A change is one record in the status: which workers come or go, since when, and, when it has ended, how. It is kept until
//! the object that asked for it has been told, so that a controller that is killed anywhere finds it again and neither forgets
//! nor repeats it. Workers that come are hosts only when all of them run; workers that go stay members of the
//! job until all of them have left. So giving up is: not to count the first, and to let others take the place of the second,
//! because who was asked to leave cannot be asked back. What a job takes by itself is an estimate: it keeps what it got.
//!
//! Another `replicas` in the spec (`kubectl scale`) is a request for a size; those that are objects go first. What it says
//! then follows the job: `replicas_due` is what is to be written there, so that who reads it sees what the job has, and the
//! next `kubectl scale` is a change.

use jiff::{SignedDuration, Timestamp};
use ronde_api::{
    ElasticMemory, LeavingWorker, ReplicaBound, Scaling, ScalingOutcome, ScalingWay, TrainingJobPhase as Phase,
    WorkerSpec, names::elastic::conditions as types,
};
use ronde_runtime::pods::time;

use super::{
    conditions::{self, FALSE, TRUE},
    observed::{Member, Request},
    plan,
    status_builder::{StatusBuilder, count, counted},
};
use crate::reconcile::Cause;

/// How long a list of hosts stands before the next request changes it: a launcher asks those to leave that it has seen.
const SETTLE: SignedDuration = SignedDuration::from_secs(3);
/// How long a job that grows by itself stays as it is after a change, so that it does not flap; it may say something else.
const COOLDOWN: SignedDuration = SignedDuration::from_secs(60);
/// How long it waits for what it has given back to be used, before it gives more; never longer than the above.
const GIVE_PACE: SignedDuration = SignedDuration::from_secs(10);
/// How often such a job looks for room, and for others that need its own, if it does not rest shorter.
const AUTO_PACE: SignedDuration = SignedDuration::from_secs(5);
/// How long new workers have to start, and others to leave, when nobody has set a time, in seconds.
const GROW_SECONDS: i32 = 60;
const SHRINK_SECONDS: i32 = 120;
/// How many workers a job takes in one step by itself.
const GROW_MAX: i32 = 100;

/// Tells whether a change has not ended.
pub fn is_under_way(memory: &ElasticMemory) -> bool {
    memory.scaling.as_ref().is_some_and(|scaling| scaling.outcome.is_none())
}

/// Returns the workers that a change is about, in one direction, while it is under way.
pub fn moving(memory: &ElasticMemory, way: ScalingWay) -> &[String] {
    let scaling = memory.scaling.as_ref().filter(|scaling| scaling.way == way && scaling.outcome.is_none());
    scaling.map_or(&[], |scaling| &scaling.workers)
}

/// Tells whether a worker is to leave.
pub fn leaves(memory: &ElasticMemory, name: &str) -> bool {
    moving(memory, ScalingWay::In).iter().any(|worker| worker == name)
}

/// Says what is under way.
pub fn describe(memory: &ElasticMemory) -> String {
    let Some(scaling) = &memory.scaling else { return String::new() };
    let verb = if scaling.way == ScalingWay::Out { "waits for" } else { "waits for these to leave:" };
    format!("{} {verb} {}", name_of(scaling), scaling.workers.join(", "))
}

fn name_of(scaling: &Scaling) -> String {
    match scaling.to {
        Some(replicas) => format!("scale to {replicas}"),
        None if scaling.name.is_empty() => "elastic: auto".to_owned(),
        None => format!("{} {}", scaling.way, scaling.name),
    }
}

impl StatusBuilder<'_> {
    /// Goes on with the change that is under way, or begins the next.
    pub fn scale(&mut self) {
        if self.is_live() && is_under_way(&self.status.elastic) {
            self.go_on();
        }
        self.forget_told();
        if self.status.elastic.scaling.is_some() {
            return;
        }
        if self.phase().is_final() {
            self.refuse_late_ones();
        } else if self.phase() == Phase::Running {
            self.begin_next();
        }
    }

    fn go_on(&mut self) {
        let Some(scaling) = self.status.elastic.scaling.clone() else { return };
        let memory = self.status.elastic.clone();
        let workers = scaling.workers.iter().map(|name| (name, self.seen.worker(&memory, name)));
        let workers: Vec<(&String, Option<&Member>)> = workers.collect();
        let left = scaling.since.0.duration_since(self.now) + SignedDuration::from_secs(scaling.timeout.into());
        let is_asked = scaling.uid.is_empty() || self.seen.requests.iter().any(|request| request.uid == scaling.uid);
        let replicas = self.seen.worker_spec().replicas();
        // Who was asked to leave cannot be asked back: that goes on.
        let is_outdated = scaling.way == ScalingWay::Out && scaling.to.is_some_and(|to| to != replicas);
        let verdict = match scaling.way {
            ScalingWay::Out => come(&workers),
            ScalingWay::In => go(&workers),
        };
        match verdict {
            Verdict::Done => self.finish_scaling(&scaling),
            Verdict::Hopeless(why) => self.give_up(&scaling, &why),
            Verdict::Waits(_) if !is_asked => self.give_up(&scaling, "the request was deleted"),
            Verdict::Waits(_) if is_outdated => self.give_up(&scaling, &format!("replicas is {replicas} now")),
            Verdict::Waits(why) if !left.is_positive() => {
                self.give_up(&scaling, &format!("execution timeout after {} s: {why}", scaling.timeout));
            }
            Verdict::Waits(_) => self.look_again_in(left),
        }
    }

    fn finish_scaling(&mut self, scaling: &Scaling) {
        let number = size(&scaling.workers);
        let targets = &mut self.status.target_workers;
        match scaling.way {
            ScalingWay::Out => {
                targets.extend(scaling.workers.iter().cloned());
                let memory = self.memory();
                memory.wanted += number;
                // What fits may be more than it was.
                memory.grow_step = memory.grow_step.saturating_mul(2).min(GROW_MAX);
            }
            ScalingWay::In => {
                targets.retain(|name| !scaling.workers.contains(name));
                self.memory().wanted -= number;
            }
        }
        let verb = if scaling.way == ScalingWay::Out { "added" } else { "removed" };
        self.conclude(ScalingOutcome::Succeeded, format!("{verb} {}", scaling.workers.join(", ")));
    }

    fn give_up(&mut self, scaling: &Scaling, why: &str) {
        let is_own = scaling.uid.is_empty();
        match scaling.way {
            ScalingWay::Out if is_own && scaling.to.is_none() => return self.keep_started(scaling, why),
            ScalingWay::Out => {}
            ScalingWay::In => self.let_go(scaling),
        }
        if is_own && scaling.way == ScalingWay::In {
            // Somebody waits for the room, or wants so many and no more: nobody takes the place of those that go.
            self.memory().wanted -= size(&scaling.workers);
        }
        self.conclude(ScalingOutcome::Failed, why.to_owned());
    }

    /// Takes workers that were asked to leave out of the job; those that still run have some more time for it.
    fn let_go(&mut self, scaling: &Scaling) {
        let (memory, since) = (self.status.elastic.clone(), time(self.now));
        self.status.target_workers.retain(|name| !scaling.workers.contains(name));
        let runs = |name: &&String| self.seen.worker(&memory, name).is_some_and(Member::is_running);
        let leaving =
            scaling.workers.iter().filter(runs).map(|name| LeavingWorker { name: name.clone(), since: since.clone() });
        self.memory().leaving.extend(leaving);
    }

    /// Keeps those that have started of the workers that the job has taken by itself, and takes fewer the next time.
    fn keep_started(&mut self, scaling: &Scaling, why: &str) {
        let memory = self.status.elastic.clone();
        let runs = |name: &&String| self.seen.worker(&memory, name).is_some_and(Member::is_running);
        let kept: Vec<String> = scaling.workers.iter().filter(runs).cloned().collect();
        self.memory().grow_step = (size(&scaling.workers) / 2).max(1);
        if kept.is_empty() {
            return self.conclude(ScalingOutcome::Failed, why.to_owned());
        }
        self.memory().wanted += size(&kept);
        let message = format!("added {}, but no more: {why}", kept.join(", "));
        self.status.target_workers.extend(kept);
        self.conclude(ScalingOutcome::Succeeded, message);
    }

    /// Ends what is under way because the job itself ends.
    pub fn end_scaling(&mut self, why: &str) {
        if is_under_way(&self.status.elastic) {
            self.conclude(ScalingOutcome::Failed, why.to_owned());
        }
    }

    fn conclude(&mut self, outcome: ScalingOutcome, message: String) {
        let now = time(self.now);
        let memory = self.memory();
        memory.last_scale_time = Some(now);
        let Some(scaling) = &mut memory.scaling else { return };
        scaling.outcome = Some(outcome);
        scaling.message.clone_from(&message);
        let cause = Cause::new(reason(scaling.way, outcome), format!("{}: {message}", name_of(scaling)));
        self.set(types::SCALING, FALSE, &cause);
        self.set(outcome.as_str(), TRUE, &cause);
        if outcome == ScalingOutcome::Failed {
            self.warn(cause.clone());
        } else {
            self.record(cause.clone());
        }
        self.why = Some(cause);
        self.settle_replicas();
    }

    /// Lets `replicas` follow a change that did not come from it, or that could not be made. A job that grows by itself
    /// has as many workers as there is room for, and `replicas` is what it gives back down to.
    fn settle_replicas(&mut self) {
        let (asked, worker) = (self.status.elastic.asked, self.seen.worker_spec());
        let is_auto = self.seen.job.is_auto();
        let right = if is_auto { asked.max(worker.min_replicas()) } else { self.status.elastic.wanted };
        let is_allowed = is_within(worker, right);
        self.memory().replicas_due = Some(right).filter(|right| *right != asked && is_allowed);
    }

    /// Takes note of another `replicas` in the spec. While nothing runs yet, or nothing at all, that is all there is to do.
    pub fn heed_replicas(&mut self) {
        let (replicas, memory) = (self.seen.worker_spec().replicas(), self.status.elastic.clone());
        if memory.asked == replicas {
            return;
        }
        let is_new = memory.asked != 0 && memory.replicas_due != Some(replicas);
        self.memory().replicas_due = None;
        let is_idle = !self.is_live() || !self.is_true(types::WORKERS_READY);
        if is_new && !is_idle {
            // It is begun when nothing else is under way.
            return;
        }
        self.memory().asked = replicas;
        if is_new && self.phase().is_final() {
            self.refuse_replicas(format!("the job has ended: it is {}", self.phase()));
        } else if is_new {
            match self.check_replicas() {
                Ok(()) => self.set_size(replicas),
                Err(why) => {
                    self.refuse_replicas(why);
                    self.settle_replicas();
                }
            }
        }
    }

    /// Tells which bound keeps the job from the size that `replicas` says, if one does.
    fn check_replicas(&self) -> Result<(), String> {
        let (to, worker) = (self.seen.worker_spec().replicas(), self.seen.worker_spec());
        let checked =
            worker.check_scaling(ScalingWay::Out, to, 0).and_then(|()| worker.check_scaling(ScalingWay::In, to, 0));
        checked.map_err(|bound| format!("{} is {}", counted(count(to), "worker", "workers"), outside(bound)))
    }

    fn refuse_replicas(&mut self, why: String) {
        let replicas = self.seen.worker_spec().replicas();
        let way = if replicas > self.status.elastic.wanted { ScalingWay::Out } else { ScalingWay::In };
        self.warn(Cause::new(reason(way, ScalingOutcome::Failed), format!("scale to {replicas}: {why}")));
    }

    /// Changes the size of a job of which nothing runs that others know of.
    fn set_size(&mut self, workers: i32) {
        self.memory().wanted = workers;
        if self.is_live() {
            let missing = workers.saturating_sub(size(&self.status.target_workers));
            let more = self.fresh_names(missing);
            self.status.target_workers.truncate(count(workers));
            self.status.target_workers.extend(more);
        }
    }

    /// Forgets a change that has ended once the object that asked for it knows.
    fn forget_told(&mut self) {
        let Some(scaling) = self.status.elastic.scaling.clone().filter(|scaling| scaling.outcome.is_some()) else {
            return;
        };
        let request = self.seen.requests.iter().find(|request| request.uid == scaling.uid);
        if request.is_some_and(|request| request.outcome.is_none()) {
            return;
        }
        let memory = self.memory();
        memory.scaling = None;
        if !scaling.uid.is_empty() {
            memory.last_scaler = scaling.uid;
        }
        self.status.current_scaler = String::new();
    }

    fn next_request(&self) -> Option<&Request> {
        let last = &self.status.elastic.last_scaler;
        self.seen.requests.iter().find(|request| request.outcome.is_none() && request.uid != *last)
    }

    /// Whoever asks a job that has ended is told so.
    fn refuse_late_ones(&mut self) {
        let Some(request) = self.next_request().cloned() else { return };
        let phase = self.phase();
        self.open(&request, Vec::new());
        self.conclude(ScalingOutcome::Failed, format!("the job has ended: it is {phase}"));
    }

    fn begin_next(&mut self) {
        let request = self.next_request().cloned();
        if request.is_none() && self.status.elastic.asked == self.seen.worker_spec().replicas() {
            return self.adapt();
        }
        // What is not in the files yet nobody has seen; who brings it there looks again.
        if plan::objects(self.seen, &self.seen.job.status.clone().unwrap_or_default()).is_some() {
            return;
        }
        let last = self.status.elastic.applied_time.as_ref().map(|time| time.0);
        let rest = last.map(|last| last.duration_since(self.now) + SETTLE).filter(SignedDuration::is_positive);
        if let Some(rest) = rest {
            return self.look_again_in(rest);
        }
        match request {
            Some(request) => self.meet(&request),
            None => self.resize(),
        }
    }

    fn meet(&mut self, request: &Request) {
        match self.choose(request) {
            Ok(workers) => self.open(request, workers),
            Err(why) => {
                self.open(request, Vec::new());
                self.conclude(ScalingOutcome::Failed, why);
            }
        }
    }

    /// Goes to the size that `replicas` says, which others have changed.
    fn resize(&mut self) {
        let (to, wanted) = (self.seen.worker_spec().replicas(), self.status.elastic.wanted);
        let way = if to > wanted { ScalingWay::Out } else { ScalingWay::In };
        self.memory().asked = to;
        if let Err(why) = self.check_replicas() {
            self.start_own(way, Some(to), Vec::new(), 0);
            return self.conclude(ScalingOutcome::Failed, why);
        }
        match way {
            ScalingWay::Out => {
                let more = self.fresh_names(to - wanted);
                self.start_own(way, Some(to), more, GROW_SECONDS);
            }
            // What it has above that it gives back when others need it.
            ScalingWay::In if self.seen.job.is_auto() => {}
            ScalingWay::In => {
                let targets = &self.status.target_workers;
                let leaving = targets[targets.len().min(count(to))..].to_vec();
                // Those that are lost and not replaced yet need not leave.
                self.memory().wanted = to.saturating_add(size(&leaving));
                if !leaving.is_empty() {
                    self.start_own(way, Some(to), leaving, SHRINK_SECONDS);
                }
            }
        }
    }

    /// Returns the workers that a request is about, or why it cannot be met.
    fn choose(&mut self, request: &Request) -> Result<Vec<String>, String> {
        if !request.faults.is_empty() {
            return Err(request.faults.join("; "));
        }
        let (wanted, worker) = (self.status.elastic.wanted, self.seen.worker_spec().clone());
        let check = |count| {
            let checked = worker.check_scaling(request.way, wanted, count);
            checked.map_err(|bound| match bound {
                ReplicaBound::Max(_) => format!("{count} more than {wanted} workers is {}", outside(bound)),
                ReplicaBound::Min(_) => format!("{count} fewer than {wanted} workers is {}", outside(bound)),
            })
        };
        match request.way {
            ScalingWay::Out => {
                check(request.count)?;
                Ok(self.fresh_names(request.count))
            }
            ScalingWay::In => {
                let chosen = self.choose_leaving(request)?;
                check(size(&chosen))?;
                Ok(chosen)
            }
        }
    }

    /// Returns those with the highest indexes, or those that are named.
    fn choose_leaving(&self, request: &Request) -> Result<Vec<String>, String> {
        let targets = &self.status.target_workers;
        if request.pod_names.is_empty() {
            if targets.len() < count(request.count) {
                return Err(format!("the job has only {}", counted(targets.len(), "worker", "workers")));
            }
            return Ok(targets[targets.len() - count(request.count)..].to_vec());
        }
        let unknown: Vec<&str> =
            request.pod_names.iter().filter(|name| !targets.contains(name)).map(String::as_str).collect();
        if !unknown.is_empty() {
            return Err(format!("the job has no worker {}", unknown.join(", ")));
        }
        Ok(targets.iter().filter(|name| request.pod_names.contains(name)).cloned().collect())
    }

    fn open(&mut self, request: &Request, workers: Vec<String>) {
        let namespace = self.seen.job.metadata.namespace.clone().unwrap_or_default();
        self.status.current_scaler = format!("{}:{namespace}/{}", request.way, request.name);
        let scaling = Scaling {
            way: request.way,
            name: request.name.clone(),
            uid: request.uid.clone(),
            to: None,
            workers,
            since: time(self.now),
            timeout: request.timeout,
            outcome: None,
            message: String::new(),
        };
        self.start(scaling);
    }

    fn start(&mut self, scaling: Scaling) {
        for type_ in [types::SCALE_SUCCEEDED, types::SCALE_FAILED] {
            self.status.conditions.retain(|condition| condition.type_ != type_);
        }
        let doing = format!("{} begins", name_of(&scaling));
        let cause = Cause::new(conditions::SCALING_START, doing);
        self.set(types::SCALING, TRUE, &cause);
        self.why = Some(Cause::new(scaling.way.as_str(), name_of(&scaling)));
        self.memory().scaling = Some(scaling);
    }

    /// Grows into room that nobody needs, or gives such room back.
    fn adapt(&mut self) {
        if !self.seen.job.is_auto() {
            return;
        }
        let last = self.status.elastic.last_scale_time.as_ref().map(|time| time.0);
        let begun = self.status.conditions.iter().find(|condition| condition.type_ == types::RUNNING);
        let begun = begun.and_then(|condition| condition.last_transition_time.as_ref()).map(|time| time.0);
        let left = |since: Option<Timestamp>, rest: SignedDuration| {
            since.map_or(SignedDuration::ZERO, |since| since.duration_since(self.now) + rest)
        };
        let own = self.seen.job.cooldown().ok().flatten();
        let cooldown = own.map_or(COOLDOWN, |own| SignedDuration::from_nanos(own.nanoseconds()));
        let (rest, pause) = (left(last.max(begun), cooldown), left(last, GIVE_PACE.min(cooldown)));
        let pace = AUTO_PACE.min(cooldown);
        let (wanted, worker) = (self.status.elastic.wanted, self.seen.worker_spec());
        let surplus = wanted - worker.replicas();
        let is_whole = self.status.current_workers.len() == count(wanted);
        match &self.seen.capacity.waits {
            // It is about to take what is free.
            Some((_, 0)) => self.look_again_in(pace),
            Some(_) if surplus > 0 && pause.is_positive() => self.look_again_in(pause),
            Some((_, needs)) if surplus > 0 => {
                let from = self.status.target_workers.len().saturating_sub(count((*needs).clamp(1, surplus)));
                let workers = self.status.target_workers[from..].to_vec();
                self.start_own(ScalingWay::In, None, workers, SHRINK_SECONDS);
            }
            // Others may come to need the room while it rests.
            None if rest.is_positive() => self.look_again_in(rest.min(pace)),
            None if is_whole && wanted < worker.max_replicas() && self.seen.capacity.room > 0 => {
                let step = Some(self.status.elastic.grow_step).filter(|step| *step > 0).unwrap_or(GROW_MAX);
                let more = self.seen.capacity.room.min(worker.max_replicas() - wanted).min(step);
                let workers = self.fresh_names(more);
                self.start_own(ScalingWay::Out, None, workers, GROW_SECONDS);
            }
            _ => self.look_again_in(pace),
        }
    }

    fn start_own(&mut self, way: ScalingWay, to: Option<i32>, workers: Vec<String>, timeout: i32) {
        let since = time(self.now);
        let (name, uid, message) = (String::new(), String::new(), String::new());
        self.start(Scaling { way, name, uid, to, workers, since, timeout, outcome: None, message });
    }
}

fn outside(bound: ReplicaBound) -> String {
    match bound {
        ReplicaBound::Max(max) => format!("above maxReplicas, which is {max}"),
        ReplicaBound::Min(min) => format!("below minReplicas, which is {min}"),
    }
}

fn is_within(worker: &WorkerSpec, workers: i32) -> bool {
    (worker.min_replicas()..=worker.max_replicas()).contains(&workers)
}

fn size(workers: &[String]) -> i32 {
    i32::try_from(workers.len()).unwrap_or(i32::MAX)
}

/// How far a change has come.
enum Verdict {
    Done,
    /// Why it takes so long.
    Waits(String),
    Hopeless(String),
}

fn come(workers: &[(&String, Option<&Member>)]) -> Verdict {
    for (name, worker) in workers {
        if let Some(worker) = worker.filter(|worker| worker.is_finished() || worker.is_deleted()) {
            let what = if worker.is_deleted() { "was deleted" } else { "has ended" };
            return Verdict::Hopeless(format!("{name} {what} before all of them were running"));
        }
    }
    let waits = workers.iter().find(|(_, worker)| !worker.is_some_and(Member::is_running));
    waits.map_or(Verdict::Done, |(name, worker)| {
        let why = worker.and_then(Member::unschedulable).unwrap_or("its pod has not started");
        Verdict::Waits(format!("{name} is not running: {why}"))
    })
}

fn go(workers: &[(&String, Option<&Member>)]) -> Verdict {
    if workers.iter().all(|(_, worker)| worker.is_none()) {
        return Verdict::Done;
    }
    let stays = |(_, worker): &&(&String, Option<&Member>)| worker.is_some_and(|worker| !worker.is_finished());
    let here: Vec<&str> = workers.iter().filter(stays).map(|(name, _)| name.as_str()).collect();
    Verdict::Waits(format!("{} did not leave", here.join(", ")))
}

/// Returns the word that clients of et-operator know for how a change ended.
pub fn reason(way: ScalingWay, outcome: ScalingOutcome) -> &'static str {
    match (way, outcome) {
        (ScalingWay::In, ScalingOutcome::Succeeded) => "ScalingInSucceeded",
        (ScalingWay::In, ScalingOutcome::Failed) => "ScalingInFailed",
        (ScalingWay::Out, ScalingOutcome::Succeeded) => "ScalingOutSucceeded",
        (ScalingWay::Out, ScalingOutcome::Failed) => "ScalingOutFailed",
    }
}
