//! Takes back the mark of pods that were to be ended and were not: whoever wrote it was killed, or has thought better of it.
//!
//! Else a pod that fails by its own fault much later would be excused. Marks of nodes are theirs: they may take as long as
//! they want.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;

use ronde_runtime::{
    pods::{condition, disruption, is_deleted, is_finished},
    podstatus,
    runner::{Controller, Ctx},
    watch::{Caches, Change, Key, Kinds},
};

/// As long as Kubernetes waits.
const STALE_AFTER: SignedDuration = SignedDuration::from_mins(2);

/// The controller of marks; its keys are those of pods.
#[derive(Debug, Default)]
pub struct StaleMarks;

impl Controller for StaleMarks {
    const NAME: &'static str = "stale-pod-disruption-controller";

    fn kinds(&self, kinds: &mut Kinds) {
        kinds.add::<Pod>();
    }

    fn affected(&self, change: &Change, caches: &Caches) -> Vec<Key> {
        let pod = change.is::<Pod>().then(|| caches.get::<Pod>(&change.key)).flatten();
        let is_marked = pod.is_some_and(|pod| marked_since(&pod).is_some());
        if is_marked { vec![change.key.clone()] } else { Vec::new() }
    }

    async fn reconcile(&self, ctx: &Ctx, key: &Key) -> Result<Option<SignedDuration>, kube::Error> {
        let Some(pod) = ctx.caches.get::<Pod>(key) else { return Ok(None) };
        let Some(since) = marked_since(&pod) else { return Ok(None) };
        let now = ctx.clock.now();
        let left = since.duration_since(now) + STALE_AFTER;
        if left.is_positive() {
            return Ok(Some(left));
        }
        let off = podstatus::build_condition(&pod, disruption::CONDITION, "False", ("", ""), now);
        match podstatus::write(ctx, &pod, &[off], None).await {
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(None),
            written => written.map(|_| None),
        }
    }
}

/// Returns since when a pod that nobody has deleted is marked to be ended by the control plane.
fn marked_since(pod: &Pod) -> Option<Timestamp> {
    let mark = condition(pod, disruption::CONDITION).filter(|mark| mark.status == "True")?;
    let is_open = !is_deleted(pod) && !is_finished(pod) && mark.reason.as_deref() != Some(disruption::BY_NODE);
    mark.last_transition_time.as_ref().filter(|_| is_open).map(|time| time.0)
}
