//! The loop: what is due happens, the scheduler decides, the clock moves on to what comes next.
//!
//! The controllers' rules as far as they decide when a gang exists: a job's pods are made when its group is let into its
//! queue; a pod that is lost is made again; a gang runs while its minimum is placed, and a job ends when its work is done.
//! Starting takes no time. Between two events nothing is looked at, so a quiet week costs nothing.

mod agenda;
mod elastic;
mod faults;
pub mod history;
mod jobs;
mod usage;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
};

use ronde_scheduler::{
    Change, Cluster, Eviction, GroupId, Node, NodeName, Plan, PodId, Queue, QueueName, Reason, Step, Time, Waiting,
};

pub use self::usage::BOUNDLESS;
use self::{
    agenda::{Agenda, Event},
    history::{History, Preemption},
    jobs::JobState,
    usage::Usage,
};
use crate::scenario::Scenario;

/// Cycles at one moment: admission, then placing, then what a job gives up for others. More would be a circle.
const CYCLES_MAX: usize = 64;
/// How often the scheduler may ask to be called again while nothing else is to come and nothing changes.
const IDLE_LOOKS_MAX: usize = 64;

/// How often the gang of one job may break: two jobs that take the same room from each other in turn never end.
pub const BREAKS_MAX: u32 = 1000;

/// Something that happens, for whoever watches.
#[derive(Debug, Clone, PartialEq)]
pub enum Move<'a> {
    NodeJoins(&'a Node),
    NodeGone(&'a NodeName),
    Arrives(&'a GroupId),
    Admitted(&'a GroupId),
    Binds {
        pod: &'a PodId,
        node: &'a NodeName,
    },
    Evicted {
        pod: &'a PodId,
        /// None: its node is emptied.
        why: Option<&'a Eviction>,
    },
    /// A pod gives up its room.
    Leaves(&'a PodId),
    Starts(&'a GroupId),
    /// The gang is no longer whole.
    Breaks(&'a GroupId),
    Resizes {
        group: &'a GroupId,
        pods: u32,
    },
    Ends(&'a GroupId),
}

impl fmt::Display for Move<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NodeJoins(node) => write!(f, "node {} joins", node.name),
            Self::NodeGone(node) => write!(f, "node {node} is gone"),
            Self::Arrives(group) => write!(f, "{group} arrives"),
            Self::Admitted(group) => write!(f, "{group} is admitted"),
            Self::Binds { pod, node } => write!(f, "{pod} binds to {node}"),
            Self::Evicted { pod, why: Some(why) } => write!(f, "{pod} is evicted: {why}"),
            Self::Evicted { pod, why: None } => write!(f, "{pod} is evicted: its node is drained"),
            Self::Leaves(pod) => write!(f, "{pod} leaves"),
            Self::Starts(group) => write!(f, "{group} starts"),
            Self::Breaks(group) => write!(f, "{group} breaks"),
            Self::Resizes { group, pods } => write!(f, "{group} has {pods} pods"),
            Self::Ends(group) => write!(f, "{group} ends"),
        }
    }
}

/// Runs a scenario; `watch` is told every move with its moment.
pub fn simulate(scenario: &Scenario, watch: &mut dyn FnMut(i64, &Move<'_>)) -> History {
    let mut simulation = Simulation::new(scenario, watch);
    simulation.run();
    simulation.finish()
}

/// A node that is there.
struct NodeState {
    node: Node,
    used: Vec<i64>,
    capacity: Vec<i64>,
    /// Jobs and numbers of the pods that are on it.
    pods: BTreeSet<(usize, usize)>,
}

struct Simulation<'a> {
    scenario: &'a Scenario,
    watch: &'a mut dyn FnMut(i64, &Move<'_>),
    cluster: Cluster,
    agenda: Agenda,
    now: i64,
    jobs: Vec<JobState>,
    groups: HashMap<GroupId, usize>,
    pods: HashMap<PodId, (usize, usize)>,
    nodes: BTreeMap<NodeName, NodeState>,
    usage: Usage,
    preemptions: Vec<Preemption>,
    /// Jobs that are there and do not run.
    waiting: BTreeSet<usize>,
    /// Why they wait, as the scheduler last told, and since when.
    reasons: BTreeMap<usize, (Waiting, i64)>,
    /// Jobs that run and change their size by themselves.
    autos: BTreeSet<usize>,
    /// When the scheduler is to decide, because something has changed or because it asked to be called.
    cycle_at: Option<i64>,
    look_at: Option<i64>,
    cycled_at: Option<i64>,
    idle_looks: usize,
    /// When jobs that rest are looked at again.
    wakes: BTreeSet<i64>,
    circle: Option<usize>,
}

impl<'a> Simulation<'a> {
    fn new(scenario: &'a Scenario, watch: &'a mut dyn FnMut(i64, &Move<'_>)) -> Self {
        let mut cluster = Cluster::new(scenario.policy.clone());
        cluster.apply(Change::TierLabels(scenario.tier_labels.clone()));
        scenario.parts.iter().for_each(|part| cluster.apply(Change::HyperNode(part.clone())));
        let queues = all_queues(scenario);
        let added = scenario.faults.iter().filter_map(faults::added);
        let nodes = scenario.nodes.iter().chain(added).map(|node| &node.allocatable);
        let asked = scenario.jobs.iter().flat_map(|job| &job.tasks).map(|task| &task.spec.requests);
        let usage = Usage::new(nodes.chain(asked), queues.iter(), scenario.begin);
        queues.into_iter().for_each(|queue| cluster.apply(Change::Queue(queue)));
        let mut simulation = Self {
            scenario,
            watch,
            cluster,
            agenda: Agenda::default(),
            now: scenario.begin,
            jobs: scenario.jobs.iter().map(|job| JobState::new(job, &usage)).collect(),
            groups: scenario.jobs.iter().enumerate().map(|(number, job)| (job.group.id.clone(), number)).collect(),
            pods: HashMap::new(),
            nodes: BTreeMap::new(),
            usage,
            preemptions: Vec::new(),
            waiting: BTreeSet::new(),
            reasons: BTreeMap::new(),
            autos: BTreeSet::new(),
            cycle_at: None,
            look_at: None,
            cycled_at: None,
            idle_looks: 0,
            wakes: BTreeSet::new(),
            circle: None,
        };
        scenario.nodes.iter().for_each(|node| simulation.node_joins(node));
        simulation.begin();
        simulation
    }

    /// Notes what the scenario says will happen, and starts what runs already.
    fn begin(&mut self) {
        for (number, job) in self.scenario.jobs.iter().enumerate() {
            self.agenda.note(job.arrival.max(self.now), Event::Arrives(number));
        }
        for (number, fault) in self.scenario.faults.iter().enumerate() {
            self.agenda.note(fault.at.max(self.now), Event::Fault(number));
        }
    }

    fn run(&mut self) {
        while let Some(at) = self.next_at() {
            // 1. move the clock
            self.now = at;
            self.usage.pass(at);
            // 2. what is due happens
            while let Some(event) = self.agenda.take_due(at) {
                self.happen(event);
            }
            // 3. the scheduler decides
            let is_due = |due: Option<i64>| due.is_some_and(|due| due <= at);
            if is_due(self.cycle_at) || is_due(self.look_at) {
                self.decide();
            }
        }
    }

    /// Returns when there is something to do, if there ever is.
    fn next_at(&self) -> Option<i64> {
        let is_idle = self.idle_looks >= IDLE_LOOKS_MAX;
        let look_at = self.look_at.filter(|_| !is_idle || self.agenda.next_at().is_some());
        let next = self.agenda.next_at().into_iter().chain(self.cycle_at).chain(look_at).min()?;
        let is_over = self.scenario.until.is_some_and(|until| next > until);
        (!is_over && self.circle.is_none()).then_some(next.max(self.now))
    }

    fn happen(&mut self, event: Event) {
        self.idle_looks = 0;
        match event {
            Event::Arrives(job) => self.job_arrives(job),
            Event::Ends { job, version } => self.job_ends(job, version),
            Event::Left { job, pod, version } => self.pod_left(job, pod, version),
            Event::Fault(fault) => self.fault(fault),
            Event::Lost { fault } => self.notice_ends(fault),
            Event::Back { fault } => self.node_is_back(fault),
            Event::Rested => self.wakes.retain(|at| *at > self.now),
        }
        self.ask_for_cycle();
    }

    /// Lets the scheduler decide at its next turn.
    fn ask_for_cycle(&mut self) {
        let paced = self.cycled_at.map_or(self.now, |last| last.saturating_add(self.scenario.pace).max(self.now));
        self.cycle_at = Some(self.cycle_at.map_or(paced, |at| at.min(paced)));
    }

    fn decide(&mut self) {
        (self.cycle_at, self.look_at, self.cycled_at) = (None, None, Some(self.now));
        let mut is_idle = true;
        for _ in 0..CYCLES_MAX {
            let plan = self.cluster.cycle(Time::from_millis(self.now));
            self.look_at = plan.look_again.map(|at| at.as_millis().max(self.now + 1));
            is_idle &= plan.steps.is_empty();
            let mut has_more = self.carry_out(&plan);
            if !has_more && !self.autos.is_empty() {
                has_more = self.adapt_sizes();
            }
            if !has_more {
                break;
            }
        }
        self.idle_looks = if is_idle { self.idle_looks + 1 } else { 0 };
        self.sample();
    }

    /// Carries out a plan; says whether there is more to decide now.
    fn carry_out(&mut self, plan: &Plan) -> bool {
        let mut has_more = false;
        for step in &plan.steps {
            match step {
                Step::Admit(group) => has_more |= self.admit(group),
                Step::Bind { pod, node } => self.bind(pod, node),
                Step::Evict { pod, why } => self.evict(pod, Some(why)),
                Step::Nominate { .. } => {}
            }
        }
        for group in &plan.ready {
            if let Some(job) = self.groups.get(group) {
                self.reasons.remove(job);
            }
        }
        for waiting in &plan.waiting {
            if let Some(job) = self.groups.get(&waiting.group) {
                let since = self.reasons.get(job).map_or(self.now, |(_, since)| *since);
                self.reasons.insert(*job, (waiting.clone(), since));
            }
        }
        has_more
    }

    fn tell(&mut self, what: &Move<'_>) {
        (self.watch)(self.now, what);
    }

    fn sample(&mut self) {
        if !self.usage.is_sample_due(self.now) {
            return;
        }
        // Who waits only for something of its own keeps nobody from their part.
        let waits_for_room = |(reason, _): &(Waiting, i64)| reason.reason.is_of_nodes() || is_of_queue(reason.reason);
        let someone_waits = self.reasons.values().any(waits_for_room);
        let deserved = someone_waits.then(|| self.entitled());
        self.usage.sample(self.now, self.waiting.len(), deserved.as_deref());
    }

    /// Returns what each queue deserves of the resource that matters most, as far as it wants it.
    fn entitled(&self) -> Vec<i64> {
        let resource = self.usage.names.get(self.usage.main);
        let mut wanted: Vec<i64> = (0..self.usage.queues.len()).map(|queue| self.usage.of_queue(queue)).collect();
        for job in &self.waiting {
            let state = &self.jobs[*job];
            let asked = state.rows.last().and_then(|row| row.get(self.usage.main)).unwrap_or(&0);
            let missing = i64::from(self.scenario.jobs[*job].replicas().saturating_sub(state.placed));
            if let Some(queue) = state.queue {
                wanted[queue] = wanted[queue].saturating_add(asked * missing);
            }
        }
        let deserved: BTreeMap<QueueName, i64> = self
            .cluster
            .queues()
            .into_iter()
            .filter_map(|(name, usage)| Some((name, usage.deserved.get(resource?).unwrap_or(0))))
            .collect();
        let of_queue = |(name, wanted): (&QueueName, i64)| wanted.min(deserved.get(name).copied().unwrap_or(0));
        self.usage.queues.iter().zip(wanted).map(of_queue).collect()
    }

    fn finish(mut self) -> History {
        (0..self.jobs.len()).for_each(|job| self.close_segment(job));
        for (job, (waiting, _)) in &self.reasons {
            if self.waiting.contains(job) {
                self.jobs[*job].record.waits = Some((waiting.reason, waiting.message.clone()));
            }
        }
        let capacity = total(&self.scenario.nodes);
        History {
            begin: self.scenario.begin,
            end: self.now,
            preemptions: self.preemptions,
            queues: self.usage.queues.clone(),
            resource: self.usage.names.get(self.usage.main).cloned().unwrap_or_else(|| "cpu".into()),
            usage: self.usage.totals(),
            shares: self.usage.shares.clone(),
            samples: self.usage.samples,
            nodes: self.scenario.nodes.len(),
            capacity,
            circle: self.circle,
            records: self.jobs.into_iter().map(|job| job.record).collect(),
        }
    }
}

fn is_of_queue(reason: Reason) -> bool {
    matches!(reason, Reason::QueueLimit | Reason::BehindInQueue)
}

fn total(nodes: &[Node]) -> ronde_scheduler::Amounts {
    let mut sum = ronde_scheduler::Amounts::default();
    for (name, amount) in nodes.iter().flat_map(|node| node.allocatable.iter()) {
        let before = sum.get(name).unwrap_or(0);
        sum.set(name, before.saturating_add(amount));
    }
    sum
}

/// Returns the queues of a scenario with those that only jobs name.
fn all_queues(scenario: &Scenario) -> Vec<Queue> {
    let mut queues: BTreeMap<QueueName, Queue> =
        scenario.queues.iter().map(|queue| (queue.name.clone(), queue.clone())).collect();
    for job in &scenario.jobs {
        queues.entry(job.group.queue.clone()).or_insert_with(|| Queue::new(job.group.queue.as_str()));
    }
    queues.into_values().collect()
}
