//! Endpoints and EndpointSlices: which pods answer for a service, on which ports, and whether they are ready.
//!
//! [`plan`] decides; this file observes from the caches and writes. Services without a selector keep the Endpoints that
//! their users wrote, mirrored into slices. What a deleted service leaves: its slices go with their owner, its
//! Endpoints go here.

pub mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use jiff::SignedDuration;
use k8s_openapi::api::{
    core::v1::{Endpoints, Node, Pod, Service},
    discovery::v1::EndpointSlice,
};
use kube::{ResourceExt as _, api::PostParams};
use ronde_runtime::{
    pods::apply,
    runner::{Controller, Ctx},
    watch::{Caches, Change, Key, Kinds},
};

use self::plan::{Slices, selects};

/// The controller of endpoints; its keys are those of services.
#[derive(Debug, Default)]
pub struct EndpointsController;

impl Controller for EndpointsController {
    const NAME: &'static str = plan::ENDPOINTS_MANAGER;

    fn kinds(&self, kinds: &mut Kinds) {
        kinds.add::<Service>().add::<Pod>().add::<Node>().add::<Endpoints>().add::<EndpointSlice>();
    }

    fn affected(&self, change: &Change, caches: &Caches) -> Vec<Key> {
        let namespace = &change.key.namespace;
        if change.is::<Service>() || change.is::<Endpoints>() {
            vec![change.key.clone()]
        } else if change.is::<Pod>() {
            let services = caches.list::<Service>(Some(namespace)).into_iter();
            let concerned = services.filter(|service| change.marks().any(|mark| selects(service, &mark.labels)));
            concerned.map(|service| Key::of(&*service)).collect()
        } else if change.is::<EndpointSlice>() {
            let names = change.marks().filter_map(|mark| mark.labels.get(plan::SERVICE_NAME));
            names.map(|name| Key::new(namespace, name)).collect()
        } else {
            Vec::new()
        }
    }

    async fn reconcile(&self, ctx: &Ctx, key: &Key) -> Result<Option<SignedDuration>, kube::Error> {
        let endpoints = ctx.caches.get::<Endpoints>(key);
        let Some(service) = ctx.caches.get::<Service>(key) else {
            return remove_left_over(ctx, endpoints).await.map(|()| None);
        };
        if service.metadata.deletion_timestamp.is_some() {
            return Ok(None);
        }
        let pods = selected_pods(ctx, &service);
        if let Some(wanted) = plan::endpoints(&service, &pods, endpoints.as_deref()) {
            write_endpoints(ctx, wanted).await?;
        }
        let zone = |node: &str| {
            let node = ctx.caches.get::<Node>(&Key::new("", node))?;
            node.labels().get("topology.kubernetes.io/zone").cloned()
        };
        let slices = own_slices(ctx, &service);
        let wanted = plan::wanted(&service, &pods, endpoints.as_deref(), &zone);
        write_slices(ctx, plan::slices(&service, wanted, &slices)).await.map(|()| None)
    }
}

fn selected_pods(ctx: &Ctx, service: &Service) -> Vec<Arc<Pod>> {
    let mut pods = ctx.caches.list::<Pod>(Some(&service.namespace().unwrap_or_default()));
    pods.retain(|pod| selects(service, pod.labels()));
    pods
}

/// The slices that this controller made for a service; slices of others are left alone.
fn own_slices(ctx: &Ctx, service: &Service) -> Vec<Arc<EndpointSlice>> {
    let mut slices = ctx.caches.controlled_by::<EndpointSlice>(&service.uid().unwrap_or_default());
    slices.retain(|slice| slice.metadata.deletion_timestamp.is_none() && plan::is_own(slice));
    slices
}

async fn remove_left_over(ctx: &Ctx, endpoints: Option<Arc<Endpoints>>) -> Result<(), kube::Error> {
    match endpoints.filter(|endpoints| endpoints.labels().contains_key(plan::ENDPOINTS_MANAGED_BY)) {
        Some(endpoints) => apply::remove(ctx, &*endpoints).await.map(drop),
        None => Ok(()),
    }
}

async fn write_endpoints(ctx: &Ctx, wanted: Endpoints) -> Result<(), kube::Error> {
    let api = apply::api::<Endpoints>(ctx, &wanted.namespace().unwrap_or_default());
    let written = if wanted.metadata.resource_version.is_none() {
        api.create(&PostParams::default(), &wanted).await?
    } else {
        api.replace(&wanted.name_any(), &PostParams::default(), &wanted).await?
    };
    ctx.caches.assume(written);
    Ok(())
}

async fn write_slices(ctx: &Ctx, slices: Slices) -> Result<(), kube::Error> {
    for slice in &slices.create {
        let api = apply::api::<EndpointSlice>(ctx, &slice.namespace().unwrap_or_default());
        ctx.caches.assume(api.create(&PostParams::default(), slice).await?);
    }
    for slice in &slices.update {
        let api = apply::api::<EndpointSlice>(ctx, &slice.namespace().unwrap_or_default());
        ctx.caches.assume(api.replace(&slice.name_any(), &PostParams::default(), slice).await?);
    }
    for slice in &slices.delete {
        apply::remove(ctx, &**slice).await?;
    }
    Ok(())
}
