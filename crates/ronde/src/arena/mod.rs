//! `ronde` by other names: how it reads its arguments, how it speaks, and the types of jobs in arena's words.
//!
//! Called as `arena` it is the same program with the same verbs; what differs is said here and nowhere else: flags that
//! stand before the verb, the columns of `list`, one exit code for all that goes wrong. Called as `kubectl-ronde`, as kubectl
//! does for `kubectl ronde`, it takes the flags of kubectl before the verb, and says `kubectl ronde` where it names itself.

pub mod arguments;
mod types;

use std::{ffi::OsStr, path::Path, time::Instant};

pub use self::types::{JobType, TYPE_LABEL};
use crate::{environment, printer::Printer};

/// By which name the program was called, and when.
#[derive(Debug, Clone, Copy)]
pub struct Caller {
    pub is_arena: bool,
    pub is_kubectl: bool,
    started: Instant,
}

impl Caller {
    /// Reads the name from the first argument.
    pub fn of(program: Option<&OsStr>) -> Self {
        let name = program.and_then(|program| Path::new(program).file_name());
        let is = |known: &str| name == Some(OsStr::new(known));
        Self { is_arena: is("arena"), is_kubectl: is("kubectl-ronde"), started: environment::stopwatch() }
    }

    /// The name, as in hints.
    pub fn name(self) -> &'static str {
        match (self.is_arena, self.is_kubectl) {
            (true, _) => "arena",
            (_, true) => "kubectl ronde",
            _ => "ronde",
        }
    }

    /// Tells a person how it goes, in the form that arena's users know.
    pub fn info(self, printer: Printer, text: impl std::fmt::Display) {
        printer.say(format_args!("INFO[{:04}] {text}", self.seconds()));
    }

    /// Seconds since the program was called.
    pub fn seconds(self) -> u64 {
        self.started.elapsed().as_secs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_that_of_the_file() {
        let is_arena = |program: &str| Caller::of(Some(OsStr::new(program))).is_arena;
        assert!(is_arena("arena"));
        assert!(is_arena("/usr/local/bin/arena"));
        assert!(!is_arena("/opt/arena/ronde"));
        assert!(!Caller::of(None).is_arena);
        let name = |program: &str| Caller::of(Some(OsStr::new(program))).name();
        assert_eq!(name("/usr/local/bin/kubectl-ronde"), "kubectl ronde");
        assert_eq!(name("arena"), "arena");
        assert_eq!(name("kubectl"), "ronde");
    }
}
