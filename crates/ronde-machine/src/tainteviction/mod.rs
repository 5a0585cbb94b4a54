//! Evicts pods from nodes with `NoExecute` taints that they do not tolerate, or not for that long.
//!
//! [`plan`] decides from the time at which the taint was added, so that a restart changes nothing; only for taints
//! without such a time (those that people add) the time counts from when they were first seen here.

pub mod plan;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod, Taint};
use kube::ResourceExt as _;
use parking_lot::Mutex;
use ronde_runtime::{
    pods::{apply, disruption, is_deleted, is_finished},
    podstatus::{self, node_of},
    runner::{Controller, Ctx},
    taints,
    watch::{Caches, Change, Key, Kinds},
};

use self::plan::{Fate, drives_away, fate};

/// The key and the value of a taint.
type TaintName = (String, Option<String>);

/// The controller of evictions; its keys are those of pods.
#[derive(Debug, Default)]
pub struct TaintEviction {
    /// When the taints of nodes were first seen; forgotten when they are not seen any more.
    seen: Mutex<BTreeMap<(String, TaintName), Timestamp>>,
}

impl Controller for TaintEviction {
    const NAME: &'static str = "taint-eviction-controller";

    fn kinds(&self, kinds: &mut Kinds) {
        kinds.add::<Pod>().add::<Node>();
    }

    fn affected(&self, change: &Change, caches: &Caches) -> Vec<Key> {
        if change.is::<Pod>() {
            let pod = caches.get::<Pod>(&change.key);
            let node = pod.and_then(|pod| caches.get::<Node>(&Key::new("", node_of(&pod))));
            let is_concerned = node.is_some_and(|node| drives_away(&node));
            return if is_concerned { vec![change.key.clone()] } else { Vec::new() };
        }
        if !change.is::<Node>() {
            return Vec::new();
        }
        let name = &change.key.name;
        let node = caches.get::<Node>(&change.key);
        self.forget_others(name, node.as_deref());
        if !node.is_some_and(|node| drives_away(&node)) {
            return Vec::new();
        }
        caches.list::<Pod>(None).iter().filter(|pod| node_of(pod) == name).map(|pod| Key::of(&**pod)).collect()
    }

    async fn reconcile(&self, ctx: &Ctx, key: &Key) -> Result<Option<SignedDuration>, kube::Error> {
        let Some(pod) = ctx.caches.get::<Pod>(key) else { return Ok(None) };
        let Some(node) = ctx.caches.get::<Node>(&Key::new("", node_of(&pod))) else { return Ok(None) };
        if is_deleted(&pod) || is_finished(&pod) {
            return Ok(None);
        }
        let now = ctx.clock.now();
        match fate(&pod, &node, |taint| self.first_seen(&node, taint, now), now) {
            Fate::Stays => Ok(None),
            Fate::LeavesAt(at) => Ok(Some(at.duration_since(now))),
            Fate::LeavesNow => evict(ctx, &pod).await.map(|()| None),
        }
    }
}

impl TaintEviction {
    fn first_seen(&self, node: &Node, taint: &Taint, now: Timestamp) -> Timestamp {
        *self.seen.lock().entry((node.name_any(), name_of(taint))).or_insert(now)
    }

    /// Forgets the taints that a node does not have any more.
    fn forget_others(&self, name: &str, node: Option<&Node>) {
        let left: Vec<TaintName> = node.into_iter().flat_map(taints::of_node).map(name_of).collect();
        self.seen.lock().retain(|(of, taint), _| of != name || left.contains(taint));
    }
}

fn name_of(taint: &Taint) -> TaintName {
    (taint.key.clone(), taint.value.clone())
}

async fn evict(ctx: &Ctx, pod: &Pod) -> Result<(), kube::Error> {
    ctx.events.normal(pod, "TaintManagerEviction", format!("Marking for deletion Pod {}", Key::of(pod)));
    let (reason, message) = (disruption::BY_TAINT, "Taint manager: deleting due to NoExecute taint");
    let condition = podstatus::build_disruption(pod, reason, message, ctx.clock.now());
    if !podstatus::has_condition(pod, &condition) {
        podstatus::write(ctx, pod, &[condition], None).await?;
    }
    apply::remove(ctx, pod).await.map(drop)
}
