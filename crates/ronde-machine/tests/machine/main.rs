//! The runner and the controllers of a bare machine against the API server in one process, on simulated time.

#[path = "../workloads/chance.rs"]
mod chance;
mod cluster;
mod elastic;
mod endpoints;
mod gangs;
mod jobs;
mod kubelet;
mod native_groups;
mod nodes;
mod objects;
mod operator;
mod placement;
mod preemption;
mod requests;
mod restarts;
mod runner;
mod volumes;
mod watches;
