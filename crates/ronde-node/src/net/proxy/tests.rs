//! Plans and choices by tables.

use std::{net::IpAddr, sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    balance::Balancer,
    plan::{Backend, NodeNumbers, Realm, Target, plan},
};
use crate::net::{subnets::choose, view::ClusterView};

fn service(spec: Value) -> Value {
    json!({"metadata": {"name": "web", "namespace": "team"}, "spec": spec})
}

fn slice(ports: Value, endpoints: Value) -> Value {
    json!({"metadata": {"name": "web-1", "namespace": "team", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4", "ports": ports, "endpoints": endpoints})
}

fn view(services: Vec<Value>, slices: Vec<Value>, pods: Vec<Value>) -> ClusterView {
    ClusterView {
        services: services.into_iter().map(|object| Arc::new(serde_json::from_value(object).unwrap())).collect(),
        slices: slices.into_iter().map(|object| Arc::new(serde_json::from_value(object).unwrap())).collect(),
        pods: pods.into_iter().map(|object| Arc::new(serde_json::from_value(object).unwrap())).collect(),
    }
}

/// The API server's own front is always there and left out here.
fn check(what: &str, view: &ClusterView, expected: &[&str]) {
    let nodes = NodeNumbers::from([("second".to_owned(), 1)]);
    let plan = plan(view, &choose(&[]).unwrap(), "127.0.0.1:6443".parse().unwrap(), &nodes);
    let line = |(front, target): (&super::Front, &Target)| {
        let place = match front.realm {
            Realm::Services => String::new(),
            Realm::Nodes => "nodes ".to_owned(),
            Realm::Node(number) => format!("node {number} "),
        };
        let backends: Vec<String> = target.backends.iter().map(Backend::to_string).collect();
        let affinity = target.affinity.map(|time| format!(" for {} s", time.as_secs())).unwrap_or_default();
        format!("{place}{front} -> {}{affinity}", backends.join(" "))
    };
    let mut lines: Vec<String> = plan.iter().map(line).collect();
    assert_eq!(lines.remove(0), "10.96.0.1:443/tcp -> daemon 127.0.0.1:6443", "{what}");
    assert_eq!(lines, expected, "{what}");
}

#[test]
fn services_lead_to_their_endpoints() {
    let two = json!([{"addresses": ["10.244.0.12"]}, {"addresses": ["10.244.0.11"], "conditions": {"ready": true}}]);
    let plain = service(json!({"clusterIP": "10.96.0.20", "ports": [{"port": 80}]}));
    let unnamed = slice(json!([{"port": 8080}]), two.clone());
    check("nothing", &ClusterView::default(), &[]);
    check("a service without endpoints", &view(vec![plain.clone()], vec![], vec![]), &[]);
    check(
        "a service with two",
        &view(vec![plain.clone()], vec![unnamed.clone()], vec![]),
        &["10.96.0.20:80/tcp -> 10.244.0.11:8080 10.244.0.12:8080"],
    );
    check(
        "the same endpoints in two slices",
        &view(vec![plain.clone()], vec![unnamed.clone(), unnamed.clone()], vec![]),
        &["10.96.0.20:80/tcp -> 10.244.0.11:8080 10.244.0.12:8080"],
    );
    check(
        "named ports find theirs",
        &view(
            vec![service(json!({"clusterIP": "10.96.0.20", "ports": [
                {"name": "a", "port": 80, "targetPort": "web"}, {"name": "b", "port": 53, "protocol": "UDP"}]}))],
            vec![slice(
                json!([{"name": "b", "port": 5353, "protocol": "UDP"}, {"name": "a", "port": 8081}]),
                two.clone(),
            )],
            vec![],
        ),
        &[
            "10.96.0.20:80/tcp -> 10.244.0.11:8081 10.244.0.12:8081",
            "10.96.0.20:53/udp -> 10.244.0.11:5353 10.244.0.12:5353",
        ],
    );
    check(
        "node ports and affinity",
        &view(
            vec![service(json!({"type": "NodePort", "clusterIP": "10.96.0.20", "sessionAffinity": "ClientIP",
                "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}}, "ports": [{"port": 80, "nodePort": 30080}]}))],
            vec![slice(json!([{"port": 8080}]), json!([{"addresses": ["10.244.0.11"]}]))],
            vec![],
        ),
        &["10.96.0.20:80/tcp -> 10.244.0.11:8080 for 60 s", "nodes 0.0.0.0:30080/tcp -> 10.244.0.11:8080 for 60 s"],
    );
    check(
        "a headless one",
        &view(vec![service(json!({"clusterIP": "None", "ports": [{"port": 80}]}))], vec![unnamed.clone()], vec![]),
        &[],
    );
    check(
        "an address of another subnet",
        &view(vec![service(json!({"clusterIP": "10.1.2.3", "ports": [{"port": 80}]}))], vec![unnamed.clone()], vec![]),
        &[],
    );
    check(
        "the name server's address",
        &view(vec![service(json!({"clusterIP": "10.96.0.10", "ports": [{"port": 53}]}))], vec![unnamed], vec![]),
        &[],
    );
}

#[test]
fn endpoints_that_stop_serve_when_no_other_does() {
    let plain = service(json!({"clusterIP": "10.96.0.20", "ports": [{"port": 80}]}));
    let stopping =
        json!({"addresses": ["10.244.0.11"], "conditions": {"ready": false, "serving": true, "terminating": true}});
    let deaf =
        json!({"addresses": ["10.244.0.12"], "conditions": {"ready": false, "serving": false, "terminating": true}});
    let starting = json!({"addresses": ["10.244.0.13"], "conditions": {"ready": false}});
    let ready = json!({"addresses": ["10.244.0.14"], "conditions": {"ready": true}});
    let with = |endpoints: Value| view(vec![plain.clone()], vec![slice(json!([{"port": 8080}]), endpoints)], vec![]);
    check("one is ready", &with(json!([stopping, deaf, starting, ready])), &["10.96.0.20:80/tcp -> 10.244.0.14:8080"]);
    check("none is ready", &with(json!([stopping, deaf, starting])), &["10.96.0.20:80/tcp -> 10.244.0.11:8080"]);
    check("none serves", &with(json!([deaf, starting])), &[]);
}

#[test]
fn host_ports_lead_to_their_pod() {
    let pod = |phase: &str, host_network: bool| {
        json!({"metadata": {"name": "p", "namespace": "team"},
            "spec": {"hostNetwork": host_network, "containers": [{"name": "c", "ports": [
                {"containerPort": 80, "hostPort": 8080}, {"containerPort": 53, "hostPort": 5353, "protocol": "UDP", "hostIP": "127.0.0.1"},
                {"containerPort": 90}]}]},
            "status": {"phase": phase, "podIP": "10.244.0.11"}})
    };
    check(
        "a running pod",
        &view(vec![], vec![], vec![pod("Running", false)]),
        &["node 0 0.0.0.0:8080/tcp -> 10.244.0.11:80", "node 0 127.0.0.1:5353/udp -> 10.244.0.11:53"],
    );
    let on = |node: &str, ip: &str| {
        json!({"metadata": {"name": node, "namespace": "team"}, "status": {"phase": "Running", "podIP": ip},
            "spec": {"nodeName": node, "containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 8080}]}]}})
    };
    check(
        "one on each node: the machine is the first",
        &view(vec![], vec![], vec![on("second", "10.244.0.12"), on("first", "10.244.0.11")]),
        &["node 0 0.0.0.0:8080/tcp -> 10.244.0.11:80", "node 1 0.0.0.0:8080/tcp -> 10.244.0.12:80"],
    );
    check(
        "one on the second: the machine has it too",
        &view(vec![], vec![], vec![on("second", "10.244.0.12")]),
        &["node 0 0.0.0.0:8080/tcp -> 10.244.0.12:80", "node 1 0.0.0.0:8080/tcp -> 10.244.0.12:80"],
    );
    check("a pod that is over", &view(vec![], vec![], vec![pod("Succeeded", false)]), &[]);
    check("a pod of the machine's network", &view(vec![], vec![], vec![pod("Running", true)]), &[]);
}

fn backend(last: u8) -> Backend {
    Backend::Pod(std::net::SocketAddrV4::new([10, 244, 0, last].into(), 80))
}

fn target(backends: &[u8], affinity: Option<u64>) -> Target {
    Target { backends: backends.iter().copied().map(backend).collect(), affinity: affinity.map(Duration::from_secs) }
}

#[tokio::test(start_paused = true)]
async fn clients_are_spread_evenly_and_may_fall_back() {
    let (client, now) = (IpAddr::from([10, 244, 0, 99]), Instant::now());
    let mut balancer = Balancer::new(&target(&[1, 2, 3, 4], None));
    let choices: Vec<Vec<Backend>> = (0..5).map(|_| balancer.choose(client, now)).collect();
    let firsts: Vec<Backend> = choices.iter().map(|choice| choice[0]).collect();
    assert_eq!(firsts, [1, 2, 3, 4, 1].map(backend));
    assert_eq!(choices[3], [4, 1, 2].map(backend), "the next two are there in case");
    balancer.set_target(&target(&[], None));
    assert!(balancer.choose(client, now).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_client_stays_with_its_backend_if_asked_to() {
    let (client, other, begin) = (IpAddr::from([10, 244, 0, 99]), IpAddr::from([10, 244, 0, 98]), Instant::now());
    let mut balancer = Balancer::new(&target(&[1, 2, 3], Some(60)));
    balancer.served(client, backend(3), begin);
    let soon = begin + Duration::from_secs(59);
    assert_eq!(balancer.choose(client, soon)[0], backend(3));
    assert_eq!(balancer.choose(other, soon)[0], backend(2), "others go on in turn");
    let late = begin + Duration::from_secs(60);
    assert_eq!(balancer.choose(client, late)[0], backend(3), "in turn again, by chance the same");
    assert_eq!(balancer.choose(client, late)[0], backend(1));
    balancer.served(client, backend(1), late);
    balancer.set_target(&target(&[2, 3], Some(60)));
    assert!(!balancer.choose(client, late).contains(&backend(1)), "it is gone");
    balancer.set_target(&target(&[1, 2, 3], Some(60)));
    assert!(balancer.has(backend(1)) && !balancer.has(backend(4)));
}
