//! What is read from nodes: their conditions. Pure.

use k8s_openapi::api::core::v1::{Node, NodeCondition};

pub const READY: &str = "Ready";

/// Returns a condition of a node.
pub fn condition<'a>(node: &'a Node, kind: &str) -> Option<&'a NodeCondition> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == kind)
}

/// Tells whether a node says that it is ready.
pub fn is_ready(node: &Node) -> bool {
    condition(node, READY).is_some_and(|ready| ready.status == "True")
}
