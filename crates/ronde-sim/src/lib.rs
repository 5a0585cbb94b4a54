//! What the tests of all crates share. Never part of a product.
//!
//! A test that cannot run on a machine says so through [`skip`] and is counted by `make test`; a test that waits does
//! it through [`wait_until`], with a bound and a name for what it waits for. [`pods`] makes pods for tables.

pub mod pods;
mod skip;
mod small_disk;
mod wait;

pub use self::{
    skip::{find_program, is_root, program, skip},
    small_disk::SmallDisk,
    wait::wait_until,
};
