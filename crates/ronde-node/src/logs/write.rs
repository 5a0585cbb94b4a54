//! Writes what a container says into its log files. Called by the supervisor of a pod; knows no async.
//!
//! Each chunk that is read from a container becomes one write. Lines are kept whole: the open end of a chunk waits for
//! the rest of its line, up to [`PART_BYTES_MAX`]. A disk that takes nothing costs lines, never the container: they are
//! counted, and the log says so as soon as it can be written again.

use std::{
    fs::File,
    io::{self, Write as _},
    mem,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use fs_err::{OpenOptions, os::unix::fs::OpenOptionsExt as _};
use jiff::Timestamp;
use memchr::memchr;

use super::{
    FILE_BYTES_MAX, FILES_MAX, file_path,
    record::{Output, stamp},
};

/// Longer lines are written in parts, as container runtimes do.
const PART_BYTES_MAX: usize = 16 << 10;

/// The log of one run of a container.
pub struct LogWriter {
    folder: PathBuf,
    attempt: u32,
    limits: Limits,
    file: Option<Open>,
    /// What has been said on each output since its last line feed.
    unended: [Vec<u8>; 2],
    /// Records that are ready to be written.
    batch: Vec<u8>,
    lost: Lost,
}

struct Open {
    /// Not fs_err's: its errors name a path that is none of the container's business.
    file: File,
    bytes: u64,
}

#[derive(Clone, Copy)]
struct Limits {
    file_bytes: u64,
    files: u32,
}

/// What could not be written, until the log says so.
#[derive(Default)]
struct Lost {
    records: u64,
    why: Option<io::Error>,
    /// Whether the batch begins with a record that says so.
    is_reported: bool,
}

impl LogWriter {
    /// Starts the log of a run, or goes on with it, and removes those of runs before the previous one.
    ///
    /// A folder that cannot be written to yet is tried again with every chunk.
    pub fn new(folder: &Path, attempt: u32) -> Self {
        let mut log = Self {
            folder: folder.to_owned(),
            attempt,
            limits: Limits { file_bytes: FILE_BYTES_MAX, files: FILES_MAX },
            file: None,
            unended: [Vec::new(), Vec::new()],
            batch: Vec::new(),
            lost: Lost::default(),
        };
        let _ = log.open();
        remove_old(folder, attempt);
        log
    }

    /// Takes what the container wrote to one of its outputs.
    pub fn write(&mut self, output: Output, chunk: &[u8], now: Timestamp) {
        let stamp = self.begin(now);
        let mut unended = mem::take(&mut self.unended[output as usize]);
        let mut chunk = chunk;
        while !chunk.is_empty() {
            let end = memchr(b'\n', chunk);
            let (is_end, mut text) = (end.is_some(), &chunk[..end.unwrap_or(chunk.len())]);
            chunk = &chunk[end.map_or(chunk.len(), |end| end + 1)..];
            while unended.len() + text.len() > PART_BYTES_MAX {
                let (part, rest) = text.split_at(PART_BYTES_MAX - unended.len());
                self.push(&stamp, output.tag(false), &[&unended, part]);
                unended.clear();
                text = rest;
            }
            if is_end {
                self.push(&stamp, output.tag(true), &[&unended, text]);
                unended.clear();
            } else {
                unended.extend_from_slice(text);
            }
        }
        self.unended[output as usize] = unended;
        self.flush();
    }

    /// Writes what is left of unended lines: the container has ended.
    pub fn finish(mut self, now: Timestamp) {
        let stamp = self.begin(now);
        for output in [Output::Stdout, Output::Stderr] {
            let rest = mem::take(&mut self.unended[output as usize]);
            if !rest.is_empty() {
                self.push(&stamp, output.tag(false), &[&rest]);
            }
        }
        self.flush();
    }

    /// Returns the time for the records of this batch, of which a report of losses is the first.
    fn begin(&mut self, now: Timestamp) -> String {
        let stamp = stamp(now);
        if let Some(why) = &self.lost.why {
            let note = format!("[{} lines of this log are missing: {why}]", self.lost.records);
            self.push(&stamp, Output::Stderr.tag(true), &[note.as_bytes()]);
            self.lost.is_reported = true;
        }
        stamp
    }

    fn push(&mut self, stamp: &str, tag: &[u8], text: &[&[u8]]) {
        let bytes = stamp.len() + tag.len() + text.iter().map(|part| part.len()).sum::<usize>() + 1;
        let file_bytes = self.file.as_ref().map_or(0, |open| open.bytes);
        if file_bytes + (self.batch.len() + bytes) as u64 > self.limits.file_bytes {
            self.flush();
            self.rotate();
        }
        self.batch.reserve(bytes);
        self.batch.extend_from_slice(stamp.as_bytes());
        self.batch.extend_from_slice(tag);
        text.iter().for_each(|part| self.batch.extend_from_slice(part));
        self.batch.push(b'\n');
    }

    fn flush(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        if let Err((why, written)) = self.append() {
            self.file = None;
            self.lost.add(&self.batch, written, why);
        } else if self.lost.is_reported {
            self.lost = Lost::default();
        }
        self.batch.clear();
    }

    fn append(&mut self) -> Result<(), (io::Error, usize)> {
        let batch = mem::take(&mut self.batch);
        let appended = self.open().and_then(|open| open.append(&batch));
        self.batch = batch;
        appended
    }

    fn open(&mut self) -> Result<&mut Open, (io::Error, usize)> {
        if self.file.is_none() {
            let path = file_path(&self.folder, self.attempt, 0);
            let file = OpenOptions::new().create(true).append(true).mode(0o640).open(path);
            let opened = file.and_then(|file| Ok(Open { bytes: file.metadata()?.size(), file: file.into_parts().0 }));
            self.file = Some(opened.map_err(|why| (why, 0))?);
        }
        Ok(self.file.as_mut().expect("it was opened above"))
    }

    /// Makes every file one older; where that fails, the newest goes on growing and the next record tries again.
    fn rotate(&mut self) {
        let path = |age| file_path(&self.folder, self.attempt, age);
        let oldest = self.limits.files - 1;
        let unless_missing = |done: io::Result<()>| match done {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
        // Deleted first: a rename over a file makes ext4 write the renamed one to the disk at once.
        let deleted = unless_missing(fs_err::remove_file(path(oldest)));
        let mut ages = (0..oldest).rev();
        let moved =
            deleted.and_then(|()| ages.try_for_each(|age| unless_missing(fs_err::rename(path(age), path(age + 1)))));
        if moved.is_ok() {
            self.file = None;
        }
    }
}

impl Open {
    /// Writes a batch of records; on failure says how much of it is there, in whole records.
    fn append(&mut self, batch: &[u8]) -> Result<(), (io::Error, usize)> {
        let mut written = 0;
        while written < batch.len() {
            match self.file.write(&batch[written..]) {
                Ok(0) => return Err((io::ErrorKind::WriteZero.into(), self.cut_back(&batch[..written]))),
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err((error, self.cut_back(&batch[..written]))),
            }
        }
        self.bytes += batch.len() as u64;
        Ok(())
    }

    /// Takes a torn record back out of the file; returns what is left of this batch.
    fn cut_back(&mut self, written: &[u8]) -> usize {
        let whole = written.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        self.bytes += whole as u64;
        // If even this fails, a reader sees one line of garbage.
        let _ = self.file.set_len(self.bytes);
        whole
    }
}

impl Lost {
    /// Counts what of a batch is not in the file.
    fn add(&mut self, batch: &[u8], written: usize, why: io::Error) {
        let missing = batch[written..].split_inclusive(|byte| *byte == b'\n').count() as u64;
        match (mem::take(&mut self.is_reported), written) {
            // The report itself is no line of the container.
            (true, 0) => self.records += missing - 1,
            (true, _) => self.records = missing,
            (false, _) => self.records += missing,
        }
        self.why = Some(why);
    }
}

/// Removes what no one can ask for any more: `previous` goes back by one run only.
fn remove_old(folder: &Path, attempt: u32) {
    let attempt_of = |name: &str| name.split_once(".log").and_then(|(number, _)| number.parse::<u32>().ok());
    let Ok(entries) = fs_err::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let old = attempt_of(&entry.file_name().to_string_lossy()).is_some_and(|number| number + 1 < attempt);
        if old {
            let _ = fs_err::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests;
