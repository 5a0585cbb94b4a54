//! What the kinds default to, and what is wrong with them: pure functions, one module per kind.
//!
//! Called in process by the admission of the one-machine API server and, on a cluster, by the controllers before they
//! act; what can be said without other objects is also in the CRDs. Each `validate` returns all faults at once.
//! Facts about other objects are arguments.

pub mod budget;
pub mod command;
pub mod cron_job;
pub mod hyper_node;
pub mod job;
pub mod job_flow;
pub mod occupants;
pub mod pod_group;
pub mod queue;
pub mod scaler;
pub mod training_job;

mod dependencies;
mod fault;
mod policies;
mod queues;
mod tasks;
mod topology;
mod tree;
mod unchanged;

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod phrases;

pub use self::{
    fault::{Fault, FaultKind},
    queues::Queues,
};

/// The most pods of one job: its controller holds all of them at once, with some 10 KB for each.
pub const PODS_MAX: i32 = 10_000;

/// When an object is defaulted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Create,
    Update,
}

/// Returns the queue of a job or group: what it names, unless that is the default one and its namespace, by the
/// annotation [`crate::names::GROUP_QUEUE`], has another.
pub fn queue_in_namespace<'a>(named: &'a str, of_namespace: Option<&'a str>) -> &'a str {
    let default = of_namespace.filter(|queue| !queue.is_empty()).unwrap_or(crate::names::DEFAULT_QUEUE);
    if named.is_empty() || named == crate::names::DEFAULT_QUEUE { default } else { named }
}
