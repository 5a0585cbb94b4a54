//! Notices that a node is about to go, as clouds and their tools give them. Pure; shared by scheduling, which puts nothing
//! there any more, and by training jobs, whose workers leave.

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;

use ronde_runtime::taints;

/// Taints that are such a notice, whatever their effect and whoever tolerates them: nothing stays on a node that goes.
const TAINTS: [&str; 7] = [
    "ronde.dev/vanishing",
    "aws-node-termination-handler/spot-itn",
    "aws-node-termination-handler/rebalance-recommendation",
    "cloud.google.com/impending-node-termination",
    "karpenter.sh/disrupted",
    "ToBeDeletedByClusterAutoscaler",
    "node.kubernetes.io/out-of-service",
];
/// Conditions that say the same.
const CONDITIONS: [&str; 4] = ["Vanishing", "SpotTermination", "TerminationScheduled", "InstanceExpired"];

/// Returns what says that a node is about to go, if anything does.
pub fn notice(node: &Node) -> Option<String> {
    let name = node.name_any();
    if node.metadata.deletion_timestamp.is_some() {
        return Some(format!("node {name} is being deleted"));
    }
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut told = conditions.filter(|it| it.status == "True" && CONDITIONS.contains(&it.type_.as_str()));
    if let Some(condition) = told.next() {
        return Some(format!("node {name} is shutting down: {}", condition.type_));
    }
    let taint = taints::of_node(node).iter().find(|taint| TAINTS.contains(&taint.key.as_str()))?;
    Some(format!("node {name} is shutting down: taint {}", taint.key))
}
