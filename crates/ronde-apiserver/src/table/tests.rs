//! Rows as the real server gives them, kind by kind, and the frame around them.

#![expect(clippy::needless_pass_by_value, reason = "rows of a table test read better without borrowing every value")]

use proptest::prelude::*;
use serde_json::json;

use super::*;

const NOW: &str = "2026-03-01T12:00:00Z";

/// All kinds with columns of their own, and one without.
const KINDS: [(&str, &str); 30] = [
    ("", "Pod"),
    ("", "Namespace"),
    ("", "ConfigMap"),
    ("", "Secret"),
    ("", "ServiceAccount"),
    ("", "ResourceQuota"),
    ("", "Node"),
    ("", "Event"),
    ("events.k8s.io", "Event"),
    ("", "Service"),
    ("", "Endpoints"),
    ("discovery.k8s.io", "EndpointSlice"),
    ("networking.k8s.io", "NetworkPolicy"),
    ("networking.k8s.io", "Ingress"),
    ("networking.k8s.io", "IngressClass"),
    ("", "PersistentVolume"),
    ("", "PersistentVolumeClaim"),
    ("storage.k8s.io", "StorageClass"),
    ("apps", "Deployment"),
    ("apps", "ReplicaSet"),
    ("apps", "StatefulSet"),
    ("apps", "ControllerRevision"),
    ("batch", "Job"),
    ("policy", "PodDisruptionBudget"),
    ("autoscaling", "Scale"),
    ("scheduling.k8s.io", "PriorityClass"),
    ("coordination.k8s.io", "Lease"),
    ("rbac.authorization.k8s.io", "RoleBinding"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io", "Role"),
];

fn now() -> Timestamp {
    NOW.parse().expect("a timestamp")
}

/// Adds a name and an age of five minutes.
fn named(name: &str, mut object: Value) -> Value {
    object["metadata"]["name"] = name.into();
    object["metadata"]["creationTimestamp"] = "2026-03-01T11:55:00Z".into();
    object
}

/// Checks the cells of an object named `x` that is five minutes old.
fn check(group: &str, kind: &str, name: &str, object: Value, expected: Value) {
    let cells = columns(group, kind).cells(&named("x", object), now());
    assert_eq!(Value::from(cells), expected, "{kind}: {name}");
}

fn render(columns: &Columns, objects: &[&Value], options: Options) -> Value {
    let metadata = objects.first().map_or_else(ListMeta::default, |object| ListMeta::of_object(object));
    serde_json::to_value(table(columns, metadata, objects, options)).expect("a table is JSON")
}

fn options(include_object: IncludeObject, with_header: bool) -> Options {
    Options { include_object, with_header, now: now() }
}

mod pods {
    use super::*;

    /// READY, STATUS and RESTARTS of a pod with containers `a` and `b`, and the init containers given.
    fn check(name: &str, init: Value, status: Value, expected: [&str; 3]) {
        check_pod(name, json!({"spec": {"initContainers": init, "containers": [{}, {}]}, "status": status}), expected);
    }

    fn check_pod(name: &str, pod: Value, expected: [&str; 3]) {
        let cells = columns("", "Pod").cells(&named("x", pod), now());
        assert_eq!(cells[1..4], expected, "{name}");
    }

    #[test]
    fn the_status_is_what_the_containers_do() {
        let running = json!({"ready": true, "state": {"running": {}}});
        let completed = json!({"state": {"terminated": {"reason": "Completed"}}});
        let check = |name: &str, containers: Value, expected| {
            let status = json!({"phase": "Running", "containerStatuses": containers});
            check(name, json!([]), status, expected);
        };
        check("all run", json!([running, running]), ["2/2", "Running", "0"]);
        check("one is not ready", json!([running, {"state": {"running": {}}}]), ["1/2", "Running", "0"]);
        check("ready but not running", json!([{"ready": true}]), ["0/2", "Running", "0"]);
        check(
            "the first that waits gives the word",
            json!([
                {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "restartCount": 4},
                {"state": {"waiting": {"reason": "ImagePullBackOff"}}},
            ]),
            ["0/2", "CrashLoopBackOff", "4"],
        );
        check("waiting without a reason says nothing", json!([{"state": {"waiting": {}}}]), ["0/2", "Running", "0"]);
        check(
            "ended with a reason",
            json!([{"state": {"terminated": {"reason": "Error", "exitCode": 1}}}]),
            ["0/2", "Error", "0"],
        );
        check("ended with a code", json!([{"state": {"terminated": {"exitCode": 3}}}]), ["0/2", "ExitCode:3", "0"]);
        check(
            "ended by a signal",
            json!([{"state": {"terminated": {"exitCode": 137, "signal": 9}}}]),
            ["0/2", "Signal:9", "0"],
        );
        check("one runs on but the pod is not ready", json!([completed, running]), ["1/2", "NotReady", "0"]);
        let status = json!({
            "phase": "Running", "containerStatuses": [completed, running],
            "conditions": [{"type": "Ready", "status": "True"}],
        });
        super::pods::check("one runs on and the pod is ready", json!([]), status, ["1/2", "Running", "0"]);
    }

    #[test]
    fn restarts_tell_when_the_last_one_was() {
        let restarted = |count: u32, finished: &str| {
            let last = json!({"terminated": {"finishedAt": finished}});
            json!({"restartCount": count, "lastState": last})
        };
        let check = |name: &str, containers: Value, expected| {
            check(
                name,
                json!([]),
                json!({"phase": "Running", "containerStatuses": containers}),
                ["0/2", "Running", expected],
            );
        };
        check("five minutes ago", json!([restarted(1, "2026-03-01T11:54:30Z")]), "1 (5m30s ago)");
        check(
            "the latest of several",
            json!([restarted(1, "2026-03-01T10:00:00Z"), restarted(2, "2026-03-01T11:59:00Z")]),
            "3 (60s ago)",
        );
        check("an end without a restart", json!([restarted(0, "2026-03-01T11:59:00Z")]), "0");
        check("a restart without a time", json!([{"restartCount": 2}]), "2");
    }

    #[test]
    fn init_containers_come_first() {
        let init = json!([{"name": "i0"}, {"name": "i1"}]);
        let done = json!({"name": "i0", "state": {"terminated": {"exitCode": 0}}});
        let check = |name: &str, statuses: Value, expected| {
            let status = json!({"phase": "Pending", "initContainerStatuses": statuses});
            check(name, init.clone(), status, expected);
        };
        check("the first runs", json!([{"state": {"running": {}}}, {}]), ["0/2", "Init:0/2", "0"]);
        check(
            "the second waits its turn",
            json!([done, {"state": {"waiting": {"reason": "PodInitializing"}}}]),
            ["0/2", "Init:1/2", "0"],
        );
        check(
            "one crashes",
            json!([{"restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {"terminated": {"finishedAt": "2026-03-01T11:59:50Z"}}}]),
            ["0/2", "Init:CrashLoopBackOff", "3 (10s ago)"],
        );
        check(
            "one failed with a reason",
            json!([{"state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]),
            ["0/2", "Init:Error", "0"],
        );
        check(
            "one failed with a code",
            json!([{"state": {"terminated": {"exitCode": 2}}}]),
            ["0/2", "Init:ExitCode:2", "0"],
        );
        check(
            "one failed by a signal",
            json!([{"state": {"terminated": {"exitCode": 2, "signal": 15}}}]),
            ["0/2", "Init:Signal:15", "0"],
        );
        check("all are done", json!([done, done]), ["0/2", "Pending", "0"]);
        let status = json!({
            "phase": "Running", "conditions": [{"type": "Initialized", "status": "True"}],
            "initContainerStatuses": [{"restartCount": 5, "state": {"running": {}}}],
            "containerStatuses": [{"ready": true, "restartCount": 1, "state": {"running": {}}}],
        });
        super::pods::check("an initialized pod shows its containers", init.clone(), status, ["1/2", "Init:0/2", "1"]);
    }

    #[test]
    fn sidecars_count_as_containers() {
        let init = json!([{"name": "proxy", "restartPolicy": "Always"}]);
        let proxy = |started: bool, ready: bool| {
            let state = json!({"running": {}});
            json!([{"name": "proxy", "started": started, "ready": ready, "restartCount": 2, "state": state}])
        };
        let check = |name: &str, statuses: Value, expected| {
            let status = json!({"phase": "Running", "initContainerStatuses": statuses, "containerStatuses": [
                {"ready": true, "restartCount": 1, "state": {"running": {}}}]});
            check(name, init.clone(), status, expected);
        };
        check("a ready sidecar and its restarts", proxy(true, true), ["2/3", "Running", "3"]);
        check("a started sidecar does not hold up the rest", proxy(true, false), ["1/3", "Running", "3"]);
        check("a sidecar that has not started does", proxy(false, false), ["0/3", "Init:0/1", "2"]);
    }

    #[test]
    fn the_pod_itself_may_have_a_say() {
        let check = |name: &str, pod: Value, expected| check_pod(name, pod, ["0/0", expected, "0"]);
        let deleted = json!({"deletionTimestamp": NOW});
        let gated = json!([{"type": "PodScheduled", "reason": "SchedulingGated"}]);
        check("a phase", json!({"status": {"phase": "Pending"}}), "Pending");
        check("a reason beats the phase", json!({"status": {"phase": "Failed", "reason": "Evicted"}}), "Evicted");
        check("a gate beats both", json!({"status": {"reason": "Evicted", "conditions": gated}}), "SchedulingGated");
        check("deletion", json!({"metadata": deleted, "status": {"phase": "Running"}}), "Terminating");
        check("deletion of an ended pod", json!({"metadata": deleted, "status": {"phase": "Failed"}}), "Failed");
        check(
            "a lost node",
            json!({"metadata": deleted, "status": {"phase": "Failed", "reason": "NodeLost"}}),
            "Unknown",
        );
        check("nothing is known", json!({}), "");
    }

    #[test]
    fn wide_cells_say_where_it_is() {
        let check = |name: &str, pod: Value, expected: [&str; 4]| {
            assert_eq!(columns("", "Pod").cells(&pod, now())[5..], expected, "{name}");
        };
        check("nowhere yet", json!({}), ["<none>"; 4]);
        check(
            "bound, with one of two gates met",
            json!({
                "spec": {"nodeName": "n1", "readinessGates": [{"conditionType": "a"}, {"conditionType": "b"}]},
                "status": {"podIP": "10.0.0.1", "nominatedNodeName": "n2", "conditions": [
                    {"type": "a", "status": "True"}, {"type": "b", "status": "False"}]},
            }),
            ["10.0.0.1", "n1", "n2", "1/2"],
        );
        check(
            "only the newer field is set",
            json!({"status": {"podIPs": [{"ip": "10.0.0.2"}]}}),
            ["10.0.0.2", "<none>", "<none>", "<none>"],
        );
    }

    #[test]
    fn rows_of_ended_pods_are_marked() {
        let check = |phase: &str, expected: Value| {
            let pod = json!({"status": {"phase": phase}});
            let table = render(&columns("", "Pod"), &[&pod], options(IncludeObject::None, false));
            assert_eq!(table["rows"][0]["conditions"], expected, "{phase}");
        };
        check("Running", Value::Null);
        let succeeded = json!([{"type": "Completed", "status": "True", "reason": "Succeeded",
            "message": "The pod has completed successfully."}]);
        check("Succeeded", succeeded);
        let failed = json!([{"type": "Completed", "status": "True", "reason": "Failed", "message": "The pod failed."}]);
        check("Failed", failed);
    }
}

#[test]
fn small_kinds() {
    check("", "Namespace", "active", json!({"status": {"phase": "Active"}}), json!(["x", "Active", "5m"]));
    let map = json!({"data": {"a": "1"}, "binaryData": {"b": "AA==", "c": "AA=="}});
    check("", "ConfigMap", "both kinds of data", map, json!(["x", 3, "5m"]));
    check("", "Secret", "typed", json!({"type": "Opaque", "data": {"a": ""}}), json!(["x", "Opaque", 1, "5m"]));
    check("", "ServiceAccount", "two secrets", json!({"secrets": [{}, {}]}), json!(["x", 2, "5m"]));
    check("coordination.k8s.io", "Lease", "free", json!({"spec": {}}), json!(["x", "", "5m"]));
    check("coordination.k8s.io", "Lease", "held", json!({"spec": {"holderIdentity": "me"}}), json!(["x", "me", "5m"]));
    let class = json!({"value": -5, "preemptionPolicy": "Never"});
    check("scheduling.k8s.io", "PriorityClass", "low", class, json!(["x", -5, false, "5m", "Never"]));
    check("rbac.authorization.k8s.io", "Role", "no columns", json!({}), json!(["x", "2026-03-01T11:55:00Z"]));
    let quota = json!({"status": {
        "hard": {"limits.cpu": "2", "pods": "10", "cpu": "1500m"}, "used": {"pods": "3", "limits.cpu": "1"}}});
    check(
        "",
        "ResourceQuota",
        "requests and limits",
        quota,
        json!(["x", "cpu: 0/1500m, pods: 3/10", "limits.cpu: 1/2", "5m"]),
    );
}

#[test]
fn nodes() {
    let none = ["<none>", "<none>", "<unknown>", "<unknown>", "<unknown>"];
    let check = |name: &str, node: Value, status: &str, roles: &str| {
        let [ip, external, os, kernel, runtime] = none;
        check("", "Node", name, node, json!(["x", status, roles, "5m", "", ip, external, os, kernel, runtime]));
    };
    let ready = |status: &str| json!({"conditions": [{"type": "Ready", "status": status}]});
    check("nothing is known", json!({}), "Unknown", "<none>");
    check("ready", json!({"status": ready("True")}), "Ready", "<none>");
    check("silent", json!({"status": ready("Unknown")}), "NotReady", "<none>");
    let cordoned = json!({"spec": {"unschedulable": true}, "status": ready("True")});
    check("cordoned", cordoned, "Ready,SchedulingDisabled", "<none>");
    let labels =
        json!({"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "gpu", "node-role.kubernetes.io/": "x"});
    check("roles from both labels", json!({"metadata": {"labels": labels}}), "Unknown", "gpu,worker");
    let status = json!({
        "nodeInfo": {"kubeletVersion": "v1.34.4", "osImage": "Debian", "kernelVersion": "6.1",
            "containerRuntimeVersion": "c://2"},
        "addresses": [{"type": "Hostname", "address": "h"}, {"type": "InternalIP", "address": "10.0.0.1"},
            {"type": "InternalIP", "address": "10.0.0.2"}, {"type": "ExternalIP", "address": "1.2.3.4"}],
    });
    let expected = json!(["x", "Unknown", "<none>", "5m", "v1.34.4", "10.0.0.1", "1.2.3.4", "Debian", "6.1", "c://2"]);
    super::tests::check("", "Node", "all about it", json!({"status": status}), expected);
}

#[test]
fn events() {
    let check = |name: &str, core: Value, new: Value, expected: Value| {
        check("", "Event", name, core, expected.clone());
        check("events.k8s.io", "Event", name, new, expected);
    };
    check(
        "counted",
        json!({
            "type": "Warning", "reason": "R", "message": " a\n", "count": 7,
            "firstTimestamp": "2026-03-01T11:00:00Z", "lastTimestamp": "2026-03-01T11:59:00Z",
            "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec.containers{c}"},
            "source": {"component": "kubelet", "host": "n1"},
        }),
        json!({
            "type": "Warning", "reason": "R", "note": " a\n", "deprecatedCount": 7,
            "deprecatedFirstTimestamp": "2026-03-01T11:00:00Z", "deprecatedLastTimestamp": "2026-03-01T11:59:00Z",
            "regarding": {"kind": "Pod", "name": "p", "fieldPath": "spec.containers{c}"},
            "deprecatedSource": {"component": "kubelet", "host": "n1"},
        }),
        json!(["60s", "Warning", "R", "pod/p", "spec.containers{c}", "kubelet, n1", "a", "60m", 7, "x"]),
    );
    let series = json!({"count": 4, "lastObservedTime": "2026-03-01T11:59:48.000000Z"});
    check(
        "a series",
        json!({"eventTime": "2026-03-01T11:00:00.000000Z", "reportingComponent": "c", "series": series}),
        json!({"eventTime": "2026-03-01T11:00:00.000000Z", "reportingController": "c", "series": series}),
        json!(["12s", "", "", "", "", "c", "", "60m", 4, "x"]),
    );
    check(
        "a single one of the newer kind",
        json!({"eventTime": "2026-03-01T11:00:00.000000Z", "reportingComponent": "c", "reportingInstance": "i"}),
        json!({"eventTime": "2026-03-01T11:00:00.000000Z", "reportingController": "c", "reportingInstance": "i"}),
        json!(["60m", "", "", "", "", "c, i", "", "60m", 1, "x"]),
    );
    let object = json!({"kind": "ReplicaSet"});
    check(
        "without any time or name",
        json!({"firstTimestamp": null, "involvedObject": object}),
        json!({"regarding": object}),
        json!(["<unknown>", "", "", "replicaset", "", "", "", "<unknown>", 1, "x"]),
    );
}

#[test]
fn services() {
    let check = |name: &str, service: Value, expected: [&str; 4]| {
        let [kind, ip, external, ports] = expected;
        check("", "Service", name, service, json!(["x", kind, ip, external, ports, "5m", "<none>"]));
    };
    let port = json!([{"port": 80, "protocol": "TCP"}]);
    let cluster = json!({"spec": {"type": "ClusterIP", "clusterIPs": ["10.0.0.1"], "ports": port}});
    check("inside only", cluster, ["ClusterIP", "10.0.0.1", "<none>", "80/TCP"]);
    let headless = json!({"spec": {"type": "ClusterIP", "clusterIP": "None"}});
    check("headless", headless, ["ClusterIP", "None", "<none>", "<none>"]);
    let ports = json!([{"port": 80, "nodePort": 30080, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]);
    let node_port = json!({"spec": {"type": "NodePort", "ports": ports, "externalIPs": ["1.1.1.1", "1.1.1.2"]}});
    check("on the nodes", node_port, ["NodePort", "<none>", "1.1.1.1,1.1.1.2", "80:30080/TCP,53/UDP"]);
    let balancer = |spec: Value, ingress: Value| {
        let mut service = json!({"spec": spec, "status": {"loadBalancer": {"ingress": ingress}}});
        service["spec"]["type"] = "LoadBalancer".into();
        service
    };
    check("no balancer yet", balancer(json!({}), json!([])), ["LoadBalancer", "<none>", "<pending>", "<none>"]);
    let points = json!([{"ip": "9.9.9.9"}, {"hostname": "lb.example.com"}, {"ip": "8.8.8.8"}, {"ip": "9.9.9.9"}]);
    let expected = ["LoadBalancer", "<none>", "8.8.8.8,9.9.9.9,lb.example.com", "<none>"];
    check("points of a balancer, sorted", balancer(json!({}), points), expected);
    let both = balancer(json!({"externalIPs": ["1.1.1.1"]}), json!([{"ip": "9.9.9.9"}]));
    check("a balancer and own addresses", both, ["LoadBalancer", "<none>", "9.9.9.9,1.1.1.1", "<none>"]);
    let external = json!({"spec": {"type": "ExternalName", "externalName": "a.example"}});
    check("another name", external, ["ExternalName", "<none>", "a.example", "<none>"]);
    check("a bookmark", json!({}), ["", "<none>", "<unknown>", "<none>"]);
}

#[test]
fn endpoints() {
    let check_endpoints = |name: &str, subsets: Value, expected: &str| {
        check("", "Endpoints", name, json!({"subsets": subsets}), json!(["x", expected, "5m"]));
    };
    let ips = json!([{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]);
    check_endpoints("none", json!([]), "<none>");
    check_endpoints("none is ready", json!([{"notReadyAddresses": ips, "ports": [{"port": 80}]}]), "");
    check_endpoints("without ports", json!([{"addresses": ips}]), "10.0.0.1,fd00::1");
    let two_ports = json!([{"addresses": ips, "ports": [{"port": 80}, {"port": 81}]}]);
    check_endpoints("more than three", two_ports, "10.0.0.1:80,[fd00::1]:80,10.0.0.1:81 + 1 more...");

    let check_slice = |name: &str, slice: Value, ports: &str, endpoints: &str| {
        check("discovery.k8s.io", "EndpointSlice", name, slice, json!(["x", "IPv4", ports, endpoints, "5m"]));
    };
    check_slice("empty", json!({"addressType": "IPv4"}), "<unset>", "<unset>");
    let slice = json!({"addressType": "IPv4", "ports": [{"port": 80}, {"name": "web"}, {}, {"port": 1}, {"port": 2}],
        "endpoints": [{"addresses": ["10.0.0.1", "10.0.0.2"]}, {"addresses": ["10.0.0.3"]}]});
    check_slice("full", slice, "80,web,* + 2 more...", "10.0.0.1,10.0.0.2,10.0.0.3");
}

#[test]
fn ingresses_and_policies() {
    let group = "networking.k8s.io";
    let selector = json!({"spec": {"podSelector": {"matchLabels": {"a": "b"}}}});
    check(group, "NetworkPolicy", "some pods", selector, json!(["x", "a=b", "5m"]));
    check(group, "NetworkPolicy", "all pods", json!({"spec": {"podSelector": {}}}), json!(["x", "<none>", "5m"]));

    let check_hosts = |hosts: &[&str], expected: &str| {
        let rules: Vec<Value> = hosts.iter().map(|host| json!({"host": host})).collect();
        check(
            group,
            "Ingress",
            expected,
            json!({"spec": {"rules": rules}}),
            json!(["x", "<none>", expected, "", "80", "5m"]),
        );
    };
    check_hosts(&[], "*");
    check_hosts(&["", ""], "*");
    check_hosts(&["a", "b", "c"], "a,b,c");
    check_hosts(&["a", "b", "c", "d"], "a,b,c + 1 more...");
    check_hosts(&["a", "", "b", "c", ""], "a,b,c + 2 more...");
    let ingress = json!({"spec": {"ingressClassName": "nginx", "tls": [{}]},
        "status": {"loadBalancer": {"ingress": [{"hostname": "h.example"}, {"ip": "1.1.1.1"}]}}});
    check(group, "Ingress", "with TLS", ingress, json!(["x", "nginx", "*", "1.1.1.1,h.example", "80, 443", "5m"]));

    let check_class = |parameters: Value, expected: &str| {
        let class = json!({"spec": {"controller": "c/d", "parameters": parameters}});
        check(group, "IngressClass", expected, class, json!(["x", "c/d", expected, "5m"]));
    };
    check_class(Value::Null, "<none>");
    check_class(json!({"kind": "K", "name": "n"}), "K/n");
    check_class(json!({"apiGroup": "g.h", "kind": "K", "name": "n"}), "K.g.h/n");
}

#[test]
fn role_bindings() {
    let binding = json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": [
        {"kind": "User", "name": "u1"}, {"kind": "Group", "name": "g"}, {"kind": "User", "name": "u2"},
        {"kind": "ServiceAccount", "name": "s", "namespace": "n"}]});
    let expected = json!(["x", "Role/r", "5m", "u1, u2", "g", "n/s"]);
    check("rbac.authorization.k8s.io", "RoleBinding", "all subjects", binding.clone(), expected.clone());
    check("rbac.authorization.k8s.io", "ClusterRoleBinding", "all subjects", binding, expected);
}

#[test]
fn volumes() {
    let volume = json!({"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain", "claimRef": {"namespace": "n", "name": "c"},
        "storageClassName": "fast", "volumeMode": "Block"}, "status": {"phase": "Failed", "reason": "Lost"}});
    let expected = json!(["x", "1Gi", "RWO,RWX", "Retain", "Failed", "n/c", "fast", "<unset>", "Lost", "5m", "Block"]);
    check("", "PersistentVolume", "bound", volume, expected);
    let annotations = json!({"volume.beta.kubernetes.io/storage-class": "old"});
    let deleted = json!({"metadata": {"deletionTimestamp": NOW, "annotations": annotations}});
    let expected = json!(["x", "0", "", "", "Terminating", "", "old", "<unset>", "", "5m", "<unset>"]);
    check("", "PersistentVolume", "deleted, with the old annotation", deleted.clone(), expected);

    let pending =
        json!({"spec": {"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem"}, "status": {"phase": "Pending"}});
    let expected = json!(["x", "Pending", "", "", "", "", "<unset>", "5m", "Filesystem"]);
    check("", "PersistentVolumeClaim", "pending", pending, expected);
    let bound = json!({"spec": {"volumeName": "v", "storageClassName": "fast"},
        "status": {"phase": "Bound", "capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOncePod"]}});
    let expected = json!(["x", "Bound", "v", "2Gi", "RWOP", "fast", "<unset>", "5m", "<unset>"]);
    check("", "PersistentVolumeClaim", "bound", bound, expected);
    let expected = json!(["x", "Terminating", "", "", "", "old", "<unset>", "5m", "<unset>"]);
    check("", "PersistentVolumeClaim", "deleted", deleted, expected);

    let group = "storage.k8s.io";
    let expected = json!(["x", "p", "Delete", "Immediate", false, "5m"]);
    check(group, "StorageClass", "bare", json!({"provisioner": "p"}), expected);
    let class = json!({"metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "p", "reclaimPolicy": "Retain", "volumeBindingMode": "WaitForFirstConsumer",
        "allowVolumeExpansion": true});
    let expected = json!(["x (default)", "p", "Retain", "WaitForFirstConsumer", true, "5m"]);
    check(group, "StorageClass", "the default", class, expected);
}

#[test]
fn workloads() {
    let template = json!({"spec": {"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "j:1"}]}});
    let spec = json!({"replicas": 3, "selector": {"matchLabels": {"app": "x"}}, "template": template});
    let status = json!({"replicas": 3, "readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1});
    let object = json!({"spec": spec, "status": status});
    let expected = json!(["x", "1/3", 2, 1, "5m", "a,b", "i,j:1", "app=x"]);
    check("apps", "Deployment", "rolling out", object.clone(), expected);
    let expected = json!(["x", "0/0", 0, 0, "5m", "", "", ""]);
    check("apps", "Deployment", "a bookmark", json!({}), expected);
    let expected = json!(["x", 3, 3, 1, "5m", "a,b", "i,j:1", "app=x"]);
    check("apps", "ReplicaSet", "scaling up", object.clone(), expected);
    check("apps", "StatefulSet", "scaling up", object.clone(), json!(["x", "1/3", "5m", "a,b", "i,j:1"]));
    check("autoscaling", "Scale", "of a set", object, json!(["x", 3, 3, "5m"]));

    let check_owner = |owner: Value, expected: &str| {
        let revision = json!({"metadata": {"ownerReferences": [owner]}, "revision": 2});
        check("apps", "ControllerRevision", expected, revision, json!(["x", expected, 2, "5m"]));
    };
    check_owner(
        json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "controller": true}),
        "statefulset.apps/db",
    );
    check_owner(json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "controller": true}), "pod/p");
    check_owner(json!({"apiVersion": "v1", "kind": "Pod", "name": "p"}), "<none>");

    let check_budget = |spec: Value, min: &str, max: &str| {
        let budget = json!({"spec": spec, "status": {"disruptionsAllowed": 1}});
        check("policy", "PodDisruptionBudget", "", budget, json!(["x", min, max, 1, "5m"]));
    };
    check_budget(json!({"minAvailable": "50%"}), "50%", "N/A");
    check_budget(json!({"maxUnavailable": 0}), "N/A", "0");
}

#[test]
fn jobs() {
    let check = |name: &str, job: Value, status: &str, completions: &str, duration: &str| {
        let expected = json!(["x", status, completions, duration, "5m", "", "", "<none>"]);
        check("batch", "Job", name, job, expected);
    };
    let conditions = |types: &[&str]| {
        let conditions: Vec<Value> = types.iter().map(|t| json!({"type": t, "status": "True"})).collect();
        json!({"status": {"conditions": conditions}})
    };
    let deleted = |types: &[&str]| {
        let mut job = conditions(types);
        job["metadata"]["deletionTimestamp"] = NOW.into();
        job
    };
    check("new", json!({}), "Running", "0/1", "");
    check("suspended", conditions(&["Suspended"]), "Suspended", "0/1", "");
    check("about to fail", conditions(&["FailureTarget"]), "FailureTarget", "0/1", "");
    check("about to succeed", conditions(&["SuccessCriteriaMet"]), "SuccessCriteriaMet", "0/1", "");
    check("failed", conditions(&["FailureTarget", "Failed"]), "Failed", "0/1", "");
    check("complete", conditions(&["SuccessCriteriaMet", "Complete"]), "Complete", "0/1", "");
    check("deleted", deleted(&["Suspended"]), "Terminating", "0/1", "");
    check("deleted after its end", deleted(&["Failed"]), "Failed", "0/1", "");
    let running = json!({"spec": {"completions": 5}, "status": {"succeeded": 2, "startTime": "2026-03-01T11:50:00Z"}});
    check("some of its pods succeeded", running, "Running", "2/5", "10m");
    let ended = json!({"spec": {"completions": 1}, "status": {"succeeded": 1,
        "startTime": "2026-03-01T10:00:00Z", "completionTime": "2026-03-01T10:00:30Z"}});
    check("its duration ends with it", ended, "Running", "1/1", "30s");
    check("a work queue", json!({"spec": {"parallelism": 3}}), "Running", "0/1 of 3", "");
}

mod custom_resources {
    use super::*;

    fn check(name: &str, cell_type: &str, value: Value, expected: Value) {
        let columns = Columns::custom(&[json!({"name": "C", "type": cell_type, "jsonPath": ".spec.v"})]);
        let cells = columns.cells(&named("x", json!({"spec": {"v": value}})), now());
        assert_eq!(Value::from(cells), json!(["x", expected]), "{name}");
    }

    #[test]
    fn a_string_column_shows_everything() {
        let check = |value: Value, expected: &str| check(&value.to_string(), "string", value.clone(), expected.into());
        check(json!("text"), "text");
        check(json!(true), "true");
        check(Value::Null, "<no value>");
        check(json!({"b": [1, null], "a": "<&>\u{2028}"}), r#"{"a":"\u003c\u0026\u003e\u2028","b":[1,null]}"#);
        check(json!(-7), "-7");
        check(json!(1_000_000), "1000000");
        check(json!(1.5), "1.5");
        check(json!(2.0), "2");
        check(json!(100_000.5), "100000.5");
        check(json!(1e6), "1e+06");
        check(json!(1_234_567.5), "1.2345675e+06");
        check(json!(1e-4), "0.0001");
        check(json!(1e-5), "1e-05");
        check(json!(1e100), "1e+100");
    }

    #[test]
    fn other_columns_show_only_their_type() {
        check("integer", "integer", json!(5), json!(5));
        check("integer from a fraction", "integer", json!(-5.7), json!(-5));
        check("integer from a text", "integer", json!("5"), Value::Null);
        check("number", "number", json!(1.5), json!(1.5));
        check("whole number", "number", json!(2.0), json!(2));
        check("boolean", "boolean", json!(false), json!(false));
        check("boolean from a text", "boolean", json!("true"), Value::Null);
        check("null", "integer", Value::Null, Value::Null);
    }

    #[test]
    fn a_date_column_shows_an_age() {
        let check = |value: Value, expected: Value| check(&value.to_string(), "date", value.clone(), expected);
        check(json!("2026-03-01T11:59:00Z"), json!("60s"));
        check(json!("2026-03-01T13:59:00.5+02:00"), json!("59s"));
        check(json!(""), json!("<unknown>"));
        check(json!("soon"), json!("<invalid>"));
        check(json!("2026-03-01"), json!("<invalid>"));
        check(json!("2026-03-01 11:59:00Z"), json!("<invalid>"));
        check(json!("2026-03-01T11:59Z"), json!("<invalid>"));
        check(json!("2026-03-01T11:59:00"), json!("<invalid>"));
        check(json!("2099-01-01T00:00:00Z"), json!("<invalid>"));
        check(json!(5), Value::Null);
    }

    #[test]
    fn definitions_follow_the_printer_columns() {
        let columns = Columns::custom(&[
            json!({"name": "A", "type": "integer", "format": "int32", "description": "mine", "priority": 1,
                "jsonPath": ".a"}),
            json!({"name": "B", "type": "string", "jsonPath": ".b"}),
        ]);
        let definitions = serde_json::to_value(&columns.definitions()[1..]).expect("definitions are JSON");
        let described = "Custom resource definition column (in JSONPath format): .b";
        assert_eq!(
            definitions,
            json!([
                {"name": "A", "type": "integer", "format": "int32", "description": "mine", "priority": 1},
                {"name": "B", "type": "string", "format": "", "description": described, "priority": 0},
            ])
        );
        assert_eq!(columns.cells(&named("x", json!({})), now()), [json!("x"), Value::Null, Value::Null]);
    }

    #[test]
    fn without_printer_columns_there_is_an_age() {
        let columns = Columns::custom(&[]);
        assert_eq!(columns.definitions()[1].cell_type, "date");
        assert_eq!(columns.cells(&named("x", json!({})), now()), ["x", "5m"]);
    }
}

#[test]
fn the_frame_of_a_table() {
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "l", "resourceVersion": "7", "creationTimestamp": NOW}});
    let columns = columns("coordination.k8s.io", "Lease");
    let mut table = render(&columns, &[&lease], options(IncludeObject::Metadata, true));
    let header = table["columnDefinitions"].take();
    assert_eq!(header[0]["format"], "name");
    assert_eq!(header.as_array().map(Vec::len), Some(3));
    let metadata = &lease["metadata"];
    assert_eq!(
        table,
        json!({
            "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": "7"},
            "columnDefinitions": null,
            "rows": [{"cells": ["l", "", "0s"], "object":
                {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}}],
        })
    );
    assert_eq!(render(&columns, &[&lease], options(IncludeObject::Metadata, false)), table, "without a header");
    let leases = [&lease];
    let older = super::table(&columns, ListMeta::of_object(&lease), &leases, options(IncludeObject::Metadata, true));
    let older = serde_json::to_value(older.in_v1beta1()).expect("a table is JSON");
    assert_eq!(older["apiVersion"], "meta.k8s.io/v1beta1");
    assert_eq!(older["rows"][0]["object"]["apiVersion"], "meta.k8s.io/v1beta1");
    assert_eq!(render(&columns, &[&lease], options(IncludeObject::Object, false))["rows"][0]["object"], lease);
    assert_eq!(render(&columns, &[&lease], options(IncludeObject::None, false))["rows"][0]["object"], Value::Null);
}

#[test]
fn the_bookmark_that_ends_the_initial_events_keeps_its_annotation() {
    let bookmark = json!({"metadata": {"resourceVersion": "9", "annotations": {"k8s.io/initial-events-end": "true"}}});
    let table = render(&columns("", "Pod"), &[&bookmark], options(IncludeObject::None, false));
    assert_eq!(table["rows"][0]["object"]["metadata"], bookmark["metadata"]);
    assert_eq!(table["rows"][0]["cells"].as_array().map(Vec::len), Some(9));
}

#[test]
fn an_empty_list_has_no_rows() {
    let rows = |columns: &Columns| render(columns, &[], options(IncludeObject::None, true))["rows"].take();
    assert_eq!(rows(&columns("", "Pod")), json!([]));
    assert_eq!(rows(&Columns::custom(&[])), json!([]));
    assert_eq!(rows(&columns("", "LimitRange")), Value::Null);
    let metadata = ListMeta { resource_version: "5", continue_token: "c", remaining_item_count: Some(2) };
    let written = serde_json::to_value(metadata).expect("metadata is JSON");
    assert_eq!(written, json!({"resourceVersion": "5", "continue": "c", "remainingItemCount": 2}));
}

#[test]
fn include_object_is_one_of_three_words() {
    assert_eq!(IncludeObject::parse(None), Ok(IncludeObject::Metadata));
    assert_eq!(IncludeObject::parse(Some("None")), Ok(IncludeObject::None));
    let refused = IncludeObject::parse(Some("Foo")).map_err(|error| error.message);
    let message = "Unable to convert to Table as requested: includeObject: Invalid value: \"Foo\": \
                   must be 'Metadata', 'Object', 'None', or empty";
    assert_eq!(refused, Err(message.to_owned()));
}

/// Objects with the right names in them and anything at all behind the names.
fn objects() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(vec![
        "metadata",
        "spec",
        "status",
        "conditions",
        "type",
        "name",
        "state",
        "terminated",
        "waiting",
        "reason",
        "data",
        "containers",
        "containerStatuses",
        "initContainerStatuses",
        "subsets",
        "addresses",
        "ports",
        "rules",
        "x",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
        Just(json!("2026-03-01T11:55:00Z")),
    ];
    leaf.prop_recursive(6, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(word.clone().prop_map(str::to_owned), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_object_has_one_cell_for_each_column(object in objects()) {
        for (group, kind) in KINDS {
            let columns = columns(group, kind);
            prop_assert_eq!(columns.cells(&object, now()).len(), columns.definitions().len(), "{}", kind);
        }
    }
}
