//! What happens during the chaos: objects are made, changed and deleted, processes are killed.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::{
    apps::v1::{Deployment, StatefulSet},
    batch::v1::Job,
    core::v1::Pod,
};
use kube::{
    Api, Client, Resource,
    api::{DeleteParams, Patch, PatchParams, PostParams, PropagationPolicy},
    core::NamespaceResourceScope,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{
    askers::Askers,
    dice::Dice,
    instance::{Instance, kill},
    lost_data::lose_data,
    storm,
};

/// More would only make the end take longer.
pub const OBJECTS_MAX: usize = 8;
/// Everything else has to happen to an instance that lives for a while.
const DEEDS_PER_LOSS: u64 = 80;
pub const DEPLOYMENT: &str = "crowd";
pub const STATEFUL_SET: &str = "row";

/// What has been done, and what must be true in the end.
pub struct Deeds {
    next: u64,
    pods: Vec<String>,
    /// Jobs that were not deleted, and how often they have to succeed.
    pub jobs: BTreeMap<String, u64>,
    /// Volcano's jobs that were not deleted, and how many pods each has.
    pub gangs: BTreeMap<String, u64>,
    pub crowd: u64,
    pub row: u64,
    pub askers: Askers,
    done: BTreeMap<&'static str, u64>,
}

impl Deeds {
    pub async fn begin(instance: &Instance) -> Self {
        let (jobs, gangs, done) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let askers = Askers::begin(instance).await;
        let deeds = Self { next: 0, pods: Vec::new(), jobs, gangs, crowd: 2, row: 2, askers, done };
        let template = |app: &str| json!({"metadata": {"labels": {"app": app}}, "spec": sleeper(instance, "Always")});
        let selector = |app: &str| json!({"matchLabels": {"app": app}});
        let crowd = json!({"metadata": {"name": DEPLOYMENT}, "spec": {
            "replicas": deeds.crowd, "selector": selector("crowd"), "template": template("crowd")}});
        let row = json!({"metadata": {"name": STATEFUL_SET}, "spec": {
            "serviceName": "row", "replicas": deeds.row, "podManagementPolicy": "Parallel",
            "selector": selector("row"), "template": template("row")}});
        create::<Deployment>(&instance.client, crowd).await;
        create::<StatefulSet>(&instance.client, row).await;
        storm::begin(instance).await;
        deeds
    }

    /// Does one thing and says what.
    pub async fn one(&mut self, instance: &mut Instance, dice: &mut Dice) -> String {
        if dice.below(DEEDS_PER_LOSS) == 0 {
            let what = lose_data(self, instance, dice).await;
            *self.done.entry("data directories deleted").or_default() += 1;
            return what;
        }
        let (kind, what) = match dice.below(26) {
            0..=3 => ("pods made", self.make_pod(instance, dice).await),
            4..=5 => ("pods deleted", self.delete_pod(instance, dice).await),
            6..=7 => ("jobs made", self.make_job(instance, dice).await),
            8 => ("jobs deleted", self.delete_job(instance, dice).await),
            9 => ("scalings", self.scale_crowd(instance, dice).await),
            10 => ("scalings", self.scale_row(instance, dice).await),
            11..=13 => ("supervisors killed", kill_one(&instance.supervisors(), "supervisor", dice)),
            14..=16 => ("processes killed", kill_one(&instance.container_processes(), "process of a pod", dice)),
            17..=18 => ("daemons killed", kill_daemon(instance).await),
            19..=20 => ("gangs made", self.make_gang(instance, dice).await),
            21 => ("gangs deleted", self.delete_gang(instance, dice).await),
            22 => ("full disks", self.fill_disk(instance, dice).await),
            23..=24 => ("preemption storms", storm::blow(self, instance, dice).await),
            _ => ("daemons killed", stumble(instance, dice).await),
        };
        *self.done.entry(kind).or_default() += 1;
        what
    }

    /// Begins with an instance that has nothing.
    pub async fn begin_anew(&mut self, instance: &Instance) {
        let (next, done) = (self.next, std::mem::take(&mut self.done));
        *self = Self { next, done, ..Self::begin(instance).await };
    }

    pub fn summary(&self) -> String {
        self.done.iter().map(|(what, count)| format!("{count} {what}")).collect::<Vec<_>>().join(", ")
    }

    pub fn name(&mut self, kind: &str) -> String {
        self.next += 1;
        format!("{kind}-{}", self.next)
    }

    async fn make_pod(&mut self, instance: &Instance, dice: &mut Dice) -> String {
        if self.pods.len() >= OBJECTS_MAX {
            return self.delete_pod(instance, dice).await;
        }
        let name = self.name("pod");
        let policy = *dice.pick(&["Always", "OnFailure", "Never"]).unwrap();
        create::<Pod>(&instance.client, json!({"metadata": {"name": name}, "spec": sleeper(instance, policy)})).await;
        self.pods.push(name.clone());
        format!("make {name}, restarted {policy}")
    }

    async fn delete_pod(&mut self, instance: &Instance, dice: &mut Dice) -> String {
        let Some(name) = dice.pick(&self.pods).cloned() else { return "no pod to delete".to_owned() };
        let grace = u32::try_from(dice.below(3)).unwrap();
        delete::<Pod>(&instance.client, &name, Some(grace)).await;
        self.pods.retain(|other| *other != name);
        format!("delete {name} with a grace of {grace} s")
    }

    async fn make_job(&mut self, instance: &Instance, dice: &mut Dice) -> String {
        if self.jobs.len() >= OBJECTS_MAX {
            return self.delete_job(instance, dice).await;
        }
        let name = self.name("job");
        let (completions, parallelism) = (1 + dice.below(3), 1 + dice.below(2));
        let work = work(dice);
        let job = json!({"metadata": {"name": name}, "spec": {
            "completions": completions, "parallelism": parallelism, "backoffLimit": 100,
            "template": {"spec": pod(instance, "Never", &work)}}});
        create::<Job>(&instance.client, job).await;
        self.jobs.insert(name.clone(), completions);
        format!("make {name} with {completions} completions")
    }

    async fn delete_job(&mut self, instance: &Instance, dice: &mut Dice) -> String {
        let names: Vec<String> = self.jobs.keys().cloned().collect();
        let Some(name) = dice.pick(&names) else { return "no job to delete".to_owned() };
        delete::<Job>(&instance.client, name, None).await;
        self.jobs.remove(name);
        format!("delete {name}")
    }

    async fn make_gang(&mut self, instance: &Instance, dice: &mut Dice) -> String {
        if self.gangs.len() >= OBJECTS_MAX {
            return self.delete_gang(instance, dice).await;
        }
        let name = self.name("gang");
        let (pods, work) = (1 + dice.below(3), work(dice));
        self.put_gang(instance, &name, pods, pod(instance, "Never", &work), json!({})).await;
        format!("make {name} of {pods} pods")
    }

    /// Makes a job of Volcano whose pods are alike.
    pub async fn put_gang(&mut self, instance: &Instance, name: &str, pods: u64, pod: Value, more: Value) {
        let task = json!({"name": "w", "replicas": pods, "template": {"spec": pod}});
        let policy = json!({"events": ["PodFailed", "PodEvicted"], "action": "RestartJob"});
        let mut spec = json!({"schedulerName": "volcano", "minAvailable": pods, "maxRetry": 100, "policies": [policy],
            "plugins": {"svc": []}, "tasks": [task]});
        more.as_object().unwrap().iter().for_each(|(key, value)| spec[key] = value.clone());
        create::<ronde_api::Job>(&instance.client, json!({"metadata": {"name": name}, "spec": spec})).await;
        self.gangs.insert(name.to_owned(), pods);
    }

    pub async fn delete_gang(&mut self, instance: &Instance, dice: &mut Dice) -> String {
        let names: Vec<String> = self.gangs.keys().cloned().collect();
        let Some(name) = dice.pick(&names) else { return "no gang to delete".to_owned() };
        delete::<ronde_api::Job>(&instance.client, name, None).await;
        self.gangs.remove(name);
        format!("delete {name}")
    }

    /// Fills the disk, ends things that nobody may need room for, and gives the room back.
    async fn fill_disk(&mut self, instance: &Instance, dice: &mut Dice) -> String {
        let Some(disk) = &instance.disk else { return "no disk to fill".to_owned() };
        disk.fill();
        let deeds = [
            self.delete_pod(instance, dice).await,
            kill_one(&instance.supervisors(), "supervisor", dice),
            self.delete_job(instance, dice).await,
            kill_one(&instance.container_processes(), "process of a pod", dice),
        ];
        tokio::time::sleep(Duration::from_millis(dice.below(2000))).await;
        disk.relieve().unwrap();
        format!("fill the disk, {}, and give it back", deeds.join(", "))
    }

    async fn scale_crowd(&mut self, instance: &Instance, dice: &mut Dice) -> String {
        self.crowd = dice.below(5);
        scale::<Deployment>(&instance.client, DEPLOYMENT, self.crowd).await;
        format!("scale the deployment to {}", self.crowd)
    }

    async fn scale_row(&mut self, instance: &Instance, dice: &mut Dice) -> String {
        self.row = dice.below(4);
        scale::<StatefulSet>(&instance.client, STATEFUL_SET, self.row).await;
        format!("scale the stateful set to {}", self.row)
    }
}

fn kill_one(pids: &[u32], what: &str, dice: &mut Dice) -> String {
    let Some(pid) = dice.pick(pids) else { return format!("no {what} to kill") };
    kill(*pid);
    format!("kill a {what}: {pid}")
}

async fn kill_daemon(instance: &mut Instance) -> String {
    instance.kill_daemon();
    instance.revive().await;
    "kill the daemon".to_owned()
}

async fn stumble(instance: &mut Instance, dice: &mut Dice) -> String {
    instance.kill_daemon();
    let after = Duration::from_millis(dice.below(800));
    instance.stumble(after);
    instance.revive().await;
    format!("kill the daemon, and the next one after {} ms", after.as_millis())
}

/// Work that takes a while and succeeds.
pub fn work(dice: &mut Dice) -> String {
    let milliseconds = dice.below(1500);
    format!("sleep {}.{:03}", milliseconds / 1000, milliseconds % 1000)
}

fn sleeper(instance: &Instance, restart_policy: &str) -> Value {
    pod(instance, restart_policy, "exec sleep 1000")
}

/// A pod that notes each of its starts in a folder of the machine.
pub fn pod(instance: &Instance, restart_policy: &str, work: &str) -> Value {
    let note = "echo start >>/notes/$UID_OF_POD";
    json!({
        "restartPolicy": restart_policy, "terminationGracePeriodSeconds": 1,
        "containers": [{
            "name": "main", "image": "none", "command": ["sh", "-c", format!("{note}; {work}")],
            "env": [{"name": "UID_OF_POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}],
            "volumeMounts": [{"name": "notes", "mountPath": "/notes"}],
        }],
        "volumes": [{"name": "notes", "hostPath": {"path": instance.notes()}}],
    })
}

pub trait Kind:
    Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Serialize + DeserializeOwned + Clone + std::fmt::Debug
{
}
impl<K> Kind for K where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Serialize
        + DeserializeOwned
        + Clone
        + std::fmt::Debug
{
}

pub async fn create<K: Kind>(client: &Client, value: Value) {
    let object: K = serde_json::from_value(value).unwrap();
    Api::default_namespaced(client.clone()).create(&PostParams::default(), &object).await.unwrap();
}

/// Deletes an object, unless a controller was first.
pub async fn delete<K: Kind>(client: &Client, name: &str, grace: Option<u32>) {
    let params = DeleteParams {
        grace_period_seconds: grace,
        propagation_policy: Some(PropagationPolicy::Background),
        ..DeleteParams::default()
    };
    match Api::<K>::default_namespaced(client.clone()).delete(name, &params).await {
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        other => drop(other.unwrap()),
    }
}

async fn scale<K: Kind>(client: &Client, name: &str, replicas: u64) {
    let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    let _: K = Api::default_namespaced(client.clone()).patch(name, &PatchParams::default(), &patch).await.unwrap();
}
