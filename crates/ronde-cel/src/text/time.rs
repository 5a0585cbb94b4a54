//! Dates and points in time: RFC 3339 as rules and the schema formats `date` and `date-time` read it.

use std::fmt;

use jiff::{civil::Date, tz};

const SECONDS_PER_DAY: i64 = 86_400;
/// The first second of year 1 and the last of year 9999.
const SECONDS_MIN: i64 = -62_135_596_800;
const SECONDS_MAX: i64 = 253_402_300_799;

/// A point in time with the offset it was written with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Since 1970, UTC.
    pub seconds: i64,
    pub nanoseconds: u32,
    /// East of UTC; not part of the point itself.
    offset: Offset,
}

/// Compares equal always: two times are the same whatever zone they are written in.
#[derive(Debug, Clone, Copy)]
struct Offset(i32);

impl PartialEq for Offset {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl Eq for Offset {}
impl PartialOrd for Offset {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Offset {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

/// The calendar fields of a time in some zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fields {
    pub date: Date,
    pub hour: i64,
    pub minute: i64,
    pub second: i64,
}

/// Reads `2024-02-29`.
pub fn parse_date(text: &str) -> Option<Date> {
    let bytes = text.as_bytes();
    let shape = bytes.len() == 10
        && bytes.iter().enumerate().all(|(i, b)| match i {
            4 | 7 => *b == b'-',
            _ => b.is_ascii_digit(),
        });
    if !shape {
        return None;
    }
    Date::new(text[..4].parse().ok()?, text[5..7].parse().ok()?, text[8..].parse().ok()?).ok()
}

impl Time {
    /// Reads RFC 3339: `2024-02-29T12:34:56.789+01:00`.
    pub fn parse(text: &str) -> Option<Self> {
        let (date, rest) = (text.get(..10)?, text.get(10..)?.strip_prefix('T')?);
        let (clock, zone_at) = (rest.get(..8)?, rest[8..].find(|c: char| !c.is_ascii_digit() && c != '.' && c != ','));
        let (fraction, zone) = rest[8..].split_at(zone_at?);
        let offset = parse_offset(zone)?;
        Some(Self::from_parts(parse_date(date)?, parse_clock(clock)?, parse_fraction(fraction)?, offset))
    }

    /// Reads what the schema format `date-time` takes: RFC 3339, or without a zone.
    pub fn parse_format(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self::at(0, 0));
        }
        Self::parse(text).or_else(|| {
            let (date, clock) = text.split_once('T')?;
            let (clock, fraction) = clock.split_at_checked(8)?;
            Some(Self::from_parts(parse_date(date)?, parse_clock(clock)?, parse_fraction(fraction)?, 0))
        })
    }

    fn from_parts(date: Date, clock: i64, nanoseconds: u32, offset: i32) -> Self {
        let seconds = days_since_1970(date) * SECONDS_PER_DAY + clock - i64::from(offset);
        Self { seconds, nanoseconds, offset: Offset(offset) }
    }

    /// Midnight UTC of a day.
    pub fn midnight(date: Date) -> Self {
        Self::at(days_since_1970(date) * SECONDS_PER_DAY, 0)
    }

    pub fn at(seconds: i64, nanoseconds: u32) -> Self {
        Self { seconds, nanoseconds, offset: Offset(0) }
    }

    pub fn is_in_range(self) -> bool {
        (SECONDS_MIN..=SECONDS_MAX).contains(&self.seconds)
    }

    /// Moved by a number of nanoseconds, if it stays within years 1 to 9999.
    pub fn checked_add(self, nanoseconds: i64) -> Option<Self> {
        let total = i128::from(self.seconds) * 1_000_000_000 + i128::from(self.nanoseconds) + i128::from(nanoseconds);
        let seconds = i64::try_from(total.div_euclid(1_000_000_000)).ok()?;
        let nanoseconds = u32::try_from(total.rem_euclid(1_000_000_000)).ok()?;
        Some(Self { seconds, nanoseconds, offset: self.offset }).filter(|time| time.is_in_range())
    }

    /// The nanoseconds from `other` to this, if they fit a duration.
    pub fn checked_sub(self, other: Self) -> Option<i64> {
        let nanoseconds = |t: Self| i128::from(t.seconds) * 1_000_000_000 + i128::from(t.nanoseconds);
        i64::try_from(nanoseconds(self) - nanoseconds(other)).ok()
    }

    /// The calendar fields in the zone `offset` seconds east of UTC.
    pub fn fields(self, offset: i32) -> Fields {
        let local = self.seconds + i64::from(offset);
        let (day, second) = (local.div_euclid(SECONDS_PER_DAY), local.rem_euclid(SECONDS_PER_DAY));
        Fields { date: date_of(day), hour: second / 3600, minute: second / 60 % 60, second: second % 60 }
    }

    /// The offset of a zone at this time: `+01:00` or a name like `Europe/Paris`.
    pub fn offset_in(self, zone: &str) -> Option<i32> {
        if let Some((hours, minutes)) = zone.split_once(':') {
            let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
            let minutes = if zone.starts_with('-') { -minutes } else { minutes };
            return hours.checked_mul(60)?.checked_add(minutes)?.checked_mul(60);
        }
        if zone.is_empty() || zone == "UTC" {
            return Some(0);
        }
        let zone = tz::TimeZone::get(zone).ok()?;
        let clamped = self.seconds.clamp(-377_705_023_201 / 2, 253_402_207_200);
        Some(zone.to_offset(jiff::Timestamp::from_second(clamped).ok()?).seconds())
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = self.fields(self.offset.0);
        let (year, month, day) = (fields.date.year(), fields.date.month(), fields.date.day());
        write!(f, "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}", fields.hour, fields.minute, fields.second)?;
        if self.nanoseconds != 0 {
            let digits = format!("{:09}", self.nanoseconds);
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        match self.offset.0 / 60 {
            0 => f.write_str("Z"),
            minutes => {
                let sign = if minutes < 0 { '-' } else { '+' };
                write!(f, "{sign}{:02}:{:02}", minutes.abs() / 60, minutes.abs() % 60)
            }
        }
    }
}

fn parse_clock(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let shape = bytes.len() == 8
        && bytes.iter().enumerate().all(|(i, b)| match i {
            2 | 5 => *b == b':',
            _ => b.is_ascii_digit(),
        });
    if !shape {
        return None;
    }
    let (hour, minute, second): (i64, i64, i64) =
        (text[..2].parse().ok()?, text[3..5].parse().ok()?, text[6..].parse().ok()?);
    (hour < 24 && minute < 60 && second < 60).then_some(hour * 3600 + minute * 60 + second)
}

fn parse_fraction(text: &str) -> Option<u32> {
    if text.is_empty() {
        return Some(0);
    }
    let digits = text.strip_prefix(['.', ','])?;
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    format!("{digits:0<9}")[..9].parse().ok()
}

fn parse_offset(text: &str) -> Option<i32> {
    if text == "Z" {
        return Some(0);
    }
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = text[1..].split_once(':').filter(|(h, m)| h.len() == 2 && m.len() == 2)?;
    if !(hours.bytes().chain(minutes.bytes()).all(|b| b.is_ascii_digit())) {
        return None;
    }
    let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
    (hours <= 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

fn days_since_1970(date: Date) -> i64 {
    let (year, month) = (i64::from(date.year()), i64::from(date.month()));
    // Years start in March here, so that a leap day is a year's last day.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + i64::from(date.day()) - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn date_of(day: i64) -> Date {
    let day = day + 719_468;
    let (era, day_of_era) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let date = (|| {
        let (year, month) = (i16::try_from(year).ok()?, i8::try_from(month).ok()?);
        Date::new(year, month, i8::try_from(day_of_year - (153 * shifted + 2) / 5 + 1).ok()?).ok()
    })();
    date.unwrap_or(if year < 0 { Date::MIN } else { Date::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_and_show() {
        let check = |text: &str, expected: &str| {
            assert_eq!(Time::parse(text).map(|t| t.to_string()).as_deref(), Some(expected), "{text}");
        };
        check("2024-02-29T12:34:56Z", "2024-02-29T12:34:56Z");
        check("2024-02-29T12:34:56.780Z", "2024-02-29T12:34:56.78Z");
        check("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z");
        check("9999-12-31T23:59:59.999999999Z", "9999-12-31T23:59:59.999999999Z");
        check("2024-02-29T12:34:56+01:30", "2024-02-29T12:34:56+01:30");
        check("1970-01-01T00:00:00-00:00", "1970-01-01T00:00:00Z");
        for bad in [
            "",
            "2024-02-29",
            "2023-02-29T00:00:00Z",
            "2024-02-29T24:00:00Z",
            "2024-02-29T12:34:56",
            "x",
            "2024-02-29 12:34:56Z",
            "2024-2-9T12:34:56Z",
            "2024-02-29T12:34:56.Z",
        ] {
            assert_eq!(Time::parse(bad), None, "{bad}");
        }
        assert_eq!(Time::parse("2024-02-29T13:00:00+01:00"), Time::parse("2024-02-29T12:00:00Z"));
        assert_eq!(Time::parse("1970-01-02T00:00:01Z").map(|t| t.seconds), Some(86_401));
    }

    #[test]
    fn arithmetic_stays_in_range() {
        let time = |text: &str| Time::parse(text).expect("valid");
        let last = time("9999-12-31T23:59:59Z");
        assert_eq!(last.checked_add(1_000_000_000), None);
        assert_eq!(time("2024-03-01T00:00:00Z").checked_add(-1), Some(time("2024-02-29T23:59:59.999999999Z")));
        assert_eq!(last.checked_sub(time("0001-01-01T00:00:00Z")), None);
        assert_eq!(time("2024-01-01T00:00:01Z").checked_sub(time("2024-01-01T00:00:00Z")), Some(1_000_000_000));
    }

    #[test]
    fn zones_shift_fields() {
        let time = Time::parse("2024-02-29T23:30:00Z").expect("valid");
        let hour = |zone: &str| time.offset_in(zone).map(|offset| time.fields(offset).hour);
        assert_eq!((hour("UTC"), hour("+01:00"), hour("-02:30")), (Some(23), Some(0), Some(21)));
        assert_eq!(hour("Nowhere/Else"), None);
    }

    proptest::proptest! {
        #[test]
        fn days_and_dates_are_inverse(day in -719_162_i64..2_932_896) {
            proptest::prop_assert_eq!(days_since_1970(date_of(day)), day);
        }
    }
}
