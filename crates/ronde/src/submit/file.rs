//! The file of a job (`-f job.yaml`): flags by their names, as if they stood on the command line before the others.
//!
//! Works on the words before they are parsed, so that a file can say nothing that a flag cannot, and mistakes are those
//! of flags. `command` is the command, unless there is one beside the file.

use std::path::{Path, PathBuf};

use clap::CommandFactory as _;
use fs_err as fs;
use serde_json::{Map, Value};

use crate::{
    args::Args,
    failure::{Blame, Failure},
};

/// Why the file of a job cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("cannot read the file of the job")]
    Read { source: std::io::Error },
    #[error("{file} is not a map of flags to values")]
    Form { file: String, source: Option<Box<serde_saphyr::Error>> },
    #[error("{file} is a manifest of the kind `{kind}`, not the file of a job")]
    Manifest { file: String, kind: String },
    #[error("`{key}` in {file} must be a string, number, boolean, list or map")]
    Value { file: String, key: String },
}

impl Failure for FileError {
    fn blame(&self) -> Blame {
        Blame::User
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Manifest { file, .. } => Some(format!("`ronde apply -f {file}` creates it")),
            Self::Form { .. } => Some("write the flags without dashes: `name: mnist`, `workers: 3`".to_owned()),
            Self::Read { .. } | Self::Value { .. } => None,
        }
    }
}

/// Puts the flags of a job's file behind the type of the job.
pub fn expand(words: Vec<String>) -> Result<Vec<String>, FileError> {
    let Some((at, file)) = find(&words) else { return Ok(words) };
    let text = fs::read_to_string(&file).map_err(|source| FileError::Read { source })?;
    Ok(splice(words, at, &read(&file, &text)?))
}

/// Returns where the flags go, and the file, if there is one.
fn find(words: &[String]) -> Option<(usize, PathBuf)> {
    let ours: Vec<&String> = words.iter().take_while(|word| *word != "--").collect();
    let verb = ours.iter().skip(1).position(|word| !word.starts_with('-'))? + 1;
    let submit = Some(verb).filter(|verb| *ours[*verb] == "submit")?;
    let mut found = None;
    for (index, word) in ours.iter().enumerate().skip(submit + 2) {
        if let Some(file) = word.strip_prefix("--file=").or_else(|| word.strip_prefix("-f=")) {
            found = Some(file);
        } else if *word == "--file" || *word == "-f" {
            found = ours.get(index + 1).map(|file| file.as_str());
        }
    }
    Some((submit + 2, PathBuf::from(found?)))
}

/// The flags of a file, and its command.
#[derive(Debug, Default, PartialEq, Eq)]
struct Flags {
    flags: Vec<String>,
    command: Option<String>,
}

fn read(file: &Path, text: &str) -> Result<Flags, FileError> {
    let name = file.display().to_string();
    let form = |source| FileError::Form { file: name.clone(), source };
    let value: Value = serde_saphyr::from_str(text).map_err(|error| form(Some(Box::new(error))))?;
    let Value::Object(fields) = value else { return Err(form(None)) };
    if let Some(kind) = fields.get("kind").and_then(Value::as_str).filter(|_| fields.contains_key("apiVersion")) {
        return Err(FileError::Manifest { file: name, kind: kind.to_owned() });
    }
    flags(&name, fields)
}

fn flags(file: &str, fields: Map<String, Value>) -> Result<Flags, FileError> {
    let mut flags = Flags::default();
    for (key, value) in fields {
        let wrong = || FileError::Value { file: file.to_owned(), key: key.clone() };
        if key == "command" {
            flags.command = Some(scalar(&value).ok_or_else(wrong)?);
            continue;
        }
        match value {
            Value::Bool(true) => flags.flags.push(format!("--{key}")),
            Value::Bool(false) => {}
            Value::Array(items) => {
                for item in &items {
                    flags.flags.push(format!("--{key}={}", scalar(item).ok_or_else(wrong)?));
                }
            }
            Value::Object(pairs) => {
                for (name, item) in &pairs {
                    flags.flags.push(format!("--{key}={name}={}", scalar(item).ok_or_else(wrong)?));
                }
            }
            other => flags.flags.push(format!("--{key}={}", scalar(&other).ok_or_else(wrong)?)),
        }
    }
    Ok(flags)
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(is_on) => Some(is_on.to_string()),
        _ => None,
    }
}

fn splice(mut words: Vec<String>, at: usize, found: &Flags) -> Vec<String> {
    let tail = words.split_off(at.min(words.len()));
    let has_own = words.last().is_some_and(|job_type| has_command(job_type, &tail));
    words.extend(found.flags.iter().cloned());
    words.extend(tail);
    if let Some(command) = found.command.as_ref().filter(|_| !has_own) {
        words.extend(["--".to_owned(), command.clone()]);
    }
    words
}

/// Tells whether a command stands on the line: clap knows which words are values of flags.
fn has_command(job_type: &str, tail: &[String]) -> bool {
    let program = Args::command();
    let Some(command) = program.find_subcommand("submit").and_then(|submit| submit.find_subcommand(job_type)) else {
        return false;
    };
    let command = command.clone().no_binary_name(true).ignore_errors(true).disable_help_flag(true);
    let found = command.try_get_matches_from(tail);
    found.is_ok_and(|found| found.get_many::<String>("command").is_some_and(|words| words.len() > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, line: &str, text: &str, expected: Result<&str, &str>) {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let shown = match find(&words) {
            None => Ok(words.join(" ")),
            Some((at, file)) => read(&file, text)
                .map(|found| splice(words, at, &found))
                .map(|words| words.join(" "))
                .map_err(|error| error.to_string()),
        };
        assert_eq!(shown.as_deref().map_err(String::as_str), expected, "{name}");
    }

    #[test]
    fn a_file_is_flags_before_the_flags() {
        check("no file", "ronde submit etjob --name a run", "", Ok("ronde submit etjob --name a run"));
        check("another verb", "ronde apply -f a.yaml", "", Ok("ronde apply -f a.yaml"));
        check("a flag of the job", "ronde submit etjob -- tar -f x", "", Ok("ronde submit etjob -- tar -f x"));
        check(
            "all forms",
            "ronde submit etjob -f a.yaml --workers 4",
            "name: a\nworkers: 3\ngang: true\nrdma: false\nenv: {A: 'b c', D: 1}\ndata: ['x:/y']\ncommand: run $((1 * 2))",
            Ok(
                "ronde submit etjob --data=x:/y --env=A=b c --env=D=1 --gang --name=a --workers=3 -f a.yaml --workers 4 \
                -- run $((1 * 2))",
            ),
        );
        check(
            "a command beside it wins",
            "ronde submit etjob --file=a.yaml --name b walk",
            "command: run",
            Ok("ronde submit etjob --file=a.yaml --name b walk"),
        );
        check("not flags", "ronde submit etjob -f a.yaml", "- a", Err("a.yaml is not a map of flags to values"));
        check(
            "a manifest",
            "ronde submit etjob -f a.yaml",
            "apiVersion: v1\nkind: Pod",
            Err("a.yaml is a manifest of the kind `Pod`, not the file of a job"),
        );
        check(
            "too deep",
            "ronde submit etjob -f a.yaml",
            "env: [{a: b}]",
            Err("`env` in a.yaml must be a string, number, boolean, list or map"),
        );
    }
}
