//! What a rank of an elastic job and its launcher say to each other.
//!
//! A rank holds one connection to the launcher's desk: it says who it is, asks for a place whenever it needs a ring,
//! and hears when the hosts of the job change. [`Client`] is the rank's side, for [`crate::Engine`]'s callers; the desk
//! itself is the launcher's. The words are here because both sides must agree on them.
//!
//! So that all ranks leave their ring at the same commit without talking about it at every commit, a change takes two
//! steps: the launcher announces it, every rank answers how many commits it has checked and checks no further, and the
//! launcher names the commit that nobody has passed.

mod client;
mod words;

pub use self::{
    client::{Answer, Client, ClientError, FENCE},
    words::{FromRank, Join, Place, ToRank, read_frame, write_frame},
};
