//! The difference of two texts as the real server puts it into messages: a unified diff with three lines of context.
//!
//! Called by [`super::shown`]. Finds the same matches as Python's `difflib` (longest common run first, then both sides
//! of it; lines that are in more than a hundredth of a long text do not start a run), because the message is part of
//! the contract. Cost: lines × occurrences per run found, on an error path only, and bounded by [`LINES_MAX`].

use std::{collections::BTreeMap, fmt::Write as _};

/// A pod spec with a hundred containers has about this many lines; beyond it, no difference is shown.
const LINES_MAX: usize = 10_000;
const CONTEXT: usize = 3;
/// From this length on, frequent lines do not start a run.
const LONG: usize = 200;

/// Returns the unified diff of two texts, empty when they are equal or too long to compare.
pub fn unified(old: &str, new: &str) -> String {
    let a: Vec<&str> = old.split('\n').collect();
    let b: Vec<&str> = new.split('\n').collect();
    if a.len() > LINES_MAX || b.len() > LINES_MAX {
        return String::new();
    }
    let changes = changes(&matches(&a, &b));
    let mut out = String::new();
    for hunk in hunks(&changes, a.len(), b.len()) {
        write_hunk(&mut out, &hunk, &a, &b);
    }
    out
}

/// Lines that are equal in both texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Run {
    a: usize,
    b: usize,
    len: usize,
}

/// Lines `a0..a1` of the old text become `b0..b1` of the new one.
#[derive(Debug, Clone, Copy)]
struct Change {
    a0: usize,
    a1: usize,
    b0: usize,
    b1: usize,
}

fn matches(a: &[&str], b: &[&str]) -> Vec<Run> {
    let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, line) in b.iter().enumerate() {
        places.entry(line).or_default().push(index);
    }
    if b.len() >= LONG {
        places.retain(|_, indices| indices.len() <= b.len() / 100 + 1);
    }
    let mut runs = Vec::new();
    let mut open = vec![(0, a.len(), 0, b.len())];
    while let Some((a0, a1, b0, b1)) = open.pop() {
        let run = longest((a, b), &places, (a0, a1, b0, b1));
        if run.len > 0 {
            runs.push(run);
            open.push((a0, run.a, b0, run.b));
            open.push((run.a + run.len, a1, run.b + run.len, b1));
        }
    }
    runs.sort_unstable();
    runs.push(Run { a: a.len(), b: b.len(), len: 0 });
    runs
}

fn longest(
    (a, b): (&[&str], &[&str]),
    places: &BTreeMap<&str, Vec<usize>>,
    (a0, a1, b0, b1): (usize, usize, usize, usize),
) -> Run {
    let mut best = Run { a: a0, b: b0, len: 0 };
    let mut lengths: BTreeMap<usize, usize> = BTreeMap::new();
    for (i, line) in a.iter().enumerate().take(a1).skip(a0) {
        let mut next = BTreeMap::new();
        for &j in places.get(line).into_iter().flatten().filter(|&&j| j >= b0 && j < b1) {
            let len = j.checked_sub(1).and_then(|before| lengths.get(&before)).copied().unwrap_or_default() + 1;
            next.insert(j, len);
            if len > best.len {
                best = Run { a: i + 1 - len, b: j + 1 - len, len };
            }
        }
        lengths = next;
    }
    while best.a > a0 && best.b > b0 && a[best.a - 1] == b[best.b - 1] {
        best = Run { a: best.a - 1, b: best.b - 1, len: best.len + 1 };
    }
    while best.a + best.len < a1 && best.b + best.len < b1 && a[best.a + best.len] == b[best.b + best.len] {
        best.len += 1;
    }
    best
}

fn changes(runs: &[Run]) -> Vec<Change> {
    let (mut i, mut j) = (0, 0);
    let mut changes = Vec::new();
    for run in runs {
        if i < run.a || j < run.b {
            changes.push(Change { a0: i, a1: run.a, b0: j, b1: run.b });
        }
        (i, j) = (run.a + run.len, run.b + run.len);
    }
    changes
}

/// Changes that are shown together, with their context: fewer than twice the context lies between them.
struct Hunk<'a> {
    changes: &'a [Change],
    a0: usize,
    a1: usize,
    b0: usize,
    b1: usize,
}

fn hunks(changes: &[Change], a_len: usize, b_len: usize) -> Vec<Hunk<'_>> {
    changes
        .chunk_by(|before, after| after.a0 - before.a1 <= 2 * CONTEXT)
        .filter_map(|changes| {
            let (first, last) = (changes.first()?, changes.last()?);
            let (before, after) = (CONTEXT.min(first.a0), CONTEXT.min(a_len - last.a1).min(b_len - last.b1));
            Some(Hunk {
                changes,
                a0: first.a0 - before,
                a1: last.a1 + after,
                b0: first.b0 - before,
                b1: last.b1 + after,
            })
        })
        .collect()
}

fn write_hunk(out: &mut String, hunk: &Hunk<'_>, a: &[&str], b: &[&str]) {
    let _ = writeln!(out, "@@ -{} +{} @@", range(hunk.a0, hunk.a1), range(hunk.b0, hunk.b1));
    let mut at = hunk.a0;
    for change in hunk.changes {
        write_lines(out, ' ', &a[at..change.a0]);
        write_lines(out, '-', &a[change.a0..change.a1]);
        write_lines(out, '+', &b[change.b0..change.b1]);
        at = change.a1;
    }
    write_lines(out, ' ', &a[at..hunk.a1]);
}

fn write_lines(out: &mut String, mark: char, lines: &[&str]) {
    for line in lines {
        let _ = writeln!(out, "{mark}{line}");
    }
}

fn range(start: usize, end: usize) -> String {
    match end - start {
        0 => format!("{start},0"),
        1 => format!("{}", start + 1),
        len => format!("{},{len}", start + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::unified;

    fn check(name: &str, old: &str, new: &str, expected: &str) {
        assert_eq!(unified(&old.replace(' ', "\n"), &new.replace(' ', "\n")).replace('\n', "|"), expected, "{name}");
    }

    #[test]
    fn a_diff_shows_changes_with_three_lines_around_them() {
        check("equal texts", "a b c", "a b c", "");
        check("a changed line", "a b c d e f g h i", "a b c d E f g h i", "@@ -2,7 +2,7 @@| b| c| d|-e|+E| f| g| h|");
        check("a line more at the end", "a b", "a b c", "@@ -1,2 +1,3 @@| a| b|+c|");
        check("a line less at the start", "a b", "b", "@@ -1,2 +1 @@|-a| b|");
        check(
            "near changes share a hunk",
            "1 2 3 4 5 6 7 8",
            "1 x 3 4 5 6 y 8",
            "@@ -1,8 +1,8 @@| 1|-2|+x| 3| 4| 5| 6|-7|+y| 8|",
        );
        check(
            "far changes do not",
            "1 2 3 4 5 6 7 8 9 10 11",
            "x 2 3 4 5 6 7 8 9 10 y",
            "@@ -1,4 +1,4 @@|-1|+x| 2| 3| 4|@@ -8,4 +8,4 @@| 8| 9| 10|-11|+y|",
        );
    }
}
