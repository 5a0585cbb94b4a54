//! Pods that move out of the way on request: which, where to, and who starts then; and who is left in peace.

use std::collections::BTreeMap;

use proptest::prelude::*;
use ronde_scheduler::{Change, Cluster, GroupId, Move, PodId, Relief};

use crate::world::{at, plan, show, steps, tell, world};

fn defragment(cluster: &Cluster) -> String {
    let reliefs = cluster.defragment(None, at(0));
    reliefs.iter().map(|relief| relief.to_string().replace("ns/", "")).collect::<String>().trim().replace('\n', "; ")
}

#[track_caller]
fn check(name: &str, text: &str, expected: &str) {
    assert_eq!(defragment(&world(text)), expected, "{name}");
}

/// Two nodes, each half full; a job of two pods, one of which is above its minimum.
const HALVES: &str = "node a gpu=4; node b gpu=4; group e min=1 started elastic";
const SPREAD: &str = "pods e 0 gpu=2 on=a running; pods e 1 gpu=2 on=b running";
const WIDE: &str = "group wide; pods wide 0 gpu=4";

#[test]
fn a_pod_above_the_minimum_moves_for_a_gang() {
    check("two halves make a whole", &format!("{HALVES}; {SPREAD}; {WIDE}"), "move e-1 from b to a; start wide");
    check("there is room anyway", &format!("{HALVES}; {SPREAD}; {WIDE}; node c gpu=4"), "");
    check("nobody waits", &format!("{HALVES}; {SPREAD}"), "");
    check("not the minimum", &format!("{HALVES}; group e min=2 started elastic; {SPREAD}; {WIDE}"), "");
    check("not pods of jobs that are not elastic", &format!("{HALVES}; group e min=1 started; {SPREAD}; {WIDE}"), "");
    check(
        "another for one that must stay",
        &format!("{HALVES}; {SPREAD} fixed; {WIDE}"),
        "move e-0 from a to b; start wide",
    );
    check("not those that have just come", &format!("{HALVES}; {SPREAD} bound=-9 run=60; {WIDE}"), "");
    check("not more than a budget allows", &format!("{HALVES}; {SPREAD}; budget b app=e; {WIDE}"), "");
    check(
        "as many as it allows",
        &format!("{HALVES}; {SPREAD}; budget b app=e allowed=1; {WIDE}"),
        "move e-1 from b to a; start wide",
    );
    check(
        "not of a job that is not whole yet",
        &format!("{HALVES}; pods e 0 gpu=2 on=a; pods e 1 gpu=2 on=b running; {WIDE}"),
        "",
    );
    check(
        "not if it had nowhere to go",
        &format!("{HALVES}; pods e 0 gpu=4 on=a running; pods e 1 gpu=2 on=b running; {WIDE}"),
        "",
    );
    check(
        "not for a limit",
        &format!("{HALVES}; {SPREAD}; queue q cap.gpu=1; group wide queue=q; pods wide 0 gpu=4"),
        "",
    );
    check(
        "not if half of the gang would still wait",
        &format!("{HALVES}; {SPREAD}; group wide min=2; pods wide 0..2 gpu=4"),
        "",
    );
    check(
        "not to where they may not go",
        "node a gpu=4 taint=k=v:NoSchedule; node b gpu=4; group e min=1 started elastic; pods e 0..2 gpu=1 on=b running; group wide; pods wide 0 gpu=3",
        "",
    );
}

#[test]
fn no_more_moves_than_are_needed() {
    check(
        "one of many",
        "node a gpu=4; node b gpu=4; group e min=1 started elastic; pods e 0 gpu=1 on=a running; pods e 1 gpu=1 on=a running;
         pods e 2 gpu=1 on=b running; group g; pods g 0 gpu=3; group h; pods h 0 gpu=3",
        "",
    );
    check(
        "the pods of several jobs, of any queue, the least important first",
        "node a gpu=2; node b gpu=2; node c gpu=2; queue q;
         group e min=1 started elastic prio=1; pods e 0 gpu=1 on=a running; pods e 1 gpu=1 on=b running;
         group f queue=q min=0 started elastic; pods f 0 gpu=1 on=c running; group wide; pods wide 0 gpu=2",
        "move f-0 from c to a; start wide",
    );
    check(
        "one gang after the other",
        "node a gpu=4; node b gpu=4; node c gpu=4; group e min=1 started elastic;
         pods e 0 gpu=1 on=a running; pods e 1 gpu=1 on=b running; pods e 2 gpu=1 on=c running;
         group v at=1; pods v 0 gpu=4; group w at=2; pods w 0 gpu=4",
        "move e-2 from c to a; start v; move e-1 from b to a; start w",
    );
}

#[test]
fn it_happens_on_request_and_for_a_while() {
    let mut cluster = world(&format!("{HALVES}; {SPREAD}; {WIDE}"));
    assert_eq!(steps(&plan(&mut cluster, 0)), "", "nobody has asked");
    tell(&mut cluster, "queue default defragments=60");
    assert_eq!(steps(&plan(&mut cluster.clone(), 60)), "", "it was asked too long ago");
    assert_eq!(steps(&plan(&mut cluster, 1)), "evict e-1: moved for wide; nominate wide-0 for b");
    tell(&mut cluster, "pods e 1 gpu=2 on=b running leaving");
    assert_eq!(steps(&plan(&mut cluster, 2)), "");
    // The next worker comes before the room is free: it does not take it.
    tell(&mut cluster, "gone pod e-1; pods e 2 gpu=2");
    assert_eq!(steps(&plan(&mut cluster, 3)), "bind wide-0 to b; bind e-2 to a");
}

#[test]
fn whatever_was_done_when_the_scheduler_died_it_goes_on() {
    let text = "node a gpu=4; node b gpu=4; queue default defragments=60; group e min=1 started elastic;
        pods e 0 gpu=1 on=a running; pods e 1..3 gpu=1 on=b running; group wide; pods wide 0 gpu=4";
    let all = "evict e-1: moved for wide; evict e-2: moved for wide; nominate wide-0 for b";
    assert_eq!(steps(&plan(&mut world(text), 0)), all);
    let half = format!("{text}; pods e 1 gpu=1 on=b running leaving");
    assert_eq!(steps(&plan(&mut world(&half), 0)), "evict e-2: moved for wide; nominate wide-0 for b");
    let both = format!("{half}; pods e 2 gpu=1 on=b running leaving");
    assert_eq!(steps(&plan(&mut world(&both), 0)), "nominate wide-0 for b");
    // All are gone, and nobody has noted for whom.
    let gone = format!("{text}; gone pod e-1; gone pod e-2; pods e 3..5 gpu=1");
    assert_eq!(steps(&plan(&mut world(&gone), 0)), "bind wide-0 to b; bind e-3 to a; bind e-4 to a");
    // The time is over: the room that was made is used, and nothing else moves.
    let late = format!("{half}; queue default defragments=-1");
    assert_eq!(steps(&plan(&mut world(&late), 0)), "");
}

#[test]
fn what_is_kept_for_now_is_told() {
    let text = format!("{HALVES}; queue default defragments=60; {SPREAD} bound=0 run=30; {WIDE}");
    let told = show(&plan(&mut world(&text), 0));
    assert!(told.ends_with("; may move pods of `e` at 1970-01-01T00:00:30Z\n"), "{told}");
}

/// The nodes of the pods of a job, and its minimum.
type Elastic = (Vec<usize>, usize);

/// Elastic jobs with the nodes of their pods and their minimum, and gangs that wait: how many pods, how many GPUs each.
fn clusters() -> impl Strategy<Value = (usize, Vec<Elastic>, Vec<(usize, i64)>)> {
    (2..5_usize).prop_flat_map(|nodes| {
        let jobs = prop::collection::vec((prop::collection::vec(0..nodes, 1..5), 1..3_usize), 1..5);
        (Just(nodes), jobs, prop::collection::vec((1..3_usize, 1..5_i64), 1..4))
    })
}

const GPUS: i64 = 4;

/// Describes such a cluster; pods for which their node has no room are left out. Returns also the pods of each job.
fn describe(nodes: usize, jobs: &[Elastic], gangs: &[(usize, i64)]) -> (String, Vec<usize>) {
    let mut text: String = (0..nodes).map(|node| format!("node n{node} gpu={GPUS}; ")).collect();
    let mut free = vec![GPUS; nodes];
    let mut sizes = Vec::new();
    for (number, (pods, least)) in jobs.iter().enumerate() {
        let mut size = 0;
        for node in pods {
            if free[*node] > 0 {
                free[*node] -= 1;
                text += &format!("pods e{number} {size} gpu=1 on=n{node} running; ");
                size += 1;
            }
        }
        text += &format!("group e{number} min={} started elastic; ", (*least).min(size));
        sizes.push(size);
    }
    for (number, (pods, gpus)) in gangs.iter().enumerate() {
        text += &format!("group g{number} at={number} min={pods}; pods g{number} 0..{pods} gpu={gpus}; ");
    }
    (text, sizes)
}

/// Returns where the pods of a description are.
fn homes(text: &str) -> BTreeMap<PodId, String> {
    let found = crate::world::changes(text).into_iter().filter_map(|change| match change {
        Change::Pod(pod) => Some((pod.id, pod.node?.to_string())),
        _ => None,
    });
    found.collect()
}

/// Returns how many GPUs of each node are in use.
fn in_use(at_node: &BTreeMap<PodId, String>, gangs: &[(usize, i64)]) -> BTreeMap<String, i64> {
    let mut used = BTreeMap::new();
    for (pod, node) in at_node {
        let (group, _) = pod.name().split_once('-').expect("names are made here");
        let number: Option<usize> = group.strip_prefix('g').map(|number| number.parse().expect("names are made here"));
        *used.entry(node.clone()).or_default() += number.map_or(1, |number| gangs[number].1);
    }
    used
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn nothing_is_overcommitted_gangs_are_whole_and_no_job_shrinks((nodes, jobs, gangs) in clusters()) {
        let (text, sizes) = describe(nodes, &jobs, &gangs);
        let start = world(&text);
        let reliefs = start.defragment(None, at(0));
        prop_assert_eq!(&start.defragment(None, at(0)), &reliefs, "the same cluster gives the same answer");
        // Carries it out: every pod that moves leaves and comes again, one after the other.
        let mut cluster = world(&text);
        plan(&mut cluster, 0);
        for Relief { group, moves } in &reliefs {
            for Move { pod, from, to } in moves {
                prop_assert_ne!(from, to);
                let number: usize = pod.name()[1..pod.name().len() - 2].parse().expect("names are made here");
                let least = jobs[number].1.min(sizes[number]);
                let moved = moves.iter().filter(|other| other.pod.name().starts_with(&format!("e{number}-"))).count();
                prop_assert!(sizes[number] - moved >= least, "{} falls below {}", pod, least);
            }
            prop_assert!(group.name().starts_with('g'));
        }
        // The real run, with the request and by the scheduler itself, comes to the same end.
        tell(&mut cluster, "queue default defragments=60");
        let mut at_node = homes(&text);
        let mut started: Vec<GroupId> = Vec::new();
        for second in 1..16 {
            let plan = plan(&mut cluster, second);
            started.extend(plan.ready.iter().cloned());
            let mut gone = Vec::new();
            for step in &plan.steps {
                match step {
                    ronde_scheduler::Step::Evict { pod, .. } => gone.push(pod.clone()),
                    ronde_scheduler::Step::Bind { pod, node } => _ = at_node.insert(pod.clone(), node.to_string()),
                    _ => {}
                }
            }
            for (node, used) in in_use(&at_node, &gangs) {
                prop_assert!(used <= GPUS, "{} has {} in use", node, used);
            }
            for pod in &gone {
                let (job, index) = pod.name().split_once('-').expect("names are made here");
                cluster.apply(Change::PodGone(pod.clone()));
                at_node.remove(pod);
                tell(&mut cluster, &format!("pods {job} {index} gpu=1"));
            }
        }
        for Relief { group, moves } in &reliefs {
            prop_assert!(started.contains(group), "{} was promised and did not start: {:?}", group, started);
            for Move { pod, to, .. } in moves {
                prop_assert_eq!(at_node.get(pod).map(String::as_str), Some(to.as_str()), "{}", pod);
            }
        }
    }
}
