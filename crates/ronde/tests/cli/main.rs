//! The real `ronde` binary, as a user runs it: exit code, stdout and stderr of every verb, and what it leaves behind.
//!
//! Every test has its own home, data directory, kubeconfig and port, and stops what it started.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails here")]

mod arena;
mod backup;
mod charts;
mod crons;
mod demo;
mod doctor;
mod help;
mod images;
mod jobs;
mod kubeconfig;
mod lifecycle;
mod objects;
mod operator;
mod plugin;
mod queues;
mod run;
mod sandbox;
mod simulate;
mod status;
mod upgrade;
