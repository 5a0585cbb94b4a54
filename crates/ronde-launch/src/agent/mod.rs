//! Starting ranks where there is no sshd: an agent per pod or host, and the ways to reach it.
//!
//! What both sides share, from the bytes outwards: [`frame`], [`secret`], [`channel`], `link`, `streams`. The caller's
//! side: [`names`] and [`dial`] find an agent, [`client`] speaks with it, for [`rsh`] (whose command line is
//! [`shim`]) and for a launcher ([`agent_starter`]). The agent's side: [`init`] is its outer process, [`server`] its life,
//! `serve` one connection, `roster` what runs, [`programs`] how. [`mirror`] copies host lists, [`install`] the program.
//!
//! Inside (ranks without sshd): `frame.rs` is the format and is pure, as are `shim.rs` (ssh's command line) and the
//! parts of `mirror.rs` and `names.rs` that decide; `secret.rs`, `channel.rs`, `link.rs` and `streams.rs` are what
//! both sides share, from the proof outwards; `client.rs` speaks for `rsh.rs` and for a launcher (`agent_starter.rs`), over
//! `dial.rs`; `server.rs` is the agent's life under its outer process (`init.rs`), `serve.rs` one connection,
//! `roster.rs` what runs. Its variables are `RONDE_SECRET_FILE`, `RONDE_SECRET`, `RONDE_AGENT_PORT` and, for its
//! programs, `RONDE_HOSTS_FILE`. In `crates/ronde` the verbs are `agent.rs` and `rsh.rs`.

pub mod agent_starter;
pub mod channel;
pub mod client;
pub mod dial;
pub mod frame;
pub mod init;
pub mod install;
mod link;
pub mod mirror;
pub mod names;
pub mod programs;
mod roster;
pub mod rsh;
pub mod secret;
mod serve;
pub mod server;
pub mod shim;
mod streams;
