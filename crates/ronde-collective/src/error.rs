//! What can go wrong, sorted by who should act on it.
//!
//! Errors are values: they can be cloned to every handle that they concern, and those that the negotiation finds are
//! the same, letter for letter, on every rank.

use crate::types::Rank;

/// Why an operation has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The caller's arguments are wrong, on this rank alone; nothing was sent.
    #[error("{0}")]
    Invalid(String),
    /// The ranks disagree; every one of them gets this text, and the engine goes on.
    #[error("{0}")]
    Mismatch(String),
    /// A peer died or cut the connection. The engine must be started anew.
    #[error("lost rank {rank}: {reason}")]
    Lost { rank: Rank, reason: String },
    /// An operation waited too long for some ranks, and the limit for that was set.
    #[error("{0}")]
    Stalled(String),
    /// The caller did not want to wait any longer, in the middle of an operation. The engine must be started anew.
    #[error("an operation was interrupted")]
    Interrupted,
    /// An operation on a device failed, on this rank alone as far as is known. The engine must be started anew.
    #[error("{0}")]
    Device(String),
    /// The engine was shut down on this rank or another.
    #[error("the engine has been shut down{}", by(*.0))]
    Shutdown(Option<Rank>),
    /// The ring could not be formed.
    #[error("cannot form the ring: {0}")]
    Bootstrap(String),
}

fn by(rank: Option<Rank>) -> String {
    rank.map_or_else(String::new, |rank| format!(" by rank {rank}"))
}

impl Error {
    /// Whether the engine is of no more use, and must be started anew.
    pub const fn is_fatal(&self) -> bool {
        !matches!(self, Self::Invalid(_) | Self::Mismatch(_))
    }
}

pub type Result<T, E = Error> = std::result::Result<T, E>;
