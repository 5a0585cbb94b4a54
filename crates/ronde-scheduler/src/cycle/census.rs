//! Counts why nodes do not take pods of a class, for the sentence that tells it.

use std::collections::BTreeMap;

use super::rules::{Rule, Rules, Unwanted};
use crate::{
    cluster::{
        Cluster,
        classes::{Class, Mismatch},
        nodes::{Mode, NodeState},
        table::PODS_ID,
    },
    model::{amounts::quantity, ids::NodeName, node::Effect},
};

/// How many nodes with room are named.
const NAMED_MAX: usize = 3;

/// Why a node does not take a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Refusal {
    Mismatch(Mismatch),
    Lacks(usize),
    Port,
    Rule(Rule),
    Held,
}

/// Nodes that refuse for one reason.
#[derive(Debug, Clone, Default)]
struct Refused {
    count: usize,
    need: i64,
    /// The most that is free of a resource that is lacking, and where.
    most_free: Option<(i64, NodeName)>,
    is_offered: bool,
}

/// What all nodes say to pods of a class.
#[derive(Debug, Clone)]
pub struct Census {
    /// Tells it from every other census.
    pub serial: u64,
    nodes: usize,
    /// How many pods fit where, the most first.
    room: Vec<(u32, NodeName)>,
    refused: Vec<(Refusal, Refused)>,
    names: Vec<String>,
}

impl Census {
    /// Asks every node about a pod; stands for all pods of its class.
    pub fn new(cluster: &mut Cluster, pod: usize, serial: u64) -> Self {
        let state = cluster.pods.get(pod).clone();
        let class = cluster.classes.get(state.class).clone();
        let rules = class.has_rules.then(|| Rules::new(cluster, &class, state.pod.id.namespace()));
        let unwanted = Unwanted::new(cluster, &state.pod);
        let group = cluster.groups.get(state.group);
        let mut room = Vec::new();
        let mut refused: BTreeMap<Refusal, Refused> = BTreeMap::new();
        let mut nodes = 0;
        for (_, place) in cluster.nodes.present() {
            nodes += 1;
            let neighbour = || {
                let labels = &place.node.labels;
                let rule = rules.as_ref();
                let rule = rule.and_then(|rules| rules.against(&state.pod, labels, &cluster.neighbours.namespaces));
                rule.or_else(|| unwanted.is_at(labels).then_some(Rule::Unwanted))
            };
            let is_held = || place.fits_beside_claims(&class, Mode::Now, (state.group, group.priority())) == 0;
            let refusal = match refusal(&class, place) {
                None => neighbour().map(Refusal::Rule).or_else(|| is_held().then_some(Refusal::Held)),
                refusal => refusal,
            };
            match refusal {
                None => room.push((place.fits(&class, Mode::Now), place.node.name.clone())),
                Some(refusal) => note(&mut refused, refusal, &class, place),
            }
        }
        room.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        let mut refused: Vec<_> = refused.into_iter().collect();
        refused.sort_by(|a, b| b.1.count.cmp(&a.1.count).then_with(|| a.0.cmp(&b.0)));
        let names = (0..cluster.resources.len()).map(|id| cluster.resources.name(id).to_string()).collect();
        Self { serial, nodes, room, refused, names }
    }

    /// Tells whether no node would do however empty it were.
    pub fn is_mismatch(&self) -> bool {
        let is_static = |(refusal, refused): &(Refusal, Refused)| match refusal {
            Refusal::Mismatch(_) => true,
            Refusal::Lacks(_) => !refused.is_offered,
            _ => false,
        };
        self.nodes > 0 && self.room.is_empty() && self.refused.iter().all(is_static)
    }

    /// Tells whether some room is there but held for others.
    pub fn is_held(&self) -> bool {
        self.refused.iter().any(|(refusal, _)| *refusal == Refusal::Held)
    }

    /// Returns how many pods there is room for.
    pub fn total(&self) -> u64 {
        self.room.iter().map(|(fits, _)| u64::from(*fits)).sum()
    }

    /// Returns what nodes say, as a part of a sentence.
    pub fn text(&self) -> String {
        if self.nodes == 0 {
            return "there are no nodes".to_owned();
        }
        let reasons: Vec<String> =
            self.refused.iter().map(|(refusal, refused)| self.reason(refusal, refused)).collect();
        let reasons = reasons.join(", ");
        if self.room.is_empty() {
            return format!("0 of {} nodes fit: {reasons}", self.nodes);
        }
        let named: Vec<String> =
            self.room.iter().take(NAMED_MAX).map(|(fits, name)| format!("{fits} on {name}")).collect();
        let more = self.room.len().saturating_sub(NAMED_MAX);
        let more = if more > 0 { format!(" and {more} more nodes") } else { String::new() };
        let room = format!("room for {}: {}{more}", self.total(), named.join(", "));
        let refusing = self.nodes - self.room.len();
        match refusing {
            0 => room,
            _ => format!(
                "{room}; {refusing} of {} nodes {} not fit: {reasons}",
                self.nodes,
                verb(refusing, "does", "do")
            ),
        }
    }

    fn reason(&self, refusal: &Refusal, refused: &Refused) -> String {
        let count = refused.count;
        let say = |one: &str, many: &str, rest: &str| format!("{count} {} {rest}", verb(count, one, many));
        match refusal {
            Refusal::Mismatch(Mismatch::NotReady) => say("is", "are", "not ready"),
            Refusal::Mismatch(Mismatch::Cordoned) => say("is", "are", "cordoned"),
            Refusal::Mismatch(Mismatch::Taint(taint)) => {
                let equals = if taint.value.is_empty() { "" } else { "=" };
                let effect = if taint.effect == Effect::NoExecute { "NoExecute" } else { "NoSchedule" };
                say("has", "have", &format!("taint {}{equals}{}:{effect}", taint.key, taint.value))
            }
            Refusal::Mismatch(Mismatch::Labels) => say("does", "do", "not match the node selector or affinity"),
            Refusal::Mismatch(Mismatch::Volume) => say("is", "are", "not where the volumes are"),
            Refusal::Lacks(PODS_ID) => say("takes", "take", "no more pods"),
            Refusal::Lacks(id) => say("lacks", "lack", &self.lack(*id, refused)),
            Refusal::Port => say("has", "have", "a wanted host port taken"),
            Refusal::Rule(Rule::Affinity) => say("is", "are", "not near the pods that it wants near"),
            Refusal::Rule(Rule::AntiAffinity) => say("is", "are", "near pods that it wants away"),
            Refusal::Rule(Rule::Unwanted) => say("is", "are", "near pods that want it away"),
            Refusal::Rule(Rule::Spread) => say("has", "have", "too many already to be spread evenly"),
            Refusal::Held => say("is", "are", "held for others"),
        }
    }

    fn lack(&self, id: usize, refused: &Refused) -> String {
        let name = &self.names[id];
        let need = quantity(name, refused.need);
        match &refused.most_free {
            Some((free, node)) if refused.is_offered => {
                format!("{name} (need {need}, most free {} on {node})", quantity(name, (*free).max(0)))
            }
            _ => format!("{name} (no such node offers any)"),
        }
    }
}

fn refusal(class: &Class, place: &NodeState) -> Option<Refusal> {
    if let Some(mismatch) = class.mismatch(place) {
        return Some(Refusal::Mismatch(mismatch));
    }
    // Of several resources that are lacking one that is offered too little of says most.
    let lacks = |(id, amount): &&(usize, i64)| place.room(*id, Mode::Now) < *amount;
    let lacking = class.request.iter().filter(lacks).max_by_key(|(id, _)| (*id != PODS_ID, place.alloc.get(*id) == 0));
    match lacking {
        Some((id, _)) => Some(Refusal::Lacks(*id)),
        None if place.fits(class, Mode::Now) == 0 => Some(Refusal::Port),
        None => None,
    }
}

fn note(all: &mut BTreeMap<Refusal, Refused>, refusal: Refusal, class: &Class, place: &NodeState) {
    let lacking = if let Refusal::Lacks(id) = refusal { Some(id) } else { None };
    let refused = all.entry(refusal).or_default();
    refused.count += 1;
    let Some(id) = lacking else { return };
    refused.need = class.request.iter().find(|(other, _)| *other == id).map_or(0, |(_, amount)| *amount);
    refused.is_offered |= place.alloc.get(id) > 0;
    let free = place.room(id, Mode::Now);
    if refused.most_free.as_ref().is_none_or(|(most, _)| free > *most) {
        refused.most_free = Some((free, place.node.name.clone()));
    }
}

fn verb<'a>(count: usize, one: &'a str, many: &'a str) -> &'a str {
    if count == 1 { one } else { many }
}
