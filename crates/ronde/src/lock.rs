//! Who uses a data directory: a lock that one process holds, and what it says about itself.
//!
//! The lock is a POSIX record lock on the file `lock`. The kernel drops it when the process ends, however that
//! happens, so a file left behind is no obstacle; and unlike `flock` it can be asked, without taking it, for the
//! process that holds it. Its trap: closing *any* handle of the file releases it, so within one process
//! nothing but [`Lock`] may open the file of its own data directory.

use std::{
    io,
    net::SocketAddr,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use fs_err::{
    self as fs,
    os::unix::fs::{FileExt as _, OpenOptionsExt as _},
};
use jiff::Timestamp;
use rustix::{
    fs::{FlockOperation, fcntl_lock},
    io::Errno,
    process::{Flock, FlockType, Pid, fcntl_getlk},
};
use serde::{Deserialize, Serialize};

use crate::failure::{Blame, Failure};

const FILE: &str = "lock";
/// One write of a fixed length replaces the whole text: a reader never sees half of it.
const TEXT_LENGTH: usize = 256;

/// The use of a data directory by this process, until dropped.
#[derive(Debug)]
pub struct Lock {
    file: fs::File,
}

/// The process that uses a data directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// `None` when the process lives in another process namespace, such as a container.
    pub pid: Option<Pid>,
    /// `None` in the moment between taking the lock and writing about it.
    pub about: Option<About>,
}

/// What an instance says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct About {
    pub pid: u32,
    pub started: Timestamp,
    /// Absent until the API is open.
    pub endpoint: Option<SocketAddr>,
    pub version: String,
}

/// Why the lock could not be taken or asked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("the data directory {data_dir} is in use by {holder}")]
    Held { data_dir: PathBuf, holder: Box<Holder> },
    #[error("cannot lock the data directory {data_dir}")]
    Io { data_dir: PathBuf, source: io::Error },
}

impl Failure for LockError {
    fn blame(&self) -> Blame {
        match self {
            Self::Held { .. } => Blame::User,
            Self::Io { .. } => Blame::Environment,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Held { data_dir, .. } => Some(format!(
                "stop it with `ronde down --data-dir {0}`, or start a second one with another `--data-dir` and `--listen`",
                data_dir.display()
            )),
            Self::Io { .. } => Some("choose another place with `--data-dir DIR`".to_owned()),
        }
    }
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.pid {
            Some(pid) => write!(f, "process {}", pid.as_raw_nonzero())?,
            None => write!(f, "a process in another container")?,
        }
        let Some(about) = &self.about else { return Ok(()) };
        write!(f, ", running since {}", about.started.strftime("%Y-%m-%d %H:%M:%S UTC"))?;
        match about.endpoint {
            Some(endpoint) => write!(f, " on https://{endpoint}"),
            None => Ok(()),
        }
    }
}

impl Lock {
    /// Takes the lock, or says who has it.
    pub fn take(data_dir: &Path, about: &About) -> Result<Self, LockError> {
        let fail = |source| LockError::Io { data_dir: data_dir.to_owned(), source };
        let path = data_dir.join(FILE);
        loop {
            let file = fs::OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(&path)
                .map_err(fail)?;
            match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::AGAIN | Errno::ACCESS) => match ask(&file).map_err(fail)? {
                    Some(holder) => {
                        return Err(LockError::Held { data_dir: data_dir.to_owned(), holder: Box::new(holder) });
                    }
                    // It was released in between.
                    None => continue,
                },
                Err(errno) => return Err(fail(errno.into())),
            }
            // `ronde down --delete-data` may have removed the file while we waited for it.
            if is_same_file(&file, &path) {
                let lock = Self { file };
                lock.describe(about).map_err(fail)?;
                return Ok(lock);
            }
        }
    }

    /// Replaces what this instance says about itself.
    pub fn describe(&self, about: &About) -> io::Result<()> {
        let mut text = serde_json::to_vec(about)?;
        text.resize(TEXT_LENGTH.max(text.len() + 1) - 1, b' ');
        text.push(b'\n');
        self.file.write_all_at(&text, 0)
    }
}

/// Returns who uses a data directory, without disturbing a process that is about to take it.
pub fn holder(data_dir: &Path) -> Result<Option<Holder>, LockError> {
    let file = match fs::File::open(data_dir.join(FILE)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(LockError::Io { data_dir: data_dir.to_owned(), source }),
    };
    ask(&file).map_err(|source| LockError::Io { data_dir: data_dir.to_owned(), source })
}

fn ask(file: &fs::File) -> io::Result<Option<Holder>> {
    let wanted = Flock::from(FlockType::WriteLock);
    let Some(held) = fcntl_getlk(file, &wanted)? else { return Ok(None) };
    Ok(Some(Holder { pid: held.pid, about: read_about(file) }))
}

fn read_about(file: &fs::File) -> Option<About> {
    let mut text = [0; 2 * TEXT_LENGTH];
    let length = file.read_at(&mut text, 0).ok()?;
    serde_json::from_slice(&text[..length]).ok()
}

fn is_same_file(file: &fs::File, path: &Path) -> bool {
    let Ok(there) = fs::metadata(path) else { return false };
    file.metadata().is_ok_and(|own| (own.dev(), own.ino()) == (there.dev(), there.ino()))
}
