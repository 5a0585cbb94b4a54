//! The cluster's name server: services, endpoints and pods under the cluster's domain; all else is asked elsewhere.
//!
//! [`Zone`] is pure: records from a view of the cluster, and an answer to any question. [`NameServer`] puts it on the
//! network; [`Upstream`] asks the machine's own name servers. The rules are those of Kubernetes' DNS specification
//! 1.1 and, where that is silent, of CoreDNS.

mod answer;
mod server;
mod upstream;
mod zone;

#[cfg(test)]
mod tests;

#[cfg(test)]
pub use self::upstream::{read_framed, write_framed};
pub use self::{server::NameServer, upstream::Upstream, zone::Zone};
