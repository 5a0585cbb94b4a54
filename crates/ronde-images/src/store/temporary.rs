//! Unfinished things: each has a name of its own in `tmp`, and goes if it is not finished.

use std::{
    io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use fs_err as fs;

/// Counts in this process, whatever the number of stores and threads.
static MADE: AtomicU64 = AtomicU64::new(0);

/// Something unfinished. Removed when dropped, unless it got its name before.
#[derive(Debug)]
pub struct Temporary {
    path: PathBuf,
}

impl Temporary {
    /// Makes a folder for something unfinished.
    pub fn folder(tmp: &Path) -> io::Result<Self> {
        Self::make(tmp, |path| fs::create_dir(path)).map(|(made, ())| made)
    }

    /// Makes a file for something unfinished.
    pub fn file(tmp: &Path) -> io::Result<(Self, fs::File)> {
        Self::make(tmp, |path| fs::File::create_new(path))
    }

    /// Returns a name that nobody has, to move something there before it is removed.
    pub fn moved(tmp: &Path, from: &Path) -> io::Result<Self> {
        Self::make(
            tmp,
            |path| if path.exists() { Err(io::ErrorKind::AlreadyExists.into()) } else { fs::rename(from, path) },
        )
        .map(|(made, ())| made)
    }

    /// Process ids are of a namespace, so another process may have taken the name.
    fn make<T>(tmp: &Path, create: impl Fn(&Path) -> io::Result<T>) -> io::Result<(Self, T)> {
        loop {
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            let path = tmp.join(format!("{}-{number}", std::process::id()));
            match create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                other => return other.map(|made| (Self { path }, made)),
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives it its name.
    pub fn rename(self, place: &Path) -> io::Result<()> {
        fs::rename(&self.path, place)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // What cannot be removed now is swept later; a file is no folder.
        if fs::remove_file(&self.path).is_err() {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Removes a folder with everything in it, if it is there.
pub fn remove_folder(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Makes names in a folder last.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    fs::File::open(folder)?.sync_all()
}
