//! Sending signals: through a pidfd to one process, or to all that descend from this one.

use std::{io, os::fd::BorrowedFd};

use rustix::process::{Pid, Signal};

/// A tree that goes on growing while it is killed is given up after this many rounds.
const ROUNDS_MAX: usize = 1000;

/// Sends a signal to a process; one that has ended already is no error.
pub fn signal(process: BorrowedFd<'_>, signal: Signal) -> io::Result<()> {
    match rustix::process::pidfd_send_signal(process, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Kills a process of which only the number is known; one that has ended already is no error.
pub fn by_number(pid: i32) -> io::Result<()> {
    let Some(pid) = Pid::from_raw(pid) else { return Ok(()) };
    match rustix::process::kill_process(pid, Signal::KILL) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Kills everything that descends from this process and waits for its end.
///
/// This process has to adopt orphans (`PR_SET_CHILD_SUBREAPER`) or to be the first of its pid namespace: then whatever
/// its descendants leave behind becomes its own child, and a round of killing children reaches it in the end.
pub fn descendants() -> io::Result<()> {
    for _ in 0..ROUNDS_MAX {
        for child in children()? {
            by_number(child.as_raw_nonzero().get())?;
        }
        if crate::fork::wait_for_any()?.is_none() {
            return Ok(());
        }
    }
    Err(io::Error::other("new processes appear faster than they can be killed"))
}

/// Sends a signal to everything that descends from this process, and returns how many processes that were.
///
/// What is made meanwhile may be missed: who kills calls again until there is nothing left.
pub fn tree(signal: Signal) -> usize {
    let mut found = children_of(rustix::process::getpid());
    let mut reached = 0;
    while let Some(pid) = found.get(reached).copied() {
        found.extend(children_of(pid));
        reached += 1;
    }
    for pid in &found {
        // It may have ended, or belong to somebody else by now: nothing to be done about either.
        let _ = rustix::process::kill_process(*pid, signal);
    }
    found.len()
}

fn children() -> io::Result<Vec<Pid>> {
    let own = rustix::process::getpid().as_raw_nonzero();
    let text = fs_err::read_to_string(format!("/proc/self/task/{own}/children"))?;
    Ok(pids(&text))
}

/// The children of all threads of a process; none if it has ended.
fn children_of(pid: Pid) -> Vec<Pid> {
    let Ok(threads) = fs_err::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())) else { return Vec::new() };
    let texts = threads.flatten().filter_map(|thread| fs_err::read_to_string(thread.path().join("children")).ok());
    texts.flat_map(|text| pids(&text)).collect()
}

fn pids(text: &str) -> Vec<Pid> {
    text.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}
