//! The collective engine: allreduce and its family for the ranks of a training job.
//!
//! Callers see [`Engine`] and what it takes and gives: [`Config`], [`Work`], [`Handle`], [`Done`], [`Error`]; a
//! launcher runs the rendezvous [`Server`] and, for elastic jobs, the other end of [`control_channel`]. Knows neither
//! Python nor Kubernetes.
//!
//! Inside, from the caller inwards: `engine/` takes work and drives it (`group.rs` is the inbox and who drives,
//! `driver.rs` one turn of the wheel, `execute.rs` and, for small tensors that came along with a round,
//! `execute_inline.rs` do what was agreed, `device.rs` keeps what others carry out, `sets.rs` knows the process sets, `stall.rs` watches; `wait_context.rs` is what waiting threads tell the one that drives); `negotiate/` decides and is
//! pure, as are `codec.rs`, `tune.rs` and `reduce/`; `comm/` is a group of ranks: `form.rs` brings it together,
//! `collectives.rs` chooses; `algorithms/` work over `wire/`, which reaches each peer through `shm/` or `tcp/`;
//! `shm/panels.rs` and `shm/rounds.rs` are the ways that matter for speed on one host. `memory/` is all that `shm/`
//! knows of the machine (atomics, sleeping, mappings), so that `tests/model/` can compile the same source over a
//! model of it. `rendezvous/` and `handshake.rs` are how ranks that know nothing of each other meet; `control_channel/`
//! is what a rank of an elastic job and its launcher say to each other.

mod algorithms;
mod buffer;
mod clock;
mod codec;
mod comm;
pub mod control_channel;
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
mod wait_context;
mod wire;

pub use self::{
    buffer::Buffer,
    engine::{
        Device, DeviceBatch, DeviceOperation, Done, Engine, Handle, Operation, Output, Reduction, Tensor, Work,
        config::{Config, Stall, Transport},
    },
    error::{Error, Result},
    handshake::{Secret, Side, VERSION, greet},
    metrics::Counters,
    rendezvous::{Rendezvous, Server},
    tcp::link_descriptors,
    types::{DataType, Rank, ReduceOp, SetId, Shape},
};
