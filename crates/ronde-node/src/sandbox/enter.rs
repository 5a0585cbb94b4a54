//! `ronde enter`: runs one more program in a container, for exec, probes and hooks.
//!
//! Started by the daemon with the program's streams as its own and the request as its argument. Joins the
//! namespaces of the container's first process, forks into its pid namespace, and passes the exit code on. When it is
//! killed the program dies too.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
};

use ronde_process::{Alone, Credentials, Fork, Namespaces, Program, become_program, fork};
use rustix::{
    fs::{Mode, OFlags},
    process::Signal,
    thread::move_into_link_name_space,
};
use serde::{Deserialize, Serialize};

use super::{cgroup::Cgroup, init};

/// Exit code when the program could not be started, as container runtimes have it for exec.
pub const CANNOT_START: i32 = 126;
/// Exit code when there is no such program.
pub const NO_SUCH_PROGRAM: i32 = 127;

/// What to run and where.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Entry {
    /// The container's first process.
    pub pid: u32,
    pub program: Program,
    pub credentials: Credentials,
    pub tty: bool,
    pub cgroup: Option<Cgroup>,
    /// Whether the container has namespaces at all.
    pub isolated: bool,
}

/// Runs the program and returns its exit code, with words if it could not be started.
pub fn run(alone: Alone, entry: &Entry) -> Result<i32, (i32, String)> {
    join(entry).map_err(|error| (CANNOT_START, format!("cannot enter the container: {error}")))?;
    let standard = standard().map_err(|error| (CANNOT_START, error.to_string()))?;
    let (mut failed, tell) = io::pipe().map_err(|error| (CANNOT_START, error.to_string()))?;
    match fork(alone, Namespaces::default()).map_err(|error| (CANNOT_START, error.to_string()))? {
        Fork::Child => {
            let error = become_entered(entry, &standard);
            let missing = if error.kind() == io::ErrorKind::NotFound { NO_SUCH_PROGRAM } else { CANNOT_START };
            let _ = io::Write::write_all(&mut (&tell), format!("{missing} {error}").as_bytes());
            init::rustix_exit(missing)
        }
        Fork::Parent(program) => {
            drop(tell);
            let mut message = String::new();
            let _ = io::Read::read_to_string(&mut failed, &mut message);
            let ended = program.wait().map_err(|error| (CANNOT_START, error.to_string()))?;
            match message.split_once(' ') {
                Some((code, words)) => Err((code.parse().unwrap_or(CANNOT_START), words.to_owned())),
                None => Ok(ended.exit_code()),
            }
        }
    }
}

fn become_entered(entry: &Entry, standard: &[OwnedFd; 3]) -> io::Error {
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    match init::prepare_main(standard, entry.tty, &entry.credentials) {
        Ok(()) => become_program(&entry.program),
        Err(error) => error,
    }
}

fn standard() -> io::Result<[OwnedFd; 3]> {
    Ok([
        rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?,
        rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?,
        rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 3)?,
    ])
}

fn join(entry: &Entry) -> io::Result<()> {
    if let Some(cgroup) = &entry.cgroup {
        cgroup.join()?;
    }
    if !entry.isolated {
        return Ok(());
    }
    // All are opened before the first is joined: afterwards there is another `/proc`.
    let names = ["ipc", "uts", "net", "pid", "mnt"];
    let open = |name: &&str| {
        let path = format!("/proc/{}/ns/{name}", entry.pid);
        rustix::fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
    };
    let namespaces: Vec<OwnedFd> = names.iter().map(open).collect::<Result<_, _>>()?;
    for namespace in &namespaces {
        move_into_link_name_space(namespace.as_fd(), None)?;
    }
    Ok(())
}
