//! Making a process, in namespaces of its own if wanted, and waiting for its end.
//!
//! A child is known by its pidfd, which cannot come to mean another process. The only `unsafe` of the project's
//! process handling is the one system call below.
#![expect(unsafe_code, reason = "no safe interface makes a process together with its namespaces")]

use std::{
    io,
    marker::PhantomData,
    os::fd::{AsFd, BorrowedFd, FromRawFd as _, OwnedFd},
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus};

/// Which namespaces a new process gets for itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Namespaces {
    pub user: bool,
    pub pid: bool,
    pub mount: bool,
    pub network: bool,
    pub hostname: bool,
    pub ipc: bool,
}

impl Namespaces {
    fn flags(self) -> libc::c_int {
        let chosen = [
            (self.user, libc::CLONE_NEWUSER),
            (self.pid, libc::CLONE_NEWPID),
            (self.mount, libc::CLONE_NEWNS),
            (self.network, libc::CLONE_NEWNET),
            (self.hostname, libc::CLONE_NEWUTS),
            (self.ipc, libc::CLONE_NEWIPC),
        ];
        chosen.iter().filter(|(wanted, _)| *wanted).fold(0, |all, (_, flag)| all | flag)
    }
}

/// Which side of a fork this is.
#[derive(Debug)]
pub enum Fork {
    Parent(Child),
    Child,
}

/// A process that we made.
#[derive(Debug)]
pub struct Child {
    pub pid: Pid,
    handle: OwnedFd,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    Code(i32),
    Signal(i32),
}

impl Ended {
    /// The exit code as a shell and Kubernetes tell it: 128 and the number for a signal.
    pub fn exit_code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(number) => 128 + number,
        }
    }
}

/// The knowledge that this process has one thread, and will start no other: only then can a copy of it go on safely.
#[derive(Debug, Clone, Copy)]
pub struct Alone(PhantomData<*const ()>);

impl Alone {
    /// Counts the threads. Made once, at the start of a program that never starts a second.
    pub fn check() -> io::Result<Self> {
        match fs_err::read_dir("/proc/self/task")?.count() {
            1 => Ok(Self(PhantomData)),
            threads => Err(io::Error::other(format!("cannot fork a process with {threads} threads"))),
        }
    }
}

/// Makes a copy of this process.
pub fn fork(_: Alone, namespaces: Namespaces) -> io::Result<Fork> {
    let flags = libc::CLONE_PIDFD | libc::SIGCHLD | namespaces.flags();
    let mut handle: libc::c_int = -1;
    // SAFETY: without CLONE_VM and with no stack given this is fork(2): the child goes on in its own copy of the
    // memory. There is one thread, so no lock can be held by another that does not exist in the child. `handle`
    // outlives the call; the kernel writes the pidfd there in the parent.
    let pid = unsafe {
        libc::syscall(libc::SYS_clone, libc::c_long::from(flags), 0_usize, &raw mut handle, 0_usize, 0_usize)
    };
    match i32::try_from(pid).ok().map(Pid::from_raw) {
        Some(Some(pid)) if pid.as_raw_nonzero().get() > 0 => {
            // SAFETY: the kernel has just given us this descriptor, and nobody else knows it.
            let handle = unsafe { OwnedFd::from_raw_fd(handle) };
            Ok(Fork::Parent(Child { pid, handle }))
        }
        Some(None) => Ok(Fork::Child),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Closes every descriptor of this process but the standard streams and a few.
///
/// For a copy that goes its own way: it must not hold open what its parent passes to others. The caller may not use,
/// nor drop, anything else that owns a descriptor; it ends by becoming a program or by exiting.
pub fn keep_only(keep: &[BorrowedFd<'_>]) {
    let mut numbers: Vec<i32> = keep.iter().map(std::os::fd::AsRawFd::as_raw_fd).filter(|number| *number > 2).collect();
    numbers.sort_unstable();
    let mut from = 3;
    for number in numbers.into_iter().chain([i32::MAX]) {
        if from < number {
            // SAFETY: the promise above: whoever owned these does not run in this process any more.
            unsafe { libc::syscall(libc::SYS_close_range, from, number - 1, 0) };
        }
        from = number.saturating_add(1);
    }
}

impl Child {
    /// Sends a signal; a process that has ended already is no error.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        crate::kill::signal(self.handle.as_fd(), signal)
    }

    /// Returns how the process ended, or nothing while it runs.
    pub fn try_wait(&self) -> io::Result<Option<Ended>> {
        self.wait_with(WaitIdOptions::EXITED | WaitIdOptions::NOHANG)
    }

    /// Waits for the end.
    pub fn wait(&self) -> io::Result<Ended> {
        loop {
            match self.wait_with(WaitIdOptions::EXITED) {
                Ok(Some(ended)) => return Ok(ended),
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn wait_with(&self, options: WaitIdOptions) -> io::Result<Option<Ended>> {
        let status = rustix::process::waitid(WaitId::PidFd(self.handle.as_fd()), options)?;
        Ok(status.as_ref().and_then(ended))
    }
}

/// Becomes readable when the process has ended.
impl AsFd for Child {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

fn ended(status: &WaitIdStatus) -> Option<Ended> {
    let code = status.exit_status().map(Ended::Code);
    code.or_else(|| status.terminating_signal().map(Ended::Signal))
}

/// Waits for any child of this process, as the first process of a container must; there is none left: nothing.
pub fn wait_for_any() -> io::Result<Option<(Pid, Ended)>> {
    loop {
        match rustix::process::wait(rustix::process::WaitOptions::empty()) {
            Ok(Some((pid, status))) => {
                let code = status.exit_status().map(Ended::Code);
                if let Some(ended) = code.or_else(|| status.terminating_signal().map(Ended::Signal)) {
                    return Ok(Some((pid, ended)));
                }
            }
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::CHILD) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
}
