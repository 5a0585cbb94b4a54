//! Lets go of pods that no job will count any more: their job has gone, has ended, or does not own them now.
//!
//! Without this the finalizer of such a pod would keep it for ever.

use jiff::SignedDuration;
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::{
    ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::{
    is_managed,
    template::{TRACKING, is_tracked},
    verdict,
};
use crate::{
    pods::{act, controller_of},
    runner::{Controller, Ctx},
    watch::{Caches, Change, Key, Kinds},
};

/// The controller of pods without a job.
#[derive(Debug, Default)]
pub struct Orphans;

impl Controller for Orphans {
    const NAME: &'static str = "job-orphans-controller";

    fn kinds(&self, kinds: &mut Kinds) {
        kinds.add::<Job>().add::<Pod>();
    }

    fn affected(&self, change: &Change, caches: &Caches) -> Vec<Key> {
        if change.is::<Pod>() {
            let pod = caches.get::<Pod>(&change.key);
            pod.filter(|pod| is_orphan(caches, pod)).map(|_| change.key.clone()).into_iter().collect()
        } else if change.is::<Job>() {
            let pods = change.marks().flat_map(|mark| caches.controlled_by::<Pod>(&mark.uid));
            pods.filter(|pod| is_orphan(caches, pod)).map(|pod| Key::of(&*pod)).collect()
        } else {
            Vec::new()
        }
    }

    async fn reconcile(&self, ctx: &Ctx, key: &Key) -> Result<Option<SignedDuration>, kube::Error> {
        let Some(pod) = ctx.caches.get::<Pod>(key).filter(|pod| is_orphan(&ctx.caches, pod)) else { return Ok(None) };
        if is_really_orphan(ctx, &pod).await? {
            let_go(ctx, &pod).await?;
        }
        Ok(None)
    }
}

/// Only the version that was looked at: a pod that a job has adopted since is to be counted.
async fn let_go(ctx: &Ctx, pod: &Pod) -> Result<(), kube::Error> {
    let gone = json!([TRACKING]);
    let meta = json!({"resourceVersion": pod.resource_version(), "$deleteFromPrimitiveList/finalizers": gone});
    let patch = Patch::Strategic(json!({"metadata": meta}));
    let pods = act::api::<Pod>(ctx, &pod.namespace().unwrap_or_default());
    ctx.caches.assume(pods.patch(&pod.name_any(), &PatchParams::default(), &patch).await?);
    Ok(())
}

fn is_orphan(caches: &Caches, pod: &Pod) -> bool {
    is_tracked(pod) && owner(pod).is_none_or(|(key, uid)| is_done(caches.get::<Job>(&key).as_deref(), &uid))
}

/// Asks the server: the caches of jobs and pods may be of different times.
async fn is_really_orphan(ctx: &Ctx, pod: &Pod) -> Result<bool, kube::Error> {
    let Some((key, uid)) = owner(pod) else { return Ok(true) };
    let job = act::api::<Job>(ctx, &key.namespace).get_opt(&key.name).await?;
    Ok(is_done(job.as_ref(), &uid))
}

fn owner(pod: &Pod) -> Option<(Key, String)> {
    let owner = controller_of(&pod.metadata).filter(|owner| owner.kind == "Job")?;
    Some((Key::new(pod.namespace().unwrap_or_default(), &owner.name), owner.uid.clone()))
}

/// Tells whether the job of this uid has gone or ended; somebody else's jobs are somebody else's business.
fn is_done(job: Option<&Job>, uid: &str) -> bool {
    match job.filter(|job| job.metadata.uid.as_deref() == Some(uid)) {
        None => true,
        Some(job) => is_managed(job) && verdict::is_finished(job.status.as_ref()),
    }
}
