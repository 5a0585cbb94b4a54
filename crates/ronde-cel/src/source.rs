//! The text of a CEL expression and the errors in it, shown the way the real server shows them: message, line, caret.

use std::fmt::Write as _;

/// A mistake at a place in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Issue {
    /// In characters from the start of the text; none if the text as a whole is wrong.
    pub offset: Option<u32>,
    pub message: String,
}

impl Issue {
    pub fn new(offset: u32, message: impl Into<String>) -> Self {
        Self { offset: Some(offset), message: message.into() }
    }

    pub fn nowhere(message: impl Into<String>) -> Self {
        Self { offset: None, message: message.into() }
    }
}

/// At most this many issues are shown.
const ISSUES_MAX: usize = 100;

/// Renders issues in the order of their places, one below the other.
pub(super) fn render(text: &str, mut issues: Vec<Issue>) -> String {
    issues.sort_by_key(|issue| issue.offset);
    let total = issues.len();
    let mut shown: Vec<String> = issues.iter().take(ISSUES_MAX).map(|issue| render_one(text, issue)).collect();
    if total > ISSUES_MAX {
        shown.push(format!("{} more errors were truncated", total - ISSUES_MAX));
    }
    shown.join("\n")
}

fn render_one(text: &str, issue: &Issue) -> String {
    let Some(offset) = issue.offset else { return format!("ERROR: <input>:-1:0: {}", issue.message) };
    let (line_number, column, line) = locate(text, offset as usize);
    let mut out = format!("ERROR: <input>:{line_number}:{}: {}", column + 1, issue.message);
    let _ = write!(out, "\n | {}\n | ", line.replace('\t', " "));
    let mut chars = line.chars();
    for c in chars.by_ref().take(column) {
        out.push(if c.is_ascii() { '.' } else { '\u{ff0e}' });
    }
    out.push(if chars.next().is_none_or(|c| c.is_ascii()) { '^' } else { '\u{ff3e}' });
    out
}

/// The 1-based line, the 0-based column and the line's text for a character offset.
fn locate(text: &str, offset: usize) -> (usize, usize, &str) {
    let mut start = 0;
    for (number, line) in text.split('\n').enumerate() {
        let length = line.chars().count();
        if offset <= start + length {
            return (number + 1, offset - start, line);
        }
        start += length + 1;
    }
    (1, 0, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issues_point_at_their_place() {
        let check = |name: &str, text: &str, offsets: &[u32], expected: &str| {
            let issues = offsets.iter().map(|&offset| Issue::new(offset, "oops")).collect();
            assert_eq!(render(text, issues), expected, "{name}");
        };
        check("at the start", "a+b", &[0], "ERROR: <input>:1:1: oops\n | a+b\n | ^");
        check("inside", "a+b", &[2], "ERROR: <input>:1:3: oops\n | a+b\n | ..^");
        check("at the end", "a+", &[2], "ERROR: <input>:1:3: oops\n | a+\n | ..^");
        check("in the second line", "a +\n  b", &[6], "ERROR: <input>:2:3: oops\n |   b\n | ..^");
        check("behind a wide letter", "'é' b", &[4], "ERROR: <input>:1:5: oops\n | 'é' b\n | .．..^");
        check("a tab", "\tb", &[1], "ERROR: <input>:1:2: oops\n |  b\n | .^");
        let both = "ERROR: <input>:1:1: oops\n | ab\n | ^\nERROR: <input>:1:2: oops\n | ab\n | .^";
        check("in the order of places", "ab", &[1, 0], both);
    }
}
