//! What is known of one attempt of a container, on disk. Written by the supervisor, read by everybody.
//!
//! A record is made before the process is: an attempt that has one is never started again. Its end can be written on a
//! full disk too ([`super::spare`]); where a disk fails altogether, [`Unwritten`] keeps it until it can be written.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use fs_err as fs;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{folder::PodFolder, spare};

/// One attempt of a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub version: u32,
    pub attempt: u32,
    pub asked_at: Timestamp,
    pub started_at: Option<Timestamp>,
    /// The container's first process.
    pub pid: Option<u32>,
    pub end: Option<End>,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    pub at: Timestamp,
    pub code: i32,
    pub signal: Option<i32>,
    pub out_of_memory: bool,
    /// It never ran; why.
    pub failed: Option<String>,
    /// Nobody saw the end: the supervisor was gone.
    pub lost: bool,
}

impl End {
    /// The end of a container whose supervisor died, and it with it.
    pub fn lost(at: Timestamp) -> Self {
        Self { at, code: 137, signal: Some(9), out_of_memory: false, failed: None, lost: true }
    }
}

/// The version of the format.
pub const VERSION: u32 = 1;

impl Record {
    pub fn new(attempt: u32, asked_at: Timestamp) -> Self {
        Self { version: VERSION, attempt, asked_at, started_at: None, pid: None, end: None }
    }

    /// Writes the record in one step: a reader sees the old one or the new one.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        spare::write(path, self)
    }

    /// Writes the first record of an attempt.
    ///
    /// # Errors
    /// If there is one already, or it cannot be written.
    pub fn create(&self, path: &Path) -> io::Result<()> {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        spare::create(path, self)
    }

    pub fn read(path: &Path) -> io::Result<Self> {
        serde_json::from_slice(&fs::read(path)?).map_err(io::Error::other)
    }
}

/// Records that the disk has not taken yet, by path.
#[derive(Debug, Default)]
pub struct Unwritten(BTreeMap<PathBuf, Record>);

impl Unwritten {
    /// Writes a record, or keeps it to be written later.
    pub fn write(&mut self, path: &Path, record: &Record) -> io::Result<()> {
        match record.write(path) {
            Ok(()) => {
                self.0.remove(path);
                Ok(())
            }
            Err(error) => {
                self.0.insert(path.to_owned(), record.clone());
                Err(error)
            }
        }
    }

    /// Tries to write what is kept; returns whether any of it is written now.
    pub fn retry(&mut self) -> bool {
        let before = self.0.len();
        self.0.retain(|path, record| record.write(path).is_err());
        self.0.len() < before
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Reads all attempts of all containers of a pod, oldest first.
///
/// A record that cannot be read, say after a crash of the machine, counts as one that never started.
pub fn read_all(folder: &PodFolder) -> io::Result<BTreeMap<String, Vec<Record>>> {
    let mut found = BTreeMap::new();
    for container in entries(&folder.containers())? {
        let mut attempts: Vec<u32> =
            entries(&folder.container(&container))?.iter().filter_map(|name| name.parse().ok()).collect();
        attempts.sort_unstable();
        let records = attempts.into_iter().map(|attempt| {
            Record::read(&folder.record(&container, attempt)).unwrap_or(Record::new(attempt, Timestamp::UNIX_EPOCH))
        });
        found.insert(container.clone(), records.collect());
    }
    Ok(found)
}

fn entries(path: &Path) -> io::Result<Vec<String>> {
    match fs::read_dir(path) {
        Ok(entries) => entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}
