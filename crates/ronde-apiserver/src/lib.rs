//! The Kubernetes API of one machine.
//!
//! [`Apiserver`] is the API itself: a store, a router that answers every request, and the loops that a cluster cannot
//! do without (garbage collection, namespaces, CRDs). Controllers and tests in the same process talk to its router
//! through `kube::Client`, with no socket in between. [`Server`] puts it on the network, with TLS and tokens.
//!
//! It knows no controller and starts no process.
//!
//! Inside, from the outside in: `tls.rs` (TLS, tokens) and `http/` (paths, parameters, forms of answers;
//! `authorize.rs` and `impersonate.rs` ask whether they may) know HTTP; `verbs/` are get, list, watch, create,
//! update, patch and delete without it (the order of a write is in `verbs/write.rs`). `target.rs` is what a request is
//! about. `registry/` says what is served and hides whether a kind is built in (`kinds/`) or custom
//! (`schema/crd/`). `decode/`, `selector/`, `patch/`, `schema/`, `table/`, `openapi/`, `discovery.rs`, `kinds/`,
//! `pod_security/` and `rbac/` are pure (of the last, `follow.rs` and `aggregate.rs` are not: they read and write the
//! store). `store/` is the only state; `backup.rs` is its form as a file, `metrics.rs` what `/metrics` says. `gc/`,
//! `namespaces.rs` and `crds.rs` are the loops that a cluster cannot do without; `gc/graph.rs` decides for the first.

pub mod admission;
mod api;
pub mod auth;
pub mod backup;
mod certificates;
pub mod clock_and_ids;
mod crds;
pub mod decode;
pub mod discovery;
pub mod error;
mod gc;
mod http;
pub mod jsonpath;
mod kinds;
pub mod metrics;
mod namespaces;
pub mod nodes;
mod openapi;
pub mod patch;
mod pod_security;
mod rbac;
mod registry;
pub mod schema;
pub mod selector;
mod server;
pub mod store;
pub mod table;
mod target;
mod tls;
mod verbs;

/// The file in the data directory that the objects are kept in.
pub const STORE_FILE: &str = "store.redb";

pub use ronde_text::{names, quantity};

pub use self::{
    certificates::{IDENTITY_FILES, IdentityError},
    http::BACKUP_PATH,
    server::{Apiserver, OpenError, Options, Server},
    verbs::ServiceNetwork,
};
