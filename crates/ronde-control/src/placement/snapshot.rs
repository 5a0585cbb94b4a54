//! The nodes and what is on them, as placement sees them. Pure.
//!
//! Built anew for every round; pods that have just been given a node are added to it, so that the next pod of the round
//! does not get the same room.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::{Namespace, Node, Pod, Taint};
use kube::ResourceExt as _;

use super::resources::{self, Amounts, HostPort};
use crate::{
    nodelifecycle::plan::is_ready,
    taints::{self, NO_SCHEDULE, NOT_READY, UNREACHABLE},
};

/// The labels of an object.
pub type Labels = BTreeMap<String, String>;

/// A node with its pods.
#[derive(Debug, Clone)]
pub struct Place {
    pub node: Arc<Node>,
    pub allocatable: Amounts,
    pub used: Amounts,
    pub ports: Vec<HostPort>,
    pub pods: Vec<Arc<Pod>>,
    /// Those of the pods that keep others away.
    pub shy: Vec<Arc<Pod>>,
}

impl Place {
    fn new(node: Arc<Node>) -> Self {
        let allocatable = resources::allocatable(&node);
        Self { node, allocatable, used: Amounts::new(), ports: Vec::new(), pods: Vec::new(), shy: Vec::new() }
    }

    /// Returns the value of a label of the node.
    pub fn label(&self, key: &str) -> Option<&String> {
        self.node.labels().get(key)
    }

    /// Returns the taints of the node, with the one that it gets as soon as someone notices that it is not ready.
    pub fn taints(&self) -> Vec<Taint> {
        let mut taints = taints::of(&self.node).to_vec();
        let is_marked = taints.iter().any(|taint| taint.key == NOT_READY || taint.key == UNREACHABLE);
        if !is_ready(&self.node) && !is_marked {
            let (key, effect) = (NOT_READY.to_owned(), NO_SCHEDULE.to_owned());
            taints.push(Taint { key, effect, ..Taint::default() });
        }
        taints
    }
}

/// All nodes.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    pub places: BTreeMap<String, Place>,
    /// The labels of namespaces, for affinities that pick them.
    pub namespaces: BTreeMap<String, Labels>,
}

impl Snapshot {
    pub fn new(
        nodes: impl IntoIterator<Item = Arc<Node>>,
        namespaces: impl IntoIterator<Item = Arc<Namespace>>,
    ) -> Self {
        let places = nodes.into_iter().map(|node| (node.name_any(), Place::new(node)));
        let namespaces = namespaces.into_iter().map(|namespace| (namespace.name_any(), namespace.labels().clone()));
        Self { places: places.collect(), namespaces: namespaces.collect() }
    }

    /// Puts a pod on a node; on one that does not exist it takes nobody's room.
    pub fn add(&mut self, node: &str, pod: Arc<Pod>) {
        if let Some(place) = self.places.get_mut(node) {
            resources::add(&mut place.used, &resources::requests(&pod));
            place.ports.extend(resources::host_ports(&pod));
            if is_shy(&pod) {
                place.shy.push(pod.clone());
            }
            place.pods.push(pod);
        }
    }

    /// Returns every pod with the node that it is on.
    pub fn pods(&self) -> impl Iterator<Item = (&Place, &Arc<Pod>)> {
        self.places.values().flat_map(|place| place.pods.iter().map(move |pod| (place, pod)))
    }
}

/// Tells whether a pod requires others to be elsewhere.
fn is_shy(pod: &Pod) -> bool {
    let affinity = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref()?.pod_anti_affinity.as_ref());
    affinity.is_some_and(|wants| wants.required_during_scheduling_ignored_during_execution.is_some())
}
