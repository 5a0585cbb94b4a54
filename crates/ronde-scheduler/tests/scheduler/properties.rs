//! What holds for every small cluster.

use proptest::prelude::*;
use ronde_scheduler::{Amounts, Change, Cluster, Group, GroupId, Node, Plan, Pod, PodId, Policy, Queue, Step, Time};

/// A gang: how many pods, how many at least, how many GPUs each, its priority.
type Gang = (u32, u32, i64, i32);

fn gangs() -> impl Strategy<Value = Vec<Gang>> {
    let gang = (1..5_u32, 1..5_u32, 1..4_i64, 0..3_i32)
        .prop_map(|(pods, least, gpus, priority)| (pods.max(least), least, gpus, priority));
    prop::collection::vec(gang, 1..8)
}

fn build(nodes: &[i64], gangs: &[Gang]) -> Cluster {
    let mut cluster = Cluster::new(Policy::default());
    cluster.apply(Change::Queue(Queue::new("default")));
    for (number, gpus) in nodes.iter().enumerate() {
        cluster.apply(Change::Node(Node::new(&format!("n{number}"), Amounts::of([("nvidia.com/gpu", *gpus)]))));
    }
    for (number, (pods, least, gpus, priority)) in gangs.iter().enumerate() {
        let id = GroupId::new("ns", &format!("g{number}"));
        let mut group = Group::new(id.clone(), "default", *least);
        group.priority = *priority;
        cluster.apply(Change::Group(group));
        for index in 0..*pods {
            let requests = Amounts::of([("nvidia.com/gpu", *gpus)]);
            let mut pod = Pod::new(PodId::new("ns", &format!("g{number}-{index}")), id.clone(), requests);
            pod.index = index;
            cluster.apply(Change::Pod(pod));
        }
    }
    cluster
}

fn binds_of(plan: &Plan, number: usize) -> i64 {
    let prefix = format!("ns/g{number}-");
    let is_its = |step: &&Step| matches!(step, Step::Bind { pod, .. } if pod.as_str().starts_with(&prefix));
    plan.steps.iter().filter(is_its).map(|_| 1).sum()
}

/// Shows the binds of a plan to the cluster, as a watch would.
fn seen(cluster: &mut Cluster, plan: &Plan, gangs: &[Gang]) {
    for step in &plan.steps {
        if let Step::Bind { pod, node } = step {
            let (group, index) = pod.name().split_once('-').expect("names are made here");
            let number: usize = group[1..].parse().expect("names are made here");
            let requests = Amounts::of([("nvidia.com/gpu", gangs[number].2)]);
            let mut bound = Pod::new(pod.clone(), GroupId::new("ns", group), requests);
            bound.index = index.parse().expect("names are made here");
            bound.node = Some(node.clone());
            cluster.apply(Change::Pod(bound));
        }
    }
}

/// How many pods with so many GPUs fit on empty nodes.
fn most(nodes: &[i64], gpus: i64) -> i64 {
    nodes.iter().map(|free| free / gpus).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn gangs_are_whole_and_nobody_idles(nodes in prop::collection::vec(1..9_i64, 1..5), gangs in gangs()) {
        let plan = build(&nodes, &gangs).cycle(Time::default());
        let used: i64 = gangs.iter().enumerate().map(|(number, gang)| gang.2 * binds_of(&plan, number)).sum();
        prop_assert!(used <= nodes.iter().sum());
        for (number, (_, least, gpus, _)) in gangs.iter().enumerate() {
            let bound = binds_of(&plan, number);
            prop_assert!(bound == 0 || bound >= i64::from(*least), "g{} has {} of {}", number, bound, least);
            let waits = plan.waiting.iter().any(|waiting| waiting.group.name() == format!("g{number}"));
            prop_assert_eq!(waits, bound == 0, "who is not placed is told why");
            if used == 0 {
                prop_assert!(most(&nodes, *gpus) < i64::from(*least), "an empty cluster takes g{}", number);
            }
        }
    }

    #[test]
    fn the_same_twice(nodes in prop::collection::vec(1..9_i64, 1..5), gangs in gangs()) {
        let first = build(&nodes, &gangs).cycle(Time::default());
        prop_assert_eq!(first.to_string(), build(&nodes, &gangs).cycle(Time::default()).to_string());
        let mut cluster = build(&nodes, &gangs);
        cluster.cycle(Time::default());
        let second = cluster.cycle(Time::default());
        prop_assert!(second.steps.is_empty(), "nothing changed, and still: {}", second);
    }

    #[test]
    fn undoing_leaves_no_trace(nodes in prop::collection::vec(1..9_i64, 1..5), gangs in gangs()) {
        let mut cluster = build(&nodes, &gangs);
        let first = cluster.cycle(Time::default());
        cluster.undo(&first);
        prop_assert_eq!(cluster.cycle(Time::default()).steps, first.steps);
    }

    #[test]
    fn preemption_only_helps(nodes in prop::collection::vec(1..9_i64, 1..5), gangs in gangs(), size in (1..5_u32, 1..4_i64)) {
        let mut cluster = build(&nodes, &gangs);
        let first = cluster.cycle(Time::default());
        seen(&mut cluster, &first, &gangs);
        let (least, gpus) = size;
        let id = GroupId::new("ns", "high");
        let mut high = Group::new(id.clone(), "default", least);
        high.priority = 9;
        cluster.apply(Change::Group(high));
        for index in 0..least {
            let requests = Amounts::of([("nvidia.com/gpu", gpus)]);
            cluster.apply(Change::Pod(Pod::new(PodId::new("ns", &format!("high-{index}")), id.clone(), requests)));
        }
        let plan = cluster.cycle(Time::default());
        let evicted: Vec<PodId> = plan.steps.iter().filter_map(|step| if let Step::Evict { pod, .. } = step { Some(pod.clone()) } else { None }).collect();
        let fits = most(&nodes, gpus) >= i64::from(least);
        let bound = plan.steps.iter().filter(|step| matches!(step, Step::Bind { pod, .. } if pod.as_str().starts_with("ns/high-"))).count();
        prop_assert_eq!(bound > 0 || !evicted.is_empty(), fits, "it gets room exactly if it could ever have some");
        evicted.iter().for_each(|pod| cluster.apply(Change::PodGone(pod.clone())));
        let after = cluster.cycle(Time::default());
        let bound = bound + after.steps.iter().filter(|step| matches!(step, Step::Bind { pod, .. } if pod.as_str().starts_with("ns/high-"))).count();
        prop_assert_eq!(bound == least as usize, fits, "and runs when the victims have left");
    }
}
