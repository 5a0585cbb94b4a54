//! Rings of ranks as threads, over every transport, with the same bodies.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails here")]

mod agreement;
mod basics;
mod devices;
mod fixture;
mod large;
mod loss;
mod reference;
mod sets;
mod timeline;
