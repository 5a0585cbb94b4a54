//! Agents and their clients for real: processes on loopback addresses, and a stock mpirun between network namespaces.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails here")]
#![expect(clippy::print_stderr, reason = "what agents say helps to read a failure")]

mod job;
mod lifetimes;
mod mpirun;
mod network;
mod strangers;
mod streams;
