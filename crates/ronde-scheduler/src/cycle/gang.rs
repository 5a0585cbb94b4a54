//! What a group still needs to be whole, and the pods that could be it.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    cluster::{Cluster, pods::PodState},
    model::group::{Group, SubGroups, Topology},
};

/// Pods that are placed together or not at all.
#[derive(Debug, Clone)]
pub struct Bundle {
    pub pods: Vec<usize>,
    /// The subgroup policy that it comes from.
    policy: Option<usize>,
    /// It makes one more subgroup complete.
    completes: bool,
    pub topology: Option<Topology>,
    /// Nodes of pods that it has to be near.
    pub pinned: Vec<usize>,
}

/// How much is missing to the minimum.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    pub pods: u32,
    pub tasks: BTreeMap<Arc<str>, u32>,
    subgroups: BTreeMap<usize, u32>,
}

impl Needs {
    pub fn are_met(&self) -> bool {
        self.pods == 0 && self.tasks.values().chain(self.subgroups.values()).all(|missing| *missing == 0)
    }

    /// Counts a bundle as placed; returns whether a task or the subgroups needed it.
    pub fn meet(&mut self, bundle: &Bundle, cluster: &Cluster) -> bool {
        let mut is_needed = false;
        let mut count = |missing: Option<&mut u32>| {
            if let Some(missing) = missing.filter(|missing| **missing > 0) {
                *missing -= 1;
                is_needed = true;
            }
        };
        for pod in &bundle.pods {
            self.pods = self.pods.saturating_sub(1);
            if !self.tasks.is_empty() {
                count(self.tasks.get_mut(&cluster.pods.get(*pod).pod.task));
            }
        }
        if bundle.completes {
            count(bundle.policy.and_then(|policy| self.subgroups.get_mut(&policy)));
        }
        is_needed
    }
}

/// Fewer pods exist than the minimum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lacking {
    Pods { have: u32, need: u32 },
    Task { task: Arc<str>, have: u32, need: u32 },
    SubGroups { name: Arc<str>, have: u32, need: u32 },
}

#[derive(Debug, Clone)]
pub struct Gang {
    pub needs: Needs,
    /// Those that the minimum needs first, then the others.
    pub bundles: Vec<Bundle>,
    /// Nodes where pods of the group are.
    pub pinned: Vec<usize>,
    pub lacking: Option<Lacking>,
    /// How many pods of each class must find room at least, by class.
    pub least: Vec<(usize, u64)>,
}

impl Gang {
    /// Looks at the pods of a group; they are to be sorted.
    pub fn of_group(cluster: &Cluster, slot: usize) -> Option<Self> {
        let state = cluster.groups.get(slot);
        let group = state.group.as_ref()?;
        let mut counts = Counts::default();
        let mut loose = Vec::new();
        let mut families: BTreeMap<(usize, Vec<Option<&str>>), Family> = BTreeMap::new();
        let mut pinned = Vec::new();
        for pod in &state.pods {
            let pod_state = cluster.pods.get(*pod);
            counts.add(pod_state);
            if let Some(node) = pod_state.node.filter(|_| pod_state.is_placed()) {
                pinned.push(node);
            }
            match policy_of(group, pod_state) {
                Some((index, policy)) => {
                    families.entry((index, values(policy, pod_state))).or_default().add(*pod, pod_state);
                }
                None if pod_state.is_pending() => loose.push(*pod),
                None => {}
            }
        }
        let (have, bundles) = bundles(group, families, loose);
        let needs = needs(group, &counts, &have);
        let lacking = lacking(group, &counts, &needs, &bundles);
        let bundles = first_things_first(bundles, &needs, cluster);
        let least = least(&needs, &bundles, cluster);
        Some(Self { needs, bundles, pinned, lacking, least })
    }
}

#[derive(Debug, Default)]
struct Counts {
    placed: u32,
    pending: u32,
    by_task: BTreeMap<Arc<str>, (u32, u32)>,
}

impl Counts {
    fn add(&mut self, pod: &PodState) {
        let (placed, pending) = (u32::from(pod.is_placed()), u32::from(pod.is_pending()));
        self.placed += placed;
        self.pending += pending;
        match self.by_task.get_mut(&pod.pod.task) {
            Some(task) => *task = (task.0 + placed, task.1 + pending),
            None => _ = self.by_task.insert(pod.pod.task.clone(), (placed, pending)),
        }
    }
}

/// The pods of one subgroup.
#[derive(Debug, Default)]
struct Family {
    placed: u32,
    nodes: Vec<usize>,
    pending: Vec<usize>,
}

impl Family {
    fn add(&mut self, slot: usize, pod: &PodState) {
        if pod.is_placed() {
            self.placed += 1;
            self.nodes.extend(pod.node);
        } else if pod.is_pending() {
            self.pending.push(slot);
        }
    }
}

fn policy_of<'a>(group: &'a Group, pod: &PodState) -> Option<(usize, &'a SubGroups)> {
    group.subgroups.iter().enumerate().find(|(_, policy)| policy.selector.selects(&pod.pod.labels))
}

fn values<'a>(policy: &SubGroups, pod: &'a PodState) -> Vec<Option<&'a str>> {
    policy.match_label_keys.iter().map(|key| pod.pod.labels.get(key).map(String::as_str)).collect()
}

/// Returns how many subgroups of each policy are complete, and what can be placed.
fn bundles(
    group: &Group,
    families: BTreeMap<(usize, Vec<Option<&str>>), Family>,
    loose: Vec<usize>,
) -> (BTreeMap<usize, u32>, Vec<Bundle>) {
    let mut complete = BTreeMap::new();
    let mut bundles = Vec::new();
    let one =
        |pod: usize| Bundle { pods: vec![pod], policy: None, completes: false, topology: None, pinned: Vec::new() };
    for ((policy, _), family) in families {
        let asked = &group.subgroups[policy];
        let missing = asked.size.max(1).saturating_sub(family.placed) as usize;
        let rest = if missing == 0 {
            *complete.entry(policy).or_default() += 1;
            &family.pending[..]
        } else if family.pending.len() >= missing {
            let (first, rest) = family.pending.split_at(missing);
            let (topology, pinned) = (asked.topology.clone(), family.nodes.clone());
            bundles.push(Bundle { pods: first.to_vec(), policy: Some(policy), completes: true, topology, pinned });
            rest
        } else {
            &[]
        };
        bundles.extend(rest.iter().map(|pod| Bundle {
            policy: Some(policy),
            topology: asked.topology.clone(),
            pinned: family.nodes.clone(),
            ..one(*pod)
        }));
    }
    bundles.extend(loose.into_iter().map(one));
    (complete, bundles)
}

fn needs(group: &Group, counts: &Counts, complete: &BTreeMap<usize, u32>) -> Needs {
    // A minimum that is smaller than the sum of those of the tasks overrules them.
    let heeds_tasks = group.min_member >= group.min_task_member.values().sum();
    let placed = |task: &Arc<str>| counts.by_task.get(task).map_or(0, |(placed, _)| *placed);
    let tasks = group.min_task_member.iter().filter(|_| heeds_tasks);
    let policies = group.subgroups.iter().enumerate();
    let have = |policy: usize| complete.get(&policy).copied().unwrap_or(0);
    Needs {
        pods: group.min_member.saturating_sub(counts.placed),
        tasks: tasks.map(|(task, least)| (task.clone(), least.saturating_sub(placed(task)))).collect(),
        subgroups: policies.map(|(index, policy)| (index, policy.min_subgroups.saturating_sub(have(index)))).collect(),
    }
}

fn lacking(group: &Group, counts: &Counts, needs: &Needs, bundles: &[Bundle]) -> Option<Lacking> {
    let have = counts.placed + counts.pending;
    if have < group.min_member {
        return Some(Lacking::Pods { have, need: group.min_member });
    }
    for (task, missing) in &needs.tasks {
        let (placed, pending) = counts.by_task.get(task).copied().unwrap_or_default();
        if pending < *missing {
            return Some(Lacking::Task { task: task.clone(), have: placed + pending, need: placed + missing });
        }
    }
    for (policy, missing) in &needs.subgroups {
        let possible = bundles.iter().filter(|bundle| bundle.completes && bundle.policy == Some(*policy)).count();
        let possible = u32::try_from(possible).unwrap_or(u32::MAX);
        if possible < *missing {
            let asked = &group.subgroups[*policy];
            let have = asked.min_subgroups - missing + possible;
            return Some(Lacking::SubGroups { name: asked.name.clone(), have, need: asked.min_subgroups });
        }
    }
    None
}

/// Puts the bundles first that tasks and subgroups need for their minimum.
fn first_things_first(bundles: Vec<Bundle>, needs: &Needs, cluster: &Cluster) -> Vec<Bundle> {
    if needs.tasks.is_empty() && needs.subgroups.is_empty() {
        return bundles;
    }
    let mut left = needs.clone();
    let (mut needed, others): (Vec<_>, Vec<_>) = bundles.into_iter().partition(|bundle| left.meet(bundle, cluster));
    needed.extend(others);
    needed
}

/// Returns how many pods of each class must find room, whichever pods are chosen; in the order of the bundles.
fn least(needs: &Needs, bundles: &[Bundle], cluster: &Cluster) -> Vec<(usize, u64)> {
    let mut classes: Vec<(usize, u64)> = Vec::new();
    let mut class_of_task: BTreeMap<&str, Option<usize>> = BTreeMap::new();
    let mut all = 0;
    for pod in bundles.iter().flat_map(|bundle| &bundle.pods) {
        let state = cluster.pods.get(*pod);
        all += 1;
        match classes.iter_mut().find(|(class, _)| *class == state.class) {
            Some((_, count)) => *count += 1,
            None => classes.push((state.class, 1)),
        }
        let class = class_of_task.entry(&state.pod.task).or_insert(Some(state.class));
        *class = class.filter(|class| *class == state.class);
    }
    // A task of one class needs its minimum from that class.
    let of_tasks = |class: usize| -> u64 {
        let is_its = |task: &Arc<str>| class_of_task.get(&**task) == Some(&Some(class));
        needs.tasks.iter().filter(|(task, _)| is_its(task)).map(|(_, missing)| u64::from(*missing)).sum()
    };
    let least =
        |(class, count): (usize, u64)| (class, u64::from(needs.pods).saturating_sub(all - count).max(of_tasks(class)));
    classes.into_iter().map(least).filter(|(_, count)| *count > 0).collect()
}
