//! Lengths of time as people write and read them: `90s`, `1h30m`, `2d`; in milliseconds.

use std::{fmt, str::FromStr};

use jiff::{Timestamp, civil::DateTime, tz::TimeZone};

const SECOND: i64 = 1000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// A length of time in milliseconds, which is written with at most two units.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub i64);

/// Why a text is no length of time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no length of time, such as `90s`, `1h30m` or `2d`")]
pub struct SpanError(String);

impl FromStr for Span {
    type Err = SpanError;

    /// Reads units with their numbers (`2d12h`), or a number of seconds.
    fn from_str(text: &str) -> Result<Self, SpanError> {
        let text = text.trim();
        let wrong = || SpanError(text.to_owned());
        if let Ok(seconds) = text.parse::<f64>() {
            return in_range(seconds * 1000.0).map(Self).ok_or_else(wrong);
        }
        let (sign, mut rest) = text.strip_prefix('-').map_or((1.0, text), |rest| (-1.0, rest));
        let mut sum = 0.0;
        while !rest.is_empty() {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
            let number: f64 = rest[..end].parse().map_err(|_| wrong())?;
            let after = &rest[end..];
            let next = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
            let (_, size) = UNITS.iter().find(|(unit, _)| *unit == &after[..next]).ok_or_else(wrong)?;
            sum += number * *size as f64;
            rest = &after[next..];
        }
        if text.is_empty() { Err(wrong()) } else { in_range(sign * sum).map(Self).ok_or_else(wrong) }
    }
}

const UNITS: [(&str, i64); 5] = [("d", DAY), ("h", HOUR), ("m", MINUTE), ("s", SECOND), ("ms", 1)];

fn in_range(millis: f64) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "what is out of range is refused")]
    let whole = millis.round() as i64;
    // Doubles count integers exactly up to here: 285 000 years.
    (millis.abs() < 9e15).then_some(whole)
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.0.abs();
        let sign = if self.0 < 0 { "-" } else { "" };
        let text = match size {
            0 => "0s".to_owned(),
            1..SECOND => format!("{size}ms"),
            SECOND..MINUTE => format!("{}s", size / SECOND),
            MINUTE..HOUR => two((size / MINUTE, "m"), (size % MINUTE / SECOND, "s")),
            HOUR..DAY => two((size / HOUR, "h"), (size % HOUR / MINUTE, "m")),
            _ => two((size / DAY, "d"), (size % DAY / HOUR, "h")),
        };
        f.pad(&format!("{sign}{text}"))
    }
}

fn two((large, unit): (i64, &str), (small, small_unit): (i64, &str)) -> String {
    if small == 0 { format!("{large}{unit}") } else { format!("{large}{unit}{small}{small_unit}") }
}

/// Reads a moment: a time of day with its date (UTC if it names no zone), or a length of time since the beginning.
pub fn parse_moment(text: &str) -> Option<i64> {
    let text = text.trim();
    if let Ok(Span(millis)) = text.parse() {
        return Some(millis);
    }
    if let Ok(timestamp) = text.parse::<Timestamp>() {
        return Some(timestamp.as_millisecond());
    }
    let civil: DateTime = text.parse().ok()?;
    Some(civil.to_zoned(TimeZone::UTC).ok()?.timestamp().as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_read_and_written() {
        let check = |text: &str, millis: i64, written: &str| {
            let span: Span = text.parse().expect(text);
            assert_eq!((span.0, span.to_string().as_str()), (millis, written), "{text}");
        };
        check("90s", 90_000, "1m30s");
        check("1h30m", 5_400_000, "1h30m");
        check("2d12h", 216_000_000, "2d12h");
        check("3d", 259_200_000, "3d");
        check("36848", 36_848_000, "10h14m");
        check("0", 0, "0s");
        check("0.25", 250, "250ms");
        check("-90s", -90_000, "-1m30s");
        for wrong in ["", "soon", "5", "d", "1e300", "9999999999999d"] {
            assert_eq!(wrong.parse::<Span>().is_ok(), wrong == "5", "{wrong}");
        }
    }

    #[test]
    fn moments_are_dates_or_lengths_since_the_beginning() {
        assert_eq!(parse_moment("1h"), Some(HOUR));
        assert_eq!(parse_moment("1970-01-02 00:00:01"), Some(DAY + SECOND));
        assert_eq!(parse_moment("1970-01-01T01:00:00+01:00"), Some(0));
        assert_eq!(parse_moment("None"), None);
    }
}
