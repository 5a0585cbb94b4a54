//! The configuration file of an operator (`--config FILE`): flags by their names in camelCase, as if they stood on the command
//! line, where the same flag wins.
//!
//! Works on the words before they are parsed, so that a file can say nothing that a flag cannot. All mistakes of a file are
//! told at once, each with its place.

use std::{fmt, path::PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory as _, parser::ValueSource};
use fs_err as fs;
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::Value;
use serde_saphyr::{Location, Spanned};

use crate::{
    args::Args,
    failure::{Blame, Failure},
};

const VERB: &str = "operator";
/// Flags that a file cannot say.
const NOT_IN_FILES: [&str; 2] = ["config", "help"];

/// Why a configuration file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read the configuration file")]
    Read { source: std::io::Error },
    #[error("{file} is not a map of settings")]
    Form { file: String, source: Box<serde_saphyr::Error> },
    #[error("{file} is invalid{}", lines(faults))]
    Invalid { file: String, faults: Vec<Fault> },
}

impl Failure for ConfigError {
    fn blame(&self) -> Blame {
        Blame::User
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Read { .. } => None,
            Self::Form { .. } | Self::Invalid { .. } => {
                Some("keys are the flags of `ronde operator --help` in camelCase, as in `agentImage`".to_owned())
            }
        }
    }
}

/// A mistake in a file.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault {
    line: u64,
    column: u64,
    what: String,
}

impl Fault {
    fn at(place: Location, what: String) -> Self {
        Self { line: place.line(), column: place.column(), what }
    }
}

fn lines(faults: &[Fault]) -> String {
    let line = |fault: &Fault| format!("\n  line {}, column {}: {}", fault.line, fault.column, fault.what);
    faults.iter().map(line).collect()
}

/// Puts the flags of an operator's configuration file behind its verb.
pub fn expand(mut words: Vec<String>) -> Result<Vec<String>, ConfigError> {
    let program = Args::command();
    let (Some(at), Some(command)) = (find_verb(&words), program.find_subcommand(VERB)) else { return Ok(words) };
    let given = given(command, &words[at + 1..]);
    let Some(file) = given.as_ref().and_then(|given| given.get_one::<PathBuf>("config")) else { return Ok(words) };
    let text = fs::read_to_string(file).map_err(|source| ConfigError::Read { source })?;
    let is_given = |arg: &Arg| {
        given.as_ref().and_then(|given| given.value_source(arg.get_id().as_str())) == Some(ValueSource::CommandLine)
    };
    let flags = read(&file.display().to_string(), &text, command, is_given)?;
    let tail = words.split_off(at + 1);
    words.extend(flags.into_iter().chain(tail));
    Ok(words)
}

fn find_verb(words: &[String]) -> Option<usize> {
    let verb = words.iter().skip(1).position(|word| !word.starts_with('-'))? + 1;
    (words[verb] == VERB).then_some(verb)
}

/// Returns what stands on the command line, as far as it can be understood.
fn given(command: &Command, words: &[String]) -> Option<ArgMatches> {
    let command = command.clone().no_binary_name(true).ignore_errors(true).disable_help_flag(true);
    command.try_get_matches_from(words).ok()
}

/// Returns the flags of a file that are not given, or all of its mistakes.
fn read(
    file: &str,
    text: &str,
    command: &Command,
    is_given: impl Fn(&Arg) -> bool,
) -> Result<Vec<String>, ConfigError> {
    let settings: Option<Settings> = serde_saphyr::from_str(text)
        .map_err(|source| ConfigError::Form { file: file.to_owned(), source: Box::new(source) })?;
    let (mut flags, mut faults) = (Vec::new(), Vec::new());
    for (key, value) in settings.map(|settings| settings.0).unwrap_or_default() {
        match find_flag(command, &key.value) {
            None => faults.push(Fault::at(key.referenced, unknown(command, &key.value))),
            Some(arg) => match words_of(command, arg, &value.value) {
                Ok(words) if !is_given(arg) => flags.extend(words),
                Ok(_) => {}
                Err(what) => faults.push(Fault::at(value.referenced, format!("`{}`: {what}", key.value))),
            },
        }
    }
    if faults.is_empty() { Ok(flags) } else { Err(ConfigError::Invalid { file: file.to_owned(), faults }) }
}

fn settable(command: &Command) -> impl Iterator<Item = (&Arg, String)> {
    let named = command.get_arguments().filter_map(|arg| Some((arg, camel_case(arg.get_long()?))));
    named.filter(|(_, name)| !NOT_IN_FILES.contains(&name.as_str()))
}

fn find_flag<'a>(command: &'a Command, key: &str) -> Option<&'a Arg> {
    settable(command).find(|(_, name)| name == key).map(|(arg, _)| arg)
}

fn unknown(command: &Command, key: &str) -> String {
    let known: Vec<String> = settable(command).map(|(_, name)| name).collect();
    format!("unknown key `{key}`; there are {}", known.join(", "))
}

/// Returns the words of the command line that mean the same as a value.
fn words_of(command: &Command, arg: &Arg, value: &Value) -> Result<Vec<String>, String> {
    let flag = format!("--{}", arg.get_long().unwrap_or_default());
    let words = match (arg.get_action(), value) {
        (ArgAction::SetTrue, Value::Bool(is_on)) => is_on.then(|| flag.clone()).into_iter().collect(),
        (ArgAction::SetTrue, _) => return Err("must be true or false".to_owned()),
        (ArgAction::Append, Value::Array(items)) => {
            items.iter().map(|item| word(&flag, item)).collect::<Result<Vec<_>, _>>()?
        }
        (ArgAction::Append, _) => return Err("must be a list".to_owned()),
        (_, value) => vec![word(&flag, value)?],
    };
    let command = command.clone().no_binary_name(true);
    command.try_get_matches_from(&words).map(|_| words).map_err(|error| first_paragraph(&error.to_string()))
}

fn word(flag: &str, value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(format!("{flag}={text}")),
        Value::Number(number) => Ok(format!("{flag}={number}")),
        Value::Bool(is_on) => Ok(format!("{flag}={is_on}")),
        Value::Null | Value::Array(_) | Value::Object(_) => Err("must be a string or a number".to_owned()),
    }
}

/// Returns what clap says about a value, on one line.
fn first_paragraph(text: &str) -> String {
    let paragraph = text.split("\n\n").next().unwrap_or_default();
    let line = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    line.strip_prefix("error: ").map(str::to_owned).unwrap_or(line)
}

/// `agent-image` becomes `agentImage`.
fn camel_case(flag: &str) -> String {
    let mut parts = flag.split('-');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |name, part| {
        let (head, tail) = part.split_at(part.len().min(1));
        name + &head.to_uppercase() + tail
    })
}

/// What a file says, in its order, with the places.
struct Settings(Vec<(Spanned<String>, Spanned<Value>)>);

impl<'de> Deserialize<'de> for Settings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Settings;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of settings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Settings, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Settings(entries))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, line: &str, text: &str, expected: &str) {
        let program = Args::command();
        let command = program.find_subcommand(VERB).expect("the verb");
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let given = given(command, &words).expect("matches");
        let is_given = |arg: &Arg| given.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine);
        let shown = match read("c.yaml", text, command, is_given) {
            Ok(flags) => flags.join(" "),
            Err(error) => error.to_string(),
        };
        assert_eq!(shown, expected, "{name}");
    }

    #[test]
    fn a_file_says_what_flags_say() {
        check("nothing", "", "", "");
        check(
            "all forms",
            "",
            "agentImage: example.com/ronde:1\nschedulerName: [volcano, mine]\npack: true\nlisten: 0.0.0.0:8080\n",
            "--agent-image=example.com/ronde:1 --scheduler-name=volcano --scheduler-name=mine --pack --listen=0.0.0.0:8080",
        );
        check(
            "a flag wins",
            "--listen 127.0.0.1:1",
            "listen: 0.0.0.0:8080\npack: false\nleaseDuration: 30\n",
            "--lease-duration=30",
        );
        check("a default does not", "--pack", "schedulerName: [mine]\n", "--scheduler-name=mine");
    }

    #[test]
    fn all_mistakes_are_told_at_once_with_their_places() {
        let text = "# An operator.\nlisten: here\npak: true\npack: 3\nschedulerName: volcano\nagentImage: {a: b}\n\
                    leaseDuration: 1\nlogFormat:   xml\nconfig: other.yaml\n";
        let program = Args::command();
        let command = program.find_subcommand(VERB).expect("the verb");
        let error = read("c.yaml", text, command, |_| false).expect_err("mistakes").to_string();
        let lines: Vec<&str> = error.lines().collect();
        let expected = [
            "c.yaml is invalid",
            "  line 2, column 9: `listen`: invalid value 'here' for '--listen <ADDRESS:PORT>': invalid socket address syntax",
            "  line 3, column 1: unknown key `pak`; there are kubeconfig, context, schedulerName,",
            "  line 4, column 7: `pack`: must be true or false",
            "  line 5, column 16: `schedulerName`: must be a list",
            "  line 6, column 13: `agentImage`: must be a string or a number",
            "  line 7, column 16: `leaseDuration`: invalid value '1' for '--lease-duration <SECONDS>': 1 is not in 3..=3600",
            "  line 8, column 14: `logFormat`: invalid value 'xml' for '--log-format <FORMAT>' [possible values: text, json]",
            "  line 9, column 1: unknown key `config`;",
        ];
        assert_eq!(lines.len(), expected.len(), "{error}");
        for (line, expected) in lines.iter().zip(expected) {
            assert!(line.starts_with(expected), "{line}\n{expected}");
        }
    }

    #[test]
    fn what_is_not_a_map_is_refused() {
        check("a list", "", "- a\n", "c.yaml is not a map of settings");
    }

    #[test]
    fn names_of_flags_become_keys() {
        assert_eq!(["listen", "agent-image", "a-b-c"].map(camel_case), ["listen", "agentImage", "aBC"]);
    }
}
