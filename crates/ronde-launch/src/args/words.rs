//! Turns the words that Python's argparse accepts into words that clap does. Pure.
//!
//! Long options may have one dash (`-np`) or be cut short (`--out`); the command is everything from the first word
//! that is neither an option nor the value of one, and is not looked at.

use clap::{Arg, Command};

/// Long options with one dash, and what they mean.
const ONE_DASH: [(&str, &str); 4] = [
    ("-np", "num-proc"),
    ("-cb", "check-build"),
    ("-hostfile", "hostfile"),
    ("-prefix-timestamp", "prefix-output-with-timestamp"),
];

/// Returns the same command line in clap's words.
pub fn canonical(command: &Command, words: &[String]) -> Vec<String> {
    let mut out = Vec::with_capacity(words.len() + 1);
    let mut left = words;
    while let Some((word, rest)) = left.split_first() {
        if !word.starts_with('-') || word == "-" || word == "--" {
            out.push("--".to_owned());
            out.extend_from_slice(if word == "--" { rest } else { left });
            return out;
        }
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word.as_str(), None),
        };
        let found = find(command, name);
        let wanted = match (&found, value) {
            (Some(found), None) => found.values,
            _ => 0,
        };
        let taken = wanted.min(rest.len());
        let shown = found.map_or_else(|| name.to_owned(), |found| found.name);
        match (value.map(str::to_owned), taken) {
            (Some(value), _) => out.push(format!("{shown}={value}")),
            // One word: a value that begins with a dash stays a value.
            (None, 1) if shown.starts_with("--") => out.push(format!("{shown}={}", rest[0])),
            (None, _) => {
                out.push(shown);
                out.extend_from_slice(&rest[..taken]);
            }
        }
        left = &rest[taken..];
    }
    out
}

struct Found {
    name: String,
    /// How many of the next words belong to it.
    values: usize,
}

fn find(command: &Command, word: &str) -> Option<Found> {
    if let Some(short) = word.strip_prefix('-').filter(|rest| rest.chars().count() == 1) {
        let arg = command.get_arguments().find(|arg| arg.get_short() == short.chars().next())?;
        return Some(Found { name: word.to_owned(), values: values(arg) });
    }
    let one_dash = ONE_DASH.iter().find(|(dashed, _)| *dashed == word).map(|(_, name)| *name);
    let wanted = one_dash.or_else(|| word.strip_prefix("--"))?;
    let arg = by_long(command, wanted)?;
    Some(Found { name: format!("--{}", arg.get_long()?), values: values(arg) })
}

/// The option of that name, or the only one whose name begins so; without either, clap shall say what is wrong.
fn by_long<'a>(command: &'a Command, wanted: &str) -> Option<&'a Arg> {
    let names = |arg: &'a Arg| arg.get_long_and_visible_aliases().unwrap_or_default();
    let exact = command.get_arguments().find(|arg| names(arg).contains(&wanted));
    exact.or_else(|| {
        let mut begin = command.get_arguments().filter(|arg| names(arg).iter().any(|name| name.starts_with(wanted)));
        begin.next().filter(|_| begin.next().is_none())
    })
}

fn values(arg: &Arg) -> usize {
    if arg.get_action().takes_values() { arg.get_num_args().map_or(1, |range| range.min_values()) } else { 0 }
}
