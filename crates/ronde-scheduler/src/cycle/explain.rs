//! One sentence for every group that waits: what binds, and how much is missing.
//!
//! What nodes say is counted once for each class and cycle; groups that have a sentence get a new one only for a few classes
//! in a cycle, so that many waiting groups do not slow down every cycle.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{Cycle, Wait, census::Census, gang::Lacking, jobs::Full, ledger::Exceeded, place::Miss, topology::scopes};
use crate::{
    cluster::{nodes::Mode, view::View},
    model::{
        amounts::{PODS, quantity, rough_quantity},
        group::{Topology, Within},
    },
    plan::{Reason, Waiting},
};

/// Classes that are counted again in one cycle only to bring sentences up to date.
const REFRESHED_MAX: usize = 1;

impl Cycle<'_> {
    pub fn explain(&mut self) {
        let waits = std::mem::take(&mut self.waits);
        let mut sentences = Sentences::default();
        for (slot, wait) in waits {
            let state = self.cluster.groups.get_mut(slot);
            state.noticed = state.noticed.or(Some(self.now));
            let end = self.not_yet(slot);
            if let Some((reason, message)) = self.sentence(slot, &wait, &end, &mut sentences) {
                self.record_reason(slot, reason, format!("{message}{end}"));
            }
        }
    }

    fn record_reason(&mut self, slot: usize, reason: Reason, message: String) {
        let state = self.cluster.groups.get_mut(slot);
        if state.told.as_ref().is_none_or(|(told, text)| *told != reason || *text != message) {
            state.told = Some((reason, message.clone()));
            self.plan.waiting.push(Waiting { group: state.id.clone(), reason, message });
        }
    }

    /// Returns the sentence without its end, or None if the last one is to stay.
    fn sentence(&mut self, slot: usize, wait: &Wait, end: &str, sentences: &mut Sentences) -> Option<(Reason, String)> {
        let queue =
            self.cluster.groups.get(slot).group.as_ref().map_or_else(String::new, |group| group.queue.to_string());
        Some(match wait {
            Wait::QueueMissing => (Reason::QueueMissing, format!("queue `{queue}` does not exist")),
            Wait::QueueNotLeaf => {
                (Reason::QueueNotLeaf, format!("queue `{queue}` has queues below it; only the lowest run groups"))
            }
            Wait::QueueClosed => (Reason::QueueClosed, format!("queue `{queue}` is closed")),
            Wait::QueueLimit(exceeded) => (Reason::QueueLimit, self.limit(&queue, exceeded)),
            Wait::QueueFull(full) => (Reason::QueueLimit, full_sentence(&queue, full)),
            Wait::Behind(ahead) => (
                Reason::BehindInQueue,
                format!("queue `{queue}` is strictly first in, first out, and `{ahead}` is first"),
            ),
            Wait::NotAdmitted => (Reason::NotEnoughResources, self.not_admitted(slot)),
            Wait::Coming => (Reason::WaitingForRoom, self.coming(slot)),
            Wait::Held => (Reason::WaitingForRoom, self.held(slot)),
            Wait::Miss(Miss::Lacking(lacking)) => lacking_sentence(lacking),
            Wait::Miss(Miss::Volume(why)) => (Reason::VolumeMissing, why.clone()),
            Wait::Miss(Miss::Topology { topology, pod }) => {
                (Reason::TopologyNotSatisfied, self.topology(slot, topology, *pod))
            }
            Wait::Miss(Miss::Room { pod }) => return self.room(slot, *pod, end, sentences),
        })
    }

    fn limit(&self, own: &str, exceeded: &Exceeded) -> String {
        let name = self.cluster.resources.name(exceeded.resource);
        let [wanted, allocated, limit] =
            [exceeded.wanted, exceeded.allocated, exceeded.limit].map(|amount| quantity(name, amount));
        let above = if exceeded.queue.as_str() == own { String::new() } else { format!(" above `{own}`") };
        let queue = format!("queue `{}`{above}", exceeded.queue);
        let held = if exceeded.is_held { ", and the rest is held for a group that has waited longer" } else { "" };
        if exceeded.wanted > exceeded.limit {
            format!("needs {wanted} {name}; {queue} is limited to {limit}")
        } else if exceeded.allocated >= exceeded.limit {
            format!("needs {wanted} {name}; {queue} is at its limit of {limit}")
        } else {
            format!("needs {wanted} {name}; {queue} uses {allocated} of its limit of {limit}{held}")
        }
    }

    fn not_admitted(&mut self, slot: usize) -> String {
        let asked = self.cluster.groups.get(slot).group.as_ref().and_then(|group| group.min_resources.clone());
        let row = self.cluster.resources.row(&asked.unwrap_or_default());
        let nodes = &self.cluster.nodes;
        let part = |(id, amount): (usize, i64)| {
            let name = self.cluster.resources.name(id);
            let free = (nodes.total.get(id) - nodes.used.get(id)).max(0);
            let word = if &**name == PODS && amount == 1 { "pod" } else { name };
            format!("{} {word} ({} free)", quantity(name, amount), rough_quantity(name, free))
        };
        let parts: Vec<String> = row.positive().into_iter().map(part).collect();
        format!("its pods are created when there is room: needs {}", parts.join(", "))
    }

    fn coming(&self, slot: usize) -> String {
        let nodes = self.claimed(slot);
        let leaving: usize = nodes.iter().map(|node| self.leaving_on(*node)).sum();
        let pods = if leaving == 1 { "1 pod".to_owned() } else { format!("{leaving} pods") };
        format!("waits for {pods} to leave {}", self.names(&nodes))
    }

    fn leaving_on(&self, node: usize) -> usize {
        let pods = self.cluster.nodes.slots[node].pods.iter();
        pods.filter(|pod| self.cluster.pods.get(**pod).is_leaving()).count()
    }

    fn held(&self, slot: usize) -> String {
        let nodes = self.claimed(slot);
        format!("has waited long: room on {} is held for it until the pods there end", self.names(&nodes))
    }

    fn claimed(&self, slot: usize) -> BTreeSet<usize> {
        let pods = self.cluster.groups.get(slot).pods.iter();
        pods.filter_map(|pod| self.cluster.pods.get(*pod).claim).collect()
    }

    fn names(&self, nodes: &BTreeSet<usize>) -> String {
        let names: BTreeSet<&str> = nodes.iter().map(|node| self.cluster.nodes.name(*node).as_str()).collect();
        let named: Vec<&str> = names.iter().take(3).copied().collect();
        let more = names.len() - named.len();
        if more > 0 { format!("{} and {more} more nodes", named.join(", ")) } else { named.join(", ") }
    }

    fn topology(&mut self, slot: usize, topology: &Topology, pod: usize) -> String {
        let needs = self.needs(slot, pod);
        let class = self.cluster.pods.get(pod).class;
        let mut best: Option<(u64, String)> = None;
        for scope in scopes(self.cluster, topology, &[], &None).into_iter().flatten() {
            let mut view = View::new(class, Mode::Now, Some(scope.clone()));
            view.sync(self.cluster.classes.get(class), &self.cluster.nodes);
            if best.as_ref().is_none_or(|(most, _)| view.total > *most) {
                best = Some((view.total, scope.name.clone()));
            }
        }
        let part = match &topology.within {
            Within::Tier(tier) => format!("within one part of the network up to tier {tier}"),
            Within::Label(label) => format!("on nodes with one value of the label `{label}`"),
        };
        match best {
            Some((room, name)) => format!("{needs} {part}; `{name}` has room for {room}"),
            None => format!("{needs} {part}; there is none"),
        }
    }

    /// Returns what is missing: `needs 4 pods × 1 nvidia.com/gpu`.
    fn needs(&mut self, slot: usize, pod: usize) -> String {
        let class = self.cluster.pods.get(pod).class;
        let count = self.count_needed(slot, class);
        let pods = if count == 1 { "1 pod".to_owned() } else { format!("{count} pods") };
        let requests = &self.cluster.classes.get(class).spec.requests;
        if requests.is_empty() { format!("needs {pods}") } else { format!("needs {pods} × {requests}") }
    }

    fn count_needed(&mut self, slot: usize, class: usize) -> u64 {
        let Some(gang) = self.cluster.gang(slot) else { return 0 };
        let of_class = gang.least.iter().find(|(other, _)| *other == class).map(|(_, least)| *least);
        of_class.unwrap_or(u64::from(gang.needs.pods))
    }

    fn room(&mut self, slot: usize, pod: usize, end: &str, sentences: &mut Sentences) -> Option<(Reason, String)> {
        let class = self.cluster.pods.get(pod).class;
        let is_told = self.cluster.groups.get(slot).told.is_some();
        let census = sentences.census(self, class, pod, is_told)?;
        let count = self.count_needed(slot, class);
        let made_for = Some((census.serial, count, end.to_owned()));
        let state = self.cluster.groups.get_mut(slot);
        if is_told && state.told_for == made_for {
            return None;
        }
        state.told_for = made_for;
        let reason = if census.is_mismatch() {
            Reason::NoNodeMatches
        } else if census.is_held() && census.total() < count {
            Reason::HeldForOthers
        } else {
            Reason::NotEnoughResources
        };
        let together = if census.total() >= count { ", but not for all its pods together" } else { "" };
        Some((reason, format!("{}; {}{together}", self.needs(slot, pod), census.text())))
    }
}

fn full_sentence(own: &str, full: &Full) -> String {
    let above = if full.queue.as_str() == own { String::new() } else { format!(" above `{own}`") };
    let jobs = if full.limit == 1 { "job" } else { "jobs" };
    format!("queue `{}`{above} is at its limit of {} running {jobs}", full.queue, full.limit)
}

fn lacking_sentence(lacking: &Lacking) -> (Reason, String) {
    match lacking {
        Lacking::Pods { have, need } => (Reason::NotEnoughPods, format!("{have} of {need} pods exist")),
        Lacking::Task { task, have, need } => {
            (Reason::NotEnoughPodsOfTask, format!("{have} of {need} pods of task `{task}` exist"))
        }
        Lacking::SubGroups { name, have, need } => {
            (Reason::NotEnoughPods, format!("{have} of {need} subgroups `{name}` have their pods"))
        }
    }
}

/// What nodes say to each class, as counted in this cycle.
#[derive(Default)]
struct Sentences {
    counted: BTreeMap<usize, Option<Arc<Census>>>,
    refreshed: usize,
}

impl Sentences {
    /// Returns the census of a class; None if it is not worth another one in this cycle.
    fn census(&mut self, cycle: &mut Cycle<'_>, class: usize, pod: usize, is_told: bool) -> Option<Arc<Census>> {
        if let Some(Some(census)) = self.counted.get(&class) {
            return Some(census.clone());
        }
        let end = cycle.cluster.nodes.log_end();
        let known =
            cycle.cluster.censuses.get(&class).filter(|(seen, _)| *seen == end).map(|(_, census)| census.clone());
        let census = if let Some(known) = known {
            known
        } else {
            if is_told && self.refreshed >= REFRESHED_MAX {
                return None;
            }
            self.refreshed += usize::from(is_told);
            cycle.cluster.census_serial += 1;
            let serial = cycle.cluster.census_serial;
            let before = cycle.cluster.censuses.remove(&class);
            let before = before.as_ref().map(|(seen, census)| (*seen, &**census));
            Arc::new(Census::new(cycle.cluster, pod, serial, before))
        };
        cycle.cluster.censuses.insert(class, (end, census.clone()));
        self.counted.insert(class, Some(census.clone()));
        Some(census)
    }
}
