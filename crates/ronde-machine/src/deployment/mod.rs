//! Deployments: rolls the pods of a template out through replica sets, and back.
//!
//! [`plan`] decides; this file observes from the caches, writes the replica sets and the status. It never touches a pod:
//! that is the business of the replica sets.

pub mod limits;
pub mod plan;
pub mod scale;
pub mod status;
pub mod template;
#[cfg(test)]
mod tests;

use jiff::SignedDuration;
use k8s_openapi::api::{
    apps::v1::{Deployment, DeploymentStatus, ReplicaSet},
    core::v1::Pod,
};
use kube::{
    ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use ronde_runtime::{
    pods::{
        apply::{self, Wants},
        controller_of, owners_of_change, selects,
    },
    runner::{Controller, Ctx},
    watch::{Caches, Change, Key, Kinds},
};
use serde_json::json;

use self::{
    limits::replicas,
    plan::{Observed, RolloutPlan, RolloutStep},
    status::{Reporter, reason},
    template::REVISION,
};

/// The controller of deployments.
#[derive(Debug, Default)]
pub struct Deployments;

impl Controller for Deployments {
    const NAME: &'static str = "deployment-controller";

    fn kinds(&self, kinds: &mut Kinds) {
        kinds.add::<Deployment>().add::<ReplicaSet>().add::<Pod>();
    }

    fn affected(&self, change: &Change, caches: &Caches) -> Vec<Key> {
        if change.is::<Deployment>() {
            vec![change.key.clone()]
        } else if change.is::<ReplicaSet>() {
            owners_of_change::<Deployment>(change, caches, |owner| owner.spec.as_ref().map(|spec| &spec.selector))
        } else if change.is::<Pod>() && change.new.is_none() {
            // One that recreates its pods waits for the last old one to be gone.
            change.owners("ReplicaSet").iter().filter_map(|set| owner_of_set(caches, set)).collect()
        } else {
            Vec::new()
        }
    }

    async fn reconcile(&self, ctx: &Ctx, key: &Key) -> Result<Option<SignedDuration>, kube::Error> {
        let Some(deployment) = ctx.caches.get::<Deployment>(key) else { return Ok(None) };
        // 1. observe
        let observed = observe(ctx, &deployment).await?;
        // 2. decide
        let RolloutPlan { steps, status, revision, look_again } = plan::plan(&observed, ctx.clock.now());
        // 3. act
        for step in &steps {
            apply(ctx, &deployment, step).await?;
        }
        // 4. report
        write_status(ctx, &deployment, status, revision).await?;
        Ok(look_again)
    }
}

fn owner_of_set(caches: &Caches, key: &Key) -> Option<Key> {
    let set = caches.get::<ReplicaSet>(key)?;
    let owner = controller_of(&set.metadata).filter(|owner| owner.kind == "Deployment")?;
    Some(Key::new(&key.namespace, &owner.name))
}

async fn observe<'a>(ctx: &Ctx, deployment: &'a Deployment) -> Result<Observed<'a>, kube::Error> {
    let selector = deployment.spec.as_ref().map(|spec| &spec.selector);
    let is_selected = |set: &ReplicaSet| selector.is_some_and(|selector| selects(selector, set.labels()));
    let wants = Wants { selects: &is_selected, finalizer: None };
    let candidates = apply::candidates(ctx, deployment);
    let sets = apply::claim_all(ctx, deployment, candidates, wants).await?;
    let pods = sets.iter().flat_map(|set| ctx.caches.controlled_by::<Pod>(&set.uid().unwrap_or_default())).collect();
    Ok(Observed { deployment, sets, pods })
}

async fn apply(ctx: &Ctx, deployment: &Deployment, step: &RolloutStep) -> Result<(), kube::Error> {
    match step {
        RolloutStep::Create(set) => create(ctx, deployment, set).await,
        RolloutStep::Update(set, from) => {
            let sets = apply::api::<ReplicaSet>(ctx, &set.namespace().unwrap_or_default());
            // With the version that was looked at: whoever was faster is looked at first.
            ctx.caches.assume(sets.replace(&set.name_any(), &PostParams::default(), set).await?);
            tell_scaled(ctx, deployment, set, *from);
            Ok(())
        }
        RolloutStep::Delete(set) => apply::remove(ctx, &**set).await.map(drop),
    }
}

fn tell_scaled(ctx: &Ctx, deployment: &Deployment, set: &ReplicaSet, from: i32) {
    let to = replicas(set);
    if from == to {
        return;
    }
    let direction = if from < to { "up" } else { "down" };
    let text = format!("Scaled {direction} replica set {} from {from} to {to}", set.name_any());
    ctx.events.normal(deployment, "ScalingReplicaSet", text);
}

async fn create(ctx: &Ctx, deployment: &Deployment, set: &ReplicaSet) -> Result<(), kube::Error> {
    let sets = apply::api::<ReplicaSet>(ctx, &set.namespace().unwrap_or_default());
    match sets.create(&PostParams::default(), set).await {
        Ok(made) => {
            tell_scaled(ctx, deployment, &made, 0);
            ctx.caches.assume(made);
            Ok(())
        }
        Err(error) if apply::is_taken(&error) => {
            let other = sets.get(&set.name_any()).await?;
            let is_own = controller_of(&other.metadata).map(|owner| &owner.uid) == deployment.metadata.uid.as_ref();
            if !is_own || !template::has_template(deployment, &other) {
                count_collision(ctx, deployment).await?;
            }
            // Either way the next look has what this one lacked.
            ctx.caches.assume(other);
            Err(error)
        }
        Err(error) => {
            let text = format!("Failed to create new replica set {:?}: {}", set.name_any(), apply::text(&error));
            ctx.events.warning(deployment, reason::CREATE_ERROR, text.clone());
            let mut reporter = Reporter::new(deployment, ctx.clock.now());
            reporter.note_create_error(&text);
            let observed = observe(ctx, deployment).await?;
            let (new, old) = template::split(deployment, &observed.sets);
            write_status(ctx, deployment, reporter.counts(new.as_ref(), &old), None).await?;
            Err(error)
        }
    }
}

/// Makes the next name another one.
async fn count_collision(ctx: &Ctx, deployment: &Deployment) -> Result<(), kube::Error> {
    let before = deployment.status.as_ref().and_then(|status| status.collision_count).unwrap_or(0);
    let meta = json!({"resourceVersion": deployment.metadata.resource_version});
    let patch = Patch::Merge(json!({"metadata": meta, "status": {"collisionCount": before + 1}}));
    let deployments = apply::api::<Deployment>(ctx, &deployment.namespace().unwrap_or_default());
    let patched = deployments.patch_status(&deployment.name_any(), &PatchParams::default(), &patch).await?;
    ctx.caches.assume(patched);
    Ok(())
}

/// Writes the status and, with it, the revision: both are the controller's.
async fn write_status(
    ctx: &Ctx,
    deployment: &Deployment,
    status: DeploymentStatus,
    revision: Option<String>,
) -> Result<(), kube::Error> {
    let is_known = revision.is_none() || deployment.annotations().get(REVISION) == revision.as_ref();
    if is_known && deployment.status.as_ref() == Some(&status) {
        return Ok(());
    }
    let mut deployment = Deployment { status: Some(status), ..deployment.clone() };
    if let Some(revision) = revision {
        deployment.annotations_mut().insert(REVISION.to_owned(), revision);
    }
    let deployments = apply::api::<Deployment>(ctx, &deployment.namespace().unwrap_or_default());
    let name = deployment.name_any();
    ctx.caches.assume(deployments.replace_status(&name, &PostParams::default(), &deployment).await?);
    Ok(())
}
