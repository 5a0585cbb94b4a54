//! Selectors of labels and of nodes.
//!
//! An operator that is not known becomes one that accepts nothing, as in Kubernetes.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{
        NodeSelector as K8sNodeSelector, NodeSelectorRequirement, NodeSelectorTerm as K8sNodeSelectorTerm,
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector as K8sLabelSelector, LabelSelectorRequirement},
};
use ronde_scheduler::{LabelSelector, Labels, NodeSelector, NodeSelectorTerm, Operator, Requirement};

pub fn label_selector(selector: &K8sLabelSelector) -> LabelSelector {
    let expressions = selector.match_expressions.iter().flatten().map(label_requirement);
    LabelSelector { labels: selector.match_labels.clone().unwrap_or_default(), expressions: expressions.collect() }
}

/// Adds what `matchLabelKeys` and `mismatchLabelKeys` say: the values that the pod itself has for these labels.
pub fn with_own_labels(
    selector: Option<&K8sLabelSelector>,
    own: &Labels,
    same: Option<&Vec<String>>,
    different: Option<&Vec<String>>,
) -> Option<LabelSelector> {
    let mut selector = selector.map(label_selector)?;
    for (keys, operator) in [(same, Operator::In), (different, Operator::NotIn)] {
        let known = keys.into_iter().flatten().filter_map(|key| own.get(key).map(|value| (key, value)));
        selector.expressions.extend(known.map(|(key, value)| Requirement {
            key: key.clone(),
            operator,
            values: vec![value.clone()],
        }));
    }
    Some(selector)
}

pub fn node_selector(selector: &K8sNodeSelector) -> NodeSelector {
    NodeSelector { terms: selector.node_selector_terms.iter().map(node_selector_term).collect() }
}

pub fn node_selector_term(term: &K8sNodeSelectorTerm) -> NodeSelectorTerm {
    let all = |list: &Option<Vec<NodeSelectorRequirement>>| list.iter().flatten().map(node_requirement).collect();
    NodeSelectorTerm { expressions: all(&term.match_expressions), fields: all(&term.match_fields) }
}

/// Returns a selector of the nodes with any of these values for a label.
pub fn one_of(key: &str, values: &[String]) -> Requirement {
    Requirement { key: key.to_owned(), operator: Operator::In, values: values.to_vec() }
}

/// Returns the labels of an object.
pub fn labels(labels: Option<&BTreeMap<String, String>>) -> Labels {
    labels.cloned().unwrap_or_default()
}

fn label_requirement(wanted: &LabelSelectorRequirement) -> Requirement {
    requirement(&wanted.key, &wanted.operator, wanted.values.as_deref())
}

fn node_requirement(wanted: &NodeSelectorRequirement) -> Requirement {
    requirement(&wanted.key, &wanted.operator, wanted.values.as_deref())
}

fn requirement(key: &str, operator: &str, values: Option<&[String]>) -> Requirement {
    let known = match operator {
        "In" => Some(Operator::In),
        "NotIn" => Some(Operator::NotIn),
        "Exists" => Some(Operator::Exists),
        "DoesNotExist" => Some(Operator::DoesNotExist),
        "Gt" => Some(Operator::Gt),
        "Lt" => Some(Operator::Lt),
        _ => None,
    };
    let values = if known.is_some() { values.unwrap_or_default().to_vec() } else { Vec::new() };
    Requirement { key: key.to_owned(), operator: known.unwrap_or(Operator::In), values }
}
