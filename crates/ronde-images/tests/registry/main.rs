//! Pulls images from a real registry: Debian's `docker-registry`, on loopback, filled by `skopeo` with images that
//! `umoci` makes. Where the registry is too well-behaved, a front before it breaks what it says.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails here")]

mod front;
mod hosts;
mod interrupted;
mod logins;
mod pulls;
mod world;
