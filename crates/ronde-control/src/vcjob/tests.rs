//! The life of a job, told by scripts; see [`super::fixtures`] for their words.

mod changes;
mod disruptions;
mod lives;
mod matrix;
mod parts;
mod properties;
