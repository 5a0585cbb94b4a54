//! What a process tells about itself: [`metrics`] for graphs and alerts, [`health`] for those who start it again.
//!
//! Both are handles: cheap to clone, shared by everything that runs in the process.

pub mod health;
pub mod metrics;

use self::{health::Health, metrics::Metrics};

/// What a process tells about itself.
#[derive(Debug, Clone, Default)]
pub struct Telemetry {
    pub metrics: Metrics,
    pub health: Health,
}
