//! Commands in the documentation: each one must be one that the program understands.
//!
//! Prompts and comments are taken off, lines that end with a backslash joined, words split as a shell does. What is
//! inside of quotes after `submit` is read too, because it is a command of the job.

use clap::{CommandFactory as _, error::ErrorKind};
use ronde_launch::args::Arguments;

use super::root;
use crate::{arena::arguments, args::Args};

/// Pages whose commands are tried.
const PAGES: [&str; 5] = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "charts/horovod/README.md"];
/// Languages of code blocks that are no commands.
const NO_COMMANDS: [&str; 5] = ["python", "yaml", "json", "text", "toml"];
/// Commands in front of ours that mean something else by its name.
const OTHERS: [&str; 5] = ["cargo", "ln", "docker", "helm", "pip"];

#[test]
fn every_command_in_the_documentation_exists() {
    let mut faults = Vec::new();
    let mut count = 0;
    for (page, text) in pages() {
        for line in command_lines(&text) {
            for words in segments(&line) {
                count += 1;
                faults.extend(fault(&words).map(|fault| format!("{page}: {line}\n    {fault}")));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(count > 50, "only {count} commands were found: the pages are not read as they should be");
}

#[test]
fn every_command_within_a_sentence_exists() {
    let mut faults = Vec::new();
    for (page, text) in pages() {
        for span in text.split('`').skip(1).step_by(2).filter(|span| span.starts_with("ronde ") && !span.contains('\n'))
        {
            let words: Vec<&str> = span.split_whitespace().skip(1).collect();
            faults.extend(usage_fault(&words).map(|fault| format!("{page}: `{span}`: {fault}")));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Says which verb or flag of a usage does not exist; `[…]`, `A|B` and words for values are not looked at.
fn usage_fault(words: &[&str]) -> Option<String> {
    let mut command = Args::command();
    command.build();
    let mut left = words.iter();
    let mut verb = &command;
    for word in left.by_ref() {
        match verb.find_subcommand(word) {
            Some(below) => verb = below,
            None if verb.get_name() == "ronde" && word.chars().all(|letter| letter.is_ascii_lowercase()) => {
                return Some(format!("`{word}` is no verb"));
            }
            None => break,
        }
    }
    if verb.get_name() == "run" {
        return None;
    }
    let is_known = |flag: &str| {
        let all = std::iter::once(verb).chain(verb.get_subcommands());
        all.flat_map(clap::Command::get_arguments).any(|arg| {
            let names = arg.get_long_and_visible_aliases().unwrap_or_default();
            names.iter().any(|name| format!("--{name}") == flag)
        })
    };
    let flags = words.iter().map(|word| word.trim_matches(['[', ']', ','])).take_while(|word| *word != "--");
    let flags = flags.filter(|word| word.starts_with("--")).map(|word| word.split(['=', '|', '[']).next().unwrap());
    flags.filter(|flag| !is_known(flag)).map(|flag| format!("`{flag}` is no flag")).next()
}

/// Returns the pages with their texts: those named above, and all below `docs` that are written by hand.
fn pages() -> Vec<(String, String)> {
    let mut names: Vec<String> = PAGES.map(str::to_owned).into();
    for entry in fs_err::read_dir(root().join("docs")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "md") {
            names.push(format!("docs/{}", path.file_name().unwrap().display()));
        }
    }
    names.sort();
    let read = |name: String| (fs_err::read_to_string(root().join(&name)).unwrap(), name);
    names.into_iter().map(read).map(|(text, name)| (name, text)).collect()
}

/// Returns the lines of all code blocks that somebody would type, without their prompts.
fn command_lines(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = text.lines().map(str::trim);
    while let Some(line) = lines.next() {
        let Some(language) = line.strip_prefix("```") else { continue };
        let block: Vec<&str> = lines.by_ref().take_while(|line| !line.starts_with("```")).collect();
        if !NO_COMMANDS.contains(&language) {
            found.extend(typed_lines(&block.join("\n")));
        }
    }
    found
}

/// Returns the lines of a block that are commands: all of them, or those after a prompt if there is one.
fn typed_lines(block: &str) -> Vec<String> {
    let joined = block.replace("\\\n", " ");
    let has_prompts = joined.lines().any(|line| line.starts_with("$ "));
    let typed = |line: &str| match line.split_once("$ ") {
        Some((prompt, line)) if !prompt.contains(' ') => Some(line.trim().to_owned()),
        _ => (!has_prompts).then(|| line.to_owned()),
    };
    joined.lines().filter_map(typed).collect()
}

/// Splits a line as a shell does, into the words of each command of ours in it.
fn segments(line: &str) -> Vec<Vec<String>> {
    let mut all: Vec<Vec<String>> = vec![Vec::new()];
    let (mut word, mut is_word, mut quote) = (String::new(), false, None);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (None, '#') if !is_word => break,
            (None, '\'' | '"') => (quote, is_word) = (Some(letter), true),
            (Some(open), _) if letter == open => quote = None,
            (None | Some('"'), '\\') => word.extend(letters.next()),
            (None, ' ' | '|' | '&' | ';' | '>') => {
                if std::mem::take(&mut is_word) {
                    all.last_mut().unwrap().push(std::mem::take(&mut word));
                }
                if letter != ' ' {
                    all.push(Vec::new());
                }
            }
            _ => {
                word.push(letter);
                is_word = true;
            }
        }
    }
    if is_word {
        all.last_mut().unwrap().push(word);
    }
    all.iter().flat_map(|words| ours(words)).collect()
}

/// Returns the part of a command that is for a program of ours, and the commands of jobs inside of it.
fn ours(words: &[String]) -> Vec<Vec<String>> {
    if words.first().is_some_and(|first| OTHERS.contains(&first.as_str())) {
        return Vec::new();
    }
    let is_ours = |word: &String| ["ronde", "arena", "horovodrun", "make"].contains(&word.as_str());
    let Some(at) = words.iter().position(is_ours) else {
        return Vec::new();
    };
    let mut found = vec![words[at..].to_vec()];
    for word in words[at..].iter().filter(|word| word.trim_start().starts_with("horovodrun ")) {
        found.extend(segments(word));
    }
    found
}

/// Says what is wrong with a command.
fn fault(words: &[String]) -> Option<String> {
    let (program, rest) = words.split_first()?;
    match program.as_str() {
        "make" => rest.iter().filter(|word| !word.contains('=')).find_map(|target| make_fault(target)),
        "horovodrun" => launcher_fault(rest),
        _ if rest.first().is_some_and(|verb| verb == "run") => launcher_fault(&rest[1..]),
        _ => command_fault(words),
    }
}

fn make_fault(target: &str) -> Option<String> {
    let makefile = fs_err::read_to_string(root().join("Makefile")).unwrap();
    (!makefile.contains(&format!("\n{target}:"))).then(|| format!("make has no target `{target}`"))
}

/// Reads the arguments of the launcher; what a shell would fill in is a number everywhere that the pages use it.
fn launcher_fault(words: &[String]) -> Option<String> {
    let words: Vec<String> =
        words.iter().map(|word| if word.contains('$') { "1".to_owned() } else { word.clone() }).collect();
    let error = Arguments::read("horovodrun", &words).err()?;
    (!is_help(error.kind())).then(|| error.to_string())
}

fn command_fault(words: &[String]) -> Option<String> {
    let is_cut = words.iter().any(|word| word.contains('…'));
    let words =
        if words[0] == "arena" { arguments::persistent(words.to_vec(), arguments::ARENA) } else { words.to_vec() };
    let translated = arguments::deprecated(words, &Args::command());
    let error = Args::command().try_get_matches_from(translated.words).err()?;
    let is_fine = is_help(error.kind()) || is_cut && error.kind() == ErrorKind::MissingRequiredArgument;
    (!is_fine).then(|| error.to_string())
}

fn is_help(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::DisplayHelp | ErrorKind::DisplayVersion)
}

#[test]
fn commands_that_do_not_exist_are_found() {
    let faulty = |line: &str| segments(line).iter().any(|words| fault(words).is_some());
    for line in [
        "ronde dance",
        "ronde up --sideways",
        "FOO=1 ronde get pods --sideways | less",
        "make dance",
        "horovodrun --sideways python train.py",
        "ronde run -np many python train.py",
        "ronde submit etjob --name=a --workers=1 'horovodrun --sideways python train.py'",
    ] {
        assert!(faulty(line), "{line}");
    }
    assert!(usage_fault(&["dance"]).is_some() && usage_fault(&["queue", "list", "--sideways"]).is_some());
    assert_eq!(usage_fault(&["job", "suspend|resume", "JOB", "[--timeout"]), None);
    for line in ["ronde up --detach  # or not", "make test", "horovodrun -np $N python train.py --sideways", "ls --all"]
    {
        assert!(!faulty(line), "{line}");
    }
}
