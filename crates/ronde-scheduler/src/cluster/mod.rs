//! The state of the cluster as the scheduler knows it, and its doors: [`Cluster::apply`] and [`Cluster::cycle`].
//!
//! Everything is kept up with every change, so that a cycle starts from sums and not from objects: [`changes`] takes note of
//! what is new, [`sums`] is where pods take and give up room.

mod changes;
pub mod classes;
pub mod groups;
pub mod neighbours;
pub mod nodes;
pub mod pods;
pub mod sums;
pub mod table;
pub mod view;

use std::{collections::BTreeMap, sync::Arc};

use self::{
    classes::Classes,
    groups::Groups,
    neighbours::Neighbours,
    nodes::{Mode, Nodes},
    pods::Pods,
    sums::Demand,
    table::Resources,
    view::{Domain, View},
};
use crate::{
    change::Change,
    cycle::{self, census::Census, ledger::Ledger},
    model::{
        budget::Budget,
        ids::{HyperNodeName, QueueName, Time},
        node::HyperNode,
        queue::{Queue, QueueUsage},
    },
    plan::{Plan, Waiting},
    policy::Policy,
};

/// Everything the scheduler knows.
#[derive(Debug, Clone)]
pub struct Cluster {
    pub(crate) policy: Policy,
    pub(crate) resources: Resources,
    pub(crate) nodes: Nodes,
    pub(crate) pods: Pods,
    pub(crate) groups: Groups,
    pub(crate) classes: Classes,
    pub(crate) neighbours: Neighbours,
    pub(crate) queues: BTreeMap<QueueName, Queue>,
    /// By the name of the queue, also of queues that do not exist.
    pub(crate) demand: BTreeMap<QueueName, Demand>,
    /// By namespace and name.
    pub(crate) budgets: BTreeMap<String, BTreeMap<String, Budget>>,
    pub(crate) hypernodes: BTreeMap<HyperNodeName, HyperNode>,
    pub(crate) tier_labels: Vec<String>,
    /// Parts of the network by tier and name, with the shape of the nodes that they were made for.
    pub(crate) domains: Option<(u64, Arc<Vec<Arc<Domain>>>)>,
    /// By class and kind of room; they follow the log of nodes.
    pub(crate) views: BTreeMap<(usize, Mode), View>,
    /// How many pods fit beside what is held for others, by class, room and priority, with the position of the log.
    pub(crate) open_capacities: BTreeMap<(usize, Mode, i32), (u64, u64)>,
    /// What nodes last said to each class, with the position of the log of nodes.
    pub(crate) censuses: BTreeMap<usize, (u64, Arc<Census>)>,
    pub(crate) census_serial: u64,
    /// Counts cycles, to know which views were used lately.
    pub(crate) cycles: u64,
}

impl Cluster {
    /// Makes a cluster of which nothing is known yet.
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            resources: Resources::new(),
            nodes: Nodes::default(),
            pods: Pods::default(),
            groups: Groups::default(),
            classes: Classes::default(),
            neighbours: Neighbours::default(),
            queues: BTreeMap::new(),
            demand: BTreeMap::new(),
            budgets: BTreeMap::new(),
            hypernodes: BTreeMap::new(),
            tier_labels: Vec::new(),
            domains: None,
            views: BTreeMap::new(),
            open_capacities: BTreeMap::new(),
            censuses: BTreeMap::new(),
            census_serial: 0,
            cycles: 0,
        }
    }

    /// Takes note of a change. Cheap: nothing is decided here.
    pub fn apply(&mut self, change: Change) {
        match change {
            Change::Node(node) => self.nodes.set(node, &mut self.resources),
            Change::NodeGone(name) => self.nodes.remove(&name),
            Change::Pod(pod) => self.set_pod(pod),
            Change::PodGone(id) => self.remove_pod(&id),
            Change::Group(group) => self.set_group(group),
            Change::GroupGone(id) => self.remove_group(&id),
            Change::Queue(queue) => _ = self.queues.insert(queue.name.clone(), queue),
            Change::QueueGone(name) => _ = self.queues.remove(&name),
            Change::HyperNode(hypernode) => {
                self.hypernodes.insert(hypernode.name.clone(), hypernode);
                self.domains = None;
            }
            Change::HyperNodeGone(name) => {
                self.hypernodes.remove(&name);
                self.domains = None;
            }
            Change::TierLabels(labels) => {
                self.tier_labels = labels;
                self.domains = None;
            }
            Change::Namespace(name, labels) => {
                self.neighbours.namespaces.insert(name, labels);
                self.neighbours.forget_queries();
            }
            Change::NamespaceGone(name) => {
                self.neighbours.namespaces.remove(&name);
                self.neighbours.forget_queries();
            }
            Change::Budget(budget) => {
                let of_namespace = self.budgets.entry(budget.namespace.clone()).or_default();
                of_namespace.insert(budget.name.clone(), budget);
            }
            Change::BudgetGone(namespace, name) => {
                if let Some(of_namespace) = self.budgets.get_mut(&namespace) {
                    of_namespace.remove(&name);
                }
            }
            Change::Failed(step) => self.take_back(&step),
        }
    }

    /// Decides what to do now, and takes the plan as done: [`Change::Failed`] takes a step back, [`Cluster::undo`] all.
    pub fn cycle(&mut self, now: Time) -> Plan {
        cycle::run(self, now)
    }

    /// Takes back a whole plan, as if each of its steps had failed.
    pub fn undo(&mut self, plan: &Plan) {
        plan.steps.iter().rev().for_each(|step| self.apply(Change::Failed(step.clone())));
    }

    /// Returns what each queue uses and deserves, in the order of their names.
    pub fn queues(&self) -> Vec<(QueueName, QueueUsage)> {
        Ledger::new(self).usage(self)
    }

    /// Returns all groups that wait, with the reasons last found, in the order of their names.
    pub fn waiting(&self) -> Vec<Waiting> {
        let told = self.groups.iter().filter_map(|(_, state)| Some((&state.id, state.told.as_ref()?)));
        told.map(|(group, (reason, message))| Waiting {
            group: group.clone(),
            reason: *reason,
            message: message.clone(),
        })
        .collect()
    }

    /// Returns what is wrong with the objects themselves, one sentence each: a queue whose parent does not exist.
    pub fn warnings(&self) -> Vec<String> {
        Ledger::new(self).warnings
    }
}
