//! The controllers, and the runner they share.

pub mod deployment;
pub mod disruption;
pub mod endpoints;
pub mod events;
pub mod job;
pub mod machine;
pub mod nodelifecycle;
pub mod placement;
pub mod podgc;
pub mod pods;
pub mod podstatus;
pub mod queue;
pub mod replicaset;
pub mod runner;
pub mod statefulset;
pub mod tainteviction;
pub mod taints;
pub mod volumeclaims;
pub mod watch;
