//! `ronde run` and `horovodrun`: starts the ranks of a job on one host or many, pumps their output, stops them together.
//!
//! The way in is a command line ([`run`](crate)), which the `ronde` binary hands over as it is. What ranks say to each
//! other is none of our business: that is `ronde-collective`. Knows nothing of Kubernetes.
//!
//! Inside: `run.rs` is the table of contents, from the words to the exit code. `args.rs` and `args/` are the command
//! line of horovodrun; `hosts.rs`, `slots.rs`, `args/` and `output/lines.rs` are pure. `start.rs` is the trait `Starter`:
//! `start/local.rs` with a keeper (`keeper.rs`, two processes of which either may be killed) above each rank,
//! `start/remote.rs` for ssh, srun and commands of the user's, `start/starters.rs` chooses by host. `output.rs` pumps,
//! `job.rs` runs a fixed number of ranks and `job/watch.rs` ends them together; `environment.rs` reads variables,
//! addresses and randomness. In `elastic/`, `driver.rs` decides (with `driver/`, `plan.rs` and `cooldown.rs`, all
//! pure): events and the time in, commands out. `discovery.rs` finds hosts, `control_channel.rs` talks to workers,
//! `run.rs` is the loop that carries out, `command.rs` the way from the arguments to the exit code.

pub mod agent;
pub mod args;
mod clock;
pub mod elastic;
pub mod environment;
mod error;
pub mod hosts;
pub mod job;
pub mod keeper;
pub mod output;
mod run;
pub mod signals;
pub mod slots;
pub mod start;
mod threads;

pub use self::{
    error::LaunchError,
    run::{VERSION, run},
};
