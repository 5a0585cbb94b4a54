//! The ways to start a rank: as a process of this machine, over ssh, through an agent, by a command of the user's.
//!
//! A [`Starter`] is one small trait. Whichever it is, a rank that was started gives two streams and an end, takes orders, and
//! dies within [`NOTICED_WITHIN`] when this process is gone.

pub mod local;
pub mod remote;
pub mod slurm;
pub mod ssh;
pub mod starters;

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use futures::future::BoxFuture;
use tokio::{
    io::AsyncRead,
    sync::{mpsc, oneshot},
};

/// How long a rank may outlive a launcher that was killed.
pub const NOTICED_WITHIN: Duration = Duration::from_secs(2);

/// What is to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The program and its arguments, passed verbatim.
    pub words: Vec<String>,
    /// On this machine: the whole environment. Elsewhere: what is added to the environment that is there.
    pub environment: BTreeMap<String, String>,
    pub directory: PathBuf,
}

/// A rank that was started.
pub struct Started {
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    pub stderr: Box<dyn AsyncRead + Send + Unpin>,
    /// Dropped: the rank is killed at once, with all that it started.
    pub orders: mpsc::Sender<Order>,
    pub ended: oneshot::Receiver<Ended>,
}

/// What a rank can be told from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// A signal to the rank and all that it started; SIGTERM asks it to end.
    Signal(i32),
    /// The end, now.
    Kill,
}

/// How a rank ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    Code(i32),
    Signal(i32),
    /// The way to it broke: nobody knows.
    Lost(String),
}

impl Ended {
    /// The exit code as a shell tells it: 128 and the number for a signal, 255 as ssh does for what was lost.
    pub const fn exit_code(&self) -> i32 {
        match self {
            Self::Code(code) => *code,
            Self::Signal(number) => 128 + *number,
            Self::Lost(_) => 255,
        }
    }

    /// Whether the program ended by its own doing: by a code, or by a signal that tells of a fault in it.
    pub const fn is_own(&self) -> bool {
        /// SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV and SIGSYS, by their numbers.
        const FAULTS: u32 = 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 11 | 1 << 31;
        match self {
            Self::Code(_) => true,
            Self::Signal(number) => *number > 0 && *number < 32 && FAULTS >> *number & 1 == 1,
            Self::Lost(_) => false,
        }
    }

    /// What could help, where the code says that the program never began.
    pub const fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Code(126) => Some("the program has to be executable on every host: `chmod +x` may help"),
            Self::Code(127) => Some("the program has to be on every host: name it by its path, or see the PATH there"),
            _ => None,
        }
    }
}

/// Why a rank could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot start a rank on host `{host}`: {why}")]
pub struct StartError {
    pub host: String,
    pub why: String,
}

/// A way to start a rank.
pub trait Starter: Send + Sync {
    fn start<'a>(&'a self, host: &'a str, program: &'a Program) -> BoxFuture<'a, Result<Started, StartError>>;
}
