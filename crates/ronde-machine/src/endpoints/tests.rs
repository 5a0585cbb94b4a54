//! What the endpoints of a service are, row by row.

use std::sync::Arc;

use k8s_openapi::api::{
    core::v1::{Endpoints, Pod, Service},
    discovery::v1::EndpointSlice,
};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::plan::{self, Slices};

fn service(spec: Value) -> Service {
    let mut whole = json!({"selector": {"app": "web"}, "clusterIP": "10.0.0.1", "ipFamilies": ["IPv4"],
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 8080}]});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let meta = json!({"name": "web", "namespace": "n", "uid": "s", "labels": {"team": "x"}});
    serde_json::from_value(json!({"metadata": meta, "spec": whole})).unwrap()
}

/// `a:10.1.0.1` is a ready pod; `?` after the name: not ready, `-`: being deleted, `!`: failed; without address: none yet.
fn pod(text: &str) -> Arc<Pod> {
    let (name, address) = text.split_once(':').unwrap_or((text, ""));
    let (name, mark) = name.split_at(name.find(['?', '-', '!']).unwrap_or(name.len()));
    let ready = if mark.contains('?') { "False" } else { "True" };
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "n", "uid": name, "labels": {"app": "web"}},
        "spec": {"nodeName": "node-1", "containers": [{"name": "c", "ports": [{"name": "http", "containerPort": 8000}]}]},
        "status": {"phase": if mark.contains('!') { "Failed" } else { "Running" }, "podIP": address,
            "podIPs": if address.is_empty() { json!([]) } else { json!([{"ip": address}]) },
            "conditions": [{"type": "Ready", "status": ready}]},
    });
    if mark.contains('-') {
        pod["metadata"]["deletionTimestamp"] = "2027-01-01T00:00:00Z".into();
    }
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn pods(text: &str) -> Vec<Arc<Pod>> {
    text.split_whitespace().map(pod).collect()
}

fn show_endpoints(endpoints: &Endpoints) -> String {
    let subset = |subset: &k8s_openapi::api::core::v1::EndpointSubset| {
        let list = |list: &Option<Vec<k8s_openapi::api::core::v1::EndpointAddress>>| {
            let one = |a: &k8s_openapi::api::core::v1::EndpointAddress| {
                format!("{}{}", a.ip, a.hostname.iter().map(|h| format!("({h})")).collect::<String>())
            };
            list.iter().flatten().map(one).collect::<Vec<_>>().join(",")
        };
        let ports: Vec<_> = subset.ports.iter().flatten().map(|port| port.port.to_string()).collect();
        format!("{}|{} {}", list(&subset.addresses), list(&subset.not_ready_addresses), ports.join(","))
    };
    endpoints.subsets.iter().flatten().map(subset).collect::<Vec<_>>().join("; ")
}

fn show_slice(slice: &EndpointSlice) -> String {
    let one = |endpoint: &k8s_openapi::api::discovery::v1::Endpoint| {
        let conditions = endpoint.conditions.clone().unwrap_or_default();
        let marks = [(conditions.ready, 'r'), (conditions.serving, 's'), (conditions.terminating, 't')];
        let marks: String = marks.into_iter().filter(|(set, _)| *set == Some(true)).map(|(_, mark)| mark).collect();
        let host = endpoint.hostname.iter().map(|name| format!("({name})")).collect::<String>();
        format!("{}{host}:{marks}", endpoint.addresses.join("+"))
    };
    let ports: Vec<_> = slice.ports.iter().flatten().map(|port| port.port.unwrap_or(0).to_string()).collect();
    let endpoints: Vec<_> = slice.endpoints.iter().map(one).collect();
    format!("{} [{}] {}", slice.address_type, ports.join(","), endpoints.join(" ")).trim_end().to_owned()
}

#[track_caller]
fn check(what: &str, spec: Value, pod_text: &str, endpoints: &str, slices: &[&str]) {
    let (service, pods) = (service(spec), pods(pod_text));
    let seen = plan::endpoints(&service, &pods, None).map(|endpoints| show_endpoints(&endpoints)).unwrap_or_default();
    assert_eq!(seen, endpoints, "{what}: endpoints");
    let wanted = plan::wanted(&service, &pods, None, &|_| None);
    let seen: Vec<_> = plan::slices(&service, wanted, &[]).create.iter().map(show_slice).collect();
    assert_eq!(seen, slices, "{what}: slices");
}

#[test]
fn readiness_decides() {
    let plain = || json!({});
    check("no pods", plain(), "", "", &["IPv4 []"]);
    check("a ready pod", plain(), "a:1.0.0.1", "1.0.0.1| 8080", &["IPv4 [8080] 1.0.0.1:rs"]);
    check(
        "one is not ready",
        plain(),
        "a:1.0.0.1 b?:1.0.0.2",
        "1.0.0.1|1.0.0.2 8080",
        &["IPv4 [8080] 1.0.0.1:rs 1.0.0.2:"],
    );
    check("one goes and still serves", plain(), "a-:1.0.0.1", "", &["IPv4 [8080] 1.0.0.1:st"]);
    check("ended and without address", plain(), "a!:1.0.0.1 b", "", &["IPv4 []"]);
    let all = json!({"publishNotReadyAddresses": true});
    check(
        "all are published",
        all,
        "a?:1.0.0.1 b-:1.0.0.2",
        "1.0.0.1,1.0.0.2| 8080",
        &["IPv4 [8080] 1.0.0.1:r 1.0.0.2:rst"],
    );
}

#[test]
fn ports_are_found_in_pods() {
    let ports = |target: Value| json!({"ports": [{"port": 80, "protocol": "TCP", "targetPort": target}]});
    check("a name", ports(json!("http")), "a:1.0.0.1", "1.0.0.1| 8000", &["IPv4 [8000] 1.0.0.1:rs"]);
    check("a name that no container has", ports(json!("x")), "a:1.0.0.1", "", &["IPv4 [] 1.0.0.1:rs"]);
    check(
        "none at all in a headless service",
        json!({"clusterIP": "None", "ports": []}),
        "a:1.0.0.1",
        "1.0.0.1| ",
        &["IPv4 [] 1.0.0.1:rs"],
    );
    let two = json!({"ports": [{"port": 1, "name": "a", "targetPort": 1}, {"port": 2, "name": "b", "targetPort": 2}]});
    check("two", two, "a:1.0.0.1", "1.0.0.1| 1,2", &["IPv4 [1,2] 1.0.0.1:rs"]);
}

#[test]
fn only_the_family_of_the_service_counts() {
    check("an IPv6 pod of an IPv4 service", json!({}), "a:fd00::1", "", &["IPv4 []"]);
    let six = json!({"ipFamilies": ["IPv6"]});
    check("and of its own family", six, "a:fd00::1", "fd00::1| 8080", &["IPv6 [8080] fd00::1:rs"]);
}

#[test]
fn services_without_pods_of_their_own_are_left_alone() {
    check("no selector", json!({"selector": null}), "a:1.0.0.1", "", &[]);
    check("an external name", json!({"type": "ExternalName"}), "a:1.0.0.1", "", &[]);
}

#[test]
fn pods_with_a_subdomain_keep_their_hostname() {
    let mut named = Pod::clone(&pod("w:1.0.0.1"));
    let spec = named.spec.as_mut().unwrap();
    (spec.hostname, spec.subdomain) = (Some("web-0".into()), Some("web".into()));
    let (service, pods) = (service(json!({"clusterIP": "None"})), [Arc::new(named)]);
    let endpoints = plan::endpoints(&service, &pods, None).unwrap();
    assert_eq!(show_endpoints(&endpoints), "1.0.0.1(web-0)| 8080");
    assert_eq!(endpoints.labels()["service.kubernetes.io/headless"], "");
    let slices = plan::slices(&service, plan::wanted(&service, &pods, None, &|_| Some("z".into())), &[]);
    assert_eq!(show_slice(&slices.create[0]), "IPv4 [8080] 1.0.0.1(web-0):rs");
    assert_eq!(slices.create[0].endpoints[0].zone.as_deref(), Some("z"));
    let labels = slices.create[0].labels();
    assert_eq!(labels["endpointslice.kubernetes.io/managed-by"], "endpointslice-controller.k8s.io");
    assert_eq!((labels["kubernetes.io/service-name"].as_str(), labels["team"].as_str()), ("web", "x"));
}

#[test]
fn what_is_right_is_not_written() {
    let (service, pods) = (service(json!({})), pods("a:1.0.0.1"));
    let endpoints = plan::endpoints(&service, &pods, None);
    assert_eq!(plan::endpoints(&service, &pods, endpoints.as_ref()), None);
    let slices = apply(&service, &pods, Vec::new());
    let again = plan::slices(&service, plan::wanted(&service, &pods, None, &|_| None), &slices);
    assert_eq!(again, Slices::default());
}

/// Brings slices to where the plan wants them, as the server would.
fn apply(service: &Service, pods: &[Arc<Pod>], existing: Vec<Arc<EndpointSlice>>) -> Vec<Arc<EndpointSlice>> {
    let plan = plan::slices(service, plan::wanted(service, pods, None, &|_| None), &existing);
    let mut slices: Vec<_> = existing.into_iter().filter(|slice| !plan.delete.contains(slice)).collect();
    for updated in plan.update {
        slices.retain(|slice| slice.name_any() != updated.name_any());
        slices.push(Arc::new(updated));
    }
    for (number, mut slice) in plan.create.into_iter().enumerate() {
        slice.metadata.name = Some(format!("web-{}{number}", slices.len()));
        slices.push(Arc::new(slice));
    }
    slices
}

#[test]
fn slices_are_cut_at_a_hundred_and_change_little() {
    let many = |numbers: std::ops::Range<u32>| -> Vec<Arc<Pod>> {
        numbers.map(|n| pod(&format!("p{n}:1.0.{}.{}", n / 200, n % 200))).collect()
    };
    let service = service(json!({}));
    let slices = apply(&service, &many(0..250), Vec::new());
    let sizes = |slices: &[Arc<EndpointSlice>]| slices.iter().map(|slice| slice.endpoints.len()).collect::<Vec<_>>();
    assert_eq!(sizes(&slices), [100, 100, 50]);
    let less = many(1..250);
    let plan = plan::slices(&service, plan::wanted(&service, &less, None, &|_| None), &slices);
    assert_eq!((plan.create.len(), plan.update.len(), plan.delete.len()), (0, 1, 0), "one slice loses one endpoint");
    let none = apply(&service, &[], slices);
    assert_eq!(none.len(), 1, "one empty slice is left");
    assert_eq!(show_slice(&none[0]), "IPv4 []");
}

#[test]
fn endpoints_of_users_are_mirrored() {
    let service = service(json!({"selector": null}));
    let endpoints = |labels: Value| -> Endpoints {
        serde_json::from_value(json!({
            "metadata": {"name": "web", "namespace": "n", "labels": labels},
            "subsets": [{"addresses": [{"ip": "9.9.9.9"}], "notReadyAddresses": [{"ip": "8.8.8.8"}],
                "ports": [{"port": 53}]}],
        }))
        .unwrap()
    };
    let written = endpoints(json!({}));
    let slices = plan::slices(&service, plan::wanted(&service, &[], Some(&written), &|_| None), &[]);
    assert_eq!(slices.create.iter().map(show_slice).collect::<Vec<_>>(), ["IPv4 [53] 9.9.9.9:r 8.8.8.8:"]);
    let skipped = endpoints(json!({"endpointslice.kubernetes.io/skip-mirror": "true"}));
    assert_eq!(plan::wanted(&service, &[], Some(&skipped), &|_| None), None);
}
