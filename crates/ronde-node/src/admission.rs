//! Whether a node has room for a pod that is bound to it. Pure; asked by the agent when it first meets a pod.
//!
//! The scheduler binds no pod that does not fit; whoever names a node in a manifest may. The words are the kubelet's.

use k8s_openapi::api::core::v1::{Node, Pod};
use ronde_runtime::pods::resources::{limits, requests};

use crate::lifecycle::Cause;

const PODS: &str = "pods";
/// What is looked at first; of everything that is short, the first is told.
const FIRST: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Returns why a node does not take a pod beside those that it has taken; nothing if it does.
///
/// Cost: pods of the node × their containers.
pub fn refuse(pod: &Pod, node: &Node, taken: &[&Pod]) -> Option<Cause> {
    let room = limits(node.status.as_ref().and_then(|status| status.allocatable.as_ref()));
    let short = |name: &str, requested: i64, used: i64| {
        // A resource that the node does not speak of is nothing that it could run out of.
        let capacity = room.get(name)?;
        let fits = requested == 0 || requested <= capacity.saturating_sub(used);
        (!fits).then(|| out_of(name, requested, used, capacity))
    };
    if let Some(cause) = short(PODS, 1, i64::try_from(taken.len()).unwrap_or(i64::MAX)) {
        return Some(cause);
    }
    let wanted = pod.spec.as_ref().map(requests)?;
    let others = wanted.iter().map(|(name, _)| &**name).filter(|name| !FIRST.contains(name));
    FIRST.into_iter().chain(others).find_map(|name| {
        let of = |pod: &&Pod| pod.spec.as_ref().map_or(0, |spec| requests(spec).get(name).unwrap_or(0));
        let used = taken.iter().map(of).fold(0, i64::saturating_add);
        short(name, wanted.get(name).unwrap_or(0), used)
    })
}

fn out_of(name: &str, requested: i64, used: i64, capacity: i64) -> Cause {
    Cause {
        reason: format!("OutOf{name}"),
        message: format!(
            "Node didn't have enough resource: {name}, requested: {requested}, used: {used}, capacity: {capacity}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Node, Pod};
    use serde_json::json;

    use super::refuse;

    /// A pod from requests such as `cpu=500m memory=1Mi`.
    fn pod(requests: &str) -> Pod {
        let requests: serde_json::Map<String, serde_json::Value> = requests
            .split_whitespace()
            .filter_map(|one| one.split_once('='))
            .map(|(k, v)| (k.into(), v.into()))
            .collect();
        let container = json!({"name": "c", "resources": {"requests": requests}});
        serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": {"containers": [container]}})).unwrap()
    }

    fn check(what: &str, wanted: &str, taken: &[&str], expected: &str) {
        let room = json!({"cpu": "2", "memory": "1Mi", "nvidia.com/gpu": "2", "pods": "3"});
        let node: Node = serde_json::from_value(json!({"metadata": {}, "status": {"allocatable": room}})).unwrap();
        let taken: Vec<Pod> = taken.iter().map(|requests| pod(requests)).collect();
        let refused = refuse(&pod(wanted), &node, &taken.iter().collect::<Vec<_>>());
        let said = refused.map_or("taken".to_owned(), |cause| format!("{}: {}", cause.reason, cause.message));
        assert_eq!(said, expected, "{what}");
    }

    #[test]
    fn a_pod_that_does_not_fit_is_refused_as_a_kubelet_does() {
        let short =
            |name: &str, numbers: &str| format!("OutOf{name}: Node didn't have enough resource: {name}, {numbers}");
        check("fits alone", "cpu=2 memory=1Mi nvidia.com/gpu=2", &[], "taken");
        check("fits beside others", "cpu=1", &["cpu=500m", "cpu=500m"], "taken");
        let cpu = short("cpu", "requested: 1001, used: 1000, capacity: 2000");
        check("a bit too much", "cpu=1001m", &["cpu=500m", "cpu=500m"], &cpu);
        let memory = short("memory", "requested: 2097152, used: 0, capacity: 1048576");
        check("memory", "memory=2Mi", &[], &memory);
        check("the processor is told first", "memory=2Mi cpu=1001m", &["cpu=1"], &cpu);
        let gpus = short("nvidia.com/gpu", "requested: 1, used: 2, capacity: 2");
        check("devices", "nvidia.com/gpu=1", &["nvidia.com/gpu=2"], &gpus);
        check("nothing is asked of what is used up", "cpu=1", &["memory=1Mi nvidia.com/gpu=2"], "taken");
        let pods = short("pods", "requested: 1, used: 3, capacity: 3");
        check("too many pods", "", &["", "", ""], &pods);
        check("what the node does not speak of", "example.test/widget=1", &[], "taken");
    }
}
