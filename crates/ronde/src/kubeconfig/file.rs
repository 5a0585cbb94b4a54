//! Reads and replaces a kubeconfig on disk: locked as kubectl locks it, written whole or not at all.
//!
//! The file keeps its owner; its mode becomes 0600, as clients expect of a kubeconfig. A symbolic link stays one: its
//! target is replaced. Knows nothing of what is in the file.

use std::{
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use fs_err::{self as fs, os::unix::fs::OpenOptionsExt as _};
use rustix::fs::{Access, FlockOperation, Gid, Uid, access, fchown, flock};

/// kubectl holds its lock for milliseconds; ten seconds leave room for a slow disk.
const LOCK_ATTEMPTS: u32 = 500;
const LOCK_PAUSE: Duration = Duration::from_millis(20);
/// What is in a lock file of ours; kubectl's is empty.
const LOCK_MARK: &[u8] = b"ronde\n";
/// Far above any kubeconfig; a guard against a path that names something else.
const SIZE_MAX: u64 = 16 * 1024 * 1024;

/// Why a kubeconfig could not be read or replaced.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("cannot read it")]
    Read { source: io::Error },
    #[error("it is larger than {} MiB", SIZE_MAX / 1024 / 1024)]
    TooLarge,
    #[error("it is not a regular file")]
    Irregular,
    #[error("it is not UTF-8 text")]
    Encoding,
    #[error("cannot write it")]
    Write { source: io::Error },
    #[error("another program is changing it: the lock file {lock} exists")]
    Locked { lock: PathBuf },
}

/// A kubeconfig that only we change until this is dropped.
#[derive(Debug)]
pub struct LockedFile {
    target: PathBuf,
    lock: PathBuf,
    /// The kernel gives the lock on it back when we die, however.
    _held: fs::File,
}

/// Returns the text of a kubeconfig; a missing file is an empty one.
pub fn read(path: &Path) -> Result<String, FileError> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        Err(source) => return Err(FileError::Read { source }),
    };
    if !metadata.is_file() {
        return Err(FileError::Irregular);
    }
    if metadata.len() > SIZE_MAX {
        return Err(FileError::TooLarge);
    }
    let bytes = fs::read(path).map_err(|source| FileError::Read { source })?;
    String::from_utf8(bytes).map_err(|_| FileError::Encoding)
}

/// Finds out, without changing anything, whether the file could be replaced.
pub fn check_writable(path: &Path) -> Result<(), FileError> {
    let target = resolve_link(path);
    let directory = existing_ancestor(&target);
    access(directory, Access::WRITE_OK | Access::EXEC_OK)
        .map_err(|errno| FileError::Write { source: with_path(&errno.into(), directory) })
}

impl LockedFile {
    /// Takes the lock, waiting for another program for a bounded time. Creates the directory when it is missing.
    pub fn lock(path: &Path) -> Result<Self, FileError> {
        let target = resolve_link(path);
        let directory = target.parent().unwrap_or(Path::new("/"));
        if !directory.is_dir() {
            create_private_dir(directory).map_err(|source| FileError::Write { source })?;
        }
        let lock = lock_path(&target);
        for _ in 0..LOCK_ATTEMPTS {
            if let Some(held) = take(&lock).map_err(|source| FileError::Write { source })? {
                return Ok(Self { target, lock, _held: held });
            }
            thread::sleep(LOCK_PAUSE);
        }
        Err(FileError::Locked { lock })
    }

    pub fn read(&self) -> Result<String, FileError> {
        read(&self.target)
    }

    /// Replaces the file in one step; says whether its mode was wider before.
    pub fn replace(&self, text: &str) -> Result<Tightened, FileError> {
        let before = fs::metadata(&self.target).ok();
        write_whole(&self.target, text).map_err(|source| FileError::Write { source })?;
        let mode = before.map_or(0o600, |metadata| metadata.permissions().mode() & 0o777);
        Ok(if mode & 0o077 == 0 { Tightened::No } else { Tightened::From(mode) })
    }

    pub fn delete(&self) -> Result<(), FileError> {
        fs::remove_file(&self.target).map_err(|source| FileError::Write { source })
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // The next one who wants the lock names the file if this fails.
        let _ = fs::remove_file(&self.lock);
    }
}

/// Whether writing made a file private that others could read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tightened {
    No,
    From(u32),
}

/// Replaces a file, or makes a new one, in one step: whoever reads it sees the old or the new text. Mode 0600.
pub fn write_whole(target: &Path, text: &str) -> io::Result<()> {
    let new = PathBuf::from(format!("{}.ronde-{}", target.display(), std::process::id()));
    // A crashed process with our id may have left one behind.
    let _ = fs::remove_file(&new);
    let written = write_new(&new, text, target).and_then(|()| fs::rename(&new, target));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written?;
    fs::File::open(target.parent().unwrap_or(Path::new("/")))?.sync_all()
}

fn write_new(new: &Path, text: &str, target: &Path) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(new)?;
    if let Ok(before) = fs::metadata(target) {
        keep_owner(&file, &before)?;
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Creates a directory and its missing parents for the user alone.
fn create_private_dir(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Makes the lock file, or takes over that of a ronde that was killed; nothing if somebody holds it.
fn take(lock: &Path) -> io::Result<Option<fs::File>> {
    match fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(lock) {
        Ok(mut file) => {
            // Before the mark: who sees the mark and gets the kernel's lock knows that we are dead.
            flock(&file, FlockOperation::NonBlockingLockExclusive)?;
            file.write_all(LOCK_MARK)?;
            Ok(Some(file))
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(take_over(lock)),
        Err(error) => Err(error),
    }
}

fn take_over(lock: &Path) -> Option<fs::File> {
    let file = fs::File::open(lock).ok()?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    let is_ours = fs::read(lock).is_ok_and(|mark| mark == LOCK_MARK);
    // Its holder may have removed it since we opened it.
    let is_there = fs::metadata(lock).ok()?.ino() == file.metadata().ok()?.ino();
    (is_ours && is_there).then_some(file)
}

fn lock_path(target: &Path) -> PathBuf {
    let mut name = target.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}

/// Follows symbolic links, also to a target that does not exist yet.
fn resolve_link(path: &Path) -> PathBuf {
    if let Ok(found) = fs::canonicalize(path) {
        return found;
    }
    match fs::read_link(path) {
        Ok(target) => path.parent().unwrap_or(Path::new("/")).join(target),
        Err(_) => path.to_owned(),
    }
}

fn existing_ancestor(path: &Path) -> &Path {
    path.ancestors().skip(1).find(|ancestor| ancestor.is_dir()).unwrap_or(Path::new("/"))
}

/// Gives the new file the owner of the old one: root may edit a user's kubeconfig.
fn keep_owner(file: &fs::File, before: &std::fs::Metadata) -> io::Result<()> {
    let own = file.metadata()?;
    if (own.uid(), own.gid()) == (before.uid(), before.gid()) {
        return Ok(());
    }
    fchown(file, Some(Uid::from_raw(before.uid())), Some(Gid::from_raw(before.gid()))).map_err(io::Error::from)
}

fn with_path(error: &io::Error, path: &Path) -> io::Error {
    io::Error::new(error.kind(), format!("no permission to write into {}", path.display()))
}
