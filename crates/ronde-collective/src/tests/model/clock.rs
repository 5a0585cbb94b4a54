//! A clock that stands still: a run of the model must be the same each time.

use std::{sync::OnceLock, time::Instant};

pub(crate) fn now() -> Instant {
    static NOW: OnceLock<Instant> = OnceLock::new();
    *NOW.get_or_init(crate::clock::now)
}
