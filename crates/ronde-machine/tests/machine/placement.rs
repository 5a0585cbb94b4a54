//! Pods find their nodes.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{ResourceExt as _, api::ListParams};
use ronde_control::scheduling::objects::pods::host_ports;
use ronde_runtime::pods::resources::requests;
use ronde_runtime::{pods::condition, podstatus::node_of};
use serde_json::{Value, json};

use crate::{
    chance::Chance,
    cluster::{Cluster, create, delete, patch, within},
    endpoints::pod,
    kubelet,
};

const SOON: Duration = Duration::from_secs(30);

fn asks(cpu: &str, more: Value) -> Value {
    let mut spec = json!({"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}]});
    spec.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    spec
}

async fn places(cluster: &Cluster) -> anyhow::Result<BTreeMap<String, String>> {
    let pods = cluster.api::<Pod>().list(&ListParams::default()).await?;
    Ok(pods.iter().map(|pod| (pod.name_any(), node_of(pod).to_owned())).collect())
}

#[tokio::test(start_paused = true)]
async fn a_crowd_is_spread_and_nothing_is_booked_twice() -> anyhow::Result<()> {
    const WHY: &str = "needs 1 pod × 1 cpu; 0 of 2 nodes fit: 2 lack cpu (need 1, most free 0 on n1)";
    let cluster = Cluster::start().await?;
    let running = cluster.control().await?;
    let kubelets = [kubelet::start(&cluster, "n1", json!({})).await?, kubelet::start(&cluster, "n2", json!({})).await?];
    for number in 0..10 {
        create(&cluster.api::<Pod>(), pod(&format!("p{number}"), asks("1", json!({})))).await?;
    }
    let eight = || async {
        let places = places(&cluster).await?;
        Ok((places.values().filter(|node| !node.is_empty()).count() == 8).then_some(places))
    };
    let (placed, _) = within("eight pods are placed", SOON, eight).await?;
    for node in ["n1", "n2"] {
        assert_eq!(placed.values().filter(|name| *name == node).count(), 4, "{node}");
    }
    let waiting = placed.iter().find(|(_, node)| node.is_empty()).expect("two wait").0.clone();
    let said = || async {
        let pod = cluster.api::<Pod>().get(&waiting).await?;
        let why = condition(&pod, "PodScheduled").and_then(|condition| condition.message.clone());
        Ok(why.filter(|why| why == WHY))
    };
    within("it is told why", SOON, said).await?;
    let events = || async {
        let events = cluster.events(&waiting).await?;
        Ok(events.contains(&format!("FailedScheduling {WHY}")).then_some(()))
    };
    within("an event says so too", SOON, events).await?;
    let leaves = placed.iter().find(|(_, node)| *node == "n1").expect("four are there").0;
    delete(&cluster.api::<Pod>(), leaves).await?;
    let nine = || async {
        let places = places(&cluster).await?;
        let placed = places.values().filter(|node| !node.is_empty()).count();
        Ok((placed == 8 && places.len() == 9).then_some(()))
    };
    within("one that waited takes the room", SOON, nine).await?;
    kubelets.iter().for_each(tokio::task::JoinHandle::abort);
    running.stop().await;
    cluster.stop().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_important_come_first_and_others_are_left_alone() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    create(&cluster.api::<Pod>(), pod("low", asks("4", json!({})))).await?;
    let class = json!({"priorityClassName": "system-node-critical"});
    create(&cluster.api::<Pod>(), pod("high", asks("4", class))).await?;
    create(&cluster.api::<Pod>(), pod("theirs", asks("0", json!({"schedulerName": "example"})))).await?;
    let gate = json!({"schedulingGates": [{"name": "example.com/wait"}]});
    create(&cluster.api::<Pod>(), pod("gated", asks("0", gate))).await?;
    let running = cluster.control().await?;
    let kubelet = kubelet::start(&cluster, "n1", json!({})).await?;
    let high = || async { Ok((places(&cluster).await?["high"] == "n1").then_some(())) };
    within("the important pod is placed", SOON, high).await?;
    tokio::time::sleep(SOON).await;
    let places = places(&cluster).await?;
    assert_eq!((&*places["low"], &*places["theirs"], &*places["gated"]), ("", "", ""));
    assert_eq!(cluster.all::<Node>().get("n1").await?.name_any(), "n1");
    kubelet.abort();
    running.stop().await;
    cluster.stop().await;
    Ok(())
}

/// A pod that asks for something at random.
fn some_pod(chance: &mut Chance, number: usize) -> Value {
    let cpu = ["0", "500m", "1", "2500m"][usize::try_from(chance.between(0, 3)).expect("small")];
    let mut spec = asks(cpu, json!({}));
    if chance.percent(30) {
        spec["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 8000 + chance.between(0, 1)}]);
    }
    if chance.percent(30) {
        spec["nodeSelector"] = json!({"topology.kubernetes.io/zone": chance.between(1, 2).to_string()});
    }
    pod(&format!("p{number}"), spec)
}

/// What must hold whenever anyone looks: nothing is given twice, and no pod is where it does not want to be.
async fn check(cluster: &Cluster) -> anyhow::Result<()> {
    let nodes = cluster.all::<Node>().list(&ListParams::default()).await?;
    let pods = cluster.api::<Pod>().list(&ListParams::default()).await?;
    for node in &nodes {
        let here: Vec<_> = pods.iter().filter(|pod| node_of(pod) == node.name_any()).collect();
        let specs = || here.iter().filter_map(|pod| pod.spec.as_ref());
        let cpu: i64 = specs().filter_map(|spec| requests(spec).get("cpu")).sum();
        assert!(cpu <= 4000, "{} gives {cpu} thousandths of its 4 processors", node.name_any());
        let ports: Vec<_> = specs().flat_map(host_ports).collect();
        for (index, port) in ports.iter().enumerate() {
            assert!(!ports[..index].iter().any(|other| other.clashes_with(port)), "{port:?} is given twice");
        }
        for pod in here {
            let mut wanted = pod.spec.iter().flat_map(|spec| spec.node_selector.iter().flatten());
            assert!(wanted.all(|(key, value)| node.labels().get(key) == Some(value)), "{}", pod.name_any());
        }
    }
    Ok(())
}

async fn story(seed: u64) -> anyhow::Result<()> {
    let mut chance = Chance::new(seed);
    let cluster = Cluster::start().await?;
    let mut running = cluster.control().await?;
    let mut kubelets = Vec::new();
    for (name, zone) in [("n1", "1"), ("n2", "1"), ("n3", "2")] {
        kubelets.push(kubelet::start(&cluster, name, json!({"zone": zone})).await?);
    }
    for number in 0..40 {
        match chance.between(0, 9) {
            0..=5 => drop(create(&cluster.api::<Pod>(), some_pod(&mut chance, number)).await?),
            6..=7 => {
                let places = places(&cluster).await?;
                let index = usize::try_from(chance.between(0, 100)).expect("small") % places.len().max(1);
                if let Some(name) = places.keys().nth(index) {
                    delete(&cluster.api::<Pod>(), name).await?;
                }
            }
            8 => {
                let cordon = json!({"spec": {"unschedulable": chance.percent(50)}});
                patch(&cluster.all::<Node>(), "n2", cordon).await?;
            }
            _ => {
                running.stop().await;
                running = cluster.control().await?;
            }
        }
        if chance.percent(60) {
            tokio::time::sleep(chance.time_up_to(Duration::from_secs(2))).await;
        }
        check(&cluster).await?;
    }
    tokio::time::sleep(SOON).await;
    check(&cluster).await?;
    kubelets.iter().for_each(tokio::task::JoinHandle::abort);
    running.stop().await;
    cluster.stop().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn nothing_is_ever_booked_twice() -> anyhow::Result<()> {
    story(1).await
}

#[tokio::test(start_paused = true)]
async fn nothing_is_ever_booked_twice_in_another_story() -> anyhow::Result<()> {
    story(2).await
}
