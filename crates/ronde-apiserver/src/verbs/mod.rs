//! The verbs of the API, independent of HTTP: get, list, watch, create, update, patch, delete.
//!
//! Every write goes the same way. [`write`] has the steps and says their order; the other files say what comes in and
//! what goes out. That the user may do what the request asks for has been checked before; [`escalation`] and
//! [`pod_security`] are what only the object shows.

pub mod allocate;
pub mod body;
pub mod create;
pub mod delete;
mod escalation;
pub mod filter;
pub mod list;
pub mod meta;
pub mod options;
pub mod patch;
mod pod_security;
pub mod review;
pub mod scale;
pub mod subresource;
pub mod update;
pub mod watch;
pub mod write;

use std::sync::Arc;

use serde_json::Value;

pub use self::allocate::ServiceNetwork;
use self::options::WriteOptions;
use crate::{
    api::Api,
    auth::User,
    error::{ApiError, Subject},
    rbac::{Attributes, Requested},
    registry::Resource,
    store::{Key, Object},
    target::Target,
};

/// One request for a resource: who asks for what.
#[derive(Clone)]
pub struct Call {
    pub api: Api,
    pub resource: Arc<Resource>,
    pub target: Target,
    pub user: User,
    pub options: WriteOptions,
}

/// What a write leads to.
pub struct Done {
    pub outcome: WriteOutcome,
    /// Shown to the user by clients, as `Warning` headers.
    pub warnings: Vec<String>,
}

/// What the answer to a write shows.
pub enum WriteOutcome {
    Created(Shown),
    Updated(Shown),
    /// Deletion has begun but the object is still there (200, or 202 while dependents are waited for).
    Deleting(Shown),
    Deleted(Value),
}

/// An object in an answer: as stored, or as it would be (dry run, subresources).
pub enum Shown {
    Stored(Arc<Object>),
    Value(Value),
}

impl Call {
    /// A call that the server makes itself, on one object given by (namespace, name).
    ///
    /// # Errors
    /// If the kind is not served (any more).
    pub fn internal(
        api: &Api,
        api_version: &str,
        kind: &str,
        place: (&str, &str),
        subresource: &str,
    ) -> Result<Self, ApiError> {
        let resource = api.registry().find_kind(api_version, kind).cloned().ok_or_else(ApiError::no_such_resource)?;
        Ok(Self::on(api, resource, place, subresource))
    }

    /// The same for a resource at hand.
    pub fn on(api: &Api, resource: Arc<Resource>, place: (&str, &str), subresource: &str) -> Self {
        let target = Target {
            group: resource.info.group.clone(),
            version: resource.info.version.clone(),
            namespace: place.0.to_owned(),
            plural: resource.info.plural.clone(),
            name: place.1.to_owned(),
            subresource: subresource.to_owned(),
            watch: false,
        };
        let user = User::admin().with_agent("ronde-apiserver");
        Self { api: api.clone(), resource, target, user, options: WriteOptions::default() }
    }

    pub fn key(&self) -> Key {
        self.key_of(&self.target.name)
    }

    pub fn key_of(&self, name: &str) -> Key {
        Key::new(&self.resource.collection, &self.target.namespace, name)
    }

    /// # Errors
    /// If the user may not do that to the object. What the request itself asks for has been checked before.
    pub fn authorize(&self, verb: &str) -> Result<(), ApiError> {
        let requested = Requested::Resource(self.target.attributes());
        self.api.authorize(&self.user, &Attributes { verb, requested })
    }

    /// The resource and object in errors such as `pods "x" not found`.
    pub fn subject(&self) -> Subject<'_> {
        Subject { group: &self.resource.info.group, what: &self.resource.info.plural, name: &self.target.name }
    }

    /// Returns the object the request is about.
    ///
    /// # Errors
    /// If it does not exist.
    pub fn find(&self) -> Result<Arc<Object>, ApiError> {
        self.api.store().get(&self.key()).ok_or_else(|| ApiError::not_found(self.subject()))
    }
}
