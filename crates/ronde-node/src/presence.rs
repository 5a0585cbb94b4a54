//! Whether a file that a process lives by is still where it was: its data directory may be deleted or moved away.
//!
//! Asked every now and then by supervisors, by the holder of an ordinary user's namespaces and by the daemon, each for
//! a file of its own. A file without a name is gone for good. One that is only not found under its name may come back (a
//! directory that is renamed twice), so it has to be missing several times; and a disk that gives no answer says nothing.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::io::Errno;

/// How often a file is not found under its name until it is gone.
const MISSES_MAX: u32 = 3;

/// A file that must be there, kept open.
#[derive(Debug)]
pub struct Presence {
    file: OwnedFd,
    path: PathBuf,
    misses: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileState {
    There,
    /// Nothing has this name, or another file has.
    Missing,
    /// No name leads to it any more.
    Deleted,
    /// The disk did not say.
    Unknown,
}

impl Presence {
    /// Remembers an open file by its path.
    ///
    /// # Errors
    /// If there are no file descriptors left.
    pub fn new(file: impl AsFd, path: &Path) -> io::Result<Self> {
        Ok(Self { file: file.as_fd().try_clone_to_owned()?, path: path.to_owned(), misses: 0 })
    }

    /// Looks once more; returns whether the file has been deleted or moved away.
    pub fn is_gone(&mut self) -> bool {
        match self.look() {
            FileState::Deleted => return true,
            FileState::Missing => self.misses += 1,
            FileState::There | FileState::Unknown => self.misses = 0,
        }
        self.misses >= MISSES_MAX
    }

    fn look(&self) -> FileState {
        let Ok(own) = rustix::fs::fstat(&self.file) else { return FileState::Unknown };
        if own.st_nlink == 0 {
            return FileState::Deleted;
        }
        match rustix::fs::stat(&self.path) {
            Ok(there) if (there.st_dev, there.st_ino) == (own.st_dev, own.st_ino) => FileState::There,
            Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) => FileState::Missing,
            Err(_) => FileState::Unknown,
        }
    }
}

impl AsFd for Presence {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use fs_err as fs;

    use super::*;

    fn presence(folder: &Path) -> Presence {
        fs::create_dir_all(folder).unwrap();
        let path = folder.join("lock");
        Presence::new(fs::File::create(&path).unwrap().file(), &path).unwrap()
    }

    #[test]
    fn a_deleted_file_is_gone_at_once() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("data");
        let mut presence = presence(&folder);
        assert!(!presence.is_gone());
        fs::remove_dir_all(&folder).unwrap();
        assert!(presence.is_gone());
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("lock"), "another").unwrap();
        assert!(presence.is_gone(), "one of the same name is another");
    }

    #[test]
    fn a_moved_file_is_gone_unless_it_comes_back() {
        let place = tempfile::tempdir().unwrap();
        let (folder, elsewhere) = (place.path().join("data"), place.path().join("elsewhere"));
        let mut presence = presence(&folder);
        fs::rename(&folder, &elsewhere).unwrap();
        assert!(!presence.is_gone(), "perhaps it comes back");
        fs::rename(&elsewhere, &folder).unwrap();
        assert!((0..MISSES_MAX).all(|_| !presence.is_gone()), "it did");
        fs::rename(&folder, &elsewhere).unwrap();
        let looks: Vec<bool> = (0..MISSES_MAX).map(|_| presence.is_gone()).collect();
        assert_eq!(looks, [false, false, true]);
    }

    #[test]
    fn a_disk_that_does_not_answer_says_nothing() {
        let place = tempfile::tempdir().unwrap();
        let mut presence = presence(&place.path().join("data"));
        // The kernel's answer is that this name is too long.
        presence.path = place.path().join("x".repeat(300));
        assert_eq!(presence.look(), FileState::Unknown);
        assert!((0..2 * MISSES_MAX).all(|_| !presence.is_gone()));
    }
}
