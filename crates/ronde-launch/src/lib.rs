//! `ronde run` and `horovodrun`: starts the ranks of a job on one host or many, pumps their output, stops them together.
//!
//! The way in is a command line ([`run`](crate)), which the `ronde` binary hands over as it is. What ranks say to each
//! other is none of our business: that is `ronde-collective`. Knows nothing of Kubernetes.

pub mod agent;
pub mod args;
mod clock;
pub mod elastic;
mod error;
pub mod hosts;
pub mod job;
pub mod keep;
pub mod output;
mod run;
pub mod signals;
pub mod slots;
pub mod start;
pub mod surroundings;

pub use self::{
    error::LaunchError,
    run::{VERSION, run},
};
