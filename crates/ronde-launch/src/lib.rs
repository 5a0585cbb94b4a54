//! `ronde run` and `horovodrun`: starts the ranks of a job on one host or many, pumps their output, stops them together.
//!
//! The way in is a command line ([`run`](crate)), which the `ronde` binary hands over as it is. What ranks say to each
//! other is none of our business: that is `ronde-collective`. Knows nothing of Kubernetes.

mod clock;
pub mod hosts;
pub mod keep;
pub mod output;
pub mod slots;
pub mod start;
