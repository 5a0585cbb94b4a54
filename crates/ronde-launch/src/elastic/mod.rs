//! Elastic jobs: workers come and go while the training goes on.
//!
//! `driver.rs` decides, and is pure, as are `plan.rs` (who is in the next ring) and `cooldown.rs` (which hosts are left
//! alone for a while).

mod cooldown;
mod driver;
mod model;
mod plan;

pub use self::{
    driver::Driver,
    model::{ADDED, Command, Event, Failure, HostSlots, Outcome, REMOVED, Settings, WorkerId},
};
