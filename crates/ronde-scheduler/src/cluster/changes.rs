//! Takes note of changes of pods and groups, and takes back steps that failed.

use super::{Cluster, groups::Standing, nodes::Mode, pods::PodState, sums::demand};
use crate::{
    model::{
        group::Group,
        ids::{GroupId, NodeName, PodId},
        pod::Pod,
    },
    plan::Step,
};

/// Changes of pods.
impl Cluster {
    pub(super) fn set_pod(&mut self, mut pod: Pod) {
        let old = self.pods.find(&pod.id).filter(|slot| !self.is_another(*slot, &pod));
        if let Some(slot) = old {
            // Once a pod is known, only the plans say where room is held for it.
            pod.nominated.clone_from(&self.pods.get(slot).pod.nominated);
        }
        if let Some(slot) = old
            && self.update_in_place(slot, &pod)
        {
            return;
        }
        let planned = old.map(|slot| self.planned(slot)).unwrap_or_default();
        self.remove_pod(&pod.id);
        self.attach(pod, planned);
    }

    /// Tells whether a pod is a new one with the name of one that is known.
    fn is_another(&self, slot: usize, pod: &Pod) -> bool {
        let known = &self.pods.get(slot).pod;
        known.created != pod.created || (known.node.is_some() && pod.node.is_none())
    }

    /// Replaces a pod that takes and asks the same as before.
    fn update_in_place(&mut self, slot: usize, pod: &Pod) -> bool {
        let state = self.pods.get(slot);
        let old = &state.pod;
        let is_same = old.group == pod.group
            && old.labels == pod.labels
            && old.spec == pod.spec
            && (old.task == pod.task && old.index == pod.index && old.priority == pod.priority)
            && old.phase.is_finished() == pod.phase.is_finished()
            && old.held == pod.held
            && old.preemptable == pod.preemptable
            && (old.leaving == pod.leaving || (state.is_evicted && pod.leaving))
            && (old.node == pod.node || (old.node.is_none() && self.is_at(state.node, pod.node.as_ref())));
        if is_same {
            let group = state.group;
            let spec = self.classes.get(state.class).spec.clone();
            self.count(slot, -1);
            self.pods.get_mut(slot).pod = Pod { spec, ..pod.clone() };
            self.count(slot, 1);
            self.reopen(group);
        }
        is_same
    }

    fn is_at(&self, slot: Option<usize>, name: Option<&NodeName>) -> bool {
        name.is_some_and(|name| slot.is_some_and(|slot| self.nodes.name(slot) == name))
    }

    /// Returns what is planned for a pod and not seen yet.
    fn planned(&self, slot: usize) -> Planned {
        let state = self.pods.get(slot);
        let node = state.node.map(|node| self.nodes.name(node).clone());
        Planned { node, is_evicted: state.is_evicted }
    }

    fn attach(&mut self, mut pod: Pod, planned: Planned) {
        let group = self.groups.slot(&pod.group);
        let class = self.classes.join(&pod.spec, &mut self.resources, self.policy.packs);
        // One spec for all pods of a class.
        pod.spec = self.classes.get(class).spec.clone();
        let node = pod.node.clone().or(planned.node).map(|name| self.nodes.slot(&name));
        let claim = pod.nominated.clone().filter(|_| node.is_none());
        let is_protected = self.policy.protected_namespaces.iter().any(|name| name == pod.id.namespace());
        let is_evictable = pod.preemptable && !is_protected;
        let state =
            PodState { pod, class, group, is_evictable, node: None, is_evicted: planned.is_evicted, claim: None };
        let slot = self.pods.insert(state);
        self.groups.get_mut(group).add(slot);
        self.count(slot, 1);
        if let Some(node) = node {
            self.occupy(slot, node);
        }
        if let Some(claim) = claim.filter(|_| self.pods.get(slot).is_pending()) {
            let claim = self.nodes.slot(&claim);
            self.claim(slot, claim);
        }
        self.reopen(group);
    }

    fn detach(&mut self, slot: usize) {
        self.unclaim(slot);
        let node = self.pods.get(slot).node;
        self.vacate(slot);
        self.count(slot, -1);
        let Some(state) = self.pods.remove(slot) else { return };
        self.groups.get_mut(state.group).remove(slot);
        if self.classes.leave(state.class) {
            self.censuses.remove(&state.class);
            Mode::ALL.iter().for_each(|mode| _ = self.views.remove(&(state.class, *mode)));
        }
        if let Some(node) = node {
            self.nodes.forget_if_unused(node);
        }
        self.reopen(state.group);
        self.groups.forget_if_unused(state.group);
    }

    pub(super) fn remove_pod(&mut self, id: &PodId) {
        if let Some(slot) = self.pods.find(id) {
            self.detach(slot);
        }
    }
}

/// Changes of groups, and steps that failed.
impl Cluster {
    pub(super) fn set_group(&mut self, group: Group) {
        let slot = self.groups.slot(&group.id);
        self.move_demand(slot, -1);
        let state = self.groups.get_mut(slot);
        let priority_changed = state.priority() != group.priority;
        if group.admitted.is_some() {
            // The plan is seen: from here on the group itself says whether it still is let in.
            state.planned_admission = None;
        }
        state.group = Some(group);
        state.gang = None;
        self.move_demand(slot, 1);
        if priority_changed {
            self.reclaim_rooms(slot);
        }
        self.reopen(slot);
    }

    /// Makes the claims of a group anew, since they carry its priority.
    fn reclaim_rooms(&mut self, group: usize) {
        for pod in self.groups.get(group).pods.clone() {
            if let Some(node) = self.pods.get(pod).claim {
                self.claim(pod, node);
            }
        }
    }

    pub(super) fn remove_group(&mut self, id: &GroupId) {
        let Some(slot) = self.groups.find(id) else { return };
        self.groups.get(slot).pods.clone().into_iter().for_each(|pod| self.unclaim(pod));
        self.move_demand(slot, -1);
        let state = self.groups.get_mut(slot);
        state.group = None;
        state.gang = None;
        state.planned_admission = None;
        state.told = None;
        self.reopen(slot);
        self.groups.forget_if_unused(slot);
    }

    fn move_demand(&mut self, slot: usize, times: i64) {
        let state = self.groups.get(slot);
        let Some(group) = &state.group else { return };
        let demand = demand(&mut self.demand, &group.queue);
        demand.allocated.add_row(&state.allocated, times);
        demand.asked.add_row(&state.asked, times);
        demand.list(slot, group, if times > 0 { state.standing() } else { Standing::Absent });
        let leaving =
            state.pods.iter().map(|pod| self.pods.get(*pod)).filter(|pod| pod.is_leaving() && pod.takes_room());
        leaving.for_each(|pod| demand.leaving.add_request(&self.classes.get(pod.class).request, times));
    }

    /// Notes whether a group has something to wait for.
    pub(crate) fn reopen(&mut self, slot: usize) {
        let state = self.groups.get(slot);
        let is_open = state.group.as_ref().is_some_and(|group| {
            state.pending > 0 || state.admitted().is_none() || (!group.started && !state.has_minimum())
        });
        self.groups.set_open(slot, is_open);
        if !is_open {
            let state = self.groups.get_mut(slot);
            state.told = None;
            state.noticed = None;
        }
    }

    pub(super) fn take_back(&mut self, step: &Step) {
        match step {
            Step::Admit(id) => {
                if let Some(slot) = self.groups.find(id) {
                    self.groups.get_mut(slot).planned_admission = None;
                    self.reopen(slot);
                }
            }
            Step::Bind { pod, node } => {
                let Some(slot) = self.pods.find(pod) else { return };
                let state = self.pods.get(slot);
                if state.pod.node.is_none() && self.is_at(state.node, Some(node)) {
                    let group = state.group;
                    self.vacate(slot);
                    self.reopen(group);
                }
            }
            Step::Evict { pod, .. } => {
                if let Some(slot) = self.pods.find(pod) {
                    self.set_evicted(slot, false);
                }
            }
            Step::Nominate { pod, node } => {
                let Some(slot) = self.pods.find(pod) else { return };
                if node.is_some() {
                    self.unclaim(slot);
                }
            }
        }
    }
}

/// What is planned for a pod.
#[derive(Debug, Default)]
struct Planned {
    node: Option<NodeName>,
    is_evicted: bool,
}
