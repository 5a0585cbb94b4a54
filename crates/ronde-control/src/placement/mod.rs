//! A simple scheduler: binds each pod of the default scheduler to the least loaded node that fits.
//!
//! [`place`] decides over a [`snapshot`]; this file takes the pods in the order of their priority, binds, and tells why a pod
//! has to wait. Pods are tried again whenever something changes that could help. Pods of other schedulers are
//! left alone, and nobody is pushed off a node for another.

pub mod affinity;
pub mod place;
pub mod resources;
pub mod snapshot;
pub mod spread;
#[cfg(test)]
mod tests;

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use futures::{StreamExt as _, stream};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{
    Namespace, Node, NodeSelector, PersistentVolume, PersistentVolumeClaim, Pod, PodCondition,
};
use kube::{ResourceExt as _, api::PostParams};
use parking_lot::Mutex;
use serde_json::{Value, json};

use self::{
    place::{Needs, Unplaceable, place_all},
    snapshot::Snapshot,
};
use crate::{
    pods::{act, is_deleted, is_finished},
    podstatus::{self, node_of},
    runner::{Controller, Ctx},
    watch::{Caches, Change, Key, Kinds},
};

/// The scheduler whose pods are placed here.
const SCHEDULER: &str = "default-scheduler";
/// How many pods are bound before the newest state is looked at again: about 50 ms of requests.
const ROUND_MAX: usize = 256;
/// How many requests are under way at once.
const WRITES_MAX: usize = 16;

/// The scheduler; it has one key for all pods.
#[derive(Debug, Default)]
pub struct Placement {
    /// Pods that are bound, by uid, while the watch does not show it yet.
    assumed: Mutex<BTreeMap<String, String>>,
}

impl Controller for Placement {
    const NAME: &'static str = SCHEDULER;

    fn kinds(&self, kinds: &mut Kinds) {
        kinds.add::<Pod>().add::<Node>().add::<Namespace>().add::<PersistentVolumeClaim>().add::<PersistentVolume>();
    }

    fn affected(&self, change: &Change, caches: &Caches) -> Vec<Key> {
        let may_help = if change.is::<Pod>() {
            let [old, new] = [&change.old, &change.new].map(|mark| mark.as_ref().map(|mark| &mark.labels));
            old != new || caches.get::<Pod>(&change.key).is_some_and(|pod| is_pending(&pod) || !takes_room(&pod))
        } else {
            change.is::<Node>()
                || change.is::<Namespace>()
                || change.is::<PersistentVolumeClaim>()
                || change.is::<PersistentVolume>()
        };
        if may_help { vec![Key::new("", "pods")] } else { Vec::new() }
    }

    async fn reconcile(&self, ctx: &Ctx, _: &Key) -> Result<Option<SignedDuration>, kube::Error> {
        // 1. observe
        let pods = ctx.caches.list::<Pod>(None);
        let assumed = self.confirm(&pods);
        let mut pending: Vec<_> =
            pods.iter().filter(|pod| is_pending(pod) && !assumed.contains_key(&uid(pod))).cloned().collect();
        if pending.is_empty() {
            return Ok(None);
        }
        let mut snapshot = snapshot(ctx, &pods, &assumed);
        // 2. order
        pending.sort_by_key(|pod| (Reverse(priority(pod)), pod.creation_timestamp(), pod.name_any()));
        // 3. decide
        let needs = pending.into_iter().map(|pod| Needs::new(pod.clone(), volumes(&ctx.caches, &pod))).collect();
        let placed = place_all(needs, &mut snapshot);
        // 4. act
        let mut news = placed;
        news.retain(|(pod, found)| found.is_ok() || is_news(ctx, pod, found));
        let has_more = news.len() > ROUND_MAX;
        let acts = news.into_iter().take(ROUND_MAX).map(|(pod, found)| self.act(ctx, pod, found));
        let done: Vec<_> = stream::iter(acts).buffer_unordered(WRITES_MAX).collect().await;
        done.into_iter().collect::<Result<(), _>>()?;
        Ok(has_more.then_some(SignedDuration::ZERO))
    }
}

impl Placement {
    /// Forgets the bindings that the watch shows, or whose pod is gone; returns the others.
    fn confirm(&self, pods: &[Arc<Pod>]) -> BTreeMap<String, String> {
        let waiting: BTreeMap<String, &Arc<Pod>> =
            pods.iter().filter(|pod| node_of(pod).is_empty()).map(|pod| (uid(pod), pod)).collect();
        let mut assumed = self.assumed.lock();
        assumed.retain(|uid, _| waiting.contains_key(uid));
        assumed.clone()
    }

    async fn act(&self, ctx: &Ctx, pod: Arc<Pod>, found: Result<String, Unplaceable>) -> Result<(), kube::Error> {
        let done = match found {
            Ok(node) => self.bind(ctx, &pod, &node).await,
            Err(why) => refuse(ctx, &pod, &why).await,
        };
        match done {
            // Someone else has bound or deleted it.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
            other => other,
        }
    }

    async fn bind(&self, ctx: &Ctx, pod: &Pod, node: &str) -> Result<(), kube::Error> {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": pod.metadata.name, "namespace": pod.metadata.namespace, "uid": pod.metadata.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        });
        self.assumed.lock().insert(uid(pod), node.to_owned());
        let pods = act::api::<Pod>(ctx, &pod.namespace().unwrap_or_default());
        let bound: Result<Value, _> =
            pods.create_subresource("binding", &pod.name_any(), &PostParams::default(), &binding).await;
        if let Err(error) = bound {
            self.assumed.lock().remove(&uid(pod));
            return Err(error);
        }
        ctx.events.normal(pod, "Scheduled", format!("Successfully assigned {} to {node}", Key::of(pod)));
        Ok(())
    }
}

/// Tells whether a pod waits to be placed here.
fn is_pending(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let scheduler = spec.scheduler_name.as_deref().unwrap_or(SCHEDULER);
    let is_gated = spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty());
    node_of(pod).is_empty() && scheduler == SCHEDULER && !is_gated && takes_room(pod) && !is_deleted(pod)
}

/// A pod keeps its room until it has ended, also while it is being deleted.
fn takes_room(pod: &Pod) -> bool {
    !is_finished(pod)
}

fn priority(pod: &Pod) -> i32 {
    pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or_default()
}

fn uid(pod: &Pod) -> String {
    pod.uid().unwrap_or_default()
}

fn snapshot(ctx: &Ctx, pods: &[Arc<Pod>], assumed: &BTreeMap<String, String>) -> Snapshot {
    let mut snapshot = Snapshot::new(ctx.caches.list::<Node>(None), ctx.caches.list::<Namespace>(None));
    for pod in pods.iter().filter(|pod| takes_room(pod)) {
        match assumed.get(&uid(pod)) {
            Some(node) => snapshot.add(node, pod.clone()),
            None => snapshot.add(node_of(pod), pod.clone()),
        }
    }
    snapshot
}

/// Finds where the volumes of a pod can be; all of its claims have to be bound.
fn volumes(caches: &Caches, pod: &Pod) -> Result<Vec<NodeSelector>, String> {
    let namespace = pod.namespace().unwrap_or_default();
    let named = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let named = named.filter_map(|volume| volume.persistent_volume_claim.as_ref());
    let mut wanted = Vec::new();
    for name in named.map(|claim| &claim.claim_name) {
        let claim = caches.get::<PersistentVolumeClaim>(&Key::new(&namespace, name));
        let claim = claim.ok_or_else(|| format!("persistentvolumeclaim {name:?} not found"))?;
        if claim.metadata.deletion_timestamp.is_some() {
            return Err(format!("persistentvolumeclaim {name:?} is being deleted"));
        }
        if claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Lost") {
            return Err(format!("persistentvolumeclaim {name:?} bound to non-existent persistentvolume"));
        }
        let volume = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).unwrap_or_default();
        let is_bound = claim.annotations().contains_key("pv.kubernetes.io/bind-completed");
        let volume = caches.get::<PersistentVolume>(&Key::new("", volume)).filter(|_| is_bound);
        let volume = volume.ok_or_else(|| "pod has unbound immediate PersistentVolumeClaims".to_owned())?;
        let affinity = volume.spec.as_ref().and_then(|spec| spec.node_affinity.as_ref()?.required.clone());
        wanted.extend(affinity);
    }
    Ok(wanted)
}

/// Tells whether a pod does not say yet why it waits.
fn is_news(ctx: &Ctx, pod: &Pod, found: &Result<String, Unplaceable>) -> bool {
    found.as_ref().is_err_and(|why| !podstatus::has_condition(pod, &waiting(ctx, pod, why)))
}

fn waiting(ctx: &Ctx, pod: &Pod, why: &Unplaceable) -> PodCondition {
    let because = ("Unschedulable", &*why.to_string());
    podstatus::build_condition(pod, "PodScheduled", "False", because, ctx.clock.now())
}

async fn refuse(ctx: &Ctx, pod: &Pod, why: &Unplaceable) -> Result<(), kube::Error> {
    podstatus::write(ctx, pod, &[waiting(ctx, pod, why)], None).await?;
    ctx.events.warning(pod, "FailedScheduling", why.to_string());
    Ok(())
}
