//! Queues that go to groups of nodes, by a label of the nodes: what that asks of their pods.

use ronde_api::{Affinity, NodeGroupAffinity, names};
use ronde_scheduler::{NodeAffinity, NodeSelector, NodeSelectorTerm, Operator, Requirement, Weighted};

/// How much groups are worth that a queue must go to, would like to, and would rather not.
const REQUIRED: i32 = 100;
const PREFERRED: i32 = 50;
const AVOIDED: i32 = -50;

/// Adds what the queue of a pod asks to what the pod itself asks.
///
/// As with Volcano, groups that a queue would like to go to are allowed beside those that it must go to, and what it would
/// rather not is allowed in any case. Unlike there, a queue that only keeps away from groups may go to all others.
pub fn require(affinity: &Affinity, own: &mut NodeAffinity) {
    let lists = |list: &Option<NodeGroupAffinity>| {
        let list = list.clone().unwrap_or_default();
        (
            list.required_during_scheduling_ignored_during_execution,
            list.preferred_during_scheduling_ignored_during_execution,
        )
    };
    let (required, preferred) = lists(&affinity.node_group_affinity);
    let (forbidden, avoided) = lists(&affinity.node_group_anti_affinity);
    let mut asked = Vec::new();
    if !required.is_empty() || !preferred.is_empty() {
        asked.push(requirement(
            Operator::In,
            [&required, &preferred, &avoided].into_iter().flatten().cloned().collect(),
        ));
    }
    let forbidden: Vec<String> = forbidden.into_iter().filter(|group| !avoided.contains(group)).collect();
    if !forbidden.is_empty() {
        asked.push(requirement(Operator::NotIn, forbidden));
    }
    if !asked.is_empty() {
        let any = || NodeSelector { terms: vec![NodeSelectorTerm { expressions: Vec::new(), fields: Vec::new() }] };
        let selector = own.required.get_or_insert_with(any);
        selector.terms.iter_mut().for_each(|term| term.expressions.extend(asked.iter().cloned()));
    }
    for (groups, weight) in [(required, REQUIRED), (preferred, PREFERRED), (avoided, AVOIDED)] {
        if !groups.is_empty() {
            let term = NodeSelectorTerm { expressions: vec![requirement(Operator::In, groups)], fields: Vec::new() };
            own.preferred.push(Weighted { weight, term });
        }
    }
}

fn requirement(operator: Operator, values: Vec<String>) -> Requirement {
    Requirement { key: names::NODE_GROUP.to_owned(), operator, values }
}
