//! Hears of changes in the API and passes them on: pods to their workers, services and endpoints to the network.
//!
//! One worker per pod object (by uid, not by name): a pod that was deleted and made anew under the same name is
//! another pod. Runs as one more controller of the runner, so that the whole process watches each kind once.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use jiff::SignedDuration;
use k8s_openapi::api::{
    core::v1::{ConfigMap, Node as NodeObject, PersistentVolume, PersistentVolumeClaim, Pod, Secret, Service},
    discovery::v1::EndpointSlice,
};
use parking_lot::Mutex;
use ronde_runtime::{
    pods::{apply::remove_within, is_finished},
    podstatus::node_of,
    runner::{Controller, Ctx},
    watch::{Caches, Change, Key, Kinds},
};
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    admission, disk,
    images::credentials,
    lifecycle::Cause,
    net::ClusterView,
    node::Node,
    volumes,
    worker::{Desired, Worker},
};

/// Stands for everything that the network has to know; no pod can have this name.
const NETWORK: &str = "/network";
/// Stands for the folders of pods that are not in the API any more.
const LEFTOVERS: &str = "/leftovers";

pub struct Agent {
    node: Arc<Node>,
    stop: CancellationToken,
    tasks: TaskTracker,
    /// Owned by the agent; each worker has the other end of its channel.
    pods: Mutex<BTreeMap<String, Entry>>,
    watches_disk: AtomicBool,
}

struct Entry {
    key: Key,
    desired: watch::Sender<Desired>,
    /// Whether the node has taken it; what was refused takes no room.
    is_taken: bool,
}

impl Agent {
    /// The tasks of the workers run in `tasks` until `stop`.
    pub fn new(node: Arc<Node>, tasks: TaskTracker, stop: CancellationToken) -> Self {
        Self { node, stop, tasks, pods: Mutex::default(), watches_disk: AtomicBool::new(false) }
    }

    fn is_ours(&self, pod: &Pod) -> bool {
        self.node.names.contains(node_of(pod))
    }

    /// Tells the workers of a name what the API says now.
    fn sync(self: &Arc<Self>, ctx: &Ctx, key: &Key) {
        let pod = ctx.caches.get::<Pod>(key).filter(|pod| self.is_ours(pod));
        let uid = pod.as_ref().and_then(|pod| pod.metadata.uid.clone()).unwrap_or_default();
        let mut pods = self.pods.lock();
        for (other, entry) in pods.iter().filter(|(other, entry)| entry.key == *key && **other != uid) {
            tracing::debug!(uid = other, pod = %key, "a pod is no longer in the API");
            entry.desired.send_modify(|desired| desired.gone = true);
        }
        let Some(pod) = pod else { return };
        match pods.get(&uid) {
            Some(entry) => entry.desired.send_modify(|desired| {
                // Nothing new about the pod itself: then something that it refers to has changed. Labels and
                // annotations may be files of the pod.
                let (old, new) = (&desired.pod.metadata, &pod.metadata);
                if old.resource_version == new.resource_version
                    || (&old.labels, &old.annotations) != (&new.labels, &new.annotations)
                {
                    desired.sources += 1;
                }
                desired.pod = pod;
            }),
            None => {
                let refused = self.refuse(ctx, &pods, &pod);
                let desired = Desired { pod, gone: false, sources: 0, evicted: None };
                let entry = self.work(ctx, key.clone(), desired, refused);
                pods.insert(uid, entry);
            }
        }
    }

    /// Returns why the node does not take a pod that it meets for the first time.
    fn refuse(&self, ctx: &Ctx, pods: &BTreeMap<String, Entry>, pod: &Pod) -> Option<Cause> {
        let has_begun = pod.status.as_ref().is_some_and(|status| status.start_time.is_some());
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        if has_begun || is_finished(pod) || self.node.pod_folder(uid).path().exists() {
            return None;
        }
        let node = ctx.caches.get::<NodeObject>(&Key::new("", node_of(pod)))?;
        // What is known now, not what the workers were told: the pod that made room may come later in the queue.
        let known = ctx.caches.list::<Pod>(None);
        let is_taken = |other: &&Pod| {
            let entry = other.metadata.uid.as_deref().and_then(|uid| pods.get(uid));
            node_of(other) == node_of(pod) && entry.is_some_and(|entry| entry.is_taken) && !is_finished(other)
        };
        let taken: Vec<&Pod> = known.iter().map(|pod| &**pod).filter(is_taken).collect();
        self.refuse_under_pressure(pod).or_else(|| admission::refuse(pod, &node, &taken))
    }

    /// A full disk takes nobody but critical pods.
    fn refuse_under_pressure(&self, pod: &Pod) -> Option<Cause> {
        let is_short = self.node.pressure.borrow().is_some() && !disk::victim::is_critical(pod);
        is_short.then(|| disk::limits::evicted("The node had condition: [DiskPressure]. ".to_owned()))
    }

    /// Ends a pod that has to make room. Its worker is told once; the first reason stays.
    pub fn evict(&self, uid: &str, cause: Cause) {
        let pods = self.pods.lock();
        let Some(entry) = pods.get(uid) else { return };
        entry.desired.send_if_modified(|desired| {
            let is_new = desired.evicted.is_none();
            if is_new {
                tracing::warn!(pod = %entry.key, why = cause.message.trim_end(), "evicting a pod");
                desired.evicted = Some(cause);
            }
            is_new
        });
    }

    /// Begins to watch the disk, once.
    fn watch_disk(self: &Arc<Self>, ctx: &Ctx) {
        if !self.watches_disk.swap(true, Ordering::Relaxed) {
            self.tasks.spawn(disk::watch(self.node.clone(), self.clone(), ctx.clone(), self.stop.clone()));
        }
    }

    fn work(self: &Arc<Self>, ctx: &Ctx, key: Key, desired: Desired, refused: Option<Cause>) -> Entry {
        let (uid, is_taken) = (desired.pod.metadata.uid.clone().unwrap_or_default(), refused.is_none());
        let (sender, receiver) = watch::channel(desired);
        let worker = Worker::new(self.node.clone(), ctx.clone(), receiver, refused);
        let (agent, stop) = (self.clone(), self.stop.clone());
        self.tasks.spawn(async move {
            worker.run(stop).await;
            agent.pods.lock().remove(&uid);
        });
        Entry { key, desired: sender, is_taken }
    }

    /// Deletes the pods of a node that is not there any more: nobody else would for a while.
    async fn sync_node(&self, ctx: &Ctx, name: &str) -> Result<(), kube::Error> {
        if !self.node.names.contains(name) || ctx.caches.get::<NodeObject>(&Key::new("", name)).is_some() {
            return Ok(());
        }
        let is_on = |pod: &&Arc<Pod>| node_of(pod) == name;
        for pod in ctx.caches.list::<Pod>(None).iter().filter(is_on) {
            remove_within(ctx, &**pod, Some(0)).await?;
        }
        Ok(())
    }

    /// Gives a worker to every pod on disk that the API has forgotten, so that it is taken down.
    fn sync_leftovers(self: &Arc<Self>, ctx: &Ctx) {
        let known: Vec<Arc<Pod>> = ctx.caches.list::<Pod>(None);
        for uid in self.node.uids_on_disk() {
            let is_known = known.iter().any(|pod| pod.metadata.uid.as_deref() == Some(uid.as_str()));
            let mut pods = self.pods.lock();
            if is_known || pods.contains_key(&uid) {
                continue;
            }
            tracing::info!(uid, "stopping a pod that is no longer in the API");
            let mut pod = Pod::default();
            pod.metadata.uid = Some(uid.clone());
            pod.metadata.name = Some(uid.clone());
            let desired = Desired { pod: Arc::new(pod), gone: true, sources: 0, evicted: None };
            let entry = self.work(ctx, Key::new("", LEFTOVERS), desired, None);
            pods.insert(uid, entry);
        }
    }

    fn sync_network(&self, ctx: &Ctx) {
        if let Some(network) = &self.node.network {
            network.update(&ClusterView {
                services: ctx.caches.list::<Service>(None),
                slices: ctx.caches.list::<EndpointSlice>(None),
                pods: ctx.caches.list::<Pod>(None),
            });
        }
    }

    /// The pods on this machine whose files come from an object.
    fn users_of(&self, caches: &Caches, change: &Change) -> Vec<Key> {
        let name = &change.key.name;
        let uses = |pod: &&Arc<Pod>| {
            let mut references = volumes::references(pod);
            let names = if change.is::<Secret>() {
                references.secrets.extend(credentials::names(pod).map(str::to_owned));
                references.secrets
            } else if change.is::<ConfigMap>() {
                references.config_maps
            } else {
                references.claims
            };
            self.is_ours(pod) && names.contains(name)
        };
        caches.list::<Pod>(Some(&change.key.namespace)).iter().filter(uses).map(|pod| Key::of(&**pod)).collect()
    }
}

/// The controller's face of the agent.
pub struct NodeAgent(pub Arc<Agent>);

impl Controller for NodeAgent {
    const NAME: &'static str = "kubelet";

    fn kinds(&self, kinds: &mut Kinds) {
        kinds.add::<Pod>().add::<Service>().add::<EndpointSlice>().add::<NodeObject>();
        kinds.add::<ConfigMap>().add::<Secret>().add::<PersistentVolumeClaim>().add::<PersistentVolume>();
    }

    fn affected(&self, change: &Change, caches: &Caches) -> Vec<Key> {
        if change.is::<Pod>() {
            vec![change.key.clone()]
        } else if change.is::<Service>() || change.is::<EndpointSlice>() {
            vec![Key::new("", NETWORK)]
        } else if change.is::<NodeObject>() {
            vec![Key::new("", LEFTOVERS), Key::new("", change.key.name.clone())]
        } else if change.is::<ConfigMap>() || change.is::<Secret>() || change.is::<PersistentVolumeClaim>() {
            self.0.users_of(caches, change)
        } else {
            Vec::new()
        }
    }

    async fn reconcile(&self, ctx: &Ctx, key: &Key) -> Result<Option<SignedDuration>, kube::Error> {
        match key.name.as_str() {
            NETWORK => self.0.sync_network(ctx),
            LEFTOVERS => {
                self.0.sync_leftovers(ctx);
                self.0.watch_disk(ctx);
            }
            _ if key.namespace.is_empty() => self.0.sync_node(ctx, &key.name).await?,
            _ => self.0.sync(ctx, key),
        }
        Ok(None)
    }
}
