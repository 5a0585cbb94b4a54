//! Workers that are lost, and those that take their place under a fresh index. Pure.
//!
//! A worker is lost when its pod ends, is deleted by somebody else, is gone, or is on a node that is shutting down. In that
//! last case it is asked to leave first. What its own program did wrong counts against a limit and is answered after a
//! pause; what was done to it is not, and is answered at once, unless it had not even started.

use jiff::SignedDuration;
use ronde_api::{LeavingWorker, RestartPolicy, names::elastic as names};
use ronde_runtime::pods::{backoff, state::PodState, time};

use super::{
    conditions,
    observed::{Failure, Member},
    scaling,
    status_builder::{StatusBuilder, count},
};
use crate::reconcile::Cause;

/// Failures that are longer ago than this say nothing about the next one.
const FORGOTTEN_AFTER: SignedDuration = SignedDuration::from_mins(30);
/// How long nobody takes the place of a worker that was lost before it had started: the next one might go the same way.
const UNSTARTED_PAUSE: SignedDuration = SignedDuration::from_secs(10);
/// How many workers may fail lately, if the job does not have more of them.
const FAILURES_MAX: i32 = 6;
/// What signals leave behind.
const SIGNALLED: std::ops::RangeInclusive<i32> = 129..=254;

/// How a worker was lost.
enum Loss {
    /// By its own doing.
    Failed(Failure),
    /// It has ended although the job has not.
    Ended,
    /// Something was done to it.
    Disrupted(String),
    /// The control plane or its node has ended it: preemption, drains, nodes that are gone or full.
    Evicted(String),
    /// Its node is about to go; it still runs.
    Vanishing(String),
}

impl StatusBuilder<'_> {
    /// Takes lost workers out of the job, and remembers those that still have to leave.
    pub fn count_losses(&mut self) {
        if !self.is_live() {
            return;
        }
        self.forget_the_left();
        for name in self.status.target_workers.clone() {
            if scaling::leaves(&self.status.elastic, &name) {
                continue;
            }
            if let Some(loss) = self.loss_of(&name) {
                self.lose(&name, &loss);
            }
        }
        let least = self.seen.worker_spec().min_replicas();
        if self.is_exhausted() && self.status.elastic.wanted < least {
            let failures = self.status.elastic.failures;
            let message = format!("{failures} workers failed, and fewer than {least} are left");
            self.fail(Cause::new(conditions::WORKER_FAILURES, message));
        }
    }

    fn forget_the_left(&mut self) {
        let memory = self.status.elastic.clone();
        let is_there = |leaving: &LeavingWorker| self.seen.worker(&memory, &leaving.name).is_some();
        self.memory().leaving.retain(|leaving| is_there(leaving));
    }

    fn loss_of(&self, name: &str) -> Option<Loss> {
        let Some(worker) = self.seen.worker(&self.status.elastic, name) else {
            // One that never was a host is simply made, under the same name.
            let was_host = self.status.current_workers.iter().any(|host| host == name);
            return was_host.then(|| Loss::Disrupted("its pod is gone".to_owned()));
        };
        let evicted = worker.disruption().map(|disruption| Loss::Evicted(disruption.why));
        let vanishing = self.seen.vanishing.get(worker.node());
        match worker.state {
            PodState::Terminating => Some(evicted.unwrap_or_else(|| Loss::Disrupted("its pod was deleted".to_owned()))),
            PodState::Unknown => Some(Loss::Disrupted("its node does not respond".to_owned())),
            // What dies with its node has done nothing wrong.
            PodState::Failed => {
                let disrupted = || vanishing.map(|why| Loss::Disrupted(why.clone()));
                Some(evicted.or_else(disrupted).unwrap_or_else(|| Loss::Failed(worker.failure())))
            }
            PodState::Succeeded => Some(Loss::Ended),
            PodState::Running => vanishing.map(|why| Loss::Vanishing(why.clone())),
            PodState::Pending => vanishing.map(|why| Loss::Disrupted(why.clone())),
        }
    }

    fn lose(&mut self, name: &str, loss: &Loss) {
        let message = match loss {
            Loss::Failed(failure) => format!("{name} {failure}"),
            Loss::Ended => format!("{name} has ended"),
            Loss::Disrupted(why) => format!("{name} is lost: {why}"),
            Loss::Evicted(why) => format!("{name} was {why}"),
            Loss::Vanishing(why) => format!("{name} was asked to leave: {why}"),
        };
        self.status.target_workers.retain(|worker| worker != name);
        if let Loss::Vanishing(_) = loss {
            let since = time(self.now);
            self.memory().leaving.push(LeavingWorker { name: name.to_owned(), since });
        }
        if matches!(loss, Loss::Failed(_)) {
            self.count_failure();
        }
        if let Loss::Evicted(why) = loss {
            self.remember_disruption(why);
        }
        if self.seen.worker(&self.status.elastic, name).is_some_and(|worker| !worker.has_started()) {
            let now = time(self.now);
            self.memory().last_unstarted_time = Some(now);
        }
        let is_replaced = self.is_replaceable(loss) && !(matches!(loss, Loss::Failed(_)) && self.is_exhausted());
        if !is_replaced {
            self.memory().wanted -= 1;
        }
        let reason = if matches!(loss, Loss::Vanishing(_)) { "NodeVanishing" } else { conditions::WORKER_FAILED };
        let cause = Cause::new(reason, message);
        self.warn(cause.clone());
        self.why = Some(cause);
    }

    fn count_failure(&mut self) {
        let (lately, now) = (self.failures(), time(self.now));
        let memory = self.memory();
        memory.failures = lately + 1;
        memory.last_failure_time = Some(now);
    }

    fn is_replaceable(&self, loss: &Loss) -> bool {
        match (self.seen.worker_spec().restart_policy(), loss) {
            // What others do to a worker says nothing about its program.
            (_, Loss::Evicted(_)) => true,
            (RestartPolicy::Never, _) | (RestartPolicy::OnFailure | RestartPolicy::ExitCode, Loss::Ended) => false,
            (RestartPolicy::ExitCode, Loss::Failed(failure)) => {
                failure.exit_code.is_some_and(|code| SIGNALLED.contains(&code))
            }
            _ => true,
        }
    }

    /// Returns how many workers have failed lately.
    fn failures(&self) -> i32 {
        let memory = &self.status.elastic;
        let last = memory.last_failure_time.as_ref().map(|time| time.0);
        let is_recent = last.is_some_and(|last| self.now.duration_since(last) <= FORGOTTEN_AFTER);
        if is_recent { memory.failures } else { 0 }
    }

    fn is_exhausted(&self) -> bool {
        self.failures() > FAILURES_MAX.max(self.seen.worker_spec().replicas())
    }

    /// Names the workers that take the place of lost ones, after a pause if those have failed or never started.
    pub fn fill(&mut self) {
        if !self.is_live() || self.status.target_workers.len() >= count(self.status.elastic.wanted) {
            return;
        }
        let memory = &self.status.elastic;
        let last = memory.last_failure_time.as_ref().map(|time| time.0).unwrap_or_default();
        let unstarted = memory.last_unstarted_time.as_ref().map(|time| time.0).unwrap_or_default();
        let rest = unstarted.duration_since(self.now) + UNSTARTED_PAUSE;
        let pause = backoff::wait(count(memory.failures), last, self.now).max(rest);
        if pause.is_positive() {
            return self.look_again_in(pause);
        }
        let missing = memory.wanted - i32::try_from(self.status.target_workers.len()).unwrap_or(i32::MAX);
        let names = self.fresh_names(missing);
        self.record(Cause::new(conditions::WORKER_CREATED, format!("{} replace lost workers", names.join(", "))));
        self.status.target_workers.extend(names);
    }

    /// Returns names that no worker of this run has had.
    pub fn fresh_names(&mut self, number: i32) -> Vec<String> {
        let first = self.status.elastic.next_index;
        let next = first.saturating_add(number.max(0));
        self.memory().next_index = next;
        (first..next).map(|index| names::worker(&self.seen.name(), index)).collect()
    }
}

/// Tells whether a worker has done what it was asked: it has ended, or never began.
pub fn has_left(worker: &Member) -> bool {
    worker.is_finished() || worker.state == PodState::Pending
}
