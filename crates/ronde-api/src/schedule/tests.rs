//! Schedules, in zones whose clocks change.

use super::*;

/// Compares the times that are due after a moment, in the time of the zone.
fn check(what: &str, (schedule, zone): (&str, &str), after: &str, expected: &[&str]) {
    let parsed = Schedule::parse(schedule, Some(zone)).expect("a schedule");
    let zone = time_zone(zone).expect("a zone");
    let mut at: Timestamp = after.parse().expect("a time");
    for expected in expected {
        at = parsed.next_after(at).expect("a next time");
        let shown = at.to_zoned(zone.clone()).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string();
        assert_eq!(shown, *expected, "{what}: {schedule}");
    }
}

#[test]
fn fields_mean_what_they_mean_to_kubernetes() {
    let rows: [(&str, &str, [&str; 3]); 10] = [
        ("every minute", "* * * * *", ["2026-01-01T00:01:00", "2026-01-01T00:02:00", "2026-01-01T00:03:00"]),
        ("a step", "*/25 * * * *", ["2026-01-01T00:25:00", "2026-01-01T00:50:00", "2026-01-01T01:00:00"]),
        ("a step from", "50/5 3 * * *", ["2026-01-01T03:50:00", "2026-01-01T03:55:00", "2026-01-02T03:50:00"]),
        ("a list and a range", "0 1,3-4 * * *", ["2026-01-01T01:00:00", "2026-01-01T03:00:00", "2026-01-01T04:00:00"]),
        ("names", "0 0 1 FEB,mar *", ["2026-02-01T00:00:00", "2026-03-01T00:00:00", "2027-02-01T00:00:00"]),
        // 2026-01-01 is a Thursday.
        ("a day of the week", "0 0 ? * SUN", ["2026-01-04T00:00:00", "2026-01-11T00:00:00", "2026-01-18T00:00:00"]),
        ("either day", "0 0 3 * 0", ["2026-01-03T00:00:00", "2026-01-04T00:00:00", "2026-01-11T00:00:00"]),
        ("either day, by steps", "0 0 */20 * 0", ["2026-01-04T00:00:00", "2026-01-11T00:00:00", "2026-01-18T00:00:00"]),
        ("leap days", "0 0 29 2 *", ["2028-02-29T00:00:00", "2032-02-29T00:00:00", "2036-02-29T00:00:00"]),
        ("a nickname", "@monthly", ["2026-02-01T00:00:00", "2026-03-01T00:00:00", "2026-04-01T00:00:00"]),
    ];
    for (what, schedule, expected) in rows {
        let expected = expected.map(|time| format!("{time}+00:00"));
        check(what, (schedule, "UTC"), "2026-01-01T00:00:30Z", &expected.each_ref().map(String::as_str));
    }
    check("every so often", ("@every 90m", "UTC"), "2026-01-01T00:00:30Z", &["2026-01-01T01:30:30+00:00"]);
}

/// What, the schedule and its zone, after when, and the times that are due.
type Row = (&'static str, (&'static str, &'static str), &'static str, &'static [&'static str]);

const CHANGES: [Row; 11] = [
    (
        "a run that is skipped comes when the clocks have skipped it",
        ("30 2 * * *", "Europe/Berlin"),
        "2026-03-28T12:00:00Z",
        &["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"],
    ),
    (
        "several that are skipped are one",
        ("*/20 2,3 * * *", "Europe/Berlin"),
        "2026-03-28T12:00:00Z",
        &["2026-03-29T03:00:00+02:00", "2026-03-29T03:20:00+02:00"],
    ),
    (
        "every hour, nothing is lost",
        ("30 * * * *", "Europe/Berlin"),
        "2026-03-29T00:00:00Z",
        &["2026-03-29T01:30:00+01:00", "2026-03-29T03:30:00+02:00", "2026-03-29T04:30:00+02:00"],
    ),
    (
        "a run in an hour that comes twice comes once",
        ("30 2 * * *", "Europe/Berlin"),
        "2026-10-24T12:00:00Z",
        &["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"],
    ),
    (
        "also for who asks in the second hour",
        ("30,45 2,3 * * *", "Europe/Berlin"),
        "2026-10-25T01:35:00Z",
        &["2026-10-25T03:30:00+01:00", "2026-10-25T03:45:00+01:00"],
    ),
    (
        "every hour, both come",
        ("30 * * * *", "Europe/Berlin"),
        "2026-10-25T00:00:00Z",
        &["2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00", "2026-10-25T03:30:00+01:00"],
    ),
    (
        "every other hour follows the wall",
        ("0 */2 * * *", "Europe/Berlin"),
        "2026-10-24T22:30:00Z",
        &["2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00", "2026-10-25T04:00:00+01:00"],
    ),
    (
        "half an hour is skipped",
        ("15 2 * * *", "Australia/Lord_Howe"),
        "2026-10-03T00:00:00Z",
        &["2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00"],
    ),
    (
        "midnight is skipped",
        ("0 0 * * *", "America/Santiago"),
        "2026-09-05T12:00:00Z",
        &["2026-09-06T01:00:00-03:00", "2026-09-07T00:00:00-03:00"],
    ),
    (
        "a whole day is skipped",
        ("0 9 * * *", "Pacific/Apia"),
        "2011-12-29T12:00:00Z",
        &["2011-12-29T09:00:00-10:00", "2011-12-31T00:00:00+14:00", "2011-12-31T09:00:00+14:00"],
    ),
    (
        "a zone without summer time",
        ("0 9 * * 1", "Asia/Shanghai"),
        "2026-03-28T12:00:00Z",
        &["2026-03-30T09:00:00+08:00", "2026-04-06T09:00:00+08:00"],
    ),
];

#[test]
fn clocks_that_change_neither_lose_nor_double_a_run() {
    for (what, schedule, after, expected) in CHANGES {
        check(what, schedule, after, expected);
    }
}

#[test]
fn what_was_due_is_counted_and_the_last_is_found() {
    let time = |text: &str| -> Timestamp { text.parse().expect("a time") };
    let rows = [
        ("* * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:00:59Z", 0, None),
        ("* * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z", 1, Some("2026-01-01T00:01:00Z")),
        ("* * * * *", "2025-01-01T00:00:00Z", "2026-01-01T00:00:30Z", 1000, Some("2026-01-01T00:00:00Z")),
        ("0 0 * * *", "2026-01-01T00:00:00Z", "2026-01-11T12:00:00Z", 10, Some("2026-01-11T00:00:00Z")),
        ("0 0 29 2 *", "2024-01-01T00:00:00Z", "2027-01-11T12:00:00Z", 1, Some("2024-02-29T00:00:00Z")),
        ("@every 1h", "2026-01-01T00:30:00Z", "2026-01-01T03:29:59Z", 2, Some("2026-01-01T02:30:00Z")),
        ("@every 1h", "2026-01-01T00:30:00Z", "2026-01-01T01:29:59Z", 0, None),
        ("@every 1h", "2026-01-01T00:30:00Z", "2025-01-01T00:00:00Z", 0, None),
    ];
    for (schedule, after, now, count, last) in rows {
        let parsed = Schedule::parse(schedule, None).expect("a schedule");
        let (after, now) = (time(after), time(now));
        assert_eq!(parsed.count_between(after, now, 1000), count, "{schedule} {after} {now}");
        assert_eq!(parsed.last_between(after, now), last.map(time), "{schedule} {after} {now}");
    }
}

#[test]
fn what_is_no_schedule_is_told() {
    let rows = [
        ("", None, "it has 0 fields, not 5"),
        ("0 0 * * * *", None, "it has 6 fields, not 5"),
        ("60 * * * *", None, "value must be in range 0..=59; found 60"),
        ("5-1 * * * *", None, "range must be in ascending order; found 5-1"),
        ("@often", None, "it has 1 field, not 5"),
        ("@every soon", None, "\"soon\" is not a duration such as `90s` or `1h30m`"),
        ("@every 30s", None, "\"@every 30s\" is more often than once a minute"),
        ("0 0 30 2 *", None, "\"0 0 30 2 *\" is never due"),
        ("TZ=UTC 0 0 * * *", None, "has a time zone: write it as `timeZone`"),
        ("CRON_TZ=UTC 0 0 * * *", None, "has a time zone: write it as `timeZone`"),
        ("@daily", Some("Local"), "\"Local\" is not a time zone such as `Europe/Berlin`"),
        ("@daily", Some(""), "\"\" is not a time zone such as `Europe/Berlin`"),
    ];
    for (schedule, zone, expected) in rows {
        let error = Schedule::parse(schedule, zone).expect_err(schedule).to_string();
        assert!(error.ends_with(expected), "{schedule}: {error}");
    }
}
