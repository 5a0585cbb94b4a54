//! Stateful sets: pods with names, claims and revisions of their own, made and replaced in order.
//!
//! [`plan`] decides about pods and claims, [`revisions`] about the history; this file observes, acts and reports. Names are
//! fixed, so acting on an old view of the world makes nothing twice.

pub mod claims;
pub mod plan;
pub mod pod;
pub mod revisions;
#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, sync::Arc};

use jiff::SignedDuration;
use k8s_openapi::api::{
    apps::v1::{ControllerRevision, StatefulSet, StatefulSetStatus},
    core::v1::{PersistentVolumeClaim, Pod},
};
use kube::{Api, ResourceExt as _, api::PostParams};
use ronde_runtime::{
    pods::{
        apply::{self, Wants},
        owners_of_change, selects,
    },
    runner::{Controller, Ctx},
    watch::{Caches, Change, Key, Kinds},
};

use self::{
    plan::{Action, Observed, Revision},
    revisions::Choice,
};

/// How many names are tried for a revision before giving up until later.
const COLLISIONS_MAX: i32 = 8;

/// The controller of stateful sets.
#[derive(Debug, Default)]
pub struct StatefulSets;

impl Controller for StatefulSets {
    const NAME: &'static str = "statefulset-controller";

    fn kinds(&self, kinds: &mut Kinds) {
        kinds.add::<StatefulSet>().add::<Pod>().add::<PersistentVolumeClaim>().add::<ControllerRevision>();
    }

    fn affected(&self, change: &Change, caches: &Caches) -> Vec<Key> {
        if change.is::<StatefulSet>() {
            vec![change.key.clone()]
        } else if change.is::<Pod>() || change.is::<ControllerRevision>() {
            owners_of_change::<StatefulSet>(change, caches, |set| set.spec.as_ref().map(|spec| &spec.selector))
        } else if change.is::<PersistentVolumeClaim>() {
            let sets = caches.list::<StatefulSet>(Some(&change.key.namespace)).into_iter();
            sets.filter(|set| has_claim(set, &change.key.name)).map(|set| Key::of(&*set)).collect()
        } else {
            Vec::new()
        }
    }

    async fn reconcile(&self, ctx: &Ctx, key: &Key) -> Result<Option<SignedDuration>, kube::Error> {
        let Some(set) = ctx.caches.get::<StatefulSet>(key) else { return Ok(None) };
        // 1. observe
        adopt_and_release(ctx, &set).await?;
        let history = history(ctx, &set).await?;
        let Some(observed) = observe(ctx, &set, &history) else { return Ok(None) };
        // 2. decide
        let actions = plan::plan(&observed, ctx.clock.now());
        // 3. act
        let done = apply_all(ctx, &set, &actions).await;
        // 4. report
        let Some(observed) = observe(ctx, &set, &history) else { return Ok(None) };
        let now = ctx.clock.now();
        write_status(ctx, &set, plan::status(&observed, now)).await?;
        done?;
        // 5. forget old revisions
        forget(ctx, &set, &history, &observed).await?;
        Ok(plan::look_again(&observed, now))
    }
}

fn has_claim(set: &StatefulSet, claim: &str) -> bool {
    let of_template = |template: &PersistentVolumeClaim| format!("{}-{}-", template.name_any(), set.name_any());
    pod::templates(set).any(|template| claim.starts_with(&of_template(template)))
}

fn is_member(set: &StatefulSet, pod: &Pod) -> bool {
    let is_selected = set.spec.as_ref().is_some_and(|spec| selects(&spec.selector, pod.labels()));
    is_selected && pod::ordinal(set, &pod.name_any()).is_some()
}

async fn adopt_and_release(ctx: &Ctx, set: &StatefulSet) -> Result<(), kube::Error> {
    let wants = Wants { selects: &|pod| is_member(set, pod), finalizer: None };
    apply::claim_all::<_, Pod>(ctx, set, apply::candidates(ctx, set), wants).await.map(drop)
}

/// The revisions of a set, and the one of its template.
struct History {
    /// Oldest first.
    revisions: Vec<Arc<ControllerRevision>>,
    update: Arc<ControllerRevision>,
    collisions: i32,
}

/// Returns the history of a set after making sure that its template is in it.
async fn history(ctx: &Ctx, set: &StatefulSet) -> Result<History, kube::Error> {
    let selector = set.spec.as_ref().map(|spec| &spec.selector);
    let is_selected =
        |revision: &ControllerRevision| selector.is_some_and(|selector| selects(selector, revision.labels()));
    let wants = Wants { selects: &is_selected, finalizer: None };
    let mut revisions = apply::claim_all(ctx, set, apply::candidates(ctx, set), wants).await?;
    revisions::sort(&mut revisions);
    let mut collisions = set.status.as_ref().and_then(|status| status.collision_count).unwrap_or(0);
    let api = apply::api::<ControllerRevision>(ctx, &set.namespace().unwrap_or_default());
    let update = match revisions::choose(set, &revisions, collisions) {
        Choice::Use(revision) => revision,
        Choice::Renumber(revision) => {
            let renumbered = api.replace(&revision.name_any(), &PostParams::default(), &revision).await?;
            ctx.caches.assume(renumbered.clone());
            Arc::new(renumbered)
        }
        Choice::Create(revision) => {
            let made = create_revision(set, &api, revision.revision, &mut collisions).await?;
            ctx.caches.assume(made.clone());
            Arc::new(made)
        }
    };
    Ok(History { revisions, update, collisions })
}

/// Makes a revision; a name that is taken by another content leads to another name.
async fn create_revision(
    set: &StatefulSet,
    api: &Api<ControllerRevision>,
    number: i64,
    collisions: &mut i32,
) -> Result<ControllerRevision, kube::Error> {
    let last = *collisions + COLLISIONS_MAX;
    loop {
        let revision = revisions::build(set, number, *collisions);
        match api.create(&PostParams::default(), &revision).await {
            Err(error) if apply::is_taken(&error) && *collisions < last => {
                let other = api.get(&revision.name_any()).await?;
                if other.data == revision.data {
                    return Ok(other);
                }
                *collisions += 1;
            }
            other => return other,
        }
    }
}

/// Returns none for a set whose template or history cannot be read.
fn observe<'a>(ctx: &Ctx, set: &'a StatefulSet, history: &History) -> Option<Observed<'a>> {
    let mut pods = ctx.caches.controlled_by::<Pod>(&set.uid().unwrap_or_default());
    pods.retain(|pod| is_member(set, pod));
    let claims = match pod::templates(set).next() {
        Some(_) => ctx.caches.list::<PersistentVolumeClaim>(set.namespace().as_deref()),
        None => Vec::new(),
    };
    let before = set.status.as_ref().and_then(|status| status.current_revision.as_ref());
    let current = history.revisions.iter().find(|revision| Some(&revision.name_any()) == before);
    Some(Observed {
        set,
        spec: set.spec.as_ref()?,
        pods,
        claims: claims.into_iter().map(|claim| (claim.name_any(), claim)).collect(),
        current: revision(current.unwrap_or(&history.update))?,
        update: revision(&history.update)?,
        collisions: history.collisions,
    })
}

fn revision(revision: &ControllerRevision) -> Option<Revision> {
    Some(Revision { name: revision.name_any(), template: revisions::template(revision)? })
}

async fn apply_all(ctx: &Ctx, set: &StatefulSet, actions: &[Action]) -> Result<(), kube::Error> {
    for action in actions {
        let done = apply(ctx, set, action).await;
        record_event(ctx, set, action, done.as_ref().err());
        done?;
    }
    Ok(())
}

async fn apply(ctx: &Ctx, set: &StatefulSet, action: &Action) -> Result<(), kube::Error> {
    let namespace = set.namespace().unwrap_or_default();
    let claims = apply::api::<PersistentVolumeClaim>(ctx, &namespace);
    let pods = apply::api::<Pod>(ctx, &namespace);
    let params = PostParams::default();
    match action {
        Action::CreateClaim(claim, _) => ctx.caches.assume(claims.create(&params, claim).await?),
        Action::UpdateClaim(claim) => ctx.caches.assume(claims.replace(&claim.name_any(), &params, claim).await?),
        Action::CreatePod(pod) => ctx.caches.assume(pods.create(&params, pod).await?),
        Action::UpdatePod(pod) => ctx.caches.assume(pods.replace(&pod.name_any(), &params, pod).await?),
        Action::DeletePod(pod) => drop(apply::remove(ctx, &**pod).await?),
    }
    Ok(())
}

/// Tells people what was done or could not be; a name that is taken is an old view of the world, not a failure.
fn record_event(ctx: &Ctx, set: &StatefulSet, action: &Action, error: Option<&kube::Error>) {
    let (verb, good, bad, what) = match action {
        Action::CreateClaim(claim, pod) => {
            let what = format!("Claim {} Pod {pod}", claim.name_any());
            ("create", "SuccessfulCreate", "FailedCreate", what)
        }
        Action::CreatePod(pod) => ("create", "SuccessfulCreate", "FailedCreate", format!("Pod {}", pod.name_any())),
        Action::UpdatePod(pod) => ("update", "SuccessfulUpdate", "FailedUpdate", format!("Pod {}", pod.name_any())),
        Action::DeletePod(pod) => ("delete", "SuccessfulDelete", "FailedDelete", format!("Pod {}", pod.name_any())),
        Action::UpdateClaim(_) => return,
    };
    let name = set.name_any();
    match error {
        None => {
            let end = if matches!(action, Action::CreateClaim(..)) { "success" } else { "successful" };
            ctx.events.normal(set, good, format!("{verb} {what} in StatefulSet {name} {end}"));
        }
        Some(error) if apply::is_taken(error) => {}
        Some(error) => {
            let text = apply::text(error);
            ctx.events.warning(set, bad, format!("{verb} {what} in StatefulSet {name} failed error: {text}"));
        }
    }
}

async fn write_status(ctx: &Ctx, set: &StatefulSet, status: StatefulSetStatus) -> Result<(), kube::Error> {
    if set.status.as_ref() == Some(&status) {
        return Ok(());
    }
    let sets = apply::api::<StatefulSet>(ctx, &set.namespace().unwrap_or_default());
    let set = StatefulSet { status: Some(status), ..set.clone() };
    ctx.caches.assume(sets.replace_status(&set.name_any(), &PostParams::default(), &set).await?);
    Ok(())
}

async fn forget(ctx: &Ctx, set: &StatefulSet, history: &History, observed: &Observed<'_>) -> Result<(), kube::Error> {
    let pods = observed.pods.iter().map(|pod| pod::revision(pod).to_owned());
    let used: BTreeSet<String> = pods.chain([observed.current.name.clone(), observed.update.name.clone()]).collect();
    for revision in revisions::surplus(set, &history.revisions, &used) {
        apply::remove(ctx, &*revision).await?;
    }
    Ok(())
}
