//! Gangs are placed whole or not at all; what is above the minimum comes later and goes first.

use ronde_scheduler::{Change, LabelSelector, Step, SubGroups};

use crate::world::{at, changes, plan, same, show, steps, tell, world};

#[track_caller]
fn check(name: &str, text: &str, expected: &str) {
    let mut cluster = world(text);
    same(name, &show(&plan(&mut cluster, 0)), expected);
}

#[track_caller]
fn check_steps(name: &str, text: &str, expected: &str) {
    let mut cluster = world(text);
    assert_eq!(steps(&plan(&mut cluster, 0)), expected, "{name}");
}

#[test]
fn whole_or_not_at_all() {
    check(
        "room for all",
        "node a cpu=4; group g min=3; pods g 0..3 cpu=1",
        "admit g
        bind g-0 to a
        bind g-1 to a
        bind g-2 to a",
    );
    check(
        "room for two of three",
        "node a cpu=2; group g min=3; pods g 0..3 cpu=1",
        "admit g
        g waits (NotEnoughResources): needs 3 pods × 1 cpu; room for 2: 2 on a",
    );
    check(
        "two gangs, room for one: the older",
        "node a gpu=2; group x min=2 at=2; pods x 0..2 gpu=1; group y min=2 at=1; pods y 0..2 gpu=1",
        "admit x
        admit y
        bind y-0 to a
        bind y-1 to a
        x waits (NotEnoughResources): needs 2 pods × 1 nvidia.com/gpu; 0 of 1 nodes fit: 1 lacks nvidia.com/gpu (need 1, most free 0 on a)",
    );
    check(
        "a pod is missing",
        "node a cpu=4; group g min=3; pods g 0..2 cpu=1",
        "admit g
        g waits (NotEnoughPods): 2 of 3 pods exist",
    );
    check_steps(
        "two halves of the cluster are not taken by two gangs",
        "node a gpu=1; node b gpu=1; group x min=2 at=1; group y min=2 at=2; pods x 0..2 gpu=1; pods y 0..2 gpu=1",
        "bind x-0 to a; bind x-1 to b",
    );
    check_steps(
        "pods without requests",
        "node a podcount=2; group g min=2; pods g 0..2",
        "bind g-0 to a; bind g-1 to a",
    );
    check_steps("more pods than the node takes", "node a podcount=1 cpu=4; group g min=2; pods g 0..2", "");
    check_steps("a pod that is held back is none", "node a cpu=4; group g min=2; pods g 0; pods g 1 held", "");
    check_steps("an empty minimum", "node a cpu=1; group g min=0; pods g 0..2 cpu=1", "bind g-0 to a");
}

#[test]
fn minimums_of_tasks() {
    let gang = |group: &str, cpu: u32| {
        format!("node a cpu={cpu}; group g {group}; pods g 0 task=ps cpu=1; pods g 1..4 task=w cpu=1")
    };
    check_steps("each task has its minimum", &gang("min=2 min.ps=1 min.w=1", 2), "bind g-0 to a; bind g-1 to a");
    check_steps(
        "the last task is not skipped for an earlier one",
        &gang("min=3 min.w=3", 3),
        "bind g-1 to a; bind g-2 to a; bind g-3 to a",
    );
    check(
        "a task has too few pods",
        &gang("min=3 min.ps=2", 9),
        "admit g
        g waits (NotEnoughPodsOfTask): 1 of 2 pods of task `ps` exist",
    );
    check_steps("a smaller minimum overrules those of tasks", &gang("min=1 min.ps=1 min.w=3", 1), "bind g-0 to a");
}

#[test]
fn pods_of_several_sizes_find_their_order() {
    check_steps(
        "the small one does not take the only large place",
        "node a cpu=4; node b cpu=1; group g min=2; pods g 0 cpu=1 task=a; pods g 1 cpu=4 task=b",
        "bind g-1 to a; bind g-0 to b",
    );
}

#[test]
fn surplus_comes_after_all_minimums() {
    check_steps(
        "the second gang's minimum before the first one's surplus",
        "node a cpu=4; group x min=1 at=1; group y min=2 at=2; pods x 0..3 cpu=1; pods y 0..2 cpu=1",
        "bind x-0 to a; bind y-0 to a; bind y-1 to a; bind x-1 to a",
    );
    check_steps(
        "who has least gets the next",
        "node a cpu=6; group x min=2 at=1; group y min=1 at=2; pods x 0..9 cpu=1; pods y 0..9 cpu=1",
        "bind x-0 to a; bind x-1 to a; bind y-0 to a; bind y-1 to a; bind x-2 to a; bind y-2 to a",
    );
}

#[test]
fn a_half_bound_gang_is_finished_or_undone() {
    let text = "node a cpu=1; node b cpu=1; group g min=2; pods g 0..2 cpu=1";
    let fail = |cluster: &mut ronde_scheduler::Cluster| {
        let done = plan(cluster, 0);
        assert_eq!(steps(&done), "bind g-0 to a; bind g-1 to b");
        tell(cluster, "pods g 0 cpu=1 on=a running");
        let last = done.steps.last().expect("the bind of g-1").clone();
        cluster.apply(Change::Failed(last));
    };
    let mut cluster = world(text);
    fail(&mut cluster);
    assert_eq!(steps(&plan(&mut cluster, 1)), "bind g-1 to b", "finished");

    let mut cluster = world(text);
    fail(&mut cluster);
    tell(&mut cluster, "node b cpu=1 cordoned");
    assert_eq!(steps(&plan(&mut cluster, 1)), "evict g-0: its gang is incomplete", "undone at once: it never ran");

    let mut cluster = world(text);
    fail(&mut cluster);
    tell(&mut cluster, "node b cpu=1 cordoned; group g min=2 started since=0");
    let wait = plan(&mut cluster, 1);
    assert_eq!(steps(&wait), "", "it ran before: it is given time");
    assert_eq!(wait.look_again, Some(at(300)), "to have room held for it first");
    assert_eq!(steps(&plan(&mut cluster, 601)), "evict g-0: its gang is incomplete", "but not for ever");
}

#[test]
fn a_plan_can_be_undone() {
    let text = "node a cpu=2; group g min=2; pods g 0..2 cpu=1";
    let mut cluster = world(text);
    let first = plan(&mut cluster, 0);
    cluster.undo(&first);
    assert_eq!(plan(&mut cluster, 0), first, "the same again");
    assert!(plan(&mut cluster, 0).steps.is_empty(), "and nothing more");
}

#[test]
fn what_the_watch_shows_late_changes_nothing() {
    let mut cluster = world("node a cpu=2; group g min=2; pods g 0..2 cpu=1");
    plan(&mut cluster, 0);
    tell(&mut cluster, "pods g 0..2 cpu=1; group g min=2");
    assert!(plan(&mut cluster, 1).steps.is_empty(), "the old version of pods and group");
    tell(&mut cluster, "pods g 0..2 cpu=1 on=a");
    assert!(plan(&mut cluster, 1).steps.is_empty(), "the new one");
    tell(&mut cluster, "gone pod g-0; pods g 0 cpu=1");
    assert_eq!(steps(&plan(&mut cluster, 2)), "bind g-0 to a", "a new pod with the old name");
}

#[test]
fn subgroups_are_gangs_in_the_gang() {
    let gang = |nodes: &str, min_subgroups: u32| {
        let mut cluster = world(nodes);
        let text = "group g min=2; pods g 0..2 gpu=1 part=x; pods g 2..4 gpu=1 part=y";
        for change in changes(text) {
            cluster.apply(match change {
                Change::Group(mut group) => {
                    group.subgroups.push(SubGroups {
                        name: "parts".into(),
                        selector: LabelSelector::default(),
                        match_label_keys: vec!["part".to_owned()],
                        size: 2,
                        min_subgroups,
                        topology: None,
                    });
                    Change::Group(group)
                }
                other => other,
            });
        }
        let plan = plan(&mut cluster, 0);
        plan.steps.iter().filter(|step| matches!(step, Step::Bind { .. })).count()
    };
    assert_eq!(gang("node a gpu=4", 2), 4, "both");
    assert_eq!(gang("node a gpu=3", 2), 0, "one and a half are none");
    assert_eq!(gang("node a gpu=3", 1), 2, "one is enough, and half of the other is not started");
}

#[test]
fn absurd_amounts_are_only_too_much() {
    let huge = i64::MAX.to_string();
    check_steps(
        "a pod that wants everything",
        &format!("node a gpu={huge}; node b gpu=1; group g; pods g 0..9 gpu={huge}; group h at=1; pods h 0 gpu=1"),
        "bind g-0 to a; bind h-0 to b",
    );
    check_steps("less than nothing", "node a gpu=-1 cpu=1; group g; pods g 0 cpu=1 gpu=-1", "bind g-0 to a");
}
