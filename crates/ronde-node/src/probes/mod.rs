//! Probes and lifecycle hooks of containers.
//!
//! `state` counts results (pure, in time since the container's start); `task` is the one task per container that
//! performs all its probes; `hook` runs postStart and preStop handlers once. How a container is reached — by an
//! address or by a command inside of it — is given as a [`Reach`]. Restarts nothing: that is `lifecycle`'s to decide.

mod grpc;
mod handler;
mod hook;
mod http;
mod state;
mod task;
mod url;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;

use std::{future::Future, io};

use k8s_openapi::api::core::v1::Container;
use tokio::io::{AsyncRead, AsyncWrite};

pub use self::{
    hook::run_hook,
    state::{Health, Kind, ProbeOutcome, ProbeState},
    task::{Watching, watch_health},
};

/// How probes and hooks get at a container.
pub trait Reach: Send + Sync {
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// Connects to a host (an address or a name) as the node sees it.
    fn connect(&self, host: &str, port: u16) -> impl Future<Output = io::Result<Self::Stream>> + Send;

    /// Runs a command in the container. It ends when the future is dropped.
    fn exec(&self, command: &[String]) -> impl Future<Output = io::Result<Executed>> + Send;
}

/// How a command in a container ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executed {
    pub code: i32,
    /// What it wrote, stdout before stderr; a few kilobytes are enough.
    pub output: Vec<u8>,
}

/// A running container and how to get at it.
#[derive(Debug, Clone)]
pub struct Target<R> {
    pub reach: R,
    pub container: Container,
    /// The pod's address: where probes go that name no host.
    pub pod_ip: String,
    /// `name_namespace(uid)`, for messages.
    pub pod: String,
    /// `spec.containers{a}`, for events.
    pub field_path: String,
}
