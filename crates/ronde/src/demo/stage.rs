//! Shows the commands of the demo as a user would type them, and runs them: this program, in a home of its own.
//!
//! What they write to stderr goes to stdout, so that in a pipe too it stands where it was said.

use std::{
    io::{self, IsTerminal as _},
    os::fd::AsFd as _,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    time::Duration,
};

use fs_err as fs;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Command,
    time,
};

use super::DemoError;
use crate::{Context, printer::Printer};

/// More than a slow machine takes for any step.
const LIMIT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(100);
/// Where a shown command is continued on the next line.
const COLUMNS: usize = 110;

/// Where the demo is shown.
#[derive(Debug)]
pub struct Stage {
    program: PathBuf,
    folder: PathBuf,
    printer: Printer,
    is_bold: bool,
}

impl Stage {
    pub fn new(folder: &Path, context: &Context) -> Result<Self, DemoError> {
        let program = std::env::current_exe().map_err(|source| DemoError::Files { source })?;
        // The canonical name is what pods are told.
        let folder = fs::canonicalize(folder).map_err(|source| DemoError::Files { source })?;
        let is_bold = io::stdout().is_terminal() && !context.environment.no_color;
        Ok(Self { program, folder, printer: context.printer, is_bold })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.path("kubeconfig")
    }

    pub fn title(&self, text: &str) {
        let text = format!("# {text}");
        self.line(&if self.is_bold { format!("\n\x1b[1m{text}\x1b[0m") } else { format!("\n{text}") });
    }

    pub fn line(&self, text: &str) {
        self.printer.data(text);
    }

    /// Shows a command and runs it to its end.
    pub async fn run(&self, words: &[&str]) -> Result<(), DemoError> {
        self.run_command(self.command(words), words).await
    }

    /// The same for a command that Ctrl-C may not reach.
    pub async fn run_shielded(&self, words: &[&str]) -> Result<(), DemoError> {
        let mut command = self.command(words);
        command.process_group(0);
        self.run_command(command, words).await
    }

    async fn run_command(&self, mut command: Command, words: &[&str]) -> Result<(), DemoError> {
        self.line(&format!("$ {}", shown(words)));
        command.stderr(stdout()?);
        let status = command.status().await.map_err(|source| self.not_run(source))?;
        if status.success() { Ok(()) } else { Err(DemoError::Step { command: shown(words), status }) }
    }

    /// Runs a command without showing it, and returns what it writes.
    pub async fn ask(&self, words: &[&str]) -> Result<String, DemoError> {
        let output = self.command(words).output().await.map_err(|source| self.not_run(source))?;
        text(output, || shown(words))
    }

    /// Shows a command that goes on, and its lines, until one is the last.
    pub async fn follow(&self, words: &[&str], what: &str, is_last: impl FnMut(&str) -> bool) -> Result<(), DemoError> {
        self.line(&format!("$ {}", shown(words)));
        time::timeout(LIMIT, self.show_lines(words, is_last)).await.unwrap_or_else(|_| Err(late(what)))
    }

    async fn show_lines(&self, words: &[&str], mut is_last: impl FnMut(&str) -> bool) -> Result<(), DemoError> {
        let mut child = self.command(words).stdout(Stdio::piped()).spawn().map_err(|source| self.not_run(source))?;
        let mut lines = BufReader::new(child.stdout.take().expect("stdout was asked to be a pipe")).lines();
        while let Some(line) = lines.next_line().await.map_err(|source| DemoError::Files { source })? {
            self.line(&format!("  | {line}"));
            if is_last(&line) {
                return child.kill().await.map_err(|source| DemoError::Files { source });
            }
        }
        let status = child.wait().await.map_err(|source| DemoError::Files { source })?;
        Err(DemoError::Step { command: shown(words), status })
    }

    /// Waits until something is so.
    pub async fn until(
        &self,
        what: &str,
        mut is_so: impl AsyncFnMut() -> Result<bool, DemoError>,
    ) -> Result<(), DemoError> {
        let wait = async {
            while !is_so().await? {
                time::sleep(POLL).await;
            }
            Ok(())
        };
        time::timeout(LIMIT, wait).await.unwrap_or_else(|_| Err(late(what)))
    }

    /// Stops what may run, and deletes its data. Ctrl-C does not reach it.
    pub async fn clean_up(&self) {
        let mut command = self.command(&["down", "--delete-data", "--quiet"]);
        if let Err(error) = command.process_group(0).stdout(Stdio::null()).status().await {
            self.printer
                .warn(format_args!("cannot stop the cluster of the demo in {}: {error}", self.folder.display()));
        }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(words).env("KUBECONFIG", self.kubeconfig()).env("RONDE_DATA_DIR", self.path("data"));
        command.stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    fn not_run(&self, source: io::Error) -> DemoError {
        DemoError::Spawn { program: self.program.display().to_string(), source }
    }
}

fn late(what: &str) -> DemoError {
    DemoError::Late { what: what.to_owned(), seconds: LIMIT.as_secs() }
}

/// Returns what a command has written, if it did well.
pub fn text(output: Output, command: impl FnOnce() -> String) -> Result<String, DemoError> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(DemoError::Step { command: command(), status: output.status })
}

fn stdout() -> Result<Stdio, DemoError> {
    let copy = io::stdout().as_fd().try_clone_to_owned();
    copy.map(Stdio::from).map_err(|source| DemoError::Files { source })
}

/// Writes a command of this program as a user would type it.
fn shown(words: &[&str]) -> String {
    let mut line = "ronde".to_owned();
    let mut width = line.len();
    for word in words {
        let word = if word.contains([' ', '$']) { format!("'{word}'") } else { (*word).to_owned() };
        if width + word.len() > COLUMNS {
            line.push_str(" \\\n   ");
            width = 3;
        }
        line.push(' ');
        line.push_str(&word);
        width += word.len() + 1;
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_shown_so_that_they_can_be_typed() {
        assert_eq!(shown(&["get", "demo"]), "ronde get demo");
        let long = "x".repeat(90);
        assert_eq!(shown(&["submit", &long, "a ${b}"]), format!("ronde submit {long} \\\n    'a ${{b}}'"));
    }
}
