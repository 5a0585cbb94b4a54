//! When a job that grows by itself changes its size: the rules of the elastic controller, on what is free and who waits.
//!
//! It grows into room that nobody waits for, once it has rested, in steps that double; it gives back what it has above what
//! it asks for as soon as a gang that waits fits then. As there, the room of a gang is worked out in thought, by requests,
//! readiness and node selectors; the scheduler knows more, and what does not fit after all is taken back.

use std::{cmp::Reverse, collections::BTreeMap};

use ronde_scheduler::{Effect, NodeName, PodSpec, Reason, Taint, Toleration};

use super::{Move, NodeState, Simulation, agenda::Event};
use crate::scenario::Job;

/// How long a job stays as it is after a change before it grows.
const COOLDOWN: i64 = 60_000;
/// How long it waits for what it has given back to be used, before it gives more.
const GIVE_PACE: i64 = 10_000;
/// How long a gang may take to use room that there seems to be for it.
const DOUBT: i64 = 30_000;
/// How many workers a job takes in one step.
const GROW_MAX: u32 = 100;

/// What is free on each node, by the number of the resource.
type Rooms = BTreeMap<NodeName, Vec<i64>>;

impl Simulation<'_> {
    /// Lets jobs grow or give back; says whether any did.
    pub(super) fn adapt_sizes(&mut self) -> bool {
        self.take_back_unplaced();
        match self.next_that_waits() {
            Some((job, since)) => self.give_room_to(job, since),
            None => self.grow(),
        }
    }

    /// Workers that found no room after all are not asked for any longer.
    fn take_back_unplaced(&mut self) {
        let autos: Vec<usize> = self.autos.iter().copied().collect();
        for job in autos {
            let asked = self.scenario.jobs[job].replicas() as usize;
            while self.jobs[job].pods.len() > asked && self.jobs[job].pods.last().is_some_and(|pod| pod.node.is_none())
            {
                self.drop_last_pod(job);
                self.jobs[job].wanted -= 1;
                self.jobs[job].grow_step = (self.jobs[job].grow_step / 2).max(1);
            }
        }
    }

    /// Returns the gang that has waited longest for room on nodes.
    fn next_that_waits(&self) -> Option<(usize, i64)> {
        let waits_for_room = |reason: Reason| {
            matches!(reason, Reason::NotEnoughResources | Reason::WaitingForRoom | Reason::HeldForOthers)
        };
        let waiting = self.reasons.iter().filter(|(job, (why, _))| {
            waits_for_room(why.reason) && self.waiting.contains(job) && self.is_possible(&self.scenario.jobs[**job])
        });
        waiting.map(|(job, (_, since))| (*job, *since)).min_by_key(|(job, since)| (*since, *job))
    }

    /// Tells whether a gang would fit if nobody were there.
    fn is_possible(&self, job: &Job) -> bool {
        let empty: Rooms = self.nodes.iter().map(|(name, state)| (name.clone(), state.capacity.clone())).collect();
        self.lacks(job, empty, 0).0 == 0
    }

    fn rooms(&self) -> Rooms {
        let free = |state: &NodeState| state.capacity.iter().zip(&state.used).map(|(all, used)| all - used).collect();
        self.nodes.iter().map(|(name, state)| (name.clone(), free(state))).collect()
    }

    /// Puts the minimum of a gang, less what is placed, where there is room; returns how many pods find none, and the rest.
    fn lacks(&self, job: &Job, mut rooms: Rooms, placed: u32) -> (u32, Rooms) {
        let mut left = job.group.min_member.saturating_sub(placed);
        for task in &job.tasks {
            let row = self.usage.row(&task.spec.requests);
            let mut times = task.replicas.min(left);
            left -= times;
            for (name, room) in &mut rooms {
                let is_open = self.nodes.get(name).is_some_and(|state| is_open(state, &task.spec));
                while times > 0 && is_open && fits(room, &row) {
                    room.iter_mut().zip(&row).for_each(|(free, amount)| *free -= amount);
                    times -= 1;
                }
            }
            left += times;
            if times > 0 {
                break;
            }
        }
        (left, rooms)
    }

    /// Gives back as many workers as a gang needs; says whether any go now.
    fn give_room_to(&mut self, waits: usize, since: i64) -> bool {
        let (gang, placed) = (&self.scenario.jobs[waits], self.jobs[waits].placed);
        let mut rooms = self.rooms();
        let mut given: Vec<usize> = Vec::new();
        let in_doubt = self.now - since > DOUBT;
        let surplus = self.surplus();
        for (job, node, row) in surplus {
            let is_met = self.lacks(gang, rooms.clone(), placed).0 == 0;
            if is_met && !(in_doubt && given.is_empty()) {
                break;
            }
            if let Some(room) = rooms.get_mut(&node) {
                room.iter_mut().zip(&row).for_each(|(free, amount)| *free += amount);
            }
            given.push(job);
        }
        given.iter().for_each(|job| self.give_back(*job));
        !given.is_empty()
    }

    /// Returns the workers that may go, in their order: those of the job that has most above what it asks for come first.
    fn surplus(&mut self) -> Vec<(usize, NodeName, Vec<i64>)> {
        let mut jobs: Vec<(Reverse<u32>, usize)> = Vec::new();
        for job in self.autos.clone() {
            let asked = worker_replicas(&self.scenario.jobs[job]);
            let rested_at = self.jobs[job].resized_at + GIVE_PACE;
            match self.jobs[job].wanted.saturating_sub(asked) {
                0 => {}
                _ if rested_at > self.now => self.wake_at(rested_at),
                surplus => jobs.push((Reverse(surplus), job)),
            }
        }
        jobs.sort_unstable();
        let of_job = |(Reverse(surplus), job): &(Reverse<u32>, usize)| {
            let pods = self.jobs[*job].pods.iter().rev().take(*surplus as usize);
            let placed = pods.filter_map(|pod| Some((*job, pod.node.clone()?, self.jobs[*job].rows[pod.task].clone())));
            placed.collect::<Vec<_>>()
        };
        jobs.iter().flat_map(of_job).collect()
    }

    fn give_back(&mut self, job: usize) {
        self.drop_last_pod(job);
        self.jobs[job].wanted -= 1;
        self.resized(job);
    }

    /// Lets jobs that have rested take what is free; says whether any does.
    fn grow(&mut self) -> bool {
        let mut rooms = self.rooms();
        let mut has_grown = false;
        for job in self.autos.clone() {
            let scenario = &self.scenario.jobs[job];
            let (Some(elastic), Some(task)) = (scenario.elastic, scenario.tasks.last()) else { continue };
            let state = &self.jobs[job];
            let rested_at = state.resized_at + COOLDOWN;
            let others = scenario.replicas() - task.replicas;
            let more = elastic.max.saturating_sub(others).saturating_sub(state.wanted);
            if more == 0 || state.workers < state.wanted {
                continue;
            }
            if rested_at > self.now {
                self.wake_at(rested_at);
                continue;
            }
            let step = if state.grow_step == 0 { GROW_MAX } else { state.grow_step };
            let row = self.usage.row(&task.spec.requests);
            let taken = self.take_rooms(&mut rooms, &row, &task.spec, more.min(step));
            (0..taken).for_each(|_| self.make_pod(job, scenario.tasks.len() - 1));
            if taken > 0 {
                let state = &mut self.jobs[job];
                state.wanted += taken;
                state.grow_step = step.saturating_mul(2).min(GROW_MAX);
                self.resized(job);
                has_grown = true;
            }
        }
        has_grown
    }

    fn take_rooms(&self, rooms: &mut Rooms, row: &[i64], spec: &PodSpec, most: u32) -> u32 {
        let mut taken = 0;
        for (name, room) in rooms {
            let is_open = self.nodes.get(name).is_some_and(|state| is_open(state, spec));
            while taken < most && is_open && fits(room, row) {
                room.iter_mut().zip(row).for_each(|(free, amount)| *free -= amount);
                taken += 1;
            }
        }
        taken
    }

    fn resized(&mut self, job: usize) {
        let state = &mut self.jobs[job];
        state.resized_at = self.now;
        state.record.resizes += 1;
        let pods = u32::try_from(state.pods.len()).unwrap_or(u32::MAX);
        let group = &self.scenario.jobs[job].group.id;
        self.tell(&Move::Resizes { group, pods });
        self.wake_at(self.now + COOLDOWN);
    }

    /// Looks at the sizes again then, also if nothing else happens.
    fn wake_at(&mut self, at: i64) {
        if self.wakes.insert(at) {
            self.agenda.note(at, Event::Rested);
        }
    }
}

fn worker_replicas(job: &Job) -> u32 {
    job.tasks.last().map_or(0, |task| task.replicas)
}

fn fits(room: &[i64], row: &[i64]) -> bool {
    // A worker that asks for nothing would fit any number of times.
    row.iter().any(|amount| *amount > 0) && row.iter().zip(room).all(|(amount, free)| *amount == 0 || amount <= free)
}

fn is_open(state: &NodeState, spec: &PodSpec) -> bool {
    let node = &state.node;
    let has = |(key, value): (&String, &String)| node.labels.get(key) == Some(value);
    let is_tolerated = |taint: &Taint| {
        let tolerates = |toleration: &Toleration| toleration.tolerates(&taint.key, &taint.value, taint.effect);
        taint.effect == Effect::PreferNoSchedule || spec.tolerations.iter().any(tolerates)
    };
    node.ready && !node.unschedulable && spec.node_selector.iter().all(has) && node.taints.iter().all(is_tolerated)
}
