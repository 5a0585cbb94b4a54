//! Gangs are placed whole or not at all, and say why they wait.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::Duration,
};

use futures::{
    FutureExt as _,
    future::{pending, ready},
};
use http::Method;
use k8s_openapi::api::{
    core::v1::{Node, Pod},
    policy::v1::PodDisruptionBudget,
    scheduling::v1::PriorityClass,
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, PostParams},
};
use ronde_api::{HyperNode, PodGroup, PodGroupCondition, PodGroupConditionType as Kind, Queue};
use ronde_runtime::{
    pods::{condition, is_deleted},
    podstatus::node_of,
};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::{
    cluster::{Before, Cluster, create, delete, patch, patch_status, within},
    kubelet,
};

const SOON: Duration = Duration::from_secs(30);

/// Makes a group.
async fn group(cluster: &Cluster, name: &str, minimum: usize, more: Value) -> anyhow::Result<()> {
    let mut spec = json!({"minMember": minimum});
    spec.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    create(&cluster.api::<PodGroup>(), json!({"metadata": {"name": name}, "spec": spec})).await?;
    Ok(())
}

fn member(group: &str, index: usize) -> Value {
    let requests = json!({"requests": {"cpu": "1"}});
    json!({
        "metadata": {"name": format!("{group}-{index}"), "annotations": {"scheduling.k8s.io/group-name": group}},
        "spec": {"schedulerName": "volcano", "containers": [{"name": "c", "image": "x", "resources": requests}]},
    })
}

/// Makes a gang whose pods ask for one processor each.
async fn gang(cluster: &Cluster, name: &str, pods: usize, more: Value) -> anyhow::Result<()> {
    group(cluster, name, pods, more).await?;
    for index in 0..pods {
        create(&cluster.api::<Pod>(), member(name, index)).await?;
    }
    Ok(())
}

async fn remove(cluster: &Cluster, name: &str) -> anyhow::Result<()> {
    delete(&cluster.api::<PodGroup>(), name).await?;
    for pod in pods_of(cluster, name).await? {
        delete(&cluster.api::<Pod>(), &pod.name_any()).await?;
    }
    Ok(())
}

async fn pods_of(cluster: &Cluster, group: &str) -> anyhow::Result<Vec<Pod>> {
    let pods = cluster.api::<Pod>().list(&ListParams::default()).await?.items;
    let is_member = |pod: &Pod| pod.annotations().get("scheduling.k8s.io/group-name").is_some_and(|name| name == group);
    Ok(pods.into_iter().filter(is_member).collect())
}

async fn bound(cluster: &Cluster, group: &str) -> anyhow::Result<usize> {
    let pods = pods_of(cluster, group).await?;
    Ok(pods.iter().filter(|pod| !node_of(pod).is_empty() && !is_deleted(pod)).count())
}

async fn phase(cluster: &Cluster, group: &str) -> anyhow::Result<String> {
    let group = cluster.api::<PodGroup>().get(group).await?;
    Ok(group.phase().map(|phase| phase.to_string()).unwrap_or_default())
}

async fn wait_for_phase(cluster: &Cluster, group: &str, wanted: &str) -> anyhow::Result<()> {
    let look = || async { Ok((phase(cluster, group).await? == wanted).then_some(())) };
    let seen = within(&format!("{group} is {wanted}"), SOON, look).await;
    if seen.is_err() {
        let found = cluster.api::<PodGroup>().get(group).await?;
        anyhow::bail!("{group} is not {wanted}: {:?} {:?}", found.status, cluster.events(group).await?);
    }
    Ok(())
}

async fn unschedulable(cluster: &Cluster, group: &str) -> anyhow::Result<Option<PodGroupCondition>> {
    let status = cluster.api::<PodGroup>().get(group).await?.status.unwrap_or_default();
    let mut conditions = status.conditions.into_iter();
    Ok(conditions.find(|condition| condition.type_ == Kind::Unschedulable && condition.status == "True"))
}

/// Waits until a group says why it waits.
async fn reason(cluster: &Cluster, group: &str) -> anyhow::Result<(String, String)> {
    let look = || async { unschedulable(cluster, group).await };
    let (found, _) = within(&format!("{group} says why it waits"), SOON, look).await?;
    Ok((found.reason, found.message))
}

/// A cluster with nodes of so many processors, and everything that runs in it.
struct World {
    cluster: Cluster,
    nodes: Vec<JoinHandle<()>>,
}

impl World {
    async fn start(processors: &[&str]) -> anyhow::Result<Self> {
        let mut world = Self { cluster: Cluster::start().await?, nodes: Vec::new() };
        for (index, cpu) in processors.iter().enumerate() {
            world.add_node(&format!("n{}", index + 1), cpu).await?;
        }
        Ok(world)
    }

    async fn add_node(&mut self, name: &str, cpu: &str) -> anyhow::Result<()> {
        self.nodes.push(kubelet::start(&self.cluster, name, json!({"cpu": cpu})).await?);
        Ok(())
    }

    async fn end(self) {
        self.nodes.iter().for_each(JoinHandle::abort);
        self.cluster.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_gang_waits_for_room_for_all_and_says_so() -> anyhow::Result<()> {
    const WHY: &str = "needs 3 pods × 1 cpu; room for 2: 2 on n1";
    let mut world = World::start(&["2"]).await?;
    let running = world.cluster.control().await?;
    gang(&world.cluster, "three", 3, json!({})).await?;
    assert_eq!(reason(&world.cluster, "three").await?, ("NotEnoughResources".to_owned(), WHY.to_owned()));
    tokio::time::sleep(SOON).await;
    assert_eq!(
        (phase(&world.cluster, "three").await?, bound(&world.cluster, "three").await?),
        ("Inqueue".to_owned(), 0)
    );
    assert_eq!(world.cluster.events("three").await?, [format!("Unschedulable {WHY}")]);
    let pod = world.cluster.api::<Pod>().get("three-0").await?;
    let told = condition(&pod, "PodScheduled").expect("it says why it waits");
    assert_eq!((told.reason.as_deref(), told.message.as_deref()), (Some("Unschedulable"), Some(WHY)));
    assert_eq!(world.cluster.events("three-0").await?, [format!("FailedScheduling {WHY}")]);
    world.add_node("n2", "1").await?;
    wait_for_phase(&world.cluster, "three", "Running").await?;
    assert!(unschedulable(&world.cluster, "three").await?.is_none());
    assert!(world.cluster.events("three").await?.contains(&"Scheduled pod group is ready".to_owned()));
    let events = world.cluster.events("three-2").await?;
    assert!(events.iter().any(|event| event.starts_with("Scheduled Successfully assigned default/three-2 to n")));
    let counted = || async {
        let status = world.cluster.api::<PodGroup>().get("three").await?.status.unwrap_or_default();
        Ok((status.running == 3).then_some(()))
    };
    within("its pods are counted", SOON, counted).await?;
    running.stop().await;
    world.end().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn two_gangs_never_have_half_of_the_cluster_each() -> anyhow::Result<()> {
    let world = World::start(&["2", "2"]).await?;
    let running = world.cluster.control().await?;
    // Their pods come in turns, as from two controllers.
    for name in ["a", "b"] {
        group(&world.cluster, name, 3, json!({})).await?;
    }
    for index in 0..3 {
        for name in ["a", "b"] {
            create(&world.cluster.api::<Pod>(), member(name, index)).await?;
        }
    }
    let whole = || async {
        let counts = (bound(&world.cluster, "a").await?, bound(&world.cluster, "b").await?);
        Ok(matches!(counts, (3, 0) | (0, 3)).then_some(if counts.0 == 3 { ("a", "b") } else { ("b", "a") }))
    };
    let ((first, second), _) = within("one of them is placed", SOON, whole).await?;
    tokio::time::sleep(SOON).await;
    assert_eq!((phase(&world.cluster, first).await?, bound(&world.cluster, second).await?), ("Running".to_owned(), 0));
    remove(&world.cluster, first).await?;
    wait_for_phase(&world.cluster, second, "Running").await?;
    running.stop().await;
    world.end().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_more_important_gang_takes_the_room_of_the_other() -> anyhow::Result<()> {
    let world = World::start(&["2", "2"]).await?;
    let running = world.cluster.control().await?;
    let class = json!({"metadata": {"name": "high"}, "value": 1000});
    create(&world.cluster.all::<PriorityClass>(), class).await?;
    gang(&world.cluster, "low", 4, json!({})).await?;
    wait_for_phase(&world.cluster, "low", "Running").await?;
    gang(&world.cluster, "high", 2, json!({"priorityClassName": "high"})).await?;
    wait_for_phase(&world.cluster, "high", "Running").await?;
    assert_eq!(bound(&world.cluster, "low").await?, 0, "half a gang is of no use to anybody");
    assert_eq!(
        world.cluster.events("low-0").await?.last().map(String::as_str),
        Some("Evict preempted by high (priority high)")
    );
    running.stop().await;
    world.end().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn who_may_not_be_disrupted_is_spared() -> anyhow::Result<()> {
    let world = World::start(&["2"]).await?;
    let running = world.cluster.control().await?;
    create(&world.cluster.all::<PriorityClass>(), json!({"metadata": {"name": "high"}, "value": 1000})).await?;
    for name in ["old", "young"] {
        gang(&world.cluster, name, 1, json!({})).await?;
        wait_for_phase(&world.cluster, name, "Running").await?;
        // The younger one would go: it has to be the younger one by the clock of the objects.
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    patch(&world.cluster.api::<Pod>(), "young-0", json!({"metadata": {"labels": {"app": "young"}}})).await?;
    let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "young"}}});
    let budgets = world.cluster.api::<PodDisruptionBudget>();
    create(&budgets, json!({"metadata": {"name": "b"}, "spec": spec})).await?;
    let counted = || async { Ok(budgets.get("b").await?.status.filter(|status| status.expected_pods == 1)) };
    within("the budget is counted", SOON, counted).await?;
    gang(&world.cluster, "high", 1, json!({"priorityClassName": "high"})).await?;
    wait_for_phase(&world.cluster, "high", "Running").await?;
    assert_eq!((bound(&world.cluster, "young").await?, bound(&world.cluster, "old").await?), (1, 0));
    running.stop().await;
    world.end().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_queue_goes_to_its_group_of_nodes() -> anyhow::Result<()> {
    let world = World::start(&["4", "4"]).await?;
    let running = world.cluster.control().await?;
    let label = json!({"metadata": {"labels": {"volcano.sh/nodegroup-name": "gpu"}}});
    patch(&world.cluster.all::<Node>(), "n2", label).await?;
    let queues: Api<Queue> = world.cluster.all();
    let to = |group: &str| {
        let wanted = json!({"requiredDuringSchedulingIgnoredDuringExecution": [group]});
        json!({"weight": 1, "affinity": {"nodeGroupAffinity": wanted}})
    };
    create(&queues, json!({"metadata": {"name": "team"}, "spec": to("gpu")})).await?;
    create(&queues, json!({"metadata": {"name": "part"}, "spec": {"weight": 1, "parent": "team"}})).await?;
    gang(&world.cluster, "two", 2, json!({"queue": "part"})).await?;
    assert_eq!(nodes_when_running(&world.cluster, "two").await?, ["n2"], "its parent says where");
    patch(&queues, "team", json!({"spec": to("none")})).await?;
    gang(&world.cluster, "one", 1, json!({"queue": "part"})).await?;
    let (reason, _) = reason(&world.cluster, "one").await?;
    assert_eq!(reason, "NoNodeMatches");
    patch(&queues, "team", json!({"spec": {"affinity": null}})).await?;
    wait_for_phase(&world.cluster, "one", "Running").await?;
    running.stop().await;
    world.end().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_gang_stays_within_one_part_of_the_network() -> anyhow::Result<()> {
    let mut world = World::start(&["2", "2", "2"]).await?;
    let running = world.cluster.control().await?;
    let part = |name: &str, nodes: &[&str]| {
        let member = |node: &&str| json!({"type": "Node", "selector": {"exactMatch": {"name": node}}});
        let members: Vec<Value> = nodes.iter().map(member).collect();
        json!({"metadata": {"name": name}, "spec": {"tier": 1, "members": members}})
    };
    create(&world.cluster.all::<HyperNode>(), part("left", &["n1", "n2"])).await?;
    create(&world.cluster.all::<HyperNode>(), part("right", &["n3", "n4"])).await?;
    gang(&world.cluster, "small", 1, json!({})).await?;
    wait_for_phase(&world.cluster, "small", "Running").await?;
    let close = json!({"networkTopology": {"mode": "hard", "highestTierAllowed": 1}});
    gang(&world.cluster, "four", 4, close).await?;
    let (why, sentence) = reason(&world.cluster, "four").await?;
    assert_eq!(why, "TopologyNotSatisfied", "{sentence}");
    assert!(sentence.starts_with("needs 4 pods × 1 cpu within one part of the network up to tier 1; `"), "{sentence}");
    world.add_node("n4", "2").await?;
    let placed = nodes_when_running(&world.cluster, "four").await?;
    assert!(placed == ["n1", "n2"] || placed == ["n3", "n4"], "{placed:?}");
    running.stop().await;
    world.end().await;
    Ok(())
}

/// Waits until a gang runs; returns its nodes.
async fn nodes_when_running(cluster: &Cluster, group: &str) -> anyhow::Result<Vec<String>> {
    wait_for_phase(cluster, group, "Running").await?;
    let mut nodes: Vec<String> = pods_of(cluster, group).await?.iter().map(|pod| node_of(pod).to_owned()).collect();
    nodes.sort();
    nodes.dedup();
    Ok(nodes)
}

#[tokio::test(start_paused = true)]
async fn a_queue_keeps_to_its_limit() -> anyhow::Result<()> {
    let world = World::start(&["8"]).await?;
    let running = world.cluster.control().await?;
    let queues: Api<Queue> = world.cluster.all();
    create(&queues, json!({"metadata": {"name": "small"}, "spec": {"weight": 1, "capability": {"cpu": "2"}}})).await?;
    gang(&world.cluster, "two", 2, json!({"queue": "small"})).await?;
    wait_for_phase(&world.cluster, "two", "Running").await?;
    let used = || async {
        let status = queues.get("small").await?.status.unwrap_or_default();
        Ok(status.allocated.filter(|amounts| amounts.get("cpu").is_some_and(|cpu| cpu.0 == "2")))
    };
    within("the queue says what it uses", SOON, used).await?;
    gang(&world.cluster, "one", 1, json!({"queue": "small"})).await?;
    let why = "needs 1 cpu; queue `small` is at its limit of 2";
    assert_eq!(reason(&world.cluster, "one").await?, ("QueueLimit".to_owned(), why.to_owned()));
    // An autoscaler adds nodes for the reason `Unschedulable` only.
    let told = || async {
        let pod = world.cluster.api::<Pod>().get("one-0").await?;
        Ok(condition(&pod, "PodScheduled").and_then(|told| told.reason.clone()))
    };
    assert_eq!(within("the pod says why", SOON, told).await?.0, "QueueLimit");
    patch(&queues, "small", json!({"spec": {"capability": {"cpu": "3"}}})).await?;
    wait_for_phase(&world.cluster, "one", "Running").await?;
    patch_status(&queues, "small", json!({"state": "Closed"})).await?;
    gang(&world.cluster, "late", 1, json!({"queue": "default"})).await?;
    wait_for_phase(&world.cluster, "late", "Running").await?;
    running.stop().await;
    world.end().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_queue_runs_so_many_jobs_and_no_more() -> anyhow::Result<()> {
    let world = World::start(&["8"]).await?;
    let running = world.cluster.control().await?;
    let queues: Api<Queue> = world.cluster.all();
    create(&queues, json!({"metadata": {"name": "few"}, "spec": {"weight": 1, "maxRunningJobs": 1}})).await?;
    gang(&world.cluster, "two", 2, json!({"queue": "few"})).await?;
    wait_for_phase(&world.cluster, "two", "Running").await?;
    gang(&world.cluster, "one", 1, json!({"queue": "few"})).await?;
    let limit = ("QueueLimit".to_owned(), "queue `few` is at its limit of 1 running job".to_owned());
    assert_eq!(reason(&world.cluster, "one").await?, limit);
    running.stop().await;
    let running = world.cluster.control().await?;
    gang(&world.cluster, "free", 1, json!({})).await?;
    wait_for_phase(&world.cluster, "free", "Running").await?;
    assert_eq!((bound(&world.cluster, "one").await?, reason(&world.cluster, "one").await?), (0, limit));
    remove(&world.cluster, "two").await?;
    wait_for_phase(&world.cluster, "one", "Running").await?;
    let refused = create(&queues, json!({"metadata": {"name": "none"}, "spec": {"maxRunningJobs": 0}})).await;
    assert!(refused.is_err_and(|error| error.to_string().contains("spec.maxRunningJobs")), "none is refused");
    running.stop().await;
    world.end().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_group_without_pods_is_let_in_first() -> anyhow::Result<()> {
    let world = World::start(&["2"]).await?;
    let running = world.cluster.control().await?;
    let asks = json!({"minResources": {"cpu": "2", "pods": "2", "count/pods": "2", "requests.cpu": "2"}});
    group(&world.cluster, "later", 2, asks).await?;
    wait_for_phase(&world.cluster, "later", "Inqueue").await?;
    for index in 0..2 {
        create(&world.cluster.api::<Pod>(), member("later", index)).await?;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    wait_for_phase(&world.cluster, "later", "Running").await?;
    let events = world.cluster.events("later").await?;
    assert_eq!(events, ["Scheduled pod group is ready"], "pods that are being made are not missed");
    running.stop().await;
    world.end().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn pods_without_a_group_get_one_and_a_name_that_is_none_is_told() -> anyhow::Result<()> {
    let world = World::start(&["2"]).await?;
    let running = world.cluster.control().await?;
    let mut plain = member("none", 0);
    plain["metadata"]["annotations"] = json!({});
    create(&world.cluster.api::<Pod>(), plain).await?;
    create(&world.cluster.api::<Pod>(), member("missing", 0)).await?;
    let placed = || async { Ok((node_of(&world.cluster.api::<Pod>().get("none-0").await?) == "n1").then_some(())) };
    within("the plain pod is placed", SOON, placed).await?;
    let told = || async {
        let pod = world.cluster.api::<Pod>().get("missing-0").await?;
        Ok(condition(&pod, "PodScheduled").and_then(|told| told.message.clone()))
    };
    let (why, _) = within("the other one says what it lacks", SOON, told).await?;
    assert_eq!(why, "pod group `missing` does not exist");
    running.stop().await;
    world.end().await;
    Ok(())
}

/// Lets so many writes to pods and groups through and no write after them, as if the process were killed there.
fn fuse(writes: i64) -> (Before, Arc<AtomicI64>) {
    let left = Arc::new(AtomicI64::new(writes));
    let counter = left.clone();
    let before: Before = Arc::new(move |method, path| {
        let is_write = method != Method::GET;
        let is_counted = is_write && (path.contains("/pods/") || path.contains("/podgroups/"));
        let is_last = is_counted && counter.fetch_sub(1, Ordering::Relaxed) <= 0;
        let is_dead = is_last || counter.load(Ordering::Relaxed) < 0;
        if is_write && is_dead { pending().boxed() } else { ready(()).boxed() }
    });
    (before, left)
}

#[tokio::test(start_paused = true)]
async fn a_scheduler_that_is_killed_at_any_write_goes_on_where_it_was() -> anyhow::Result<()> {
    let world = World::start(&["2", "2"]).await?;
    let class = json!({"metadata": {"name": "high"}, "value": 1000});
    create(&world.cluster.all::<PriorityClass>(), class).await?;
    world.cluster.control().await?.stop().await;
    let mut writes = 0;
    loop {
        let (before, left) = fuse(writes);
        let running = world.cluster.control_with(before).await?;
        gang(&world.cluster, "low", 3, json!({})).await?;
        tokio::time::sleep(Duration::from_secs(2)).await;
        gang(&world.cluster, "high", 4, json!({"priorityClassName": "high"})).await?;
        tokio::time::sleep(Duration::from_secs(4)).await;
        let is_through = left.load(Ordering::Relaxed) >= 0;
        running.kill();
        let running = world.cluster.control().await?;
        wait_for_phase(&world.cluster, "high", "Running").await?;
        assert_eq!(bound(&world.cluster, "low").await?, 0, "after {writes} writes");
        for name in ["low", "high"] {
            remove(&world.cluster, name).await?;
        }
        let gone = || async {
            Ok(world.cluster.api::<Pod>().list(&ListParams::default()).await?.items.is_empty().then_some(()))
        };
        within("the pods are gone", SOON, gone).await?;
        running.stop().await;
        if is_through {
            break;
        }
        writes += 1;
    }
    assert!(writes > 15, "the story has more than {writes} writes");
    world.end().await;
    Ok(())
}

/// Deletes a pod, or lets somebody else bind it, just before our first bind of it arrives.
fn meddle(cluster: &Cluster, pod: &'static str, deed: Deed) -> Before {
    let pods = cluster.api::<Pod>();
    let is_done = Arc::new(AtomicBool::new(false));
    Arc::new(move |_, path| {
        if !path.ends_with(&format!("/{pod}/binding")) || is_done.swap(true, Ordering::Relaxed) {
            return ready(()).boxed();
        }
        let pods = pods.clone();
        async move { deed.carry_out(&pods, pod).await.expect("the meddler is let through") }.boxed()
    })
}

#[derive(Debug, Clone, Copy)]
enum Deed {
    Delete,
    BindElsewhere,
}

impl Deed {
    async fn carry_out(self, pods: &Api<Pod>, pod: &str) -> Result<(), kube::Error> {
        match self {
            Self::Delete => pods.delete(pod, &DeleteParams::default().grace_period(0)).await.map(drop),
            Self::BindElsewhere => {
                let target = json!({"apiVersion": "v1", "kind": "Node", "name": "n2"});
                let binding =
                    json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target});
                let params = PostParams::default();
                pods.create_subresource::<_, Value>("binding", pod, &params, &binding).await.map(drop)
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_gone_when_it_is_bound_is_waited_for() -> anyhow::Result<()> {
    let world = World::start(&["3"]).await?;
    let running = world.cluster.control_with(meddle(&world.cluster, "g-1", Deed::Delete)).await?;
    gang(&world.cluster, "g", 3, json!({})).await?;
    assert_eq!(reason(&world.cluster, "g").await?, ("NotEnoughPods".to_owned(), "2 of 3 pods exist".to_owned()));
    create(&world.cluster.api::<Pod>(), member("g", 1)).await?;
    wait_for_phase(&world.cluster, "g", "Running").await?;
    assert_eq!(bound(&world.cluster, "g").await?, 3);
    running.stop().await;
    world.end().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_somebody_else_binds_is_where_it_is() -> anyhow::Result<()> {
    let world = World::start(&["3"]).await?;
    let meddler = meddle(&world.cluster, "g-1", Deed::BindElsewhere);
    let running = world.cluster.control_with(meddler).await?;
    gang(&world.cluster, "g", 3, json!({})).await?;
    wait_for_phase(&world.cluster, "g", "Running").await?;
    let pods = pods_of(&world.cluster, "g").await?;
    let places: BTreeMap<_, _> = pods.iter().map(|pod| (pod.name_any(), node_of(pod).to_owned())).collect();
    assert_eq!((&*places["g-0"], &*places["g-1"], &*places["g-2"]), ("n1", "n2", "n1"));
    running.stop().await;
    world.end().await;
    Ok(())
}
