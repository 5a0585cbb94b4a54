//! What a simulation says: a report as a table or as JSON, and the picture.

pub mod chart;
pub mod report;
