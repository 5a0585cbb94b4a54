//! Hours of a busy cluster from a seed: arrivals, completions, failures, drains, lost nodes, restarts, failed binds.
//!
//! What must always hold is checked by the shadow after every cycle; at the end nothing fails any more, and everything that
//! is there must run although small groups keep arriving.

use std::{collections::BTreeSet, sync::Arc};

use ronde_scheduler::{
    Amounts, Change, Dequeue, Group, GroupId, LabelSelector, Node, Plan, Pod, PodAffinityTerm, PodId, PodSpec, Queue,
    Step, Strictness, Time, Topology, Within,
};

use crate::shadow::Shadow;

/// Dice that fall the same way for the same seed.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }

    fn pick<T: Clone>(&mut self, all: &[T]) -> Option<T> {
        if all.is_empty() { None } else { all.get(usize::try_from(self.roll(all.len() as u64)).ok()?).cloned() }
    }
}

struct World {
    shadow: Shadow,
    dice: Dice,
    groups: u64,
    ran: BTreeSet<GroupId>,
    transcript: String,
}

/// The queues that run groups.
const LEAVES: [&str; 5] = ["default", "a", "b", "c", "d"];

fn queues(seed: u64) -> Vec<Queue> {
    let mut all = vec![Queue::new("default"), Queue::new("a"), Queue::new("b")];
    all[1].weight = 2;
    all[1].capability = Amounts::of([("nvidia.com/gpu", 12)]);
    if seed % 2 == 1 {
        all[1].dequeue = Dequeue::Fifo;
    }
    all[1].min_run_ms = seed.is_multiple_of(3).then_some(30_000);
    all[2].min_run_ms = (seed % 3 == 1).then_some(90_000);
    all[2].reclaim_delay_ms = (!seed.is_multiple_of(3)).then_some(20_000);
    all[2].jobs_max = Some(3);
    all[2].deserved = Amounts::of([("nvidia.com/gpu", 6)]);
    all[2].guarantee = Amounts::of([("nvidia.com/gpu", 2)]);
    let mut above = Queue::new("p");
    above.capability = Amounts::of([("nvidia.com/gpu", 6)]);
    all.push(above);
    for name in ["c", "d"] {
        let mut below = Queue::new(name);
        below.parent = Some("p".into());
        if name == "c" && seed % 4 >= 2 {
            below.dequeue = Dequeue::Fifo;
        }
        all.push(below);
    }
    all
}

impl World {
    fn new(seed: u64) -> Self {
        let mut shadow = Shadow::new(queues(seed));
        for number in 0..5 {
            shadow.node(node(number));
        }
        Self { shadow, dice: Dice::new(seed), groups: 0, ran: BTreeSet::new(), transcript: String::new() }
    }

    fn submit(&mut self) {
        let name = format!("g{:04}", self.groups);
        self.groups += 1;
        let id = GroupId::new("ns", &name);
        let queue = LEAVES[usize::try_from(self.dice.roll(5)).expect("it is small")];
        let least = u32::try_from(1 + self.dice.roll(5)).expect("it is small");
        let surplus = u32::try_from(self.dice.roll(3)).expect("it is small");
        // All minimums fit into the limits: what can never run proves nothing.
        let most = if matches!(queue, "c" | "d") { 1 } else { 2 };
        let gpus = 1 + i64::try_from(self.dice.roll(most)).expect("it is small");
        let mut group = Group::new(id.clone(), queue, least);
        group.priority = i32::try_from(self.dice.roll(3)).expect("it is small");
        group.created = Time::from_millis(self.shadow.now);
        group.min_resources = Some(Amounts::of([("nvidia.com/gpu", gpus * i64::from(least))]));
        let mut spec =
            PodSpec { requests: Amounts::of([("nvidia.com/gpu", gpus), ("cpu", 500)]), ..PodSpec::default() };
        match self.dice.roll(6) {
            0 => group.topology = Some(Topology { strictness: Strictness::Soft, within: Within::Tier(1) }),
            1 if least <= 3 => {
                spec.anti_affinity.push(PodAffinityTerm::new("host", LabelSelector::label("app", &name)));
            }
            _ => {}
        }
        let spec = Arc::new(spec);
        let pods = (0..least + surplus).map(|index| {
            let mut pod = Pod::new(PodId::new("ns", &format!("{name}-{index}")), id.clone(), Amounts::default());
            pod.spec = spec.clone();
            pod.labels.insert("app".to_owned(), name.clone());
            pod.index = index;
            pod
        });
        let at_once = self.dice.roll(2) == 0;
        let pods = pods.collect();
        self.shadow.submit(group, pods, at_once);
    }

    fn event(&mut self) {
        match self.dice.roll(12) {
            0..=3 => self.submit(),
            4..=5 => {
                let done: Vec<GroupId> =
                    self.ran.iter().filter(|id| self.shadow.groups.contains_key(id)).cloned().collect();
                if let Some(id) = self.dice.pick(&done) {
                    self.shadow.complete(&id);
                }
            }
            6 => {
                let running: Vec<PodId> =
                    self.shadow.pods.values().filter(|pod| pod.node.is_some()).map(|pod| pod.id.clone()).collect();
                if let Some(pod) = self.dice.pick(&running) {
                    self.shadow.make_again(&pod);
                }
            }
            7 => {
                let number = self.dice.roll(5);
                let mut drained = node(number);
                drained.unschedulable = self.dice.roll(2) == 0;
                self.shadow.node(drained);
            }
            8 if self.shadow.nodes.len() > 3 => {
                let names: Vec<_> = self.shadow.nodes.keys().cloned().collect();
                let name = self.dice.pick(&names).expect("there are more than three");
                self.shadow.lose_node(&name);
            }
            9 => {
                let number = self.dice.roll(5);
                self.shadow.node(node(number));
            }
            10 => self.shadow.cluster = self.shadow.rebuilt(),
            _ => self.shadow.now += 60_000,
        }
    }

    fn cycle(&mut self, fail_percent: u64) -> Plan {
        self.shadow.now += 1000;
        let dice = &mut self.dice;
        let plan = self.shadow.cycle(|| dice.roll(100) < fail_percent);
        self.ran.extend(self.shadow.groups.values().filter(|group| group.started).map(|group| group.id.clone()));
        self.transcript.push_str(&plan.to_string());
        plan
    }

    /// Runs everything that is there to its end, though small groups arrive all the time; nothing fails.
    fn run_out(&mut self) {
        (0..5).for_each(|number| self.shadow.node(node(number)));
        let last = format!("g{:04}", self.groups);
        let is_old = |id: &GroupId| id.name() < &*last;
        for _ in 0..2000 {
            LEAVES.into_iter().for_each(|queue| self.arrive(queue));
            self.shadow.let_leave();
            self.cycle(0);
            self.shadow.now += 10_000;
            let whole = |group: &&Group| {
                let pods = self.shadow.pods.values().filter(|pod| pod.group == group.id && !pod.leaving);
                group.started && pods.filter(|pod| pod.node.is_some()).count() >= group.min_member as usize
            };
            if let Some(id) = self.shadow.groups.values().find(whole).map(|group| group.id.clone()) {
                self.shadow.complete(&id);
            }
            if !self.shadow.groups.keys().any(is_old) {
                return;
            }
        }
        let waiting = self.shadow.cluster.waiting();
        let left: Vec<String> = waiting.iter().filter(|it| is_old(&it.group)).map(ToString::to_string).collect();
        panic!("groups never ran: {left:#?}");
    }

    /// Lets a small group come, the least important of all, if none waits in its queue.
    fn arrive(&mut self, queue: &str) {
        let waits = |group: &Group| group.queue.as_str() == queue && group.priority == 0 && !group.started;
        if self.shadow.groups.values().any(|group| waits(group) && group.min_member == 1) {
            return;
        }
        let name = format!("g{:04}", self.groups);
        self.groups += 1;
        let mut group = Group::new(GroupId::new("ns", &name), queue, 1);
        group.created = Time::from_millis(self.shadow.now);
        group.min_resources = Some(Amounts::of([("nvidia.com/gpu", 1)]));
        let requests = Amounts::of([("nvidia.com/gpu", 1), ("cpu", 500)]);
        let pod = Pod::new(PodId::new("ns", &format!("{name}-0")), group.id.clone(), requests);
        self.shadow.submit(group, vec![pod], false);
    }
}

fn node(number: u64) -> Node {
    let mut node =
        Node::new(&format!("n{number}"), Amounts::of([("nvidia.com/gpu", 4), ("cpu", 16_000), ("pods", 20)]));
    node.labels.insert("host".to_owned(), format!("n{number}"));
    node.labels.insert("rack".to_owned(), (number / 2).to_string());
    node
}

fn simulate(seed: u64, events: usize) -> String {
    let mut world = World::new(seed);
    for _ in 0..events {
        world.event();
        if world.dice.roll(3) == 0 {
            world.shadow.let_leave();
        }
        world.cycle(5);
    }
    world.run_out();
    world.transcript
}

#[test]
fn busy_clusters_keep_their_promises() {
    for seed in 1000..1008 {
        simulate(seed, 150);
    }
}

#[test]
fn the_same_seed_gives_the_same_plans() {
    assert_eq!(simulate(7, 100), simulate(7, 100));
}

#[test]
fn a_restart_changes_no_decision() {
    for seed in 2000..2006 {
        let mut world = World::new(seed);
        for _ in 0..80 {
            world.event();
            if world.dice.roll(3) == 0 {
                world.shadow.let_leave();
            }
            world.shadow.now += 1000;
            let now = Time::from_millis(world.shadow.now);
            let anew = world.shadow.rebuilt().cycle(now);
            let plan = world.cycle_now();
            assert_eq!(lines(&anew), lines(&plan), "seed {seed} at {now:?}");
        }
    }
}

impl World {
    fn cycle_now(&mut self) -> Plan {
        self.shadow.now -= 1000;
        self.cycle(0)
    }
}

fn lines(plan: &Plan) -> Vec<String> {
    plan.steps.iter().map(Step::to_string).collect()
}

#[test]
fn changes_may_be_told_twice() {
    let mut world = World::new(3);
    for _ in 0..40 {
        world.event();
        let again: Vec<Change> = world.shadow.pods.values().cloned().map(Change::Pod).collect();
        again.into_iter().for_each(|change| world.shadow.cluster.apply(change));
        world.cycle(0);
    }
    world.run_out();
}
