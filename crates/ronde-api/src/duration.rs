//! Durations as the API writes them: `5m30s`, `1h2m3.5s`, `250ms`.
//!
//! The grammar and the printed form are those of Go, whose clients read and write these fields. Exact to the
//! nanosecond; about 292 years to either side.

use std::{fmt, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

const UNITS: [(&str, i128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", SECOND),
    ("m", 60 * SECOND),
    ("h", 3600 * SECOND),
];
const SECOND: i128 = 1_000_000_000;
/// The grammar, for the definitions: what an API server has taken must be readable.
const PATTERN: &str = r"^[+-]?(0|(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$";

/// A span of time, which may be negative.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration {
    nanoseconds: i64,
}

/// Why a text is no duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    #[error("{0:?} is not a duration such as `90s` or `1h30m`")]
    Syntax(String),
    #[error("{given:?} has no unit after {number}: write `{number}s` for seconds")]
    NoUnit { given: String, number: String },
    #[error("{0:?} is more than 292 years")]
    TooLong(String),
}

impl Duration {
    pub const ZERO: Self = Self { nanoseconds: 0 };

    pub fn from_nanoseconds(nanoseconds: i64) -> Self {
        Self { nanoseconds }
    }

    pub fn from_seconds(seconds: i64) -> Self {
        Self { nanoseconds: seconds.saturating_mul(1_000_000_000) }
    }

    pub fn nanoseconds(self) -> i64 {
        self.nanoseconds
    }

    /// The same for the standard library; nothing if it is negative.
    pub fn to_std(self) -> std::time::Duration {
        std::time::Duration::from_nanos(u64::try_from(self.nanoseconds).unwrap_or(0))
    }

    pub fn is_negative(self) -> bool {
        self.nanoseconds < 0
    }
}

impl From<std::time::Duration> for Duration {
    fn from(duration: std::time::Duration) -> Self {
        Self { nanoseconds: i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX) }
    }
}

impl FromStr for Duration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        let negative = text.starts_with('-');
        let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
        if rest == "0" {
            return Ok(Self::ZERO);
        }
        if rest.is_empty() {
            return Err(DurationError::Syntax(text.to_owned()));
        }
        let mut sum = 0_i128;
        while !rest.is_empty() {
            let (part, after) = part(rest, text)?;
            sum = sum.saturating_add(part);
            rest = after;
        }
        let signed = if negative { -sum } else { sum };
        let nanoseconds = i64::try_from(signed).map_err(|_| DurationError::TooLong(text.to_owned()))?;
        Ok(Self { nanoseconds })
    }
}

/// Reads one number with its unit; returns it in nanoseconds, and what follows.
fn part<'a>(rest: &'a str, text: &str) -> Result<(i128, &'a str), DurationError> {
    let syntax = || DurationError::Syntax(text.to_owned());
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (number, after) = rest.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(syntax());
    }
    let unit_end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
    let (unit, after) = after.split_at(unit_end);
    if unit.is_empty() {
        return Err(DurationError::NoUnit { given: text.to_owned(), number: number.to_owned() });
    }
    let (_, size) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(syntax)?;
    let too_long = || DurationError::TooLong(text.to_owned());
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| too_long())? };
    let nanoseconds = whole.checked_mul(*size).ok_or_else(too_long)?;
    Ok((nanoseconds.saturating_add(share(fraction, *size)), after))
}

/// The part of a unit that the digits after the point stand for, rounded down.
fn share(fraction: &str, size: i128) -> i128 {
    // 15 digits are finer than a nanosecond of an hour.
    let digits = &fraction[..fraction.len().min(15)];
    let value: i128 = digits.parse().unwrap_or(0);
    value * size / 10_i128.pow(u32::try_from(digits.len()).unwrap_or(0))
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.nanoseconds.unsigned_abs();
        if size == 0 {
            return f.write_str("0s");
        }
        let sign = if self.is_negative() { "-" } else { "" };
        let small = |unit: u64, name: &str| format!("{}{name}", decimal(size, unit));
        let text = match size {
            0..1_000 => small(1, "ns"),
            1_000..1_000_000 => small(1_000, "µs"),
            1_000_000..1_000_000_000 => small(1_000_000, "ms"),
            _ => clock(size),
        };
        f.pad(&format!("{sign}{text}"))
    }
}

/// `1h2m3.5s`, without the hours or the minutes if there are none before them.
fn clock(nanoseconds: u64) -> String {
    let (minutes, rest) = (nanoseconds / 60_000_000_000, nanoseconds % 60_000_000_000);
    let seconds = format!("{}s", decimal(rest, 1_000_000_000));
    match (minutes / 60, minutes % 60) {
        (0, 0) => seconds,
        (0, minutes) => format!("{minutes}m{seconds}"),
        (hours, minutes) => format!("{hours}h{minutes}m{seconds}"),
    }
}

/// `size / unit` with as many digits after the point as it has.
fn decimal(size: u64, unit: u64) -> String {
    let (whole, rest) = (size / unit, size % unit);
    if rest == 0 {
        return whole.to_string();
    }
    let width = unit.ilog10() as usize;
    format!("{whole}.{}", format!("{rest:0width$}").trim_end_matches('0'))
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match text.parse() {
            // The pattern lets it through, and one such object must not keep others from being read.
            Err(DurationError::TooLong(_)) if text.starts_with('-') => Ok(Self::from_nanoseconds(i64::MIN)),
            Err(DurationError::TooLong(_)) => Ok(Self::from_nanoseconds(i64::MAX)),
            parsed => parsed.map_err(de::Error::custom),
        }
    }
}

impl JsonSchema for Duration {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string", "pattern": PATTERN})
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_are_read_and_written_as_go_does() {
        let rows = [
            ("0", "0s"),
            ("0s", "0s"),
            ("-0h", "0s"),
            ("5m30s", "5m30s"),
            ("90s", "1m30s"),
            ("1h", "1h0m0s"),
            ("1h2m3.5s", "1h2m3.5s"),
            ("1.5h", "1h30m0s"),
            (".5s", "500ms"),
            ("1.s", "1s"),
            ("+5s", "5s"),
            ("-1.5s", "-1.5s"),
            ("1500us", "1.5ms"),
            ("1µs", "1µs"),
            ("100ns", "100ns"),
            ("1s1s", "2s"),
            ("0.100000000000000000000h", "6m0s"),
            ("2540400h10m10.000000000s", "2540400h10m10s"),
        ];
        for (given, expected) in rows {
            assert_eq!(given.parse::<Duration>().map(|d| d.to_string()).as_deref(), Ok(expected), "{given}");
        }
    }

    #[test]
    fn what_is_no_duration_says_why() {
        let rows = [
            ("", "\"\" is not a duration such as `90s` or `1h30m`"),
            ("5", "\"5\" has no unit after 5: write `5s` for seconds"),
            ("1m5", "\"1m5\" has no unit after 5: write `5s` for seconds"),
            ("s", "\"s\" is not a duration such as `90s` or `1h30m`"),
            (".s", "\".s\" is not a duration such as `90s` or `1h30m`"),
            ("1.2.3s", "\"1.2.3s\" is not a duration such as `90s` or `1h30m`"),
            ("1d", "\"1d\" is not a duration such as `90s` or `1h30m`"),
            ("3000000h", "\"3000000h\" is more than 292 years"),
        ];
        for (given, expected) in rows {
            assert_eq!(given.parse::<Duration>().expect_err(given).to_string(), expected);
        }
    }

    #[test]
    fn a_field_with_a_duration_that_is_too_long_is_still_read() {
        let read = |text: &str| serde_json::from_value::<Duration>(text.into()).map(Duration::nanoseconds).ok();
        assert_eq!((read("3000000h"), read("-3000000h"), read("soon")), (Some(i64::MAX), Some(i64::MIN), None));
    }

    proptest! {
        #[test]
        fn the_pattern_takes_what_is_read(text in "[-+]?[0-9.]{0,4}(n|u|µ|m|h)?s?[0-9.]{0,2}[hms]?") {
            let is_read = !matches!(text.parse::<Duration>(), Err(DurationError::Syntax(_) | DurationError::NoUnit { .. }));
            prop_assert_eq!(regex::Regex::new(PATTERN).expect("a pattern").is_match(&text), is_read);
        }

        #[test]
        fn what_is_written_is_read_as_the_same(nanoseconds in any::<i64>()) {
            let duration = Duration::from_nanoseconds(nanoseconds);
            prop_assert_eq!(duration.to_string().parse(), Ok(duration));
        }

        #[test]
        fn any_text_is_a_duration_or_an_error(text in "[-+]?[0-9.hmsuµn]{0,12}") {
            let _ = text.parse::<Duration>();
        }
    }
}
