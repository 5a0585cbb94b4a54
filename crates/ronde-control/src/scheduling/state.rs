//! What the scheduler's loop knows between two turns: the scheduler itself, who is in which group, who waits.
//!
//! All of it comes from the caches and from plans that are being carried out; a loop that starts anew finds the same.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod},
    policy::v1::PodDisruptionBudget,
    scheduling::v1::PriorityClass,
    storage::v1::StorageClass,
};
use kube::ResourceExt as _;
use ronde_api::{Affinity, HyperNode, PodGroup, Queue};
use ronde_runtime::{
    podstatus::node_of,
    watch::{Caches, Key},
};
use ronde_scheduler::{
    Budget, Change, Cluster, GroupId, HyperNodeName, Plan, Policy, QueueName, Reason, Step, Waiting,
};

use super::{
    dirty::Mark,
    objects::{
        count,
        groups::{self, GroupContext, class_of},
        node_groups, nodes, pods,
        selectors::label_selector,
        volumes::{Claimed, chooses, claim_names, volumes},
    },
};
use crate::membership::{Membership, Schedulers, membership};

/// How long pods and groups that belong to others may take to be made, and to be heard of.
pub const PATIENCE: SignedDuration = SignedDuration::from_secs(5);

/// How many queues are above each other at most that groups of nodes are looked up in.
const DEPTH_MAX: usize = 8;

/// A pod that the scheduler has been told of.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Member {
    uid: String,
    group: GroupId,
    is_alone: bool,
}

/// Why a group waits.
#[derive(Debug, Clone)]
struct Wait {
    why: Waiting,
    /// Since when it lacks pods of its own, if that is why.
    lacking_since: Option<Timestamp>,
}

/// What the loop knows.
pub struct State {
    pub cluster: Cluster,
    schedulers: Schedulers,
    members: BTreeMap<Key, Member>,
    pods_of: BTreeMap<GroupId, BTreeSet<Key>>,
    /// Pods with claims that may take any of several volumes.
    choosing: BTreeSet<Key>,
    /// Parent and groups of nodes of each queue, as the pods were told.
    node_groups: BTreeMap<String, (String, Option<Affinity>)>,
    /// The queue of each group, as its pods were told.
    queue_of: BTreeMap<GroupId, String>,
    /// The uid of each group that the scheduler was told of.
    uid_of: BTreeMap<GroupId, String>,
    parts: BTreeSet<HyperNodeName>,
    /// Pods that have been bound while the watch does not show it yet.
    pub binding: BTreeSet<Key>,
    /// Why groups wait, as last told.
    waits: BTreeMap<GroupId, Wait>,
    /// How many of them wait for each reason.
    waiting_by_reason: BTreeMap<Reason, usize>,
    /// Groups whose surplus only the limits of their queues hold back.
    limited: BTreeSet<GroupId>,
    /// Groups whose status, or that of whose pods, may have to be written.
    pub stale: BTreeSet<GroupId>,
    /// When something was last written about a group or its pods.
    pub worded: BTreeMap<GroupId, Timestamp>,
    /// Groups whose status is to be looked at again then.
    pub later: BTreeMap<GroupId, Timestamp>,
    /// When to look what queues use, and when that was last done.
    pub queues_due: Option<Timestamp>,
    pub queues_told: Option<Timestamp>,
    /// The last queue that was written, if there was no time for all of them.
    pub queue_told: Option<QueueName>,
    /// How many turns in a row had something fail.
    pub failures: u32,
}

impl State {
    pub fn new(policy: Policy, schedulers: Schedulers, tier_labels: Vec<String>) -> Self {
        let mut cluster = Cluster::new(policy);
        cluster.apply(Change::Queue(groups::no_queue()));
        cluster.apply(Change::TierLabels(tier_labels));
        Self {
            cluster,
            schedulers,
            members: BTreeMap::new(),
            pods_of: BTreeMap::new(),
            choosing: BTreeSet::new(),
            node_groups: BTreeMap::new(),
            queue_of: BTreeMap::new(),
            uid_of: BTreeMap::new(),
            parts: BTreeSet::new(),
            binding: BTreeSet::new(),
            waits: BTreeMap::new(),
            waiting_by_reason: Reason::ALL.map(|reason| (reason, 0)).into(),
            limited: BTreeSet::new(),
            stale: BTreeSet::new(),
            worded: BTreeMap::new(),
            later: BTreeMap::new(),
            queues_due: None,
            queues_told: None,
            queue_told: None,
            failures: 0,
        }
    }

    /// Tells the scheduler what has changed.
    pub fn observe(&mut self, caches: &Caches, marks: BTreeSet<Mark>) {
        for mark in marks {
            match mark {
                Mark::Namespace(key) => self.tell_namespace(caches, &key),
                Mark::Node(key) => self.tell_node(caches, &key),
                Mark::HyperNodes => self.tell_parts(caches),
                Mark::Queue(key) => self.tell_queue(caches, &key),
                Mark::Group(key) => self.tell_group(caches, &key),
                Mark::Budget(key) => self.tell_budget(caches, &key),
                Mark::Pod(key) => self.tell_pod(caches, &key),
                Mark::Choosing => self.choosing.clone().iter().for_each(|key| self.tell_pod(caches, key)),
            }
        }
    }

    /// Takes note of what a plan says about groups, before it is carried out.
    pub fn note(&mut self, plan: &Plan, now: Timestamp) {
        let admitted =
            plan.steps.iter().filter_map(|step| if let Step::Admit(group) = step { Some(group) } else { None });
        for group in plan.ready.iter().chain(admitted) {
            self.set_wait(group, None);
            self.stale.insert(group.clone());
        }
        for waiting in &plan.waiting {
            let before = self.waits.get(&waiting.group).and_then(|wait| wait.lacking_since);
            let lacking_since = lacks_pods(waiting).then(|| before.unwrap_or(now));
            self.set_wait(&waiting.group, Some(Wait { why: waiting.clone(), lacking_since }));
            self.stale.insert(waiting.group.clone());
        }
        let limited: BTreeSet<GroupId> = plan.limited.iter().cloned().collect();
        self.stale.extend(self.limited.symmetric_difference(&limited).cloned());
        self.limited = limited;
    }

    /// Returns why a group waits, if that is to be told now: pods that are being made are not missed at once.
    pub fn wait(&self, group: &GroupId, now: Timestamp) -> Option<&Waiting> {
        let wait = self.waits.get(group)?;
        wait.lacking_since.is_none_or(|since| since + PATIENCE <= now).then_some(&wait.why)
    }

    /// Tells whether only limits of its queues hold back what a group has above its minimum.
    pub fn is_limited(&self, group: &GroupId) -> bool {
        self.limited.contains(group)
    }

    /// Returns how many groups wait for each reason.
    pub fn waiting_by_reason(&self) -> impl Iterator<Item = (Reason, usize)> {
        self.waiting_by_reason.iter().map(|(reason, groups)| (*reason, *groups))
    }

    /// Remembers why a group waits; with nothing, that it does not.
    fn set_wait(&mut self, group: &GroupId, wait: Option<Wait>) {
        let reason = wait.as_ref().map(|wait| wait.why.reason);
        let before = match wait {
            Some(wait) => self.waits.insert(group.clone(), wait),
            None => self.waits.remove(group),
        };
        if let Some(before) = before {
            *self.waiting_by_reason.entry(before.why.reason).or_default() -= 1;
        }
        if let Some(reason) = reason {
            *self.waiting_by_reason.entry(reason).or_default() += 1;
        }
    }

    /// Returns when to tell why a group waits, if it is not to be told now.
    pub fn wait_later(&self, group: &GroupId, now: Timestamp) -> Option<Timestamp> {
        let since = self.waits.get(group)?.lacking_since?;
        Some(since + PATIENCE).filter(|at| *at > now)
    }

    /// Takes up what was to be looked at again now.
    pub fn wake(&mut self, now: Timestamp) {
        let due = self.later.iter().filter(|(_, at)| **at <= now).map(|(id, _)| id.clone());
        for id in due.collect::<Vec<_>>() {
            self.later.remove(&id);
            self.stale.insert(id);
        }
    }

    /// Returns the pods of a group that the caches show.
    pub fn pods(&self, caches: &Caches, group: &GroupId) -> Vec<Arc<Pod>> {
        let keys = self.pods_of.get(group).into_iter().flatten();
        keys.filter_map(|key| caches.get::<Pod>(key)).collect()
    }

    /// Returns a pod if it still is the one that the scheduler was told of.
    pub fn pod(&self, caches: &Caches, key: &Key) -> Option<Arc<Pod>> {
        let known = self.members.get(key)?;
        caches.get::<Pod>(key).filter(|pod| pod.uid().as_ref() == Some(&known.uid))
    }

    /// Tells whether a pod waits for a node from this scheduler.
    pub fn is_pending(&self, pod: &Pod) -> bool {
        let is_ours = matches!(membership(pod, &self.schedulers), Membership::Of(_) | Membership::Alone);
        let gates = pod.spec.as_ref().and_then(|spec| spec.scheduling_gates.as_ref());
        is_ours
            && node_of(pod).is_empty()
            && gates.is_none_or(Vec::is_empty)
            && ronde_runtime::pods::is_active(pod)
            && !self.binding.contains(&Key::of(pod))
    }

    fn tell_namespace(&mut self, caches: &Caches, key: &Key) {
        self.cluster.apply(match caches.get::<Namespace>(key) {
            Some(namespace) => Change::Namespace(key.name.clone(), namespace.labels().clone()),
            None => Change::NamespaceGone(key.name.clone()),
        });
    }

    fn tell_node(&mut self, caches: &Caches, key: &Key) {
        self.cluster.apply(match caches.get::<Node>(key) {
            Some(node) => Change::Node(nodes::node(&node)),
            None => Change::NodeGone(key.name.as_str().into()),
        });
    }

    fn tell_parts(&mut self, caches: &Caches) {
        let parts = caches.list::<HyperNode>(None);
        let nodes = if parts.is_empty() { Vec::new() } else { caches.list::<Node>(None) };
        let told: Vec<_> = parts.iter().map(|part| nodes::hyper_node(part, &nodes, &parts)).collect();
        let names: BTreeSet<HyperNodeName> = told.iter().map(|part| part.name.clone()).collect();
        for gone in self.parts.difference(&names) {
            self.cluster.apply(Change::HyperNodeGone(gone.clone()));
        }
        self.parts = names;
        told.into_iter().for_each(|part| self.cluster.apply(Change::HyperNode(part)));
    }

    fn tell_queue(&mut self, caches: &Caches, key: &Key) {
        let queue = caches.get::<Queue>(key);
        self.cluster.apply(match &queue {
            Some(queue) => Change::Queue(groups::queue(queue)),
            None => Change::QueueGone(key.name.as_str().into()),
        });
        let place = queue.map(|queue| (queue.spec.parent.clone(), queue.spec.affinity.clone()));
        let before = match place.clone() {
            Some(place) => self.node_groups.insert(key.name.clone(), place),
            None => self.node_groups.remove(&key.name),
        };
        let matters = |place: &Option<(String, Option<Affinity>)>| {
            place.as_ref().is_some_and(|(_, own)| own.is_some()) || self.has_node_groups()
        };
        if before != place && (matters(&before) || matters(&place)) {
            self.members.keys().cloned().collect::<Vec<_>>().iter().for_each(|key| self.tell_pod(caches, key));
        }
    }

    fn has_node_groups(&self) -> bool {
        self.node_groups.values().any(|(_, own)| own.is_some())
    }

    /// Returns the groups of nodes that pods of a group go to: those of its queue, or of the next one above that has some.
    fn node_groups_of(&self, group: &GroupId) -> Option<&Affinity> {
        let mut name = self.queue_of.get(group)?;
        for _ in 0..DEPTH_MAX {
            let (parent, own) = self.node_groups.get(name)?;
            if own.is_some() {
                return own.as_ref();
            }
            name = parent;
        }
        None
    }

    fn tell_budget(&mut self, caches: &Caches, key: &Key) {
        let budget = caches.get::<PodDisruptionBudget>(key);
        self.cluster.apply(match budget {
            Some(budget) => Change::Budget(Budget {
                namespace: key.namespace.clone(),
                name: key.name.clone(),
                selector: budget.spec.as_ref().and_then(|spec| spec.selector.as_ref()).map(label_selector),
                allowed: budget.status.as_ref().map_or(0, |status| count(status.disruptions_allowed)),
            }),
            None => Change::BudgetGone(key.namespace.clone(), key.name.clone()),
        });
    }

    fn tell_group(&mut self, caches: &Caches, key: &Key) {
        let id = GroupId::new(&key.namespace, &key.name);
        self.stale.insert(id.clone());
        let Some(group) = caches.get::<PodGroup>(key) else {
            self.forget_group(&id);
            return;
        };
        let uid = group.uid().unwrap_or_default();
        if self.uid_of.get(&id).is_some_and(|known| *known != uid) {
            // Deleted and made again since the last turn: what was planned for the old one is not true of it.
            self.forget_group(&id);
        }
        self.uid_of.insert(id.clone(), uid);
        let classes = caches.list::<PriorityClass>(None);
        let parts = caches.list::<HyperNode>(None);
        let tier = |name: &str| parts.iter().find(|part| part.spec.tier_name == name).map(|part| part.spec.tier);
        let class = class_of(&group, classes.iter().map(|class| &**class));
        let told = groups::group(&group, GroupContext { class, tier: &tier });
        let queue = told.queue.to_string();
        self.cluster.apply(Change::Group(told));
        let before = self.queue_of.insert(id.clone(), queue.clone());
        if before.as_ref() != Some(&queue) && self.has_node_groups() {
            let pods = self.pods_of.get(&id).cloned().unwrap_or_default();
            pods.iter().for_each(|key| self.tell_pod(caches, key));
        }
    }

    fn forget_group(&mut self, id: &GroupId) {
        self.cluster.apply(Change::GroupGone(id.clone()));
        self.set_wait(id, None);
        self.worded.remove(id);
        self.later.remove(id);
        self.queue_of.remove(id);
        self.uid_of.remove(id);
    }

    fn tell_pod(&mut self, caches: &Caches, key: &Key) {
        let pod = caches.get::<Pod>(key);
        let is_same =
            |pod: &Arc<Pod>| self.members.get(key).is_some_and(|known| pod.uid().as_ref() == Some(&known.uid));
        if !pod.as_ref().is_some_and(is_same) {
            self.forget_pod(key);
        }
        let Some(pod) = pod else { return };
        if !node_of(&pod).is_empty() {
            self.binding.remove(key);
        }
        let membership = membership(&pod, &self.schedulers);
        let claims = claims(caches, &pod);
        if node_of(&pod).is_empty() && claims.iter().any(chooses) {
            self.choosing.insert(key.clone());
        } else {
            self.choosing.remove(key);
        }
        let mut told = pods::pod(&pod, &membership, volumes(&claims));
        if let Some(affinity) = self.node_groups_of(&told.group) {
            node_groups::require(affinity, &mut Arc::make_mut(&mut told.spec).node_affinity);
        }
        let is_alone = membership == Membership::Alone;
        self.join(key, Member { uid: pod.uid().unwrap_or_default(), group: told.group.clone(), is_alone });
        if is_alone {
            self.cluster.apply(Change::Group(groups::alone(&pod)));
        }
        self.cluster.apply(Change::Pod(told));
    }

    /// Puts a pod into its group, and out of the one that it was in.
    fn join(&mut self, key: &Key, member: Member) {
        self.stale.insert(member.group.clone());
        let group = member.group.clone();
        let old = self.members.insert(key.clone(), member);
        if let Some(old) = old.filter(|old| old.group != group) {
            self.leave(key, &old);
        }
        self.pods_of.entry(group).or_default().insert(key.clone());
    }

    fn forget_pod(&mut self, key: &Key) {
        self.binding.remove(key);
        self.choosing.remove(key);
        let Some(old) = self.members.remove(key) else { return };
        self.cluster.apply(Change::PodGone(ronde_scheduler::PodId::new(&key.namespace, &key.name)));
        self.leave(key, &old);
    }

    fn leave(&mut self, key: &Key, old: &Member) {
        self.stale.insert(old.group.clone());
        if let Some(pods) = self.pods_of.get_mut(&old.group) {
            pods.remove(key);
            if pods.is_empty() {
                self.pods_of.remove(&old.group);
                self.worded.remove(&old.group);
            }
        }
        if old.is_alone {
            self.forget_group(&old.group);
        }
    }
}

/// Tells whether a group waits for pods of its own.
pub fn lacks_pods(waiting: &Waiting) -> bool {
    matches!(waiting.reason, Reason::NotEnoughPods | Reason::NotEnoughPodsOfTask)
}

/// Returns the claims of a pod with what they have led to.
pub fn claims(caches: &Caches, pod: &Pod) -> Vec<Claimed> {
    let namespace = pod.namespace().unwrap_or_default();
    let claimed = |name: String| {
        let claim = caches.get::<PersistentVolumeClaim>(&Key::new(&namespace, &name));
        let spec = claim.as_ref().and_then(|claim| claim.spec.as_ref());
        let volume = spec.and_then(|spec| caches.get::<PersistentVolume>(&Key::new("", spec.volume_name.as_deref()?)));
        let class =
            spec.and_then(|spec| caches.get::<StorageClass>(&Key::new("", spec.storage_class_name.as_deref()?)));
        let mut claimed = Claimed { name, claim, volume, class, offers: Vec::new() };
        if chooses(&claimed) {
            claimed.offers = caches.list(None);
            claimed.keep_fitting_offers();
        }
        claimed
    };
    claim_names(pod).into_iter().map(claimed).collect()
}
