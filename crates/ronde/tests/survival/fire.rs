//! Volleys of kills at a training: whom they hit, and whom they spare.

use std::{fmt, thread, time::Duration};

use ronde_sim::wait_until;

use crate::{
    dice::Dice,
    hosts::{HOSTS, Hosts},
    job::{self, Job, PATIENCE, RANKS, Worker},
};

/// Deeds of one volley, and the longest pause between two of them.
const DEEDS_MAX: u64 = 6;
const PAUSE_MAX_MS: u64 = 400;
/// By then the last volley has struck, also those whose connection to the launcher it has cut.
const SETTLED: Duration = Duration::from_secs(3);

pub struct Fire {
    dice: Dice,
    ranks: usize,
    others: usize,
    clients: usize,
    changes: usize,
    revived: usize,
}

/// The worker that keeps the state, and its host.
struct Spared {
    pid: u32,
    host: usize,
}

impl Fire {
    pub fn new(dice: Dice) -> Self {
        Self { dice, ranks: 0, others: 0, clients: 0, changes: 0, revived: 0 }
    }

    /// Waits until all hosts take part, and then spares one worker and nobody else, until the training is nearly done.
    pub fn volley(&mut self, hosts: &mut Hosts, job: &mut Job) {
        let Some(spared) = self.choose(hosts, job) else { return };
        for _ in 0..=self.dice.below(DEEDS_MAX) {
            thread::sleep(Duration::from_millis(self.dice.below(PAUSE_MAX_MS)));
            if job.is_nearly_done() {
                break;
            }
            match self.dice.below(10) {
                0..=4 => self.ranks += strike(self.one(others(job, &spared))),
                5..=6 => self.others += strike(self.one(away_from(hosts, &spared))),
                7 => self.clients += strike(self.one(clients(hosts, job, &spared))),
                _ => self.change_hosts(hosts, &spared),
            }
        }
        job::set_hosts(hosts, &HOSTS.collect::<Vec<_>>());
        if !job.is_nearly_done() {
            assert!(job.is_running(), "the job has ended\n{}", job.shown());
            assert!(job::is_alive(spared.pid), "the survivor {} is gone\n{}", spared.pid, job.shown());
        }
    }

    /// The worker to spare: the ring is whole, so it is none whose end is already on its way. There is none when the
    /// training is nearly done.
    fn choose(&mut self, hosts: &mut Hosts, job: &mut Job) -> Option<Spared> {
        thread::sleep(SETTLED);
        wait_until("the ring is whole", PATIENCE, || {
            if job.is_nearly_done() {
                return Some(None);
            }
            assert!(job.is_running(), "the job has ended\n{}", job.shown());
            self.revived += hosts.revive();
            let ring: Vec<Worker> = job.workers().into_iter().filter(Worker::has_state).collect();
            let Worker { pid, .. } = *self.dice.pick(&ring).filter(|_| ring.len() == RANKS)?;
            Some(Some(Spared { pid, host: hosts.host_of(pid)? }))
        })
    }

    fn one(&mut self, of: Vec<u32>) -> Option<u32> {
        self.dice.pick(&of).copied()
    }

    fn change_hosts(&mut self, hosts: &Hosts, spared: &Spared) {
        let list: Vec<usize> = HOSTS.filter(|host| *host == spared.host || self.dice.below(2) == 0).collect();
        job::set_hosts(hosts, &list);
        self.changes += 1;
    }
}

/// Kills one, if there is one; returns how many that were.
fn strike(victim: Option<u32>) -> usize {
    victim.into_iter().for_each(job::kill);
    usize::from(victim.is_some())
}

/// Ranks, on any host.
fn others(job: &Job, spared: &Spared) -> Vec<u32> {
    job.workers().into_iter().map(|worker| worker.pid).filter(|pid| *pid != spared.pid).collect()
}

/// Whatever runs on another host.
fn away_from(hosts: &Hosts, spared: &Spared) -> Vec<u32> {
    HOSTS.filter(|host| *host != spared.host).flat_map(|host| hosts.processes(host)).collect()
}

/// What the launcher itself has started, but for the way to the one that is spared.
fn clients(hosts: &Hosts, job: &Job, spared: &Spared) -> Vec<u32> {
    let around = hosts.around_launcher().into_iter().filter(|pid| *pid != job.pid());
    around.filter(|pid| !hosts.leads_to(*pid, spared.host)).collect()
}

/// Any process of a job on a host.
pub fn one_of_any(hosts: &Hosts, dice: &mut Dice) -> Option<u32> {
    let all: Vec<u32> = HOSTS.flat_map(|host| hosts.processes(host)).collect();
    dice.pick(&all).copied()
}

impl fmt::Display for Fire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ranks, others, clients, changes, revived, .. } = self;
        write!(f, "killed {ranks} ranks, {others} other processes of hosts, {clients} of the launcher's, ")?;
        write!(f, "{changes} changes of hosts, {revived} agents or sshd started again")
    }
}
