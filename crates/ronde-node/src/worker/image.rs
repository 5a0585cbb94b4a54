//! The files of containers: found in a task beside the worker, because a registry may be slow or not there at all.
//!
//! The task writes the choice into the pod's folder, from where every start reads it. What is remembered here is how
//! often pulls of this pod have failed; a new worker begins anew, as a kubelet does.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Container;
use tokio_util::task::AbortOnDropHandle;

use super::{Note, Notes, Worker, observe::Blocked};
use crate::{
    images::{ContainerFiles, Request, Telling, credentials::Credentials, policy::Policy, wording},
    lifecycle::{Cause, Severity, blocked_until, pull_due},
};

/// How long a failure is shown before the wait for the next pull is.
const FAILURE_SHOWN: SignedDuration = SignedDuration::from_secs(3);

/// An image that could not be pulled.
#[derive(Debug, Clone)]
pub struct FailedPull {
    /// In a row.
    failures: u32,
    /// When it is tried again.
    due: Timestamp,
    why: String,
    /// With which secrets: others are tried at once.
    credentials: Vec<String>,
}

impl FailedPull {
    /// Whether trying again with these secrets would fail the same way.
    fn is_too_early(&self, credentials: &[String], now: Timestamp) -> bool {
        self.due > now && self.credentials == credentials
    }
}

impl Worker {
    /// Returns the files of a container that is about to start, or nothing while they are being found.
    pub(super) async fn files_of(
        &mut self,
        container: &Container,
        now: Timestamp,
    ) -> Result<Option<ContainerFiles>, Cause> {
        if self.finding.contains_key(&container.name) {
            return Ok(None);
        }
        let images = self.node.images.clone();
        let chosen = images.chosen(&self.folder, &container.name).await?;
        if chosen.is_none() {
            self.find_files(container, now);
        }
        Ok(chosen)
    }

    /// Notes that a container waits for its files. What was wrong the last time is so until they are found.
    pub(super) fn wait_for_files(&mut self, name: &str, attempt: u32, now: Timestamp) {
        let notes = self.notes.entry(name.to_owned()).or_default();
        if notes.attempt != attempt {
            *notes = Notes { attempt, ..Notes::default() };
        }
        let until = blocked_until(now);
        match &mut notes.blocked {
            Some(blocked) => blocked.until = until,
            None => notes.blocked = Some(Blocked::creating(until)),
        }
    }

    fn find_files(&mut self, container: &Container, now: Timestamp) {
        let credentials = Credentials::of_pod(&self.pod, &self.ctx.caches);
        self.tell_missing_secrets(&credentials.missing);
        let (name, image) = (container.name.clone(), container.image.clone().unwrap_or_default());
        let request = Arc::new(Request {
            folder: self.folder.clone(),
            container: name.clone(),
            policy: Policy::of_container(container),
            backing_off: self.backing_off(&image, &credentials.id, now),
            credentials,
            told: self.told.images.clone(),
            image: image.clone(),
        });
        let (images, outbox, field_path) = (self.node.images.clone(), self.outbox.clone(), self.field_path(&name));
        let task = tokio::spawn(async move {
            // An event that finds no room is not worth waiting for.
            let tell = |telling: Telling| drop(outbox.try_send(Note::PodEvent(telling.about(&field_path))));
            let failed = images.choose(&request, &tell).await.err();
            let (container, credentials) = (request.container.clone(), request.credentials.id.clone());
            let _ = outbox.send(Note::Files { container, image, credentials, failed }).await;
        });
        self.finding.insert(name, AbortOnDropHandle::new(task));
    }

    fn tell_missing_secrets(&mut self, missing: &[String]) {
        if !missing.is_empty() && self.told.secrets != missing {
            let message = wording::missing_secrets(missing);
            self.event(Severity::Warning, "", "FailedToRetrieveImagePullSecret", message);
        }
        self.told.secrets = missing.to_vec();
    }

    /// Returns why an image is not pulled now, if it is too early.
    fn backing_off(&self, image: &str, credentials: &[String], now: Timestamp) -> Option<Cause> {
        let failed = self.failed_pulls.get(image).filter(|failed| failed.is_too_early(credentials, now))?;
        let message = format!("{}: {}: {}", wording::back_off(image), wording::PULL_FAILED, failed.why);
        Some(Cause { reason: wording::BACKING_OFF.to_owned(), message })
    }

    /// Hears how it went: the container starts, or waits for the next try.
    pub(super) fn take_files(&mut self, name: &str, image: &str, credentials: Vec<String>, failed: Option<Cause>) {
        self.finding.remove(name);
        let now = self.node.clock.now();
        let until = match &failed {
            None => now,
            Some(cause) => self.next_try(image, credentials, cause, now),
        };
        if failed.is_none() {
            self.failed_pulls.remove(image);
        }
        let Some(notes) = self.notes.get_mut(name) else { return };
        match (failed, &mut notes.blocked) {
            (None, Some(blocked)) => blocked.until = until,
            (None, None) => {}
            (Some(cause), blocked) => *blocked = Some(Blocked { cause, until }),
        }
    }

    /// An image that was stored by hand is found within seconds, and so is a secret that was made late, also while the
    /// registry is left alone.
    fn next_try(&mut self, image: &str, credentials: Vec<String>, cause: &Cause, now: Timestamp) -> Timestamp {
        if cause.reason == wording::PULL_FAILED {
            let failures = self.failed_pulls.get(image).map_or(0, |failed| failed.failures).saturating_add(1);
            let failed = FailedPull { failures, due: pull_due(now, failures), why: cause.message.clone(), credentials };
            self.failed_pulls.insert(image.to_owned(), failed);
            return now.saturating_add(FAILURE_SHOWN).unwrap_or(Timestamp::MAX);
        }
        let due = self.failed_pulls.get(image).map(|failed| failed.due).filter(|due| *due > now);
        due.unwrap_or(Timestamp::MAX).min(blocked_until(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_that_comes_late_is_tried_at_once() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let failed = FailedPull { failures: 3, due: at(40), why: "denied".to_owned(), credentials: Vec::new() };
        assert!(failed.is_too_early(&[], at(39)));
        assert!(!failed.is_too_early(&["default/team@7".to_owned()], at(39)));
        assert!(!failed.is_too_early(&[], at(40)));
    }
}
