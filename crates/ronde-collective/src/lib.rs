//! The collective engine: allreduce and its family for the ranks of a training job.
//!
//! Callers see [`Engine`] and what it takes and gives: [`Config`], [`Work`], [`Handle`], [`Done`], [`Error`]; a
//! launcher runs the rendezvous [`Server`] and, for elastic jobs, the other end of [`desk`]. Inside, from there downwards: `engine/` drives, `negotiate/` decides
//! (pure), `comm/` knows a group of ranks and chooses algorithms, `algorithms/` and `shm/` move the data, `wire.rs`
//! and `tcp/` carry it between hosts, `reduce/` computes. Knows neither Python nor Kubernetes.

mod algorithms;
mod buffer;
mod callers;
mod clock;
mod codec;
mod comm;
pub mod desk;
mod engine;
mod error;
mod handshake;
mod memory;
mod metrics;
mod negotiate;
mod reduce;
mod rendezvous;
mod shm;
mod tcp;
#[cfg(test)]
mod tests;
mod timeline;
mod tune;
mod types;
mod wire;

pub use self::{
    buffer::Buffer,
    engine::{
        Done, Engine, Handle, Operation, Output, Reduction, Tensor, Work,
        config::{Config, Stall, Transport},
    },
    error::{Error, Result},
    handshake::{Secret, Side, VERSION, greet},
    metrics::Counters,
    rendezvous::{Rendezvous, Server},
    tcp::link_descriptors,
    types::{DataType, Rank, ReduceOp, SetId, Shape},
};
