//! What a scenario run leaves behind, and how two runs are compared. Text in, text out.
//!
//! Two servers of one kind must say the same, word for word. Ours must refuse what the real one refuses, with the same
//! code, reason and fields; its sentences are its own (decision 019).

use std::fmt;

use similar::TextDiff;

use crate::scenario::Scenario;

/// One block of text per recorded step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transcript {
    pub blocks: Vec<String>,
}

impl Transcript {
    /// Reads a transcript that `Display` wrote.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let blocks = text.split("\n\n").map(|block| block.trim_matches('\n').to_owned());
        Transcript { blocks: blocks.filter(|block| !block.is_empty()).collect() }
    }

    /// Returns what is wrong with this run when `expected` is the recording: nothing when all
    /// steps agree, except those that the scenario marks as different.
    #[must_use]
    pub fn compare(&self, expected: &Transcript, scenario: &Scenario) -> Vec<String> {
        let steps: Vec<_> = scenario.steps.iter().filter(|step| !step.options.quiet).collect();
        if expected.blocks.len() != steps.len() {
            return vec![OTHER_STEPS.into()];
        }
        let mut wrong = Vec::new();
        for ((step, expected), ours) in steps.iter().zip(&expected.blocks).zip(&self.blocks) {
            match (&step.options.differs, without_sentences(expected) == without_sentences(ours)) {
                (None, false) => wrong.push(diff(expected, ours)),
                (Some(reason), true) => {
                    wrong.push(format!("{}\n  agrees now; remove `@differs {reason}`\n", step.line));
                }
                _ => {}
            }
        }
        wrong
    }
}

/// Returns where two runs on servers of one kind differ, marked or not.
#[must_use]
pub fn differences(expected: &Transcript, found: &Transcript) -> Vec<String> {
    if expected.blocks.len() != found.blocks.len() {
        return vec![OTHER_STEPS.into()];
    }
    let pairs = expected.blocks.iter().zip(&found.blocks);
    pairs.filter(|(expected, found)| expected != found).map(|(expected, found)| diff(expected, found)).collect()
}

/// Returns a block without the sentences of a failure, and with its causes in an order that does not depend on them.
fn without_sentences(block: &str) -> String {
    if !block.lines().any(|line| line.trim_start() == "status: Failure") {
        return block.to_owned();
    }
    let mut parts: Vec<String> = Vec::new();
    let mut causes: Option<Vec<String>> = None;
    for line in block.lines() {
        let text = line.trim_start();
        let is_sentence = text.trim_start_matches("- ").starts_with("message:");
        let line = match line.split_once("message:") {
            Some((before, _)) if is_sentence => format!("{before}message"),
            _ => line.to_owned(),
        };
        match &mut causes {
            Some(list) if text.starts_with("- ") => list.push(line),
            Some(list) if !list.is_empty() && is_inside_cause(&line) => {
                if let Some(cause) = list.last_mut() {
                    cause.push('\n');
                    cause.push_str(&line);
                }
            }
            _ => {
                parts.extend(sorted(causes.take()));
                causes = (text == "causes:").then(Vec::new);
                parts.push(line);
            }
        }
    }
    parts.extend(sorted(causes));
    parts.join("\n")
}

/// Whether a line goes on with a cause: `field`, `message` and `reason` are all that one has.
fn is_inside_cause(line: &str) -> bool {
    let text = line.trim_start();
    line.starts_with("    ") && ["message", "reason: ", "field: "].iter().any(|key| text.starts_with(key))
}

fn sorted(causes: Option<Vec<String>>) -> Vec<String> {
    let mut causes = causes.unwrap_or_default();
    causes.sort_unstable();
    causes
}

const OTHER_STEPS: &str = "the recording has other steps than the scenario; record it again";

impl fmt::Display for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, block) in self.blocks.iter().enumerate() {
            if position > 0 {
                writeln!(f)?;
            }
            writeln!(f, "{block}")?;
        }
        Ok(())
    }
}

fn diff(expected: &str, ours: &str) -> String {
    let diff = TextDiff::from_lines(expected, ours);
    let head: Vec<&str> = expected
        .lines()
        .take_while(|line| line.starts_with('#'))
        .chain(expected.lines().find(|line| !line.starts_with('#')))
        .collect();
    format!("{}\n{}", head.join("\n"), diff.unified_diff().context_radius(3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transcript(text: &str) -> Transcript {
        Transcript::parse(text)
    }

    #[test]
    fn reads_what_it_writes() {
        let one = Transcript { blocks: vec!["GET /a\n200".into(), "GET /b\n404\nx: y".into()] };
        assert_eq!(transcript(&one.to_string()), one);
    }

    #[test]
    fn agreement_must_match_the_annotation() {
        let scenario: Scenario = "GET /a\nGET /b\n  @differs because\n".parse().expect("well formed");
        let expected = transcript("GET /a\n200\n\nGET /b\n200\n");
        let check = |ours: &str, wrong: usize| {
            assert_eq!(transcript(ours).compare(&expected, &scenario).len(), wrong, "{ours}");
        };
        check("GET /a\n200\n\nGET /b\n404\n", 0);
        check("GET /a\n200\n\nGET /b\n200\n", 1);
        check("GET /a\n500\n\nGET /b\n200\n", 2);
    }

    #[test]
    fn sentences_are_not_compared_but_code_reason_and_field_are() {
        let scenario: Scenario = "POST /a\n".parse().expect("well formed");
        let failure = |message: &str, causes: &str| {
            transcript(&format!(
                "POST /a\n422\ncode: 422\ndetails:\n  causes:\n{causes}  kind: Pod\nmessage: {message}\nreason: Invalid\n\
                 status: Failure"
            ))
        };
        let theirs = failure(
            "theirs",
            "  - field: a\n    message: x\n    reason: R\n  - field: a\n    message: y\n    reason: Q\n",
        );
        let check = |ours: &Transcript, wrong: usize| {
            assert_eq!(ours.compare(&theirs, &scenario).len(), wrong, "{ours}");
        };
        check(
            &failure(
                "ours",
                "  - field: a\n    message: u\n    reason: Q\n  - field: a\n    message: v\n    reason: R\n",
            ),
            0,
        );
        check(&failure("ours", "  - field: a\n    message: u\n    reason: Q\n"), 1);
        check(
            &failure(
                "ours",
                "  - field: b\n    message: u\n    reason: Q\n  - field: a\n    message: v\n    reason: R\n",
            ),
            1,
        );
        check(&transcript("POST /a\n200\nmessage: theirs"), 1);
    }

    #[test]
    fn a_recording_is_current_only_if_all_steps_agree() {
        let one = transcript("GET /a\n200\n\nGET /b\n200\n");
        assert!(differences(&one, &one).is_empty());
        assert_eq!(differences(&one, &transcript("GET /a\n200\n\nGET /b\n404\n")).len(), 1);
        assert_eq!(differences(&one, &transcript("GET /a\n200\n")), [OTHER_STEPS]);
    }
}
