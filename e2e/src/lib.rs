//! The conformance suite: scenario files are run against a Kubernetes API server, and the
//! transcript is compared with the one recorded from a real kube-apiserver.
//!
//! The runner takes a `kube::Client`, so the same files run against a cluster, against a server on
//! a port, and against a router in the test's own process. It decides nothing about what is right:
//! the recordings do.

mod differences;
mod normalise;
mod path;
mod render;
mod run;
mod scenario;
mod suite;
mod transcript;
mod watch;

pub use differences::known_differences;
pub use run::run_scenario;
pub use scenario::{ParseError, Scenario};
pub use suite::{Case, SuiteError, cases};
pub use transcript::Transcript;
