//! Timestamps as the real server reads and writes them, with its words for what is wrong.
//!
//! Reads RFC 3339, element by element so that an error can name the element; writes UTC, in whole seconds or with six
//! digits.

use std::borrow::Cow;

use jiff::{SignedDuration, civil::DateTime};

/// Which of the two kinds of timestamp a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Precision {
    Seconds,
    /// Six digits after the point, in what is read too.
    Micros,
}

impl Precision {
    fn layout(self) -> &'static str {
        match self {
            Self::Seconds => "2006-01-02T15:04:05Z07:00",
            Self::Micros => "2006-01-02T15:04:05.000000Z07:00",
        }
    }
}

/// Returns the canonical text of a timestamp, borrowed where it is canonical already.
pub(super) fn canonical(text: &str, precision: Precision) -> Result<Cow<'_, str>, String> {
    let mut reader = Reader { text, rest: text, layout: precision.layout() };
    let (time, offset) = reader.read(precision)?;
    let is_canonical = offset.is_zero() && text.ends_with('Z') && text.len() == canonical_length(precision);
    let Some(utc) = time.checked_sub(offset).ok().filter(|_| !is_canonical) else { return Ok(Cow::Borrowed(text)) };
    let pattern = match precision {
        Precision::Seconds => "%Y-%m-%dT%H:%M:%SZ",
        Precision::Micros => "%Y-%m-%dT%H:%M:%S.%6fZ",
    };
    Ok(Cow::Owned(utc.strftime(pattern).to_string()))
}

fn canonical_length(precision: Precision) -> usize {
    match precision {
        Precision::Seconds => "2006-01-02T15:04:05Z".len(),
        Precision::Micros => "2006-01-02T15:04:05.000000Z".len(),
    }
}

struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
    layout: &'static str,
}

impl Reader<'_> {
    fn read(&mut self, precision: Precision) -> Result<(DateTime, SignedDuration), String> {
        let year = self.year()?;
        self.literal("-")?;
        let month = self.number("01", 2, 1..=12, "month")?;
        self.literal("-")?;
        let day = self.number("02", 2, 0..=99, "day")?;
        self.literal("T")?;
        let hour = self.number("15", 1, 0..=23, "hour")?;
        self.literal(":")?;
        let minute = self.number("04", 2, 0..=59, "minute")?;
        self.literal(":")?;
        let second = self.number("05", 2, 0..=59, "second")?;
        let nanosecond = match precision {
            Precision::Seconds => self.optional_fraction(),
            Precision::Micros => self.micros()?,
        };
        let offset = self.offset()?;
        if !self.rest.is_empty() {
            return Err(format!("parsing time {:?}: extra text: {:?}", self.text, self.rest));
        }
        let time = DateTime::new(year, month, day, hour, minute, second, nanosecond);
        Ok((time.map_err(|_| self.out_of_range("day"))?, offset))
    }

    fn year(&mut self) -> Result<i16, String> {
        let year = self.rest.get(..4).filter(|year| year.bytes().all(|b| b.is_ascii_digit()));
        let value = year.and_then(|year| year.parse().ok()).ok_or_else(|| self.cannot_parse("2006"))?;
        self.rest = &self.rest[4..];
        Ok(value)
    }

    fn literal(&mut self, literal: &'static str) -> Result<(), String> {
        self.rest = self.rest.strip_prefix(literal).ok_or_else(|| self.cannot_parse(literal))?;
        Ok(())
    }

    /// A number of two digits, or of one where `digits_min` is 1.
    fn number(
        &mut self,
        element: &'static str,
        digits_min: usize,
        range: std::ops::RangeInclusive<i8>,
        name: &str,
    ) -> Result<i8, String> {
        let digits = self.rest.bytes().take(2).take_while(u8::is_ascii_digit).count();
        if digits < digits_min {
            return Err(self.cannot_parse(element));
        }
        let value = self.rest[..digits].parse().map_err(|_| self.cannot_parse(element))?;
        self.rest = &self.rest[digits..];
        if range.contains(&value) { Ok(value) } else { Err(self.out_of_range(name)) }
    }

    /// Any number of digits after a point or comma; what is finer than nanoseconds is dropped.
    fn optional_fraction(&mut self) -> i32 {
        let Some(fraction) = self.rest.strip_prefix(['.', ',']) else { return 0 };
        let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return 0;
        }
        self.rest = &fraction[digits..];
        nanoseconds(&fraction[..digits])
    }

    fn micros(&mut self) -> Result<i32, String> {
        let fraction = self.rest.strip_prefix(['.', ',']).and_then(|fraction| fraction.get(..6));
        let digits = fraction.filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
        let value = nanoseconds(digits.ok_or_else(|| self.cannot_parse(".000000"))?);
        self.rest = &self.rest[7..];
        Ok(value)
    }

    fn offset(&mut self) -> Result<SignedDuration, String> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(SignedDuration::ZERO);
        }
        let bytes = self.rest.as_bytes();
        let (Some(sign @ (b'+' | b'-')), Some(b':'), true) = (bytes.first(), bytes.get(3), bytes.len() >= 6) else {
            return Err(self.cannot_parse("Z07:00"));
        };
        let number = |at: usize| self.rest.get(at..at + 2).and_then(|n| n.parse::<u8>().ok());
        let (Some(hours), Some(minutes)) = (number(1), number(4)) else { return Err(self.cannot_parse("Z07:00")) };
        for (value, most, name) in [(hours, 24, "time zone offset hour"), (minutes, 60, "time zone offset minute")] {
            if value > most {
                return Err(self.out_of_range(name));
            }
        }
        self.rest = &self.rest[6..];
        let offset = SignedDuration::from_mins(i64::from(hours) * 60 + i64::from(minutes));
        Ok(if *sign == b'-' { -offset } else { offset })
    }

    fn cannot_parse(&self, element: &str) -> String {
        let Self { text, rest, layout } = self;
        format!("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {element:?}")
    }

    fn out_of_range(&self, name: &str) -> String {
        format!("parsing time {:?}: {name} out of range", self.text)
    }
}

fn nanoseconds(digits: &str) -> i32 {
    digits.bytes().chain(std::iter::repeat(b'0')).take(9).fold(0, |sum, digit| sum * 10 + i32::from(digit - b'0'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn seconds() {
        let rows = [
            ("2024-02-29T12:34:56Z", "2024-02-29T12:34:56Z"),
            ("2024-02-29T12:34:56.789Z", "2024-02-29T12:34:56Z"),
            ("2024-03-01T00:30:00+01:30", "2024-02-29T23:00:00Z"),
            ("2024-03-01T00:30:00-01:30", "2024-03-01T02:00:00Z"),
            ("2024-03-01T00:30:00+00:00", "2024-03-01T00:30:00Z"),
            ("2024-03-01T0:30:00Z", "2024-03-01T00:30:00Z"),
        ];
        for (given, expected) in rows {
            assert_eq!(canonical(given, Precision::Seconds).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn micros() {
        let rows = [
            ("2024-02-29T12:34:56.000001Z", Ok("2024-02-29T12:34:56.000001Z")),
            ("2024-02-29T12:34:56.120000+01:00", Ok("2024-02-29T11:34:56.120000Z")),
            ("2024-02-29T12:34:56Z", Err("cannot parse \"Z\" as \".000000\"")),
            ("2024-02-29T12:34:56.1234567Z", Err("cannot parse \"7Z\" as \"Z07:00\"")),
        ];
        for (given, expected) in rows {
            match (canonical(given, Precision::Micros), expected) {
                (Ok(text), Ok(expected)) => assert_eq!(text, expected),
                (Err(text), Err(expected)) => assert!(text.ends_with(expected), "{text}"),
                (other, _) => panic!("{given}: {other:?}"),
            }
        }
    }

    #[test]
    fn errors_name_the_element() {
        let rows = [
            ("abc", r#"parsing time "abc" as "2006-01-02T15:04:05Z07:00": cannot parse "abc" as "2006""#),
            ("", r#"parsing time "" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "2006""#),
            ("2024-01-01", r#"parsing time "2024-01-01" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "T""#),
            ("2024-13-01T00:00:00Z", r#"parsing time "2024-13-01T00:00:00Z": month out of range"#),
            ("2023-02-29T00:00:00Z", r#"parsing time "2023-02-29T00:00:00Z": day out of range"#),
            ("2023-02-28T24:00:00Z", r#"parsing time "2023-02-28T24:00:00Z": hour out of range"#),
            ("2023-02-28T23:00:00Zx", r#"parsing time "2023-02-28T23:00:00Zx": extra text: "x""#),
        ];
        for (given, expected) in rows {
            assert_eq!(canonical(given, Precision::Seconds), Err(expected.to_owned()));
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_time_or_an_error(text in "(\\PC{0,8}|2024-01-0[0-9]T)[0-9:.,Z+é-]{0,20}") {
            for precision in [Precision::Seconds, Precision::Micros] {
                if let Ok(once) = canonical(&text, precision) {
                    let twice = canonical(&once, precision);
                    prop_assert_eq!(twice.as_deref(), Ok(&*once));
                }
            }
        }
    }
}
