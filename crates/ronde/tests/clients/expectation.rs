//! Compares what a command printed with what a transcript says.
//!
//! A line `...` stands for any number of lines, `[..]` for any text within one. What differs from run to run gets a
//! name in brackets first. Runs of spaces inside a line count as one: the width of a column depends on an age.

use std::{process::Output, sync::LazyLock};

use regex::Regex;

/// Stands for any number of lines.
const ANY_LINES: &str = "...";
/// Stands for any text within a line.
const ANY_TEXT: &str = "[..]";

/// What differs between two runs, and its name. The order matters: an address is no age.
static VARYING: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let patterns = [
        (r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "[UID]"),
        (r"\b(127\.0\.0\.1|localhost):\d{4,5}\b", "[SERVER]"),
        (r"\b10(\.\d{1,3}){3}\b", "[IP]"),
        (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z| [+-]\d{4} \w+)?", "[TIME]"),
        (r"\b[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d \d{4}\b", "[TIME]"),
        (r"\b[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "[TIME]"),
        (r#"(?P<keep>[rR]esource ?Version\\?"?: *\\?"?)\d+"#, "$keep[VERSION]"),
        (r"\bkube-api-access-[a-z0-9]{5}\b", "kube-api-access-[NAME]"),
        (r"\bkubectl-edit-\d+", "kubectl-edit-[NAME]"),
        (r"(?P<keep>\s)((\d+m)?\d{1,2}s|1[01]\ds|[2-9]m)(?P<end>\s|$)", "$keep[AGE]$end"),
        (r"\b(?P<keep>INFO|ERRO)\[\d{4}\]", "$keep[0000]"),
        // Newer clients say where an object was deleted from.
        (r#"(?P<keep>" (force )?deleted) from \S+ namespace"#, "$keep"),
    ];
    patterns.map(|(pattern, name)| (Regex::new(&format!("(?m){pattern}")).unwrap(), name)).into()
});

/// Returns what a command did in the form a transcript has it: stdout, stderr with `! `, an exit code other than 0.
pub fn lines_of(output: &Output, home: &str) -> Vec<String> {
    let text = |bytes: &[u8]| redact(&String::from_utf8_lossy(bytes), home);
    let mut lines: Vec<_> = text(&output.stdout).trim_end().lines().map(|line| line.trim_end().to_owned()).collect();
    lines.extend(text(&output.stderr).trim_end().lines().map(|line| format!("! {line}").trim_end().to_owned()));
    match output.status.code() {
        Some(0) => {}
        Some(code) => lines.push(format!("[{code}]")),
        None => lines.push("[killed]".to_owned()),
    }
    lines
}

/// Replaces what differs from run to run, and nothing else.
pub fn redact(text: &str, home: &str) -> String {
    let mut text = text.replace(home, "[HOME]");
    for (pattern, name) in VARYING.iter() {
        text = pattern.replace_all(&text, *name).into_owned();
    }
    text
}

/// Tells whether all lines are as expected, in their order.
pub fn is_met(expected: &[String], actual: &[String]) -> bool {
    match expected.split_first() {
        None => actual.is_empty(),
        Some((first, rest)) if first == ANY_LINES => (0..=actual.len()).any(|skipped| is_met(rest, &actual[skipped..])),
        Some((first, rest)) => {
            actual.split_first().is_some_and(|(line, others)| is_line_met(first, line) && is_met(rest, others))
        }
    }
}

fn is_line_met(expected: &str, actual: &str) -> bool {
    let (expected, actual) = (with_single_spaces(expected), with_single_spaces(actual));
    let mut parts = expected.split(ANY_TEXT);
    let Some(mut left) = actual.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let parts: Vec<_> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return left.is_empty() };
    for part in middle {
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    left.ends_with(last)
}

/// Shortens every run of spaces but the indentation.
fn with_single_spaces(line: &str) -> String {
    let text = line.trim_start();
    let words: Vec<_> = text.split(' ').filter(|word| !word.is_empty()).collect();
    format!("{}{}", &line[..line.len() - text.len()], words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, expected: &str, actual: &str, met: bool) {
        let split = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(is_met(&split(expected), &split(actual)), met, "{name}");
    }

    #[test]
    fn lines_are_compared() {
        check("the same", "a\nb", "a\nb", true);
        check("a line is missing", "a\nb", "a", false);
        check("a line too many", "a", "a\nb", false);
        check("any lines at the end", "a\n...", "a\nb\nc", true);
        check("any lines may be none", "a\n...", "a", true);
        check("any lines in the middle", "a\n...\nc", "a\nb\nb\nc", true);
        check("any lines do not hide the end", "a\n...\nc", "a\nb", false);
        check("any text in a line", "pod/web-[..] created", "pod/web-x7 created", true);
        check("any text does not hide the end", "pod/web-[..] created", "pod/web-x7 deleted", false);
        check("any text twice", "[..]b[..]", "abc", true);
        check("a wider column", "NAME  AGE", "NAME     AGE", true);
        check("another indentation", "  a", "    a", false);
    }

    #[test]
    fn what_varies_gets_a_name() {
        let check = |text: &str, expected: &str| assert_eq!(redact(text, "/home/me"), expected);
        check("web   1/1   2m13s", "web   1/1   [AGE]");
        check("web   5s   10.0.0.17   <none>", "web   [AGE]   [IP]   <none>");
        check("https://127.0.0.1:6443/api", "https://[SERVER]/api");
        check("/home/me/web.yaml", "[HOME]/web.yaml");
        check("Start Time: Sun, 15 Nov 2026 20:35:12 +0000", "Start Time: [TIME]");
        check("LAST DEPLOYED: Sun Nov 15 20:35:12 2026", "LAST DEPLOYED: [TIME]");
        check("updated 2026-11-15 20:35:12.123 +0000 UTC", "updated [TIME]");
        check("  resourceVersion: \"12\"", "  resourceVersion: \"[VERSION]\"");
        check("cpu:  100m", "cpu:  100m");
        check("pod \"a\" force deleted from web namespace", "pod \"a\" force deleted");
    }
}
