//! Starting ranks where there is no sshd: an agent per pod or host, and the ways to reach it.
//!
//! What both sides share, from the bytes outwards: [`frame`], [`secret`], [`channel`], `link`, `streams`. The caller's
//! side: [`names`] and [`reach`] find an agent, [`client`] speaks with it, for [`rsh`] (whose command line is
//! [`shim`]) and for a launcher ([`way`]). The agent's side: [`init`] is its outer process, [`server`] its life,
//! `serve` one connection, `roster` what runs, [`programs`] how. [`mirror`] copies host lists, [`install`] the program.

pub mod channel;
pub mod client;
pub mod frame;
pub mod init;
pub mod install;
mod link;
pub mod mirror;
pub mod names;
pub mod programs;
pub mod reach;
mod roster;
pub mod rsh;
pub mod secret;
mod serve;
pub mod server;
pub mod shim;
mod streams;
pub mod way;
