use serde_json::{Value, json};

use super::{super::fixtures::*, *};

/// Checks a new queue among those of the tree below `root`: `dept` (10 CPUs), `dept-x` (4 of them).
fn check_queue(what: &str, name: &str, spec: Value, expected: &[&str]) {
    let mut queue = queue(name, &spec);
    default(&mut queue);
    check(what, &validate(&queue, &tree()), expected);
}

fn tree() -> Queues {
    let dept = json!({"capability": {"cpu": "20"}, "deserved": {"cpu": "10"}, "guarantee": {"resource": {"cpu": "5"}}});
    let x = json!({"parent": "dept", "deserved": {"cpu": "4"}, "guarantee": {"resource": {"cpu": "2"}}});
    let mut used = queue("used", &json!({}));
    used.status = serde_json::from_value(json!({"allocated": {"cpu": "1"}})).expect("a status");
    let line = ["l1", "l2", "l3", "l4"].windows(2).map(|pair| queue(pair[1], &json!({"parent": pair[0]})));
    let rest = [
        queue("root", &json!({})),
        queue("default", &json!({})),
        queue("dept", &dept),
        queue("dept-x", &x),
        queue("l1", &json!({})),
        used,
    ];
    line.chain(rest).collect()
}

#[test]
fn what_is_left_open_is_defaulted() {
    let mut team = queue("team", &json!({}));
    default(&mut team);
    let expected = json!({"weight": 1, "reclaimable": true, "parent": "root", "dequeueStrategy": "traverse"});
    assert_eq!(serde_json::to_value(&team.spec).expect("a spec"), expected);
    let mut root = queue("root", &json!({"reclaimable": false, "weight": 3}));
    default(&mut root);
    let expected = json!({"weight": 3, "reclaimable": false, "dequeueStrategy": "traverse"});
    assert_eq!(serde_json::to_value(&root.spec).expect("a spec"), expected);
}

#[test]
fn amounts_are_in_order() {
    check_queue(
        "good",
        "q",
        json!({
            "capability": {"cpu": "4", "memory": "8Gi"}, "deserved": {"cpu": "2000m", "memory": "8192Mi"},
            "guarantee": {"resource": {"cpu": 2}},
        }),
        &[],
    );
    check_queue(
        "bad",
        "q",
        json!({
            "weight": 70000, "priority": -1, "dequeueStrategy": "lifo",
            "capability": {"cpu": "1", "memory": "much", "pods": "-1"}, "deserved": {"cpu": "2"},
            "guarantee": {"resource": {"cpu": "3", "nvidia.com/gpu": "1"}},
        }),
        &[
            "spec.weight: 70000 should be less than or equal to 65535",
            "spec.priority: -1 should be greater than or equal to 0",
            "spec.dequeueStrategy: \"lifo\" is not one of fifo, traverse",
            "spec.capability.memory: \"much\": quantities must match the regular expression \
         '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            "spec.capability.pods: -1 is negative",
            "spec.guarantee.resource.cpu: deserved[cpu]=2 must be >= guarantee[cpu]=3",
            "spec.guarantee.resource.nvidia.com/gpu: deserved[nvidia.com/gpu] must be >= guarantee[nvidia.com/gpu]=1, but is not set",
            "spec.deserved.cpu: deserved[cpu]=2 must be <= capability[cpu]=1",
        ],
    );
}

#[test]
fn a_queue_stands_below_one_that_can_bear_it() {
    check_queue("fits", "dept-y", json!({"parent": "dept", "deserved": {"cpu": "6"}}), &[]);
    check_queue(
        "too much",
        "dept-y",
        json!({
            "parent": "dept", "capability": {"cpu": "21"}, "deserved": {"cpu": "7"}, "guarantee": {"resource": {"cpu": "4"}},
        }),
        &[
            "spec.capability.cpu: 21 is more than that of its ancestor \"dept\", which is 20",
            "spec.deserved.cpu: the child queues of \"dept\" would have 11 in total; it has 10",
            "spec.guarantee.resource.cpu: the child queues of \"dept\" would have 6 in total; it has 5",
        ],
    );
    check_queue(
        "limited two levels up",
        "deep",
        json!({"parent": "dept-x", "capability": {"cpu": "21"}}),
        &["spec.capability.cpu: 21 is more than that of its ancestor \"dept\", which is 20"],
    );
    check_queue("no parent", "q", json!({"parent": "ghost"}), &["spec.parent: there is no queue \"ghost\""]);
    check_queue("itself", "q", json!({"parent": "q"}), &["spec.parent: \"q\" would be its own ancestor"]);
    check_queue("in a circle", "l1", json!({"parent": "l3"}), &["spec.parent: \"l1\" would be its own ancestor"]);
    check_queue("deep enough", "l5", json!({"parent": "l4"}), &[]);
    check_queue("moves a line elsewhere", "l3", json!({"parent": "dept-x"}), &[]);
    check_queue(
        "moves a line too deep",
        "l1",
        json!({"parent": "dept-x"}),
        &["spec.parent: 6 levels of queues, at most 5 are allowed"],
    );
    check_queue(
        "pods run there",
        "q",
        json!({"parent": "used"}),
        &["spec.parent: pods run in \"used\", so it cannot have child queues"],
    );
    check_queue("above root", "root", json!({"parent": "dept"}), &["spec.parent: `root` cannot have a parent"]);
}

fn check_update(what: &str, name: &str, change: impl FnOnce(&mut Queue), expected: &[&str]) {
    let queues = tree();
    let mut old = queues.get(name).expect("a queue of the tree").clone();
    default(&mut old);
    let mut new = old.clone();
    change(&mut new);
    check(what, &validate_update(&old, &new, &queues), expected);
}

#[test]
fn a_change_must_leave_enough_for_those_below() {
    let amounts = |spec: Value| move |queue: &mut Queue| queue.spec = serde_json::from_value(spec).expect("a spec");
    check_update("nothing", "dept", |_| {}, &[]);
    check_update(
        "less",
        "dept",
        amounts(json!({"weight": 1, "deserved": {"cpu": "3"}, "capability": {"cpu": "3"}})),
        &["spec.deserved.cpu: 3 is less than its child queues have in total, which is 4"],
    );
    check_update(
        "root",
        "root",
        amounts(json!({"weight": 1, "capability": {"cpu": "1"}, "priority": 2})),
        &[
            "spec.capability.cpu: 1 is less than that of its descendant \"dept\", which is 20",
            "spec.capability: may not change: `root` represents the whole cluster",
        ],
    );
}

#[test]
fn some_queues_cannot_be_deleted() {
    let why = |name: &str| validate_delete(name, &tree(), &[]).unwrap_or_default();
    assert_eq!(why("default"), "queue `default` is always there");
    assert_eq!(why("root"), "queue `root` is always there");
    assert_eq!(why("dept"), "it has child queues: `dept-x`");
    assert_eq!(why("dept-x"), "");
    let used = validate_delete("dept-x", &tree(), &["job ns/lm".to_owned()]);
    assert_eq!(used.as_deref(), Some("it is not empty: job ns/lm"));
}

#[test]
fn the_older_form_of_a_hierarchy_is_checked() {
    let placed = |name: &str, path: &str, weights: &str| {
        let mut queue = queue(name, &json!({}));
        default(&mut queue);
        let annotations = [(HIERARCHY.to_owned(), path.to_owned()), (HIERARCHY_WEIGHTS.to_owned(), weights.to_owned())];
        queue.metadata.annotations = Some(annotations.into());
        queue
    };
    let others: Queues =
        [placed("ab", "root/a/b", "1/2/3")].into_iter().chain(tree().iter().map(|(_, q)| q.clone())).collect();
    let check_placed = |path: &str, weights: &str, expected: &[&str]| {
        check(path, &validate(&placed("q", path, weights), &others), expected);
    };
    check_placed("root/c", "1/0.5", &[]);
    check_placed(
        "root/a",
        "1/1",
        &[
            "metadata.annotations[volcano.sh/hierarchy]: \"root/a\" is an ancestor of queue \"ab\", but only leaf queues take jobs",
        ],
    );
    check_placed(
        "root/c",
        "1/2/3",
        &[
            "metadata.annotations[volcano.sh/hierarchy-weights]: \"1/2/3\" must have the same length as volcano.sh/hierarchy, \
         which is \"root/c\"",
        ],
    );
    check_placed(
        "root/c",
        "1/-2",
        &["metadata.annotations[volcano.sh/hierarchy-weights]: \"-2\" must be a number larger than 0"],
    );
}

#[test]
fn what_has_no_effect_is_told() {
    let queue = queue("q", &json!({"type": "gpu", "extendClusters": [{"name": "far"}]}));
    assert_eq!(
        warnings(&queue),
        [
            "spec.type: is stored and shown, but has no effect",
            "spec.extendClusters: pods are labeled for forwarding, but nothing here sends them to other clusters",
        ]
    );
}

#[test]
fn a_limit_on_jobs_is_a_number_of_them() {
    check_queue("good", "q", json!({"maxRunningJobs": 1}), &[]);
    check_queue(
        "bad",
        "q",
        json!({"maxRunningJobs": 0}),
        &["spec.maxRunningJobs: 0 should be greater than or equal to 1"],
    );
    check_queue("good", "q", json!({"minRuntime": "10m", "reclaimDelay": "0s"}), &[]);
    check_queue(
        "bad",
        "q",
        json!({"minRuntime": "-1s", "reclaimDelay": "-1h"}),
        &["spec.minRuntime: -1s is negative", "spec.reclaimDelay: -1h0m0s is negative"],
    );
}
