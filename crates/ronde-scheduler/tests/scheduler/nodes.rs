//! Which nodes take which pods, which they like best, and what is said if none does.

use std::collections::BTreeSet;

use ronde_scheduler::{
    Change, Cluster, Effect, HostPort, LabelSelector, NodeSelector, NodeSelectorTerm, Operator, PodAffinityTerm,
    PodSpec, Policy, Queue, Requirement, Spread, Toleration, Volumes, Weighted,
};

use crate::world::{plan, pods, steps, tell, with_spec, world};

const HOST: &str = "kubernetes.io/hostname";

/// Places one pod; returns its node, or why it waits.
fn put(text: &str, change: impl Fn(&mut PodSpec)) -> String {
    place(text, "p 0 cpu=1", change)
}

/// Places pods of a gang; returns their nodes, or why it waits.
fn place(text: &str, gang: &str, change: impl Fn(&mut PodSpec)) -> String {
    let mut cluster = world(text);
    let gang = pods(&gang.split(' ').collect::<Vec<_>>());
    tell(&mut cluster, &format!("group p min={}", gang.len()));
    with_spec(gang, change).into_iter().for_each(|change| cluster.apply(change));
    let plan = cluster.cycle(crate::world::at(0));
    let nodes = plan.steps.iter().filter_map(|step| match step {
        ronde_scheduler::Step::Bind { node, .. } => Some(node.as_str()),
        _ => None,
    });
    let nodes: Vec<&str> = nodes.collect();
    let waits = plan.waiting.iter().map(|waiting| format!("{}: {}", waiting.reason, waiting.message));
    if nodes.is_empty() { waits.collect::<Vec<_>>().join("; ") } else { nodes.join(" ") }
}

#[track_caller]
fn check(name: &str, text: &str, change: impl Fn(&mut PodSpec), expected: &str) {
    assert_eq!(put(text, change), expected, "{name}");
}

fn plain(_: &mut PodSpec) {}

#[test]
fn resources() {
    check(
        "the emptier node",
        "node a cpu=4; node b cpu=8; group o; pods o 0 cpu=2 on=b; pods o 1 cpu=1 on=a",
        plain,
        "a",
    );
    check("by name if they are equal", "node b cpu=4; node a cpu=4", plain, "a");
    check(
        "a node that is known later than its pods",
        "group o; pods o 0 cpu=4 on=a; node a cpu=4; node b cpu=1",
        plain,
        "b",
    );
    check("ended pods take nothing", "node a cpu=1; group o; pods o 0 cpu=1 on=a succeeded", plain, "a");
    check(
        "leaving pods do",
        "node a cpu=1; group o admitted=0 started; pods o 0 cpu=1 on=a leaving",
        plain,
        "WaitingForRoom: waits for 1 pod to leave a",
    );
    let gpu = |spec: &mut PodSpec| spec.requests.set("nvidia.com/gpu", 1);
    check("devices are packed", "node a cpu=9 gpu=4; node b cpu=9 gpu=4; group o; pods o 0 gpu=2 on=b", gpu, "b");
    check(
        "others keep off nodes with devices",
        "node a cpu=9 gpu=4; node b cpu=4; group o; pods o 0 cpu=1 on=b",
        plain,
        "b",
    );
    check(
        "of which nobody has any",
        "node a cpu=1",
        gpu,
        "NoNodeMatches: needs 1 pod × 1 cpu, 1 nvidia.com/gpu; 0 of 1 nodes fit: 1 lacks nvidia.com/gpu (no such node offers any)",
    );
    check("without nodes", "", plain, "NotEnoughResources: needs 1 pod × 1 cpu; there are no nodes");
    check(
        "the one that comes closest is named",
        "node a cpu=100m; node b cpu=500m; node c cpu=2 taint=gpu=true:NoSchedule",
        plain,
        "NotEnoughResources: needs 1 pod × 1 cpu; 0 of 3 nodes fit: 2 lack cpu (need 1, most free 500m on b), 1 has taint gpu=true:NoSchedule",
    );
}

#[test]
fn labels_of_nodes() {
    let zones = "node a cpu=4 zone=1; node b cpu=4 zone=2; node c cpu=4";
    let select =
        |zone: &'static str| move |spec: &mut PodSpec| _ = spec.node_selector.insert("zone".into(), zone.into());
    check("node selector", zones, select("2"), "b");
    check(
        "nobody has it",
        zones,
        select("9"),
        "NoNodeMatches: needs 1 pod × 1 cpu; 0 of 3 nodes fit: 3 do not match the node selector or affinity",
    );
    let require = |operator, value: &'static str| {
        move |spec: &mut PodSpec| {
            let expressions = vec![Requirement::new("zone", operator, [value])];
            let term = NodeSelectorTerm { expressions, fields: Vec::new() };
            spec.node_affinity.required = Some(NodeSelector { terms: vec![term] });
        }
    };
    check("in", zones, require(Operator::In, "2"), "b");
    check("not in", zones, require(Operator::NotIn, "1"), "b");
    check("does not exist", zones, require(Operator::DoesNotExist, ""), "c");
    check("greater", zones, require(Operator::Gt, "1"), "b");
    check("less", zones, require(Operator::Lt, "2"), "a");
    let prefer = |spec: &mut PodSpec| {
        let expressions = vec![Requirement::new("zone", Operator::In, ["2"])];
        let term = NodeSelectorTerm { expressions, fields: Vec::new() };
        spec.node_affinity.preferred.push(Weighted { weight: 100, term });
    };
    check(
        "preferred, though fuller",
        "node a cpu=4 zone=1; node b cpu=4 zone=2; group o; pods o 0 cpu=2 on=b",
        prefer,
        "b",
    );
    check("preferred, but full", "node a cpu=4 zone=1; node b cpu=2 zone=2; group o; pods o 0 cpu=2 on=b", prefer, "a");
    check("the name of a node", zones, |spec| spec.node_affinity.required = Some(NodeSelector::names(["c"])), "c");
    check("where the volume is", zones, |spec| spec.volumes = Volumes::On(vec![NodeSelector::names(["b", "c"])]), "b");
    check(
        "without its volume",
        zones,
        |spec| spec.volumes = Volumes::Missing("claim `data` does not exist".into()),
        "VolumeMissing: claim `data` does not exist",
    );
}

#[test]
fn taints_cordons_and_readiness() {
    let tolerate = |key: &'static str| {
        move |spec: &mut PodSpec| {
            spec.tolerations.push(Toleration { key: key.into(), value: None, effect: Some(Effect::NoSchedule) });
        }
    };
    check("tainted", "node a cpu=9 taint=k=v:NoSchedule; node b cpu=1", plain, "b");
    check("tolerated", "node a cpu=9 taint=k=v:NoSchedule; node b cpu=1", tolerate("k"), "a");
    check("rather not", "node a cpu=9 taint=k=v:PreferNoSchedule; node b cpu=1", plain, "b");
    check("rather not, but nowhere else", "node a cpu=9 taint=k=v:PreferNoSchedule", plain, "a");
    check("cordoned", "node a cpu=9 cordoned; node b cpu=1", plain, "b");
    check(
        "cordoned and tolerated",
        "node a cpu=9 cordoned; node b cpu=1",
        tolerate("node.kubernetes.io/unschedulable"),
        "a",
    );
    check(
        "not ready is out for everybody",
        "node a cpu=9 notready",
        |spec| spec.tolerations.push(Toleration::everything()),
        "NoNodeMatches: needs 1 pod × 1 cpu; 0 of 1 nodes fit: 1 is not ready",
    );
}

#[test]
fn ports_of_the_node() {
    let web =
        |spec: &mut PodSpec| spec.host_ports.push(HostPort { port: 80, protocol: "TCP".into(), address: "".into() });
    assert_eq!(place("node a cpu=9; node b cpu=9", "p 0..2 cpu=1", web), "a b", "each node once");
    assert_eq!(
        place("node a cpu=9", "p 0..2 cpu=1", web),
        "NotEnoughResources: needs 2 pods × 1 cpu; room for 1: 1 on a",
        "not twice on one node"
    );
}

fn apart(spec: &mut PodSpec) {
    spec.anti_affinity.push(PodAffinityTerm::new(HOST, LabelSelector::label("app", "p")));
}

#[test]
fn pods_near_and_far() {
    let zones = "node a cpu=4 zone=1; node b cpu=4 zone=1; node c cpu=9 zone=2; group o; pods o 0 cpu=1 on=a";
    let near = |spec: &mut PodSpec| spec.affinity.push(PodAffinityTerm::new("zone", LabelSelector::label("app", "o")));
    check("near the other", zones, near, "b");
    let each_other = |spec: &mut PodSpec| {
        spec.affinity.push(PodAffinityTerm::new("zone", LabelSelector::label("app", "p")));
    };
    assert_eq!(place(zones, "p 0..3 cpu=3", each_other), "c c c", "the first may be anywhere, the others near it");
    assert_eq!(place(zones, "p 0..3 cpu=1", apart), "b c a", "each on its own node");
    assert_eq!(
        place(zones, "p 0..4 cpu=1", apart),
        "NotEnoughResources: needs 4 pods × 1 cpu; room for 16: 9 on c, 4 on b, 3 on a, but not for all its pods together",
        "one too many"
    );
    let shy = "node a cpu=4; node b cpu=1; group s";
    let mut cluster = world(shy);
    let s = with_spec(pods(&["s", "0", "on=a"]), apart);
    s.into_iter().for_each(|change| cluster.apply(change));
    tell(&mut cluster, "group p; pods p 0 cpu=1");
    assert_eq!(
        crate::world::steps(&cluster.cycle(crate::world::at(0))),
        "bind p-0 to b",
        "a pod there does not want it"
    );
    let prefer = |weight: i32, near: bool| {
        move |spec: &mut PodSpec| {
            let term = Weighted { weight, term: PodAffinityTerm::new("zone", LabelSelector::label("app", "o")) };
            if near { spec.preferred_affinity.push(term) } else { spec.preferred_anti_affinity.push(term) }
        }
    };
    check("rather near", zones, prefer(100, true), "b");
    check(
        "rather far",
        "node a cpu=9 zone=1; node b cpu=2 zone=2; group o; pods o 0 on=a; pods o 1 cpu=1 on=b",
        prefer(100, false),
        "a",
    );
}

#[test]
fn namespaces_of_neighbours() {
    let term = |namespaces: &[&str], selector: Option<LabelSelector>| PodAffinityTerm {
        namespaces: namespaces.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>(),
        namespace_selector: selector,
        ..PodAffinityTerm::new(HOST, LabelSelector::label("app", "o"))
    };
    let text = "node a cpu=9; node b cpu=1; group o; pods o 0 on=a";
    let away = |term: PodAffinityTerm| move |spec: &mut PodSpec| spec.anti_affinity.push(term.clone());
    check("its own", text, away(term(&[], None)), "b");
    check("only those named", text, away(term(&["other"], None)), "a");
    check("named", text, away(term(&["ns"], None)), "b");
    check("all by an empty selector", text, away(term(&[], Some(LabelSelector::default()))), "b");
    check("by a label that it has not", text, away(term(&[], Some(LabelSelector::label("team", "x")))), "a");
    let mut cluster = world(text);
    cluster.apply(Change::Namespace("ns".to_owned(), [("team".to_owned(), "x".to_owned())].into()));
    tell(&mut cluster, "group p");
    let p = with_spec(pods(&["p", "0", "cpu=1"]), away(term(&[], Some(LabelSelector::label("team", "x")))));
    p.into_iter().for_each(|change| cluster.apply(change));
    assert_eq!(crate::world::steps(&cluster.cycle(crate::world::at(0))), "bind p-0 to b", "by a label that it has");
}

#[test]
fn even_spreading() {
    let spread = |required: bool, max_skew: u32, min_domains: Option<u32>| {
        move |spec: &mut PodSpec| {
            spec.spread.push(Spread {
                topology_key: "zone".to_owned(),
                max_skew,
                required,
                selector: Some(LabelSelector::label("app", "p")),
                min_domains,
                honours_affinity: true,
                honours_taints: false,
            });
        }
    };
    let zones = "node a cpu=9 zone=1; node b cpu=4 zone=2";
    assert_eq!(place(zones, "p 0..4 cpu=1", spread(true, 1, None)), "a b a b", "one here, one there");
    assert_eq!(
        place("node a cpu=9 zone=1; node b cpu=1 zone=2", "p 0..3 cpu=1", spread(true, 1, None)),
        "a b a",
        "a skew of one"
    );
    let refused = place("node a cpu=9 zone=1; node b cpu=1 zone=2", "p 0..4 cpu=1", spread(true, 1, None));
    assert!(refused.starts_with("NotEnoughResources: needs 4 pods × 1 cpu; room for 10"), "too uneven: {refused}");
    assert_eq!(
        place("node a cpu=9 zone=1; node b cpu=1 zone=2", "p 0..4 cpu=1", spread(true, 2, None)),
        "a b a a",
        "a larger skew"
    );
    let refused = place("node a cpu=9 zone=1", "p 0..2 cpu=1", spread(true, 1, Some(2)));
    assert!(refused.starts_with("NotEnoughResources"), "too few zones: {refused}");
    assert_eq!(
        place("node a cpu=9; node b cpu=2 zone=1", "p 0..2 cpu=1", spread(true, 1, None)),
        "b b",
        "a node without the label"
    );
    assert_eq!(
        place("node a cpu=9 zone=1; node b cpu=1 zone=2", "p 0..4 cpu=1", spread(false, 1, None)),
        "a b a a",
        "only a wish"
    );
}

#[test]
fn pods_without_devices_spread_or_fill_nodes_one_after_the_other() {
    let text = "node a cpu=8; node b cpu=8; group x; pods x 0 cpu=4 on=b running; group g min=2; pods g 0..2 cpu=1";
    let placed = |packs: bool| {
        let mut cluster = Cluster::new(Policy { packs, ..Policy::default() });
        cluster.apply(Change::Queue(Queue::new("default")));
        tell(&mut cluster, text);
        steps(&plan(&mut cluster, 0))
    };
    assert_eq!(placed(false), "bind g-0 to a; bind g-1 to a");
    assert_eq!(placed(true), "bind g-0 to b; bind g-1 to b");
}
