//! Log lines: to stderr in the foreground, to `ronde.log` in the background. `RONDE_LOG` chooses what is logged.
//!
//! The log of the background is bounded: it starts anew with every start and whenever it is full; a few old ones
//! are kept beside it.

use std::{
    fmt,
    io::{self, IsTerminal as _, Write},
    path::{Path, PathBuf},
    sync::Mutex,
};

use fs_err::{self as fs, os::unix::fs::OpenOptionsExt as _};
use tracing_subscriber::{
    EnvFilter,
    fmt::{format::Writer, time::FormatTime},
};

use crate::environment::{self, Environment};

/// What goes wrong between a client and the API is said by those who asked, in their words.
const DEFAULT_FILTER: &str = "info,kube_client=off";
/// Weeks of a quiet instance, or the last minutes of a very noisy one.
const LOG_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// `ronde.log.1` to `ronde.log.3`.
const OLD_LOGS: u32 = 3;

/// Starts logging for this process, to a file if one is named.
pub fn start(environment: &Environment, file: Option<&Path>) -> io::Result<()> {
    let filter = environment.log_filter.as_deref().unwrap_or(DEFAULT_FILTER);
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_target(false).with_timer(Seconds);
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
}

impl LogFile {
    fn start(path: &Path) -> io::Result<Self> {
        keep_old(path)?;
        let file = fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        Ok(Self { path: path.to_owned(), file, written: 0 })
    }
}

impl Write for LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.written > LOG_BYTES_MAX {
            *self = Self::start(&self.path)?;
        }
        self.written += bytes.len() as u64;
        self.file.write(bytes)
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
