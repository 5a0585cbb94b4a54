//! Stories of Volcano's jobs: what a user does, and controllers that are killed between any two requests.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::{
    core::v1::{ConfigMap, Event, Namespace, PersistentVolumeClaim, Pod, Secret, Service},
    networking::v1::NetworkPolicy,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use parking_lot::Mutex;
use ronde_api::{Command, Job, JobPhase, JobStatus, PodGroup, Queue, names};
use ronde_runtime::pods::{is_deleted, phase};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::{
    chance::Chance,
    cluster::{Cluster, eventually},
    node::{self, Habits},
    queues::{admit_all, queue},
};

/// A cluster with a node on which pods run until somebody says that they have ended, and a job.
struct Stage {
    cluster: Cluster,
    node: node::Running,
    admission: JoinHandle<()>,
    jobs: Api<Job>,
    pods: Api<Pod>,
}

fn task(name: &str, replicas: i32, more: Value) -> Value {
    let mut task = json!({
        "name": name, "replicas": replicas,
        "template": {"spec": {"containers": [{"name": "c", "image": "x"}], "restartPolicy": "Never"}},
    });
    if let Value::Object(more) = more {
        more.into_iter().for_each(|(key, value)| task[key] = value);
    }
    task
}

fn job(name: &str, spec: &Value) -> Job {
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).expect("a job")
}

impl Stage {
    async fn with(spec: Value) -> anyhow::Result<Self> {
        Self::on(Cluster::start_batch(1).await?, spec).await
    }

    /// On a cluster where nobody looks at a job before it is stored.
    async fn without_admission(spec: Value) -> anyhow::Result<Self> {
        let cluster = Cluster::start_batch(2).await?;
        let meta = json!({"annotations": {names::GROUP_QUEUE: "team"}});
        let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
        let patch = Patch::Merge(json!({"metadata": meta}));
        namespaces.patch("default", &PatchParams::default(), &patch).await?;
        let queues: Api<Queue> = Api::all(cluster.client.clone());
        queues.create(&PostParams::default(), &queue("team")).await?;
        // Every cache learns of it in its own time.
        tokio::time::sleep(Duration::from_secs(10)).await;
        Self::on(cluster, spec).await
    }

    async fn on(cluster: Cluster, spec: Value) -> anyhow::Result<Self> {
        let node = node::start(&cluster.client, &cluster.clock, 7, Habits::default(), Box::new(|_| {})).await?;
        let admission = admit_all(&cluster.client);
        let jobs: Api<Job> = Api::default_namespaced(cluster.client.clone());
        let pods = Api::default_namespaced(cluster.client.clone());
        jobs.create(&PostParams::default(), &job("lm", &spec)).await?;
        Ok(Self { cluster, node, admission, jobs, pods })
    }

    fn client(&self) -> Client {
        self.cluster.client.clone()
    }

    async fn status(&self) -> anyhow::Result<JobStatus> {
        Ok(self.jobs.get("lm").await?.status.unwrap_or_default())
    }

    async fn becomes(&self, phase: JobPhase) -> anyhow::Result<()> {
        let is_so = async || Ok(self.status().await?.state.phase == Some(phase));
        eventually(&format!("the job is {phase}"), is_so).await
    }

    /// Lets a pod end.
    async fn ends(&self, name: &str, phase: &str) -> anyhow::Result<()> {
        let patch = json!({"status": {"phase": phase}});
        self.pods.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    async fn commands(&self, action: &str) -> anyhow::Result<()> {
        let uid = self.jobs.get("lm").await?.uid();
        let target = json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "lm", "uid": uid});
        let meta = json!({"generateName": "lm-"});
        let command: Command = serde_json::from_value(json!({"metadata": meta, "action": action, "target": target}))?;
        Api::<Command>::default_namespaced(self.client()).create(&PostParams::default(), &command).await?;
        Ok(())
    }

    async fn pod_names(&self) -> anyhow::Result<Vec<String>> {
        Ok(self.pods.list(&ListParams::default()).await?.iter().map(Pod::name_any).collect())
    }

    async fn key(&self) -> anyhow::Result<Option<String>> {
        let secret = Api::<Secret>::default_namespaced(self.client()).get_opt("lm-ssh").await?;
        let key = secret.and_then(|secret| secret.data?.remove("id_rsa"));
        Ok(key.map(|key| String::from_utf8_lossy(&key.0).into_owned()))
    }

    async fn stop(self) -> anyhow::Result<()> {
        self.admission.abort();
        self.node.stop().await?;
        self.cluster.stop().await;
        Ok(())
    }
}

async fn exists<K>(client: Client, name: &str) -> anyhow::Result<bool>
where
    K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    Ok(Api::<K>::default_namespaced(client).get_opt(name).await?.is_some())
}

/// Returns which of the objects of the plugins are there.
async fn objects(stage: &Stage) -> anyhow::Result<[bool; 4]> {
    Ok([
        exists::<ConfigMap>(stage.client(), "lm-svc").await?,
        exists::<Service>(stage.client(), "lm").await?,
        exists::<NetworkPolicy>(stage.client(), "lm").await?,
        exists::<Secret>(stage.client(), "lm-ssh").await?,
    ])
}

#[tokio::test(start_paused = true)]
async fn a_job_is_wired_runs_completes_and_is_deleted() -> anyhow::Result<()> {
    let complete = json!({"policies": [{"event": "TaskCompleted", "action": "CompleteJob"}]});
    let spec = json!({
        "minAvailable": 4, "ttlSecondsAfterFinished": 100, "plugins": {"ssh": ["--no-root"], "svc": []},
        "tasks": [task("master", 1, complete), task("worker", 3, json!({}))],
        "volumes": [{"mountPath": "/out", "volumeClaim": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}],
    });
    let stage = Stage::with(spec).await?;
    stage.becomes(JobPhase::Running).await?;
    assert_eq!(objects(&stage).await?, [true; 4]);
    let uid = stage.jobs.get("lm").await?.uid().unwrap_or_default();
    let groups: Api<PodGroup> = Api::default_namespaced(stage.client());
    let group = groups.get(&names::pod_group("lm", &uid)).await?;
    assert_eq!((group.spec.min_member, group.spec.queue.as_str()), (4, "default"));
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(stage.client());
    assert_eq!(claims.list(&ListParams::default()).await?.items.len(), 1);
    stage.ends("lm-master-0", "Succeeded").await?;
    stage.becomes(JobPhase::Completed).await?;
    eventually("what was made for it has gone", async || Ok(objects(&stage).await? == [false; 4])).await?;
    assert_eq!(stage.pod_names().await?, ["lm-master-0"], "what has ended stays, for its output");
    let status = stage.status().await?;
    assert_eq!((status.succeeded, status.running, status.terminating), (1, 0, 0));
    assert_eq!(status.state.reason, "TaskCompleted");
    let told = reasons(&stage.client()).await?;
    assert!(told.contains("ExecuteAction") && told.contains("PluginError"), "{told:?}");
    eventually("the job and its pods are deleted", async || {
        Ok(stage.jobs.get_opt("lm").await?.is_none() && stage.pod_names().await?.is_empty())
    })
    .await?;
    stage.stop().await
}

async fn reasons(client: &Client) -> anyhow::Result<BTreeSet<String>> {
    let events = Api::<Event>::default_namespaced(client.clone()).list(&ListParams::default()).await?;
    Ok(events.into_iter().filter_map(|event| event.reason).collect())
}

#[tokio::test(start_paused = true)]
async fn a_job_of_the_same_name_is_not_disturbed_by_the_one_before() -> anyhow::Result<()> {
    let spec = json!({
        "policies": [{"event": "*", "action": "RestartJob"}], "plugins": {"svc": [], "ssh": []},
        "tasks": [task("w", 2, json!({}))],
    });
    let stage = Stage::with(spec.clone()).await?;
    stage.becomes(JobPhase::Running).await?;
    let (before, key) = (stage.jobs.get("lm").await?.uid(), stage.key().await?);
    stage.jobs.delete("lm", &DeleteParams::background()).await?;
    stage.jobs.create(&PostParams::default(), &job("lm", &spec)).await?;
    stage.becomes(JobPhase::Running).await?;
    let after = stage.jobs.get("lm").await?;
    assert_ne!(before, after.uid());
    assert_ne!(key, stage.key().await?, "the new job has its own key");
    assert_eq!(after.status.unwrap_or_default().retry_count, 0);
    let owners: BTreeSet<String> = stage
        .pods
        .list(&ListParams::default())
        .await?
        .iter()
        .map(|pod| pod.owner_references()[0].uid.clone())
        .collect();
    assert_eq!(owners, [stage.jobs.get("lm").await?.uid().unwrap_or_default()].into());
    stage.stop().await
}

#[tokio::test(start_paused = true)]
async fn a_suspended_job_gives_its_pods_up_and_goes_on_with_the_same_key() -> anyhow::Result<()> {
    let spec = json!({"maxRetry": 1, "plugins": {"ssh": []}, "tasks": [task("w", 3, json!({}))]});
    let stage = Stage::with(spec).await?;
    stage.becomes(JobPhase::Running).await?;
    let key = stage.key().await?;
    stage.ends("lm-w-1", "Succeeded").await?;
    eventually("it is counted", async || Ok(stage.status().await?.succeeded == 1)).await?;
    for _ in 0..3 {
        stage.commands("AbortJob").await?;
        stage.becomes(JobPhase::Aborted).await?;
        assert_eq!(stage.pod_names().await?, ["lm-w-1"]);
        stage.commands("ResumeJob").await?;
        stage.becomes(JobPhase::Running).await?;
    }
    let status = stage.status().await?;
    assert_eq!((status.retry_count, status.running, status.succeeded), (0, 2, 1));
    assert_eq!(stage.key().await?, key);
    stage.stop().await
}

#[tokio::test(start_paused = true)]
async fn scaling_tells_all_pods_of_the_new_ones() -> anyhow::Result<()> {
    let stage = Stage::with(json!({"plugins": {"svc": [], "ssh": []}, "tasks": [task("w", 2, json!({}))]})).await?;
    stage.becomes(JobPhase::Running).await?;
    let key = stage.key().await?;
    let patch = json!([
        {"op": "replace", "path": "/spec/tasks/0/replicas", "value": 3},
        {"op": "replace", "path": "/spec/minAvailable", "value": 3},
    ]);
    let patch = Patch::Json::<()>(serde_json::from_value(patch)?);
    stage.jobs.patch("lm", &PatchParams::default(), &patch).await?;
    eventually("the third pod runs", async || Ok(stage.status().await?.running == 3)).await?;
    let maps: Api<ConfigMap> = Api::default_namespaced(stage.client());
    let hosts = maps.get("lm-svc").await?.data.unwrap_or_default();
    assert_eq!(hosts["w.host"], "lm-w-0.lm\nlm-w-1.lm\nlm-w-2.lm");
    let secrets: Api<Secret> = Api::default_namespaced(stage.client());
    let config = secrets.get("lm-ssh").await?.data.unwrap_or_default()["config"].0.clone();
    assert!(String::from_utf8(config)?.contains("Host lm-w-2\n"));
    assert_eq!(stage.key().await?, key, "those that run keep their key");
    stage.stop().await
}

#[tokio::test(start_paused = true)]
async fn defaults_are_those_of_the_beginning_where_there_is_no_admission() -> anyhow::Result<()> {
    let stage = Stage::without_admission(json!({"tasks": [task("w", 2, json!({}))]})).await?;
    stage.becomes(JobPhase::Running).await?;
    let spec = stage.jobs.get("lm").await?.spec;
    assert_eq!((spec.min_available, spec.tasks[0].min_available), (2, Some(2)));
    let uid = stage.jobs.get("lm").await?.uid().unwrap_or_default();
    let groups: Api<PodGroup> = Api::default_namespaced(stage.client());
    let group = async || Ok::<_, anyhow::Error>(groups.get(&names::pod_group("lm", &uid)).await?.spec);
    assert_eq!(group().await?.queue, "team", "as the namespace says");
    let namespaces: Api<Namespace> = Api::all(stage.client());
    let none = Patch::Merge(json!({"metadata": {"annotations": {names::GROUP_QUEUE: null}}}));
    namespaces.patch("default", &PatchParams::default(), &none).await?;
    let change = async |least: i32, task: Value| {
        let patch = Patch::Merge(json!({"spec": {"minAvailable": least, "tasks": [task]}}));
        stage.jobs.patch("lm", &PatchParams::default(), &patch).await
    };
    change(2, task("w", 3, json!({"minAvailable": 2}))).await?;
    eventually("the third pod runs", async || Ok(stage.status().await?.running == 3)).await?;
    assert_eq!((group().await?.min_member, group().await?.queue.as_str()), (2, "team"));
    change(0, task("w", 3, json!({"minAvailable": 0}))).await?;
    eventually("who says 0 means it", async || Ok(group().await?.min_member == 0)).await?;
    assert!(!reasons(&stage.client()).await?.contains("InvalidJob"));
    change(0, task("w", 3, json!({"minAvailable": 0, "template": {"spec": {"containers": []}}}))).await?;
    eventually("a change that no job can take is told", async || {
        Ok(reasons(&stage.client()).await?.contains("InvalidJob"))
    })
    .await?;
    stage.stop().await
}

#[tokio::test(start_paused = true)]
async fn what_is_somebody_elses_is_not_touched() -> anyhow::Result<()> {
    let stage = Stage::with(json!({"tasks": [task("w", 1, json!({}))]})).await?;
    let maps: Api<ConfigMap> = Api::default_namespaced(stage.client());
    let mine = json!({"metadata": {"name": "other-svc"}, "data": {"mine": "yes"}});
    maps.create(&PostParams::default(), &serde_json::from_value(mine)?).await?;
    let spec = json!({"plugins": {"svc": []}, "tasks": [task("w", 1, json!({}))]});
    stage.jobs.create(&PostParams::default(), &job("other", &spec)).await?;
    eventually("the job complains", async || Ok(reasons(&stage.client()).await?.contains("PluginError"))).await?;
    assert!(!stage.pod_names().await?.iter().any(|name| name.starts_with("other")));
    assert_eq!(maps.get("other-svc").await?.data.unwrap_or_default()["mine"], "yes");
    maps.delete("other-svc", &DeleteParams::default()).await?;
    let runs = async || Ok(stage.jobs.get("other").await?.status.is_some_and(|status| status.running == 1));
    eventually("it runs when the name is free", runs).await?;
    stage.stop().await
}

/// What became of the pods of a job.
#[derive(Default)]
struct Chronicle {
    /// The version of the job that each pod was made for, by uid.
    versions: BTreeMap<String, i32>,
    /// The versions in which a pod failed or was evicted.
    troubled: BTreeSet<i32>,
}

impl Chronicle {
    fn note(&mut self, pods: &[Pod]) {
        self.versions.extend(pods.iter().map(|pod| (pod.uid().unwrap_or_default(), version_of(pod))));
        let failed = pods.iter().filter(|pod| phase(pod) == "Failed" || is_deleted(pod) && phase(pod) != "Succeeded");
        self.troubled.extend(failed.map(version_of));
    }

    /// A pod that has failed may be gone before anybody has looked.
    fn note_ends(&mut self, ends: &BTreeMap<String, &str>) {
        let failed = ends.iter().filter(|(_, end)| **end == "Failed");
        self.troubled.extend(failed.filter_map(|(uid, _)| self.versions.get(uid)));
    }
}

fn version_of(pod: &Pod) -> i32 {
    pod.annotations().get(names::JOB_VERSION).and_then(|version| version.parse().ok()).expect("a version")
}

/// Evicts a pod that runs, if there is one.
async fn evict(pods: &Api<Pod>, chance: &mut Chance, chronicle: &Mutex<Chronicle>) -> anyhow::Result<()> {
    let all = pods.list(&ListParams::default()).await?.items;
    let running: Vec<&Pod> = all.iter().filter(|pod| phase(pod) == "Running" && !is_deleted(pod)).collect();
    if running.is_empty() {
        return Ok(());
    }
    let last = u64::try_from(running.len() - 1)?;
    let chosen = running[usize::try_from(chance.between(0, last))?].name_any();
    let evicted = pods.delete(&chosen, &DeleteParams::default()).await;
    if let Ok(answer) = evicted
        && let Some(pod) = answer.left()
        && phase(&pod) == "Running"
    {
        chronicle.lock().troubled.insert(version_of(&pod));
    }
    Ok(())
}

async fn story(seed: u64) -> anyhow::Result<()> {
    let mut chance = Chance::new(seed);
    let mut cluster = Cluster::start_batch(seed).await?;
    let admission = admit_all(&cluster.client);
    let chronicle = Arc::new(Mutex::new(Chronicle::default()));
    let check = {
        let chronicle = chronicle.clone();
        move |pods: &[Pod]| chronicle.lock().note(pods)
    };
    let habits = Habits { ends: 30, fails: 15 };
    let node = node::start(&cluster.client, &cluster.clock, seed, habits, Box::new(check)).await?;
    let jobs: Api<Job> = Api::default_namespaced(cluster.client.clone());
    let pods: Api<Pod> = Api::default_namespaced(cluster.client.clone());
    let (masters, workers) = (1, i32::try_from(chance.between(1, 4))?);
    let action = ["RestartJob", "RestartJob", "RestartTask", "RestartPod"][usize::try_from(chance.between(0, 3))?];
    let spec = json!({
        "maxRetry": 1000, "plugins": {"svc": [], "ssh": [], "env": []},
        "policies": [{"events": ["PodFailed", "PodEvicted"], "action": action}],
        "tasks": [task("master", masters, json!({})), task("worker", workers, json!({}))],
    });
    jobs.create(&PostParams::default(), &job("lm", &spec)).await?;
    for _ in 0..chance.between(3, 6) {
        tokio::time::sleep(chance.time_up_to(Duration::from_secs(15))).await;
        evict(&pods, &mut chance, &chronicle).await?;
        cluster.kill(&mut chance).await;
    }
    let has_ended = async || {
        let phase = jobs.get("lm").await?.status.and_then(|status| status.state.phase);
        Ok(matches!(phase, Some(JobPhase::Completed | JobPhase::Failed)))
    };
    eventually("the job ends", has_ended).await?;
    let status = jobs.get("lm").await?.status.unwrap_or_default();
    let ends: BTreeMap<String, &str> = node.ends.lock().clone();
    chronicle.lock().note_ends(&ends);
    let troubled = chronicle.lock().troubled.clone();
    assert_eq!(status.state.phase, Some(JobPhase::Completed), "seed {seed}");
    assert_eq!(status.succeeded, masters + workers, "seed {seed}");
    if action == "RestartJob" {
        let retries = usize::try_from(status.retry_count)?;
        assert_eq!(retries, troubled.len(), "seed {seed}: every trouble once: {troubled:?}");
    }
    let all_let_go = async || {
        let pods = pods.list(&ListParams::default()).await?;
        Ok(pods.iter().all(|pod| pod.finalizers().is_empty()))
    };
    eventually("no pod is waited for", all_let_go).await?;
    for pod in pods.list(&ListParams::default()).await? {
        assert_eq!(ends.get(&pod.uid().unwrap_or_default()).copied(), Some("Succeeded"), "seed {seed}");
    }
    admission.abort();
    node.stop().await?;
    cluster.stop().await;
    Ok(())
}

/// Each seed is another story.
mod every_trouble_is_answered_once_whatever_dies {
    crate::stories!(seed_0: 0, seed_1: 1, seed_2: 2, seed_3: 3, seed_4: 4, seed_5: 5);
}

/// A job that waits is changed again and again while controllers die.
async fn changed_while_it_waits(seed: u64) -> anyhow::Result<()> {
    let mut chance = Chance::new(seed);
    let mut cluster = Cluster::start_batch(seed).await?;
    let jobs: Api<Job> = Api::default_namespaced(cluster.client.clone());
    let pods: Api<Pod> = Api::default_namespaced(cluster.client.clone());
    let policies = json!([{"event": "PodEvicted", "action": "AbortJob"}]);
    let spec = json!({"policies": policies, "plugins": {"svc": []}, "tasks": [task("w", 3, json!({}))]});
    jobs.create(&PostParams::default(), &job("lm", &spec)).await?;
    let admission = admit_all(&cluster.client);
    let images = async || -> anyhow::Result<Vec<Option<String>>> {
        let image = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.containers[0].image.clone());
        Ok(pods.list(&ListParams::default()).await?.iter().map(image).collect())
    };
    eventually("its pods wait for a node", async || Ok(images().await?.len() == 3)).await?;
    for image in ["a", "b", "c", "d"] {
        let place = "/spec/tasks/0/template/spec/containers/0/image";
        let patch = serde_json::from_value(json!([{"op": "replace", "path": place, "value": image}]))?;
        jobs.patch("lm", &PatchParams::default(), &Patch::Json::<()>(patch)).await?;
        tokio::time::sleep(chance.time_up_to(Duration::from_secs(3))).await;
        cluster.kill(&mut chance).await;
    }
    eventually("all have the last image", async || Ok(images().await? == vec![Some("d".to_owned()); 3])).await?;
    let node = node::start(&cluster.client, &cluster.clock, seed, Habits::default(), Box::new(|_| {})).await?;
    let status = async || Ok::<_, anyhow::Error>(jobs.get("lm").await?.status.unwrap_or_default());
    eventually("it runs", async || Ok(status().await?.running == 3)).await?;
    let status = status().await?;
    let phases: Vec<JobPhase> = status.conditions.iter().map(|condition| condition.status).collect();
    assert_eq!(phases, [JobPhase::Pending, JobPhase::Running], "seed {seed}: nothing was an eviction or a restart");
    assert_eq!(status.retry_count, 0, "seed {seed}");
    admission.abort();
    node.stop().await?;
    cluster.stop().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_image_that_changes_while_a_job_waits_is_the_one_it_starts_with() -> anyhow::Result<()> {
    for seed in 0..4 {
        changed_while_it_waits(seed).await?;
    }
    Ok(())
}
