//! What a gang that waits for room needs of the workers that a training job has above what it asks for. Pure.
//!
//! It is worked out in thought: the pods that the gang lacks are put where there is room, then the surplus workers are taken
//! away one after the other until all of them have a place. The scheduler knows more than is asked here; what does not fit
//! after all is asked for again.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt as _;
use ronde_api::{PodGroup, names};
use ronde_runtime::pods::resources::{amounts, quota_requests, requests};
use ronde_runtime::{
    pods::is_finished,
    podstatus::node_of,
    taints::{self, NO_EXECUTE, NO_SCHEDULE},
};
use ronde_scheduler::Amounts;

use crate::node_shutdown;

const PODS: &str = "pods";

/// A node and what is free of it.
pub struct Room<'a> {
    node: &'a Node,
    free: Amounts,
}

impl<'a> Room<'a> {
    /// Returns the room of a node on which pods use so much.
    fn of_node(node: &'a Node, used: &[Amounts]) -> Self {
        let mut free = amounts(node.status.as_ref().and_then(|status| status.allocatable.as_ref()));
        if free.get(PODS).is_none() {
            free.set(PODS, i64::MAX);
        }
        let mut room = Self { node, free };
        used.iter().for_each(|request| room.take_room(request, 1));
        room
    }

    /// Returns how many pods like this one fit.
    pub fn fits(&self, pod: &Pod, request: &Amounts) -> i64 {
        if !is_open(self.node, pod) {
            return 0;
        }
        let times = |name: &str, own: i64| {
            let free = self.free.get(name).unwrap_or(0);
            if own > 0 { free.div_euclid(own) } else { i64::MAX }
        };
        let least = request.iter().map(|(name, own)| times(name, own)).min().unwrap_or(i64::MAX);
        least.min(times(PODS, 1)).max(0)
    }

    /// Puts so many pods here, or takes them away if the number is negative.
    fn take_room(&mut self, request: &Amounts, times: i64) {
        let mut change = |name: &str, own: i64| {
            let free = self.free.get(name).unwrap_or(0);
            self.free.set(name, free.saturating_sub(own.saturating_mul(times)));
        };
        request.iter().for_each(|(name, own)| change(name, own));
        change(PODS, 1);
    }
}

/// Pods that are alike and have no place.
struct Claim {
    pod: Pod,
    request: Amounts,
    times: i64,
}

impl Claim {
    /// Puts as many pods as fit on a node.
    fn settle(&mut self, room: &mut Room<'_>) {
        let fits = room.fits(&self.pod, &self.request).min(self.times);
        if fits > 0 {
            room.take_room(&self.request, fits);
            self.times -= fits;
        }
    }

    fn is_like(&self, pod: &Pod, request: &Amounts) -> bool {
        let chooses = |pod: &Pod| pod.spec.clone().map(|spec| (spec.node_selector, spec.tolerations));
        self.request == *request && chooses(&self.pod) == chooses(pod)
    }
}

/// A worker that may go: the node it is on, and what it has there.
pub type Surplus<'a> = (&'a str, &'a Amounts);

/// Returns how many surplus workers must go, in their order, until a gang fits; one more than there are if it does not fit
/// then. Costs nodes × kinds of pods. None if the gang does not fit on all nodes together, even if they were empty.
pub fn needed(group: &PodGroup, nodes: &[Arc<Node>], pods: &[Arc<Pod>], surplus: &[Surplus<'_>]) -> Option<usize> {
    let mut claims = claims(group, pods);
    if !is_possible(&claims, nodes) {
        return None;
    }
    // What is about to go makes room by itself.
    let mut rooms = rooms(nodes, pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()));
    for room in rooms.values_mut() {
        claims.iter_mut().for_each(|claim| claim.settle(room));
    }
    let is_met = |claims: &[Claim]| claims.iter().all(|claim| claim.times == 0);
    for (gone, (node, request)) in surplus.iter().enumerate() {
        if is_met(&claims) {
            return Some(gone);
        }
        let Some(room) = rooms.get_mut(node) else { continue };
        room.take_room(request, -1);
        claims.iter_mut().for_each(|claim| claim.settle(room));
    }
    Some(surplus.len() + usize::from(!is_met(&claims)))
}

/// Returns the nodes with what is free of them beside pods.
pub fn rooms<'a>(nodes: &'a [Arc<Node>], pods: impl Iterator<Item = &'a Arc<Pod>>) -> BTreeMap<&'a str, Room<'a>> {
    let mut used: BTreeMap<&str, Vec<Amounts>> = BTreeMap::new();
    for pod in pods.filter(|pod| !node_of(pod).is_empty() && !is_finished(pod)) {
        used.entry(node_of(pod)).or_default().push(pod.spec.as_ref().map(requests).unwrap_or_default());
    }
    let room = |node: &'a Arc<Node>| {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        (name, Room::of_node(node, used.get(name).map_or(&[], Vec::as_slice)))
    };
    nodes.iter().map(room).collect()
}

/// Returns the pods that a gang lacks: those that wait, or as many as it has not made yet, each with its share of what the gang
/// asks for.
fn claims(group: &PodGroup, pods: &[Arc<Pod>]) -> Vec<Claim> {
    let name = group.name_any();
    let is_member = |pod: &&Arc<Pod>| {
        let named = pod.annotations().get(names::GROUP_NAME);
        named == Some(&name) && pod.namespace() == group.namespace() && !is_finished(pod)
    };
    let (waiting, placed): (Vec<_>, Vec<_>) = pods.iter().filter(is_member).partition(|pod| node_of(pod).is_empty());
    let lacks = i64::from(group.spec.min_member.max(1)) - i64::try_from(placed.len()).unwrap_or(i64::MAX);
    let mut claims: Vec<Claim> = Vec::new();
    for pod in waiting.into_iter().take(usize::try_from(lacks).unwrap_or(0)) {
        let request = pod.spec.as_ref().map(requests).unwrap_or_default();
        match claims.iter_mut().find(|claim| claim.is_like(pod, &request)) {
            Some(claim) => claim.times += 1,
            None => claims.push(Claim { pod: Pod::clone(pod), request, times: 1 }),
        }
    }
    let unmade = lacks - claims.iter().map(|claim| claim.times).sum::<i64>();
    if unmade > 0 {
        claims.push(Claim { pod: Pod::default(), request: share(group), times: unmade });
    }
    claims
}

fn share(group: &PodGroup) -> Amounts {
    let members = i64::from(group.spec.min_member.max(1));
    let asked = group.spec.min_resources.as_ref().map(quota_requests).unwrap_or_default();
    asked.iter().map(|(name, all)| (name.clone(), all.saturating_add(members - 1).div_euclid(members))).collect()
}

fn is_possible(claims: &[Claim], nodes: &[Arc<Node>]) -> bool {
    let empty: Vec<Room<'_>> = nodes.iter().map(|node| Room::of_node(node, &[])).collect();
    let fits = |claim: &Claim| {
        let times = |sum: i64, room: &Room<'_>| sum.saturating_add(room.fits(&claim.pod, &claim.request));
        empty.iter().fold(0, times) >= claim.times
    };
    claims.iter().all(fits)
}

/// Tells whether new pods like this one may come to a node.
fn is_open(node: &Node, pod: &Pod) -> bool {
    let keeps_away = |taint: &k8s_openapi::api::core::v1::Taint| {
        matches!(taint.effect.as_str(), NO_SCHEDULE | NO_EXECUTE) && taints::toleration(pod, taint).is_none()
    };
    let selector = pod.spec.as_ref().and_then(|spec| spec.node_selector.as_ref());
    let is_selected = selector.into_iter().flatten().all(|(key, value)| node.labels().get(key) == Some(value));
    let is_closed = node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true));
    !is_closed && is_selected && node_shutdown::notice(node).is_none() && !taints::of_node(node).iter().any(keeps_away)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn node((name, cpus): (&str, &str)) -> Arc<Node> {
        let node = json!({"metadata": {"name": name}, "status": {"allocatable": {"cpu": cpus, "pods": "110"}}});
        Arc::new(serde_json::from_value(node).expect("a node"))
    }

    /// A pod of so many CPUs on a node, or of the gang if it is on none.
    fn pod((node, cpus): (&str, &str)) -> Arc<Pod> {
        let container = json!({"name": "c", "resources": {"requests": {"cpu": cpus}}});
        let note = if node.is_empty() { "gang" } else { "" };
        let meta = json!({"name": "p", "annotations": {"scheduling.k8s.io/group-name": note}});
        let spec = json!({"nodeName": Some(node).filter(|node| !node.is_empty()), "containers": [container]});
        Arc::new(serde_json::from_value(json!({"metadata": meta, "spec": spec})).expect("a pod"))
    }

    fn gang(members: i32, cpus: &str) -> PodGroup {
        let spec = json!({"minMember": members, "minResources": {"cpu": cpus}});
        serde_json::from_value(json!({"metadata": {"name": "gang"}, "spec": spec})).expect("a group")
    }

    /// The surplus workers have a CPU each and are on the nodes named.
    fn check(what: &str, gang: &PodGroup, pods: &[(&str, &str)], surplus: &[&str], expected: Option<usize>) {
        let nodes = [("a", "4"), ("b", "4")].map(node);
        let one = Amounts::of([("cpu", 1000)]);
        let on = surplus.iter().map(|&node| (node, "1"));
        let pods: Vec<Arc<Pod>> = pods.iter().copied().chain(on).map(pod).collect();
        let surplus: Vec<Surplus<'_>> = surplus.iter().map(|&node| (node, &one)).collect();
        assert_eq!(needed(gang, &nodes, &pods, &surplus), expected, "{what}");
    }

    #[test]
    fn no_more_workers_go_than_a_gang_needs() {
        let three = ["a", "a", "b"];
        let full = [("a", "2"), ("b", "3")];
        check("two of one fit where two workers are", &gang(2, "2"), &full, &three, Some(2));
        check("one is free", &gang(2, "2"), &[("a", "1"), ("b", "3")], &three, Some(1));
        check("it fits already", &gang(2, "2"), &[("a", "1"), ("b", "2")], &three, Some(0));
        check("a pod of two needs them on one node", &gang(1, "2"), &full, &["b", "a", "a"], Some(3));
        check("not even then", &gang(1, "3"), &full, &three, Some(4));
        check("larger than a node", &gang(1, "5"), &[], &three, None);
        check("larger than all nodes", &gang(9, "9"), &[], &three, None);
    }

    #[test]
    fn pods_that_are_made_count_as_they_are() {
        let pods = [("a", "2"), ("b", "3"), ("", "1"), ("", "1"), ("", "1")];
        check("the least of them", &gang(2, "100"), &pods, &["a", "a", "b"], Some(2));
        let mut picky: Value = serde_json::to_value(&*pod(("", "1"))).expect("a pod");
        picky["spec"]["nodeSelector"] = json!({"disk": "fast"});
        let picky: Arc<Pod> = Arc::new(serde_json::from_value(picky).expect("a pod"));
        assert_eq!(needed(&gang(1, "1"), &[node(("a", "4"))], &[picky], &[]), None, "no node is fit for it");
    }
}
