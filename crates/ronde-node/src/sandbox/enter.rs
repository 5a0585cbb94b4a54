//! `ronde enter`: runs one more program in a container, for exec, probes and hooks.
//!
//! Started by the daemon with the program's streams as its own and the request as its arguments. What everybody who
//! enters the container gets is read from a file: the environment may be large, and have secrets in it. Joins the
//! namespaces of the container's first process, forks into its pid namespace, and passes the exit code on. When it is
//! killed the program dies too.

use std::{
    ffi::OsString,
    io,
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
};

use fs_err as fs;
use ronde_process::{Alone, Credentials, Fork, Namespaces, Program, become_program, fork};
use rustix::{
    fs::{Mode, OFlags},
    thread::move_into_link_name_space,
};
use serde::{Deserialize, Serialize};

use super::{cgroup::Cgroup, init};

/// Exit code when the program could not be started, as container runtimes have it for exec.
pub const CANNOT_START: i32 = 126;
/// Exit code when there is no such program.
pub const NO_SUCH_PROGRAM: i32 = 127;
/// The words for what the standard streams are.
const TERMINAL: &str = "terminal";
const PIPES: &str = "pipes";

/// How to be at home in a container: one file for each attempt.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Entry {
    /// The container's own program; another one has its environment and its folder.
    pub program: Program,
    pub credentials: Credentials,
    pub cgroup: Option<Cgroup>,
    /// Whether the container has namespaces at all.
    pub isolated: bool,
    /// The numbers of the machine's GPUs that it holds; for the daemon, after its own restart.
    #[serde(default)]
    pub gpus: Vec<usize>,
}

/// What to run and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Where the [`Entry`] is.
    pub entry: PathBuf,
    /// The container's first process.
    pub pid: u32,
    pub tty: bool,
    pub argv: Vec<String>,
}

impl Call {
    /// The arguments that [`Call::from_args`] understands.
    pub fn to_args(&self) -> Vec<OsString> {
        let streams = if self.tty { TERMINAL } else { PIPES };
        let own = [self.entry.clone().into_os_string(), self.pid.to_string().into(), streams.into()];
        own.into_iter().chain(self.argv.iter().map(OsString::from)).collect()
    }

    pub fn from_args(args: &[String]) -> Option<Self> {
        let [entry, pid, streams, argv @ ..] = args else { return None };
        let tty = [(TERMINAL, true), (PIPES, false)].into_iter().find(|(word, _)| word == streams)?.1;
        Some(Self { entry: PathBuf::from(entry), pid: pid.parse().ok()?, tty, argv: argv.to_vec() })
    }
}

/// Runs the program and returns its exit code, with words if it could not be started.
pub fn run(alone: Alone, call: &Call) -> Result<i32, (i32, String)> {
    let cannot_enter = |error| (CANNOT_START, format!("cannot enter the container: {error}"));
    let entry = read(call).map_err(cannot_enter)?;
    join(call.pid, &entry).map_err(cannot_enter)?;
    let standard = standard().map_err(|error| (CANNOT_START, error.to_string()))?;
    let (mut failed, tell) = io::pipe().map_err(|error| (CANNOT_START, error.to_string()))?;
    match fork(alone, Namespaces::default()).map_err(|error| (CANNOT_START, error.to_string()))? {
        Fork::Child => {
            drop(failed);
            let error = become_entered(&entry, call.tty, &standard, &tell);
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

/// Reads how to be at home, and puts the program of the call in the place of the container's own.
fn read(call: &Call) -> io::Result<Entry> {
    let mut entry: Entry = serde_json::from_slice(&fs::read(&call.entry)?)?;
    if call.tty && !entry.program.env.iter().any(|(name, _)| name == "TERM") {
        entry.program.env.push(("TERM".to_owned(), "xterm".to_owned()));
    }
    entry.program.argv.clone_from(&call.argv);
    Ok(entry)
}

fn become_entered(entry: &Entry, tty: bool, standard: &[OwnedFd; 3], tell: &io::PipeWriter) -> io::Error {
    let prepared = init::prepare_main(standard, tty, &entry.credentials);
    match prepared.and_then(|()| init::die_with_parent(tell)) {
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

fn join(pid: u32, entry: &Entry) -> io::Result<()> {
    if let Some(cgroup) = &entry.cgroup {
        cgroup.join()?;
    }
    if !entry.isolated {
        return Ok(());
    }
    // All are opened before the first is joined: afterwards there is another `/proc`.
    let names = ["ipc", "uts", "net", "pid", "mnt"];
    let open = |name: &&str| {
        let path = format!("/proc/{pid}/ns/{name}");
        rustix::fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
    };
    let namespaces: Vec<OwnedFd> = names.iter().map(open).collect::<Result<_, _>>()?;
    for namespace in &namespaces {
        move_into_link_name_space(namespace.as_fd(), None)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::Call;

    #[test]
    fn a_call_is_understood_as_it_was_meant() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        for (tty, argv) in
            [(true, words(&["sh", "-c", "exit 5"])), (false, words(&["terminal", ""])), (false, words(&[]))]
        {
            let call = Call { entry: PathBuf::from("/a b/entry.json"), pid: 7, tty, argv };
            let args: Vec<String> = call.to_args().into_iter().map(|arg| arg.into_string().unwrap()).collect();
            assert_eq!(Call::from_args(&args), Some(call));
        }
        assert_eq!(Call::from_args(&words(&["/e", "no-number", "pipes"])), None);
        assert_eq!(Call::from_args(&words(&["/e", "7", "sh"])), None);
        assert_eq!(Call::from_args(&words(&["/e"])), None);
    }
}
