//! Removes pods that nobody will ever clean up: of nodes that are gone, ended ones beyond a number, never placed ones.
//!
//! [`plan`] decides over all pods at once, at a slow pace and when a node comes or goes. A pod whose node is gone is
//! first marked as failed, so that its owner counts it as it should.

pub mod plan;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, ResourceExt as _};
use parking_lot::Mutex;
use ronde_runtime::{
    pods::{disruption, is_finished, phase},
    podstatus::{self, node_of},
    runner::{Controller, Ctx},
    watch::{Caches, Change, Key, Kinds},
};

use self::plan::{Observed, Why};

/// As many ended pods as Kubernetes keeps by default.
const FINISHED_MAX: usize = 12_500;
const PACE: SignedDuration = SignedDuration::from_secs(20);

/// The garbage collector of pods; it has one key for all of them.
#[derive(Debug)]
pub struct PodGc {
    finished_max: usize,
    /// Since when nodes have been missing. Owned here; after a restart their quarantine begins anew.
    missing: Mutex<BTreeMap<String, Timestamp>>,
}

impl Default for PodGc {
    fn default() -> Self {
        Self { finished_max: FINISHED_MAX, missing: Mutex::default() }
    }
}

impl Controller for PodGc {
    const NAME: &'static str = "pod-garbage-collector";

    fn kinds(&self, kinds: &mut Kinds) {
        kinds.add::<Pod>().add::<Node>();
    }

    fn affected(&self, change: &Change, _: &Caches) -> Vec<Key> {
        let comes_or_goes = change.old.is_none() || change.new.is_none();
        let is_news = (change.is::<Node>() && comes_or_goes) || (change.is::<Pod>() && change.old.is_none());
        if is_news { vec![Key::new("", "pods")] } else { Vec::new() }
    }

    async fn reconcile(&self, ctx: &Ctx, _: &Key) -> Result<Option<SignedDuration>, kube::Error> {
        let (pods, now) = (ctx.caches.list::<Pod>(None), ctx.clock.now());
        let nodes: BTreeSet<String> = ctx.caches.list::<Node>(None).iter().map(|node| node.name_any()).collect();
        let missing = {
            let mut missing = self.missing.lock();
            *missing = plan::missing(&pods, &nodes, &missing, now);
            missing.clone()
        };
        let observed = Observed { pods: &pods, nodes: &nodes, missing: &missing, finished_max: self.finished_max, now };
        let mut present = BTreeMap::new();
        for (pod, why) in plan::garbage(&observed) {
            if why == Why::Orphaned && is_present(ctx, &mut present, node_of(&pod)).await? {
                continue;
            }
            remove(ctx, &pod, why).await?;
        }
        Ok((!pods.is_empty()).then_some(PACE))
    }
}

/// Asks the server itself: deleting pods because of a cache that lags behind cannot be undone.
async fn is_present(ctx: &Ctx, known: &mut BTreeMap<String, bool>, node: &str) -> Result<bool, kube::Error> {
    if let Some(present) = known.get(node) {
        return Ok(*present);
    }
    let present = Api::<Node>::all(ctx.client.clone()).get_opt(node).await?.is_some();
    known.insert(node.to_owned(), present);
    Ok(present)
}

async fn remove(ctx: &Ctx, pod: &Arc<Pod>, why: Why) -> Result<(), kube::Error> {
    tracing::info!(pod = %Key::of(&**pod), phase = phase(pod), ?why, "removes a pod");
    if !is_finished(pod) {
        let lost = (why == Why::Orphaned).then(|| {
            podstatus::build_disruption(pod, disruption::BY_POD_GC, "PodGC: node no longer exists", ctx.clock.now())
        });
        match podstatus::write(ctx, pod, lost.as_slice(), Some("Failed")).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    podstatus::delete_now(ctx, pod).await
}
