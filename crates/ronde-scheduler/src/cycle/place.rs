//! Tries to place a gang: all of its minimum, or none of it.
//!
//! Pods are put one after the other on the best node that takes them, as [`View`] orders them; what is tried stands in the
//! state of the cluster and is taken back unless the gang is whole. Cost: pods × log(nodes); with rules about other pods,
//! or preferences for them, up to pods × nodes; with a topology, the same for each part of the network that is tried.

use std::{cmp::Reverse, collections::BTreeMap};

use super::{
    gang::{Bundle, Gang, Lacking},
    rules::{Rules, Unwanted},
    topology::{Scope, label_scopes, scopes},
};
use crate::{
    cluster::{
        Cluster,
        nodes::Mode,
        view::{Entry, View},
    },
    model::{group::Topology, pod::Volumes},
};

/// Why a gang could not be placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Miss {
    Lacking(Lacking),
    /// A volume of one of its pods is not there.
    Volume(String),
    /// No room for this pod, the first that found none.
    Room {
        pod: usize,
    },
    /// No part of the network that is close enough has room for all.
    Topology {
        topology: Topology,
        pod: usize,
    },
}

/// Pods with the nodes that they are tried on.
pub type Placement = Vec<(usize, usize)>;

/// Tries to place the minimum of a group; on success it stands as tried and is to be kept or taken back.
pub fn try_gang(cluster: &mut Cluster, group: usize, gang: &Gang, mode: Mode) -> Result<Placement, Miss> {
    if let Some(lacking) = &gang.lacking {
        return Err(Miss::Lacking(lacking.clone()));
    }
    if let Some(miss) = volume_missing(cluster, gang) {
        return Err(miss);
    }
    if let Some(pod) = hopeless(cluster, group, gang, mode) {
        return Err(Miss::Room { pod });
    }
    let mut bundles: Vec<&Bundle> = gang.bundles.iter().collect();
    let mut result = Trial::new(cluster, group, mode).gang(gang, &bundles);
    if matches!(result, Err(Miss::Room { .. })) && has_many_classes(cluster, gang) {
        // The order of the pods may have put small ones where only large ones fit.
        bundles.sort_by_cached_key(|bundle| Reverse(size(cluster, bundle)));
        result = Trial::new(cluster, group, mode).gang(gang, &bundles).or(result);
    }
    if matches!(result, Err(Miss::Room { .. }))
        && let Some(key) = wants_company(cluster, gang)
    {
        // The first may have gone where the others cannot follow.
        for scope in label_scopes(cluster, &key) {
            let found = Trial::new(cluster, group, mode).within(gang, &bundles, &scope);
            if found.is_ok() {
                return found;
            }
        }
    }
    result
}

/// Returns the label by which pods of a gang must be near others, if they must.
fn wants_company(cluster: &Cluster, gang: &Gang) -> Option<String> {
    let pods = gang.bundles.iter().flat_map(|bundle| &bundle.pods);
    let mut terms = pods.filter_map(|pod| cluster.pods.get(*pod).pod.spec.affinity.first());
    terms.next().map(|term| term.topology_key.clone())
}

/// Tries to place one bundle of a group that has its minimum.
pub fn try_surplus(cluster: &mut Cluster, group: usize, gang: &Gang, bundle: &Bundle) -> Option<Placement> {
    let topology = cluster.groups.get(group).group.as_ref().and_then(|group| group.topology.clone());
    let candidates = match topology {
        Some(topology) => scopes(cluster, &topology, &gang.pinned, &None),
        None => vec![None],
    };
    let mut trial = Trial::new(cluster, group, Mode::Now);
    let found = candidates.iter().any(|scope| trial.bundle(bundle, scope));
    found.then_some(trial.placed)
}

/// Tries to place a pod above the minimum of its group: where it was before, or elsewhere.
pub fn try_again(cluster: &mut Cluster, pod: usize, before: usize) -> Option<Placement> {
    let group = cluster.pods.get(pod).group;
    let mut trial = Trial::new(cluster, group, Mode::Now);
    if trial.place_at(pod, before) {
        return Some(trial.placed);
    }
    let gang = cluster.gang(group)?;
    let bundle = gang.bundles.iter().find(|bundle| bundle.pods == [pod])?;
    try_surplus(cluster, group, &gang, bundle)
}

/// Tries to place pods on given nodes, if that makes the gang whole.
pub fn try_exactly(cluster: &mut Cluster, group: usize, gang: &Gang, at: &[(usize, usize)]) -> Option<Placement> {
    let chosen: BTreeMap<usize, usize> = at.iter().copied().collect();
    let mut needs = gang.needs.clone();
    for bundle in gang.bundles.iter().filter(|bundle| bundle.pods.iter().all(|pod| chosen.contains_key(pod))) {
        needs.meet(bundle, cluster);
    }
    if !needs.are_met() {
        return None;
    }
    let mut trial = Trial::new(cluster, group, Mode::Now);
    let is_whole = at.iter().all(|(pod, node)| trial.place_at(*pod, *node));
    if !is_whole {
        trial.back_to(0);
    }
    is_whole.then_some(trial.placed)
}

/// Takes back what was tried.
pub fn take_back(cluster: &mut Cluster, placement: &[(usize, usize)]) {
    for (pod, node) in placement.iter().rev() {
        settle(cluster, *pod, *node);
        cluster.vacate(*pod);
    }
}

/// Ends a trial without taking it back.
pub fn keep(cluster: &mut Cluster, placement: &[(usize, usize)]) {
    placement.iter().for_each(|(pod, node)| settle(cluster, *pod, *node));
}

fn settle(cluster: &mut Cluster, pod: usize, node: usize) {
    let class = cluster.pods.get(pod).class;
    cluster.nodes.slots[node].trial.add_request(&cluster.classes.get(class).request, -1);
    cluster.nodes.touch(node);
}

fn volume_missing(cluster: &Cluster, gang: &Gang) -> Option<Miss> {
    let pods = gang.bundles.iter().flat_map(|bundle| &bundle.pods).take(gang.needs.pods as usize);
    let mut missing = pods.filter_map(|pod| match &cluster.pods.get(*pod).pod.spec.volumes {
        Volumes::Missing(reason) => Some(Miss::Volume(reason.clone())),
        Volumes::On(_) => None,
    });
    missing.next()
}

/// Returns a pod of a class that all nodes together have too little room for.
fn hopeless(cluster: &mut Cluster, group: usize, gang: &Gang, mode: Mode) -> Option<usize> {
    let state = cluster.groups.get(group);
    let (priority, has_claims) = (state.priority(), state.claims > 0);
    let mut capacity = |class: usize| {
        if has_claims { cluster.capacity(class, mode) } else { cluster.open_capacity(class, mode, priority) }
    };
    let class = gang.least.iter().find(|(class, least)| capacity(*class) < *least)?.0;
    let mut pods = gang.bundles.iter().flat_map(|bundle| &bundle.pods);
    pods.find(|pod| cluster.pods.get(**pod).class == class).copied()
}

fn has_many_classes(cluster: &Cluster, gang: &Gang) -> bool {
    let mut classes = gang.bundles.iter().flat_map(|bundle| &bundle.pods).map(|pod| cluster.pods.get(*pod).class);
    let first = classes.next();
    classes.any(|class| Some(class) != first)
}

/// Returns how much of the cluster a bundle asks for, by its scarcest resource.
fn size(cluster: &Cluster, bundle: &Bundle) -> i64 {
    let of_pod = |pod: &usize| {
        let request = &cluster.classes.get(cluster.pods.get(*pod).class).request;
        let part = |(id, amount): &(usize, i64)| super::ledger::portion(*amount, 1 << 30, cluster.nodes.total.get(*id));
        request.iter().skip(1).map(part).max().unwrap_or(0)
    };
    bundle.pods.iter().map(of_pod).max().unwrap_or(0)
}

impl Cluster {
    /// Returns how many pods of a class fit into a kind of room.
    pub fn capacity(&mut self, class: usize, mode: Mode) -> u64 {
        let view = self.take_view(class, mode);
        let total = view.total;
        self.views.insert((class, mode), view);
        total
    }

    /// Returns how many pods of a class fit beside what is held for groups of this or a higher priority.
    fn open_capacity(&mut self, class: usize, mode: Mode, priority: i32) -> u64 {
        let all = self.capacity(class, mode);
        if self.nodes.with_claims.is_empty() {
            return all;
        }
        let key = (class, mode, priority);
        let end = self.nodes.log_end();
        if let Some((known, count)) = self.open_capacities.get(&key)
            && *known == end
        {
            return *count;
        }
        let known = self.classes.get(class);
        let held = |node: &usize| {
            let place = &self.nodes.slots[*node];
            let fits = if known.mismatch(place).is_some() { 0 } else { place.fits(known, mode) };
            u64::from(fits - fits.min(place.fits_beside_claims(known, mode, (usize::MAX, priority))))
        };
        let count = all - self.nodes.with_claims.iter().map(held).sum::<u64>();
        self.open_capacities.insert(key, (end, count));
        count
    }

    /// Returns the view of a class on all nodes, up to date; it is to be put back.
    fn take_view(&mut self, class: usize, mode: Mode) -> View {
        let mut view = self.views.remove(&(class, mode)).unwrap_or_else(|| View::new(class, mode, None));
        view.used_at = self.cycles;
        view.sync(self.classes.get(class), &self.nodes);
        view
    }
}

struct Trial<'a> {
    cluster: &'a mut Cluster,
    group: usize,
    priority: i32,
    mode: Mode,
    placed: Placement,
    /// Views of parts of the network, by class and name.
    views: BTreeMap<(usize, String), View>,
    rules: BTreeMap<usize, Rules>,
}

impl<'a> Trial<'a> {
    fn new(cluster: &'a mut Cluster, group: usize, mode: Mode) -> Self {
        let priority = cluster.groups.get(group).priority();
        Self { cluster, group, priority, mode, placed: Vec::new(), views: BTreeMap::new(), rules: BTreeMap::new() }
    }

    /// Tries the closest parts of the network first; without a topology everywhere at once.
    fn gang(mut self, gang: &Gang, bundles: &[&Bundle]) -> Result<Placement, Miss> {
        let group = self.cluster.groups.get(self.group).group.as_ref();
        let Some(topology) = group.and_then(|group| group.topology.clone()) else {
            return self.within(gang, bundles, &None);
        };
        let mut missed = None;
        for scope in scopes(self.cluster, &topology, &gang.pinned, &None) {
            match self.minimum(gang, bundles, &scope) {
                Ok(()) => return Ok(self.placed),
                Err(Miss::Room { pod } | Miss::Topology { pod, .. }) => missed = Some(pod),
                Err(miss) => return Err(miss),
            }
        }
        let pod = missed.or_else(|| gang.bundles.first().and_then(|bundle| bundle.pods.first()).copied());
        Err(pod.map_or(Miss::Lacking(Lacking::Pods { have: 0, need: 0 }), |pod| Miss::Topology { topology, pod }))
    }

    fn within(mut self, gang: &Gang, bundles: &[&Bundle], scope: &Scope) -> Result<Placement, Miss> {
        self.minimum(gang, bundles, scope).map(|()| self.placed)
    }

    /// Places bundles until the minimum is met, or takes all of them back.
    fn minimum(&mut self, gang: &Gang, bundles: &[&Bundle], scope: &Scope) -> Result<(), Miss> {
        let mut needs = gang.needs.clone();
        let mut failed: Option<Miss> = None;
        let mut without_room = Vec::new();
        for bundle in bundles {
            if needs.are_met() {
                break;
            }
            let class = self.cluster.pods.get(bundle.pods[0]).class;
            if without_room.contains(&class) {
                continue;
            }
            if self.bundle(bundle, scope) {
                needs.meet(bundle, self.cluster);
                continue;
            }
            let pod = bundle.pods[0];
            failed.get_or_insert(match bundle.topology.clone() {
                Some(topology) => Miss::Topology { topology, pod },
                None => Miss::Room { pod },
            });
            if bundle.pods.len() == 1 && bundle.topology.is_none() {
                without_room.push(class);
            }
        }
        if needs.are_met() {
            return Ok(());
        }
        self.back_to(0);
        Err(failed.unwrap_or(Miss::Lacking(Lacking::Pods { have: 0, need: gang.needs.pods })))
    }

    /// Places all pods of a bundle, or none.
    fn bundle(&mut self, bundle: &Bundle, scope: &Scope) -> bool {
        let Some(topology) = &bundle.topology else { return self.all(&bundle.pods, scope) };
        let candidates = scopes(self.cluster, topology, &bundle.pinned, scope);
        candidates.iter().any(|inner| self.all(&bundle.pods, inner))
    }

    fn all(&mut self, pods: &[usize], scope: &Scope) -> bool {
        let mark = self.placed.len();
        let is_whole = pods.iter().all(|pod| self.place(*pod, scope));
        if !is_whole {
            self.back_to(mark);
        }
        is_whole
    }

    fn back_to(&mut self, mark: usize) {
        let undone = self.placed.split_off(mark);
        if !undone.is_empty() {
            take_back(self.cluster, &undone);
            self.rules.clear();
        }
    }

    fn place(&mut self, pod: usize, scope: &Scope) -> bool {
        let Some(node) = self.best(pod, scope) else { return false };
        self.put(pod, node);
        true
    }

    fn place_at(&mut self, pod: usize, node: usize) -> bool {
        self.prepare_rules(pod);
        let state = self.cluster.pods.get(pod);
        let (class, place) = (self.cluster.classes.get(state.class), &self.cluster.nodes.slots[node]);
        let unwanted = Unwanted::new(self.cluster, &state.pod);
        let fits =
            class.mismatch(place).is_none() && place.fits(class, self.mode) > 0 && self.takes(pod, node, &unwanted);
        if fits {
            self.put(pod, node);
        }
        fits
    }

    fn put(&mut self, pod: usize, node: usize) {
        let class = self.cluster.pods.get(pod).class;
        self.cluster.occupy(pod, node);
        self.cluster.nodes.slots[node].trial.add_request(&self.cluster.classes.get(class).request, 1);
        self.placed.push((pod, node));
        let state = self.cluster.pods.get(pod);
        let labels = &self.cluster.nodes.slots[node].node.labels;
        for rules in self.rules.values_mut() {
            rules.note(state, labels, &self.cluster.neighbours.namespaces);
        }
    }

    fn prepare_rules(&mut self, pod: usize) {
        let class = self.cluster.pods.get(pod).class;
        if self.cluster.classes.get(class).has_rules && !self.rules.contains_key(&class) {
            let known = self.cluster.classes.get(class).clone();
            let namespace = self.cluster.pods.id(pod).namespace().to_owned();
            self.rules.insert(class, Rules::new(self.cluster, &known, &namespace));
        }
    }

    /// Returns the best node that takes a pod.
    fn best(&mut self, pod: usize, scope: &Scope) -> Option<usize> {
        self.prepare_rules(pod);
        let class = self.cluster.pods.get(pod).class;
        let Some(domain) = scope else {
            let mut view = self.cluster.take_view(class, self.mode);
            let found = self.choose(pod, &mut view);
            self.cluster.views.insert((class, self.mode), view);
            return found;
        };
        let key = (class, domain.name.clone());
        let new = || View::new(class, self.mode, Some(domain.clone()));
        let mut view = self.views.remove(&key).unwrap_or_else(new);
        view.sync(self.cluster.classes.get(class), &self.cluster.nodes);
        let found = self.choose(pod, &mut view);
        self.views.insert(key, view);
        found
    }

    fn choose(&self, pod: usize, view: &mut View) -> Option<usize> {
        let class = self.cluster.classes.get(view.class);
        let unwanted = Unwanted::new(self.cluster, &self.cluster.pods.get(pod).pod);
        if class.has_soft_rules {
            let rules = self.rules.get(&view.class)?;
            let labels = |entry: &Entry| &self.cluster.nodes.slots[entry.node].node.labels;
            let open = view.entries(class, &self.cluster.nodes).filter(|entry| self.takes(pod, entry.node, &unwanted));
            let rated = open.map(|entry| entry.plus(rules.preference(labels(&entry))));
            return rated.max().map(|entry| entry.node);
        }
        let heap = view.heap(class, &self.cluster.nodes);
        let mut aside = Vec::new();
        let mut found = None;
        while let Some(entry) = heap.pop() {
            if !entry.is_current(&self.cluster.nodes) {
                continue;
            }
            aside.push(entry);
            if self.takes(pod, entry.node, &unwanted) {
                found = Some(entry.node);
                break;
            }
        }
        heap.extend(aside);
        found
    }

    /// Tells whether a node with room takes a pod, for claims of others and for the pods around it.
    fn takes(&self, pod: usize, node: usize, unwanted: &Unwanted) -> bool {
        let state = self.cluster.pods.get(pod);
        let place = &self.cluster.nodes.slots[node];
        let class = self.cluster.classes.get(state.class);
        let labels = &place.node.labels;
        let namespaces = &self.cluster.neighbours.namespaces;
        (place.claims.is_empty() || place.fits_beside_claims(class, self.mode, (self.group, self.priority)) > 0)
            && (unwanted.is_empty() || !unwanted.is_at(labels))
            && self.rules.get(&state.class).is_none_or(|rules| rules.against(&state.pod, labels, namespaces).is_none())
    }
}
