//! A cluster of GPU nodes in racks and zones, and gangs of ten kinds in eight queues; the same every time.

use std::{collections::BTreeMap, sync::Arc};

use ronde_scheduler::{
    Amounts, Change, Group, GroupId, Node, NodeName, Phase, Plan, Pod, PodId, PodSpec, Queue, Step, Time,
};

const QUEUES: usize = 8;
const ZONES: usize = 3;
const GANG_SIZES: [usize; 4] = [4, 8, 16, 12];

/// What a small change is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    EvictedGone,
    PodEnds,
    GangArrives,
    PodRuns,
    NodeCordoned,
}

pub struct Load {
    nodes: usize,
    pods: BTreeMap<PodId, Pod>,
    groups: Vec<GroupId>,
    specs: Vec<Arc<PodSpec>>,
    /// Pods that a plan has evicted.
    evicted: Vec<PodId>,
    wanted: usize,
}

impl Load {
    pub fn new(nodes: usize, pods: usize) -> Self {
        let specs = (0..10).map(|kind| Arc::new(spec(kind))).collect();
        Self { nodes, pods: BTreeMap::new(), groups: Vec::new(), specs, evicted: Vec::new(), wanted: pods }
    }

    /// Returns the whole cluster with all pods pending.
    pub fn everything(&mut self) -> Vec<Change> {
        let mut changes: Vec<Change> = (0..QUEUES).map(|number| Change::Queue(queue(number))).collect();
        changes.extend((0..self.nodes).map(|number| Change::Node(node(number, self.wanted.div_ceil(self.nodes)))));
        while self.pods.len() < self.wanted {
            changes.extend(self.gang());
        }
        changes
    }

    /// Makes the next gang.
    fn gang(&mut self) -> Vec<Change> {
        let number = self.groups.len();
        let id = GroupId::new("bench", &format!("gang-{number:06}"));
        let size = GANG_SIZES[number % GANG_SIZES.len()];
        let mut group = Group::new(id.clone(), &format!("queue-{}", number % QUEUES), u32::try_from(size).unwrap_or(1));
        group.created = Time::from_millis(i64::try_from(number).unwrap_or(0));
        group.min_task_member.insert("worker".into(), group.min_member);
        let spec = self.specs[number % self.specs.len()].clone();
        let mut changes = vec![Change::Group(group)];
        for index in 0..size {
            let mut pod =
                Pod::new(PodId::new("bench", &format!("gang-{number:06}-{index}")), id.clone(), Amounts::default());
            pod.task = "worker".into();
            pod.index = u32::try_from(index).unwrap_or(0);
            pod.spec = spec.clone();
            self.pods.insert(pod.id.clone(), pod.clone());
            changes.push(Change::Pod(pod));
        }
        self.groups.push(id);
        changes
    }

    /// Takes note of the steps of a plan; returns how many pods it binds.
    pub fn note(&mut self, plan: &Plan) -> usize {
        let mut count = 0;
        for step in &plan.steps {
            match step {
                Step::Bind { pod, node } => {
                    count += 1;
                    if let Some(known) = self.pods.get_mut(pod) {
                        known.node = Some(NodeName::clone(node));
                    }
                }
                Step::Evict { pod, .. } => self.evicted.push(pod.clone()),
                Step::Admit(_) | Step::Nominate { .. } => {}
            }
        }
        count
    }

    /// Returns all pods that are bound, as running.
    pub fn seen(&mut self) -> Vec<Change> {
        let bound = self.pods.values_mut().filter(|pod| pod.node.is_some());
        bound
            .map(|pod| {
                pod.phase = Phase::Running;
                Change::Pod(pod.clone())
            })
            .collect()
    }

    /// Returns a small change: what was evicted is gone, a pod ends, a gang arrives, a pod runs, or a node is cordoned.
    pub fn one_change(&mut self, number: usize) -> (Kind, Vec<Change>) {
        if !self.evicted.is_empty() {
            let gone = std::mem::take(&mut self.evicted);
            gone.iter().for_each(|id| _ = self.pods.remove(id));
            return (Kind::EvictedGone, gone.into_iter().map(Change::PodGone).collect());
        }
        match number % 4 {
            0 => {
                let ended = self.pods.iter().filter(|(_, pod)| pod.node.is_some()).nth(number * 37 % 500);
                let id = ended.map(|(id, _)| id.clone());
                let gone = id.and_then(|id| self.pods.remove(&id)).map(|pod| Change::PodGone(pod.id));
                (Kind::PodEnds, gone.into_iter().collect())
            }
            1 => (Kind::GangArrives, self.gang()),
            2 => {
                let pod = self.pods.values().filter(|pod| pod.node.is_some()).nth(number * 11 % 500);
                let runs = pod.map(|pod| Change::Pod(Pod { phase: Phase::Running, ..pod.clone() }));
                (Kind::PodRuns, runs.into_iter().collect())
            }
            _ => {
                let mut cordoned = node(number * 13 % self.nodes, self.wanted.div_ceil(self.nodes));
                cordoned.unschedulable = true;
                (Kind::NodeCordoned, vec![Change::Node(cordoned)])
            }
        }
    }
}

fn queue(number: usize) -> Queue {
    let mut queue = Queue::new(&format!("queue-{number}"));
    queue.weight = u32::try_from(number % 4 + 1).unwrap_or(1);
    queue
}

/// Makes a node for about that many pods; there are a few GPUs less than are wanted, so that some gangs wait.
fn node(number: usize, pods: usize) -> Node {
    let pods = i64::try_from(pods).unwrap_or(10);
    let gpus = pods * 4 / 5 - i64::from(number.is_multiple_of(4));
    let room = [("cpu", 10_000 * pods), ("memory", (40 * pods) << 30), ("nvidia.com/gpu", gpus), ("pods", 110)];
    let mut node = Node::new(&format!("node-{number:05}"), Amounts::of(room));
    let labels = [("zone", number % ZONES), ("rack", number / 16)];
    node.labels = labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_string())).collect();
    node
}

/// Makes one of ten kinds of pods: most with a GPU, some bound to a zone.
fn spec(kind: usize) -> PodSpec {
    let small = i64::try_from(kind).unwrap_or(0);
    let mut requests = Amounts::of([("cpu", 4000 + 500 * small), ("memory", (8 + 2 * small) << 30)]);
    if kind % 5 != 4 {
        requests.set("nvidia.com/gpu", 1);
    }
    let mut spec = PodSpec { requests, ..PodSpec::default() };
    if kind >= 7 {
        spec.node_selector.insert("zone".to_owned(), (kind % ZONES).to_string());
    }
    spec
}
