//! What this machine is and lets us do: found out before anything is mounted or started.

pub mod facts;
pub mod files;
pub mod probe;
pub mod rootless;
