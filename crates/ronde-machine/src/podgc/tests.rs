//! Which pods are garbage, row by row.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::json;

use super::plan::{Observed, garbage, missing};

/// `a@n1` runs on node n1; `a` has none; `!` after the name: failed, `e`: evicted, `-`: being deleted; the age is the order.
fn pods(text: &str) -> Vec<Arc<Pod>> {
    let pod = |(age, text): (usize, &str)| {
        let (name, node) = text.split_once('@').unwrap_or((text, ""));
        let mark = &name[1..];
        let mut pod = json!({
            "metadata": {"name": name[..1], "namespace": "n", "uid": name[..1],
                "creationTimestamp": format!("2027-01-01T00:00:{age:02}Z")},
            "spec": {"nodeName": node, "containers": []},
            "status": {"phase": if mark.contains(['!', 'e']) { "Failed" } else { "Running" },
                "reason": if mark.contains('e') { "Evicted" } else { "" }},
        });
        if mark.contains('-') {
            pod["metadata"]["deletionTimestamp"] = "2027-01-01T00:00:00Z".into();
        }
        Arc::new(serde_json::from_value(pod).unwrap())
    };
    text.split_whitespace().enumerate().map(pod).collect()
}

#[track_caller]
fn check(what: &str, text: &str, seconds: i64, expected: &str) {
    let pods = pods(text);
    let nodes = BTreeSet::from(["n1".to_owned()]);
    let begin = Timestamp::from_second(1_800_000_000).unwrap();
    let now = Timestamp::from_second(1_800_000_000 + seconds).unwrap();
    let since = missing(&pods, &nodes, &missing(&pods, &nodes, &BTreeMap::new(), begin), now);
    let observed = Observed { pods: &pods, nodes: &nodes, missing: &since, finished_max: 2, now };
    let seen: Vec<_> = garbage(&observed).iter().map(|(pod, why)| format!("{}:{why:?}", pod.name_any())).collect();
    assert_eq!(seen.join(" "), expected, "{what}");
}

#[test]
fn garbage_is_what_nobody_cleans_up() {
    check("pods on nodes that exist", "a@n1 b-@n1 c", 1000, "");
    check("a node is missing for a moment", "a@n2", 39, "");
    check("and for long", "a@n2 b@n1", 40, "a:Orphaned");
    check("also an ended one", "a!@n2", 40, "a:Orphaned");
    check("deleted before it had a node", "a-", 0, "a:NeverPlaced");
    check("as many ended ones as may stay", "a!@n1 b!@n1", 0, "");
    check("the oldest go first", "a!@n1 b!@n1 c!@n1", 0, "a:TooMany");
    check("the evicted before them", "a!@n1 b!@n1 ce@n1", 0, "c:TooMany");
}
