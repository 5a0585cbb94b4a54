//! Training jobs on the whole machine: the real scheduler, nodes with so much room, agents that leave when they are asked to.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use futures::{
    FutureExt as _,
    future::{pending, ready},
};
use http::Method;
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        core::v1::{ConfigMap, Namespace, Node, Pod, Secret, Service, ServiceAccount},
        rbac::v1::{Role, RoleBinding},
        scheduling::v1::PriorityClass,
    },
};
use kube::{
    Api, Resource, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use ronde_api::{PodGroup, Queue, ScaleIn, ScaleOut, TrainingJob, TrainingJobPhase as Phase, TrainingJobStatus};
use ronde_runtime::{pods::phase, watch::Cached};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::{
    cluster::{Before, Cluster, create, delete, names, patch, within},
    kubelet,
};

const SOON: Duration = Duration::from_secs(30);
const LATER: Duration = Duration::from_secs(300);

/// A cluster with nodes of so many processors, and agents in the pods.
struct World {
    cluster: Cluster,
    tasks: Vec<JoinHandle<()>>,
}

impl World {
    async fn start(processors: &[&str]) -> anyhow::Result<Self> {
        let cluster = Cluster::start().await?;
        let agents = agents(&cluster);
        let mut world = Self { cluster, tasks: vec![agents] };
        for (index, cpu) in processors.iter().enumerate() {
            world.add_node(&format!("n{}", index + 1), cpu).await?;
        }
        Ok(world)
    }

    async fn add_node(&mut self, name: &str, cpu: &str) -> anyhow::Result<()> {
        self.tasks.push(kubelet::start(&self.cluster, name, json!({"cpu": cpu})).await?);
        Ok(())
    }

    fn api<K: Cached + Resource<Scope = NamespaceResourceScope>>(&self, namespace: &str) -> Api<K> {
        Api::namespaced(self.cluster.client.clone(), namespace)
    }

    async fn submit(&self, namespace: &str, worker: Value) -> anyhow::Result<()> {
        create(&self.api::<TrainingJob>(namespace), job(worker)).await?;
        Ok(())
    }

    async fn status(&self, namespace: &str) -> anyhow::Result<TrainingJobStatus> {
        Ok(self.api::<TrainingJob>(namespace).get("lm").await?.status.unwrap_or_default())
    }

    /// Waits until a job is in a phase with so many hosts, in the status and in the file.
    async fn has(&self, namespace: &str, wanted: Phase, hosts: &[u32]) -> anyhow::Result<()> {
        let expected: Vec<String> = hosts.iter().map(|index| format!("lm-worker-{index}")).collect();
        let file: String = expected.iter().map(|host| format!("{host}:1\n")).collect();
        let look = || async {
            let status = self.status(namespace).await?;
            let config = self.api::<ConfigMap>(namespace).get_opt("lm-config").await?;
            let listed = config.and_then(|config| config.data?.remove("hostfile")).unwrap_or_default();
            let is_so = status.phase == Some(wanted) && status.current_workers == expected && listed == file;
            Ok(is_so.then_some(()))
        };
        let seen = within(&format!("{namespace}/lm is {wanted} with {hosts:?}"), LATER, look).await;
        if let Err(error) = seen {
            anyhow::bail!("{error}: {:#?}", self.status(namespace).await?);
        }
        Ok(())
    }

    /// Waits until the spec of a job says so many workers.
    async fn asks_for(&self, namespace: &str, replicas: i32) -> anyhow::Result<()> {
        let look = || async {
            let job = self.api::<TrainingJob>(namespace).get("lm").await?;
            Ok((job.spec.worker().replicas() == replicas).then_some(()))
        };
        within(&format!("{namespace}/lm asks for {replicas} workers"), SOON, look).await?;
        Ok(())
    }

    async fn more(&self, namespace: &str, name: &str, count: i32) -> anyhow::Result<()> {
        let spec = json!({"selector": {"name": "lm"}, "toAdd": {"count": count}, "timeout": 60});
        create(&self.api::<ScaleOut>(namespace), json!({"metadata": {"name": name}, "spec": spec})).await?;
        Ok(())
    }

    async fn less(&self, namespace: &str, name: &str, count: i32) -> anyhow::Result<()> {
        let spec = json!({"selector": {"name": "lm"}, "toDelete": {"count": count}, "timeout": 60});
        create(&self.api::<ScaleIn>(namespace), json!({"metadata": {"name": name}, "spec": spec})).await?;
        Ok(())
    }

    async fn end(self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        self.cluster.stop().await;
    }
}

fn job(worker: Value) -> Value {
    let template = |command: Value| {
        let requests = json!({"requests": {"cpu": "1"}});
        json!({"spec": {"containers": [{"name": "et", "image": "x", "command": command, "resources": requests}]}})
    };
    let mut workers = json!({"template": template(json!([]))});
    if let Value::Object(worker) = worker {
        worker.into_iter().for_each(|(key, value)| workers[key] = value);
    }
    let launcher = json!({"template": template(json!(["train"]))});
    json!({"metadata": {"name": "lm"}, "spec": {"etReplicaSpecs": {"launcher": launcher, "worker": workers}}})
}

/// Stands in for the agents: a worker that was a host and is none any more ends well.
fn agents(cluster: &Cluster) -> JoinHandle<()> {
    let client = cluster.client.clone();
    tokio::spawn(async move {
        let mut hosted: BTreeMap<String, String> = BTreeMap::new();
        loop {
            drop(let_go(&client, &mut hosted).await);
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    })
}

async fn let_go(client: &kube::Client, hosted: &mut BTreeMap<String, String>) -> Result<(), kube::Error> {
    let maps = Api::<ConfigMap>::all(client.clone()).list(&ListParams::default()).await?;
    let mut hosts = BTreeSet::new();
    for map in &maps {
        let file = map.data.as_ref().and_then(|data| data.get("hostfile")).map(String::as_str).unwrap_or_default();
        let namespace = map.namespace().unwrap_or_default();
        hosts.extend(file.lines().filter_map(|line| Some(format!("{namespace}/{}", line.split(':').next()?))));
    }
    for pod in Api::<Pod>::all(client.clone()).list(&ListParams::default()).await? {
        let (namespace, name, uid) =
            (pod.namespace().unwrap_or_default(), pod.name_any(), pod.uid().unwrap_or_default());
        let host = format!("{namespace}/{name}");
        if hosts.contains(&host) {
            hosted.insert(host, uid);
        } else if hosted.get(&host) == Some(&uid) && phase(&pod) == "Running" {
            let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
            let ended = json!({"status": {"phase": "Succeeded"}});
            pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(ended)).await?;
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_job_starts_with_what_fits_grows_and_shrinks() -> anyhow::Result<()> {
    let mut world = World::start(&["3"]).await?;
    let running = world.cluster.control().await?;
    world.submit("default", json!({"replicas": 3, "minReplicas": 1, "maxReplicas": 9})).await?;
    world.has("default", Phase::Running, &[0, 1]).await?;
    world.add_node("n2", "3").await?;
    world.has("default", Phase::Running, &[0, 1, 2]).await?;
    world.more("default", "more", 2).await?;
    world.has("default", Phase::Running, &[0, 1, 2, 3, 4]).await?;
    world.more("default", "too-many", 1).await?;
    let failed = || async {
        let status = world.api::<ScaleOut>("default").get("too-many").await?.status.unwrap_or_default();
        Ok((status.phase == "ScaleFailed").then_some(status))
    };
    let (status, took) = within("it is given up", LATER, failed).await?;
    assert!(took >= Duration::from_secs(59), "after its timeout: {took:?}");
    let why = &status.conditions.last().expect("a condition").message;
    assert!(why.contains("execution timeout") && why.contains("lm-worker-5"), "{why}");
    world.has("default", Phase::Running, &[0, 1, 2, 3, 4]).await?;
    world.less("default", "less", 2).await?;
    world.has("default", Phase::Running, &[0, 1, 2]).await?;
    let pods = names(&world.cluster.api::<Pod>()).await?;
    assert_eq!(pods, ["lm-launcher", "lm-worker-0", "lm-worker-1", "lm-worker-2"]);
    assert_eq!(names(&world.cluster.api::<Service>()).await?.iter().filter(|name| name.contains("worker")).count(), 3);
    running.stop().await;
    world.end().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_job_is_scaled_by_its_number_of_replicas() -> anyhow::Result<()> {
    let world = World::start(&["20"]).await?;
    let running = world.cluster.control().await?;
    world.submit("default", json!({"replicas": 2, "minReplicas": 1, "maxReplicas": 4})).await?;
    world.has("default", Phase::Running, &[0, 1]).await?;
    let jobs = world.api::<TrainingJob>("default");
    let (merge, to) = (PatchParams::default(), |replicas: i32| Patch::Merge(json!({"spec": {"replicas": replicas}})));
    jobs.patch_scale("lm", &merge, &to(4)).await?;
    world.has("default", Phase::Running, &[0, 1, 2, 3]).await?;
    let mut scale = jobs.get_scale("lm").await?;
    let status = scale.status.clone().unwrap_or_default();
    assert_eq!(status.replicas, 4);
    let selected = ListParams::default().labels(&status.selector.unwrap_or_default());
    assert_eq!(world.cluster.api::<Pod>().list(&selected).await?.items.len(), 4, "its workers and nothing else");
    // As an autoscaler does it: what was read, with another number.
    scale.spec.get_or_insert_default().replicas = Some(2);
    jobs.replace_scale("lm", &PostParams::default(), &scale).await?;
    world.has("default", Phase::Running, &[0, 1]).await?;
    for (replicas, bound) in [(5, "maxReplicas"), (0, "replicas")] {
        let refused = jobs.patch_scale("lm", &merge, &to(replicas)).await;
        let Err(kube::Error::Api(refusal)) = refused else { anyhow::bail!("{replicas} is not refused: {refused:?}") };
        assert!(refusal.code == 422 && refusal.message.contains(bound), "{refusal:?}");
    }
    world.more("default", "more", 1).await?;
    world.asks_for("default", 3).await?;
    assert_eq!(world.status("default").await?.replicas, 3);
    running.stop().await;
    world.end().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn two_jobs_of_one_name_never_touch_each_other() -> anyhow::Result<()> {
    let world = World::start(&["20"]).await?;
    let running = world.cluster.control().await?;
    create(&world.cluster.all::<Namespace>(), json!({"metadata": {"name": "other"}})).await?;
    for namespace in ["default", "other"] {
        world.submit(namespace, json!({"replicas": 2, "minReplicas": 1})).await?;
        world.has(namespace, Phase::Running, &[0, 1]).await?;
    }
    let uids = async || -> anyhow::Result<Vec<Option<String>>> {
        Ok(world.api::<Pod>("other").list(&ListParams::default()).await?.iter().map(Pod::uid).collect())
    };
    let (before, status) = (uids().await?, world.status("other").await?);
    world.more("default", "more", 1).await?;
    world.has("default", Phase::Running, &[0, 1, 2]).await?;
    world.less("default", "less", 2).await?;
    world.has("default", Phase::Running, &[0]).await?;
    world.api::<TrainingJob>("default").delete("lm", &DeleteParams::background()).await?;
    let gone = || async { Ok(is_empty(&world, "default").await?.then_some(())) };
    within("everything is gone", SOON, gone).await?;
    assert_eq!((uids().await?, world.status("other").await?), (before, status));
    running.stop().await;
    world.end().await;
    Ok(())
}

/// Tells whether nothing is left that a job made.
async fn is_empty(world: &World, namespace: &str) -> anyhow::Result<bool> {
    async fn left<K: Cached + Resource<Scope = NamespaceResourceScope>>(
        world: &World,
        namespace: &str,
    ) -> anyhow::Result<bool> {
        Ok(names(&world.api::<K>(namespace)).await?.iter().any(|name| name == "lm" || name.starts_with("lm-")))
    }
    let objects = left::<Pod>(world, namespace).await? || left::<Service>(world, namespace).await?;
    let objects = objects || left::<ConfigMap>(world, namespace).await? || left::<Secret>(world, namespace).await?;
    let rights = left::<ServiceAccount>(world, namespace).await? || left::<Role>(world, namespace).await?;
    let rights = rights || left::<RoleBinding>(world, namespace).await?;
    let ours = left::<PodGroup>(world, namespace).await?;
    let scalers = !names(&world.api::<ScaleOut>(namespace)).await?.is_empty();
    Ok(!(objects || rights || ours || scalers))
}

#[tokio::test(start_paused = true)]
async fn who_asks_for_a_job_that_is_not_there_is_told() -> anyhow::Result<()> {
    let world = World::start(&[]).await?;
    let running = world.cluster.control().await?;
    world.more("default", "more", 1).await?;
    let look = || async {
        let status = world.api::<ScaleOut>("default").get("more").await?.status.unwrap_or_default();
        Ok(status.conditions.last().map(|last| (last.type_.clone(), last.reason.clone(), last.message.clone())))
    };
    let (told, _) = within("it is told", SOON, look).await?;
    let why = "there is no TrainingJob lm in this namespace";
    assert_eq!(told, ("ScaleFailed".to_owned(), "JobNotFound".to_owned(), why.to_owned()));
    running.stop().await;
    world.end().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn surplus_workers_make_room_for_what_is_more_important() -> anyhow::Result<()> {
    let world = World::start(&["4"]).await?;
    let running = world.cluster.control().await?;
    create(&world.cluster.all::<PriorityClass>(), json!({"metadata": {"name": "high"}, "value": 1000})).await?;
    world.submit("default", json!({"replicas": 3, "minReplicas": 1})).await?;
    world.has("default", Phase::Running, &[0, 1, 2]).await?;
    let spec = json!({"minMember": 2, "priorityClassName": "high"});
    create(&world.cluster.api::<PodGroup>(), json!({"metadata": {"name": "high"}, "spec": spec})).await?;
    for index in 0..2 {
        let container = json!({"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}});
        let pod = json!({
            "metadata": {"name": format!("high-{index}"), "annotations": {"scheduling.k8s.io/group-name": "high"}},
            "spec": {"schedulerName": "volcano", "priorityClassName": "high", "containers": [container]},
        });
        create(&world.cluster.api::<Pod>(), pod).await?;
    }
    world.has("default", Phase::Running, &[0]).await?;
    let runs = || async { Ok((phase(&world.cluster.api::<Pod>().get("high-1").await?) == "Running").then_some(())) };
    within("the important ones run", SOON, runs).await?;
    for index in 0..2 {
        delete(&world.cluster.api::<Pod>(), &format!("high-{index}")).await?;
    }
    delete(&world.cluster.api::<PodGroup>(), "high").await?;
    world.has("default", Phase::Running, &[0, 3, 4]).await?;
    let status = world.status("default").await?;
    assert!(
        status.sizes.iter().any(|size| size.message.contains("preempted by high (priority high)")),
        "{:?}",
        status.sizes
    );
    running.stop().await;
    world.end().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn workers_move_off_a_node_that_is_about_to_go() -> anyhow::Result<()> {
    let world = World::start(&["2", "2", "2"]).await?;
    let running = world.cluster.control().await?;
    world.submit("default", json!({"replicas": 3, "minReplicas": 1})).await?;
    world.has("default", Phase::Running, &[0, 1, 2]).await?;
    let pods = world.cluster.api::<Pod>();
    let launcher = pods.get("lm-launcher").await?.spec.and_then(|spec| spec.node_name).unwrap_or_default();
    let mut node = String::new();
    for index in 0..3 {
        let on =
            pods.get(&format!("lm-worker-{index}")).await?.spec.and_then(|spec| spec.node_name).unwrap_or_default();
        if on != launcher {
            node = on;
        }
    }
    let notice = json!([{"key": "aws-node-termination-handler/spot-itn", "effect": "NoSchedule"}]);
    patch(&world.cluster.all::<Node>(), &node, json!({"spec": {"taints": notice}})).await?;
    let moved = || async {
        let status = world.status("default").await?;
        let all = pods.list(&ListParams::default()).await?.items;
        let is_off = !all.iter().any(|pod| pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(&node));
        Ok((is_off && status.current_workers.len() == 3).then_some(status))
    };
    let (status, _) = within("no pod is on the node", LATER, moved).await?;
    assert!(status.sizes.iter().any(|size| size.reason == "NodeVanishing"), "{:?}", status.sizes);
    running.stop().await;
    world.end().await;
    Ok(())
}

/// Returns a node with a worker and without the launcher.
async fn node_of_workers(world: &World) -> anyhow::Result<String> {
    let pods = world.cluster.api::<Pod>().list(&ListParams::default()).await?.items;
    let on = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
    let launcher = pods.iter().find(|pod| pod.name_any() == "lm-launcher").map(on);
    let mut nodes = pods.iter().filter(|pod| pod.name_any().contains("worker")).map(on);
    nodes.find(|node| Some(node) != launcher.as_ref()).ok_or_else(|| anyhow::anyhow!("all are with the launcher"))
}

#[tokio::test(start_paused = true)]
async fn nobody_comes_to_a_node_that_goes_by_a_condition_or_a_taint_that_is_tolerated() -> anyhow::Result<()> {
    let condition = json!({"status": {"conditions": [{"type": "SpotTermination", "status": "True"}]}});
    let taint = json!({"spec": {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}});
    for notice in [condition, taint] {
        let world = World::start(&["2", "2", "2"]).await?;
        let running = world.cluster.control().await?;
        let mut tolerant = job(json!({"replicas": 3, "minReplicas": 1}));
        let template = &mut tolerant["spec"]["etReplicaSpecs"]["worker"]["template"];
        template["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
        create(&world.cluster.api::<TrainingJob>(), tolerant).await?;
        world.has("default", Phase::Running, &[0, 1, 2]).await?;
        let node = node_of_workers(&world).await?;
        let nodes = world.cluster.all::<Node>();
        let (parameters, patch) = (PatchParams::default(), Patch::Strategic(&notice));
        if notice.get("status").is_some() {
            nodes.patch_status(&node, &parameters, &patch).await?;
        } else {
            nodes.patch(&node, &parameters, &patch).await?;
        }
        let is_on = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(&node);
        let moved = || async {
            let status = world.status("default").await?;
            let all = world.cluster.api::<Pod>().list(&ListParams::default()).await?.items;
            Ok((!all.iter().any(is_on) && status.current_workers.len() == 3).then_some(status))
        };
        let (status, _) = within("no pod is on the node", LATER, moved).await?;
        assert!(status.elastic.next_index <= 5, "each is replaced once: {:?}", status.elastic);
        assert!(status.sizes.iter().any(|size| size.reason == "NodeVanishing"), "{:?}", status.sizes);
        // Without another node they wait, and are not made again and again.
        for name in ["n1", "n2", "n3"] {
            let gone = json!({"status": {"conditions": [{"type": "Vanishing", "status": "True"}]}});
            nodes.patch_status(name, &parameters, &Patch::Strategic(gone)).await?;
        }
        let is_short = || async { Ok((world.status("default").await?.phase == Some(Phase::Waiting)).then_some(())) };
        within("it waits", LATER, is_short).await?;
        tokio::time::sleep(Duration::from_secs(120)).await;
        let status = world.status("default").await?;
        assert!(status.elastic.next_index <= 8, "made at the speed of the API: {:?}", status.elastic);
        running.stop().await;
        world.end().await;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_queue_takes_back_what_is_its_own_from_surplus_workers() -> anyhow::Result<()> {
    let world = World::start(&["6"]).await?;
    let running = world.cluster.control().await?;
    for name in ["ours", "theirs"] {
        let queue = json!({"metadata": {"name": name}, "spec": {"weight": 1, "deserved": {"cpu": "3"}}});
        create(&world.cluster.all::<Queue>(), queue).await?;
    }
    let mut ours = job(json!({"replicas": 5, "minReplicas": 1}));
    ours["metadata"]["annotations"] = json!({"scheduling.volcano.sh/queue-name": "ours"});
    create(&world.cluster.api::<TrainingJob>(), ours).await?;
    world.has("default", Phase::Running, &[0, 1, 2, 3, 4]).await?;
    let spec = json!({"minMember": 3, "queue": "theirs"});
    create(&world.cluster.api::<PodGroup>(), json!({"metadata": {"name": "theirs"}, "spec": spec})).await?;
    for index in 0..3 {
        let container = json!({"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}});
        let pod = json!({
            "metadata": {"name": format!("theirs-{index}"), "annotations": {"scheduling.k8s.io/group-name": "theirs"}},
            "spec": {"schedulerName": "volcano", "containers": [container]},
        });
        create(&world.cluster.api::<Pod>(), pod).await?;
    }
    world.has("default", Phase::Running, &[0, 1]).await?;
    let run = || async {
        let pods = world.cluster.api::<Pod>().list(&ListParams::default()).await?.items;
        let runs = |pod: &&Pod| pod.name_any().starts_with("theirs-") && phase(pod) == "Running";
        Ok((pods.iter().filter(runs).count() == 3).then_some(()))
    };
    within("the other queue has its own", SOON, run).await?;
    let status = world.status("default").await?;
    assert!(
        status.sizes.iter().any(|size| size.message.contains("reclaimed by theirs (queue theirs)")),
        "{:?}",
        status.sizes
    );
    assert!(world.cluster.api::<Pod>().get("lm-launcher").await?.metadata.deletion_timestamp.is_none());
    running.stop().await;
    world.end().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_job_in_auto_mode_uses_idle_room_until_a_gang_waits_for_it() -> anyhow::Result<()> {
    let world = World::start(&["6"]).await?;
    let running = world.cluster.control().await?;
    let mut auto = job(json!({"replicas": 2, "minReplicas": 1, "maxReplicas": 9}));
    auto["metadata"]["annotations"] = json!({"ronde.dev/elastic": "auto"});
    create(&world.cluster.api::<TrainingJob>(), auto).await?;
    world.has("default", Phase::Running, &[0, 1]).await?;
    world.has("default", Phase::Running, &[0, 1, 2, 3, 4]).await?;
    create(&world.cluster.all::<Namespace>(), json!({"metadata": {"name": "other"}})).await?;
    world.submit("other", json!({"replicas": 1})).await?;
    world.has("other", Phase::Running, &[0]).await?;
    world.has("default", Phase::Running, &[0, 1, 2]).await?;
    tokio::time::sleep(Duration::from_secs(200)).await;
    assert_eq!(world.status("other").await?.phase, Some(Phase::Running));
    world.has("default", Phase::Running, &[0, 1, 2]).await?;
    let told = world.status("default").await?.sizes;
    assert!(told.len() <= 8, "it does not flap: {told:?}");
    running.stop().await;
    world.end().await;
    Ok(())
}

/// Lets so many writes through and no write after them, as if the process were killed there; events do not count.
fn fuse(writes: i64) -> (Before, Arc<AtomicI64>) {
    let left = Arc::new(AtomicI64::new(writes));
    let counter = left.clone();
    let before: Before = Arc::new(move |method, path| {
        let is_write = method != Method::GET && !path.contains("/events");
        let made = ["/pods", "/services", "/configmaps", "/secrets"];
        let is_ours = path.contains("kai.alibabacloud.com") || path.contains("/lm");
        let is_ours = is_ours || made.iter().any(|kind| path.ends_with(kind));
        if is_write && is_ours && counter.fetch_sub(1, Ordering::Relaxed) <= 0 {
            pending().boxed()
        } else {
            ready(()).boxed()
        }
    });
    (before, left)
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_is_killed_at_any_write_of_a_scale_operation_ends_it_right() -> anyhow::Result<()> {
    let world = World::start(&["20"]).await?;
    let running = world.cluster.control().await?;
    world.submit("default", json!({"replicas": 2, "minReplicas": 1})).await?;
    world.has("default", Phase::Running, &[0, 1]).await?;
    running.stop().await;
    let (mut writes, mut next) = (0, 2);
    loop {
        let (before, left) = fuse(writes);
        let running = world.cluster.control_with(before).await?;
        world.more("default", &format!("more-{writes}"), 1).await?;
        tokio::time::sleep(Duration::from_secs(5)).await;
        world.less("default", &format!("less-{writes}"), 1).await?;
        tokio::time::sleep(Duration::from_secs(6)).await;
        let is_through = left.load(Ordering::Relaxed) >= 0;
        running.kill();
        let running = world.cluster.control().await?;
        let ended = || async {
            let out = world.api::<ScaleOut>("default").get(&format!("more-{writes}")).await?.status.unwrap_or_default();
            let back = world.api::<ScaleIn>("default").get(&format!("less-{writes}")).await?.status.unwrap_or_default();
            Ok((out.phase == "ScaleSucceeded" && back.phase == "ScaleSucceeded").then_some(()))
        };
        within(&format!("both end after {writes} writes"), LATER, ended).await?;
        world.has("default", Phase::Running, &[0, 1]).await?;
        world.asks_for("default", 2).await?;
        let made = world.status("default").await?.elastic.next_index;
        assert_eq!(made, next + 1, "one worker was made, after {writes} writes");
        next = made;
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
