//! Where the volumes of a pod can be.
//!
//! A claim that is bound pins the pod to the nodes of its volume. One whose class waits for the first consumer
//! pins it to where the class can make volumes; the scheduler then tells the claim the node (see `act`). If nobody makes
//! volumes of the class, it pins it to where those are that exist and are free, and the scheduler then takes one for it.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::{
    core::v1::{PersistentVolume, PersistentVolumeClaim, Pod, TopologySelectorTerm},
    storage::v1::StorageClass,
};
use kube::ResourceExt as _;
use ronde_runtime::volumes::{capacity, may_take};
use ronde_scheduler::{NodeSelector, NodeSelectorTerm, Volumes};

use super::selectors::{node_selector, one_of};

const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// The provisioner of classes whose volumes somebody has made by hand.
const NOBODY: &str = "kubernetes.io/no-provisioner";
/// The mode of classes that make volumes where the pod is.
const WAITS: &str = "WaitForFirstConsumer";

/// A claim of a pod with what it has led to.
#[derive(Debug, Clone)]
pub struct Claimed {
    pub name: String,
    /// None if it does not exist.
    pub claim: Option<Arc<PersistentVolumeClaim>>,
    pub volume: Option<Arc<PersistentVolume>>,
    pub class: Option<Arc<StorageClass>>,
    /// Volumes that it may take, the smallest first; only if it is to choose among those that exist.
    pub offers: Vec<Arc<PersistentVolume>>,
}

impl Claimed {
    /// Leaves those of the offers that would do for the claim.
    pub fn keep_fitting_offers(&mut self) {
        let Some(claim) = &self.claim else { return };
        self.offers.retain(|volume| may_take(claim, volume));
        self.offers.sort_by_key(|volume| (capacity(volume), volume.name_any()));
    }

    /// Returns the volume to take for a pod on a node.
    pub fn offer_on(&self, node: &str, labels: &BTreeMap<String, String>) -> Option<&Arc<PersistentVolume>> {
        self.offers.iter().find(|volume| reach(volume).is_none_or(|reach| reach.selects(node, labels)))
    }
}

/// Returns the names of the claims of a pod.
pub fn claim_names(pod: &Pod) -> Vec<String> {
    let named = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let name = |volume: &k8s_openapi::api::core::v1::Volume| match &volume.persistent_volume_claim {
        Some(claim) => Some(claim.claim_name.clone()),
        None => volume.ephemeral.as_ref().map(|_| format!("{}-{}", pod.name_any(), volume.name)),
    };
    named.filter_map(name).collect()
}

/// Returns where the volumes of a pod can be.
pub fn volumes(claims: &[Claimed]) -> Volumes {
    let places: Result<Vec<_>, String> = claims.iter().map(place).collect();
    match places {
        Ok(places) => Volumes::On(places.into_iter().flatten().collect()),
        Err(why) => Volumes::Missing(why),
    }
}

/// Tells whether a claim waits to be told the node of its pod.
pub fn awaits_node(claimed: &Claimed) -> bool {
    let mode = claimed.class.as_ref().and_then(|class| class.volume_binding_mode.as_deref());
    claimed.claim.as_ref().is_some_and(|claim| !is_bound(claim)) && mode == Some(WAITS)
}

/// Tells whether a claim takes one of the volumes that exist once the node of its pod is known.
pub fn chooses(claimed: &Claimed) -> bool {
    awaits_node(claimed) && claimed.class.as_ref().is_some_and(|class| class.provisioner == NOBODY)
}

fn place(claimed: &Claimed) -> Result<Option<NodeSelector>, String> {
    let name = &claimed.name;
    let claim = claimed.claim.as_ref().ok_or_else(|| format!("claim `{name}` does not exist"))?;
    if claim.metadata.deletion_timestamp.is_some() {
        return Err(format!("claim `{name}` is being deleted"));
    }
    if claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Lost") {
        return Err(format!("claim `{name}` has lost its volume"));
    }
    if chooses(claimed) {
        if claimed.offers.is_empty() {
            return Err(format!(
                "claim `{name}` waits for a volume: no free volume matches, and none can be provisioned"
            ));
        }
        let reaches: Option<Vec<NodeSelector>> = claimed.offers.iter().map(|volume| reach(volume)).collect();
        return Ok(reaches.map(|all| NodeSelector { terms: all.into_iter().flat_map(|one| one.terms).collect() }));
    }
    if awaits_node(claimed) {
        let terms = claimed.class.as_ref().and_then(|class| class.allowed_topologies.as_deref());
        return Ok(terms.filter(|terms| !terms.is_empty()).map(allowed));
    }
    let volume = claimed.volume.as_ref().filter(|_| is_bound(claim));
    let volume = volume.ok_or_else(|| format!("claim `{name}` has no volume yet"))?;
    Ok(reach(volume))
}

/// Returns the nodes that a volume can be used on, if it is not all of them.
fn reach(volume: &PersistentVolume) -> Option<NodeSelector> {
    let affinity = volume.spec.as_ref().and_then(|spec| spec.node_affinity.as_ref()?.required.as_ref());
    affinity.map(node_selector)
}

fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    claim.annotations().contains_key(BIND_COMPLETED)
}

fn allowed(terms: &[TopologySelectorTerm]) -> NodeSelector {
    let term = |term: &TopologySelectorTerm| NodeSelectorTerm {
        expressions: term
            .match_label_expressions
            .iter()
            .flatten()
            .map(|wanted| one_of(&wanted.key, &wanted.values))
            .collect(),
        fields: Vec::new(),
    };
    NodeSelector { terms: terms.iter().map(term).collect() }
}
