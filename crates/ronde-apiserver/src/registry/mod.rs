//! What the server serves: one [`Resource`] per group, version and plural, built-in or from a CRD.
//!
//! A [`Registry`] is immutable. When CRDs change, a new one is built from the stored CRDs and put in place of the old;
//! what has not changed is shared by both.

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
    resources: BTreeMap<Path, Arc<Resource>>,
}

/// A stored CRD and the revision it was last written at.
pub type StoredCrd = (Value, Revision);

impl Registry {
    /// Builds the registry of the built-in kinds.
    pub fn builtin() -> Self {
        Self { resources: builtin::resources().into_iter().map(Arc::new).map(with_path).collect() }
    }

    /// Builds the registry of the built-in kinds and these CRDs, which follows this one.
    pub fn next(&self, crds: &[StoredCrd]) -> Self {
        let others = || crds.iter().map(|(crd, _)| crd);
        let served = crds.iter().filter(|(crd, _)| is_served(crd, others()));
        let custom = served.flat_map(|(crd, revision)| custom::resources(crd, *revision, self));
        let builtin = self.all().filter(|resource| !resource.is_custom()).cloned();
        Self { resources: builtin.chain(custom).map(with_path).collect() }
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

type Path = (String, String, String);

fn with_path(resource: Arc<Resource>) -> (Path, Arc<Resource>) {
    let info: &ResourceInfo = &resource.info;
    ((info.group.clone(), info.version.clone(), info.plural.clone()), resource)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn crd(plural: &str, field: &str) -> Value {
        let schema = json!({"type": "object", "properties": {field: {"type": "string"}}});
        let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
        json!({
            "metadata": {"name": format!("{plural}.x.test")},
            "spec": {"group": "x.test", "names": {"plural": plural, "kind": plural}, "versions": [version]},
            "status": {"conditions": [{"type": "Established", "status": "True"}]},
        })
    }

    #[test]
    fn what_has_not_changed_is_shared() {
        let before = Registry::builtin().next(&[(crd("as", "f"), 1), (crd("bs", "f"), 2)]);
        let after = before.next(&[(crd("as", "f"), 1), (crd("bs", "g"), 3)]);
        let find = |registry: &Registry, plural: &str| registry.find("x.test", "v1", plural).expect("served").clone();
        assert!(Arc::ptr_eq(&find(&before, "as"), &find(&after, "as")));
        let changed = find(&after, "bs");
        assert!(changed.schema().field("g").is_some() && changed.schema().field("f").is_none());
        let gone = after.next(&[(crd("as", "f"), 1)]);
        assert!(gone.find("x.test", "v1", "bs").is_none());
    }
}
