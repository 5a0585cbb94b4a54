//! The Kubernetes API of one machine.
//!
//! [`Apiserver`] is the API itself: a store, a router that answers every request, and the loops that a cluster cannot
//! do without (garbage collection, namespaces, CRDs). Controllers and tests in the same process talk to its router
//! through `kube::Client`, with no socket in between. [`Server`] puts it on the network, with TLS and tokens.
//!
//! It knows no controller and starts no process.

pub mod admission;
mod api;
pub mod auth;
mod crds;
pub mod decode;
pub mod discovery;
pub mod error;
mod gc;
mod http;
mod identity;
pub mod jsonpath;
mod kinds;
mod namespaces;
pub mod nodes;
mod openapi;
pub mod patch;
mod registry;
pub mod schema;
pub mod selector;
mod serve;
mod server;
pub mod store;
pub mod table;
mod verbs;
pub mod world;

pub use ronde_text::{names, quantity};

pub use self::{
    identity::IdentityError,
    server::{Apiserver, OpenError, Options, Server},
    verbs::ServiceNetwork,
};
