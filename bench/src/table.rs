//! What is measured of two clusters, side by side, beside what it should be.

use std::fmt::Write as _;

/// One row: what it is called, how it is read from what was measured, and what ours should reach.
pub struct Line<T> {
    name: &'static str,
    unit: &'static str,
    read: fn(&T) -> f64,
    aim: Aim,
}

/// What ours should reach; it also says which direction is the better one.
pub enum Aim {
    Below(f64),
    Above(f64),
    Less,
    /// So many times as good as the other one; less is better.
    Times(f64),
}

pub const fn line<T>(name: &'static str, unit: &'static str, read: fn(&T) -> f64, aim: Aim) -> Line<T> {
    Line { name, unit, read, aim }
}

/// Returns the table; a ratio above one says that ours is the better one.
pub fn render<T>(lines: &[Line<T>], ours: &T, theirs: Option<&T>) -> String {
    let mut table = format!("{:<44} {:>10} {:>11} {:>8} {:>11}\n", "", "ronde", "kubernetes", "ratio", "aim");
    for Line { name, unit, read, aim } in lines {
        let mine = read(ours);
        let (peer, ratio) = theirs.map_or(("-".to_owned(), "-".to_owned()), |theirs| {
            let peer = read(theirs);
            (shown(peer, unit), aim.ratio(mine, peer).map_or("-".to_owned(), |ratio| format!("{ratio:.1}x")))
        });
        let missed = if aim.is_met(mine, theirs.map(read)) { "" } else { "   missed" };
        let aim = aim.shown(unit);
        let mine = shown(mine, unit);
        // Writing into a string cannot fail.
        let _ = writeln!(table, "{name:<44} {mine:>10} {peer:>11} {ratio:>8} {aim:>11}{missed}");
    }
    table
}

impl Aim {
    fn is_met(&self, value: f64, peer: Option<f64>) -> bool {
        match self {
            Self::Below(limit) => value < *limit,
            Self::Above(limit) => value > *limit,
            Self::Times(factor) => peer.is_none_or(|peer| value * factor <= peer),
            Self::Less => true,
        }
    }

    fn ratio(&self, ours: f64, theirs: f64) -> Option<f64> {
        let (more, less) = match self {
            Self::Above(_) => (ours, theirs),
            Self::Below(_) | Self::Less | Self::Times(_) => (theirs, ours),
        };
        (less > 0.0).then_some(more / less)
    }

    fn shown(&self, unit: &str) -> String {
        match self {
            Self::Below(limit) => format!("< {limit} {unit}"),
            Self::Above(limit) => format!("> {limit} {unit}"),
            Self::Times(factor) => format!(">= {factor}x"),
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

    struct Measured {
        started_ms: f64,
        worst_ms: f64,
        daemons_mb: f64,
        log_mb_per_s: f64,
        lost_lines: f64,
        pulled_s: f64,
    }

    const LINES: [Line<Measured>; 6] = [
        line("started", "ms", |of| of.started_ms, Aim::Below(100.0)),
        line("worst", "ms", |of| of.worst_ms, Aim::Below(250.0)),
        line("daemons", "MB", |of| of.daemons_mb, Aim::Less),
        line("log", "MB/s", |of| of.log_mb_per_s, Aim::Above(200.0)),
        line("lost", "lines", |of| of.lost_lines, Aim::Below(1.0)),
        line("pulled", "s", |of| of.pulled_s, Aim::Times(5.0)),
    ];
    const OURS: Measured = Measured {
        started_ms: 40.0,
        worst_ms: 300.0,
        daemons_mb: 50.0,
        log_mb_per_s: 400.0,
        lost_lines: 0.0,
        pulled_s: 20.0,
    };

    #[track_caller]
    fn check(name: &str, theirs: Option<&Measured>, line: usize, expected: &str) {
        let table = render(&LINES, &OURS, theirs);
        let found: Vec<&str> = table.lines().nth(line).unwrap_or_default().split_whitespace().rev().collect();
        let expected: Vec<&str> = expected.split_whitespace().rev().collect();
        assert_eq!(found[..expected.len()], expected, "{name}");
    }

    #[test]
    fn lines_of_the_table() {
        let theirs = Measured { started_ms: 1000.0, log_mb_per_s: 100.0, daemons_mb: 1000.0, lost_lines: 9.0, ..OURS };
        let theirs = Some(&theirs);
        check("less time is better", theirs, 1, "40 ms 1000 ms 25.0x < 100 ms");
        check("an aim that is missed is named", theirs, 2, "300 ms 300 ms 1.0x < 250 ms missed");
        check("what has no aim has a ratio", theirs, 3, "50 MB 1000 MB 20.0x");
        check("more throughput is better", theirs, 4, "400 MB/s 100 MB/s 4.0x > 200 MB/s");
        check("nothing is not compared", theirs, 5, "0 lines 9 lines - < 1 lines");
        check("an aim beside the other", theirs, 6, "20 s 20 s 1.0x >= 5x missed");
        check("without the peer there is no ratio", None, 6, "20 s - - >= 5x");
    }
}
