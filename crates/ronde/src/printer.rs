//! Everything this program writes to a terminal: data to stdout, talk and failures to stderr.
//!
//! A reader that goes away (`ronde get pods | head -1`) ends the output quietly. Logs are not its business, see
//! [`crate::logging`].

use std::{
    error::Error,
    fmt,
    io::{self, Write as _},
    sync::{Arc, OnceLock},
};

use crate::{
    arena::Caller,
    failure::{Blame, Failure},
};

/// Writes for people and for programs.
#[derive(Debug, Clone, Copy)]
pub struct Printer {
    /// Failures and data only.
    pub quiet: bool,
    /// In whose form failures are told.
    pub caller: Caller,
}

#[expect(clippy::unused_self, reason = "whoever prints does it through the one printer of the command")]
impl Printer {
    /// Tells a person what happens; silent with `--quiet`.
    pub fn say(self, text: impl fmt::Display) {
        if !self.quiet {
            // There is nobody left to tell when stderr is gone.
            let _ = writeln!(io::stderr().lock(), "{text}");
        }
    }

    /// Tells a person what needs their attention, also with `--quiet`.
    pub fn warn(self, text: impl fmt::Display) {
        let _ = writeln!(io::stderr().lock(), "warning: {text}");
    }

    /// Writes a line of data; says whether anyone still reads.
    pub fn data(self, text: impl fmt::Display) -> Reader {
        self.bytes(format!("{text}\n").as_bytes())
    }

    /// Writes data that need not be text; says whether anyone still reads.
    pub fn bytes(self, bytes: &[u8]) -> Reader {
        let mut out = io::stdout().lock();
        match out.write_all(bytes).and_then(|()| out.flush()) {
            Ok(()) => Reader::There,
            Err(error) => {
                // The first failure is the one to tell.
                LostOutput::of(error).into_iter().for_each(|lost| drop(LOST.set(lost)));
                Reader::Gone
            }
        }
    }

    /// Returns why data was lost, if it was.
    pub fn lost(self) -> Option<LostOutput> {
        LOST.get().cloned()
    }

    /// Shows a failure and returns the exit code.
    pub fn failure(self, failure: &dyn Failure) -> u8 {
        let text = render(failure, self.caller.name());
        let text = match text.strip_prefix("error: ").filter(|_| self.caller.is_arena) {
            Some(text) => format!("ERRO[{:04}] {text}", self.caller.seconds()),
            None => text,
        };
        let _ = io::stderr().lock().write_all(text.as_bytes());
        failure.blame().exit_code()
    }
}

/// Why data did not reach stdout: verbs go on writing, and the end of the program tells.
static LOST: OnceLock<LostOutput> = OnceLock::new();

/// Data was not written.
#[derive(Debug, Clone, thiserror::Error)]
#[error("cannot write to the standard output")]
pub struct LostOutput {
    source: Arc<io::Error>,
}

impl LostOutput {
    /// A reader that has gone away has lost nothing that it wanted.
    pub fn of(error: io::Error) -> Option<Self> {
        (error.kind() != io::ErrorKind::BrokenPipe).then(|| Self { source: Arc::new(error) })
    }
}

impl Failure for LostOutput {
    fn blame(&self) -> Blame {
        Blame::Environment
    }
}

/// Whether somebody reads our stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    There,
    Gone,
}

const REPORT: &str = "please report this, with the output of `ronde --version` and what you did";

/// Renders a failure: what we tried, each cause once, and the hint, with the program by the name it was called by.
fn render(failure: &dyn Failure, program: &str) -> String {
    let mut text = format!("error: {failure}\n");
    let mut said = failure.to_string();
    let mut source = failure.source();
    while let Some(cause) = source {
        let words = without_errno(&cause.to_string());
        // Some libraries repeat their source in their own text.
        if !said.contains(&words) {
            text.push_str(&format!("  cause: {}\n", words.replace('\n', "\n         ")));
            said = words;
        }
        source = cause.source();
    }
    let hint = failure.hint().or_else(|| bug_hint(failure));
    if let Some(hint) = hint {
        let hint = hint.replace("`ronde ", &format!("`{program} "));
        text.push_str(&format!("\nhint: {hint}\n"));
    }
    text
}

fn bug_hint(failure: &dyn Failure) -> Option<String> {
    (failure.blame() == Blame::Bug).then(|| REPORT.to_owned())
}

/// Tells about a panic.
pub fn bug(what: &str) {
    let _ = writeln!(io::stderr().lock(), "error: ronde has a bug: {what}\n\nhint: {REPORT}");
}

/// Drops the number that the standard library adds to the words of a system error.
fn without_errno(text: &str) -> String {
    match text.rfind(" (os error ") {
        Some(at) if text.ends_with(')') => text[..at].to_owned(),
        _ => text.to_owned(),
    }
}

/// Joins an error and its causes in one line, for a log.
pub fn one_line(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(&format!(": {}", without_errno(&cause.to_string())));
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot start the job `mnist`")]
    struct Start {
        blame: Blame,
        hint: Option<&'static str>,
        source: io::Error,
    }

    impl Failure for Start {
        fn blame(&self) -> Blame {
            self.blame
        }
        fn hint(&self) -> Option<String> {
            self.hint.map(str::to_owned)
        }
    }

    fn check(name: &str, blame: Blame, hint: Option<&'static str>, source: io::Error, expected: &str) {
        assert_eq!(render(&Start { blame, hint, source }, "arena"), expected, "{name}");
    }

    #[test]
    fn failures_are_shown_with_their_causes_and_a_hint() {
        let denied = || io::Error::from_raw_os_error(13);
        check(
            "a system error loses its number",
            Blame::Environment,
            None,
            denied(),
            "error: cannot start the job `mnist`\n  cause: Permission denied\n",
        );
        check(
            "a hint stands apart",
            Blame::User,
            Some("`ronde queue open`"),
            denied(),
            "error: cannot start the job `mnist`\n  cause: Permission denied\n\nhint: `arena queue open`\n",
        );
        check(
            "a cause that the text already says is left out",
            Blame::User,
            None,
            io::Error::other("the job `mnist`"),
            "error: cannot start the job `mnist`\n",
        );
        check(
            "a bug asks for a report",
            Blame::Bug,
            None,
            io::Error::other("odd"),
            "error: cannot start the job `mnist`\n  cause: odd\n\n\
             hint: please report this, with the output of `arena --version` and what you did\n",
        );
    }
}
