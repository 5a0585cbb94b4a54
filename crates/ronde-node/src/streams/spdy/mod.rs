//! As much of SPDY/3.1 as Kubernetes' clients need: they open streams, both sides send on them, either closes.
//!
//! Older kubectls use it for commands, all of them for forwarded ports. There is no flow control beyond that of the
//! connection itself, because the clients' side has none. Pushed streams, settings and credentials do not occur.

pub mod connection;
mod frame;
mod headers;
#[cfg(test)]
pub mod player;

pub use self::headers::Headers;

/// Why a connection cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    #[error("the client sent headers that cannot be read")]
    Headers,
    #[error("the client sent a frame that cannot be read")]
    Frame,
    #[error("the client sent a control frame that is too large")]
    TooLarge,
}
