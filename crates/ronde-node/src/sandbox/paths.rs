//! Paths inside a root that is not ours: symbolic links there mean that root, never the machine's.
//!
//! Every mount goes to an opened place (`/proc/self/fd/N`), so that nothing can be swapped in between.

use std::{io, path::Path};

use ronde_images::inside;
use rustix::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    fs::{CWD, FileType, Mode, OFlags, mkdirat, openat},
    io::Errno,
};

/// A path deeper than this is refused.
const DEPTH_MAX: usize = 128;

/// What has to be at a path if there is nothing yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    Refuse,
    Folder,
    File,
}

/// Opens a folder of the machine as a root for [`find`].
pub fn open_root(path: impl AsRef<Path>) -> io::Result<OwnedFd> {
    let path = path.as_ref();
    openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| named(error, "open", &path.display().to_string()))
}

/// Opens a path inside a root without following anything out of it, making what is missing.
pub fn find(root: BorrowedFd<'_>, path: &str, missing: Missing) -> io::Result<OwnedFd> {
    match open_inside(root, path) {
        Err(Errno::NOENT) if missing != Missing::Refuse => {}
        other => return other.map_err(|error| named(error, "open", path)),
    }
    let mut walked = String::new();
    let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty() && *name != ".").collect();
    if names.len() > DEPTH_MAX || names.contains(&"..") {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("`{path}` is not a path to make")));
    }
    let mut at = open_inside(root, "/")?;
    for (index, name) in names.iter().enumerate() {
        walked = format!("{walked}/{name}");
        at = match open_inside(root, &walked) {
            Err(Errno::NOENT) => {
                let is_file = missing == Missing::File && index + 1 == names.len();
                make(at.as_fd(), name, is_file).map_err(|error| named(error, "make", &walked))?
            }
            other => other.map_err(|error| named(error, "open", &walked))?,
        };
    }
    Ok(at)
}

/// Returns a name for an opened place that mount calls take.
pub fn name_of(place: &impl AsFd) -> String {
    use std::os::fd::AsRawFd as _;
    format!("/proc/self/fd/{}", place.as_fd().as_raw_fd())
}

pub fn is_folder(place: &impl AsFd) -> io::Result<bool> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(place)?.st_mode).is_dir())
}

fn open_inside(root: BorrowedFd<'_>, path: &str) -> Result<OwnedFd, Errno> {
    inside::open_inside(root, if path.is_empty() { "/" } else { path }, OFlags::PATH)
}

fn make(folder: BorrowedFd<'_>, name: &str, is_file: bool) -> Result<OwnedFd, Errno> {
    if is_file {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::WRONLY | OFlags::CLOEXEC;
        drop(openat(folder, name, flags, Mode::from_raw_mode(0o644))?);
    } else {
        mkdirat(folder, name, Mode::from_raw_mode(0o755))?;
    }
    openat(folder, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// Says what was tried on what; the kind stays.
pub fn named(error: Errno, verb: &str, path: &str) -> io::Error {
    let error = io::Error::from(error);
    io::Error::new(error.kind(), format!("cannot {verb} `{path}`: {error}"))
}
