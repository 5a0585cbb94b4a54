//! Taints of nodes and the tolerations of pods. Pure; shared by scheduling, taint eviction and the life of nodes.

use k8s_openapi::api::core::v1::{Node, Pod, Taint, Toleration};

pub const NO_SCHEDULE: &str = "NoSchedule";
pub const NO_EXECUTE: &str = "NoExecute";
pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
pub const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Returns the taints of a node.
pub fn of_node(node: &Node) -> &[Taint] {
    node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
}

/// Returns the first toleration of a pod for a taint.
pub fn toleration<'a>(pod: &'a Pod, taint: &Taint) -> Option<&'a Toleration> {
    let tolerations = pod.spec.as_ref().and_then(|spec| spec.tolerations.as_deref()).unwrap_or_default();
    tolerations.iter().find(|toleration| tolerates(toleration, taint))
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let any = |wanted: &Option<String>| wanted.as_deref().unwrap_or_default().is_empty();
    let key = any(&toleration.key) || toleration.key.as_deref() == Some(&taint.key);
    let effect = any(&toleration.effect) || toleration.effect.as_deref() == Some(&taint.effect);
    let same_value = toleration.value.as_deref().unwrap_or_default() == taint.value.as_deref().unwrap_or_default();
    let value = match toleration.operator.as_deref().unwrap_or_default() {
        "Exists" => true,
        "" | "Equal" => same_value && !any(&toleration.key),
        _ => false,
    };
    key && effect && value
}
