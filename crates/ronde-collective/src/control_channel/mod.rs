//! What a rank of an elastic job and its launcher say to each other.
//!
//! A rank holds one connection to the launcher: it says who it is, asks for a place whenever it needs a ring, and hears
//! when the hosts of the job change. [`Client`] is the rank's end, for [`crate::Engine`]'s callers; the other end is in
//! the launcher. The messages are here because both must agree on them.
//!
//! So that all ranks leave their ring at the same commit without talking about it at every commit, a change takes two
//! steps: the launcher announces it, every rank answers how many commits it has checked and checks no further, and the
//! launcher names the commit that nobody has passed.

mod client;
mod messages;

pub use self::{
    client::{Client, ClientError, FENCE, JoinReply},
    messages::{Assignment, FromRank, Join, ToRank, read_frame, write_frame},
};
