//! Nodes, their taints, and the parts of the network that they are in.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::api::core::v1::Node as K8sNode;
use kube::ResourceExt as _;
use regex::Regex;
use ronde_api::{HyperNode as HyperNodeObject, HyperNodeMember, HyperNodeMemberSelector, MemberType};
use ronde_runtime::nodes::is_ready;
use ronde_runtime::pods::resources::limits;
use ronde_runtime::{pods::selects, taints};
use ronde_scheduler::{Effect, HyperNode, Node, Taint};

use super::count;
use crate::node_shutdown;

pub fn node(node: &K8sNode) -> Node {
    let is_cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
    // The taint says the same, and comes later.
    let told = taints::of_node(node).iter().filter(|taint| !(is_cordoned && taint.key == taints::UNSCHEDULABLE));
    Node {
        name: node.name_any().into(),
        labels: node.labels().clone(),
        taints: told.filter_map(taint).collect(),
        allocatable: limits(node.status.as_ref().and_then(|status| status.allocatable.as_ref())),
        unschedulable: is_cordoned,
        // What is about to go is as good as gone, also for who tolerates the taint that says so.
        ready: is_ready(node) && node_shutdown::notice(node).is_none(),
    }
}

fn taint(taint: &k8s_openapi::api::core::v1::Taint) -> Option<Taint> {
    let value = taint.value.clone().unwrap_or_default();
    Some(Taint { key: taint.key.clone(), value, effect: effect(&taint.effect)? })
}

/// Returns the effect that a word stands for.
pub fn effect(word: &str) -> Option<Effect> {
    match word {
        "NoSchedule" => Some(Effect::NoSchedule),
        "PreferNoSchedule" => Some(Effect::PreferNoSchedule),
        "NoExecute" => Some(Effect::NoExecute),
        _ => None,
    }
}

/// Returns a part of the network with the members that its selectors find.
pub fn hyper_node(part: &HyperNodeObject, nodes: &[Arc<K8sNode>], parts: &[Arc<HyperNodeObject>]) -> HyperNode {
    let (mut found_nodes, mut children) = (BTreeSet::new(), BTreeSet::new());
    for HyperNodeMember { type_, selector } in &part.spec.members {
        let matches = name_matcher(selector);
        match type_.parse() {
            Ok(MemberType::Node) => {
                let is_member = |node: &&Arc<K8sNode>| {
                    let labels = selector.label_match.as_ref();
                    matches(&node.name_any()) || labels.is_some_and(|labels| selects(labels, node.labels()))
                };
                found_nodes.extend(nodes.iter().filter(is_member).map(|node| node.name_any()));
            }
            Ok(MemberType::HyperNode) => {
                let is_member = |other: &&Arc<HyperNodeObject>| matches(&other.name_any());
                children.extend(parts.iter().filter(is_member).map(|other| other.name_any()));
            }
            Err(_) => {}
        }
    }
    HyperNode {
        name: part.name_any().into(),
        tier: count(part.spec.tier),
        nodes: found_nodes.into_iter().map(Into::into).collect(),
        children: children.into_iter().map(Into::into).collect(),
    }
}

/// Returns what tells whether a name is meant; a pattern that cannot be read means none.
fn name_matcher(selector: &HyperNodeMemberSelector) -> impl Fn(&str) -> bool {
    let exact = selector.exact_match.as_ref().map(|exact| exact.name.clone());
    let pattern = selector.regex_match.as_ref().and_then(|pattern| Regex::new(&pattern.pattern).ok());
    move |name| exact.as_deref() == Some(name) || pattern.as_ref().is_some_and(|pattern| pattern.is_match(name))
}
