//! Disruption budgets: keeps their status current, by which the Eviction API decides.
//!
//! [`plan`] computes; this file finds the pods and how many of them their controllers want, and writes the status. Beside it
//! runs [`stale`].

pub mod plan;
pub mod stale;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use jiff::SignedDuration;
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, ReplicaSet, StatefulSet},
        core::v1::Pod,
        policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus},
    },
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{ResourceExt as _, api::PostParams};

use ronde_runtime::{
    pods::{apply, controller_of, selects},
    runner::{Controller, Ctx},
    watch::{Caches, Change, Key, Kinds},
};

/// The controller of disruption budgets.
#[derive(Debug, Default)]
pub struct Disruption;

impl Controller for Disruption {
    const NAME: &'static str = "controllermanager";

    fn kinds(&self, kinds: &mut Kinds) {
        kinds.add::<PodDisruptionBudget>().add::<Pod>();
        kinds.add::<Deployment>().add::<ReplicaSet>().add::<StatefulSet>();
    }

    fn affected(&self, change: &Change, caches: &Caches) -> Vec<Key> {
        if change.is::<PodDisruptionBudget>() {
            return vec![change.key.clone()];
        }
        let budgets = caches.list::<PodDisruptionBudget>(Some(&change.key.namespace)).into_iter();
        let is_scaled = !change.is::<Pod>();
        // Whose pods a set has is not in its change; there are few budgets, and they are cheap to compute.
        let concerned = budgets.filter(|budget| is_scaled || change.marks().any(|mark| picks(budget, &mark.labels)));
        concerned.map(|budget| Key::of(&*budget)).collect()
    }

    async fn reconcile(&self, ctx: &Ctx, key: &Key) -> Result<Option<SignedDuration>, kube::Error> {
        let Some(budget) = ctx.caches.get::<PodDisruptionBudget>(key) else { return Ok(None) };
        let mut pods = ctx.caches.list::<Pod>(Some(&key.namespace));
        pods.retain(|pod| picks(&budget, pod.labels()));
        if pods.is_empty() {
            ctx.events.normal(&*budget, "NoPods", "No matching pods found");
        }
        let scale = |owner: &OwnerReference| scale(&ctx.caches, &key.namespace, owner);
        let now = ctx.clock.now();
        let plan = match plan::plan(&budget, &pods, &scale, now) {
            Ok(plan) => plan,
            Err(why) => {
                let message = format!("Failed to calculate the number of expected pods: {why}");
                ctx.events.warning(&*budget, "CalculateExpectedPodCountFailed", message);
                return write(ctx, &budget, plan::failed(&budget, &why, now)).await.map(|()| None);
            }
        };
        report(ctx, &budget, &plan);
        write(ctx, &budget, plan.status).await?;
        Ok(plan.look_again)
    }
}

fn picks(budget: &PodDisruptionBudget, labels: &std::collections::BTreeMap<String, String>) -> bool {
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    selector.is_some_and(|selector| selects(selector, labels))
}

/// Finds how many pods a controller wants; a replica set is counted as its deployment.
fn scale(caches: &Caches, namespace: &str, owner: &OwnerReference) -> Option<(String, i32)> {
    let key = Key::new(namespace, &owner.name);
    let (uid, replicas) = match owner.kind.as_str() {
        "ReplicaSet" => {
            let set = caches.get::<ReplicaSet>(&key)?;
            match controller_of(&set.metadata).filter(|above| above.kind == "Deployment") {
                Some(above) => {
                    let deployment = caches.get::<Deployment>(&Key::new(namespace, &above.name))?;
                    return Some((deployment.uid()?, deployment.spec.as_ref()?.replicas.unwrap_or(1)));
                }
                None => (set.uid()?, set.spec.as_ref()?.replicas),
            }
        }
        "StatefulSet" => {
            caches.get::<StatefulSet>(&key).and_then(|set| Some((set.uid()?, set.spec.as_ref()?.replicas)))?
        }
        _ => return None,
    };
    (uid == owner.uid).then(|| (uid, replicas.unwrap_or(1)))
}

fn report(ctx: &Ctx, budget: &Arc<PodDisruptionBudget>, plan: &plan::BudgetPlan) {
    if plan.unmanaged > 0 {
        ctx.events.warning(
            &**budget,
            "UnmanagedPods",
            "Pods selected by this PodDisruptionBudget were found to be unmanaged. As a result, the status of the PDB \
             cannot be calculated correctly, which may result in undefined behavior. To account for these pods please \
             set \".spec.minAvailable\" field of the PDB to an integer value.",
        );
    }
    for pod in &plan.not_deleted {
        let message = format!("Pod was expected by PDB {} to be deleted but it wasn't", Key::of(&**budget));
        ctx.events.warning(&**pod, "NotDeleted", message);
    }
}

async fn write(ctx: &Ctx, budget: &PodDisruptionBudget, status: PodDisruptionBudgetStatus) -> Result<(), kube::Error> {
    if budget.status.as_ref() == Some(&status) {
        return Ok(());
    }
    let budgets = apply::api::<PodDisruptionBudget>(ctx, &budget.namespace().unwrap_or_default());
    let budget = PodDisruptionBudget { status: Some(status), ..budget.clone() };
    ctx.caches.assume(budgets.replace_status(&budget.name_any(), &PostParams::default(), &budget).await?);
    Ok(())
}
