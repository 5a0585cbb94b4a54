//! Locks of the kernel on files: they end with their process, however it ends.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    path::Path,
};

use rustix::{
    fs::{FlockOperation, Mode, OFlags},
    io::{Errno, retry_on_intr},
};

/// Opens the file of a lock, made if it is missing.
pub fn open(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::from_raw_mode(0o600)).map_err(|error| {
        let error = io::Error::from(error);
        io::Error::new(error.kind(), format!("`{}`: {error}", path.display()))
    })
}

/// Waits until nobody else has the lock.
pub fn exclusive(file: impl AsFd) -> io::Result<()> {
    Ok(retry_on_intr(|| rustix::fs::flock(file.as_fd(), FlockOperation::LockExclusive))?)
}

/// Waits until nobody has the lock for themselves.
pub fn shared(file: impl AsFd) -> io::Result<()> {
    Ok(retry_on_intr(|| rustix::fs::flock(file.as_fd(), FlockOperation::LockShared))?)
}

/// Takes the lock if nobody has it at all.
pub fn try_exclusive(file: impl AsFd) -> io::Result<bool> {
    match retry_on_intr(|| rustix::fs::flock(file.as_fd(), FlockOperation::NonBlockingLockExclusive)) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Opens a lock and waits for it.
pub fn take(path: &Path) -> io::Result<OwnedFd> {
    let file = open(path)?;
    exclusive(&file)?;
    Ok(file)
}
