//! What is measured of a cluster, what it should be, and how two of them are shown side by side.

use std::fmt::Write as _;

/// What was measured of one cluster.
#[derive(Debug, Clone, Copy)]
pub struct Measured {
    pub started_ms: f64,
    pub started_worst_ms: f64,
    pub gone_ms: f64,
    pub at_once_s: f64,
    pub pod_mb: f64,
    pub daemons_mb: f64,
    pub rest_percent: f64,
    pub exec_ms: f64,
    pub log_mb_per_s: f64,
    pub lost_lines: f64,
}

struct Line {
    name: &'static str,
    unit: &'static str,
    read: fn(&Measured) -> f64,
    aim: Aim,
}

/// What ours should reach; it also says which direction is the better one.
enum Aim {
    Below(f64),
    Above(f64),
    Less,
}

const LINES: [Line; 10] = [
    line("create to Running, median", "ms", |of| of.started_ms, Aim::Below(100.0)),
    line("create to Running, p99", "ms", |of| of.started_worst_ms, Aim::Below(250.0)),
    line("delete to gone, median", "ms", |of| of.gone_ms, Aim::Below(100.0)),
    line("100 pods at once, all Running", "s", |of| of.at_once_s, Aim::Below(5.0)),
    line("memory per pod, of the runtime's processes", "MB", |of| of.pod_mb, Aim::Below(3.0)),
    line("memory of the daemons, with 100 pods", "MB", |of| of.daemons_mb, Aim::Less),
    line("processor at rest with 50 pods", "%", |of| of.rest_percent, Aim::Below(1.0)),
    line("exec round trip, median", "ms", |of| of.exec_ms, Aim::Below(30.0)),
    line("words into the log", "MB/s", |of| of.log_mb_per_s, Aim::Above(200.0)),
    line("last of 200 000 lines that the log lost", "lines", |of| of.lost_lines, Aim::Below(1.0)),
];

const fn line(name: &'static str, unit: &'static str, read: fn(&Measured) -> f64, aim: Aim) -> Line {
    Line { name, unit, read, aim }
}

/// Returns the table; a ratio above one says that ours is the better one.
pub fn render(ours: &Measured, theirs: Option<&Measured>) -> String {
    let mut table = format!("{:<44} {:>10} {:>11} {:>8} {:>11}\n", "", "ronde", "kubernetes", "ratio", "aim");
    for Line { name, unit, read, aim } in &LINES {
        let mine = read(ours);
        let (peer, ratio) = theirs.map_or(("-".to_owned(), "-".to_owned()), |theirs| {
            let peer = read(theirs);
            (shown(peer, unit), aim.ratio(mine, peer).map_or("-".to_owned(), |ratio| format!("{ratio:.1}x")))
        });
        let missed = if aim.is_met(mine) { "" } else { "   missed" };
        let aim = aim.shown(unit);
        let mine = shown(mine, unit);
        // Writing into a string cannot fail.
        let _ = writeln!(table, "{name:<44} {mine:>10} {peer:>11} {ratio:>8} {aim:>11}{missed}");
    }
    table
}

impl Aim {
    fn is_met(&self, value: f64) -> bool {
        match self {
            Self::Below(limit) => value < *limit,
            Self::Above(limit) => value > *limit,
            Self::Less => true,
        }
    }

    fn ratio(&self, ours: f64, theirs: f64) -> Option<f64> {
        let (more, less) = match self {
            Self::Above(_) => (ours, theirs),
            Self::Below(_) | Self::Less => (theirs, ours),
        };
        (less > 0.0).then_some(more / less)
    }

    fn shown(&self, unit: &str) -> String {
        match self {
            Self::Below(limit) => format!("< {limit} {unit}"),
            Self::Above(limit) => format!("> {limit} {unit}"),
            Self::Less => String::new(),
        }
    }
}

fn shown(value: f64, unit: &str) -> String {
    let digits = if value < 10.0 && unit != "lines" { 2 } else { 0 };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: Measured = Measured {
        started_ms: 40.0,
        started_worst_ms: 300.0,
        gone_ms: 30.0,
        at_once_s: 2.5,
        pod_mb: 2.0,
        daemons_mb: 50.0,
        rest_percent: 0.5,
        exec_ms: 10.0,
        log_mb_per_s: 400.0,
        lost_lines: 0.0,
    };

    #[track_caller]
    fn check(name: &str, theirs: Option<Measured>, line: usize, expected: &str) {
        let table = render(&OURS, theirs.as_ref());
        let found: Vec<&str> = table.lines().nth(line).unwrap_or_default().split_whitespace().rev().collect();
        let expected: Vec<&str> = expected.split_whitespace().rev().collect();
        assert_eq!(found[..expected.len()], expected, "{name}");
    }

    #[test]
    fn lines_of_the_table() {
        let theirs = Measured { started_ms: 1000.0, log_mb_per_s: 100.0, daemons_mb: 1000.0, ..OURS };
        check("less time is better", Some(theirs), 1, "40 ms 1000 ms 25.0x < 100 ms");
        check("an aim that is missed is named", Some(theirs), 2, "300 ms 300 ms 1.0x < 250 ms missed");
        check("what has no aim has a ratio", Some(theirs), 6, "50 MB 1000 MB 20.0x");
        check("more throughput is better", Some(theirs), 9, "400 MB/s 100 MB/s 4.0x > 200 MB/s");
        check(
            "nothing is not compared",
            Some(Measured { lost_lines: 9.0, ..theirs }),
            10,
            "0 lines 9 lines - < 1 lines",
        );
        check("without the peer there is no ratio", None, 1, "40 ms - - < 100 ms");
    }
}
