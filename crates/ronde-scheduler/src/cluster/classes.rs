//! Classes of pods: pods with the same spec are the same to every node, so they are judged once.

use std::{collections::HashMap, sync::Arc};

use super::{
    nodes::{Mode, NodeState},
    table::{PODS_ID, Request, Resources},
};
use crate::model::{
    node::{Effect, Taint},
    pod::{PodSpec, Volumes},
};

/// The taint that stands for cordoned nodes.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// Full load of a node, in points of a score.
const LOAD_MAX: i64 = 1000;
/// What a taint that asks to be avoided costs.
const AVOIDED: i64 = 3 * LOAD_MAX;
/// What it costs a pod without devices to be on a node that has some.
const WASTES_DEVICES: i64 = LOAD_MAX / 2;
/// What one point of a preference is worth: the greatest weight is as much as the whole load.
const PREFERENCE: i64 = LOAD_MAX / 100;

/// What keeps pods of a class off a node however empty it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mismatch {
    NotReady,
    Cordoned,
    Taint(Taint),
    Labels,
    Volume,
}

/// Pods with the same spec.
#[derive(Debug, Clone)]
pub struct Class {
    pub spec: Arc<PodSpec>,
    /// What one pod takes, the count of pods first.
    pub request: Box<Request>,
    /// Resources that the load of a node is measured by.
    rated: Vec<usize>,
    pub packs: bool,
    pub has_devices: bool,
    /// Other pods matter for where these may be.
    pub has_rules: bool,
    /// Pods that are preferred near or far change the score with every placement.
    pub has_soft_rules: bool,
    pub per_node_max: i64,
    pods: u32,
}

impl Class {
    fn new(spec: Arc<PodSpec>, resources: &mut Resources, packs_all: bool) -> Self {
        let request = resources.request(&spec.requests);
        let devices: Vec<usize> = request.iter().map(|(id, _)| *id).filter(|id| resources.is_device(*id)).collect();
        let others = request.iter().map(|(id, _)| *id).filter(|id| *id != PODS_ID);
        let has_devices = !devices.is_empty();
        let mut rated = if has_devices { devices } else { others.collect() };
        if rated.is_empty() {
            rated.push(PODS_ID);
        }
        let has_soft_rules = !spec.preferred_affinity.is_empty()
            || !spec.preferred_anti_affinity.is_empty()
            || spec.spread.iter().any(|spread| !spread.required);
        let has_rules =
            has_soft_rules || !(spec.affinity.is_empty() && spec.anti_affinity.is_empty() && spec.spread.is_empty());
        let per_node_max = if spec.host_ports.is_empty() { i64::MAX } else { 1 };
        let packs = packs_all || has_devices;
        Self { spec, request, rated, packs, has_devices, has_rules, has_soft_rules, per_node_max, pods: 0 }
    }

    /// Returns what keeps pods off a node whatever runs there.
    pub fn mismatch(&self, state: &NodeState) -> Option<Mismatch> {
        let node = &state.node;
        let tolerates = |taint: &Taint| {
            self.spec.tolerations.iter().any(|one| one.tolerates(&taint.key, &taint.value, taint.effect))
        };
        let cordon = || Taint { key: UNSCHEDULABLE.to_owned(), value: String::new(), effect: Effect::NoSchedule };
        if !state.is_present || !node.ready {
            return Some(Mismatch::NotReady);
        }
        if node.unschedulable && !tolerates(&cordon()) {
            return Some(Mismatch::Cordoned);
        }
        let hard = node.taints.iter().find(|taint| taint.effect != Effect::PreferNoSchedule && !tolerates(taint));
        if let Some(taint) = hard {
            return Some(Mismatch::Taint(taint.clone()));
        }
        if !self.wants(state) {
            return Some(Mismatch::Labels);
        }
        let Volumes::On(volumes) = &self.spec.volumes else { return Some(Mismatch::Volume) };
        let selects = volumes.iter().all(|volume| volume.selects(node.name.as_str(), &node.labels));
        (!selects).then_some(Mismatch::Volume)
    }

    /// Tells whether a node has the labels that pods require.
    pub fn wants(&self, state: &NodeState) -> bool {
        let node = &state.node;
        let required = self.spec.node_affinity.required.as_ref();
        self.spec.node_selector.iter().all(|(key, value)| node.labels.get(key) == Some(value))
            && required.is_none_or(|selector| selector.selects(node.name.as_str(), &node.labels))
    }

    pub fn tolerates_all(&self, state: &NodeState) -> bool {
        let tolerates = |taint: &Taint| {
            self.spec.tolerations.iter().any(|one| one.tolerates(&taint.key, &taint.value, taint.effect))
        };
        state.node.taints.iter().all(|taint| taint.effect == Effect::PreferNoSchedule || tolerates(taint))
    }

    /// Returns the part of the score that does not depend on what runs on a node.
    pub fn preference(&self, state: &NodeState) -> i64 {
        let node = &state.node;
        let preferred = self.spec.node_affinity.preferred.iter();
        let preferred = preferred.filter(|wanted| wanted.term.selects(node.name.as_str(), &node.labels));
        let weight: i64 = preferred.map(|wanted| i64::from(wanted.weight)).sum();
        let soft = node.taints.iter().filter(|taint| taint.effect == Effect::PreferNoSchedule);
        let is_avoided = |taint: &&Taint| {
            !self.spec.tolerations.iter().any(|one| one.tolerates(&taint.key, &taint.value, taint.effect))
        };
        let avoided = i64::try_from(soft.filter(is_avoided).count()).unwrap_or(i64::MAX);
        let wasted = if state.has_devices && !self.has_devices { WASTES_DEVICES } else { 0 };
        weight * PREFERENCE - avoided.saturating_mul(AVOIDED) - wasted
    }

    /// Returns how good the load of a node is: full ones first for packing, empty ones first otherwise.
    pub fn load_score(&self, state: &NodeState, mode: Mode) -> i64 {
        let sum: i64 = self.rated.iter().map(|id| load(state, *id)).sum();
        let load = sum / i64::try_from(self.rated.len()).unwrap_or(1);
        // Nodes that are to become free are chosen by how little is still on them.
        if self.packs && mode != Mode::Empty { load } else { -load }
    }
}

fn load(state: &NodeState, id: usize) -> i64 {
    let alloc = i128::from(state.alloc.get(id).max(1));
    let used = i128::from(state.used.get(id).max(0));
    i64::try_from((used * i128::from(LOAD_MAX) / alloc).min(i128::from(LOAD_MAX))).unwrap_or(LOAD_MAX)
}

/// All classes with pods.
#[derive(Debug, Clone, Default)]
pub struct Classes {
    slots: Vec<Option<Class>>,
    by_spec: HashMap<Arc<PodSpec>, usize>,
    free: Vec<usize>,
}

impl Classes {
    pub fn get(&self, id: usize) -> &Class {
        self.slots[id].as_ref().expect("a class is kept while it has pods")
    }

    /// Counts one more pod with a spec; returns its class.
    pub fn join(&mut self, spec: &Arc<PodSpec>, resources: &mut Resources, packs_all: bool) -> usize {
        let id = self.by_spec.get(spec).copied().unwrap_or_else(|| {
            let class = Class::new(spec.clone(), resources, packs_all);
            let id = self.free.pop().unwrap_or(self.slots.len());
            if id == self.slots.len() {
                self.slots.push(None);
            }
            self.slots[id] = Some(class);
            self.by_spec.insert(spec.clone(), id);
            id
        });
        if let Some(class) = &mut self.slots[id] {
            class.pods += 1;
        }
        id
    }

    /// Counts one pod less; returns whether it was the last of its class.
    pub fn leave(&mut self, id: usize) -> bool {
        let Some(class) = &mut self.slots[id] else { return false };
        class.pods -= 1;
        if class.pods > 0 {
            return false;
        }
        self.by_spec.remove(&class.spec);
        self.slots[id] = None;
        self.free.push(id);
        true
    }
}
