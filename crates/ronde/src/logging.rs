//! Log lines: to stderr in the foreground, to `ronde.log` in the background. `RONDE_LOG` chooses what is logged.
//! Messages are constant; what varies is in the fields, which the format JSON keeps apart.
//!
//! The log of the background is bounded: it starts anew with every start and whenever it is full; a few old ones
//! are kept beside it. A disk that is full costs lines, never more: some have their blocks ahead, so that the log can say
//! that it is; what is lost is counted and told when there is room.

use std::{
    fmt,
    io::{self, IsTerminal as _, Write},
    path::{Path, PathBuf},
    sync::Mutex,
};

use fs_err::{self as fs, os::unix::fs::OpenOptionsExt as _};
use rustix::fs::{FallocateFlags, fallocate};
use tracing_subscriber::{
    EnvFilter,
    fmt::{format::Writer, time::FormatTime},
};

use crate::{
    args::LogFormat,
    environment::{self, Environment},
};

/// What goes wrong between a client and the API is said by those who asked, in their words.
const DEFAULT_FILTER: &str = "info,kube_client=off";
/// Weeks of a quiet instance, or the last minutes of a very noisy one.
const LOG_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Blocks that the log has ahead of what is written: some hundred lines.
const AHEAD_BYTES: u64 = 64 * 1024;
/// `ronde.log.1` to `ronde.log.3`.
const OLD_LOGS: u32 = 3;

/// Starts logging to stderr for this process, in a format.
pub fn start_in(environment: &Environment, format: LogFormat) -> io::Result<()> {
    if format == LogFormat::Text {
        return start(environment, None);
    }
    let lines = tracing_subscriber::fmt().with_env_filter(filter(environment)).with_timer(Seconds);
    lines.log_internal_errors(false).json().flatten_event(true).with_writer(io::stderr).init();
    Ok(())
}

fn filter(environment: &Environment) -> EnvFilter {
    let filter = environment.log_filter.as_deref().unwrap_or(DEFAULT_FILTER);
    EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER))
}

/// Starts logging for this process, to a file if one is named.
pub fn start(environment: &Environment, file: Option<&Path>) -> io::Result<()> {
    let filter = filter(environment);
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_target(false).with_timer(Seconds);
    // It would tell of a line that cannot be written on stderr, and panic if it cannot do that either.
    let lines = lines.log_internal_errors(false);
    match file {
        Some(path) => lines.with_ansi(false).with_writer(Mutex::new(LogFile::start(path)?)).init(),
        None => {
            let colour = io::stderr().is_terminal() && !environment.no_color;
            lines.with_ansi(colour).with_writer(io::stderr).init();
        }
    }
    Ok(())
}

struct Seconds;

impl FormatTime for Seconds {
    fn format_time(&self, w: &mut Writer<'_>) -> fmt::Result {
        write!(w, "{}", environment::now().strftime("%Y-%m-%dT%H:%M:%SZ"))
    }
}

/// A log that is never longer than its limit.
struct LogFile {
    path: PathBuf,
    file: fs::File,
    written: u64,
    /// Up to where it has its blocks.
    backed: u64,
    /// Lines that the disk did not take.
    lost: u64,
}

impl LogFile {
    fn start(path: &Path) -> io::Result<Self> {
        keep_old(path)?;
        let file = fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        let mut log = Self { path: path.to_owned(), file, written: 0, backed: 0, lost: 0 };
        log.back();
        Ok(log)
    }

    /// Gives the next lines their blocks, where the file system knows how.
    fn back(&mut self) {
        let ahead = self.written + AHEAD_BYTES;
        if fallocate(&self.file, FallocateFlags::KEEP_SIZE, 0, ahead).is_ok() {
            self.backed = ahead;
        }
    }

    /// Writes a line, after a word about those that are missing.
    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        if self.written > LOG_BYTES_MAX {
            *self = Self { lost: self.lost, ..Self::start(&self.path)? };
        }
        if self.written + AHEAD_BYTES / 2 >= self.backed {
            self.back();
        }
        if self.lost > 0 {
            self.file.write_all(format!("[{} lines are missing: the disk took none]\n", self.lost).as_bytes())?;
            self.lost = 0;
        }
        self.file.write_all(line)?;
        self.written += line.len() as u64;
        Ok(())
    }
}

impl Write for LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.append(bytes).is_err() {
            self.lost += 1;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Renames `ronde.log` to `ronde.log.1`, that to `ronde.log.2`, and so on; the oldest is overwritten.
fn keep_old(path: &Path) -> io::Result<()> {
    let name = |age: u32| match age {
        0 => path.to_owned(),
        _ => PathBuf::from(format!("{}.{age}", path.display())),
    };
    for age in (0..OLD_LOGS).rev() {
        match fs::rename(name(age), name(age + 1)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_start_begins_a_new_log_and_keeps_a_few_old_ones() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ronde.log");
        for start in 1..=6 {
            writeln!(LogFile::start(&path).unwrap(), "start {start}").unwrap();
        }
        let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        assert_eq!(read("ronde.log"), "start 6\n");
        assert_eq!(read("ronde.log.1"), "start 5\n");
        assert_eq!(read("ronde.log.3"), "start 3\n");
        assert!(!dir.path().join("ronde.log.4").exists());
    }

    #[test]
    fn a_full_disk_costs_lines_and_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("disk");
        let Some(disk) = ronde_sim::SmallDisk::mount(&place, "size=1m") else { return };
        let mut log = LogFile::start(&place.join("ronde.log")).unwrap();
        disk.fill();
        let line = [b'x'; 1023].into_iter().chain([b'\n']).collect::<Vec<u8>>();
        for _ in 0..100 {
            log.write_all(&line).unwrap();
        }
        assert!((10..100).contains(&log.lost), "{} of 100 lines are lost", log.lost);
        disk.relieve().unwrap();
        let told = format!("[{} lines are missing", log.lost);
        log.write_all(b"again\n").unwrap();
        let text = fs::read_to_string(place.join("ronde.log")).unwrap();
        assert!(text.contains(&told) && text.ends_with("again\n"), "{told}");
    }

    #[test]
    fn a_full_log_is_followed_by_a_new_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ronde.log");
        let mut log = LogFile::start(&path).unwrap();
        log.written = LOG_BYTES_MAX + 1;
        log.write_all(b"fresh\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "fresh\n");
        assert!(dir.path().join("ronde.log.1").exists());
    }
}
