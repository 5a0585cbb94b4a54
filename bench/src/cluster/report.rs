//! What was measured of one contender with one shape, as a row.

use std::fmt::Write as _;

use super::{audit::Calls, load::Timing, shape::Shape};
use crate::node::usage::Group;

/// What somebody did, and what that took.
#[derive(Debug, Default)]
pub struct Row {
    pub name: String,
    pub timing: Timing,
    /// None if nobody counts.
    pub calls: Option<Calls>,
    /// None of what runs elsewhere.
    pub used: Option<Group>,
}

pub fn head() -> String {
    format!(
        "{:>6} {:>10} {:<12} {:>8} {:>8} {:>9} {:>8} {:>8} {:>10} {:>10} {:>7} {:>7}",
        "NODES",
        "JOBSxPODS",
        "WHO",
        "SECONDS",
        "PODS/s",
        "OF FLOOR",
        "p50 s",
        "p99 s",
        "CALLS/POD",
        "CALLS/JOB",
        "CPU s",
        "MB"
    )
}

impl Row {
    /// Returns the row, with the floor's time to compare with.
    pub fn line(&self, nodes: usize, shape: Shape, floor: f64) -> String {
        let pods = shape.all_pods() as f64;
        let all = self.calls.as_ref().map(|calls| calls.values().sum::<usize>() as f64);
        let shown = |value: Option<f64>, digits: usize| value.map_or("-".to_owned(), |it| format!("{it:.digits$}"));
        format!(
            "{nodes:>6} {:>10} {:<12} {:>8.2} {:>8.0} {:>8.0}% {:>8.2} {:>8.2} {:>10} {:>10} {:>7} {:>7}",
            shape.to_string(),
            self.name,
            self.timing.seconds,
            pods / self.timing.seconds,
            100.0 * floor / self.timing.seconds,
            self.timing.percentile(50),
            self.timing.percentile(99),
            shown(all.map(|all| all / pods), 2),
            shown(all.map(|all| all / shape.jobs as f64), 1),
            shown(self.used.map(|used| used.cpu_seconds), 1),
            shown(self.used.map(|used| used.memory_mb), 0),
        )
    }

    /// Returns what was asked for, the most frequent first.
    pub fn calls_line(&self, shape: Shape) -> Option<String> {
        let mut calls: Vec<_> = self.calls.as_ref()?.iter().collect();
        calls.sort_by_key(|(name, number)| (std::cmp::Reverse(**number), (*name).clone()));
        let mut line = format!("{:>17} {:<12} per job:", "", self.name);
        for (name, number) in calls {
            // Writing into a string cannot fail.
            let _ = write!(line, " {name} {:.2},", *number as f64 / shape.jobs as f64);
        }
        Some(line.trim_end_matches(',').to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_ratios() {
        let shape: Shape = "2x5".parse().expect("a shape");
        let calls = Calls::from([("create pods".to_owned(), 10), ("update jobs/status".to_owned(), 4)]);
        let timing = Timing { seconds: 4.0, waits: (1..=10).map(f64::from).collect() };
        let used = Some(Group { cpu_seconds: 1.5, memory_mb: 40.2 });
        let row = Row { name: "ronde".to_owned(), timing, calls: Some(calls), used };
        let words: Vec<String> = row.line(100, shape, 3.0).split_whitespace().map(str::to_owned).collect();
        let expected = ["100", "2x5", "ronde", "4.00", "2", "75%", "6.00", "10.00", "1.40", "7.0", "1.5", "40"];
        assert_eq!(words, expected);
        let calls = row.calls_line(shape).unwrap_or_default();
        assert!(calls.ends_with("per job: create pods 5.00, update jobs/status 2.00"), "{calls}");
        assert_eq!(head().split_whitespace().count(), words.len() + 4, "four heads have two words");
    }
}
