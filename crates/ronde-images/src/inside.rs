//! Opens paths inside of a tree that is not ours: links in it mean the tree, never the machine.

use rustix::{
    fd::{AsFd, OwnedFd},
    fs::{Mode, OFlags, ResolveFlags, openat2},
    io::Errno,
    path::Arg,
};

/// The kernel gives up on `..` whenever somebody renames or mounts anything at that moment. Starts of pods mount for
/// milliseconds, a try takes microseconds: a few are enough, and this is more.
const TRIES: usize = 1000;

/// Opens a path inside of an opened folder.
///
/// # Errors
/// If it is not there or cannot be opened.
pub fn open_inside(root: impl AsFd, path: impl Arg + Copy, flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let open = || openat2(root.as_fd(), path, flags | OFlags::CLOEXEC, Mode::empty(), resolve);
    let mut opened = open();
    for _ in 1..TRIES {
        if !matches!(opened, Err(Errno::AGAIN)) {
            break;
        }
        opened = open();
    }
    opened
}
