//! Who may not be pushed out yet, who may not push out yet, and what those who wait for it are told.

use proptest::prelude::*;
use ronde_scheduler::{Eviction, Plan, Step};

use crate::world::{at, plan, show, steps, tell, world};

/// Looks at a cluster again and again, until something is done; returns when, and what.
fn first_steps(text: &str) -> String {
    let mut cluster = world(text);
    let mut second = 0;
    loop {
        let plan = plan(&mut cluster, second);
        let steps = steps(&plan);
        if !steps.is_empty() {
            return format!("at {second}: {steps}");
        }
        match plan.look_again {
            Some(next) if second < 200 => {
                assert!(next > at(second), "it looks again later, not at {next}");
                second = next.as_millis() / 1000;
            }
            _ => return "never".to_owned(),
        }
    }
}

#[track_caller]
fn check(name: &str, text: &str, expected: &str) {
    assert_eq!(first_steps(text), expected, "{name}");
}

const HIGH: &str = "group high prio=1; pods high 0 gpu=1";

#[test]
fn a_gang_runs_for_its_time() {
    let low = |group: &str, pods: &str| {
        format!("node a gpu=2; group low min=2 started {group}; pods low 0..2 gpu=1 on=a running {pods}; {HIGH}")
    };
    let evicted = "evict low-0: preempted by high; evict low-1: preempted by high; nominate high-0 for a";
    check("without one it goes at once", &low("whole=0", ""), &format!("at 0: {evicted}"));
    check("the time of its pods", &low("whole=0", "run=60"), &format!("at 60: {evicted}"));
    check("since its minimum has nodes", &low("whole=-40", "run=60 bound=0"), &format!("at 20: {evicted}"));
    check("it is over", &low("whole=-60", "run=60"), &format!("at 0: {evicted}"));
    let queue = |queue: &str, pods: &str| format!("{}; queue default {queue}", low("whole=0", pods));
    check("the time of its queue", &queue("run=30", ""), &format!("at 30: {evicted}"));
    check("its pods know better, for more", &queue("run=30", "run=60"), &format!("at 60: {evicted}"));
    check("and for less", &queue("run=30", "run=0"), &format!("at 0: {evicted}"));
    check("the time of the queue above", &queue("parent=p; queue p run=50", ""), &format!("at 50: {evicted}"));
    check("the nearest counts", &queue("run=20 parent=p; queue p run=50", ""), &format!("at 20: {evicted}"));
    check("only a part is left of it", &low("min=3 since=0", "run=60"), &format!("at 0: {evicted}"));
}

#[test]
fn what_has_just_been_bound_is_kept_before_its_group_says_so() {
    let mut cluster = world("node a gpu=2; queue default run=60; group low min=2 since=0; pods low 0..2 gpu=1");
    assert_eq!(steps(&plan(&mut cluster, 10)), "bind low-0 to a; bind low-1 to a");
    tell(&mut cluster, &format!("pods low 0..2 gpu=1 on=a; {HIGH}"));
    assert_eq!(steps(&plan(&mut cluster, 11)), "");
    tell(&mut cluster, "group low min=2 started whole=11");
    assert_eq!(steps(&plan(&mut cluster, 70)), "");
    assert!(steps(&plan(&mut cluster, 71)).starts_with("evict low-0"), "now it has run for a minute");
}

#[test]
fn pods_above_the_minimum_have_times_of_their_own() {
    let low = |pods: &str| {
        format!(
            "node a gpu=3; group low min=1 started whole=-99; pods low 0 gpu=1 on=a bound=-99 run=60; {pods}; {HIGH}"
        )
    };
    check(
        "the one that has run long enough goes, not the last",
        &low("pods low 1 gpu=1 on=a bound=-70 run=60; pods low 2 gpu=1 on=a bound=-10 run=60"),
        "at 0: evict low-1: preempted by high; nominate high-0 for a",
    );
    check(
        "the whole gang has run long enough, though its last pod has not",
        &low("pods low 1..3 gpu=1 on=a bound=-10 run=60"),
        "at 0: evict low-0: preempted by high; evict low-1: preempted by high; evict low-2: preempted by high; nominate high-0 for a",
    );
}

#[test]
fn others_go_instead() {
    let two = "node a gpu=2; group old at=1 started whole=-90; pods old 0 gpu=1 on=a running run=60;
        group young at=2 started whole=-20; pods young 0 gpu=1 on=a running run=60";
    check(
        "who has run long enough",
        &format!("{two}; {HIGH}"),
        "at 0: evict old-0: preempted by high; nominate high-0 for a",
    );
    check(
        "nobody goes before all may who have to",
        &format!("{two}; group high prio=1 min=2; pods high 0..2 gpu=1"),
        "at 40: evict old-0: preempted by high; evict young-0: preempted by high; nominate high-0 for a; nominate high-1 for a",
    );
    check(
        "who may go first, of several who would do",
        "node a gpu=3; group x at=1 started whole=-10; pods x 0 gpu=1 on=a running run=60;
         group y at=2 started whole=-40; pods y 0 gpu=1 on=a running run=60;
         group z at=3 started whole=-20; pods z 0 gpu=1 on=a running run=60; group high prio=1; pods high 0 gpu=1",
        "at 20: evict y-0: preempted by high; nominate high-0 for a",
    );
}

const GREEDY: &str = "node a gpu=2; queue r; group x queue=r at=1 started whole=-9; pods x 0 gpu=1 on=a running;
    group y queue=r at=2 started whole=-9; pods y 0 gpu=1 on=a running; group g queue=q; pods g 0 gpu=1";

#[test]
fn a_queue_waits_before_it_reclaims() {
    let reclaimed = "evict y-0: reclaimed for g; nominate g-0 for a";
    check("without a delay at once", &format!("{GREEDY}; queue q"), &format!("at 0: {reclaimed}"));
    check("after its delay", &format!("{GREEDY}; queue q delay=30"), &format!("at 30: {reclaimed}"));
    check(
        "since it waits",
        &format!("{GREEDY}; queue q delay=30; group g queue=q since=-20"),
        &format!("at 10: {reclaimed}"),
    );
    check(
        "the delay of the queue above",
        &format!("{GREEDY}; queue q parent=p; queue p delay=30"),
        &format!("at 30: {reclaimed}"),
    );
    check(
        "those who run have their time too",
        &format!("{GREEDY}; queue q delay=30; queue r run=60"),
        &format!("at 51: {reclaimed}"),
    );
    check(
        "the delay does not hold up priorities",
        &format!("{GREEDY}; queue r delay=99; group g queue=r prio=1"),
        "at 0: evict y-0: preempted by g; nominate g-0 for a",
    );
}

#[test]
fn who_waits_is_told_for_whom_and_until_when() {
    let mut cluster = world(&format!(
        "node a gpu=2; group low min=2 started whole=0; pods low 0..2 gpu=1 on=a running run=60; {HIGH}"
    ));
    assert_eq!(
        show(&plan(&mut cluster, 0)),
        "admit high\nadmit low\nhigh waits (NotEnoughResources): needs 1 pod × 1 nvidia.com/gpu; 0 of 1 nodes fit: \
         1 lacks nvidia.com/gpu (need 1, most free 0 on a); may preempt `low` at 1970-01-01T00:01:00Z\n"
    );
    assert_eq!(show(&plan(&mut cluster, 30)), "", "nothing is new");
    tell(&mut cluster, "pods low 0..2 gpu=1 on=a running run=90");
    assert!(show(&plan(&mut cluster, 30)).ends_with("may preempt `low` at 1970-01-01T00:01:30Z\n"));
    let mut cluster = world(&format!("{GREEDY}; queue q delay=30"));
    assert!(show(&plan(&mut cluster, 0)).ends_with("; may reclaim from `y` at 1970-01-01T00:00:30Z\n"));
    let mut cluster = world(
        "node a gpu=9; queue q cap.gpu=1; group low queue=q started whole=0; pods low 0 gpu=1 on=a running run=60;
         group high queue=q prio=1; pods high 0 gpu=1",
    );
    assert!(
        show(&plan(&mut cluster, 0)).ends_with("is at its limit of 1; may preempt `low` at 1970-01-01T00:01:00Z\n")
    );
}

fn evicted(plan: &Plan) -> Vec<String> {
    let steps = plan.steps.iter().filter_map(|step| match step {
        Step::Evict { pod, why: Eviction::Preempted { .. } | Eviction::Reclaimed { .. } } => {
            Some(pod.name().to_owned())
        }
        _ => None,
    });
    steps.collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Gangs of one, each with a time that it has run and a time that it is to run, and one that wants some of their room.
    #[test]
    fn nobody_goes_before_the_time_and_everybody_in_the_way_after_it(
        gangs in prop::collection::vec((0..100_i64, prop::option::of(0..100_i64)), 1..8),
        of_queue in prop::option::of(0..100_i64),
        wanted in 1..4_usize,
    ) {
        let mut text = format!("node a gpu={}; queue default", gangs.len());
        text.extend(of_queue.map(|least| format!(" run={least}")));
        for (number, (ran, least)) in gangs.iter().enumerate() {
            text += &format!("; group g{number} at={number} started whole=-{ran}; pods g{number} 0 gpu=1 on=a running");
            text.extend(least.map(|least| format!(" run={least}")));
        }
        text += &format!("; group high prio=1 min={wanted}; pods high 0..{wanted} gpu=1");
        let until = |(ran, least): &(i64, Option<i64>)| (least.or(of_queue).unwrap_or(0) - ran).max(0);
        let mut times: Vec<i64> = gangs.iter().map(until).collect();
        times.sort_unstable();
        let (mut cluster, mut second, mut gone) = (world(&text), 0, Vec::new());
        while gone.is_empty() && second <= 100 {
            let anew = world(&text).cycle(at(second));
            let plan = plan(&mut cluster, second);
            gone = evicted(&plan);
            prop_assert_eq!(&evicted(&anew), &gone, "a restart changes no decision");
            for name in &gone {
                let number: usize = name[1..name.len() - 2].parse().expect("names are made here");
                prop_assert!(until(&gangs[number]) <= second, "{} goes at {}", name, second);
            }
            second = plan.look_again.map_or(101, |next| next.as_millis() / 1000);
        }
        // The earliest moment at which as many as are wanted have run long enough.
        let expected = times.get(wanted - 1);
        prop_assert_eq!(gone.len(), expected.map_or(0, |_| wanted));
        if let (Some(moment), Some(last)) = (expected, gone.iter().map(|name| until(&gangs[name[1..name.len() - 2].parse::<usize>().expect("as above")])).max()) {
            prop_assert_eq!(*moment, last, "and not later");
        }
    }
}
