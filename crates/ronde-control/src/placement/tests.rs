//! Where pods go, row by row, and what never happens, seed by seed.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::ResourceExt as _;
use proptest::{prelude::*, sample::select};
use serde_json::{Value, json};

use super::{
    affinity,
    place::{Needs, place, place_all},
    resources,
    snapshot::Snapshot,
};

/// `a cpu=4 mem=8Gi zone=x` and words like `cordoned`, `notready`, `taint=key:effect`, `gpu=1`.
fn node(text: &str) -> Arc<Node> {
    let mut words = text.split_whitespace();
    let name = words.next().unwrap();
    let mut node = json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {"taints": []},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}, "conditions": [{"type": "Ready", "status": "True"}]},
    });
    for word in words {
        match word.split_once('=') {
            Some(("cpu", amount)) => node["status"]["allocatable"]["cpu"] = amount.into(),
            Some(("pods", amount)) => node["status"]["allocatable"]["pods"] = amount.into(),
            Some(("gpu", amount)) => node["status"]["allocatable"]["nvidia.com/gpu"] = amount.into(),
            Some(("taint", taint)) => {
                let (key, effect) = taint.split_once(':').unwrap();
                node["spec"]["taints"].as_array_mut().unwrap().push(json!({"key": key, "effect": effect}));
            }
            Some((label, value)) => node["metadata"]["labels"][label] = value.into(),
            None if word == "cordoned" => node["spec"]["unschedulable"] = true.into(),
            None => node["status"]["conditions"][0]["status"] = "False".into(),
        }
    }
    Arc::new(serde_json::from_value(node).unwrap())
}

/// A pod named `name` with the label `app=name` whose spec is `more` over one container that asks for one processor.
fn pod(name: &str, more: Value) -> Arc<Pod> {
    let mut spec = json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let meta = json!({"name": name, "namespace": "n", "uid": name, "labels": {"app": name}});
    Arc::new(serde_json::from_value(json!({"metadata": meta, "spec": spec})).unwrap())
}

/// A snapshot of nodes, each line with the pods (`app` or `app*3`) that are on it after a `|`.
fn snapshot(text: &str) -> Snapshot {
    let lines: Vec<(&str, &str)> = text.split(';').map(|line| line.split_once('|').unwrap_or((line, ""))).collect();
    let namespaces = ["n", "m"].map(|name| {
        let meta = json!({"name": name, "labels": {"kubernetes.io/metadata.name": name}});
        Arc::new(serde_json::from_value::<Namespace>(json!({"metadata": meta})).unwrap())
    });
    let mut snapshot = Snapshot::new(lines.iter().map(|(text, _)| node(text)), namespaces);
    for (text, pods) in lines {
        let name = text.split_whitespace().next().unwrap();
        for word in pods.split_whitespace() {
            let (app, count) = word.split_once('*').unwrap_or((word, "1"));
            for _ in 0..count.parse().unwrap() {
                snapshot.add(name, pod(app, json!({})));
            }
        }
    }
    snapshot
}

#[track_caller]
fn check(what: &str, nodes: &str, more: Value, expected: &str) {
    let needs = Needs::new(pod("p", more), Ok(Vec::new()));
    let seen = place(&needs, &snapshot(nodes)).unwrap_or_else(|why| why.to_string());
    assert_eq!(seen, expected, "{what}");
}

fn asks(requests: Value) -> Value {
    json!({"containers": [{"name": "c", "resources": {"requests": requests}}]})
}

#[test]
fn room_is_needed() {
    let one = || json!({});
    check("the least loaded", "a|x*2;b|x;c|x*2", one(), "b");
    check("the first of equals", "a;b", one(), "a");
    check("the roomiest", "a cpu=2;b cpu=8", one(), "b");
    check("what asks for nothing is spread too", "a|x;b", asks(json!({})), "b");
    check("full", "a|x*4;b|x*3 y", one(), "0/2 nodes are available: 2 Insufficient cpu.");
    check("exactly full is not too full", "a|x*3", one(), "a");
    check(
        "no nodes are ready to be asked",
        "a notready",
        one(),
        "0/1 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/not-ready: }.",
    );
    check(
        "two things are lacking",
        "a",
        asks(json!({"cpu": "5", "memory": "9Gi"})),
        "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory.",
    );
    check("too many pods", "a pods=1|x", one(), "0/1 nodes are available: 1 Too many pods.");
    check("a resource that one node has", "a;b gpu=2", asks(json!({"nvidia.com/gpu": "1"})), "b");
    check(
        "a resource that is used up",
        "a;b gpu=2",
        asks(json!({"nvidia.com/gpu": "3"})),
        "0/2 nodes are available: 2 Insufficient nvidia.com/gpu.",
    );
    check("thousandths", "a|x*3", asks(json!({"cpu": "1001m"})), "0/1 nodes are available: 1 Insufficient cpu.");
    let none = place(&Needs::new(pod("p", one()), Ok(Vec::new())), &Snapshot::default()).unwrap_err();
    assert_eq!(none.to_string(), "no nodes available to schedule pods");
}

#[track_caller]
fn check_requests(what: &str, spec: Value, expected: i128) {
    let requests = resources::requests(&pod("p", spec));
    assert_eq!(requests["cpu"], expected, "{what}");
    assert_eq!(requests["pods"], 1);
}

#[test]
fn a_pod_asks_for_its_most_demanding_moment() {
    let c = |cpu: &str| json!({"name": "c", "resources": {"requests": {"cpu": cpu}}});
    let sidecar = |cpu: &str| json!({"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}}});
    check_requests("the sum of containers", json!({"containers": [c("1"), c("500m")]}), 1500);
    check_requests("a hungry start", json!({"containers": [c("1")], "initContainers": [c("3"), c("2")]}), 3000);
    check_requests(
        "sidecars beside containers",
        json!({"containers": [c("1")], "initContainers": [sidecar("1")]}),
        2000,
    );
    check_requests(
        "a start beside a sidecar",
        json!({"containers": [c("1")], "initContainers": [sidecar("1"), c("3")]}),
        4000,
    );
    check_requests(
        "a start before the sidecar",
        json!({"containers": [c("1")], "initContainers": [c("3"), sidecar("1")]}),
        3000,
    );
    check_requests("overhead", json!({"containers": [c("1")], "overhead": {"cpu": "250m"}}), 1250);
    check_requests(
        "the pod's own word",
        json!({"containers": [c("1")], "resources": {"requests": {"cpu": "2"}}}),
        2000,
    );
}

#[test]
fn labels_and_taints_are_respected() {
    const ELSEWHERE: &str = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.";
    let required = |terms: Value| json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}});
    let is = |operator: &str, values: Value| {
        required(json!([{"matchExpressions": [{"key": "zone", "operator": operator, "values": values}]}]))
    };
    check("a selector", "a zone=x;b zone=y", json!({"nodeSelector": {"zone": "y"}}), "b");
    check("a selector that fits nowhere", "a zone=x", json!({"nodeSelector": {"zone": "y"}}), ELSEWHERE);
    check("in", "a zone=x;b zone=y", is("In", json!(["y", "z"])), "b");
    check("not in", "a zone=x;b zone=y", is("NotIn", json!(["x"])), "b");
    check("exists", "a;b zone=y", is("Exists", json!([])), "b");
    check("does not exist", "a zone=x;b", is("DoesNotExist", json!([])), "b");
    check("greater", "a zone=3;b zone=20", is("Gt", json!(["5"])), "b");
    check("less than a word", "a zone=x", is("Lt", json!(["5"])), ELSEWHERE);
    check(
        "one of two terms",
        "a zone=x",
        required(json!([{"matchExpressions": [{"key": "no", "operator": "Exists"}]},
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}])),
        "a",
    );
    check("an empty term", "a", required(json!([{}])), ELSEWHERE);
    let prefers = json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 5, "preference": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}}]}}});
    check("a preference beats load", "a;b zone=y|x*2", prefers.clone(), "b");
    check("but not room", "a;b zone=y|x*4", prefers, "a");
    check(
        "a taint",
        "a taint=k:NoSchedule",
        json!({}),
        "0/1 nodes are available: 1 node(s) had untolerated taint {k: }.",
    );
    check("tolerated", "a taint=k:NoSchedule", json!({"tolerations": [{"key": "k", "operator": "Exists"}]}), "a");
    check("a taint to be avoided", "a taint=k:PreferNoSchedule;b|x", json!({}), "b");
    check("avoided unless nothing else is left", "a taint=k:PreferNoSchedule;b|x*4", json!({}), "a");
    check("cordoned", "a cordoned;b|x", json!({}), "b");
    check(
        "three reasons",
        "a cordoned;b taint=k:NoExecute;c|x*4",
        json!({}),
        "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint {k: }, 1 node(s) were unschedulable.",
    );
}

#[test]
fn pods_stand_near_or_far() {
    const ZONES: &str = "a zone=1|x*3;b zone=1;c zone=2";
    let near = |kind: &str, key: &str, app: &str| {
        let term = json!({"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}});
        json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
    };
    check("near, in the zone", ZONES, near("podAffinity", "zone", "x"), "b");
    check("near, on the host", ZONES, near("podAffinity", "kubernetes.io/hostname", "x"), "a");
    check(
        "near nobody",
        ZONES,
        near("podAffinity", "zone", "y"),
        "0/3 nodes are available: 3 node(s) didn't match pod affinity rules.",
    );
    check("near its own kind, as the first", ZONES, near("podAffinity", "zone", "p"), "b");
    check(
        "near where no such label is",
        "a|x",
        near("podAffinity", "zone", "x"),
        "0/1 nodes are available: 1 node(s) didn't match pod affinity rules.",
    );
    check("far, by zone", ZONES, near("podAntiAffinity", "zone", "x"), "c");
    check(
        "far from all",
        "a zone=1|x;b zone=1",
        near("podAntiAffinity", "zone", "x"),
        "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules.",
    );
    let mut shy = snapshot("a zone=1;b zone=1;c zone=2|x*3");
    shy.add("a", pod("shy", near("podAntiAffinity", "zone", "p")));
    let seen = place(&Needs::new(pod("p", json!({})), Ok(Vec::new())), &shy);
    assert_eq!(seen.as_deref(), Ok("c"), "pods that are there do not want it");
    let prefers = json!({"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}}}]}}});
    check("rather far", "a zone=1|x;b zone=2|y*2", prefers, "b");
    let other = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "zone", "namespaces": ["m"], "labelSelector": {"matchLabels": {"app": "x"}}}]}}});
    check("only the namespaces it names", "a zone=1|x", other, "a");
    let all = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "zone", "namespaceSelector": {}, "labelSelector": {"matchLabels": {"app": "x"}}}]}}});
    check("all namespaces", "a zone=1|x;b zone=2", all, "b");
}

#[test]
fn pods_are_spread() {
    let spread = |when: &str, more: Value| {
        let mut term = json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": when,
            "labelSelector": {"matchLabels": {"app": "p"}}});
        term.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"topologySpreadConstraints": [term]})
    };
    let hard = |more| spread("DoNotSchedule", more);
    check("where there are fewest", "a zone=1|p;b zone=2|x x x", hard(json!({})), "b");
    check("one more is still even", "a zone=1 cpu=8|p;b zone=2|p", hard(json!({})), "a");
    check(
        "no room where it would be even",
        "a zone=1|p;b zone=2|x*4",
        hard(json!({})),
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match pod topology spread constraints.",
    );
    check(
        "a node without the label",
        "a",
        hard(json!({})),
        "0/1 nodes are available: 1 node(s) didn't match pod topology spread constraints (missing required label).",
    );
    check("a larger skew", "a zone=1|p;b zone=2|x*4", hard(json!({"maxSkew": 2})), "a");
    check(
        "too few zones",
        "a zone=1|p",
        hard(json!({"minDomains": 2})),
        "0/1 nodes are available: 1 node(s) didn't match pod topology spread constraints.",
    );
    check("only if it can be", "a zone=1|p;b zone=2|x*4", spread("ScheduleAnyway", json!({})), "a");
    check("rather where there are fewer", "a zone=1|p;b zone=2|x x", spread("ScheduleAnyway", json!({})), "b");
}

#[test]
fn ports_of_the_node_are_given_once() {
    let port = |port: Value| json!({"containers": [{"name": "c", "ports": [port]}]});
    let web = || port(json!({"containerPort": 80, "hostPort": 80}));
    let mut taken = snapshot("a;b|x");
    taken.add("a", pod("w", web()));
    let put = |spec: Value| place(&Needs::new(pod("p", spec), Ok(Vec::new())), &taken);
    assert_eq!(put(web()).as_deref(), Ok("b"));
    assert_eq!(put(port(json!({"containerPort": 80, "hostPort": 80, "protocol": "UDP"}))).as_deref(), Ok("a"));
    assert_eq!(put(port(json!({"containerPort": 80}))).as_deref(), Ok("a"));
    taken.add("b", pod("v", port(json!({"containerPort": 80, "hostPort": 80, "hostIP": "127.0.0.1"}))));
    let refused = place(&Needs::new(pod("p", web()), Ok(Vec::new())), &taken).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "0/2 nodes are available: 2 node(s) didn't have free ports for the requested pod ports."
    );
}

#[test]
fn volumes_have_their_say() {
    let waits = Needs::new(pod("p", json!({})), Err("pod has unbound immediate PersistentVolumeClaims".to_owned()));
    assert_eq!(
        place(&waits, &snapshot("a;b")).unwrap_err().to_string(),
        "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims."
    );
    let at_b = serde_json::from_value(json!({"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["b"]}]}]}))
    .unwrap();
    let local = Needs::new(pod("p", json!({})), Ok(vec![at_b]));
    assert_eq!(place(&local, &snapshot("a;b|x")).as_deref(), Ok("b"));
    assert_eq!(
        place(&local, &snapshot("a")).unwrap_err().to_string(),
        "0/1 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity."
    );
}

fn some_pod() -> impl Strategy<Value = Value> {
    let cpu = select(vec!["0", "100m", "500m", "1", "2500m"]);
    let selector = select(vec![json!({}), json!({"zone": "1"}), json!({"zone": "2"})]);
    let tolerations = select(vec![json!([]), json!([{"operator": "Exists"}])]);
    let port = select(vec![0, 0, 80, 443]);
    let app = select(vec!["p", "q"]);
    let shy = any::<bool>();
    (cpu, selector, tolerations, port, app, shy).prop_map(|(cpu, selector, tolerations, port, app, shy)| {
        let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "q"}}});
        let affinity = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
        let container = json!({"name": "c", "resources": {"requests": {"cpu": cpu}},
            "ports": if port > 0 { json!([{"containerPort": port, "hostPort": port}]) } else { json!([]) }});
        json!({"app": app, "spec": {"containers": [container], "nodeSelector": selector, "tolerations": tolerations,
            "affinity": if shy && app == "q" { affinity } else { Value::Null }}})
    })
}

fn some_node() -> impl Strategy<Value = String> {
    let marks = select(vec!["", "cordoned", "notready", "taint=k:NoSchedule"]);
    (select(vec!["1", "2"]), select(vec!["1", "2", "4"]), marks)
        .prop_map(|(zone, cpu, mark)| format!("zone={zone} cpu={cpu} pods=5 {mark}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn nothing_is_given_twice_or_to_the_wrong_one(
        nodes in prop::collection::vec(some_node(), 1..5),
        pods in prop::collection::vec(some_pod(), 1..20),
    ) {
        let nodes: Vec<_> = nodes.iter().enumerate().map(|(number, text)| node(&format!("n{number} {text}"))).collect();
        let mut snapshot = Snapshot::new(nodes, []);
        let needs = pods.iter().enumerate().map(|(number, value)| {
            let mut made = Pod::clone(&pod(&format!("p{number}"), value["spec"].clone()));
            made.metadata.labels = Some(BTreeMap::from([("app".to_owned(), value["app"].as_str().unwrap().to_owned())]));
            Needs::new(Arc::new(made), Ok(Vec::new()))
        });
        let needs: Vec<_> = needs.collect();
        let empty = snapshot.clone();
        let placed = place_all(needs.clone(), &mut snapshot);
        let again = place_all(needs, &mut empty.clone());
        prop_assert_eq!(&placed.iter().map(|(_, found)| found.clone()).collect::<Vec<_>>(),
            &again.iter().map(|(_, found)| found.clone()).collect::<Vec<_>>(), "the same input, the same places");
        for (pod, found) in &placed {
            let Ok(name) = found else { continue };
            prop_assert!(affinity::matches_node(pod, &snapshot.places[name].node));
            prop_assert!(super::place::untolerated(pod, &snapshot.places[name]).is_none());
        }
        for place in snapshot.places.values() {
            for (name, used) in &place.used {
                prop_assert!(*used <= place.allocatable.get(name).copied().unwrap_or(0), "{name} of {}", place.node.name_any());
            }
            for (index, port) in place.ports.iter().enumerate() {
                prop_assert!(!place.ports[..index].iter().any(|other| port.clashes_with(other)));
            }
            let shy = |pod: &&Arc<Pod>| pod.spec.as_ref().unwrap().affinity.is_some();
            let hit = |pod: &&Arc<Pod>| pod.labels()["app"] == "q";
            prop_assert!(place.pods.iter().filter(shy).count() == 0 || place.pods.iter().filter(hit).count() <= 1);
        }
    }
}
