//! How a ring opens and the next one is formed.

use std::{collections::BTreeMap, mem, time::Duration};

use ronde_collective::control_channel::Join;

use super::{Driver, FRUITLESS_MAX, Notice, Phase, Ring, Worker, counted, missing, wake};
use crate::elastic::{
    model::{ADDED, Command, ElasticOutcome, REMOVED, WorkerId},
    plan,
};

impl Driver {
    /// A ring that holds is asked to open when another one would be better.
    pub(super) fn ask_to_open(&mut self, now: Duration) {
        let next = &plan::members(self.candidates(), self.settings.max);
        let newcomers = missing(next, &self.ring.members);
        let leaving = missing(&self.ring.members, next);
        if newcomers.is_empty() && leaving.is_empty()
            || !self.is_enough(next) && !self.may_wait_for_more(next, &leaving)
        {
            return;
        }
        if let Some(notice) = &self.ring.notice {
            let until = notice.since + self.settings.leave_grace;
            if now >= until {
                leaving.into_iter().for_each(|id| self.stop(id, now, false));
            } else if !leaving.is_empty() {
                wake(&mut self.wake, until);
            }
            return;
        }
        // A ring that is about to lose a member opens by itself.
        let is_stopping =
            |id: &WorkerId| matches!(self.workers.get(id), Some(Worker { phase: Phase::Stopping { .. }, .. }));
        if self.ring.members.iter().any(is_stopping) || leaving.is_empty() && self.is_gathering(&newcomers, now) {
            return;
        }
        let change = if leaving.is_empty() { 0 } else { REMOVED } | if newcomers.is_empty() { 0 } else { ADDED };
        let generation = self.ring.number;
        for worker in &self.ring.members {
            self.commands.push(Command::Notice { worker: *worker, generation, change });
        }
        self.ring.notice = Some(Notice { since: now, change, checks: BTreeMap::new(), at: None });
        if !leaving.is_empty() {
            wake(&mut self.wake, now + self.settings.leave_grace);
        }
    }

    /// Whether a ring that would be too small is ended for those who have to go: if the state stays with somebody.
    fn may_wait_for_more(&self, next: &[WorkerId], leaving: &[WorkerId]) -> bool {
        let stays = |id: &&WorkerId| self.workers.get(id).is_some_and(|worker| self.is_valid(worker));
        !leaving.is_empty() && self.ring.members.iter().filter(stays).any(|id| next.contains(id))
    }

    /// When all members have answered, the ring ends at the first check that nobody has passed. Who has finished the
    /// training and gone before the question came does not answer.
    pub(super) fn settle_notice(&mut self) {
        let Some(notice) = &mut self.ring.notice else { return };
        let has_answered = |id: &WorkerId| notice.checks.contains_key(id) || !self.workers.contains_key(id);
        let is_complete = self.ring.members.iter().all(has_answered);
        if notice.at.is_some() || !is_complete {
            return;
        }
        let at = notice.checks.values().max().map_or(0, |checks| checks + 1);
        notice.at = Some(at);
        for worker in &self.ring.members {
            self.commands.push(Command::Interrupt { worker: *worker, generation: self.ring.number, at });
        }
    }

    /// A ring that has lost a member, or that a member left by itself, does not hold: nobody needs to wait in it.
    pub(super) fn release(&mut self) {
        let is_agreed = self.ring.notice.as_ref().is_some_and(|notice| notice.at.is_some()) && !self.ring.has_loss;
        if !self.ring.is_open || self.ring.is_released || is_agreed || self.ring.number == 0 {
            return;
        }
        self.ring.is_released = true;
        let generation = self.ring.number;
        self.commands.push(Command::GiveUp(generation));
        for worker in &self.ring.members {
            if self.workers.get(worker).is_some_and(|it| it.phase == Phase::Training) {
                self.commands.push(Command::Interrupt { worker: *worker, generation, at: 0 });
            }
        }
    }

    /// Forms a new ring, now that nobody is in the old one, if enough are there.
    pub(super) fn form(&mut self, next: &[WorkerId], now: Duration) {
        if !self.is_enough(next) {
            return self.wait_for_more(next, now);
        }
        let is_fresh = next.iter().all(|id| self.workers.get(id).is_some_and(|worker| worker.rank.is_none()));
        if is_fresh && next.len() < self.settings.max && self.is_gathering(next, now) {
            return;
        }
        if self.ring.number > 0 {
            if let Some(limit) = self.settings.reset_limit.filter(|limit| self.resets >= *limit) {
                return self.end(ElasticOutcome::ResetLimit(limit));
            }
            self.resets += 1;
            if !self.ring.has_loss && !self.ring.has_commit && !self.ring.why.is_empty() {
                self.fruitless += 1;
            }
            if self.fruitless >= FRUITLESS_MAX {
                let why = mem::take(&mut self.ring.why);
                return self.end(ElasticOutcome::NoRing(why));
            }
        }
        let waiting = self.workers.iter().filter(|(_, worker)| matches!(worker.phase, Phase::Waiting { .. }));
        let waiting: Vec<WorkerId> = waiting.map(|(id, _)| *id).collect();
        missing(&waiting, next).into_iter().for_each(|id| self.let_go(id, now));
        self.begin(next);
    }

    /// Too few are left: who has to go need not wait with them, if one of them has the state.
    fn wait_for_more(&mut self, next: &[WorkerId], now: Duration) {
        let is_departing = |worker: &Worker| matches!(worker.phase, Phase::Waiting { .. }) && !self.is_valid(worker);
        let departing: Vec<WorkerId> =
            self.workers.iter().filter(|(_, worker)| is_departing(worker)).map(|(id, _)| *id).collect();
        let has_state = |id: &WorkerId| match self.workers.get(id).map(|worker| &worker.phase) {
            Some(Phase::Waiting { join, .. }) => join.commits.is_some(),
            _ => false,
        };
        if next.first().is_some_and(has_state) {
            missing(&departing, next).into_iter().for_each(|id| self.let_go(id, now));
        }
    }

    pub(super) fn begin(&mut self, next: &[WorkerId]) {
        let number = self.ring.number + 1;
        let workers: Vec<&Worker> = next.iter().filter_map(|id| self.workers.get(id)).collect();
        let sites: Vec<(&str, usize)> = workers.iter().map(|it| (it.host.as_str(), it.slot)).collect();
        let mut places = plan::places(number, &sites);
        let join = |worker: &&Worker| match &worker.phase {
            Phase::Waiting { join, .. } => join.clone(),
            _ => Join::default(),
        };
        let joins: Vec<Join> = workers.iter().map(join).collect();
        let commits = joins.first().and_then(|join| join.commits);
        let is_agreed = !self.ring.is_released;
        let is_in_step =
            is_agreed && commits.is_some() && joins.iter().all(|it| it.is_interrupted && it.commits == commits);
        self.tell_of_ring(next, commits);
        for (id, place) in next.iter().zip(&mut places) {
            place.commits = commits.unwrap_or(0);
            place.is_in_step = is_in_step;
            self.commands.push(Command::Assign(*id, *place));
            if let Some(worker) = self.workers.get_mut(id) {
                worker.rank = Some(place.rank);
                worker.phase = Phase::Training;
            }
        }
        self.ring = Ring { number, members: next.to_vec(), places, ..Ring::default() };
    }

    pub(super) fn tell_of_ring(&mut self, next: &[WorkerId], commits: Option<u64>) {
        let new = missing(next, &self.ring.members).len();
        let (number, size, stay) = (self.ring.number + 1, counted(next.len(), "rank"), next.len() - new);
        let text = match commits {
            _ if self.ring.number == 0 => format!("ring {number}: {size}"),
            None => format!("ring {number}: {size}, starting over: no worker with the state is left"),
            Some(_) => format!("ring {number}: {size} ({stay} kept, {new} new)"),
        };
        self.commands.push(Command::Say(text));
    }

    /// Without a ring that can hold, or be had, the clock runs.
    pub(super) fn watch_clock(&mut self, next: &[WorkerId], now: Duration) {
        let is_whole = self.ring.number > 0 && !self.ring.is_open;
        let are_valid = |id: &WorkerId| self.workers.get(id).is_some_and(|worker| self.is_valid(worker));
        if is_whole && (self.is_enough(next) || self.ring.members.iter().all(are_valid)) {
            self.short_since = None;
            return;
        }
        let since = *self.short_since.get_or_insert(now);
        if now < since + self.settings.elastic_timeout {
            wake(&mut self.wake, since + self.settings.elastic_timeout);
            return;
        }
        let laggards = self.ring.members.iter().filter(|id| self.workers.get(id).is_some_and(Worker::is_inside));
        let laggards: Vec<WorkerId> = laggards.filter(|_| self.ring.is_open).copied().collect();
        if laggards.is_empty() {
            let (min, waited) = (self.settings.min, self.settings.elastic_timeout);
            self.end(ElasticOutcome::Short { ready: next.len(), min, waited });
        } else {
            self.short_since = Some(now);
            wake(&mut self.wake, now + self.settings.elastic_timeout);
            laggards.into_iter().for_each(|id| self.kill(id, now, true));
        }
    }
}
