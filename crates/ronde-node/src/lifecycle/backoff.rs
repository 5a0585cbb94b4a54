//! How long a container that keeps ending waits for its next start, and how often other failed steps are retried.

use jiff::{SignedDuration, Timestamp};

use super::seen::{Exit, RunState};

/// The first wait; the very first restart does not wait at all.
const CRASH_DELAY: SignedDuration = SignedDuration::from_secs(10);
/// The longest wait.
const CRASH_DELAY_MAX: SignedDuration = SignedDuration::from_secs(300);
/// A run of this length makes earlier crashes forgotten.
const STEADY_RUN: SignedDuration = SignedDuration::from_mins(10);
/// How long a container that could not be started waits.
const BLOCKED_DELAY: SignedDuration = SignedDuration::from_secs(10);
/// How long a registry is left alone after a first failure. Doubles up to the next.
const PULL_DELAY: SignedDuration = SignedDuration::from_secs(10);
const PULL_DELAY_MAX: SignedDuration = SignedDuration::from_secs(300);
/// Doubles from a second to this.
const SANDBOX_DELAY_MAX: SignedDuration = SignedDuration::from_secs(10);

/// Returns the crashes in a row after one more exit.
pub fn crashes_after(crashes: u32, exit: &Exit) -> u32 {
    let is_steady = exit.started_at.is_some_and(|start| exit.finished_at.duration_since(start) > STEADY_RUN);
    if is_steady { 1 } else { crashes.saturating_add(1) }
}

/// Returns the wait after so many crashes in a row.
pub(super) fn crash_delay(crashes: u32) -> SignedDuration {
    match crashes {
        0 | 1 => SignedDuration::ZERO,
        _ => doubled(CRASH_DELAY, crashes - 2, CRASH_DELAY_MAX),
    }
}

/// Returns when the next attempt is due; None while the container runs.
pub(super) fn due(state: &RunState, crashes: u32) -> Option<Timestamp> {
    match state {
        RunState::Blocked { until, .. } => Some(*until),
        RunState::Running(_) => None,
        RunState::Exited(exit) => Some(after(exit.finished_at, crash_delay(crashes))),
    }
}

/// Returns when a container that could not be started is tried again.
pub fn blocked_until(at: Timestamp) -> Timestamp {
    after(at, BLOCKED_DELAY)
}

/// Returns until when an image is not pulled again after so many failures in a row.
pub fn pull_due(at: Timestamp, failures: u32) -> Timestamp {
    after(at, doubled(PULL_DELAY, failures.saturating_sub(1), PULL_DELAY_MAX))
}

/// Returns when a sandbox that could not be made is tried again.
pub(super) fn sandbox_due(at: Timestamp, tries: u32) -> Timestamp {
    after(at, doubled(SignedDuration::from_secs(1), tries.saturating_sub(1), SANDBOX_DELAY_MAX))
}

/// The moment that much later, or the end of time.
pub(super) fn after(at: Timestamp, wait: SignedDuration) -> Timestamp {
    at.checked_add(wait).unwrap_or(Timestamp::MAX)
}

/// Writes a wait as users know it from `kubectl describe`: `10s`, `1m20s`, `5m0s`.
pub(super) fn shown(wait: SignedDuration) -> String {
    let seconds = wait.as_secs();
    if seconds < 60 { format!("{seconds}s") } else { format!("{}m{}s", seconds / 60, seconds % 60) }
}

fn doubled(first: SignedDuration, times: u32, max: SignedDuration) -> SignedDuration {
    2_i32.checked_pow(times).and_then(|factor| first.checked_mul(factor)).map_or(max, |wait| wait.min(max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_from_ten_seconds_to_five_minutes_after_a_first_restart_at_once() {
        let shown: Vec<String> = (0..9).map(|crashes| shown(crash_delay(crashes))).collect();
        assert_eq!(shown, ["0s", "0s", "10s", "20s", "40s", "1m20s", "2m40s", "5m0s", "5m0s"]);
        assert_eq!(crash_delay(u32::MAX), CRASH_DELAY_MAX);
    }

    #[test]
    fn an_image_is_pulled_again_after_ten_seconds_to_five_minutes() {
        let wait = |failures| pull_due(Timestamp::UNIX_EPOCH, failures).as_second();
        assert_eq!([1, 2, 3, 4, 5, 6, 7, u32::MAX].map(wait), [10, 20, 40, 80, 160, 300, 300, 300]);
    }

    #[test]
    fn a_run_of_ten_minutes_makes_crashes_forgotten() {
        let exit = |seconds: i64| Exit {
            container_id: String::new(),
            code: 1,
            reason: "Error".to_owned(),
            message: None,
            started_at: Some(Timestamp::UNIX_EPOCH),
            finished_at: Timestamp::from_second(seconds).expect("in range"),
        };
        assert_eq!(crashes_after(4, &exit(600)), 5);
        assert_eq!(crashes_after(4, &exit(601)), 1);
        assert_eq!(crashes_after(4, &Exit { started_at: None, ..exit(9999) }), 5);
    }
}
