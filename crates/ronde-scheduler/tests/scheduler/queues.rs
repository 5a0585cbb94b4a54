//! Queues: who gets how much, in which order, and who is let in.

use ronde_scheduler::{Cluster, Plan};

use crate::world::{at, plan, same, show, steps, tell, world};

#[track_caller]
fn check(name: &str, text: &str, expected: &str) {
    assert_eq!(steps(&plan(&mut world(text), 0)), expected, "{name}");
}

#[track_caller]
fn check_all(name: &str, text: &str, expected: &str) {
    same(name, &show(&plan(&mut world(text), 0)), expected);
}

#[test]
fn limits() {
    let two = "group x queue=q min=2 at=1; pods x 0..2 gpu=1; group y queue=q min=2 at=2; pods y 0..2 gpu=1";
    check_all(
        "the second gang is over the limit",
        &format!("node a gpu=8; queue q cap.gpu=3; {two}"),
        "admit x
        admit y
        bind x-0 to a
        bind x-1 to a
        y waits (QueueLimit): needs 2 nvidia.com/gpu; queue `q` uses 2 of its limit of 3",
    );
    check_all(
        "at its limit",
        &format!("node a gpu=8; queue q cap.gpu=2; {two}"),
        "admit x
        admit y
        bind x-0 to a
        bind x-1 to a
        y waits (QueueLimit): needs 2 nvidia.com/gpu; queue `q` is at its limit of 2",
    );
    check(
        "of the parent",
        &format!("node a gpu=8; queue p cap.gpu=2; queue q parent=p; {two}"),
        "bind x-0 to a; bind x-1 to a",
    );
    check(
        "what is guaranteed to another is kept for it",
        &format!("node a gpu=4; queue q; queue r guarantee.gpu=2; {two}"),
        "bind x-0 to a; bind x-1 to a",
    );
    check(
        "more is guaranteed than there is: others still run what is not scarce",
        "node a cpu=4; queue q; queue r guarantee.gpu=9; group x queue=q; pods x 0 cpu=1",
        "bind x-0 to a",
    );
    check(
        "surplus too",
        "node a gpu=8; queue q cap.gpu=3; group x queue=q min=2; pods x 0..5 gpu=1",
        "bind x-0 to a; bind x-1 to a; bind x-2 to a",
    );
}

#[test]
fn surplus_that_only_limits_hold_back_is_told_apart() {
    let limited = |text: &str| {
        let limited = plan(&mut world(text), 0).limited;
        limited.iter().map(|id| id.name().to_owned()).collect::<Vec<_>>()
    };
    let pods = "group x queue=q min=1; pods x 0..5 gpu=1";
    assert_eq!(limited(&format!("node a gpu=8; queue q cap.gpu=3; {pods}")), ["x"], "nodes would not help");
    assert!(limited(&format!("node a gpu=2; queue q cap.gpu=4; {pods}")).is_empty(), "nodes would");
    assert!(limited(&format!("node a gpu=8; queue q cap.gpu=5; {pods}")).is_empty(), "all run");
}

#[test]
fn limits_on_the_number_of_running_jobs() {
    let three = "group x queue=q min=2 at=1; pods x 0..3 gpu=1; group y queue=q at=2; pods y 0 gpu=1;
        group z queue=q at=3; pods z 0 gpu=1";
    check_all(
        "the third job waits, the surplus of the first does not",
        &format!("node a gpu=8; queue q jobs=2; {three}"),
        "admit x
        admit y
        admit z
        bind x-0 to a
        bind x-1 to a
        bind y-0 to a
        bind x-2 to a
        z waits (QueueLimit): queue `q` is at its limit of 2 running jobs",
    );
    check_all(
        "of the parent, with what runs beside",
        "node a gpu=8; queue p jobs=1; queue q parent=p; queue r parent=p;
         group o queue=r started; pods o 0 gpu=1 on=a running; group z queue=q; pods z 0 gpu=1",
        "admit o
        admit z
        z waits (QueueLimit): queue `p` above `q` is at its limit of 1 running job",
    );
    check_all(
        "nobody is pushed out for it, and what runs is not stopped",
        "node a gpu=8; queue q jobs=1; group x queue=q started; pods x 0 gpu=1 on=a running;
         group y queue=q started; pods y 0 gpu=1 on=a running; group z queue=q prio=9; pods z 0 gpu=1",
        "admit x
        admit y
        admit z
        z waits (QueueLimit): queue `q` is at its limit of 1 running job",
    );
    check(
        "who has no room leaves the place to others",
        "node a gpu=2; queue q jobs=1; group x queue=q min=3 at=1; pods x 0..3 gpu=1; group y queue=q at=2; pods y 0 gpu=1",
        "bind y-0 to a",
    );
    check(
        "but not in a strict queue",
        "node a gpu=2; queue q jobs=1 fifo; group x queue=q min=3 at=1; pods x 0..3 gpu=1; group y queue=q at=2; pods y 0 gpu=1",
        "",
    );
}

#[test]
fn a_limit_on_jobs_holds_back_their_pods() {
    let mut cluster = world(
        "node a gpu=8; queue q jobs=2; group x queue=q at=1 needs.gpu=1; group y queue=q at=2 needs.gpu=1;
         group z queue=q at=3 needs.gpu=1",
    );
    let limit = "z waits (QueueLimit): queue `q` is at its limit of 2 running jobs";
    same("two are let in", &show(&plan(&mut cluster, 0)), &format!("admit x\nadmit y\n{limit}"));
    tell(&mut cluster, "group x queue=q at=1 needs.gpu=1 admitted=0; group y queue=q at=2 needs.gpu=1 admitted=0");
    let coming = show(&plan(&mut cluster, 1));
    assert!(!coming.contains("admit"), "while their pods come: {coming}");
    tell(&mut cluster, "pods x 0 gpu=1; pods y 0 gpu=1");
    // The next one is let in while they are placed: it is the first that waits then, and waits with its pods.
    assert_eq!(steps(&plan(&mut cluster, 2)), "bind x-0 to a; bind y-0 to a", "they run");
    tell(&mut cluster, "pods x 0 gpu=1 on=a running; pods y 0 gpu=1 on=a running leaving; pods z 0 gpu=1");
    assert_eq!(steps(&plan(&mut cluster, 3)), "", "a job has ended when its last pod is gone");
    tell(&mut cluster, "pods x 0 gpu=1 on=a succeeded");
    assert_eq!(steps(&plan(&mut cluster, 4)), "bind z-0 to a", "one has ended");
    // Whoever begins anew from the same objects decides the same.
    let mut anew = world(
        "node a gpu=8; queue q jobs=2; group x queue=q at=1 started admitted=0; pods x 0 gpu=1 on=a running;
         group y queue=q at=2 started admitted=0; pods y 0 gpu=1 on=a running; group z queue=q at=3 needs.gpu=1",
    );
    same("after a restart", &show(&plan(&mut anew, 5)), limit);
}

#[test]
fn fair_by_weight() {
    let gangs = |queue: &str, name: &str| {
        (0..4).map(|n| format!("group {name}{n} queue={queue} at={n}; pods {name}{n} 0 gpu=1;")).collect::<String>()
    };
    let count = |plan: &str, name: &str| plan.matches(&format!("bind {name}")).count();
    let share = |queues: &str| {
        let text = format!("node a gpu=4; {queues}; {} {}", gangs("q", "x"), gangs("r", "y"));
        let done = steps(&plan(&mut world(&text), 0));
        (count(&done, "x"), count(&done, "y"))
    };
    assert_eq!(share("queue q; queue r"), (2, 2), "equal weights");
    assert_eq!(share("queue q weight=3; queue r"), (3, 1), "three to one");
    assert_eq!(share("queue q; queue r prio=1"), (0, 4), "the more important queue first");
    assert_eq!(share("queue q deserved.gpu=1; queue r deserved.gpu=3"), (1, 3), "as deserved");
    assert_eq!(share("queue p weight=3; queue q parent=p; queue r"), (3, 1), "the weight of the parent");
    assert_eq!(share("queue q cap.gpu=1; queue r"), (1, 3), "what one may not have goes to the other");
}

#[test]
fn broken_queues_stop_nobody_else() {
    let text = "node a cpu=8; queue q; queue lost parent=nowhere; queue x parent=y; queue y parent=x;
        group g queue=q; pods g 0 cpu=1; group h queue=lost; pods h 0 cpu=1; group i queue=x; pods i 0 cpu=1";
    check("under the root", text, "bind h-0 to a; bind g-0 to a; bind i-0 to a");
    let warnings = world(text).warnings();
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    assert!(warnings[0].starts_with("queue `lost` names the parent `nowhere`, which does not exist"), "{warnings:?}");
    check_all(
        "groups that have no place to be",
        "node a cpu=8; queue p; queue c parent=p; queue s closed; group g queue=p; pods g 0; group h queue=none; pods h 0;
         group i queue=s; pods i 0",
        "g waits (QueueNotLeaf): queue `p` has queues below it; only the lowest run groups
        h waits (QueueMissing): queue `none` does not exist
        i waits (QueueClosed): queue `s` is closed",
    );
    check(
        "in a closed queue what has begun goes on",
        "node a cpu=8; queue s closed; group g queue=s min=1 started; pods g 0 cpu=1 on=a running; pods g 1 cpu=1",
        "bind g-1 to a",
    );
}

#[test]
fn first_in_first_out_or_not() {
    let gangs = "group x queue=q min=3 at=1; pods x 0..3 gpu=1; group y queue=q min=1 at=2; pods y 0 gpu=1";
    check("others may pass", &format!("node a gpu=2; queue q; {gangs}"), "bind y-0 to a");
    check_all(
        "others may not",
        &format!("node a gpu=2; queue q fifo; {gangs}"),
        "admit x
        admit y
        y waits (BehindInQueue): queue `q` is strictly first in, first out, and `x` is first
        x waits (NotEnoughResources): needs 3 pods × 1 nvidia.com/gpu; room for 2: 2 on a",
    );
    check(
        "priority is still first",
        "node a gpu=1; queue q fifo; group x queue=q at=1; pods x 0 gpu=1; group y queue=q at=2 prio=5; pods y 0 gpu=1",
        "bind y-0 to a",
    );
}

/// Lets small gangs of the queue `r` come and go below the limit of 2 that it shares with `q`, the next always before one
/// ends; returns the second in which `big` of `q` starts, which needs all of it.
fn overtaken_until(queue: &str, first: &str) -> Option<i64> {
    // Nobody takes back anything: only waiting helps.
    let mut cluster =
        world(&format!("node a gpu=9; queue p cap.gpu=2; queue r parent=p unreclaimable; queue {queue}; {first}"));
    tell(&mut cluster, "group big queue=q min=2 at=1 since=0; pods big 0..2 gpu=1");
    tell(&mut cluster, "group s0 queue=r at=1 started; pods s0 0 gpu=1 on=a running");
    let (mut last, mut last_start) = (0, 0);
    for second in 1..1000 {
        let next = last + 1;
        if second % 10 == 0 {
            tell(&mut cluster, &format!("group s{next} queue=r at=2; pods s{next} 0 gpu=1"));
        }
        let done = steps(&plan(&mut cluster, second));
        let has_started = done.contains(&format!("bind s{next}-0"));
        if done.contains("bind big-0") {
            return Some(second);
        }
        if has_started || second - last_start == 60 {
            tell(&mut cluster, &format!("gone pod s{last}-0; gone group s{last}"));
        }
        if has_started {
            (last, last_start) = (next, second);
        }
    }
    None
}

#[test]
fn a_strict_queue_is_not_overtaken_for_ever_by_its_sibling() {
    let after = Some(351);
    assert_eq!(overtaken_until("q parent=p", ""), after, "5 minutes, until the last that has passed ends");
    assert_eq!(overtaken_until("q parent=p fifo", ""), after, "the same in a strict queue");
    let lacking = "group less queue=q min=2 at=0; pods less 0 gpu=1";
    assert_eq!(
        overtaken_until("q parent=p fifo", lacking),
        after,
        "behind one that lacks pods and keeps nobody waiting"
    );
    let huge = "group huge queue=q min=3 at=0 since=0; pods huge 0..3 gpu=1";
    assert_eq!(overtaken_until("q parent=p", huge), after, "behind one that can never run");
}

#[test]
fn a_queue_that_is_served_first_does_not_take_the_limit_from_who_waits_too_long() {
    for strategy in ["", "fifo"] {
        let mut cluster = world(&format!(
            "node a gpu=2; node b gpu=2; queue p cap.gpu=4; queue q parent=p {strategy}; queue r parent=p prio=1;
            group s0 queue=r started; pods s0 0 gpu=1 on=a running; group s1 queue=r started; pods s1 0 gpu=1 on=b running;
            group big queue=q since=0 never; pods big 0 gpu=2; group s2 queue=r; pods s2 0 gpu=1"
        ));
        assert_eq!(steps(&plan(&mut cluster, 300)), "nominate big-0 for a", "{strategy}");
        tell(&mut cluster, "gone pod s0-0; gone group s0");
        assert_eq!(steps(&plan(&mut cluster, 301)), "bind s2-0 to b; bind big-0 to a", "{strategy}");
    }
}

#[test]
fn who_waits_for_a_limit_of_its_own_queue_keeps_nothing_from_others() {
    for strategy in ["", "fifo"] {
        let mut cluster = world(&format!(
            "node a gpu=9; queue p cap.gpu=4; queue q parent=p cap.gpu=2 {strategy}; queue r parent=p unreclaimable;
            group x queue=q min=2 started; pods x 0..2 gpu=1 on=a running; group next queue=q since=0; pods next 0 gpu=1"
        ));
        tell(&mut cluster, "group s queue=r min=2; pods s 0..2 gpu=1");
        assert_eq!(steps(&plan(&mut cluster, 900)), "bind s-0 to a; bind s-1 to a", "{strategy}");
        tell(&mut cluster, "gone pod x-0; gone pod x-1; gone group x; group t queue=r; pods t 0..2 gpu=1");
        assert_eq!(steps(&plan(&mut cluster, 901)), "bind next-0 to a; bind t-0 to a", "{strategy}");
    }
}

#[test]
fn admission_never_blocks_an_idle_cluster() {
    let admitted = |text: &str| {
        let plan = plan(&mut world(text), 100);
        show(&plan)
            .lines()
            .filter_map(|line| line.strip_prefix("admit ").map(str::to_owned))
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(admitted("node a gpu=4; group g needs.gpu=4"), "g", "there is room");
    assert_eq!(admitted("node a gpu=4; group g needs.gpu=40"), "g", "the first is let in for an autoscaler to see");
    assert_eq!(admitted("node a gpu=4; group g at=1 needs.gpu=4; group h at=2 needs.gpu=4"), "g", "no room beside it");
    assert_eq!(admitted("node a gpu=4; group g at=1 needs.gpu=2; group h at=2 needs.gpu=2"), "g h", "room for both");
    assert_eq!(
        admitted("node a gpu=4; group g at=1 needs.gpu=4; group h at=2 prio=1 needs.gpu=4"),
        "h",
        "the important first"
    );
    assert_eq!(admitted("node a gpu=4; group g; group h"), "g h", "who says nothing comes in");
    assert_eq!(
        admitted("node a gpu=4; queue q cap.gpu=2; group g queue=q needs.gpu=3"),
        "",
        "over the limit of the queue"
    );
    let full = "node a gpu=4; queue q cap.gpu=2; group low queue=q admitted=0 started; pods low 0 gpu=2 on=a";
    assert_eq!(admitted(&format!("{full}; group g queue=q needs.gpu=1")), "", "the queue is full");
    assert_eq!(admitted(&format!("{full}; group g queue=q needs.gpu=1 prio=1")), "g", "of less important ones");
    let admitted_before =
        |second: i64| admitted(&format!("node a gpu=4; group g needs.gpu=4 admitted={second}; group h needs.gpu=4"));
    assert_eq!(admitted_before(70), "", "its pods may still come");
    assert_eq!(admitted_before(30), "h", "they have not come");
    assert_eq!(
        admitted("node a gpu=4; group g min=9 needs.gpu=9 admitted=0; pods g 0..9 gpu=1; group h needs.gpu=4"),
        "h",
        "a gang that finds no room takes none"
    );
}

/// Makes the pods of jobs as their controller does: when their group is admitted, not before.
fn make_pods(cluster: &mut Cluster, plan: &Plan, pods: &[(&str, &str)]) {
    for step in &plan.steps {
        let id = step.to_string();
        let found = pods.iter().find(|(group, _)| id == format!("admit ns/{group}"));
        found.into_iter().for_each(|(_, pods)| tell(cluster, pods));
    }
}

#[test]
fn a_large_job_gets_into_a_full_queue_while_small_ones_arrive() {
    let mut cluster = world("node a gpu=8; queue q cap.gpu=4; group big queue=q min=4 at=1 needs.gpu=4");
    tell(&mut cluster, "group s0 queue=q needs.gpu=1 admitted=0 started; pods s0 0 gpu=1 on=a running");
    let (mut ran, mut last) = (Vec::new(), 0);
    // Every minute a small one ends and two more come.
    for minute in 1..20 {
        last += 2;
        let names = [format!("s{}", last - 1), format!("s{last}")];
        for name in &names {
            tell(&mut cluster, &format!("group {name} queue=q at={} needs.gpu=1", minute * 60));
        }
        for second in 0..3 {
            let plan = plan(&mut cluster, minute * 60 + second);
            let small: Vec<_> = (1..=last).map(|n| (format!("s{n}"), format!("pods s{n} 0 gpu=1"))).collect();
            let mut pods: Vec<(&str, &str)> = small.iter().map(|(name, pods)| (&**name, &**pods)).collect();
            pods.push(("big", "pods big 0..4 gpu=1"));
            make_pods(&mut cluster, &plan, &pods);
            let bound = steps(&plan).matches("bind big").count();
            ran.extend(plan.steps.iter().filter_map(|step| {
                let text = step.to_string();
                Some(text.strip_prefix("bind ns/s")?.split_once('-')?.0.to_owned())
            }));
            if bound == 4 {
                assert!(minute >= 5, "it is not more important than others");
                return;
            }
        }
        let ended = if minute == 1 { "0".to_owned() } else { ran.remove(0) };
        tell(&mut cluster, &format!("gone pod s{ended}-0; gone group s{ended}"));
    }
    panic!("small ones overtake it for ever: {:?}", cluster.waiting());
}

#[test]
fn a_job_takes_back_what_is_above_the_part_of_another_queue_below_the_same_limit() {
    for shares in
        ["queue q parent=p; queue r parent=p", "queue q parent=p deserved.gpu=2; queue r parent=p deserved.gpu=2"]
    {
        let mut cluster = world(&format!("node a gpu=8; queue p cap.gpu=4; {shares}"));
        for n in 0..4 {
            tell(
                &mut cluster,
                &format!("group x{n} queue=q at={n} needs.gpu=1 admitted=0 started; pods x{n} 0 gpu=1 on=a running"),
            );
        }
        tell(&mut cluster, "group g queue=r min=2 at=9 needs.gpu=2");
        let first = plan(&mut cluster, 10);
        assert_eq!(first.steps.len(), 1, "{shares}: {first}");
        make_pods(&mut cluster, &first, &[("g", "pods g 0..2 gpu=1")]);
        let evictions = steps(&plan(&mut cluster, 11));
        assert_eq!(evictions.matches("evict x").count(), 2, "{shares}: {evictions}");
    }
}

#[test]
fn who_has_waited_too_long_is_let_in() {
    let admitted = |text: &str| {
        let plan = plan(&mut world(text), 1000);
        plan.steps.iter().map(|step| step.to_string().replace("ns/", "")).collect::<Vec<_>>().join("; ")
    };
    let full = "node a gpu=4; queue q cap.gpu=2; group low queue=q admitted=0 started; pods low 0 gpu=2 on=a";
    assert_eq!(admitted(&format!("{full}; group g queue=q needs.gpu=2 since=701")), "", "not yet");
    assert_eq!(admitted(&format!("{full}; group g queue=q needs.gpu=2 since=700")), "admit g");
    assert_eq!(admitted(&format!("{full}; group g queue=q needs.gpu=3 since=0")), "", "it can never run here");
    let behind = "node a gpu=4; group w min=9 at=1 needs.gpu=9 admitted=0; pods w 0..9 gpu=1; group x at=1 admitted=0 started; pods x 0 gpu=1 on=a";
    assert_eq!(admitted(&format!("{behind}; group g needs.gpu=4 since=701")), "", "not yet");
    assert_eq!(admitted(&format!("{behind}; group g needs.gpu=4 since=700")), "admit g", "although another waits");
    let hopeless = |number: i32| {
        let group = |n: i32| format!("group w{n} min=9 at=1 needs.gpu=9 admitted=0; pods w{n} 0..9 gpu=1;");
        format!("node a gpu=4; {}", (0..number).map(group).collect::<String>())
    };
    assert_eq!(admitted(&format!("{}; group g needs.gpu=9 since=0", hopeless(4))), "admit g");
    assert_eq!(admitted(&format!("{}; group g needs.gpu=9 since=0", hopeless(5))), "", "enough of them wait");
    assert_eq!(admitted(&format!("{}; group g needs.gpu=4", hopeless(5))), "admit g", "there is room for it");
    assert_eq!(admitted(&format!("{}; group g needs.gpu=4", hopeless(10))), "", "many wait inside");
    assert_eq!(admitted(&format!("{}; group g needs.gpu=4 since=700", hopeless(10))), "admit g", "none for ever");
    let plan = plan(&mut world(&format!("{full}; group g queue=q needs.gpu=2 since=900")), 1000);
    assert_eq!(plan.look_again, Some(at(1200)), "it is looked at when it has waited too long");
}

#[test]
fn a_group_that_is_out_again_is_admitted_again() {
    let mut cluster = world("node a gpu=4; group g min=2 needs.gpu=2");
    let mut next = |change: &str, second: i64| {
        tell(&mut cluster, change);
        let plan = plan(&mut cluster, second);
        plan.steps.iter().map(|step| step.to_string().replace("ns/", "")).collect::<Vec<_>>().join("; ")
    };
    assert_eq!(next("", 1), "admit g");
    assert_eq!(next("group g min=2 needs.gpu=2", 2), "", "it was told before the plan was carried out");
    assert_eq!(next("group g min=2 needs.gpu=2 admitted=1", 3), "", "the plan is seen");
    assert_eq!(next("group g min=2 needs.gpu=2", 4), "admit g", "all its pods are lost");
    assert_eq!(next("gone group g; group g min=2 needs.gpu=2", 5), "admit g", "it is another one");
}

#[test]
fn waits_to_be_admitted() {
    let mut cluster = world("node a gpu=4; group g at=1 needs.gpu=4; group h at=2 needs.gpu=4 needs.cpu=1");
    same(
        "what is missing is told",
        &show(&plan(&mut cluster, 0)),
        "admit g
        h waits (NotEnoughResources): its pods are created when there is room: needs 4 nvidia.com/gpu (4 free), 1 cpu (0 free)",
    );
    tell(&mut cluster, "pods g 0 gpu=4");
    assert_eq!(steps(&plan(&mut cluster, 1)), "bind g-0 to a");
    tell(&mut cluster, "pods g 0 gpu=4 on=a succeeded; node a gpu=4 cpu=1");
    assert_eq!(plan(&mut cluster, 2).to_string(), "admit ns/h\n");
}

#[test]
fn usage_is_told() {
    let mut cluster = world("node a gpu=4; queue p; queue q parent=p; group g queue=q; pods g 0 gpu=2");
    plan(&mut cluster, 0);
    let usage = cluster.queues();
    let of = |name: &str| {
        usage.iter().find(|(queue, _)| queue.as_str() == name).map(|(_, usage)| usage.allocated.to_string())
    };
    assert_eq!(of("q").as_deref(), Some("2 nvidia.com/gpu"));
    assert_eq!(of("p").as_deref(), Some("2 nvidia.com/gpu"), "with those below it");
    assert_eq!(of("default").as_deref(), Some(""));
}
