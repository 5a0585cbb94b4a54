//! Elastic jobs: workers come and go while the training goes on.
//!
//! `driver.rs` decides, and is pure, as are `plan.rs` (who is in the next ring) and `cooldown.rs` (which hosts are left
//! alone for a while). Around it: `discovery.rs` finds hosts, `control_channel.rs` talks to workers, `run.rs` is the loop that
//! carries out what was decided, `command.rs` the way from the arguments to the exit code.

mod command;
mod control_channel;
mod cooldown;
mod discovery;
mod driver;
mod model;
mod plan;
mod run;

pub use self::{
    command::run as run_command,
    discovery::{Script, Source},
    driver::Driver,
    model::{Command, ElasticOutcome, Event, Failure, HostSlots, Settings, WorkerId},
    run::{ElasticEnd, ElasticJob, run},
};
