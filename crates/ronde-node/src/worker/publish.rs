//! What the API hears of a pod: its status, its events, its end.

use std::io;

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::PostParams};
use ronde_runtime::pods::apply::remove_within;

use super::Worker;
use crate::lifecycle::{Decision, PodEvent, Severity};

impl Worker {
    pub(super) fn api(&self) -> Api<Pod> {
        let namespace = self.pod.metadata.namespace.as_deref().unwrap_or_default();
        Api::namespaced(self.node.client.clone(), namespace)
    }

    /// Publishes the status if it has changed; returns whether the decision still stands.
    pub(super) async fn publish(&mut self, decision: &Decision) -> io::Result<bool> {
        for event in &decision.events {
            self.record_event(event);
        }
        if self.pod.status.as_ref() == Some(&decision.status) {
            return Ok(true);
        }
        if self.gone {
            // Nobody is left to tell, but the next decision builds on this one: it waits for a terminal phase.
            self.pod.status = Some(decision.status.clone());
            return Ok(false);
        }
        let mut next = self.pod.clone();
        next.status = Some(decision.status.clone());
        next.metadata.managed_fields = None;
        let name = next.metadata.name.clone().unwrap_or_default();
        match self.api().replace_status(&name, &PostParams::default(), &next).await {
            Ok(published) => {
                self.ctx.caches.assume(published.clone());
                self.pod = published;
                Ok(true)
            }
            // Somebody else was faster: look at the pod as it is now.
            Err(kube::Error::Api(status)) if status.code == 409 => {
                if let Ok(newest) = self.api().get(&name).await
                    && newest.metadata.uid == self.pod.metadata.uid
                {
                    self.pod = newest;
                }
                Ok(false)
            }
            Err(kube::Error::Api(status)) if status.code == 404 => {
                self.gone = true;
                Ok(false)
            }
            Err(error) => Err(io::Error::other(error)),
        }
    }

    pub(super) fn record_event(&self, event: &PodEvent) {
        let is_warning = event.severity == Severity::Warning;
        self.ctx.events.about_part(&self.pod, &event.field_path, is_warning, &event.reason, event.message.clone());
    }

    /// An event of a whole pod or of one of its containers.
    pub(super) fn event(&self, severity: Severity, container: &str, reason: &str, message: impl Into<String>) {
        let field_path = if container.is_empty() { String::new() } else { self.field_path(container) };
        self.record_event(&PodEvent { severity, reason: reason.to_owned(), message: message.into(), field_path });
    }

    /// Where events of a container point to.
    pub(super) fn field_path(&self, container: &str) -> String {
        let inits = self.pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
        let is_init = inits.into_iter().any(|init| init.name == container);
        format!("spec.{}{{{container}}}", if is_init { "initContainers" } else { "containers" })
    }

    /// Deletes the object for good, and the pod's folder. Finalizers may keep the object; then it stays in the cache too.
    pub(super) async fn release(&mut self) -> io::Result<()> {
        if !self.gone {
            remove_within(&self.ctx, &self.pod, Some(0)).await.map_err(io::Error::other)?;
        }
        self.remove_folder()
    }
}
