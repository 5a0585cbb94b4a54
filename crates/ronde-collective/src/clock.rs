//! The one place of this crate that reads the clock.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

#[expect(clippy::disallowed_methods, reason = "the rim: limits and the timeline need the time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Microseconds since 1970, for the head of a timeline.
#[expect(clippy::disallowed_methods, reason = "the rim: a timeline says when it began")]
pub(crate) fn since_epoch_us() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros())
}
