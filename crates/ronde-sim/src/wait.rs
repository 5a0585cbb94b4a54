//! Waits for a condition on a value, never for a time to pass.

use std::{
    thread,
    time::{Duration, Instant},
};

const PAUSE: Duration = Duration::from_millis(5);

/// Returns what `look` finds as soon as it finds something.
///
/// # Panics
/// If there is still nothing after `limit`; the message names `what`.
#[expect(clippy::disallowed_methods, reason = "waiting for a process of its own needs the real clock")]
pub fn wait_until<T>(what: &str, limit: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < limit, "waited {} s in vain: {what}", limit.as_secs());
        thread::sleep(PAUSE);
    }
}
