//! A thousand clusters from seeds: queues with limits, priorities, elastic jobs, nodes that come and go. At no moment does a
//! node have more than it can take, whoever runs has its whole gang, every job that can run ends, and a replay is the same.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use ronde_scheduler::{Amounts, Dequeue, GroupId, NodeName, PodId, Policy, Queue};
use ronde_simulate::{
    Dice, Fault, FaultKind, History, Job, Move, Scenario,
    input::cluster::{nodes, queue},
    simulate,
};

const GPU: &str = "nvidia.com/gpu";
const SEEDS: u64 = 1000;
const MINUTE: i64 = 60_000;

/// Returns a small cluster with an hour of work.
fn scenario(seed: u64) -> Scenario {
    let mut dice = Dice::new(seed);
    let size = 2 + dice.roll(4);
    let nodes = nodes(&format!("{size}x4gpu")).expect("nodes");
    let mut queues: Vec<Queue> =
        ["a:weight=3", "b:capability.gpu=8", "c:jobs=2"].map(|text| queue(text).expect("a queue")).into();
    if dice.roll(2) == 0 {
        queues[0].dequeue = Dequeue::Fifo;
    }
    let mut jobs: Vec<Job> = (0..12 + dice.roll(12)).map(|number| job(&mut dice, number)).collect();
    // Either priorities or shares push out: with both, two jobs may take the same room from each other in turn.
    let policy = Policy { preempts: dice.roll(2) == 0, ..Policy::default() };
    let policy = Policy { reclaims: !policy.preempts, ..policy };
    if policy.reclaims {
        jobs.iter_mut().for_each(|job| job.group.priority = 0);
    }
    let mut faults = Vec::new();
    for _ in 0..dice.roll(4) {
        let node = nodes[usize::try_from(dice.roll(size)).expect("it is small")].name.clone();
        let back_after = Some(MINUTE * i64::try_from(1 + dice.roll(30)).expect("it is small"));
        let kind = match dice.roll(3) {
            0 => FaultKind::Lose { node, back_after },
            1 => FaultKind::Drain { node, back_after },
            _ => FaultKind::Reclaim { node, notice: 2 * MINUTE, back_after },
        };
        faults.push(Fault { at: minutes(&mut dice, 90), kind });
    }
    let (grace, pace) = (i64::try_from(dice.roll(3)).expect("it is small") * 15_000, 0);
    Scenario { nodes, queues, jobs, faults, policy, grace, pace, ..Scenario::default() }
}

fn minutes(dice: &mut Dice, most: u64) -> i64 {
    MINUTE * i64::try_from(dice.roll(most)).expect("it is small")
}

fn job(dice: &mut Dice, number: u64) -> Job {
    let replicas = u32::try_from(1 + dice.roll(4)).expect("it is small");
    let min = if dice.roll(3) == 0 { replicas.div_ceil(2) } else { replicas };
    let gpus = 1 + i64::try_from(dice.roll(2)).expect("it is small");
    let name = *dice.pick(&[(2, "a"), (2, "b"), (1, "c"), (1, "other")]).expect("there are some");
    let mut job = Job::uniform(&format!("job-{number:02}"), name, (min, replicas), Amounts::of([(GPU, gpus)]));
    if dice.roll(4) == 0 {
        job = job.and_then(|job| job.with_max(replicas * 2, true));
    }
    let mut job = job.expect("its numbers fit");
    job.arrival = minutes(dice, 60);
    job.run = Some(MINUTE + minutes(dice, 40));
    job.checkpoint = (dice.roll(2) == 0).then_some(5 * MINUTE);
    job.group.priority = i32::try_from(dice.roll(3)).expect("it is small");
    job
}

/// What is on the nodes, by the moves alone.
#[derive(Default)]
struct Ledger {
    /// What is free on each node.
    free: BTreeMap<NodeName, i64>,
    /// The node of each pod.
    at: BTreeMap<PodId, NodeName>,
    jobs: BTreeMap<GroupId, Seen>,
}

/// What is known of a job.
#[derive(Default)]
struct Seen {
    gpus: i64,
    min: usize,
    on_nodes: usize,
    runs: bool,
}

impl Ledger {
    fn new(scenario: &Scenario) -> Self {
        let seen = |job: &Job| Seen {
            gpus: job.tasks[0].spec.requests.get(GPU).expect("it asks for some"),
            min: job.group.min_member as usize,
            ..Seen::default()
        };
        let jobs = scenario.jobs.iter().map(|job| (job.group.id.clone(), seen(job))).collect();
        Self { jobs, ..Self::default() }
    }

    fn of_pod(&mut self, pod: &PodId) -> &mut Seen {
        let name = pod.as_str().rsplit_once('-').expect("pods are numbered").0;
        let (namespace, name) = name.split_once('/').expect("it has a namespace");
        self.jobs.get_mut(&GroupId::new(namespace, name)).expect("it is one of ours")
    }

    fn note(&mut self, what: &Move<'_>) {
        match what {
            Move::NodeJoins(node) => {
                self.free.insert(node.name.clone(), node.allocatable.get(GPU).expect("it has some"));
            }
            Move::NodeGone(node) => {
                assert!(!self.at.values().any(|at| at == *node), "{node} is gone with pods on it");
                self.free.remove(node);
            }
            Move::Binds { pod, node } => {
                assert_eq!(self.at.insert((*pod).clone(), (*node).clone()), None, "{pod} is bound twice");
                self.of_pod(pod).on_nodes += 1;
                let gpus = self.of_pod(pod).gpus;
                let free = self.free.get_mut(node).expect("the node is there");
                *free -= gpus;
                assert!(*free >= 0, "{node} has {free} left");
            }
            Move::Leaves(pod) => {
                let node = self.at.remove(pod).expect("it was somewhere");
                self.of_pod(pod).on_nodes -= 1;
                let gpus = self.of_pod(pod).gpus;
                *self.free.get_mut(&node).expect("the node is there") += gpus;
            }
            Move::Starts(group) => self.set_running(group, true),
            Move::Breaks(group) | Move::Ends(group) => self.set_running(group, false),
            Move::Evicted { .. } | Move::Arrives(_) | Move::Admitted(_) | Move::Resizes { .. } => {}
        }
    }

    fn set_running(&mut self, group: &GroupId, runs: bool) {
        self.jobs.get_mut(group).expect("it is one of ours").runs = runs;
    }

    /// Whoever runs has its minimum on nodes.
    fn check_gangs(&self) {
        for (name, job) in self.jobs.iter().filter(|(_, job)| job.runs) {
            assert!(job.on_nodes >= job.min, "{name} runs with {} of {}", job.on_nodes, job.min);
        }
    }
}

/// Runs a scenario with everything checked; returns what happened, in lines.
fn checked(scenario: &Scenario) -> (String, History) {
    let (mut transcript, mut ledger, mut last) = (String::new(), Ledger::new(scenario), i64::MIN);
    let history = simulate(scenario, &mut |at, what| {
        assert!(at >= last, "time goes on");
        if at > last {
            ledger.check_gangs();
        }
        last = at;
        ledger.note(what);
        writeln!(transcript, "{at} {what}").expect("a string takes everything");
    });
    (transcript, history)
}

fn check(seed: u64) {
    let scenario = scenario(seed);
    let (transcript, history) = checked(&scenario);
    let room = i64::try_from(scenario.nodes.len()).expect("it is small") * 4;
    for (job, record) in scenario.jobs.iter().zip(&history.records) {
        let asked = i64::from(job.group.min_member) * job.tasks[0].spec.requests.get(GPU).expect("it asks for some");
        let limit = if job.group.queue.as_str() == "b" { room.min(8) } else { room };
        if asked <= limit {
            assert!(record.end.is_some(), "seed {seed}: {} never ended: {:?}", job.group.id, record.waits);
        }
        let ran_well = job.run.filter(|_| !job.is_resizable() && record.breaks == 0 && record.end.is_some());
        if let Some(run) = ran_well {
            assert_eq!(record.ran(), run, "seed {seed}: {} ran as long as it should", job.group.id);
        }
    }
    let (again, same) = checked(&scenario);
    assert!(again == transcript && same == history, "seed {seed}: a replay differs");
}

#[test]
fn what_must_hold_does_at_every_moment_of_a_thousand_simulations() {
    let next = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(seed) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|seed| *seed < SEEDS) {
                    check(seed);
                }
            });
        }
    });
}
