//! Reads a container's log for the API: the part that is asked for, in the form that is asked for, and on as it grows.
//!
//! Nothing is read before it can be sent: whoever takes the stream sets the pace. Files are followed by what they are,
//! not by their names, so that none is missed or read twice when the writer makes them older.

use std::{
    collections::VecDeque,
    io::{self, Read as _, Seek as _, SeekFrom},
    mem,
    os::unix::fs::MetadataExt as _,
    path::PathBuf,
    time::Duration,
};

use bytes::Bytes;
use fs_err::File;
use futures::{Stream, stream};
use ronde_apiserver::nodes::{LogOptions, LogStream};
use tokio::{sync::watch, time::sleep};

use super::{
    FILES_MAX, file_path,
    record::{Output, Record},
    tail,
};

/// How much of a file is read, and about how much is sent, at once.
const BLOCK_BYTES: usize = 128 << 10;
/// A line longer than this is not ours; the rest of it is skipped.
const RECORD_BYTES_MAX: usize = 64 << 10;
/// How often a quiet log is looked at: soon after something was there, then less and less often.
const LOOK_MIN: Duration = Duration::from_millis(10);
const LOOK_MAX: Duration = Duration::from_millis(200);

/// Which log is to be read.
#[derive(Debug, Clone)]
pub struct LogSource {
    pub folder: PathBuf,
    pub attempt: u32,
    /// Becomes true (or is dropped) when the container's run has ended and all it said is in the files.
    pub ended: watch::Receiver<bool>,
}

/// Returns the log as it is to be sent; a log that does not exist is empty.
pub fn read(source: LogSource, options: LogOptions) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    let LogSource { folder, attempt, ended } = source;
    let reader = LogReader::new(folder, attempt, options);
    stream::try_unfold((reader, ended), |(reader, ended)| async { next(reader, ended).await })
}

type Step = Option<(Bytes, (LogReader, watch::Receiver<bool>))>;

/// Reads on until there is something to send; none when the log has ended.
async fn next(mut reader: LogReader, mut ended: watch::Receiver<bool>) -> io::Result<Step> {
    let mut pause = LOOK_MIN;
    loop {
        // Asked before reading: what is written before the end is then read for sure.
        let is_last = !reader.options.follow || *ended.borrow() || ended.has_changed().is_err();
        let (back, read) = tokio::task::spawn_blocking(move || {
            let read = reader.read_some(is_last);
            (reader, read)
        })
        .await
        .map_err(io::Error::other)?;
        reader = back;
        match read? {
            Read::Some(bytes) => return Ok(Some((bytes, (reader, ended)))),
            Read::End => return Ok(None),
            Read::Nothing if is_last => {}
            Read::Nothing => {
                tokio::select! {
                    () = sleep(pause) => pause = (pause * 2).min(LOOK_MAX),
                    _ = ended.changed() => {}
                }
            }
        }
    }
}

/// What one look at a log brings.
#[derive(Debug, PartialEq, Eq)]
enum Read {
    Some(Bytes),
    /// Nothing to send now.
    Nothing,
    /// Nothing, ever.
    End,
}

/// A place in a log; blocking, and without a clock.
struct LogReader {
    folder: PathBuf,
    attempt: u32,
    options: LogOptions,
    /// The file being read, and those after it; empty until there is one.
    files: VecDeque<File>,
    /// A record whose end has not been read.
    partial: Vec<u8>,
    /// Whether the next text of each output begins a line.
    begins: [bool; 2],
    /// How many bytes may still be sent.
    left: u64,
    /// How many bytes may still be read: who does not follow a log gets what was in it at the beginning.
    unread: u64,
}

impl LogReader {
    fn new(folder: PathBuf, attempt: u32, options: LogOptions) -> Self {
        let left = options.limit_bytes.unwrap_or(u64::MAX);
        let (files, partial, begins) = (VecDeque::new(), Vec::new(), [true; 2]);
        Self { folder, attempt, options, files, partial, begins, left, unread: u64::MAX }
    }

    /// Reads on; `is_last` says that what is there now is all there will be.
    fn read_some(&mut self, is_last: bool) -> io::Result<Read> {
        if self.files.is_empty() {
            self.open()?;
        }
        let mut block = vec![0; BLOCK_BYTES];
        let mut out = Vec::new();
        while out.is_empty() && self.left > 0 {
            let Some(file) = self.files.front_mut() else { break };
            let count = file.take(self.unread).read(&mut block)?;
            self.unread -= count as u64;
            self.take_block(&block[..count], &mut out);
            if count == 0 && !self.next_file(&mut out)? {
                if is_last {
                    self.end_record(&mut out);
                }
                break;
            }
        }
        Ok(match (out.is_empty(), is_last || self.left == 0) {
            (false, _) => Read::Some(out.into()),
            (true, true) => Read::End,
            (true, false) => Read::Nothing,
        })
    }

    /// Opens all files, and goes to where the lines begin that are asked for.
    fn open(&mut self) -> io::Result<()> {
        let mut files = self.files_after(None)?;
        let mut ends = files.iter().map(|file| Ok(file.metadata()?.len())).collect::<io::Result<Vec<_>>>()?;
        if let Some(lines) = self.options.tail_lines.filter(|_| !files.is_empty()) {
            let (index, at) = tail::find_start(files.make_contiguous(), &ends, lines)?;
            files.drain(..index);
            ends.drain(..index);
            files[0].seek(SeekFrom::Start(at))?;
            ends[0] -= at;
        }
        if !self.options.follow {
            self.unread = ends.iter().sum();
        }
        self.files = files;
        Ok(())
    }

    /// Goes on to the file after this one, if there is one; this one is then read once more, for what came last.
    fn next_file(&mut self, out: &mut Vec<u8>) -> io::Result<bool> {
        if self.files.len() == 1 && self.options.follow {
            let newer = self.files_after(Some(inode(&self.files[0])?))?;
            self.files.extend(newer);
            return Ok(self.files.len() > 1);
        }
        let has_next = self.files.len() > 1;
        if has_next {
            self.end_record(out);
            self.files.pop_front();
        }
        Ok(has_next)
    }

    /// Opens the files that are newer than one, oldest first.
    ///
    /// The newest is opened first: should the writer make them all older meanwhile, one is met twice, none missed.
    fn files_after(&self, last: Option<u64>) -> io::Result<VecDeque<File>> {
        let mut found: VecDeque<(u64, File)> = VecDeque::new();
        for age in 0..FILES_MAX {
            let file = match File::open(file_path(&self.folder, self.attempt, age)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                opened => opened?,
            };
            let inode = inode(&file)?;
            if last == Some(inode) {
                break;
            }
            if found.iter().all(|(known, _)| *known != inode) {
                found.push_front((inode, file));
            }
        }
        Ok(found.into_iter().map(|(_, file)| file).collect())
    }

    /// Takes a block of a file apart into records.
    fn take_block(&mut self, block: &[u8], out: &mut Vec<u8>) {
        out.reserve(block.len());
        for line in block.split_inclusive(|byte| *byte == b'\n') {
            match (line.strip_suffix(b"\n"), self.partial.is_empty()) {
                (Some(whole), true) => self.show(whole, out),
                (Some(rest), false) => {
                    self.partial.extend_from_slice(rest);
                    self.end_record(out);
                }
                (None, _) if self.partial.len() + line.len() > RECORD_BYTES_MAX => self.partial.clear(),
                (None, _) => self.partial.extend_from_slice(line),
            }
        }
    }

    fn end_record(&mut self, out: &mut Vec<u8>) {
        let record = mem::take(&mut self.partial);
        self.show(&record, out);
    }

    /// Appends a record as it is to be sent; nothing if it is not asked for, or not a record.
    fn show(&mut self, line: &[u8], out: &mut Vec<u8>) {
        let Some(record) = Record::parse(line) else { return };
        let is_wanted = match self.options.stream {
            LogStream::All => true,
            LogStream::Stdout => record.output == Output::Stdout,
            LogStream::Stderr => record.output == Output::Stderr,
        };
        if !is_wanted || self.options.since.is_some_and(|since| !record.is_since(since)) {
            return;
        }
        let before = out.len();
        let begins = mem::replace(&mut self.begins[record.output as usize], record.is_end);
        if self.options.timestamps && begins {
            out.extend_from_slice(record.time.as_bytes());
            out.push(b' ');
        }
        out.extend_from_slice(record.text);
        if record.is_end {
            out.push(b'\n');
        }
        let room = usize::try_from(self.left).unwrap_or(usize::MAX);
        out.truncate(before.saturating_add(room));
        self.left -= (out.len() - before) as u64;
    }
}

fn inode(file: &File) -> io::Result<u64> {
    Ok(file.metadata()?.ino())
}

#[cfg(test)]
mod tests;
