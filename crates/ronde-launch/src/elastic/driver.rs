//! The elastic driver: what is done about hosts and workers that come and go. Pure: events and the time in, commands
//! out. The rim (`run.rs`) starts processes, talks to workers and looks for hosts.
//!
//! A worker is one process for life. A ring of workers is a generation; a worker whose ring has ended, or that never
//! had one, joins and waits for a place in the next.
//!
//! ```text
//!   Starting ─▶ Booting ─▶ Waiting ─▶ Training ─▶ (ended)
//!                             ▲  │         │
//!                             └──┼─────────┘ its ring broke, or it was interrupted
//!                                └─▶ Leaving ─▶ (ended)          any ─▶ Stopping ─▶ (ended)
//! ```
//!
//! After every event the driver looks at everything and does what is due (`settle`), so there is no change that could
//! come at the wrong moment. Newcomers boot while the others train; only when they wait is the ring asked to open. A
//! new generation is formed when no member of the last one is still inside it, and only then.
//!
//! Here is what is known and what events change of it; `settle.rs` and `rings.rs` are what follows.

mod rings;
mod settle;

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    time::Duration,
};

use ronde_collective::control_channel::Join;

use super::{
    cooldown::Cooldowns,
    model::{Command, ElasticOutcome, Event, Failure, HostSlots, Settings, WorkerId, WorkerNumber},
};
use crate::{signals, start::Ended};

/// So many failures in a row, with no commit between them, are the program's own fault.
const FAILURES_MAX: u32 = 3;
/// So many rings in a row that nobody died in and that yet did not hold are the network's.
const FRUITLESS_MAX: u32 = 5;

/// The state of an elastic job.
#[derive(Debug)]
pub struct Driver {
    settings: Settings,
    /// In the order in which they were first seen; none before the first look.
    hosts: Option<Vec<HostSlots>>,
    slots: BTreeMap<String, usize>,
    discovery_error: String,
    workers: BTreeMap<WorkerId, Worker>,
    last_worker: u64,
    ring: Ring,
    resets: u32,
    cooldowns: Cooldowns,
    /// Rings and first steps of workers that failed in a row without a commit.
    failed_rings: u32,
    failed_boots: u32,
    fruitless: u32,
    short_since: Option<Duration>,
    /// A worker has ended well: the others may, and nobody is started any more.
    finishing: Option<Finishing>,
    ending: Option<ElasticOutcome>,
    wake: Option<Duration>,
    commands: Vec<Command>,
}

#[derive(Debug)]
struct Worker {
    number: WorkerNumber,
    host: String,
    slot: usize,
    /// The rank of its last place.
    rank: Option<usize>,
    phase: Phase,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    Starting,
    Booting,
    Waiting { since: Duration, join: Join },
    Training,
    Leaving { since: Duration },
    Stopping { since: Duration, is_killed: bool, is_failure: bool, is_silent: bool },
}

/// The latest generation; before the first it has the number 0 and no members.
#[derive(Debug, Default)]
struct Ring {
    number: u64,
    /// In the order of their ranks.
    members: Vec<WorkerId>,
    places: Vec<ronde_collective::control_channel::Assignment>,
    /// Some member is out of it: it will not come back together.
    is_open: bool,
    /// A member was lost, and those inside have been told.
    is_released: bool,
    has_commit: bool,
    has_loss: bool,
    /// Failed by themselves.
    failed: usize,
    why: String,
    notice: Option<Notice>,
}

/// The members have been told that hosts changed.
#[derive(Debug)]
struct Notice {
    since: Duration,
    change: u8,
    checks: BTreeMap<WorkerId, u64>,
    at: Option<u64>,
}

#[derive(Debug, Default)]
struct Finishing {
    /// Of who has not ended well since; what the program did itself weighs more.
    failure: Option<Failure>,
}

impl Driver {
    pub const fn new(settings: Settings) -> Self {
        let cooldowns = Cooldowns::new(settings.cooldown);
        Self {
            settings,
            hosts: None,
            slots: BTreeMap::new(),
            discovery_error: String::new(),
            workers: BTreeMap::new(),
            last_worker: 0,
            ring: Ring::new(),
            resets: 0,
            cooldowns,
            failed_rings: 0,
            failed_boots: 0,
            fruitless: 0,
            short_since: None,
            finishing: None,
            ending: None,
            wake: None,
            commands: Vec::new(),
        }
    }

    /// Takes an event and returns what is to be done, in this order. `now` counts from any start and never goes back.
    pub fn on(&mut self, event: Event, now: Duration) -> Vec<Command> {
        self.hear(event, now);
        self.settle(now);
        mem::take(&mut self.commands)
    }

    /// When [`Event::Tick`] is due.
    pub const fn wake_at(&self) -> Option<Duration> {
        self.wake
    }

    fn hear(&mut self, event: Event, now: Duration) {
        match event {
            Event::Hosts(hosts) => self.found(hosts),
            Event::DiscoveryFailed(error) => self.discovery_failed(error),
            Event::Started(worker) => self.started(worker),
            Event::StartFailed(worker, why) => self.gone(worker, Ended::Lost(why), now),
            Event::Connected(worker) => self.connected(worker),
            Event::Joined(worker, join) => self.joined(worker, join, now),
            Event::Checked { worker, generation, checks } => self.checked(worker, generation, checks),
            Event::Committed { generation, .. } if generation == self.ring.number => self.committed(),
            Event::Committed { .. } | Event::Tick => {}
            Event::Silent(worker) => self.silent(worker, now),
            Event::Ended(worker, ended) => self.gone(worker, ended, now),
            Event::Quit => self.quit(now),
        }
    }

    fn found(&mut self, found: Vec<HostSlots>) {
        self.discovery_error.clear();
        let before = self.hosts.take().unwrap_or_default();
        let at = |host: &HostSlots| before.iter().position(|old| old.host == host.host).unwrap_or(usize::MAX);
        let mut hosts = found;
        hosts.sort_by_key(at);
        self.commands.extend(changes(&before, &hosts).into_iter().map(Command::Say));
        self.slots = hosts.iter().map(|host| (host.host.clone(), host.slots)).collect();
        self.hosts = Some(hosts);
    }

    fn discovery_failed(&mut self, error: String) {
        if self.hosts.is_none() {
            self.end(ElasticOutcome::Discovery(error));
        } else if self.discovery_error != error {
            self.commands.push(Command::Say(format!("keeping the known hosts: {error}")));
            self.discovery_error = error;
        }
    }

    fn started(&mut self, id: WorkerId) {
        if let Some(worker) = self.workers.get_mut(&id)
            && worker.phase == Phase::Starting
        {
            worker.phase = Phase::Booting;
        }
    }

    /// What was said while the connection was down is said again.
    fn connected(&mut self, worker: WorkerId) {
        let is_inside = self.workers.get(&worker).is_some_and(|it| it.phase == Phase::Training);
        let generation = self.ring.number;
        if let Some(notice) = self.ring.notice.as_ref().filter(|_| is_inside) {
            self.commands.push(Command::Notice { worker, generation, change: notice.change });
            self.commands.extend(notice.at.map(|at| Command::Interrupt { worker, generation, at }));
        }
        if is_inside && self.ring.is_released {
            self.commands.push(Command::Interrupt { worker, generation, at: 0 });
        }
    }

    fn joined(&mut self, id: WorkerId, join: Join, now: Duration) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        match &mut worker.phase {
            Phase::Leaving { .. } => self.commands.push(Command::Leave(id)),
            Phase::Stopping { .. } => {}
            Phase::Training if join.seen < self.ring.number => {
                // The answer to its last question was lost with the connection.
                let place =
                    self.ring.members.iter().position(|it| *it == id).and_then(|rank| self.ring.places.get(rank));
                self.commands.extend(place.map(|place| Command::Assign(id, *place)));
            }
            Phase::Waiting { join: waiting, .. } => *waiting = join,
            phase => {
                if *phase == Phase::Training {
                    self.ring.is_open = true;
                    if !join.is_interrupted {
                        self.ring.why.clone_from(&join.why);
                    }
                }
                *phase = Phase::Waiting { since: now, join };
            }
        }
    }

    fn checked(&mut self, worker: WorkerId, generation: u64, checks: u64) {
        if generation == self.ring.number
            && let Some(notice) = &mut self.ring.notice
        {
            notice.checks.insert(worker, checks);
        }
    }

    const fn committed(&mut self) {
        self.ring.has_commit = true;
        self.failed_rings = 0;
        self.failed_boots = 0;
        self.fruitless = 0;
    }

    fn silent(&mut self, id: WorkerId, now: Duration) {
        let Some(worker) = self.workers.get(&id) else { return };
        if !matches!(worker.phase, Phase::Stopping { .. }) {
            let text = format!("lost contact with worker {} on host {}; stopping it", worker.number, worker.host);
            self.commands.push(Command::Say(text));
            self.kill(id, now, true);
            if let Some(Worker { phase: Phase::Stopping { is_silent, .. }, .. }) = self.workers.get_mut(&id) {
                *is_silent = true;
            }
        }
    }

    fn quit(&mut self, now: Duration) {
        if self.ending.is_some() {
            let ids: Vec<WorkerId> = self.workers.keys().copied().collect();
            ids.into_iter().for_each(|id| self.kill(id, now, false));
        } else {
            self.end(ElasticOutcome::Interrupted);
        }
    }

    fn gone(&mut self, id: WorkerId, ended: Ended, now: Duration) {
        let Some(worker) = self.workers.remove(&id) else { return };
        if self.ending.is_some() {
            return;
        }
        let is_member = self.ring.members.contains(&id);
        let is_expected = match worker.phase {
            Phase::Leaving { .. } => true,
            Phase::Stopping { is_failure, .. } => !is_failure,
            _ => false,
        };
        if ended == Ended::Code(0) && !is_expected {
            self.finished(is_member);
            return;
        }
        if is_member {
            self.ring.is_open = true;
            self.ring.has_loss = true;
        }
        if !is_expected {
            let why = "its training failed";
            let (number, host, rank) = (worker.number, worker.host.clone(), worker.rank);
            let failure = Failure { worker: id, number, host, rank, ended, why };
            self.failed(&worker, failure, is_member, now);
        }
    }

    /// A member that ends well has all of the training: whoever was lost before is not missed.
    fn finished(&mut self, is_member: bool) {
        let finishing = self.finishing.get_or_insert_default();
        if is_member {
            finishing.failure.take_if(|failure| !failure.ended.is_own());
        }
    }

    /// Says so, leaves the host alone for a while, and looks whether the program itself is at fault.
    fn failed(&mut self, worker: &Worker, mut failure: Failure, is_member: bool, now: Duration) {
        let is_own = failure.ended.is_own();
        let is_new = self.cooldowns.fail(&worker.host, now);
        let left = counted(self.workers.len(), "worker");
        self.commands.push(Command::Say(format!("{}; {left} left", described(&failure))));
        if let Some(finishing) = &mut self.finishing {
            // Who never had a part in the training is not missed, unless its own program failed.
            let is_missed = is_own || worker.rank.is_some() || self.ring.number == 0;
            let is_graver = finishing.failure.as_ref().is_none_or(|before| is_own && !before.ended.is_own());
            if is_missed && is_graver {
                finishing.failure = Some(failure);
            }
            return;
        }
        if is_member && is_own {
            self.ring.failed += 1;
            if !self.ring.has_commit && self.ring.failed == 1 {
                self.failed_rings += 1;
            }
            let is_nobody_left = !self.workers.values().any(|it| it.rank.is_some());
            if self.ring.failed == self.ring.members.len() && is_nobody_left {
                failure.why = "all ranks failed by themselves";
                self.end(ElasticOutcome::Failed(failure));
            } else if self.failed_rings >= FAILURES_MAX {
                failure.why = "a rank fails again and again before the next commit";
                self.end(ElasticOutcome::Failed(failure));
            }
        } else if worker.rank.is_none() && is_own {
            self.failed_boots += u32::from(is_new);
            if self.failed_boots >= FAILURES_MAX && self.workers.is_empty() {
                failure.why = "workers fail again and again before their first ring";
                self.end(ElasticOutcome::Failed(failure));
            }
        }
    }

    fn end(&mut self, outcome: ElasticOutcome) {
        self.ending.get_or_insert(outcome);
    }
}

impl Worker {
    const fn is_inside(&self) -> bool {
        matches!(self.phase, Phase::Training | Phase::Stopping { .. })
    }
}

impl Ring {
    const fn new() -> Self {
        Self {
            number: 0,
            members: Vec::new(),
            places: Vec::new(),
            is_open: false,
            is_released: false,
            has_commit: false,
            has_loss: false,
            failed: 0,
            why: String::new(),
            notice: None,
        }
    }
}

fn wake(wake: &mut Option<Duration>, at: Duration) {
    *wake = Some(wake.map_or(at, |before| before.min(at)));
}

/// Those of `these` who are not among `those`.
fn missing(these: &[WorkerId], those: &[WorkerId]) -> Vec<WorkerId> {
    let those: BTreeSet<&WorkerId> = those.iter().collect();
    these.iter().filter(|id| !those.contains(id)).copied().collect()
}

/// What users are told about hosts.
fn changes(before: &[HostSlots], now: &[HostSlots]) -> Vec<String> {
    let find = |hosts: &[HostSlots], name: &str| hosts.iter().find(|it| it.host == name).map(|it| it.slots);
    let change = |HostSlots { host, slots }: &HostSlots| match find(before, host) {
        None => Some(format!("host {host} joined ({})", counted(*slots, "slot"))),
        Some(old) if old != *slots => Some(format!("host {host} has {} now (was {old})", counted(*slots, "slot"))),
        Some(_) => None,
    };
    let left = before.iter().filter(|old| find(now, &old.host).is_none()).map(|old| format!("host {} left", old.host));
    now.iter().filter_map(change).chain(left).collect()
}

/// So many of something, as in `1 rank` and `2 ranks`.
pub(super) fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

fn described(failure: &Failure) -> String {
    let who = format!("worker {} on host {}", failure.number, failure.host);
    match &failure.ended {
        Ended::Code(code) => format!("{who} exited with code {code}"),
        Ended::Signal(number) => format!("{who} was killed by {}", signals::name(*number)),
        Ended::Lost(why) => format!("{who} was lost: {why}"),
    }
}

#[cfg(test)]
mod tests;
