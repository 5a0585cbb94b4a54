//! How a command fails: who has to act, with which exit code, and the hint that goes with it.
//!
//! Every error type of this crate implements [`Failure`]; [`crate::printer`] shows it. The table of exit codes
//! below is the one in `--help`.

use std::error::Error;

/// Who has to act on a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// The input can be fixed.
    User,
    /// The machine, the disk or the network does not do what it should.
    Environment,
    /// Ours.
    Bug,
}

/// An error that knows who has to act and what they could do.
pub trait Failure: Error + Send + Sync + 'static {
    fn blame(&self) -> Blame;

    /// Names a command or a field that helps.
    fn hint(&self) -> Option<String> {
        None
    }
}

/// The result of a command: a verb may answer "no" without having failed.
pub type Outcome = Result<Answer, Box<dyn Failure>>;

/// What a command that did its work has to say by its exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Done,
    No,
    /// A program that ran for the user ended with this code.
    Code(u8),
}

impl Blame {
    pub fn exit_code(self) -> u8 {
        match self {
            Self::User => 2,
            Self::Environment => 3,
            Self::Bug => 70,
        }
    }
}

impl Answer {
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::No => 1,
            Self::Code(code) => code,
        }
    }
}

/// Ended by a second Ctrl-C, as shells count it: 128 + SIGINT.
pub const INTERRUPTED: u8 = 130;

/// Every exit code, as users may rely on it.
pub const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    `ronde status`: not running or not ready; `ronde doctor`: something was found; install, uninstall: Helm failed; commands of training jobs: refused
  2    invalid input: arguments, a manifest or a kubeconfig
  3    environment error: machine, disk or network
  70   a bug in ronde
  130  interrupted by a second Ctrl-C
  255  `ronde rsh`: no connection to the host";

impl<E: Failure> From<E> for Box<dyn Failure> {
    fn from(error: E) -> Self {
        Box::new(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_text_lists_every_exit_code() {
        let listed: Vec<u8> =
            EXIT_CODES.lines().skip(1).map(|line| line.split_whitespace().next().unwrap().parse().unwrap()).collect();
        let used = [
            Answer::Done.exit_code(),
            Answer::No.exit_code(),
            Blame::User.exit_code(),
            Blame::Environment.exit_code(),
            Blame::Bug.exit_code(),
            INTERRUPTED,
            ronde_launch::agent::rsh::NO_CONNECTION,
        ];
        assert_eq!(listed, used);
    }
}
