//! Lives of training jobs, on plain data.

mod kills;
mod lives;
mod wiring;
