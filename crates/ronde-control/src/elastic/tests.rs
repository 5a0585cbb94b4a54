//! Lives of training jobs, on plain data.

mod disruptions;
mod kills;
mod lives;
mod replicas;
mod wiring;
