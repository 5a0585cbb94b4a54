//! The life of nodes: one that falls silent becomes unknown, is tainted, and its pods are not ready any more.
//!
//! [`plan`] decides; this file remembers when each node was last heard, and writes. It evicts nobody: that is done by
//! `tainteviction` because of the taints. A node that is cordoned is tainted here too.

pub mod plan;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use jiff::SignedDuration;
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Node, NodeCondition, Pod, Taint},
};
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use parking_lot::Mutex;
use ronde_runtime::{
    nodes,
    pods::is_ready,
    podstatus::{self, node_of},
    runner::{Controller, Ctx},
    watch::{Caches, Change, Key, Kinds},
};
use serde_json::json;

use self::plan::Pulse;

/// Where the leases of nodes are.
const LEASES: &str = "kube-node-lease";

/// The controller of nodes.
#[derive(Debug, Default)]
pub struct NodeLifecycle {
    pulses: Mutex<BTreeMap<String, Pulse>>,
}

impl Controller for NodeLifecycle {
    const NAME: &'static str = "node-controller";

    fn kinds(&self, kinds: &mut Kinds) {
        kinds.add::<Node>().add::<Lease>().add::<Pod>();
    }

    fn affected(&self, change: &Change, _: &Caches) -> Vec<Key> {
        let is_lease = change.is::<Lease>() && change.key.namespace == LEASES;
        if change.is::<Node>() || is_lease { vec![Key::new("", &change.key.name)] } else { Vec::new() }
    }

    async fn reconcile(&self, ctx: &Ctx, key: &Key) -> Result<Option<SignedDuration>, kube::Error> {
        let Some(node) = ctx.caches.get::<Node>(key) else {
            self.pulses.lock().remove(&key.name);
            return Ok(None);
        };
        // 1. listen
        let now = ctx.clock.now();
        let pulse = self.listen(ctx, &node);
        let left = plan::time_left(&pulse, &node, now);
        // 2. report silence
        let node = match plan::silent_conditions(&node, now).filter(|_| left.is_none()) {
            Some(conditions) => report_silence(ctx, &node, &conditions).await?,
            None => Node::clone(&node),
        };
        // 3. taint
        let node = match plan::taints(&node, now) {
            Some(taints) => taint(ctx, &node, taints).await?,
            None => node,
        };
        // 4. pods of a lost node serve nobody
        if left.is_none() && plan::is_lost(&node) {
            mark_pods(ctx, &node).await?;
        }
        Ok(left.map(|left| left + SignedDuration::from_millis(1)))
    }
}

impl NodeLifecycle {
    fn listen(&self, ctx: &Ctx, node: &Node) -> Pulse {
        let lease = ctx.caches.get::<Lease>(&Key::new(LEASES, node.name_any()));
        let renewed = lease.and_then(|lease| lease.spec.as_ref()?.renew_time.as_ref().map(|time| time.0));
        let name = node.name_any();
        let mut pulses = self.pulses.lock();
        let before = pulses.get(&name);
        if before.is_none() {
            let message = format!("Node {name} event: Registered Node {name} in Controller");
            ctx.events.normal(node, "RegisteredNode", message);
        }
        let pulse = plan::pulse(before, node, renewed, ctx.clock.now());
        pulses.insert(name, pulse.clone());
        pulse
    }
}

async fn report_silence(ctx: &Ctx, node: &Node, conditions: &[NodeCondition]) -> Result<Node, kube::Error> {
    let was_ready = nodes::is_ready(node);
    let patch = json!({
        "metadata": {"uid": node.metadata.uid, "resourceVersion": node.metadata.resource_version},
        "status": {"conditions": conditions},
    });
    let nodes: Api<Node> = Api::all(ctx.client.clone());
    let name = node.name_any();
    let written = nodes.patch_status(&name, &PatchParams::default(), &Patch::Strategic(patch)).await?;
    ctx.caches.assume(written.clone());
    if was_ready {
        ctx.events.normal(node, "NodeNotReady", format!("Node {name} status is now: NodeNotReady"));
    }
    Ok(written)
}

/// Replaces the whole node, so that taints that someone else has put on meanwhile are not lost.
async fn taint(ctx: &Ctx, node: &Node, taints: Vec<Taint>) -> Result<Node, kube::Error> {
    let mut node = node.clone();
    node.spec.get_or_insert_default().taints = Some(taints).filter(|taints| !taints.is_empty());
    let nodes: Api<Node> = Api::all(ctx.client.clone());
    let written = nodes.replace(&node.name_any(), &PostParams::default(), &node).await?;
    ctx.caches.assume(written.clone());
    Ok(written)
}

async fn mark_pods(ctx: &Ctx, node: &Node) -> Result<(), kube::Error> {
    let name = node.name_any();
    for pod in ctx.caches.list::<Pod>(None).iter().filter(|pod| node_of(pod) == name && is_ready(pod)) {
        let condition = podstatus::build_condition(pod, "Ready", "False", ("", ""), ctx.clock.now());
        match podstatus::write(ctx, pod, &[condition], None).await {
            Ok(_) => ctx.events.warning(&**pod, "NodeNotReady", "Node is not ready"),
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
