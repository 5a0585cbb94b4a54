//! Objects as users write them, and what the scheduler hears, row by row.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use ronde_api::{HyperNode, PodGroup, Queue};
use ronde_runtime::pods::resources::{quota_requests, requests};
use ronde_scheduler::{Amounts, LabelSelector, NodeSelector, Operator, QueueState, Requirement, Time, Volumes, Within};
use serde_json::{Value, json};

use super::{
    groups::{self, GroupContext, class_of},
    node_groups, nodes, pods,
    volumes::{Claimed, awaits_node, chooses, claim_names, volumes},
};
use crate::{
    membership::{Membership, membership},
    scheduling::Scheduler,
};

fn read<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

/// A pod of the default scheduler whose spec is `more` over one container that asks for one processor.
fn pod(more: Value) -> Pod {
    let mut spec = json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let meta = json!({"name": "p-7", "namespace": "n", "uid": "u", "labels": {"app": "web", "version": "2"},
        "creationTimestamp": "2027-01-15T08:00:00Z"});
    read(json!({"metadata": meta, "spec": spec}))
}

fn annotated(key: &str, value: &str) -> Pod {
    let mut pod = pod(json!({}));
    pod.metadata.annotations = Some([(key.to_owned(), value.to_owned())].into());
    pod
}

fn told(pod: &Pod) -> ronde_scheduler::Pod {
    pods::pod(pod, &membership(pod, &Scheduler::for_machine().schedulers), Volumes::default())
}

#[test]
fn a_pod_asks_for_its_most_demanding_moment() {
    let check = |what: &str, spec: Value, expected: &str| {
        let spec = pod(spec).spec.unwrap();
        assert_eq!(requests(&spec).to_string(), expected, "{what}");
    };
    let c = |cpu: &str| json!({"name": "c", "resources": {"requests": {"cpu": cpu}}});
    let sidecar = |cpu: &str| json!({"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}}});
    check("nothing", json!({"containers": [{"name": "c"}]}), "");
    check("the sum of containers", json!({"containers": [c("1"), c("500m")]}), "1500m cpu");
    check("a hungry start", json!({"containers": [c("1")], "initContainers": [c("3"), c("2")]}), "3 cpu");
    check("sidecars beside containers", json!({"containers": [c("1")], "initContainers": [sidecar("1")]}), "2 cpu");
    check(
        "a start beside a sidecar",
        json!({"containers": [c("1")], "initContainers": [sidecar("1"), c("3")]}),
        "4 cpu",
    );
    check("a start before it", json!({"containers": [c("1")], "initContainers": [c("3"), sidecar("1")]}), "3 cpu");
    check(
        "overhead",
        json!({"containers": [c("1")], "overhead": {"cpu": "250m", "memory": "1Mi"}}),
        "1250m cpu, 1Mi memory",
    );
    check("the pod's own word", json!({"containers": [c("1")], "resources": {"requests": {"cpu": "2"}}}), "2 cpu");
    let device =
        json!({"containers": [{"name": "c", "resources": {"requests": {"nvidia.com/gpu": "2", "memory": "1.5Gi"}}}]});
    check("devices and bytes", device, "1536Mi memory, 2 nvidia.com/gpu");
    let absurd = json!({"containers": [{"name": "c", "resources": {"requests": {"memory": "1000E"}}}]});
    check("more than can be counted", absurd, &format!("{} memory", i64::MAX));
}

#[test]
fn quotas_name_requests_in_their_own_way() {
    let texts = read(json!({"pods": "3", "count/pods": "3", "cpu": "3", "requests.cpu": "3", "limits.cpu": "6",
        "requests.nvidia.com/gpu": "3", "memory": "0"}));
    assert_eq!(quota_requests(&texts).to_string(), "3 cpu, 3 nvidia.com/gpu, 3 pods");
}

#[test]
fn a_pod_belongs_to_somebody() {
    let group = annotated("scheduling.k8s.io/group-name", "g");
    let check = |what: &str, pod: &Pod, scheduler: &str, expected: Membership| {
        let mut pod = pod.clone();
        pod.spec.as_mut().unwrap().scheduler_name = Some(scheduler.to_owned()).filter(|name| !name.is_empty());
        assert_eq!(membership(&pod, &Scheduler::for_machine().schedulers), expected, "{what}");
    };
    let plain = pod(json!({}));
    check("plain", &plain, "", Membership::Alone);
    check("plain, by name", &plain, "default-scheduler", Membership::Alone);
    check("of another scheduler", &plain, "example", Membership::Stranger);
    check("of another scheduler, whatever its group", &group, "example", Membership::Stranger);
    check("in a group", &group, "volcano", Membership::Of("n/g".into()));
    check("in a group of the default scheduler", &group, "", Membership::Of("n/g".into()));
    check("whose group is still to be made", &plain, "volcano", Membership::Unassigned);
    check("with an empty name", &annotated("scheduling.k8s.io/group-name", ""), "ronde", Membership::Unassigned);
    let on_a_cluster = membership(&plain, &Scheduler::for_cluster().schedulers);
    assert_eq!(on_a_cluster, Membership::Stranger, "a cluster has its own scheduler for plain pods");
}

#[test]
fn only_pods_that_are_ours_and_free_are_placed_or_pushed_out() {
    let check = |what: &str, pod: &Pod, held: bool, preemptable: bool| {
        let told = told(pod);
        assert_eq!((told.held, told.preemptable), (held, preemptable), "{what}");
    };
    check("plain", &pod(json!({})), false, true);
    check("gated", &pod(json!({"schedulingGates": [{"name": "example.com/wait"}]})), true, true);
    check("a stranger", &pod(json!({"schedulerName": "example"})), true, false);
    check("without its group", &pod(json!({"schedulerName": "volcano"})), true, false);
    check("as it says itself", &annotated("volcano.sh/preemptable", "false"), false, false);
    check("the cluster needs it", &pod(json!({"priority": 2_000_000_000})), false, false);
    check("the node's own", &annotated("kubernetes.io/config.mirror", "x"), false, false);
}

#[test]
fn a_pod_keeps_its_name_place_and_age() {
    let mut bound = annotated("volcano.sh/task-spec", "worker");
    bound.spec.as_mut().unwrap().node_name = Some("a".to_owned());
    bound.status = read(json!({"phase": "Running", "nominatedNodeName": "b"}));
    let told = told(&bound);
    assert_eq!((told.id.to_string(), told.group.to_string()), ("n/p-7".to_owned(), "n/pod/p-7".to_owned()));
    assert_eq!((&*told.task, told.index), ("worker", 7), "the number is in the name if nowhere else");
    assert_eq!((told.node, told.nominated), (Some("a".into()), Some("b".into())));
    assert_eq!((told.phase, told.leaving), (ronde_scheduler::Phase::Running, false));
    assert_eq!(told.created, Time::from_millis(1_800_000_000_000));
}

#[test]
fn wishes_about_nodes_and_neighbours_are_passed_on() {
    let term = json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}},
        "matchLabelKeys": ["version", "absent"], "mismatchLabelKeys": ["app"], "namespaceSelector": {}});
    let expressions = json!([{"key": "zone", "operator": "In", "values": ["x"]}, {"key": "k", "operator": "Near"}]);
    let spec = told(&pod(json!({
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "k", "operator": "Exists"}, {"operator": "Exists", "effect": "NoExecute"},
            {"key": "k", "value": "v"}, {"value": "v"}, {"key": "k", "effect": "Never"}],
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}},
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term.clone()],
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "podAffinityTerm": term}]},
        },
        "topologySpreadConstraints": [{"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {}, "nodeTaintsPolicy": "Honor", "matchLabelKeys": ["version"]}],
    })))
    .spec;
    assert_eq!(spec.node_selector["disk"], "fast");
    let tolerated: Vec<_> = spec.tolerations.iter().map(|t| (t.key.as_str(), t.value.as_deref())).collect();
    assert_eq!(tolerated, [("k", None), ("", None), ("k", Some("v"))], "malformed ones tolerate nothing");
    let required = spec.node_affinity.required.as_ref().unwrap();
    assert_eq!(required.terms[0].expressions[0], Requirement::new("zone", Operator::In, ["x"]));
    assert!(!required.terms[0].expressions[1].accepts(Some("x")), "an unknown operator accepts nothing");
    let expected = LabelSelector {
        expressions: vec![
            Requirement::new("version", Operator::In, ["2"]),
            Requirement::new("app", Operator::NotIn, ["web"]),
        ],
        ..LabelSelector::label("app", "web")
    };
    assert_eq!(spec.anti_affinity[0].selector.as_ref(), Some(&expected));
    assert_eq!(spec.anti_affinity[0].namespace_selector, Some(LabelSelector::default()), "all namespaces");
    assert_eq!((spec.preferred_anti_affinity[0].weight, spec.affinity.len()), (7, 0));
    let spread = &spec.spread[0];
    assert_eq!(
        (spread.max_skew, spread.required, spread.honours_affinity, spread.honours_taints),
        (2, true, true, true)
    );
    assert!(spread.selector.as_ref().unwrap().expressions[0].accepts(Some("2")));
}

#[test]
fn ports_of_the_node_are_taken_by_containers_that_stay() {
    let port = |number: u16, more: Value| {
        let mut port = json!({"containerPort": 80, "hostPort": number});
        port.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"name": "c", "ports": [port]})
    };
    let mut sidecar = port(3, json!({"hostIP": "::"}));
    sidecar["restartPolicy"] = "Always".into();
    let spec = told(&pod(json!({
        "containers": [port(1, json!({"protocol": "UDP"})), port(0, json!({})), {"name": "d"}],
        "initContainers": [port(2, json!({})), sidecar],
    })))
    .spec;
    let taken: Vec<_> = spec.host_ports.iter().map(|p| format!("{}/{}@{}", p.port, p.protocol, p.address)).collect();
    assert_eq!(taken, ["1/UDP@", "3/TCP@"]);
}

fn claimed(claim: Value, volume: Value, class: Value) -> Vec<Claimed> {
    fn some<K: serde::de::DeserializeOwned>(value: Value) -> Option<Arc<K>> {
        Some(value).filter(|value| !value.is_null()).map(|value| Arc::new(read(value)))
    }
    let name = "data".to_owned();
    vec![Claimed { name, claim: some(claim), volume: some(volume), class: some(class), offers: Vec::new() }]
}

#[test]
fn a_claim_that_nobody_makes_a_volume_for_goes_to_one_that_exists() {
    let class = json!({"metadata": {"name": "local"}, "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer"});
    let claim = json!({"metadata": {"name": "data", "namespace": "n", "uid": "u"}, "spec": {"storageClassName": "local",
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}});
    let volume = |name: &str, size: &str, node: &str| {
        let term = json!({"matchExpressions": [{"key": "host", "operator": "In", "values": [node]}]});
        let spec = json!({"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": "local",
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}});
        Arc::new(read(json!({"metadata": {"name": name}, "spec": spec, "status": {"phase": "Available"}})))
    };
    let mut claims = claimed(claim, json!(null), class);
    assert!(chooses(&claims[0]) && awaits_node(&claims[0]));
    let why = "claim `data` waits for a volume: no free volume matches, and none can be provisioned";
    assert_eq!(volumes(&claims), Volumes::Missing(why.to_owned()));
    claims[0].offers = vec![volume("large", "9Gi", "a"), volume("fit", "2Gi", "a"), volume("small", "1Gi", "b")];
    claims[0].offers.push(volume("far", "3Gi", "c"));
    claims[0].keep_fitting_offers();
    let on = |node: &str| claims[0].offer_on(node, &[("host".to_owned(), node.to_owned())].into());
    let name = |node: &str| on(node).and_then(|volume| volume.metadata.name.clone());
    assert_eq!(name("a").as_deref(), Some("fit"), "the smallest that will do");
    assert_eq!(name("b"), None, "it is too small");
    assert_eq!(name("c").as_deref(), Some("far"));
    let Volumes::On(places) = volumes(&claims) else { panic!("there are places") };
    let is_place = |node: &str| places[0].selects(node, &[("host".to_owned(), node.to_owned())].into());
    assert_eq!([is_place("a"), is_place("b"), is_place("c")], [true, false, true]);
}

#[test]
fn a_queue_goes_to_groups_of_nodes() {
    let check = |what: &str, affinity: Value, own: Value, expected: [bool; 4]| {
        let mut told = told(&pod(own));
        node_groups::require(&read(affinity), &mut Arc::make_mut(&mut told.spec).node_affinity);
        let required = told.spec.node_affinity.required.as_ref();
        let may_go = |group: Option<&str>| {
            let labels = group.map(|group| ("volcano.sh/nodegroup-name".to_owned(), group.to_owned()));
            let labels = labels.into_iter().chain([("disk".to_owned(), "ssd".to_owned())]).collect();
            required.is_none_or(|selector| selector.selects("n", &labels))
        };
        assert_eq!([Some("a"), Some("b"), Some("c"), None].map(may_go), expected, "{what}");
    };
    let required = |groups: Value| json!({"requiredDuringSchedulingIgnoredDuringExecution": groups});
    let preferred = |groups: Value| json!({"preferredDuringSchedulingIgnoredDuringExecution": groups});
    let all = [true; 4];
    check("nothing is said", json!({}), json!({}), all);
    let must = json!({"nodeGroupAffinity": required(json!(["a"]))});
    check("it must", must.clone(), json!({}), [true, false, false, false]);
    check(
        "it would like to",
        json!({"nodeGroupAffinity": preferred(json!(["b"]))}),
        json!({}),
        [false, true, false, false],
    );
    let never = json!({"nodeGroupAntiAffinity": required(json!(["a"]))});
    check("it must not", never, json!({}), [false, true, true, true]);
    check("it would rather not", json!({"nodeGroupAntiAffinity": preferred(json!(["a"]))}), json!({}), all);
    let term = |value: &str| json!({"matchExpressions": [{"key": "disk", "operator": "In", "values": [value]}]});
    let node = |terms: Value| json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}});
    check("the pod's own wish counts too", must.clone(), node(json!([term("hdd")])), [false; 4]);
    check("each of its wishes", must, node(json!([term("hdd"), term("ssd")])), [true, false, false, false]);
}

#[test]
fn volumes_have_their_say() {
    let check = |what: &str, claims: &[Claimed], expected: Volumes| assert_eq!(volumes(claims), expected, "{what}");
    let missing = |why: &str| Volumes::Missing(why.to_owned());
    let bound = || json!({"metadata": {"name": "data", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}});
    let at = json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}]);
    let local = json!({"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": at}}}});
    let patient = || json!({"provisioner": "x", "volumeBindingMode": "WaitForFirstConsumer"});
    check("none", &[], Volumes::On(Vec::new()));
    check("no claim", &claimed(json!(null), json!(null), json!(null)), missing("claim `data` does not exist"));
    check("not bound", &claimed(json!({}), json!(null), json!(null)), missing("claim `data` has no volume yet"));
    let lost = json!({"status": {"phase": "Lost"}});
    check("lost", &claimed(lost, json!(null), json!(null)), missing("claim `data` has lost its volume"));
    let going = json!({"metadata": {"deletionTimestamp": "2027-01-15T08:00:00Z"}});
    check("going", &claimed(going, json!(null), json!(null)), missing("claim `data` is being deleted"));
    check("anywhere", &claimed(bound(), json!({"spec": {}}), json!(null)), Volumes::On(Vec::new()));
    check("on one node", &claimed(bound(), local, patient()), Volumes::On(vec![NodeSelector::names(["a"])]));
    check("wherever the pod is", &claimed(json!({}), json!(null), patient()), Volumes::On(Vec::new()));
    let mut zonal = patient();
    zonal["allowedTopologies"] = json!([{"matchLabelExpressions": [{"key": "zone", "values": ["x", "y"]}]}]);
    let Volumes::On(places) = volumes(&claimed(json!({}), json!(null), zonal)) else { panic!("it can be made") };
    assert!(places[0].selects("a", &[("zone".to_owned(), "y".to_owned())].into()));
    assert!(!places[0].selects("a", &[("zone".to_owned(), "z".to_owned())].into()));
    assert!(awaits_node(&claimed(json!({}), json!(null), patient())[0]), "it is told the node");
    assert!(!awaits_node(&claimed(bound(), json!({}), patient())[0]), "it has a volume already");
    let named = pod(json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "w", "ephemeral": {}}, {"name": "x", "emptyDir": {}}]}));
    assert_eq!(claim_names(&named), ["data", "p-7-w"]);
}

#[test]
fn nodes_tell_what_they_have_and_whom_they_want() {
    let node: Node = read(json!({
        "metadata": {"name": "a", "labels": {"zone": "x"}},
        "spec": {"unschedulable": true, "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
            {"key": "k", "value": "v", "effect": "NoExecute"}, {"key": "k", "effect": "Odd"}]},
        "status": {"allocatable": {"cpu": "3900m", "memory": "8Gi", "pods": "110", "nvidia.com/gpu": "0"},
            "conditions": [{"type": "Ready", "status": "True"}]},
    }));
    let told = nodes::node(&node);
    assert_eq!(told.allocatable.to_string(), "3900m cpu, 8Gi memory, 0 nvidia.com/gpu, 110 pods");
    assert_eq!((told.unschedulable, told.ready, told.labels.len()), (true, true, 1));
    assert_eq!(told.taints.iter().map(|taint| &*taint.key).collect::<Vec<_>>(), ["k"], "cordons are told apart");
    let silent: Node = read(json!({"metadata": {"name": "b"}}));
    assert!(!nodes::node(&silent).ready, "one that has said nothing");
}

#[test]
fn parts_of_the_network_find_their_members() {
    let node =
        |name: &str, zone: &str| Arc::new(read::<Node>(json!({"metadata": {"name": name, "labels": {"zone": zone}}})));
    let part = |name: &str, members: Value| {
        Arc::new(read::<HyperNode>(json!({"metadata": {"name": name}, "spec": {"tier": 2, "members": members}})))
    };
    let nodes = [node("a1", "x"), node("a2", "y"), node("b1", "y")];
    let parts = [part("s0", json!([])), part("s1", json!([]))];
    let check = |what: &str, members: Value, expected: (&str, &str)| {
        let found = super::nodes::hyper_node(&part("top", members), &nodes, &parts);
        let found_nodes = found.nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let children = found.children.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        assert_eq!((found_nodes.as_str(), children.as_str(), found.tier), (expected.0, expected.1, 2), "{what}");
    };
    let node = |selector: Value| json!([{"type": "Node", "selector": selector}]);
    check("by name", node(json!({"exactMatch": {"name": "a2"}})), ("a2", ""));
    check("by pattern", node(json!({"regexMatch": {"pattern": "^a"}})), ("a1 a2", ""));
    check("by label", node(json!({"labelMatch": {"matchLabels": {"zone": "y"}}})), ("a2 b1", ""));
    check("by a pattern that is none", node(json!({"regexMatch": {"pattern": "("}})), ("", ""));
    check("parts", json!([{"type": "HyperNode", "selector": {"regexMatch": {"pattern": "s[01]"}}}]), ("", "s0 s1"));
    check("nobody knows what", json!([{"type": "Rack", "selector": {"exactMatch": {"name": "a1"}}}]), ("", ""));
}

fn group(spec: Value, status: Value) -> ronde_scheduler::Group {
    let meta = json!({"name": "g", "namespace": "n", "creationTimestamp": "2027-01-15T08:00:00Z"});
    let group: PodGroup = read(json!({"metadata": meta, "spec": spec, "status": status}));
    let classes = [
        read(json!({"metadata": {"name": "high"}, "value": 9, "preemptionPolicy": "Never"})),
        read(json!({"metadata": {"name": "usual"}, "value": 3, "globalDefault": true})),
    ];
    let tier = |name: &str| (name == "rack").then_some(2);
    groups::group(&group, GroupContext { class: class_of(&group, &classes), tier: &tier })
}

#[test]
fn groups_say_what_they_need_and_how_far_they_are() {
    let plain = group(json!({"minMember": 3}), json!(null));
    assert_eq!((plain.id.to_string(), plain.queue.to_string(), plain.min_member), ("n/g".into(), "default".into(), 3));
    assert_eq!((plain.priority, plain.preempts), (3, true), "the class of those that name none");
    let high = group(json!({"minMember": 1, "priorityClassName": "high"}), json!(null));
    assert_eq!((high.priority, high.preempts), (9, false));
    assert_eq!(group(json!({"priorityClassName": "gone"}), json!(null)).priority, 0);
    let within = |wanted: Value| group(json!({"networkTopology": wanted}), json!(null)).topology.unwrap().within;
    assert_eq!(within(json!({"highestTierAllowed": 1})), Within::Tier(1));
    assert_eq!(within(json!({"highestTierName": "rack"})), Within::Tier(2));
    assert_eq!(within(json!({"highestTierName": "nowhere"})), Within::Tier(0), "no part of the network will do");
    assert_eq!(within(json!({"mode": "soft"})), Within::Tier(u32::MAX), "the closer the better");
    let noted = |notes: Value| {
        let spec = json!({"minMember": 1, "networkTopology": {"highestTierAllowed": 1}});
        let group: PodGroup = read(json!({"metadata": {"name": "g", "annotations": notes}, "spec": spec}));
        let group = groups::group(&group, GroupContext { class: None, tier: &|_| None });
        (group.topology.unwrap().within, group.leaves_whole)
    };
    assert_eq!(noted(json!({})), (Within::Tier(1), false));
    assert_eq!(
        noted(json!({"ronde.dev/topology-key": "rack"})),
        (Within::Label("rack".into()), false),
        "the label wins"
    );
    assert!(noted(json!({"ronde.dev/disruption-mode": "all"})).1);
    let policy = json!([{"name": "w", "labelSelector": {"matchLabels": {"a": "b"}}, "matchLabelKeys": ["k"]}]);
    let policy = group(json!({"subGroupPolicy": policy}), json!(null)).subgroups.remove(0);
    assert_eq!((policy.size, policy.min_subgroups, policy.match_label_keys.len()), (1, 0, 1));
}

#[test]
fn the_phase_and_conditions_tell_since_when() {
    let created = 1_800_000_000_000;
    let check = |what: &str, status: Value, admitted: Option<i64>, started: bool, waiting: Option<i64>| {
        let told = group(json!({"minMember": 1}), status);
        let after = |time: Option<Time>| time.map(|time| (time.as_millis() - created) / 1000);
        assert_eq!(
            (after(told.admitted), told.started, after(told.waiting_since)),
            (admitted, started, waiting),
            "{what}"
        );
    };
    let status = |phase: &str, unschedulable: &str| {
        let condition =
            json!({"type": "Unschedulable", "status": unschedulable, "lastTransitionTime": "2027-01-15T08:00:30Z"});
        json!({"phase": phase, "conditions": if unschedulable.is_empty() { json!([]) } else { json!([condition]) }})
    };
    check("new", json!(null), None, false, None);
    check("waiting for its queue", status("Pending", "True"), None, false, Some(30));
    check("admitted at once", status("Inqueue", ""), Some(0), false, None);
    check("admitted after a while", status("Inqueue", "False"), Some(30), false, None);
    check("admitted, without room", status("Inqueue", "True"), Some(0), false, Some(30));
    check("runs", status("Running", "False"), Some(30), true, None);
    check("runs in part", status("Unknown", "True"), Some(0), true, Some(30));
}

#[test]
fn a_plain_pod_is_a_gang_of_one() {
    let check = |what: &str, pod: &Pod, priority: i32, preempts: bool| {
        let told = groups::alone(pod);
        assert_eq!((told.min_member, told.priority, told.preempts), (1, priority, preempts), "{what}");
        assert!(told.admitted.is_some() && told.queue != "default".into(), "{what}: it waits in no queue");
    };
    check("of no importance", &pod(json!({})), 0, false);
    check("important", &pod(json!({"priority": 5})), 5, true);
    check("important, but polite", &pod(json!({"priority": 5, "preemptionPolicy": "Never"})), 5, false);
}

#[test]
fn queues_are_told_as_they_are() {
    let queue = |spec: Value, state: Value| {
        groups::queue(&read::<Queue>(json!({"metadata": {"name": "q"}, "spec": spec, "status": {"state": state}})))
    };
    let told = queue(
        json!({"weight": 0, "capability": {"cpu": "2", "nvidia.com/gpu": "0"}, "parent": "p", "priority": 4,
        "reclaimable": false, "guarantee": {"resource": {"cpu": "1"}}, "dequeueStrategy": "fifo"}),
        json!("Open"),
    );
    assert_eq!(told.capability, Amounts::of([("cpu", 2000), ("nvidia.com/gpu", 0)]), "a limit of nothing is a limit");
    assert_eq!((told.weight, told.priority, told.reclaimable), (1, 4, false));
    assert_eq!((told.parent, told.guarantee.get("cpu")), (Some("p".into()), Some(1000)));
    assert_eq!(told.dequeue, ronde_scheduler::Dequeue::Fifo);
    let check = |state: Value, expected: QueueState| assert_eq!(queue(json!({}), state).state, expected);
    check(json!(null), QueueState::Open);
    check(json!("Closing"), QueueState::Closing);
    check(json!("Closed"), QueueState::Closed);
    check(json!("Unknown"), QueueState::Closed);
}

#[test]
fn who_is_to_run_for_a_while_says_how_long_and_since_when() {
    let least = |pod: Pod| told(&pod).min_run_ms;
    assert_eq!(least(pod(json!({}))), None);
    assert_eq!(least(annotated("volcano.sh/cooldown-time", "1m30s")), Some(90_000));
    assert_eq!(least(annotated("volcano.sh/cooldown-time", "-5s")), Some(0), "less than nothing is nothing");
    assert_eq!(least(annotated("volcano.sh/cooldown-time", "soon")), None, "as in Volcano, it is not heeded");
    let mut labelled = pod(json!({}));
    labelled.metadata.labels = Some([("volcano.sh/cooldown-time".to_owned(), "2m".to_owned())].into());
    assert_eq!(least(labelled), Some(120_000), "Volcano reads the label too");
    let mut bound = pod(json!({"nodeName": "n1"}));
    let scheduled =
        |status: &str| json!({"type": "PodScheduled", "status": status, "lastTransitionTime": "1970-01-01T00:00:09Z"});
    bound.status = read(json!({"conditions": [scheduled("True")]}));
    assert_eq!(told(&bound).bound_since, Some(Time::from_millis(9000)));
    bound.status = read(json!({"conditions": [scheduled("False")]}));
    assert_eq!(told(&bound).bound_since, None);

    let whole_since = |status: &str| {
        let condition = json!({"type": "Scheduled", "status": status, "lastTransitionTime": "1970-01-01T00:00:09Z"});
        let group: PodGroup = read(json!({"metadata": {"name": "g"}, "status": {"conditions": [condition]}}));
        groups::group(&group, GroupContext { class: None, tier: &|_| None }).whole_since
    };
    assert_eq!((whole_since("True"), whole_since("False")), (Some(Time::from_millis(9000)), None));

    let queue: Queue = read(json!({"metadata": {"name": "q"}, "spec": {"minRuntime": "10m", "reclaimDelay": "1.5s"}}));
    let queue = groups::queue(&queue);
    assert_eq!((queue.min_run_ms, queue.reclaim_delay_ms), (Some(600_000), Some(1500)));
}
