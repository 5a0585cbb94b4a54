//! Carries out the steps of a plan.
//!
//! Steps of one kind that follow each other are taken side by side, with a bound. A step that fails is told back, so that
//! the scheduler plans anew; one that comes too late first brings the newest state into the caches.

use std::mem::discriminant;

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use ronde_api::PodGroup;
use ronde_runtime::causes::Causes;
use ronde_runtime::pods::{controller_of, disruption};
use ronde_runtime::volumes::{BOUND_BY_CONTROLLER, reference};
use ronde_runtime::{
    events::Recorder,
    pods::apply::{self, api},
    podstatus,
    runner::{Ctx, in_time},
    watch::Key,
};
use ronde_scheduler::{Eviction, GroupId, NodeName, PodId, Step};
use serde_json::{Value, json};

use super::{
    objects::volumes::{Claimed, awaits_node, chooses},
    state::{State, claims},
    status,
};
use crate::{
    membership::DEFAULT_SCHEDULER,
    metrics::{NO_LABELS, PLACEMENT_SECONDS, STEPS},
};

/// How many requests are under way at once: a server with a few processors is busy with these.
const WRITES_MAX: usize = 32;
/// Says on which node the volume of a claim is to be made.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepOutcome {
    Done,
    /// Things are different by now; the caches know how.
    Late,
    Failed,
}

impl StepOutcome {
    fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Late => "late",
            Self::Failed => "failed",
        }
    }
}

fn word(step: &Step) -> &'static str {
    match step {
        Step::Admit(_) => "admit",
        Step::Bind { .. } => "bind",
        Step::Evict { .. } => "evict",
        Step::Nominate { .. } => "nominate",
    }
}

/// Takes all steps; returns how each of them ended.
pub async fn apply_all<'a>(ctx: &Ctx, state: &State, steps: &'a [Step]) -> Vec<(&'a Step, StepOutcome)> {
    let mut outcomes = Vec::with_capacity(steps.len());
    for alike in steps.chunk_by(|a, b| discriminant(a) == discriminant(b)) {
        let taking: Vec<_> = alike.iter().map(|step| apply_step(ctx, state, step)).collect();
        let taken: Vec<_> = stream::iter(taking).buffered(WRITES_MAX).collect().await;
        alike
            .iter()
            .zip(&taken)
            .for_each(|(step, outcome)| ctx.telemetry.metrics.count(&STEPS, [word(step), outcome.as_str()]));
        outcomes.extend(alike.iter().zip(taken));
    }
    outcomes
}

async fn apply_step(ctx: &Ctx, state: &State, step: &Step) -> StepOutcome {
    let taken = in_time(async {
        match step {
            Step::Admit(group) => admit(ctx, state, group).await,
            Step::Bind { pod, node } => bind(ctx, state, pod, node).await,
            Step::Evict { pod, why } => evict(ctx, state, pod, why).await,
            Step::Nominate { pod, node } => nominate(ctx, state, pod, node.as_ref()).await,
        }
    });
    match taken.await {
        Ok(outcome) => outcome,
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {
            tracing::debug!(%step, reason = status.reason, message = status.message, "comes too late");
            refresh(ctx, step).await
        }
        Err(error) => {
            tracing::warn!(%step, error = %Causes(&error), "failed");
            StepOutcome::Failed
        }
    }
}

/// Brings what a step was about into the caches as it is now.
async fn refresh(ctx: &Ctx, step: &Step) -> StepOutcome {
    let (Step::Bind { pod: id, .. } | Step::Evict { pod: id, .. } | Step::Nominate { pod: id, .. }) = step else {
        return StepOutcome::Late;
    };
    match in_time(api::<Pod>(ctx, id.namespace()).get_opt(id.name())).await {
        Ok(Some(pod)) => ctx.caches.assume(pod),
        Ok(None) => {
            if let Some(gone) = ctx.caches.get::<Pod>(&key(id)) {
                ctx.caches.assume_gone(&*gone);
            }
        }
        Err(_) => return StepOutcome::Failed,
    }
    StepOutcome::Late
}

/// Returns the key of a pod.
pub fn key(id: &PodId) -> Key {
    Key::new(id.namespace(), id.name())
}

async fn admit(ctx: &Ctx, state: &State, id: &GroupId) -> Result<StepOutcome, kube::Error> {
    let Some(group) = ctx.caches.get::<PodGroup>(&Key::new(id.namespace(), id.name())) else {
        return Ok(StepOutcome::Late);
    };
    let pods = state.pods(&ctx.caches, id);
    let now = ctx.clock.now();
    let wait = state.wait(id, now);
    let seen = status::groups::GroupFacts { group: &group, pods: &pods, wait, is_admitted: true, now };
    status::write_group(ctx, &group, &status::groups::next_status(&seen)).await?;
    Ok(StepOutcome::Done)
}

async fn bind(ctx: &Ctx, state: &State, id: &PodId, node: &NodeName) -> Result<StepOutcome, kube::Error> {
    let Some(pod) = state.pod(&ctx.caches, &key(id)) else { return Ok(StepOutcome::Late) };
    for claimed in claims(&ctx.caches, &pod).iter().filter(|claimed| awaits_node(claimed)) {
        if !chooses(claimed) {
            select_node(ctx, id.namespace(), &claimed.name, node).await?;
        } else if !take_volume(ctx, claimed, node).await? {
            return Ok(StepOutcome::Late);
        }
    }
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": id.name(), "namespace": id.namespace(), "uid": pod.metadata.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node.as_str()},
    });
    let pods = api::<Pod>(ctx, id.namespace());
    let _: Value = pods.create_subresource("binding", id.name(), &PostParams::default(), &binding).await?;
    if let Some(created) = pod.creation_timestamp() {
        let waited = ctx.clock.now().duration_since(created.0).try_into().unwrap_or_default();
        ctx.telemetry.metrics.observe(&PLACEMENT_SECONDS, NO_LABELS, waited);
    }
    events(ctx, &pod).normal(&*pod, "Scheduled", format!("Successfully assigned {id} to {node}"));
    Ok(StepOutcome::Done)
}

/// Returns where events about a pod go: they come from the scheduler that it names, as `kubectl describe` shows.
pub fn events(ctx: &Ctx, pod: &Pod) -> Recorder {
    let named = pod.spec.as_ref().and_then(|spec| spec.scheduler_name.as_deref());
    ctx.events.for_component(named.unwrap_or(DEFAULT_SCHEDULER))
}

/// Keeps a volume that exists for a claim; tells whether there still is one for it on the node.
async fn take_volume(ctx: &Ctx, claimed: &Claimed, node: &NodeName) -> Result<bool, kube::Error> {
    let Some(found) = ctx.caches.get::<Node>(&Key::new("", node.as_str())) else { return Ok(false) };
    let (Some(claim), Some(volume)) = (&claimed.claim, claimed.offer_on(node.as_str(), found.labels())) else {
        return Ok(false);
    };
    let patch = Patch::Merge(json!({
        "metadata": {"resourceVersion": volume.resource_version(), "annotations": {BOUND_BY_CONTROLLER: "yes"}},
        "spec": {"claimRef": reference(claim)},
    }));
    let volumes: Api<PersistentVolume> = Api::all(ctx.client.clone());
    let taken = volumes.patch(&volume.name_any(), &PatchParams::default(), &patch).await?;
    ctx.caches.assume(taken);
    Ok(true)
}

/// Tells a claim whose class waits for it where its pod will be.
async fn select_node(ctx: &Ctx, namespace: &str, name: &str, node: &NodeName) -> Result<(), kube::Error> {
    let patch = Patch::Merge(json!({"metadata": {"annotations": {SELECTED_NODE: node.as_str()}}}));
    let written = api::<PersistentVolumeClaim>(ctx, namespace).patch(name, &PatchParams::default(), &patch).await?;
    ctx.caches.assume(written);
    Ok(())
}

async fn evict(ctx: &Ctx, state: &State, id: &PodId, why: &Eviction) -> Result<StepOutcome, kube::Error> {
    let Some(pod) = state.pod(&ctx.caches, &key(id)) else { return Ok(StepOutcome::Late) };
    let (now, message) = (ctx.clock.now(), why_evicted(ctx, id, why));
    events(ctx, &pod).warning(&*pod, "Evict", &*message);
    let conditions = [
        podstatus::build_condition(&pod, "Ready", "False", ("Evict", &message), now),
        podstatus::build_disruption(&pod, disruption::BY_SCHEDULER, &message, now),
    ];
    podstatus::write(ctx, &pod, &conditions, None).await?;
    apply::remove(ctx, &*pod).await?;
    Ok(StepOutcome::Done)
}

/// Says why a pod is evicted, in the words of who made the jobs: `preempted by hi (priority high)`.
fn why_evicted(ctx: &Ctx, victim: &PodId, why: &Eviction) -> String {
    let (verb, by) = match why {
        Eviction::Preempted { by } => ("preempted", by),
        Eviction::Reclaimed { by } => ("reclaimed", by),
        Eviction::Moved { by } => ("moved to make room", by),
        Eviction::Incomplete => return "stopped because its gang was incomplete".to_owned(),
    };
    let group = ctx.caches.get::<PodGroup>(&Key::new(by.namespace(), by.name()));
    let owner = group.as_ref().and_then(|group| controller_of(&group.metadata)).map(|owner| owner.name.as_str());
    let name = owner.unwrap_or(by.name());
    let name =
        if by.namespace() == victim.namespace() { name.to_owned() } else { format!("{}/{name}", by.namespace()) };
    let spec = group.as_ref().map(|group| &group.spec);
    let because = match (why, spec) {
        (Eviction::Reclaimed { .. }, Some(spec)) if !spec.queue.is_empty() => format!(" (queue {})", spec.queue),
        (Eviction::Preempted { .. }, Some(spec)) if !spec.priority_class_name.is_empty() => {
            format!(" (priority {})", spec.priority_class_name)
        }
        _ => String::new(),
    };
    let preposition = if matches!(why, Eviction::Moved { .. }) { "for" } else { "by" };
    format!("{verb} {preposition} {name}{because}")
}

async fn nominate(ctx: &Ctx, state: &State, id: &PodId, node: Option<&NodeName>) -> Result<StepOutcome, kube::Error> {
    let Some(pod) = state.pod(&ctx.caches, &key(id)) else { return Ok(StepOutcome::Late) };
    let patch = json!({
        "metadata": {"uid": pod.metadata.uid}, "status": {"nominatedNodeName": node.map(NodeName::as_str)},
    });
    let pods = api::<Pod>(ctx, id.namespace());
    let written = pods.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(patch)).await?;
    ctx.caches.assume(written);
    Ok(StepOutcome::Done)
}
