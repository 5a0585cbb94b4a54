//! `ronde supervise`: the small process that holds one pod, and outlives the daemon.
//!
//! It owns the pod's namespaces, starts containers, writes their logs, and records every start and every end in the pod's
//! folder ([`record`]) before it tells anybody. It decides nothing: the daemon orders through the control
//! socket ([`control`]), and finds everything again from the records after its own death. One thread, one
//! loop over `poll` ([`run`]); [`client`] is the daemon's side of the socket.

pub mod client;
mod connection;
mod container;
pub mod control;
pub mod folder;
pub mod record;
mod run;
pub(crate) mod spare;
pub(crate) mod start;

pub use self::{
    container::remove_files,
    start::{MemoryVolume, Pod, main},
};
