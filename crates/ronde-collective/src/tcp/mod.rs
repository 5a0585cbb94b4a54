//! TCP between hosts: finding an address that works, connections of a pair of ranks, and its end.
//!
//! A pair has a few streams for data and one guard. The guard is silent: it carries the reason when a rank gives
//! up, and the kernel's keep-alive on it notices a host that is gone without a word.

pub(crate) mod addresses;
pub(crate) mod connect;
mod link;

pub use self::link::link_descriptors;
pub(crate) use self::link::{Farewell, Link};
