//! What the server serves: one [`Resource`] per group, version and plural, built-in or from a CRD.
//!
//! A [`Registry`] is immutable. When CRDs change, a new one is built from the stored CRDs and put in place of the old.

pub mod builtin;
mod custom;
mod events;
mod resource;

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;

pub use self::resource::{Resource, Shape};
use crate::{discovery::ResourceInfo, kinds::crd::is_served, store::Revision};

/// All resources that are served.
pub struct Registry {
    resources: BTreeMap<(String, String, String), Arc<Resource>>,
}

/// A stored CRD and the revision it was last written at.
pub type StoredCrd = (Value, Revision);

impl Registry {
    /// Builds the registry of the built-in kinds and these CRDs.
    pub fn new(crds: &[StoredCrd]) -> Self {
        let others = || crds.iter().map(|(crd, _)| crd);
        let served = crds.iter().filter(|(crd, _)| is_served(crd, others()));
        let custom = served.flat_map(|(crd, revision)| custom::resources(crd, *revision));
        let all = builtin::resources().into_iter().chain(custom);
        let path = |info: &ResourceInfo| (info.group.clone(), info.version.clone(), info.plural.clone());
        Self { resources: all.map(|resource| (path(&resource.info), Arc::new(resource))).collect() }
    }

    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.resources.get(&(group.to_owned(), version.to_owned(), plural.to_owned()))
    }

    /// Returns the resource of a kind, as owner references and scale targets name it.
    pub fn find_kind(&self, api_version: &str, kind: &str) -> Option<&Arc<Resource>> {
        self.all().find(|resource| resource.info.kind == kind && resource.info.api_version() == api_version)
    }

    pub fn all(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values()
    }

    pub fn has_group(&self, group: &str) -> bool {
        self.all().any(|resource| resource.info.group == group)
    }

    /// Whether a group has nothing but custom resources.
    pub fn is_custom_group(&self, group: &str) -> bool {
        let mut resources = self.all().filter(|resource| resource.info.group == group).peekable();
        resources.peek().is_some() && resources.all(|resource| resource.is_custom())
    }

    /// Returns one resource for each collection in the store: the version it is stored in.
    pub fn stored(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.all().filter(|resource| resource.is_storage())
    }
}
