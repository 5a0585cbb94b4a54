//! Parts of the network, and which of them a gang may be in.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    cluster::{Cluster, view::Domain},
    model::{
        group::{Strictness, Topology, Within},
        ids::HyperNodeName,
    },
};

/// How deep parts of the network may be nested.
const DEPTH_MAX: usize = 16;

/// Where pods may be tried: a part of the network, or everywhere.
pub type Scope = Option<Arc<Domain>>;

/// Returns the parts of the network in which pods may be placed, the closest first; the last resort of a soft wish is
/// `outer` itself.
pub fn scopes(cluster: &mut Cluster, topology: &Topology, pinned: &[usize], outer: &Scope) -> Vec<Scope> {
    let is_hard = topology.strictness == Strictness::Hard;
    let (domains, highest_tier) = match &topology.within {
        Within::Tier(highest) => (domains(cluster), *highest),
        Within::Label(label) => (Arc::new(label_domains(cluster, label)), u32::MAX),
    };
    let fits = |domain: &&Arc<Domain>| {
        (!is_hard || domain.tier <= highest_tier)
            && outer.as_ref().is_none_or(|outer| domain.is_within(outer))
            && pinned.iter().all(|node| domain.contains(*node))
    };
    let mut scopes: Vec<Scope> = domains.iter().filter(fits).cloned().map(Some).collect();
    if !is_hard {
        scopes.push(outer.clone());
    }
    scopes
}

/// Returns all parts of the network by tier and name; made anew when nodes or parts changed.
fn domains(cluster: &mut Cluster) -> Arc<Vec<Arc<Domain>>> {
    if let Some((shape, domains)) = &cluster.domains
        && *shape == cluster.nodes.shape
    {
        return domains.clone();
    }
    let domains = Arc::new(build(cluster));
    cluster.domains = Some((cluster.nodes.shape, domains.clone()));
    domains
}

fn build(cluster: &Cluster) -> Vec<Arc<Domain>> {
    let mut domains: BTreeMap<(u32, String), BTreeSet<usize>> = BTreeMap::new();
    for hypernode in cluster.hypernodes.values() {
        let mut nodes = BTreeSet::new();
        collect(cluster, &hypernode.name, DEPTH_MAX, &mut nodes);
        domains.insert((hypernode.tier, hypernode.name.to_string()), nodes);
    }
    for (tier, label) in (1..).zip(&cluster.tier_labels) {
        for (slot, state) in cluster.nodes.present() {
            if let Some(value) = state.node.labels.get(label) {
                domains.entry((tier, format!("{label}={value}"))).or_default().insert(slot);
            }
        }
    }
    let domain = |((tier, name), nodes): ((u32, String), BTreeSet<usize>)| {
        Arc::new(Domain { name, tier, nodes: nodes.into_iter().collect() })
    };
    domains.into_iter().map(domain).collect()
}

/// Returns the nodes with each value of a label, as places to try.
pub fn label_scopes(cluster: &Cluster, label: &str) -> Vec<Scope> {
    label_domains(cluster, label).into_iter().map(Some).collect()
}

/// Returns the nodes with each value of a label.
fn label_domains(cluster: &Cluster, label: &str) -> Vec<Arc<Domain>> {
    let mut by_value: BTreeMap<&String, Vec<usize>> = BTreeMap::new();
    for (slot, state) in cluster.nodes.present() {
        if let Some(value) = state.node.labels.get(label) {
            by_value.entry(value).or_default().push(slot);
        }
    }
    let domain = |(value, mut nodes): (&String, Vec<usize>)| {
        nodes.sort_unstable();
        Arc::new(Domain { name: format!("{label}={value}"), tier: 0, nodes })
    };
    by_value.into_iter().map(domain).collect()
}

fn collect(cluster: &Cluster, name: &HyperNodeName, depth: usize, nodes: &mut BTreeSet<usize>) {
    let Some(hypernode) = cluster.hypernodes.get(name).filter(|_| depth > 0) else { return };
    let known = hypernode.nodes.iter().filter_map(|node| cluster.nodes.find(node));
    nodes.extend(known.filter(|slot| cluster.nodes.slots[*slot].is_present));
    hypernode.children.iter().for_each(|child| collect(cluster, child, depth - 1, nodes));
}
