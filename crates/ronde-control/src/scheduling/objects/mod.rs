//! Kubernetes objects in the words of the scheduler. Pure; the only place that knows both.

pub mod groups;
pub mod node_groups;
pub mod nodes;
pub mod pods;
pub mod selectors;
#[cfg(test)]
mod tests;
pub mod volumes;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1;
use ronde_api::Duration;
use ronde_scheduler::Time;

/// Returns a moment of an object; one that it does not have is the beginning of time.
pub fn time(time: Option<&v1::Time>) -> Time {
    time.map_or(Time::default(), |time| moment(time.0))
}

/// Returns a moment.
pub fn moment(time: Timestamp) -> Time {
    Time::from_millis(time.as_millisecond())
}

/// Returns a number that is meant to be none or more.
pub fn count(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

/// Returns a duration that is meant to be none or more.
pub fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.to_std().as_millis()).unwrap_or(i64::MAX)
}
