//! Jobs on the virtual clock: when their pods are there, when they run, how far their work is, and when they end.
//!
//! ```text
//! arrives ─▶ waits ─▶ runs ─▶ ends
//!              ▲        │ the gang breaks: a node is lost, pods are pushed out
//!              └────────┘
//! ```
//! Work is counted in workers × milliseconds. A job that can be resized goes as fast as it has workers; any other one runs
//! at its speed while its gang is whole.

use ronde_scheduler::{Amounts, Change, Eviction, GroupId, NodeName, Pod, PodId, Time};

use super::{
    BREAKS_MAX, Move, Simulation,
    agenda::Event,
    history::{Preemption, Record, Segment},
    usage::Usage,
};
use crate::scenario::Job;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Has not arrived.
    Ahead,
    Waits,
    Runs,
    Ended,
}

#[derive(Debug)]
pub struct JobState {
    pub phase: Phase,
    pub pods: Vec<PodState>,
    /// Pods that have a node and stay.
    pub placed: u32,
    /// Those of them that do the work.
    pub workers: u32,
    /// Work that is done, and when that was reckoned.
    done: i64,
    since: i64,
    /// Grows whenever its end has to be reckoned anew.
    version: u32,
    pub queue: Option<usize>,
    /// What a pod of each task asks for.
    pub rows: Vec<Vec<i64>>,
    /// How many workers it wants now, and how it last changed that by itself.
    pub wanted: u32,
    pub resized_at: i64,
    pub grow_step: u32,
    pub record: Record,
}

#[derive(Debug)]
pub struct PodState {
    pub id: PodId,
    pub task: usize,
    pub node: Option<NodeName>,
    pub is_leaving: bool,
    /// Does its part of the work.
    counts: bool,
    created: i64,
    /// Grows whenever it is made again.
    version: u32,
}

impl JobState {
    pub fn new(job: &Job, usage: &Usage) -> Self {
        Self {
            phase: Phase::Ahead,
            pods: Vec::new(),
            placed: 0,
            workers: 0,
            done: 0,
            since: 0,
            version: 0,
            queue: usage.number(&job.group.queue),
            rows: job.tasks.iter().map(|task| usage.row(&task.spec.requests)).collect(),
            wanted: job.tasks.last().map_or(0, |task| task.replicas),
            resized_at: 0,
            grow_step: 0,
            record: Record { arrival: job.arrival, ..Record::default() },
        }
    }

    /// How much work is done in a millisecond.
    fn speed(&self, job: &Job) -> i64 {
        let whole = job.tasks.last().map_or(1, |task| task.replicas);
        i64::from(if job.is_resizable() { self.workers } else { whole }.max(1))
    }
}

/// Returns all the work of a job.
fn work(job: &Job) -> Option<i64> {
    let workers = job.tasks.last().map_or(1, |task| task.replicas).max(1);
    Some(job.run?.max(1).saturating_mul(workers.into()))
}

/// From arrival to the end.
impl Simulation<'_> {
    pub(super) fn job_arrives(&mut self, number: usize) {
        let job = &self.scenario.jobs[number];
        self.jobs[number].phase = Phase::Waits;
        self.waiting.insert(number);
        let mut group = job.group.clone();
        if job.placed.is_none() {
            group.created = Time::from_millis(job.arrival);
        }
        self.tell(&Move::Arrives(&job.group.id));
        self.cluster.apply(Change::Group(group));
        if let Some(placed) = &job.placed {
            self.make_pods(number);
            for (pod, node) in placed.nodes.iter().enumerate() {
                if let (Some(node), true) = (node, pod < self.jobs[number].pods.len()) {
                    let told = Pod { node: Some(node.clone()), ..self.pod(number, pod) };
                    self.cluster.apply(Change::Pod(told));
                    self.settle_pod(number, pod, node);
                }
            }
            // What it did before the beginning is done.
            let ran = self.now.saturating_sub(placed.since).max(0);
            let speed = self.jobs[number].speed(job);
            self.jobs[number].done = ran.saturating_mul(speed);
            self.reckon_end(number);
        }
    }

    /// A group is let into its queue: its controller makes its pods.
    pub(super) fn admit(&mut self, group: &GroupId) -> bool {
        let Some(number) = self.groups.get(group).copied() else { return false };
        self.tell(&Move::Admitted(group));
        self.reasons.remove(&number);
        let is_new = self.jobs[number].pods.is_empty();
        if is_new {
            self.make_pods(number);
        }
        is_new
    }

    fn make_pods(&mut self, number: usize) {
        let tasks = &self.scenario.jobs[number].tasks;
        let all = tasks.iter().enumerate().flat_map(|(task, known)| (0..known.replicas).map(move |_| task));
        all.for_each(|task| self.make_pod(number, task));
    }

    /// Makes one more pod of a task.
    pub(super) fn make_pod(&mut self, number: usize, task: usize) {
        let job = &self.scenario.jobs[number];
        let index = self.jobs[number].pods.len();
        let id = PodId::new(job.group.id.namespace(), &format!("{}-{index}", job.group.id.name()));
        self.pods.insert(id.clone(), (number, index));
        let state = PodState { id, task, node: None, is_leaving: false, counts: false, created: self.now, version: 0 };
        self.jobs[number].pods.push(state);
        let pod = self.pod(number, index);
        self.cluster.apply(Change::Pod(pod));
    }

    /// Takes the last pod of a job away for good.
    pub(super) fn drop_last_pod(&mut self, number: usize) {
        let Some(index) = self.jobs[number].pods.len().checked_sub(1) else { return };
        self.lose_pod(number, index);
        self.vacate(number, index);
        if let Some(pod) = self.jobs[number].pods.pop() {
            self.pods.remove(&pod.id);
            self.cluster.apply(Change::PodGone(pod.id));
        }
    }

    /// Returns a pod as the scheduler is to see it when it is new.
    pub(super) fn pod(&self, number: usize, index: usize) -> Pod {
        let (job, state) = (&self.scenario.jobs[number], &self.jobs[number].pods[index]);
        let task = &job.tasks[state.task];
        let mut pod = Pod::new(state.id.clone(), job.group.id.clone(), Amounts::default());
        pod.spec = task.spec.clone();
        pod.labels = task.labels.clone();
        pod.task = task.name.clone();
        pod.index = u32::try_from(index).unwrap_or(u32::MAX);
        pod.priority = job.group.priority;
        pod.created = Time::from_millis(state.created);
        pod
    }

    pub(super) fn bind(&mut self, pod: &PodId, node: &NodeName) {
        let Some((number, index)) = self.pods.get(pod).copied() else { return };
        self.settle_pod(number, index, node);
        self.reckon_end(number);
        // As a watch tells it: what is only planned is pushed out by nobody.
        let told = Pod { node: Some(node.clone()), ..self.pod(number, index) };
        self.cluster.apply(Change::Pod(told));
    }

    /// Puts a pod on a node, and starts the job if its gang is whole with it.
    fn settle_pod(&mut self, number: usize, index: usize, node: &NodeName) {
        let state = &mut self.jobs[number];
        let pod = &mut state.pods[index];
        pod.node = Some(node.clone());
        pod.counts = true;
        let (id, task) = (pod.id.clone(), pod.task);
        self.reckon_work(number);
        self.count_placed(number, task, 1);
        let row = &self.jobs[number].rows[task];
        self.usage.take(self.jobs[number].queue, row, 1);
        if let Some(place) = self.nodes.get_mut(node) {
            place.used.iter_mut().zip(row).for_each(|(used, amount)| *used += amount);
            place.pods.insert((number, index));
        }
        self.tell(&Move::Binds { pod: &id, node });
        if self.jobs[number].phase == Phase::Waits
            && self.jobs[number].placed >= self.scenario.jobs[number].group.min_member
        {
            self.job_starts(number);
        }
    }

    fn count_placed(&mut self, number: usize, task: usize, change: i32) {
        let is_worker = task + 1 == self.scenario.jobs[number].tasks.len();
        let state = &mut self.jobs[number];
        state.placed = state.placed.saturating_add_signed(change);
        if is_worker {
            state.workers = state.workers.saturating_add_signed(change);
        }
    }

    fn job_starts(&mut self, number: usize) {
        let job = &self.scenario.jobs[number];
        let state = &mut self.jobs[number];
        state.phase = Phase::Runs;
        state.since = self.now;
        state.resized_at = self.now;
        let begins_at = job.placed.as_ref().map_or(self.now, |placed| placed.since.min(self.now));
        state.record.first_start.get_or_insert(begins_at);
        self.waiting.remove(&number);
        self.reasons.remove(&number);
        if job.elastic.is_some_and(|elastic| elastic.auto) && job.run.is_some() {
            self.autos.insert(number);
        }
        let mut group = job.group.clone();
        if job.placed.is_none() {
            group.created = Time::from_millis(job.arrival);
        }
        (group.admitted, group.started, group.waiting_since) = (Some(Time::from_millis(self.now)), true, None);
        self.tell(&Move::Starts(&job.group.id));
        self.cluster.apply(Change::Group(group));
    }

    /// Reckons how much work is done, before anything changes how fast it goes.
    fn reckon_work(&mut self, number: usize) {
        let job = &self.scenario.jobs[number];
        let state = &mut self.jobs[number];
        if state.phase == Phase::Runs {
            let passed = self.now - state.since;
            state.done = state.done.saturating_add(passed.saturating_mul(state.speed(job)));
        }
        if state.phase == Phase::Runs && self.now > state.since {
            let (from, to, pods) = (state.since, self.now, state.placed);
            match state.record.segments.last_mut().filter(|last| last.to == from && last.pods == pods) {
                Some(last) => last.to = to,
                None => state.record.segments.push(Segment { from, to, pods }),
            }
        }
        state.since = self.now;
    }

    /// Notes when the job will have done its work, as things are.
    fn reckon_end(&mut self, number: usize) {
        let job = &self.scenario.jobs[number];
        let state = &mut self.jobs[number];
        state.version += 1;
        let Some(work) = work(job).filter(|_| state.phase == Phase::Runs) else { return };
        let left = work.saturating_sub(state.done).max(0);
        let speed = state.speed(job);
        let takes = left / speed + i64::from(left % speed > 0);
        let version = state.version;
        self.agenda.note(state.since.saturating_add(takes), Event::Ends { job: number, version });
    }

    pub(super) fn job_ends(&mut self, number: usize, version: u32) {
        if self.jobs[number].version != version || self.jobs[number].phase != Phase::Runs {
            return;
        }
        self.reckon_work(number);
        let state = &mut self.jobs[number];
        state.phase = Phase::Ended;
        state.record.end = Some(self.now);
        while !self.jobs[number].pods.is_empty() {
            self.drop_last_pod(number);
        }
        self.autos.remove(&number);
        let id = &self.scenario.jobs[number].group.id;
        self.tell(&Move::Ends(id));
        self.cluster.apply(Change::GroupGone(id.clone()));
    }

    /// Ends the record of a job that still runs when the simulation is over.
    pub(super) fn close_segment(&mut self, number: usize) {
        self.reckon_work(number);
    }
}

/// Pods that have to go.
impl Simulation<'_> {
    /// A pod is told to leave: by the scheduler, or because its node is emptied.
    pub(super) fn evict(&mut self, id: &PodId, why: Option<&Eviction>) {
        let Some((number, index)) = self.pods.get(id).copied() else { return };
        self.tell(&Move::Evicted { pod: id, why });
        self.note_preemption(number, why);
        self.lose_pod(number, index);
        self.jobs[number].pods[index].is_leaving = true;
        let version = self.jobs[number].pods[index].version;
        let gone_at = self.now.saturating_add(self.scenario.grace);
        self.agenda.note(gone_at, Event::Left { job: number, pod: index, version });
    }

    fn note_preemption(&mut self, job: usize, why: Option<&Eviction>) {
        let (by, reclaimed) = match why {
            Some(Eviction::Preempted { by }) => (by, false),
            Some(Eviction::Reclaimed { by }) => (by, true),
            None | Some(Eviction::Moved { .. } | Eviction::Incomplete) => return,
        };
        let is_same = |last: &&mut Preemption| last.at == self.now && last.job == job && last.by == *by;
        match self.preemptions.last_mut().filter(is_same) {
            Some(last) => last.pods += 1,
            None => self.preemptions.push(Preemption { at: self.now, job, by: by.clone(), reclaimed, pods: 1 }),
        }
    }

    /// A pod does its work no longer, while it may still take room.
    pub(super) fn lose_pod(&mut self, number: usize, index: usize) {
        let pod = &mut self.jobs[number].pods[index];
        if !std::mem::take(&mut pod.counts) {
            return;
        }
        let task = pod.task;
        self.reckon_work(number);
        self.count_placed(number, task, -1);
        let is_whole = self.jobs[number].placed >= self.scenario.jobs[number].group.min_member;
        if self.jobs[number].phase == Phase::Runs && !is_whole {
            self.job_breaks(number);
        }
        self.reckon_end(number);
    }

    fn job_breaks(&mut self, number: usize) {
        let job = &self.scenario.jobs[number];
        let workers = i64::from(job.tasks.last().map_or(1, |task| task.replicas).max(1));
        let state = &mut self.jobs[number];
        let kept = job.checkpoint.filter(|every| *every > 0).map_or(0, |every| {
            let every = every.saturating_mul(workers);
            state.done / every * every
        });
        state.record.lost += (state.done - kept) / workers;
        state.record.breaks += 1;
        if state.record.breaks >= BREAKS_MAX {
            self.circle = Some(number);
        }
        state.done = kept;
        state.phase = Phase::Waits;
        self.waiting.insert(number);
        self.autos.remove(&number);
        self.tell(&Move::Breaks(&job.group.id));
    }

    /// A pod that had to leave has left, and is made again.
    pub(super) fn pod_left(&mut self, number: usize, index: usize, version: u32) {
        if self.jobs[number].pods.get(index).is_some_and(|pod| pod.is_leaving && pod.version == version) {
            self.make_again(number, index);
        }
    }

    /// Replaces a pod by a new one without a node.
    pub(super) fn make_again(&mut self, number: usize, index: usize) {
        self.lose_pod(number, index);
        self.vacate(number, index);
        let state = &mut self.jobs[number].pods[index];
        state.is_leaving = false;
        state.created = self.now;
        state.version += 1;
        self.cluster.apply(Change::PodGone(state.id.clone()));
        let pod = self.pod(number, index);
        self.cluster.apply(Change::Pod(pod));
    }

    /// Gives up the room of a pod.
    fn vacate(&mut self, number: usize, index: usize) {
        let state = &mut self.jobs[number];
        let pod = &mut state.pods[index];
        let Some(node) = pod.node.take() else { return };
        let (id, task) = (pod.id.clone(), pod.task);
        let row = &self.jobs[number].rows[task];
        self.usage.take(self.jobs[number].queue, row, -1);
        if let Some(place) = self.nodes.get_mut(&node) {
            place.used.iter_mut().zip(row).for_each(|(used, amount)| *used -= amount);
            place.pods.remove(&(number, index));
        }
        self.tell(&Move::Leaves(&id));
    }
}
