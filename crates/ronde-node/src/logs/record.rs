//! One line of a log file: `2026-11-15T22:00:00.123456789Z stdout F text`. Pure.
//!
//! `F` ends a line of the container, `P` is a part of one that goes on in the next record of the same output.

use jiff::Timestamp;

/// Which of its two outputs a container wrote to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Output {
    Stdout,
    Stderr,
}

/// A record as it stands in a file, without its line feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// RFC 3339, as written.
    pub time: &'a str,
    pub output: Output,
    /// Whether the line of the container ends here.
    pub is_end: bool,
    pub text: &'a [u8],
}

impl Output {
    fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }

    /// Returns what stands between time and text.
    pub fn tag(self, is_end: bool) -> &'static [u8] {
        match (self, is_end) {
            (Self::Stdout, true) => b" stdout F ",
            (Self::Stdout, false) => b" stdout P ",
            (Self::Stderr, true) => b" stderr F ",
            (Self::Stderr, false) => b" stderr P ",
        }
    }
}

impl<'a> Record<'a> {
    /// Reads a line of a file; none if it is not a record.
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        let mut fields = line.splitn(4, |byte| *byte == b' ');
        let time = std::str::from_utf8(fields.next()?).ok()?;
        let name = fields.next()?;
        let output = [Output::Stdout, Output::Stderr].into_iter().find(|output| output.name().as_bytes() == name)?;
        // Tags may be many, separated by colons; only the first is known here.
        let is_end = match fields.next()?.split(|byte| *byte == b':').next()? {
            b"F" => true,
            b"P" => false,
            _ => return None,
        };
        let looks_like_time = time.len() >= "2026-11-15T22:00:00Z".len() && time.as_bytes()[10] == b'T';
        looks_like_time.then_some(Self { time, output, is_end, text: fields.next().unwrap_or_default() })
    }

    /// Whether it was written at or after a time; a time that cannot be read is not before anything.
    pub fn is_since(&self, since: Timestamp) -> bool {
        self.time.parse::<Timestamp>().map_or(true, |time| time >= since)
    }
}

/// Formats a time as records carry it: with all nine digits.
pub fn stamp(time: Timestamp) -> String {
    format!("{time:.9}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{ProptestConfig, any, proptest};

    use super::*;

    fn check(line: &str, expected: Option<(Output, bool, &str)>) {
        let found = Record::parse(line.as_bytes());
        let found = found.map(|record| (record.output, record.is_end, std::str::from_utf8(record.text).expect("text")));
        assert_eq!(found, expected, "{line}");
    }

    #[test]
    fn records_are_read_and_garbage_is_not() {
        check("2026-11-15T22:00:00.123456789Z stdout F hello  world ", Some((Output::Stdout, true, "hello  world ")));
        check("2026-11-15T22:00:00.1+01:00 stderr P a", Some((Output::Stderr, false, "a")));
        check("2026-11-15T22:00:00Z stdout F ", Some((Output::Stdout, true, "")));
        check("2026-11-15T22:00:00Z stdout F:x y", Some((Output::Stdout, true, "y")));
        check("2026-11-15T22:00:00Z stdout F", Some((Output::Stdout, true, "")));
        check("2026-11-15T22:00:00Z stdin F x", None);
        check("2026-11-15T22:00:00Z stdout X x", None);
        check("yesterday stdout F x", None);
        check("", None);
        check("   ", None);
    }

    #[test]
    fn times_are_written_in_full() {
        let time: Timestamp = "2026-11-15T22:00:00.5Z".parse().expect("a time");
        assert_eq!(stamp(time), "2026-11-15T22:00:00.500000000Z");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn nothing_makes_it_panic(line: Vec<u8>) {
            Record::parse(&line);
        }

        #[test]
        fn what_is_written_comes_back(text: Vec<u8>, is_end in any::<bool>(), second in 0_i64..4_000_000_000) {
            let time = Timestamp::from_second(second).expect("in range");
            let line = [stamp(time).as_bytes(), Output::Stderr.tag(is_end), &text].concat();
            let record = Record::parse(&line).expect("a record");
            assert_eq!((record.output, record.is_end, record.text), (Output::Stderr, is_end, &*text));
            assert!(record.is_since(time));
        }
    }
}
