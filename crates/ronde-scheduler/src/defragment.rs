//! What would happen if queues were defragmented: tried on a copy of the cluster, cycle by cycle, with pods that leave at
//! once and are made again at once.

use std::{collections::BTreeMap, fmt};

use crate::{
    change::Change,
    cluster::Cluster,
    model::{
        ids::{GroupId, NodeName, PodId, QueueName, Time},
        pod::{Phase, Pod},
    },
    plan::{Eviction, Plan, Step},
};

/// How many cycles are tried: one for each gang that starts and one for what it moved, so this many gangs and as many again.
const CYCLES_MAX: usize = 256;

/// A group that would start, and what would move for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relief {
    pub group: GroupId,
    pub moves: Vec<Move>,
}

/// A pod that would be made again on another node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    pub pod: PodId,
    pub from: NodeName,
    pub to: NodeName,
}

impl fmt::Display for Relief {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.moves.iter().try_for_each(|Move { pod, from, to }| writeln!(f, "move {pod} from {from} to {to}"))?;
        writeln!(f, "start {}", self.group)
    }
}

impl Cluster {
    /// Returns the groups of a queue, or of all, that would start if pods of elastic groups moved, in the order in which they
    /// would, without those that start anyway.
    #[must_use]
    pub fn defragment(&self, queue: Option<&QueueName>, now: Time) -> Vec<Relief> {
        let mut trial = Trial { cluster: self.clone(), moved: BTreeMap::new(), found: Vec::new() };
        // What is under way comes first.
        trial.run(now);
        trial.found.clear();
        trial.moved.clear();
        let asked = self.queues.values().filter(|known| queue.is_none_or(|queue| known.name == *queue));
        for mut known in asked.cloned().collect::<Vec<_>>() {
            known.defragments_until = Some(now.plus_millis(1));
            trial.cluster.apply(Change::Queue(known));
        }
        trial.run(now);
        trial.reliefs()
    }
}

struct Trial {
    cluster: Cluster,
    /// Pods that were moved: for whom, from where, and to where if that is known.
    moved: BTreeMap<PodId, (GroupId, NodeName, Option<NodeName>)>,
    /// Groups that have started, in their order.
    found: Vec<GroupId>,
}

impl Trial {
    /// Lets cycles follow each other until nothing happens any more.
    fn run(&mut self, now: Time) {
        for _ in 0..CYCLES_MAX {
            let left = self.let_leave(now);
            let plan = self.cluster.cycle(now);
            self.note(&plan);
            if plan.steps.is_empty() && !left {
                return;
            }
        }
    }

    fn note(&mut self, plan: &Plan) {
        self.found.extend(plan.ready.iter().cloned());
        for step in &plan.steps {
            match step {
                Step::Evict { pod, why: Eviction::Moved { by } } => {
                    let slot = self.cluster.pods.find(pod).and_then(|slot| self.cluster.pods.get(slot).node);
                    if let Some(node) = slot {
                        let from = self.cluster.nodes.name(node).clone();
                        self.moved.insert(pod.clone(), (by.clone(), from, None));
                    }
                }
                Step::Bind { pod, node } => {
                    if let Some((_, _, to)) = self.moved.get_mut(pod) {
                        *to = Some(node.clone());
                    }
                }
                _ => {}
            }
        }
    }

    /// Takes away the pods that are leaving, and makes those again that were moved; returns whether there were any.
    fn let_leave(&mut self, now: Time) -> bool {
        let leaving = self.cluster.pods.slots().filter(|(_, state)| state.is_leaving() && state.takes_room());
        let leaving: Vec<Pod> = leaving.map(|(_, state)| state.pod.clone()).collect();
        for pod in &leaving {
            self.cluster.apply(Change::PodGone(pod.id.clone()));
            if self.moved.contains_key(&pod.id) {
                let (phase, created) = (Phase::Pending, now);
                let again = Pod {
                    node: None,
                    nominated: None,
                    bound_since: None,
                    leaving: false,
                    phase,
                    created,
                    ..pod.clone()
                };
                self.cluster.apply(Change::Pod(again));
            }
        }
        !leaving.is_empty()
    }

    /// Returns those who started because of moves, if all that moved for them had somewhere to go.
    fn reliefs(self) -> Vec<Relief> {
        let relief = |group: GroupId| {
            let own = self.moved.iter().filter(|(_, (by, _, _))| *by == group);
            let moves =
                own.map(|(pod, (_, from, to))| Some(Move { pod: pod.clone(), from: from.clone(), to: to.clone()? }));
            let moves: Vec<Move> = moves.collect::<Option<_>>()?;
            (!moves.is_empty()).then_some(Relief { group, moves })
        };
        self.found.iter().cloned().filter_map(relief).collect()
    }
}
