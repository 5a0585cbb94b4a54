//! Runs a transcript: prose at the margin, indented by two spaces commands (`$ `, more lines of it `> `) and all they
//! print.
//!
//! A difference does not end the run: the message shows every command that did something else than expected.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

use fs_err as fs;

use crate::{
    client::{Home, Program, variable},
    expectation::{is_met, lines_of},
};

/// A command and what it is expected to print.
#[derive(Default)]
struct Step {
    /// Prose before the command, kept for recording.
    prose: Vec<String>,
    script: Vec<String>,
    expected: Vec<String>,
}

/// Runs a transcript in a namespace of its own name.
pub fn check(name: &str, programs: &[Program]) {
    let Some(home) = Home::new(&name.replace('_', "-"), programs) else { return };
    run(&home, &directory().join(format!("{name}.transcript")));
}

/// Runs a transcript in a home.
pub fn run(home: &Home, path: &Path) {
    let (mut steps, ending) = parse(&fs::read_to_string(path).unwrap());
    let mut differences = String::new();
    for step in &mut steps {
        let actual = lines_of(&home.run(&step.script.join("\n")), &home.directory());
        if !is_met(&step.expected, &actual) {
            let _ = writeln!(differences, "{}", difference(step, &actual));
            step.expected = actual;
        }
    }
    if variable("RONDE_CLIENTS_RECORD").is_some() {
        fs::write(path, print(&steps, &ending)).unwrap();
        return;
    }
    assert!(differences.is_empty(), "{}:\n\n{differences}", path.file_name().unwrap().display());
}

/// Returns the names of all transcripts, sorted as the list in `main` is: by client, then by subject.
pub fn names() -> Vec<String> {
    let mut names = names_in(&directory());
    names.sort_by_key(|name| (name.starts_with("helm"), name.clone()));
    names
}

/// Returns the names of the transcripts in a folder.
pub fn names_in(directory: &Path) -> Vec<String> {
    let files = fs::read_dir(directory).unwrap().map(|file| file.unwrap().path());
    let mut names: Vec<_> = files.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/clients/transcripts")
}

/// Returns the steps and the prose after the last one.
fn parse(text: &str) -> (Vec<Step>, Vec<String>) {
    let mut steps: Vec<Step> = Vec::new();
    let mut prose = Vec::new();
    for line in text.lines() {
        match line.strip_prefix("  ") {
            None => prose.push(line.to_owned()),
            Some(line) => {
                if let Some(command) = line.strip_prefix("$ ") {
                    let prose = std::mem::take(&mut prose);
                    steps.push(Step { prose, script: vec![command.to_owned()], expected: Vec::new() });
                    continue;
                }
                // An empty line of output has lost its indentation.
                let step = steps.last_mut().expect("a transcript begins with a command");
                step.expected.append(&mut prose);
                match line.strip_prefix("> ").or_else(|| (line == ">").then_some("")) {
                    Some(more) => step.script.push(more.to_owned()),
                    None => step.expected.push(line.to_owned()),
                }
            }
        }
    }
    (steps, prose)
}

fn print(steps: &[Step], ending: &[String]) -> String {
    let mut lines = Vec::new();
    for step in steps {
        lines.extend(step.prose.iter().cloned());
        let marks = std::iter::once("$ ").chain(std::iter::repeat("> "));
        lines.extend(marks.zip(&step.script).map(|(mark, line)| format!("  {mark}{line}")));
        lines.extend(step.expected.iter().map(|line| format!("  {line}")));
    }
    lines.extend(ending.iter().cloned());
    lines.iter().fold(String::new(), |text, line| text + line.trim_end() + "\n")
}

fn difference(step: &Step, actual: &[String]) -> String {
    let mut text = format!("$ {}\n", step.script.join("\n> "));
    for (title, lines) in [("expected", step.expected.as_slice()), ("got", actual)] {
        let _ = writeln!(text, "----- {title}");
        for line in lines {
            let _ = writeln!(text, "{line}");
        }
    }
    text
}
