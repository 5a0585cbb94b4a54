//! An API server in miniature: keeps the objects, carries out plans, and knows what must always hold.
//!
//! Groups that are admitted get their pods; evicted pods leave and are made again. From its objects a scheduler can be built
//! anew at any time, as after a restart.

use std::collections::{BTreeMap, BTreeSet};

use ronde_scheduler::{
    Amounts, Change, Cluster, Eviction, Group, GroupId, Node, NodeName, Phase, Plan, Pod, PodId, Policy, Queue,
    QueueName, Reason, Step, Time,
};

pub struct Shadow {
    pub cluster: Cluster,
    pub nodes: BTreeMap<NodeName, Node>,
    pub pods: BTreeMap<PodId, Pod>,
    pub groups: BTreeMap<GroupId, Group>,
    queues: BTreeMap<QueueName, Queue>,
    /// Pods that are created when their group is admitted.
    templates: BTreeMap<GroupId, Vec<Pod>>,
    pub now: i64,
}

impl Shadow {
    pub fn new(queues: Vec<Queue>) -> Self {
        let mut shadow = Self {
            cluster: Cluster::new(Policy::default()),
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
            groups: BTreeMap::new(),
            queues: BTreeMap::new(),
            templates: BTreeMap::new(),
            now: 0,
        };
        shadow.cluster.apply(tiers());
        for queue in queues {
            shadow.queues.insert(queue.name.clone(), queue.clone());
            shadow.cluster.apply(Change::Queue(queue));
        }
        shadow
    }

    /// Returns a scheduler that knows the same objects and nothing else.
    pub fn rebuilt(&self) -> Cluster {
        let mut cluster = Cluster::new(Policy::default());
        cluster.apply(tiers());
        // Not in the order in which things are made, which must not matter.
        self.pods.values().for_each(|pod| cluster.apply(Change::Pod(pod.clone())));
        self.groups.values().rev().for_each(|group| cluster.apply(Change::Group(group.clone())));
        self.nodes.values().rev().for_each(|node| cluster.apply(Change::Node(node.clone())));
        self.queues.values().for_each(|queue| cluster.apply(Change::Queue(queue.clone())));
        cluster
    }

    pub fn node(&mut self, node: Node) {
        self.nodes.insert(node.name.clone(), node.clone());
        self.cluster.apply(Change::Node(node));
    }

    /// Takes a node away with the pods on it; they are made again.
    pub fn lose_node(&mut self, name: &NodeName) {
        self.nodes.remove(name);
        self.cluster.apply(Change::NodeGone(name.clone()));
        let lost: Vec<PodId> =
            self.pods.values().filter(|pod| pod.node.as_ref() == Some(name)).map(|pod| pod.id.clone()).collect();
        lost.iter().for_each(|pod| self.make_again(pod));
    }

    /// Makes a group; its pods come when it is admitted, or at once.
    pub fn submit(&mut self, group: Group, pods: Vec<Pod>, at_once: bool) {
        let id = group.id.clone();
        self.set_group(group);
        if at_once {
            pods.iter().for_each(|pod| self.set_pod(pod.clone()));
        }
        self.templates.insert(id, pods);
    }

    pub fn set_group(&mut self, group: Group) {
        self.groups.insert(group.id.clone(), group.clone());
        self.cluster.apply(Change::Group(group));
    }

    pub fn set_pod(&mut self, pod: Pod) {
        self.pods.insert(pod.id.clone(), pod.clone());
        self.cluster.apply(Change::Pod(pod));
    }

    /// Ends a group and takes it away.
    pub fn complete(&mut self, id: &GroupId) {
        for pod in self.pods_of(id) {
            self.pods.remove(&pod);
            self.cluster.apply(Change::PodGone(pod));
        }
        self.groups.remove(id);
        self.templates.remove(id);
        self.cluster.apply(Change::GroupGone(id.clone()));
    }

    pub fn pods_of(&self, id: &GroupId) -> Vec<PodId> {
        self.pods.values().filter(|pod| pod.group == *id).map(|pod| pod.id.clone()).collect()
    }

    /// Replaces a pod by a new one that is pending.
    pub fn make_again(&mut self, id: &PodId) {
        let Some(old) = self.pods.remove(id) else { return };
        self.cluster.apply(Change::PodGone(id.clone()));
        let created = Time::from_millis(self.now);
        let pod = Pod {
            node: None,
            nominated: None,
            leaving: false,
            phase: Phase::Pending,
            created,
            bound_since: None,
            ..old
        };
        self.set_pod(pod);
    }

    /// Lets all pods that are leaving go, and makes them again.
    pub fn let_leave(&mut self) {
        let leaving: Vec<PodId> = self.pods.values().filter(|pod| pod.leaving).map(|pod| pod.id.clone()).collect();
        leaving.iter().for_each(|pod| self.make_again(pod));
    }

    /// Runs a cycle and carries it out, except for binds that fail; checks what must hold.
    pub fn cycle(&mut self, mut fails: impl FnMut() -> bool) -> Plan {
        let plan = self.cluster.cycle(Time::from_millis(self.now));
        let mut has_failed = false;
        for step in &plan.steps {
            let is_bind = matches!(step, Step::Bind { .. });
            if is_bind && fails() {
                has_failed = true;
                self.cluster.apply(Change::Failed(step.clone()));
            } else {
                self.carry_out(step);
            }
        }
        for waiting in &plan.waiting {
            let group = self.groups.get_mut(&waiting.group).expect("only groups that exist wait");
            group.waiting_since.get_or_insert(Time::from_millis(self.now));
            group.whole_since = None;
            let group = group.clone();
            self.set_group(group);
        }
        self.mark_started();
        self.check_rooms();
        if !has_failed {
            self.check_gangs(&plan);
        }
        plan
    }

    fn carry_out(&mut self, step: &Step) {
        match step {
            Step::Admit(id) => {
                let mut group = self.groups[id].clone();
                group.admitted = Some(Time::from_millis(self.now));
                self.set_group(group);
                if self.pods_of(id).is_empty() {
                    for pod in self.templates.get(id).cloned().unwrap_or_default() {
                        self.set_pod(pod);
                    }
                }
            }
            Step::Bind { pod, node } => {
                let mut pod = self.pods[pod].clone();
                assert!(pod.node.is_none(), "{} is bound twice", pod.id);
                assert!(self.nodes.contains_key(node), "{node} does not exist");
                pod.node = Some(node.clone());
                pod.phase = Phase::Running;
                pod.bound_since = Some(Time::from_millis(self.now));
                pod.nominated = None;
                self.set_pod(pod);
            }
            Step::Evict { pod, why } => {
                if *why != Eviction::Incomplete {
                    self.check_time(&self.pods[pod]);
                }
                let mut pod = self.pods[pod].clone();
                assert!(pod.node.is_some(), "{} is evicted from nowhere", pod.id);
                pod.leaving = true;
                self.set_pod(pod);
            }
            Step::Nominate { pod, node } => {
                let mut pod = self.pods[pod].clone();
                pod.nominated.clone_from(node);
                self.set_pod(pod);
            }
        }
    }

    fn placed(&self, id: &GroupId) -> usize {
        let of_group = self.pods.values().filter(|pod| pod.group == *id);
        of_group.filter(|pod| pod.node.is_some() && !pod.leaving).count()
    }

    fn mark_started(&mut self) {
        let whole: Vec<Group> =
            self.groups.values().filter(|group| self.placed(&group.id) >= group.min_member as usize).cloned().collect();
        let is_news = |group: &Group| group.waiting_since.is_some() || group.whole_since.is_none();
        for group in whole.into_iter().filter(|group| !group.started || is_news(group)) {
            let whole_since = group.whole_since.or(Some(Time::from_millis(self.now)));
            self.set_group(Group { started: true, waiting_since: None, whole_since, ..group });
        }
    }

    /// A pod that others push out has run for as long as its queue says, by itself or with its gang.
    fn check_time(&self, pod: &Pod) {
        let group = &self.groups[&pod.group];
        let least = self.queues[&group.queue].min_run_ms.unwrap_or(0);
        let is_over = |since: Option<Time>| since.is_some_and(|since| since.plus_millis(least).as_millis() <= self.now);
        let is_in_part = group.whole_since.is_none();
        assert!(
            least == 0 || is_in_part || is_over(pod.bound_since) || is_over(group.whole_since),
            "{} goes too early",
            pod.id
        );
    }

    /// No node and no queue has more than it may.
    fn check_rooms(&self) {
        let mut by_node: BTreeMap<&NodeName, Amounts> = BTreeMap::new();
        let mut by_queue: BTreeMap<&QueueName, Amounts> = BTreeMap::new();
        let mut jobs: BTreeMap<&QueueName, BTreeSet<&GroupId>> = BTreeMap::new();
        for pod in self.pods.values() {
            let Some(node) = &pod.node else { continue };
            add(by_node.entry(node).or_default(), &pod.spec.requests);
            let mut queue = self.groups.get(&pod.group).map(|group| &group.queue);
            while let Some(name) = queue {
                add(by_queue.entry(name).or_default(), &pod.spec.requests);
                jobs.entry(name).or_default().insert(&pod.group);
                queue = self.queues.get(name).and_then(|queue| queue.parent.as_ref());
            }
        }
        for (node, used) in by_node {
            let Some(known) = self.nodes.get(node) else { continue };
            for (name, amount) in used.iter() {
                let most = known.allocatable.get(name).unwrap_or(0);
                assert!(amount <= most, "{node} has {amount} of {most} {name} in use");
            }
        }
        for (queue, used) in by_queue {
            for (name, limit) in self.queues[queue].capability.iter() {
                assert!(used.get(name).unwrap_or(0) <= limit, "{queue} uses {used}");
            }
        }
        for (queue, jobs) in jobs {
            let limit = self.queues[queue].jobs_max.unwrap_or(u32::MAX);
            assert!(jobs.len() <= limit as usize, "{queue} runs {jobs:?}");
        }
    }

    /// Every gang that the plan touched is whole, and none that never ran is there in part, except for those whose rest
    /// only waits for evicted pods to leave.
    fn check_gangs(&self, plan: &Plan) {
        let bound: BTreeSet<&GroupId> = plan
            .steps
            .iter()
            .filter_map(|step| if let Step::Bind { pod, .. } = step { Some(&self.pods[pod].group) } else { None })
            .collect();
        for id in bound {
            let least = self.groups[id].min_member as usize;
            assert!(self.placed(id) >= least, "{id} has {} of {least}", self.placed(id));
        }
        let waiting = self.cluster.waiting();
        let coming = waiting.iter().filter(|waiting| waiting.reason == Reason::WaitingForRoom);
        let coming: BTreeSet<&GroupId> = coming.map(|waiting| &waiting.group).collect();
        for group in self.groups.values().filter(|group| !group.started && !coming.contains(&group.id)) {
            let placed = self.placed(&group.id);
            assert!(
                placed == 0 || placed >= group.min_member as usize,
                "{} has {placed} of {}",
                group.id,
                group.min_member
            );
        }
    }
}

fn tiers() -> Change {
    Change::TierLabels(vec!["rack".to_owned()])
}

fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, amount) in more.iter() {
        sum.set(name, sum.get(name).unwrap_or(0) + amount);
    }
}
