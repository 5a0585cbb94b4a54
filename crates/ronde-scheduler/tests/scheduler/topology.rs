//! Parts of the network: close together if it must be, or if it can be.

use ronde_scheduler::{Change, HyperNode};

use crate::world::{plan, show, steps, tell, world};

const RACKS: &str = "node a gpu=2 rack=1 hall=x; node b gpu=2 rack=1 hall=x; node c gpu=2 rack=2 hall=x; node d gpu=2 rack=2 hall=x; node e gpu=8 rack=3 hall=y";

#[track_caller]
fn check(name: &str, text: &str, expected: &str) {
    let mut cluster = world(&format!("{RACKS}; {text}"));
    cluster.apply(Change::TierLabels(vec!["rack".to_owned(), "hall".to_owned()]));
    let plan = plan(&mut cluster, 0);
    let found = if plan.steps.len() > 1 { steps(&plan) } else { show(&plan) };
    assert_eq!(found, expected, "{name}");
}

#[test]
fn labels_of_nodes_are_tiers() {
    let gang = |wish: &str, count: u32| format!("group g min={count} {wish}; pods g 0..{count} gpu=1");
    check("one rack", &gang("hard=1", 3), "bind g-0 to a; bind g-1 to a; bind g-2 to b");
    check(
        "the first rack is taken",
        &format!("group o; pods o 0 gpu=2 on=a; {}", gang("hard=1", 3)),
        "bind g-0 to c; bind g-1 to c; bind g-2 to d",
    );
    check(
        "one hall",
        &format!("node e gpu=1 rack=3 hall=y; {}", gang("hard=2", 6)),
        "bind g-0 to a; bind g-1 to a; bind g-2 to b; bind g-3 to b; bind g-4 to c; bind g-5 to c",
    );
    check(
        "no rack is large enough",
        &gang("hard=1", 9),
        "admit ns/g\nns/g waits (TopologyNotSatisfied): needs 9 pods × 1 nvidia.com/gpu within one part of the network up to tier 1; `rack=3` has room for 8\n"
            .replace("ns/", "")
            .as_str(),
    );
    check("together if it can be", &gang("soft=1", 4), "bind g-0 to a; bind g-1 to a; bind g-2 to b; bind g-3 to b");
    check(
        "where it has pods already",
        "group g min=2 hard=1 started; pods g 0 gpu=1 on=d running; pods g 1 gpu=1; group h; pods h 0",
        "bind g-1 to d; bind h-0 to a",
    );
}

#[test]
fn a_gang_may_name_the_label_itself() {
    let gang = |min: u32| format!("group g min={min} within=rack; pods g 0..{min} gpu=1");
    check("one rack", &gang(3), "bind g-0 to a; bind g-1 to a; bind g-2 to b");
    check(
        "a rack that is large enough",
        &gang(5),
        &(0..5).map(|i| format!("bind g-{i} to e")).collect::<Vec<_>>().join("; "),
    );
    check(
        "where it has pods already, those above its minimum too",
        "group g min=1 within=rack started; pods g 0 gpu=1 on=d running; pods g 1..6 gpu=1",
        "bind g-1 to d; bind g-2 to c; bind g-3 to c",
    );
    check(
        "no rack is large enough",
        &gang(9),
        "admit g\ng waits (TopologyNotSatisfied): needs 9 pods × 1 nvidia.com/gpu on nodes with one value of the label `rack`; `rack=3` has room for 8\n",
    );
    check(
        "no node has the label",
        "group g min=1 within=cage; pods g 0 gpu=1",
        "admit g\ng waits (TopologyNotSatisfied): needs 1 pod × 1 nvidia.com/gpu on nodes with one value of the label `cage`; there is none\n",
    );
}

#[test]
fn hypernodes_are_trees() {
    let mut cluster = world(RACKS);
    let hypernode = |name: &str, tier: u32, nodes: &[&str], children: &[&str]| {
        Change::HyperNode(HyperNode {
            name: name.into(),
            tier,
            nodes: nodes.iter().map(|name| (*name).into()).collect(),
            children: children.iter().map(|name| (*name).into()).collect(),
        })
    };
    cluster.apply(hypernode("s0", 1, &["b", "c", "gone"], &[]));
    cluster.apply(hypernode("s1", 1, &["d"], &[]));
    cluster.apply(hypernode("top", 2, &[], &["s0", "s1"]));
    tell(&mut cluster, "group g min=4 hard=1; pods g 0..4 gpu=1; group h min=5 hard=2 at=1; pods h 0..5 gpu=1");
    assert_eq!(steps(&plan(&mut cluster, 0)), "bind g-0 to b; bind g-1 to b; bind g-2 to c; bind g-3 to c");
    cluster.apply(Change::HyperNodeGone("s0".into()));
    assert_eq!(steps(&plan(&mut cluster, 1)), "", "of `top` only d is left");
}
