//! Finds out which hosts the job may use: by a program that prints them, again and again, or by a file that is watched.
//!
//! A program is given a time and a length of output; a file is read when it changes, so a change is known within
//! [`GLANCE`]. What is wrong with either is told in words; the driver decides what follows.

use std::{
    io,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, SystemTime},
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::Command,
    sync::mpsc,
    time,
};

use super::model::{Event, HostSlots};
use crate::hosts;

/// Horovod's interval between two looks.
pub(super) const INTERVAL: Duration = Duration::from_secs(1);
/// Between two glances at a file.
const GLANCE: Duration = Duration::from_millis(50);
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// More hosts than fit in here are not in one place.
const OUTPUT_MAX: usize = 1024 * 1024;
/// Of what a program says when it fails.
const ERROR_MAX: usize = 400;

/// Where the hosts come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// They stay as they are.
    Fixed(Vec<HostSlots>),
    Script(Script),
}

/// A program that prints `host` or `host:slots` in each line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// As it was given: a line of shell, as in the original.
    pub command: String,
    /// For hosts without a number.
    pub slots_default: Option<usize>,
    /// A file that changes whenever the program would print something else.
    pub file: Option<PathBuf>,
    pub interval: Duration,
    /// A program that takes longer is stopped.
    pub patience: Duration,
}

/// Looks for hosts for ever, and tells of every look.
pub(super) async fn watch(source: Source, events: mpsc::Sender<Event>) {
    match source {
        Source::Fixed(hosts) => {
            let _ = events.send(Event::Hosts(hosts)).await;
        }
        Source::Script(script) => follow(&script, &events).await,
    }
}

async fn follow(script: &Script, events: &mpsc::Sender<Event>) {
    loop {
        let mark = mark(script.file.as_deref());
        let event = match look(script).await {
            Ok(hosts) => Event::Hosts(hosts),
            Err(error) => Event::DiscoveryFailed(error),
        };
        if events.send(event).await.is_err() {
            return;
        }
        wait(script, mark).await;
    }
}

/// Waits for the next look: until the interval is over, or the file is another one.
async fn wait(script: &Script, before: Option<(SystemTime, u64)>) {
    let Some(file) = &script.file else { return time::sleep(script.interval).await };
    let until = time::Instant::now() + script.interval;
    while mark(Some(file)) == before && time::Instant::now() < until {
        time::sleep(GLANCE).await;
    }
}

/// Tells one state of a file from another; a folder that Kubernetes mounts changes by its links.
fn mark(file: Option<&Path>) -> Option<(SystemTime, u64)> {
    let found = fs_err::metadata(file?).ok()?;
    Some((found.modified().ok()?, std::os::unix::fs::MetadataExt::ino(&found)))
}

/// Runs the program once and reads what it prints.
async fn look(script: &Script) -> Result<Vec<HostSlots>, String> {
    let name = &script.command;
    let output = time::timeout(script.patience, run(name)).await;
    let output = output.map_err(|_| format!("`{name}` has not ended within {:?}", script.patience))?;
    let (code, stdout, stderr) = output.map_err(|error| format!("`{name}` cannot be run: {error}"))?;
    match code {
        Some(0) => read(name, &stdout, script.slots_default),
        Some(126) => Err(format!("`{name}` cannot be executed; `chmod +x` may help")),
        Some(127) => Err(format!("`{name}` was not found")),
        Some(code) => Err(format!("`{name}` ended with code {code}{}", said(&stderr))),
        None => Err(format!("`{name}` was ended by a signal")),
    }
}

async fn run(command: &str) -> io::Result<(Option<i32>, Vec<u8>, Vec<u8>)> {
    let mut child = Command::new("/bin/sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let missing = || io::Error::other("it has no output");
    let (stdout, stderr) = (child.stdout.take().ok_or_else(missing)?, child.stderr.take().ok_or_else(missing)?);
    // Whoever prints too much is stopped: nobody reads the rest.
    let (stdout, stderr) = tokio::try_join!(read_all(stdout), read_all(stderr))?;
    Ok((child.wait().await?.code(), stdout, stderr))
}

async fn read_all(from: impl AsyncRead + Unpin) -> io::Result<Vec<u8>> {
    let limit = u64::try_from(OUTPUT_MAX).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    from.take(limit + 1).read_to_end(&mut bytes).await?;
    if bytes.len() > OUTPUT_MAX { Err(io::Error::other("it prints more than a megabyte")) } else { Ok(bytes) }
}

fn said(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let text = text.trim();
    if text.is_empty() { String::new() } else { format!(": {}", &text[..text.floor_char_boundary(ERROR_MAX)]) }
}

/// Reads hosts line by line; a host that is printed twice counts once.
fn read(name: &str, stdout: &[u8], slots_default: Option<usize>) -> Result<Vec<HostSlots>, String> {
    let text = std::str::from_utf8(stdout).map_err(|_| format!("`{name}` prints what is no text"))?;
    let mut found: Vec<HostSlots> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let host = hosts::parse_host(line, slots_default.unwrap_or(0), hosts::Place::Arguments);
        let host = host.map_err(|error| match error {
            hosts::HostsError::NoSlots { name: host, .. } if !line.contains(':') => {
                format!("`{name}` gives no number of slots for host `{host}`; --slots-per-host would")
            }
            _ => format!("`{name}` prints `{}`, which is not `host` or `host:slots`", shortened(line)),
        })?;
        match found.iter_mut().find(|it| it.host == host.name) {
            Some(before) => before.slots = host.slots,
            None => found.push(HostSlots { host: host.name, slots: host.slots }),
        }
    }
    Ok(found)
}

fn shortened(line: &str) -> &str {
    &line[..line.floor_char_boundary(80)]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::mpsc;

    use super::{Event, Script, Source, look, read, watch};

    fn shown(text: &str, slots_default: Option<usize>) -> String {
        match read("find.sh", text.as_bytes(), slots_default) {
            Ok(hosts) => hosts.iter().map(|it| format!("{}={}", it.host, it.slots)).collect::<Vec<_>>().join(" "),
            Err(error) => error,
        }
    }

    #[test]
    fn what_a_program_prints() {
        assert_eq!(shown("a:2\n\n b:1 \r\n", None), "a=2 b=1");
        assert_eq!(shown("a\nb:3\n", Some(2)), "a=2 b=3");
        assert_eq!(shown("a:2\na:2\n", None), "a=2");
        assert_eq!(shown("", None), "");
        assert_eq!(shown("a\n", None), "`find.sh` gives no number of slots for host `a`; --slots-per-host would");
        assert_eq!(shown("a:0\n", Some(1)), "`find.sh` prints `a:0`, which is not `host` or `host:slots`");
        assert_eq!(shown("<html> no\n", Some(1)), "`find.sh` prints `<html> no`, which is not `host` or `host:slots`");
        assert!(read("find.sh", b"\xff\xfe", None).unwrap_err().contains("no text"));
    }

    fn script(command: &str) -> Script {
        let (interval, patience) = (Duration::from_millis(10), super::PATIENCE);
        Script { command: command.to_owned(), slots_default: None, file: None, interval, patience }
    }

    #[tokio::test]
    async fn what_is_wrong_with_a_program_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let plain = folder.path().join("plain.sh");
        fs_err::write(&plain, "echo a:1").unwrap();
        let plain = plain.display().to_string();
        for (command, expected) in [
            ("echo a:1; exit 3", "ended with code 3"),
            ("echo no such cloud >&2; exit 1", "ended with code 1: no such cloud"),
            ("/no/such/program", "was not found"),
            (plain.as_str(), "cannot be executed; `chmod +x` may help"),
            ("kill -9 $$", "was ended by a signal"),
            ("head -c 3000000 /dev/zero", "it prints more than a megabyte"),
        ] {
            let error = look(&script(command)).await.unwrap_err();
            assert!(error.contains(expected), "{command}: {error}");
        }
    }

    #[tokio::test]
    async fn a_program_that_hangs_is_stopped() {
        let hanging = Script { patience: Duration::from_millis(50), ..script("exec sleep 3600") };
        assert_eq!(look(&hanging).await.unwrap_err(), "`exec sleep 3600` has not ended within 50ms");
    }

    #[tokio::test]
    async fn a_file_that_changes_is_seen_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("hosts");
        fs_err::write(&file, "a:1\n").unwrap();
        let mut script = script(&format!("cat {}", file.display()));
        (script.file, script.interval) = (Some(file.clone()), Duration::from_secs(3600));
        let (sender, mut events) = mpsc::channel(4);
        let task = tokio::spawn(watch(Source::Script(script), sender));
        assert!(matches!(events.recv().await, Some(Event::Hosts(hosts)) if hosts.len() == 1));
        let draft = folder.path().join("draft");
        fs_err::write(&draft, "a:1\nb:1\n").unwrap();
        fs_err::rename(&draft, &file).unwrap();
        assert!(matches!(events.recv().await, Some(Event::Hosts(hosts)) if hosts.len() == 2));
        task.abort();
    }
}
