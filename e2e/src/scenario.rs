//! The scenario language: a text file of HTTP requests, waits and watches. Parsing only; `run`
//! carries the steps out.
//!
//! ```text
//! # Comment lines above a step are its title and appear in the transcript.
//! POST /api/v1/namespaces/${ns}/configmaps
//!   @set uid = .metadata.uid
//!   {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
//! GET /api/v1/namespaces/${ns}
//!   @until .status.phase == Active
//! WATCH pods /api/v1/namespaces/${ns}/pods?watch=1
//! EVENTS pods 2
//! CLEANUP
//! DELETE /apis/apiextensions.k8s.io/v1/customresourcedefinitions/x.test
//! ```
//!
//! A step starts in column 0; its options (`@…`) and its body (YAML, sent as JSON) are indented by
//! two spaces. Options:
//!
//! | option | meaning |
//! |---|---|
//! | `@type T` | content type: `json` (default), `merge`, `strategic`, `json-patch`, `apply`, `yaml`, `none`, or any media type |
//! | `@accept T` | `table`, `partial`, `partial-list`, or any media type |
//! | `@raw` | sends the body's text as it stands |
//! | `@set NAME = PATH` | keeps a field of the answer; `${NAME}` stands for it afterwards |
//! | `@show PATH…` | the transcript has only these fields of the answer |
//! | `@hide PATH…` | the transcript lacks these fields of the answer |
//! | `@until PATH == VALUE` | repeats the request until it holds; also `!=`, `status` for PATH, and `null` for a field that is not there |
//! | `@quiet` | leaves the step out of the transcript |
//! | `@differs REASON` | a known difference: the answer must not agree with the recording |

use std::str::FromStr;

use http::Method;

use crate::path::{FieldPath, PathError};

/// A parsed scenario file.
#[derive(Debug)]
pub struct Scenario {
    /// What is sent and recorded, in order.
    pub steps: Vec<Step>,
    /// Requests that tidy up afterwards, whatever happened; never recorded.
    pub cleanup: Vec<Step>,
}

/// One step with the comment lines above it.
#[derive(Debug)]
pub struct Step {
    pub comment: Vec<String>,
    /// The step's first line, as written.
    pub line: String,
    pub action: Action,
    pub options: Options,
}

/// What a step does.
#[derive(Debug)]
pub enum Action {
    /// Sends one request, or repeats it until the condition of the options holds.
    Request { method: Method, path: String, body: Option<String> },
    /// Opens a watch under a name.
    Watch { name: String, path: String },
    /// Waits for that many new events of a watch and shows them.
    Events { name: String, count: usize },
}

/// The `@` lines of a step.
#[derive(Debug, Default)]
pub struct Options {
    pub content_type: Option<String>,
    pub accept: Option<String>,
    pub raw: bool,
    pub set: Vec<(String, FieldPath)>,
    pub show: Vec<FieldPath>,
    pub hide: Vec<FieldPath>,
    pub until: Option<Condition>,
    pub quiet: bool,
    pub differs: Option<String>,
}

/// A condition on the answer.
#[derive(Debug)]
pub struct Condition {
    pub subject: Subject,
    pub equal: bool,
    pub value: String,
}

/// What a condition looks at.
#[derive(Debug)]
pub enum Subject {
    Status,
    Field(FieldPath),
}

/// Says which line of a scenario is not understood, and why.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct ParseError {
    line: usize,
    reason: String,
}

impl FromStr for Scenario {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut parser = Parser::default();
        for (index, line) in text.lines().enumerate() {
            parser.line(line).map_err(|reason| ParseError { line: index + 1, reason })?;
        }
        Ok(Scenario { steps: parser.steps, cleanup: parser.cleanup.unwrap_or_default() })
    }
}

#[derive(Default)]
struct Parser {
    steps: Vec<Step>,
    /// Present from the line `CLEANUP` on.
    cleanup: Option<Vec<Step>>,
    comment: Vec<String>,
}

impl Parser {
    fn line(&mut self, line: &str) -> Result<(), String> {
        if line.trim().is_empty() {
            // A comment that no step follows belongs to the file, not to a step.
            self.comment.clear();
            return Ok(());
        }
        if line.starts_with('#') {
            self.comment.push(line.to_owned());
            return Ok(());
        }
        if line == "CLEANUP" {
            self.cleanup = Some(Vec::new());
            return Ok(());
        }
        if let Some(inner) = line.strip_prefix("  ") {
            let step = self.list().last_mut().ok_or("an indented line needs a step above it")?;
            return match inner.strip_prefix('@') {
                Some(option) => step.options.parse_line(option),
                None => step.push_body(inner),
            };
        }
        let mut comment = std::mem::take(&mut self.comment);
        // A quiet step prepares the next one, and so does its comment.
        if let Some(last) = self.list().last_mut().filter(|step| step.options.quiet) {
            comment.splice(..0, last.comment.drain(..));
        }
        let step = Step { comment, line: line.to_owned(), action: parse_action(line)?, options: Options::default() };
        self.list().push(step);
        Ok(())
    }

    fn list(&mut self) -> &mut Vec<Step> {
        self.cleanup.as_mut().unwrap_or(&mut self.steps)
    }
}

impl Step {
    fn push_body(&mut self, line: &str) -> Result<(), String> {
        let Action::Request { body, .. } = &mut self.action else {
            return Err("only a request has a body".into());
        };
        let body = body.get_or_insert_default();
        if !body.is_empty() {
            body.push('\n');
        }
        body.push_str(line);
        Ok(())
    }
}

fn parse_action(line: &str) -> Result<Action, String> {
    let (word, rest) = line.split_once(' ').ok_or("a step needs a word and a path")?;
    match word {
        "GET" | "POST" | "PUT" | "PATCH" | "DELETE" | "HEAD" | "OPTIONS" => {
            let method = word.parse().map_err(|_| "no such method")?;
            Ok(Action::Request { method, path: rest.into(), body: None })
        }
        "WATCH" => {
            let (name, path) = rest.split_once(' ').ok_or("a watch needs a name and a path")?;
            Ok(Action::Watch { name: name.into(), path: path.into() })
        }
        "EVENTS" => {
            let (name, count) = rest.split_once(' ').ok_or("events need a watch and a number")?;
            let count = count.parse().map_err(|_| format!("`{count}` is not a number"))?;
            Ok(Action::Events { name: name.into(), count })
        }
        _ => Err(format!("no step starts with `{word}`")),
    }
}

impl Options {
    fn parse_line(&mut self, line: &str) -> Result<(), String> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "type" => self.content_type = Some(content_type(rest).into()),
            "accept" => self.accept = Some(accept(rest).into()),
            "raw" => self.raw = true,
            "quiet" => self.quiet = true,
            "differs" => self.differs = Some(rest.into()),
            "show" => self.show.extend(paths(rest)?),
            "hide" => self.hide.extend(paths(rest)?),
            "until" => self.until = Some(condition(rest)?),
            "set" => {
                let (name, path) = rest.split_once(" = ").ok_or("write `@set name = .path`")?;
                self.set.push((name.into(), parse_path(path)?));
            }
            _ => return Err(format!("no option is called `@{word}`")),
        }
        Ok(())
    }
}

fn content_type(word: &str) -> &str {
    match word {
        "json" => "application/json",
        "yaml" => "application/yaml",
        "merge" => "application/merge-patch+json",
        "strategic" => "application/strategic-merge-patch+json",
        "json-patch" => "application/json-patch+json",
        "apply" => "application/apply-patch+yaml",
        other => other,
    }
}

fn accept(word: &str) -> &str {
    match word {
        "table" => "application/json;as=Table;v=v1;g=meta.k8s.io",
        "partial" => "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        "partial-list" => "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        other => other,
    }
}

fn parse_path(text: &str) -> Result<FieldPath, String> {
    text.trim().parse().map_err(|error: PathError| error.to_string())
}

fn paths(text: &str) -> Result<Vec<FieldPath>, String> {
    text.split_whitespace().map(parse_path).collect()
}

fn condition(text: &str) -> Result<Condition, String> {
    let (subject, equal, value) = if let Some((subject, value)) = text.split_once(" == ") {
        (subject, true, value)
    } else if let Some((subject, value)) = text.split_once(" != ") {
        (subject, false, value)
    } else {
        return Err("write `@until .path == value` or `!=`".into());
    };
    let subject = match subject {
        "status" => Subject::Status,
        path => Subject::Field(parse_path(path)?),
    };
    Ok(Condition { subject, equal, value: value.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_steps_with_comments_options_and_bodies() {
        let text = "# about the file\n\n# makes it\nPOST /a?x=y z\n  @type apply\n  @set uid = .metadata.uid\n  a:\n    - 1\nEVENTS w 3\nCLEANUP\nDELETE /a\n";
        let scenario: Scenario = text.parse().expect("well formed");
        assert_eq!(scenario.steps.len(), 2);
        assert_eq!(scenario.cleanup.len(), 1);
        let step = &scenario.steps[0];
        assert_eq!(step.comment, ["# makes it"]);
        assert_eq!(step.options.content_type.as_deref(), Some("application/apply-patch+yaml"));
        let Action::Request { path, body, .. } = &step.action else { panic!("not a request") };
        assert_eq!(path, "/a?x=y z");
        assert_eq!(body.as_deref(), Some("a:\n  - 1"));
    }

    #[test]
    fn names_the_line_that_is_not_understood() {
        let check = |text: &str, expected: &str| {
            let error = text.parse::<Scenario>().expect_err("malformed");
            assert_eq!(error.to_string(), expected);
        };
        check("GET /a\nFETCH /b", "line 2: no step starts with `FETCH`");
        check("GET /a\n  @colour red", "line 2: no option is called `@colour`");
        check("  {}", "line 1: an indented line needs a step above it");
        check("GET /a\n  @until x", "line 2: write `@until .path == value` or `!=`");
    }
}
