//! Pushing out: whom, when, and when not; and room that is held for those who have waited long.

use ronde_scheduler::{Amounts, Change, Group, GroupId, Pod, PodId};

use crate::world::{plan, show, steps, tell, world};

#[track_caller]
fn check(name: &str, text: &str, expected: &str) {
    assert_eq!(steps(&plan(&mut world(text), 0)), expected, "{name}");
}

const LOW: &str = "group low min=2 at=1 started; pods low 0..2 gpu=1 on=a running";

#[test]
fn by_priority_in_the_same_queue() {
    check(
        "a whole gang, since half of it is of no use",
        &format!("node a gpu=2; {LOW}; group high prio=1; pods high 0 gpu=1"),
        "evict low-0: preempted by high; evict low-1: preempted by high; nominate high-0 for a",
    );
    check(
        "what is above the minimum first",
        "node a gpu=4; group low min=2 started; pods low 0..4 gpu=1 on=a running; group high prio=1; pods high 0 gpu=1",
        "evict low-3: preempted by high; nominate high-0 for a",
    );
    check(
        "all of it, where its pods go together or not at all",
        "node a gpu=4; group low min=2 started all; pods low 0..3 gpu=1 on=a running; group high prio=1 min=2; pods high 0..2 gpu=1",
        "evict low-0: preempted by high; evict low-1: preempted by high; evict low-2: preempted by high; nominate high-0 for a; nominate high-1 for a",
    );
    check(
        "no more than is needed: the younger gang is enough",
        "node a gpu=2; group old at=1 started; pods old 0 gpu=1 on=a running; group young at=2 started; pods young 0 gpu=1 on=a running;
         group high prio=1; pods high 0 gpu=1",
        "evict young-0: preempted by high; nominate high-0 for a",
    );
    check(
        "the least important first",
        "node a gpu=2; group one prio=1 at=9 started; pods one 0 gpu=1 on=a running; group none at=1 started; pods none 0 gpu=1 on=a running;
         group high prio=2; pods high 0 gpu=1",
        "evict none-0: preempted by high; nominate high-0 for a",
    );
    check(
        "only those in the way",
        "node a gpu=1; node b gpu=1 zone=1; group x at=9 started; pods x 0 cpu=0 on=a running; group y at=1 started; pods y 0 gpu=1 on=b running;
         group z at=5 started; pods z 0 gpu=1 on=a running; group high prio=2 min=2; pods high 0..2 gpu=1",
        "evict y-0: preempted by high; evict z-0: preempted by high; nominate high-0 for a; nominate high-1 for b",
    );
}

#[test]
fn budgets_are_kept_where_that_can_be() {
    const TWO: &str = "node a gpu=2; group old at=1 started; pods old 0 gpu=1 on=a running;
        group young at=2 started; pods young 0 gpu=1 on=a running";
    let high = "group high prio=1; pods high 0 gpu=1";
    let evicted = |name: &str| format!("evict {name}-0: preempted by high; nominate high-0 for a");
    check("there is none", &format!("{TWO}; {high}"), &evicted("young"));
    check("nobody may go of the first", &format!("{TWO}; budget b app=young; {high}"), &evicted("old"));
    check("one may go", &format!("{TWO}; budget b app=young allowed=1; {high}"), &evicted("young"));
    check("of others", &format!("{TWO}; budget b app=none; {high}"), &evicted("young"));
    check("it has gone", &format!("{TWO}; budget b app=young; gone budget b; {high}"), &evicted("young"));
    check("all are alike", &format!("{TWO}; budget b; {high}"), &evicted("young"));
    check(
        "what must go goes",
        &format!("{TWO}; budget b; group high prio=1 min=2; pods high 0..2 gpu=1"),
        "evict old-0: preempted by high; evict young-0: preempted by high; nominate high-0 for a; nominate high-1 for a",
    );
    check(
        "a budget is for as many as it allows",
        "node a gpu=4; group x min=1 at=1 started; pods x 0..3 gpu=1 on=a running; group y at=9 started; pods y 0 gpu=1 on=a running;
         budget b app=x allowed=1; group high prio=1 min=2; pods high 0..2 gpu=1",
        "evict x-2: preempted by high; evict y-0: preempted by high; nominate high-0 for a; nominate high-1 for a",
    );
}

#[test]
fn nobody_goes_in_vain() {
    let high = "group high prio=1 min=3; pods high 0..3 gpu=1";
    check("it would not fit all the same", &format!("node a gpu=2; {LOW}; {high}"), "");
    check("same priority", &format!("node a gpu=2; {LOW}; group x at=2; pods x 0 gpu=1"), "");
    check("it does not preempt", &format!("node a gpu=2; {LOW}; group high prio=1 never; pods high 0 gpu=1"), "");
    check(
        "the gang may not be touched",
        "node a gpu=2; group low min=2 started; pods low 0 gpu=1 on=a running fixed; pods low 1 gpu=1 on=a running; group high prio=1; pods high 0 gpu=1",
        "",
    );
    check(
        "another queue's pods are not preempted",
        "node a gpu=2; queue q; queue r unreclaimable; group low queue=r min=2 started; pods low 0..2 gpu=1 on=a running; group high queue=q prio=1; pods high 0 gpu=1",
        "",
    );
    check(
        "a limit of the queue is room too",
        "node a gpu=9; queue q cap.gpu=2; group low queue=q min=2 started; pods low 0..2 gpu=1 on=a running; group high queue=q prio=1; pods high 0 gpu=1",
        "evict low-0: preempted by high; evict low-1: preempted by high; nominate high-0 for a",
    );
}

#[test]
fn room_is_held_until_the_victims_have_left() {
    let mut cluster = world(&format!("node a gpu=2; {LOW}; group high prio=1; pods high 0 gpu=1"));
    plan(&mut cluster, 0);
    tell(
        &mut cluster,
        "pods low 0..2 gpu=1 on=a running leaving; gone pod low-0; group other at=5; pods other 0..2 gpu=1",
    );
    assert_eq!(steps(&plan(&mut cluster, 1)), "bind high-0 to a; nominate other-0 for a", "the first room is for it");
    assert_eq!(show(&plan(&mut cluster, 1)), "", "low-1 is still there");
    tell(&mut cluster, "gone pod low-1");
    assert_eq!(steps(&plan(&mut cluster, 2)), "bind other-0 to a");
}

#[test]
fn small_ones_do_not_take_room_that_is_promised() {
    let mut cluster = world(
        "node a gpu=3; group low min=2 started; pods low 0..2 gpu=1 on=a running; group high prio=1 min=3; pods high 0..3 gpu=1",
    );
    assert_eq!(
        steps(&plan(&mut cluster, 0)),
        "evict low-0: preempted by high; evict low-1: preempted by high; nominate high-0 for a; nominate high-1 for a; nominate high-2 for a"
    );
    tell(&mut cluster, "group small; pods small 0 gpu=1");
    assert_eq!(
        show(&plan(&mut cluster, 1)),
        "admit small\nsmall waits (HeldForOthers): needs 1 pod × 1 nvidia.com/gpu; 0 of 1 nodes fit: 1 is held for others\n"
    );
    tell(&mut cluster, "gone pod low-0; gone pod low-1");
    assert_eq!(steps(&plan(&mut cluster, 2)), "bind high-0 to a; bind high-1 to a; bind high-2 to a");
}

const GREEDY: &str = "queue q; queue r;
    group x queue=r min=1 at=1 started; pods x 0 gpu=1 on=a running; group y queue=r at=2 started; pods y 0 gpu=1 on=a running;
    group z queue=r at=3 started; pods z 0 gpu=1 on=a running; group w queue=r at=4 started; pods w 0 gpu=1 on=a running";

#[test]
fn queues_take_back_their_part() {
    check(
        "half of it, from the youngest",
        &format!("node a gpu=4; {GREEDY}; group g queue=q min=2; pods g 0..2 gpu=1"),
        "evict w-0: reclaimed for g; evict z-0: reclaimed for g; nominate g-0 for a; nominate g-1 for a",
    );
    check("not more than its part", &format!("node a gpu=4; {GREEDY}; group g queue=q min=3; pods g 0..3 gpu=1"), "");
    check(
        "what is deserved",
        &format!(
            "node a gpu=4; {GREEDY}; queue q deserved.gpu=3; queue r deserved.gpu=1; group g queue=q min=3; pods g 0..3 gpu=1"
        ),
        "evict w-0: reclaimed for g; evict y-0: reclaimed for g; evict z-0: reclaimed for g; nominate g-0 for a; nominate g-1 for a; nominate g-2 for a",
    );
    check(
        "not below what is guaranteed",
        &format!(
            "node a gpu=4; {GREEDY}; queue q deserved.gpu=3; queue r deserved.gpu=3 guarantee.gpu=3; group g queue=q min=2; pods g 0..2 gpu=1"
        ),
        "",
    );
    check(
        "not from those who do not give",
        &format!("node a gpu=4; {GREEDY}; queue r unreclaimable; group g queue=q; pods g 0 gpu=1"),
        "",
    );
    check(
        "within the parent's part",
        &format!(
            "node a gpu=4; {GREEDY}; queue r parent=p; queue q parent=p; queue p; group g queue=q; pods g 0 gpu=1"
        ),
        "evict w-0: reclaimed for g; nominate g-0 for a",
    );
    let limited = format!("node a gpu=9; {GREEDY}; queue r parent=p; queue q parent=p; queue p cap.gpu=4");
    check(
        "of a limit that both are under",
        &format!("{limited}; group g queue=q; pods g 0 gpu=1"),
        "evict w-0: reclaimed for g; nominate g-0 for a",
    );
    check(
        "not of a limit that is only above itself",
        &format!("node a gpu=9; {GREEDY}; queue q parent=p; queue p cap.gpu=0; group g queue=q; pods g 0 gpu=1"),
        "",
    );
    check(
        "not of its own limit",
        &format!("node a gpu=4; {GREEDY}; queue q cap.gpu=0; group g queue=q; pods g 0 gpu=1"),
        "",
    );
}

#[test]
fn a_limit_above_a_queue_is_told_as_such() {
    let text =
        "node a gpu=9; queue p cap.gpu=1; queue q parent=p; group x queue=q started; pods x 0 gpu=1 on=a running;
        group g queue=q; pods g 0 gpu=1";
    assert_eq!(
        show(&plan(&mut world(text), 0)),
        "admit g\nadmit x\ng waits (QueueLimit): needs 1 nvidia.com/gpu; queue `p` above `q` is at its limit of 1\n"
    );
}

#[test]
fn reclaim_does_not_go_round_in_circles() {
    let mut cluster = world(&format!("node a gpu=4; {GREEDY}; group g queue=q min=2; pods g 0..2 gpu=1"));
    plan(&mut cluster, 0);
    // The victims are made again by their controllers.
    tell(&mut cluster, "gone pod w-0; gone pod z-0; pods w 0 gpu=1; pods z 0 gpu=1");
    assert_eq!(steps(&plan(&mut cluster, 1)), "bind g-0 to a; bind g-1 to a");
    for second in 2..10 {
        assert_eq!(steps(&plan(&mut cluster, second)), "", "at {second}");
    }
}

#[test]
fn who_has_waited_long_is_not_overtaken_for_ever() {
    let mut cluster = world(
        "node a gpu=2; node b gpu=2; group big min=2 since=0; pods big 0..2 gpu=2;
        group s0 at=1 started; pods s0 0 gpu=1 on=a running; group s1 at=1 started; pods s1 0 gpu=1 on=b running",
    );
    // Small ones come and go; before the time is over they overtake.
    tell(&mut cluster, "group s2 at=2; pods s2 0 gpu=1");
    assert_eq!(steps(&plan(&mut cluster, 10)), "bind s2-0 to a");
    tell(&mut cluster, "gone pod s0-0; gone group s0");
    assert_eq!(
        steps(&plan(&mut cluster, 300)),
        "nominate big-0 for a; nominate big-1 for b",
        "room is held from now on"
    );
    tell(&mut cluster, "group s3 at=3; pods s3 0 gpu=1; group s4 at=4 prio=9; pods s4 0 gpu=1");
    assert_eq!(steps(&plan(&mut cluster, 301)), "bind s4-0 to a", "only the more important pass");
    tell(&mut cluster, "gone pod s2-0; gone group s2; gone pod s4-0; gone group s4");
    assert_eq!(steps(&plan(&mut cluster, 302)), "", "s3 waits");
    tell(&mut cluster, "gone pod s1-0; gone group s1");
    assert_eq!(
        steps(&plan(&mut cluster, 303)),
        "bind big-0 to a; bind big-1 to b",
        "when those who ran there have ended"
    );
}

#[test]
fn a_limit_is_not_eaten_up_for_ever_either() {
    let mut cluster = world(
        "node a gpu=9; queue q cap.gpu=2; group big queue=q min=2 since=0; pods big 0..2 gpu=1;
        group s0 queue=q at=1 started; pods s0 0 gpu=1 on=a running",
    );
    tell(&mut cluster, "group s1 queue=q at=2; pods s1 0 gpu=1");
    assert_eq!(steps(&plan(&mut cluster, 300)), "", "the rest of the limit is kept for the big one");
    tell(&mut cluster, "gone pod s0-0");
    assert_eq!(steps(&plan(&mut cluster, 301)), "bind big-0 to a; bind big-1 to a");
}

#[test]
fn what_can_never_run_holds_nothing() {
    let mut cluster = world("node a gpu=2; group huge min=9 since=0; pods huge 0..9 gpu=1; group s; pods s 0 gpu=1");
    assert_eq!(steps(&plan(&mut cluster, 1000)), "bind s-0 to a");
}

#[test]
fn pods_of_the_system_stay() {
    let mut cluster = world("node a gpu=1; group high prio=9; pods high 0 gpu=1");
    let id = GroupId::new("kube-system", "dns");
    cluster.apply(Change::Group(Group { started: true, ..Group::new(id.clone(), "default", 1) }));
    let mut pod = Pod::new(PodId::new("kube-system", "dns-0"), id, Amounts::of([("nvidia.com/gpu", 1)]));
    pod.node = Some("a".into());
    cluster.apply(Change::Pod(pod));
    assert_eq!(steps(&plan(&mut cluster, 0)), "");
}

#[test]
fn promises_end_with_those_they_were_made_to() {
    let promised = || {
        let mut cluster = world(&format!(
            "node a gpu=2; {LOW}; group high prio=1 min=2; pods high 0..2 gpu=1; group x; pods x 0 gpu=1"
        ));
        plan(&mut cluster, 0);
        tell(&mut cluster, "gone pod low-0; gone group low");
        cluster
    };
    let mut cluster = promised();
    assert_eq!(steps(&plan(&mut cluster, 1)), "", "held while low-1 leaves");
    let mut cluster = promised();
    tell(&mut cluster, "gone group high");
    assert_eq!(steps(&plan(&mut cluster, 1)), "bind x-0 to a", "the group is gone");
    let mut cluster = promised();
    tell(&mut cluster, "gone pod high-1");
    assert_eq!(steps(&plan(&mut cluster, 1)), "hold no room for high-0; bind x-0 to a", "one of its pods is gone");
    let mut cluster = promised();
    tell(&mut cluster, "queue q closed; group high prio=1 min=2 queue=q");
    assert_eq!(
        steps(&plan(&mut cluster, 1)),
        "hold no room for high-0; hold no room for high-1; bind x-0 to a",
        "its queue is closed"
    );
}

#[test]
fn promises_outlive_a_restart_whatever_is_told_first() {
    let mut cluster = world("pods high 0..2 gpu=1 nominated=a; group high prio=1 min=2");
    tell(&mut cluster, "pods low 0 gpu=1 on=a leaving; group low started; node a gpu=2; group x; pods x 0 gpu=1");
    assert_eq!(steps(&plan(&mut cluster, 0)), "", "x finds no room");
    tell(&mut cluster, "gone pod low-0");
    assert_eq!(steps(&plan(&mut cluster, 1)), "bind high-0 to a; bind high-1 to a");
}
