//! The real launcher with real processes: what ranks get, how jobs end, what is left, and what users see.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails here")]

mod endings;
mod output;
mod ranks;
mod refusals;
mod remote;
mod sandbox;
mod ssh;
