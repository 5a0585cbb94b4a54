//! Ages as Kubernetes writes them: `45s`, `3m20s`, `5h`, `2d3h`, `1y40d`.
//!
//! Two or three figures, finer for the young: the format is what people and scripts read in `kubectl get`. Used by
//! the tables and by our own command line. Knows no clock.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// How the real server writes a time that is not set, where it must write one.
pub const ZERO_TIME: &str = "0001-01-01T00:00:00Z";

/// An age that cannot be told: the time is missing.
pub const UNKNOWN: &str = "<unknown>";

/// An age that makes no sense: a time in the future, or no time at all.
pub const INVALID: &str = "<invalid>";

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// Writes a duration in two or three figures.
pub fn human_duration(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        // Clocks of two machines may differ by a second.
        ..-1 => INVALID.to_owned(),
        -1..0 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => two_units(seconds, (MINUTE, "m"), (1, "s")),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => two_units(seconds, (HOUR, "h"), (MINUTE, "m")),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => two_units(seconds, (DAY, "d"), (HOUR, "h")),
        691_200..63_072_000 => format!("{}d", seconds / DAY),
        63_072_000..252_288_000 => two_units(seconds, (YEAR, "y"), (DAY, "d")),
        _ => format!("{}y", seconds / YEAR),
    }
}

/// Writes the time since a timestamp of an object: `<unknown>` if it has none.
pub fn since(timestamp: &Value, now: Timestamp) -> String {
    match parse(timestamp) {
        Some(then) => human_duration(now.duration_since(then)),
        None => UNKNOWN.to_owned(),
    }
}

/// Reads a timestamp of an object; absent, null, empty and the zero time are all none.
pub fn parse(timestamp: &Value) -> Option<Timestamp> {
    let text = timestamp.as_str().filter(|text| *text != ZERO_TIME)?;
    text.parse().ok()
}

fn two_units(seconds: i64, (large, large_name): (i64, &str), (small, small_name): (i64, &str)) -> String {
    match seconds % large / small {
        0 => format!("{}{large_name}", seconds / large),
        rest => format!("{}{large_name}{rest}{small_name}", seconds / large),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn durations_get_coarser_with_age() {
        let check = |millis: i64, expected: &str| {
            assert_eq!(human_duration(SignedDuration::from_millis(millis)), expected, "{millis} ms");
        };
        check(-2_000, "<invalid>");
        check(-1_999, "0s");
        check(0, "0s");
        check(999, "0s");
        check(119_999, "119s");
        check(120_000, "2m");
        check(121_000, "2m1s");
        check(599_000, "9m59s");
        check(600_000, "10m");
        check(10_799_000, "179m");
        check(10_800_000, "3h");
        check(10_859_000, "3h");
        check(10_860_000, "3h1m");
        check(28_799_000, "7h59m");
        check(28_800_000, "8h");
        check(172_799_000, "47h");
        check(172_800_000, "2d");
        check(176_400_000, "2d1h");
        check(691_199_000, "7d23h");
        check(691_200_000, "8d");
        check(63_071_999_000, "729d");
        check(63_072_000_000, "2y");
        check(63_158_400_000, "2y1d");
        check(252_287_999_000, "7y364d");
        check(252_288_000_000, "8y");
        check(400_000_000_000, "12y");
    }

    #[test]
    fn a_missing_time_is_unknown_and_fractions_count() {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().expect("a timestamp");
        let check = |timestamp: Value, expected: &str| assert_eq!(since(&timestamp, now), expected, "{timestamp}");
        check(json!("2026-01-01T00:00:00Z"), "60s");
        check(json!("2026-01-01T00:00:00.500000Z"), "59s");
        check(json!("2026-01-01T00:01:01Z"), "0s");
        check(json!("2026-01-01T00:01:05Z"), "<invalid>");
        check(Value::Null, "<unknown>");
        check(json!(""), "<unknown>");
        check(json!(ZERO_TIME), "<unknown>");
    }
}
