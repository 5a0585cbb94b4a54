//! What the control plane itself writes into the status of pods: conditions, and the phase of pods that nobody runs.
//!
//! Called by the controllers of the machine; what a pod's processes do is reported by the node.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use kube::{
    ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
};
use serde_json::json;

use crate::{
    pods::{apply, condition, disruption, time},
    runner::Ctx,
};

/// Returns the name of the node of a pod; empty if it has none yet.
pub fn node_of(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
}

/// Builds a condition that a pod should have; its time changes only with its status.
pub fn build_condition(pod: &Pod, kind: &str, status: &str, because: (&str, &str), now: Timestamp) -> PodCondition {
    let before = condition(pod, kind).filter(|before| before.status == status);
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    PodCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: text(because.0),
        message: text(because.1),
        last_transition_time: before.and_then(|before| before.last_transition_time.clone()).or(Some(time(now))),
        ..PodCondition::default()
    }
}

/// Builds the condition of a pod that is ended by the control plane.
pub fn build_disruption(pod: &Pod, reason: &str, message: &str, now: Timestamp) -> PodCondition {
    build_condition(pod, disruption::CONDITION, "True", (reason, message), now)
}

/// Tells whether a pod has a condition already, whatever its times.
pub fn has_condition(pod: &Pod, wanted: &PodCondition) -> bool {
    condition(pod, &wanted.type_).is_some_and(|before| {
        before.status == wanted.status && before.reason == wanted.reason && before.message == wanted.message
    })
}

/// Writes conditions, and a phase if one is given, into the status of this very pod.
pub async fn write(ctx: &Ctx, pod: &Pod, conditions: &[PodCondition], phase: Option<&str>) -> Result<Pod, kube::Error> {
    let mut status = json!({});
    if !conditions.is_empty() {
        status["conditions"] = json!(conditions);
    }
    if let Some(phase) = phase {
        status["phase"] = phase.into();
    }
    let patch = json!({"metadata": {"uid": pod.metadata.uid}, "status": status});
    let pods = apply::api::<Pod>(ctx, &pod.namespace().unwrap_or_default());
    let written = pods.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(patch)).await?;
    ctx.caches.assume(written.clone());
    Ok(written)
}

/// Deletes this very pod without waiting for its node, which does not exist or does not answer.
pub async fn delete_now(ctx: &Ctx, pod: &Pod) -> Result<(), kube::Error> {
    let only = Preconditions { uid: pod.uid(), resource_version: None };
    let params = DeleteParams { preconditions: Some(only), ..DeleteParams::default() }.grace_period(0);
    let pods = apply::api::<Pod>(ctx, &pod.namespace().unwrap_or_default());
    match pods.delete(&pod.name_any(), &params).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(error) => Err(error),
    }
}
