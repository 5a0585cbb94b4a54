//! Pods for tests: `pod("a").on("n1").ready(10).build()`. Times are seconds since the beginning of the test.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::core::v1::{Pod, PodCondition, PodStatus},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time},
};
use kube::ResourceExt as _;

/// Returns a time of the test.
pub fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).expect("a time")
}

/// A pod in the making.
#[derive(Clone)]
pub struct Making(Pod);

/// Starts a pod; its uid is its name.
pub fn pod(name: &str) -> Making {
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some("default".to_owned()),
        uid: Some(name.to_owned()),
        creation_timestamp: Some(Time(at(0))),
        ..ObjectMeta::default()
    };
    let status = PodStatus { phase: Some("Pending".to_owned()), ..PodStatus::default() };
    Making(Pod { metadata, status: Some(status), ..Pod::default() })
}

impl Making {
    pub fn on(mut self, node: &str) -> Self {
        self.0.spec.get_or_insert_default().node_name = Some(node.to_owned());
        self
    }

    pub fn phase(mut self, phase: &str) -> Self {
        self.0.status.get_or_insert_default().phase = Some(phase.to_owned());
        self
    }

    /// Running and ready since then.
    pub fn ready(self, since: i64) -> Self {
        self.phase("Running").on_condition("Ready", "True", since)
    }

    /// Ended then.
    pub fn ended(self, phase: &str, when: i64) -> Self {
        self.phase(phase).on_condition("Ready", "False", when)
    }

    pub fn on_condition(mut self, kind: &str, status: &str, since: i64) -> Self {
        let conditions = self.0.status.get_or_insert_default().conditions.get_or_insert_default();
        conditions.push(PodCondition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            last_transition_time: Some(Time(at(since))),
            ..PodCondition::default()
        });
        self
    }

    pub fn created(mut self, when: i64) -> Self {
        self.0.metadata.creation_timestamp = Some(Time(at(when)));
        self
    }

    pub fn deleted(mut self, when: i64) -> Self {
        self.0.metadata.deletion_timestamp = Some(Time(at(when) + SignedDuration::from_secs(30)));
        self.0.metadata.deletion_grace_period_seconds = Some(30);
        self
    }

    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.0.labels_mut().insert(key.to_owned(), value.to_owned());
        self
    }

    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.0.annotations_mut().insert(key.to_owned(), value.to_owned());
        self
    }

    pub fn finalizer(mut self, finalizer: &str) -> Self {
        self.0.finalizers_mut().push(finalizer.to_owned());
        self
    }

    pub fn without_finalizers(mut self) -> Self {
        self.0.metadata.finalizers = None;
        self
    }

    pub fn owner(mut self, uid: &str) -> Self {
        let owner = OwnerReference { uid: uid.to_owned(), controller: Some(true), ..OwnerReference::default() };
        self.0.owner_references_mut().push(owner);
        self
    }

    /// Changes the status as only this test needs it.
    pub fn with_status(mut self, change: impl FnOnce(&mut PodStatus)) -> Self {
        change(self.0.status.get_or_insert_default());
        self
    }

    pub fn build(self) -> Arc<Pod> {
        Arc::new(self.0)
    }
}
