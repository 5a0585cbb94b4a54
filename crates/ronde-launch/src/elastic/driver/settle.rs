//! What is due after every event: the end, those who are to go, those who are to be started, and a new ring.

use std::{collections::BTreeSet, time::Duration};

use super::{Driver, Phase, Worker, wake};
use crate::{
    elastic::{
        model::{Command, ElasticOutcome, HostSlots, WorkerId, WorkerNumber},
        plan::{self, Candidate},
    },
    start::Ended,
};

impl Driver {
    pub(super) fn settle(&mut self, now: Duration) {
        self.wake = None;
        // 1. stop those who were asked to go and did not
        self.press(now);
        // 2. the end
        if self.ending.is_some() {
            return self.settle_ending(now);
        }
        self.settle_notice();
        self.release();
        if self.finishing.is_some() {
            return self.settle_finishing(now);
        }
        // 3. let those go who are not needed, start those who are
        self.dismiss(now);
        self.start(now);
        // 4. a new ring
        let is_waiting_for_some = self.ring.is_open && self.is_anybody_inside();
        let candidates = if is_waiting_for_some { Vec::new() } else { self.candidates() };
        let next = plan::members(candidates, self.settings.max);
        if is_waiting_for_some {
            // Nobody has to decide anything before they are out.
        } else if self.ring.is_open || self.ring.number == 0 {
            self.form(&next, now);
        }
        if !self.ring.is_open && self.ring.number > 0 {
            self.ask_to_open(now);
        }
        // 5. or the end, when there has been none for too long
        self.watch_clock(&next, now);
        if self.ending.is_some() {
            self.settle_ending(now);
        }
    }

    /// A request, then force, then the worker counts as lost: when it has left its ring by itself if the order has not
    /// reached it, because it hears nothing any more. One that was silent has left it already.
    pub(super) fn press(&mut self, now: Duration) {
        let grace = self.settings.stop_grace;
        let fence = if self.ending.is_some() { grace } else { self.settings.fence };
        let mut lost = Vec::new();
        let mut late = Vec::new();
        for (id, worker) in &mut self.workers {
            match &mut worker.phase {
                Phase::Leaving { since } if now >= *since + grace => late.push(*id),
                Phase::Leaving { since } => wake(&mut self.wake, *since + grace),
                Phase::Stopping { since, is_killed: true, is_silent, .. } => {
                    let until = *since + if *is_silent { grace } else { fence };
                    if now >= until {
                        lost.push(*id);
                    } else {
                        wake(&mut self.wake, until);
                    }
                }
                Phase::Stopping { since, is_killed, .. } if now >= *since + grace => {
                    (*since, *is_killed) = (now, true);
                    wake(&mut self.wake, now + fence);
                    self.commands.push(Command::Kill(*id));
                }
                Phase::Stopping { since, .. } => wake(&mut self.wake, *since + grace),
                _ => {}
            }
        }
        late.into_iter().for_each(|id| self.stop(id, now, false));
        lost.into_iter().for_each(|id| self.gone(id, Ended::Lost("it did not end".to_owned()), now));
    }

    pub(super) fn stop(&mut self, id: WorkerId, now: Duration, is_failure: bool) {
        if let Some(worker) = self.workers.get_mut(&id)
            && !matches!(worker.phase, Phase::Stopping { .. })
        {
            worker.phase = Phase::Stopping { since: now, is_killed: false, is_failure, is_silent: false };
            self.commands.push(Command::Stop(id));
            wake(&mut self.wake, now + self.settings.stop_grace);
        }
    }

    pub(super) fn kill(&mut self, id: WorkerId, now: Duration, is_failure: bool) {
        if let Some(worker) = self.workers.get_mut(&id)
            && !matches!(worker.phase, Phase::Stopping { is_killed: true, .. })
        {
            worker.phase = Phase::Stopping { since: now, is_killed: true, is_failure, is_silent: false };
            self.commands.push(Command::Kill(id));
            wake(&mut self.wake, now + self.settings.stop_grace);
        }
    }

    pub(super) fn settle_ending(&mut self, now: Duration) {
        let ids: Vec<WorkerId> = self.workers.keys().copied().collect();
        ids.into_iter().for_each(|id| self.stop(id, now, false));
        if self.workers.is_empty() {
            self.wake = None;
            self.commands.extend(self.ending.clone().map(Command::Finish));
        }
    }

    /// Whoever is in the ring may finish, and form a smaller ring for it; whoever is not may go.
    pub(super) fn settle_finishing(&mut self, now: Duration) {
        let newcomers = |worker: &Worker| worker.rank.is_none();
        for (id, worker) in &mut self.workers {
            if newcomers(worker) && matches!(worker.phase, Phase::Waiting { .. }) {
                worker.phase = Phase::Leaving { since: now };
                self.commands.push(Command::Leave(*id));
            }
        }
        if self.ring.number > 0 && self.workers.values().all(newcomers) {
            let late: Vec<WorkerId> = self.workers.keys().copied().collect();
            late.into_iter().for_each(|id| self.stop(id, now, false));
        }
        if self.ring.is_open && !self.is_anybody_inside() {
            let mut candidates = self.candidates();
            candidates.retain(|it| self.workers.get(&it.id).is_some_and(|worker| worker.rank.is_some()));
            candidates.iter_mut().for_each(|it| it.is_departing = false);
            let next = plan::members(candidates, self.settings.max);
            if !next.is_empty() {
                self.begin(&next);
            }
        }
        if self.workers.is_empty()
            && let Some(finishing) = self.finishing.take()
        {
            self.end(finishing.failure.map_or(ElasticOutcome::Done, ElasticOutcome::Failed));
            self.settle_ending(now);
        }
    }

    pub(super) fn is_valid(&self, worker: &Worker) -> bool {
        self.slots.get(&worker.host).is_some_and(|slots| worker.slot < *slots)
    }

    /// Whether some member of the latest ring is, or may be, still in it.
    pub(super) fn is_anybody_inside(&self) -> bool {
        self.ring.members.iter().filter_map(|id| self.workers.get(id)).any(Worker::is_inside)
    }

    /// Those who train or wait.
    pub(super) fn candidates(&self) -> Vec<Candidate> {
        let commits = |worker: &Worker| match &worker.phase {
            // Those inside have a state, or will have it before they come out.
            Phase::Training => Some(Some(0)),
            Phase::Waiting { join, .. } => Some(join.commits),
            _ => None,
        };
        let candidate = |(id, worker): (&WorkerId, &Worker)| {
            Some(Candidate { id: *id, commits: commits(worker)?, is_departing: !self.is_valid(worker) })
        };
        self.workers.iter().filter_map(candidate).collect()
    }

    pub(super) fn is_enough(&self, next: &[WorkerId]) -> bool {
        !next.is_empty() && next.len() >= self.settings.min
    }

    /// Whether those who wait should wait for others who are about to.
    pub(super) fn is_gathering(&mut self, newcomers: &[WorkerId], now: Duration) -> bool {
        let is_coming = |worker: &Worker| matches!(worker.phase, Phase::Starting | Phase::Booting);
        if !self.workers.values().any(is_coming) {
            return false;
        }
        let since = newcomers.iter().filter_map(|id| match self.workers.get(id)?.phase {
            Phase::Waiting { since, .. } => Some(since),
            _ => None,
        });
        let until = since.min().unwrap_or(now) + self.settings.gather;
        if now < until {
            wake(&mut self.wake, until);
        }
        now < until
    }

    /// Workers that have never been in a ring, on hosts that are gone, are not needed; nor are those who are too many.
    pub(super) fn dismiss(&mut self, now: Duration) {
        let unneeded: Vec<WorkerId> = self
            .workers
            .iter()
            .filter(|(_, worker)| worker.rank.is_none() && !self.is_valid(worker))
            .map(|(id, _)| *id)
            .collect();
        unneeded.into_iter().for_each(|id| self.let_go(id, now));
    }

    /// Who waits is told to leave; who does not listen yet is stopped.
    pub(super) fn let_go(&mut self, id: WorkerId, now: Duration) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        match worker.phase {
            Phase::Waiting { .. } => {
                worker.phase = Phase::Leaving { since: now };
                wake(&mut self.wake, now + self.settings.stop_grace);
                self.commands.push(Command::Leave(id));
            }
            Phase::Starting | Phase::Booting => self.stop(id, now, false),
            _ => {}
        }
    }

    /// Fills the free slots, of older hosts first.
    pub(super) fn start(&mut self, now: Duration) {
        let is_working = |worker: &Worker| !matches!(worker.phase, Phase::Leaving { .. } | Phase::Stopping { .. });
        let mut count = self.workers.values().filter(|it| is_working(it) && self.is_valid(it)).count();
        if count >= self.settings.max {
            return;
        }
        let taken: BTreeSet<(&str, usize)> = self.workers.values().map(|it| (it.host.as_str(), it.slot)).collect();
        let mut free = Vec::new();
        for HostSlots { host, slots } in self.hosts.as_deref().unwrap_or_default() {
            let is_free = |slot: &usize| !taken.contains(&(host.as_str(), *slot));
            let slots = (0..*slots).filter(is_free).take(self.settings.max - count);
            if let Some(until) = self.cooldowns.until(host, now) {
                wake(&mut self.wake, until);
                continue;
            }
            let before = free.len();
            free.extend(slots.map(|slot| (host.clone(), slot)));
            count += free.len() - before;
        }
        let taken: BTreeSet<WorkerNumber> = self.workers.values().map(|worker| worker.number).collect();
        let numbers = (0..taken.len() + free.len()).map(WorkerNumber).filter(|number| !taken.contains(number));
        for ((host, slot), number) in free.into_iter().zip(numbers) {
            self.last_worker += 1;
            let worker = WorkerId(self.last_worker);
            let local_size = self.slots.get(&host).map_or(1, |slots| (*slots).min(self.settings.max));
            let phase = Phase::Starting;
            self.workers.insert(worker, Worker { number, host: host.clone(), slot, rank: None, phase });
            self.commands.push(Command::Start { worker, host, slot, number, local_size });
        }
    }
}
