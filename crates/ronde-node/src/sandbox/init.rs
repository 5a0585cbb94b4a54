//! The first process of a container: builds its world, starts the program, reaps orphans, reports the end.
//!
//! Forked by the supervisor, often as process 1 of a new pid namespace: when it ends, the kernel kills
//! whatever the program has left behind. It dies with the supervisor. It handles no signals: the supervisor gets a handle
//! (pidfd) of the program and signals that.

use std::{
    io::{self, Read as _, Write as _},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
};

use fs_err::File;
use ronde_process::{Alone, Credentials, Ended, Fork, Namespaces, become_program, fork, kill};
use rustix::{
    event::{PollFd, PollFlags},
    net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg},
    process::Signal,
};
use serde::{Deserialize, Serialize};

use super::{
    root,
    spec::{ContainerSpec, Pids, Root},
};

/// What the first process says to the supervisor, one message each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// The program will have a terminal; the other end of it comes along.
    Terminal,
    /// The program runs; a handle of it comes along.
    Started,
    /// It could not be started.
    Failed {
        message: String,
    },
    Ended {
        code: Option<i32>,
        signal: Option<i32>,
    },
}

/// What the first process gets from the supervisor.
pub struct Streams {
    /// For reports; a socket that keeps messages apart.
    pub report: OwnedFd,
    /// The program's standard input, output and error; nothing if it gets a terminal.
    pub standard: Option<[OwnedFd; 3]>,
}

/// Where the files of this attempt and of its pod are.
pub struct Folders<'a> {
    pub attempt: &'a Path,
    pub shared_memory: &'a Path,
}

/// Runs as the first process; the caller ends when this returns.
pub fn run(alone: Alone, spec: &ContainerSpec, folders: &Folders<'_>, streams: Streams) {
    let report = streams.report;
    match start(alone, spec, folders, report.as_fd(), streams.standard) {
        Ok(program) => {
            if send(report.as_fd(), &Report::Started, Some(program.as_fd())).is_ok() {
                let ended = wait_for(&program, spec.pids);
                let _ = send(report.as_fd(), &ended, None);
            }
        }
        Err(error) => {
            let _ = send(report.as_fd(), &Report::Failed { message: error.to_string() }, None);
        }
    }
}

fn start(
    alone: Alone,
    spec: &ContainerSpec,
    folders: &Folders<'_>,
    report: BorrowedFd<'_>,
    standard: Option<[OwnedFd; 3]>,
) -> io::Result<ronde_process::Child> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let _ = rustix::thread::set_name(c"ronde-init");
    if let Some(cgroup) = &spec.cgroup {
        cgroup.join()?;
    }
    if let Root::Layers { layers, read_only, hidden, volumes, devices, user_attributes } = &spec.root {
        root::build_and_enter(&root::RootPlan {
            folder: folders.attempt,
            layers,
            read_only: *read_only,
            hidden,
            volumes,
            devices,
            user_attributes: *user_attributes,
            mounts: &spec.mounts,
            shared_memory: folders.shared_memory,
        })?;
    }
    if !spec.program.folder.is_empty() {
        // As container runtimes do; an error shows when the program is started there.
        let _ = fs_err::create_dir_all(&spec.program.folder);
    }
    let standard = match standard {
        Some(standard) => standard,
        None => open_terminal(report)?,
    };
    // The other end is read until it closes, which the program's start does; or until it says what went wrong.
    let (mut failed, tell) = io::pipe()?;
    match fork(alone, Namespaces::default())? {
        Fork::Child => {
            drop(failed);
            let error = become_main(spec, &standard, &tell);
            let _ = (&tell).write_all(error.to_string().as_bytes());
            rustix_exit(128)
        }
        Fork::Parent(program) => {
            drop(tell);
            let mut message = String::new();
            failed.read_to_string(&mut message)?;
            if message.is_empty() { Ok(program) } else { Err(io::Error::other(message)) }
        }
    }
}

/// Opens a terminal of the container's own, so that its name means something inside.
fn open_terminal(report: BorrowedFd<'_>) -> io::Result<[OwnedFd; 3]> {
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC;
    let ours = rustix::fs::open("/dev/ptmx", flags, rustix::fs::Mode::empty())?;
    rustix::pty::unlockpt(&ours)?;
    let flags = rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY | rustix::pty::OpenptFlags::CLOEXEC;
    let theirs = rustix::pty::ioctl_tiocgptpeer(&ours, flags)?;
    send(report, &Report::Terminal, Some(ours.as_fd()))?;
    Ok([theirs.try_clone()?, theirs.try_clone()?, theirs])
}

/// Turns the second process into the program.
fn become_main(spec: &ContainerSpec, standard: &[OwnedFd; 3], tell: &io::PipeWriter) -> io::Error {
    let prepared = prepare_main(standard, spec.terminal.tty, &spec.credentials).and_then(|()| match spec.pids {
        // The kernel ends it with the first process of its pid namespace.
        Pids::Own => Ok(()),
        Pids::Pod | Pids::Machine => die_with_parent(tell),
    });
    match prepared {
        Ok(()) => become_program(&spec.program),
        Err(error) => error,
    }
}

/// Lets the kernel kill this process when its parent ends, who reads from the other end of a pipe.
///
/// Called when the user has been changed: the kernel forgets such a wish then.
pub fn die_with_parent(tell: &io::PipeWriter) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // It may have ended before the wish. In a pid namespace it cannot be seen, but nobody reads any more.
    let mut set = [PollFd::new(tell, PollFlags::empty())];
    rustix::event::poll(&mut set, Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 }))?;
    if set[0].revents().contains(PollFlags::ERR) { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
}

/// Gives this process its streams, a session of its own, and the rights of its user.
pub fn prepare_main(standard: &[OwnedFd; 3], tty: bool, credentials: &Credentials) -> io::Result<()> {
    // A session of its own: a Ctrl-C at some terminal is not meant for it.
    match rustix::process::setsid() {
        Ok(_) | Err(rustix::io::Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    rustix::stdio::dup2_stdin(&standard[0])?;
    rustix::stdio::dup2_stdout(&standard[1])?;
    rustix::stdio::dup2_stderr(&standard[2])?;
    if tty {
        rustix::process::ioctl_tiocsctty(&standard[0])?;
    }
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    credentials.take().map_err(|error| io::Error::new(error.kind(), format!("cannot change user: {error}")))
}

fn wait_for(program: &ronde_process::Child, pids: Pids) -> Report {
    let ended = loop {
        match ronde_process::fork::wait_for_any() {
            Ok(Some((pid, ended))) if pid == program.pid => break Some(ended),
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => break None,
        }
    };
    if pids != Pids::Own {
        let _ = kill::descendants();
    }
    match ended {
        Some(Ended::Code(code)) => Report::Ended { code: Some(code), signal: None },
        Some(Ended::Signal(signal)) => Report::Ended { code: None, signal: Some(signal) },
        None => Report::Ended { code: None, signal: None },
    }
}

fn send(socket: BorrowedFd<'_>, report: &Report, handle: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let bytes = serde_json::to_vec(report)?;
    let handles: Vec<BorrowedFd<'_>> = handle.into_iter().collect();
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !handles.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(&handles));
    }
    sendmsg(socket, &[io::IoSlice::new(&bytes)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Ends this process at once.
#[expect(clippy::exit, reason = "a forked copy must not go on in its parent's code")]
pub fn rustix_exit(code: i32) -> ! {
    std::process::exit(code)
}

/// Opens what programs without input read from.
pub fn nothing() -> io::Result<OwnedFd> {
    Ok(File::open("/dev/null")?.into_parts().0.into())
}
