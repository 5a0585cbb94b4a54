//! The workload controllers against the API server in one process, with a toy node, on simulated time.
//!
//! Each test is a seeded story: users change things, the node takes its time and lets pods fail, controllers are killed
//! in the middle of their writes and started again. At the end the world is as it was asked for, and on the way it
//! never was what it must not be.

mod chance;
mod cluster;
mod deployments;
mod jobs;
mod node;
mod stateful_sets;
