//! Replica sets: keeps the number of pods that each asks for.
//!
//! [`plan`] decides; this file observes from the caches, acts and writes the status. Run by the runner beside the other
//! workloads; knows nothing of deployments but that sets with the same owner are related.

pub mod plan;
#[cfg(test)]
mod tests;

use jiff::SignedDuration;
use k8s_openapi::api::{
    apps::v1::{ReplicaSet, ReplicaSetStatus},
    core::v1::Pod,
};
use kube::{ResourceExt as _, api::PostParams};
use ronde_runtime::{
    pods::{
        self,
        apply::{self, Wants},
        controller_of, is_active, owners_of_change, selects,
    },
    runner::{Controller, Ctx},
    watch::{Caches, Change, Key, Kinds},
};

use self::plan::{Failure, Observed, ReplicaPlan};

/// The controller of replica sets.
#[derive(Debug, Default)]
pub struct ReplicaSets;

impl Controller for ReplicaSets {
    const NAME: &'static str = "replicaset-controller";

    fn kinds(&self, kinds: &mut Kinds) {
        kinds.add::<ReplicaSet>().add::<Pod>();
    }

    fn affected(&self, change: &Change, caches: &Caches) -> Vec<Key> {
        if change.is::<ReplicaSet>() {
            vec![change.key.clone()]
        } else if change.is::<Pod>() {
            owners_of_change::<ReplicaSet>(change, caches, |set| set.spec.as_ref().map(|spec| &spec.selector))
        } else {
            Vec::new()
        }
    }

    async fn reconcile(&self, ctx: &Ctx, key: &Key) -> Result<Option<SignedDuration>, kube::Error> {
        let Some(set) = ctx.caches.get::<ReplicaSet>(key) else { return Ok(None) };
        // 1. observe
        adopt_and_release(ctx, &set).await?;
        let observed = observe(ctx, &set);
        // 2. decide
        let plan = plan::plan(&observed, ctx.clock.now());
        // 3. act
        let done = apply(ctx, &set, &plan).await;
        // 4. report
        let observed = observe(ctx, &set);
        let (reason, message) = (failure_reason(&plan), done.as_ref().err().map(apply::text));
        let failure = message.as_ref().map(|message| Failure { reason, message });
        let now = ctx.clock.now();
        write_status(ctx, &set, plan::status(&observed, failure, now)).await?;
        done.map(|()| plan::look_again(&observed, now))
    }
}

async fn adopt_and_release(ctx: &Ctx, set: &ReplicaSet) -> Result<(), kube::Error> {
    let mut candidates = apply::candidates::<_, Pod>(ctx, set);
    candidates.retain(|pod| is_active(pod));
    let wants = Wants { selects: &|pod| is_selected(set, pod), finalizer: None };
    apply::claim_all(ctx, set, candidates, wants).await.map(drop)
}

fn observe<'a>(ctx: &Ctx, set: &'a ReplicaSet) -> Observed<'a> {
    let mut pods = ctx.caches.controlled_by::<Pod>(&set.uid().unwrap_or_default());
    pods.retain(|pod| is_active(pod) && is_selected(set, pod));
    let related = match controller_of(&set.metadata) {
        None => pods.clone(),
        Some(owner) => {
            let sets = ctx.caches.controlled_by::<ReplicaSet>(&owner.uid);
            sets.iter().flat_map(|set| ctx.caches.controlled_by::<Pod>(&set.uid().unwrap_or_default())).collect()
        }
    };
    Observed { set, pods, related }
}

fn is_selected(set: &ReplicaSet, pod: &Pod) -> bool {
    set.spec.as_ref().is_some_and(|spec| selects(&spec.selector, pod.labels()))
}

async fn apply(ctx: &Ctx, set: &ReplicaSet, plan: &ReplicaPlan) -> Result<(), kube::Error> {
    match plan {
        ReplicaPlan::Keep => Ok(()),
        ReplicaPlan::Create(number) => {
            let template = set.spec.as_ref().and_then(|spec| spec.template.as_ref());
            let pod = template.map(|template| pods::build(template, set));
            apply::create_all(ctx, set, pod.into_iter().cycle().take(*number).collect()).await
        }
        ReplicaPlan::Delete(pods) => apply::delete_all(ctx, set, pods).await,
    }
}

fn failure_reason(plan: &ReplicaPlan) -> &'static str {
    if matches!(plan, ReplicaPlan::Delete(_)) { "FailedDelete" } else { "FailedCreate" }
}

async fn write_status(ctx: &Ctx, set: &ReplicaSet, status: ReplicaSetStatus) -> Result<(), kube::Error> {
    if set.status.as_ref() == Some(&status) {
        return Ok(());
    }
    let sets = apply::api::<ReplicaSet>(ctx, &set.namespace().unwrap_or_default());
    let set = ReplicaSet { status: Some(status), ..set.clone() };
    ctx.caches.assume(sets.replace_status(&set.name_any(), &PostParams::default(), &set).await?);
    Ok(())
}
