//! Counts why nodes do not take pods of a class, for the sentence that tells it.
//!
//! What a node says by itself is kept from one census of a class to the next, so that only those are asked again that
//! have changed; the count goes over small values and not over nodes.

use std::{cmp::Reverse, collections::BTreeMap};

use super::rules::{Rule, Rules, Unwanted};
use crate::{
    cluster::{
        Cluster,
        classes::{Class, Mismatch},
        nodes::{Mode, NodeState, Nodes},
        table::PODS_ID,
    },
    model::{
        amounts::{quantity, rough_quantity},
        ids::NodeName,
        node::Effect,
    },
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

/// What a node says to a class by itself, whatever runs on others and whatever is held.
#[derive(Debug, Clone, Copy)]
enum NodeAnswer {
    Absent,
    /// It has room.
    Open,
    /// The number of the reason and, if a resource is lacking, how much of it is free and whether any is offered.
    Refuses {
        reason: u32,
        free: i64,
        is_offered: bool,
        rank: u32,
    },
}

/// What all nodes say by themselves, by their slots.
#[derive(Debug, Clone, Default)]
struct Answers {
    list: Vec<NodeAnswer>,
    reasons: Vec<Refusal>,
    numbers: BTreeMap<Refusal, u32>,
}

impl Answers {
    fn ask(&mut self, slot: usize, class: &Class, nodes: &Nodes) {
        let place = &nodes.slots[slot];
        self.list[slot] = match refusal(class, place) {
            _ if !place.is_present => NodeAnswer::Absent,
            None => NodeAnswer::Open,
            Some(refusal) => {
                let lacking = if let Refusal::Lacks(id) = refusal { Some(id) } else { None };
                NodeAnswer::Refuses {
                    reason: self.number(refusal),
                    free: lacking.map_or(0, |id| place.room(id, Mode::Now)),
                    is_offered: lacking.is_some_and(|id| place.alloc.get(id) > 0),
                    rank: place.rank,
                }
            }
        };
    }

    fn number(&mut self, refusal: Refusal) -> u32 {
        if let Some(number) = self.numbers.get(&refusal) {
            return *number;
        }
        let number = u32::try_from(self.reasons.len()).unwrap_or(u32::MAX);
        self.reasons.push(refusal.clone());
        self.numbers.insert(refusal, number);
        number
    }

    /// Sums up those who refuse, by reason.
    fn sum_up(&self, class: &Class, nodes: &Nodes) -> Vec<Refused> {
        let mut sums = vec![(0, false, None::<(i64, Reverse<u32>, usize)>); self.reasons.len()];
        for (slot, answer) in self.list.iter().enumerate() {
            let NodeAnswer::Refuses { reason, free, is_offered, rank } = *answer else { continue };
            let (count, offered, most) = &mut sums[reason as usize];
            *count += 1;
            *offered |= is_offered;
            *most = (*most).max(Some((free, Reverse(rank), slot)));
        }
        let sums = self.reasons.iter().zip(sums);
        let refused = sums.map(|(refusal, (count, is_offered, most))| {
            let lacking = if let Refusal::Lacks(id) = refusal { Some(id) } else { None };
            let need = lacking.and_then(|id| class.request.iter().find(|(other, _)| other == id));
            let most_free = most.filter(|_| lacking.is_some()).map(|(free, _, slot)| (free, nodes.name(slot).clone()));
            Refused { count, need: need.map_or(0, |(_, amount)| *amount), most_free, is_offered }
        });
        refused.collect()
    }
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
    answers: Answers,
}

impl Census {
    /// Asks every node about a pod; stands for all pods of its class. `before` is an earlier one, with the position of the
    /// log of nodes at that time.
    pub fn new(cluster: &mut Cluster, pod: usize, serial: u64, before: Option<(u64, &Self)>) -> Self {
        let state = cluster.pods.get(pod).clone();
        let class = cluster.classes.get(state.class).clone();
        let answers = ask(&class, &cluster.nodes, before);
        let rules = class.has_rules.then(|| Rules::new(cluster, &class, state.pod.id.namespace()));
        let unwanted = Unwanted::new(cluster, &state.pod);
        let group = cluster.groups.get(state.group);
        let mut room = Vec::new();
        let mut others: BTreeMap<Refusal, Refused> = BTreeMap::new();
        let open = answers.list.iter().enumerate().filter(|(_, answer)| matches!(answer, NodeAnswer::Open));
        for place in open.map(|(slot, _)| &cluster.nodes.slots[slot]) {
            let labels = &place.node.labels;
            let rule = rules.as_ref();
            let rule = rule.and_then(|rules| rules.against(&state.pod, labels, &cluster.neighbours.namespaces));
            let rule = rule.or_else(|| unwanted.is_at(labels).then_some(Rule::Unwanted));
            let is_held = || place.fits_beside_claims(&class, Mode::Now, (state.group, group.priority())) == 0;
            match rule.map(Refusal::Rule).or_else(|| is_held().then_some(Refusal::Held)) {
                None => room.push((place.fits(&class, Mode::Now), place.node.name.clone())),
                Some(refusal) => others.entry(refusal).or_default().count += 1,
            }
        }
        room.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        let refused = answers.reasons.iter().cloned().zip(answers.sum_up(&class, &cluster.nodes));
        let mut refused: Vec<_> = refused.filter(|(_, refused)| refused.count > 0).chain(others).collect();
        refused.sort_by(|a, b| b.1.count.cmp(&a.1.count).then_with(|| a.0.cmp(&b.0)));
        let nodes = answers.list.iter().filter(|answer| !matches!(answer, NodeAnswer::Absent)).count();
        let names = (0..cluster.resources.len()).map(|id| cluster.resources.name(id).to_string()).collect();
        Self { serial, nodes, room, refused, names, answers }
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
                format!("{name} (need {need}, most free {} on {node})", rough_quantity(name, (*free).max(0)))
            }
            _ => format!("{name} (no such node offers any)"),
        }
    }
}

/// Asks the nodes that have changed since an earlier census, or all.
fn ask(class: &Class, nodes: &Nodes, before: Option<(u64, &Census)>) -> Answers {
    let known = before.and_then(|(seen, census)| Some((nodes.changed_since(seen)?, &census.answers)));
    let known = known.filter(|(changed, _)| changed.len() <= nodes.slots.len());
    let mut answers = known.map_or_else(Answers::default, |(_, answers)| answers.clone());
    answers.list.resize(nodes.slots.len(), NodeAnswer::Absent);
    match known {
        Some((changed, _)) => changed.iter().for_each(|slot| answers.ask(*slot as usize, class, nodes)),
        None => (0..nodes.slots.len()).for_each(|slot| answers.ask(slot, class, nodes)),
    }
    answers
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

fn verb<'a>(count: usize, one: &'a str, many: &'a str) -> &'a str {
    if count == 1 { one } else { many }
}
